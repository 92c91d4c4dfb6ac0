#include "tests/fuzz/source.h"

#include <stdio.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"

#define NO_TYPMOD (-1)

/* clang-format off */
#define INT4(n)    {.name = (n), .type_oid = 23, .typmod = NO_TYPMOD, .type_name = "integer", .type_class = TYPE_INT}
#define INT8(n)    {.name = (n), .type_oid = 20, .typmod = NO_TYPMOD, .type_name = "bigint", .type_class = TYPE_INT}
#define TEXT(n)    {.name = (n), .type_oid = 25, .typmod = NO_TYPMOD, .type_name = "text"}
#define BYTEA(n)   {.name = (n), .type_oid = 17, .typmod = NO_TYPMOD, .type_name = "bytea"}
#define UUID(n)    {.name = (n), .type_oid = 2950, .typmod = NO_TYPMOD, .type_name = "uuid"}
#define VARCHAR(n) {.name = (n), .type_oid = 1043, .typmod = 44, .type_name = "character varying"}
#define NUMERIC(n) {.name = (n), .type_oid = 1700, .typmod = 0xA0006, .type_name = "numeric", .type_class = TYPE_NUMERIC}
#define OWN(n, oid, type) {.name = (n), .type_oid = (oid), .typmod = NO_TYPMOD, .type_name = (type)}

static struct column t0[] = {INT4("id"), TEXT("a"), VARCHAR("b")};
static struct column t1[] = {INT4("id"), TEXT("a"), VARCHAR("b"), NUMERIC("added")};
static struct column t2[] = {VARCHAR("b"), TEXT("id"), TEXT("a")};
static struct column full0[] = {INT4("id"), TEXT("v")};
static struct column full1[] = {INT4("id"), BYTEA("v")};
static struct column full2[] = {INT4("id"), TEXT("renamed")};
static struct column index0[] = {TEXT("x"), UUID("k"), NUMERIC("n")};
static struct column index1[] = {UUID("k"), TEXT("x")};
static struct column index2[] = {TEXT("x"), UUID("k"), NUMERIC("n")};
static struct column names0[] = {INT4("日本"), OWN("m", 0x401A, "\"Schöma x\".mood"), OWN("d", 0x4020, "public.posint")};
static struct column names1[] = {INT4("日本"), OWN("m", 0x401A, "\"Schöma x\".mood")};
static struct column pair0[] = {INT8("n"), BYTEA("b"), TEXT("t")};
static struct column pair1[] = {TEXT("t"), INT8("n"), BYTEA("b"), INT4("v")};
/* clang-format on */

static uint16_t first[] = {0}, second[] = {1}, third_second[] = {2, 1}, first_third[] = {0, 2};
static uint8_t int4_key[] = {KEY_INT4}, text_key[] = {KEY_TEXT}, uuid_key[] = {KEY_UUID},
			   pair_key[] = {KEY_TEXT, KEY_BYTEA};

#define SHAPE(s, n, c, k, kinds)                                                                             \
	{                                                                                                        \
		s, n,                                                                                                \
		{                                                                                                    \
			.ncolumns = sizeof(c) / sizeof *(c), .nkeys = sizeof(k) / sizeof *(k), .columns = (c),           \
			.key_columns = (k), .key_kinds = (kinds)                                                         \
		}                                                                                                    \
	}

static const uint32_t oids[SOURCE_TABLES] = {0x4000, 0x4007, 0x400C, 0x4022, 0x5000};

static const struct source_shape shapes[SOURCE_TABLES][SOURCE_SHAPES] = {
	{SHAPE("public", "t", t0, first, int4_key), SHAPE("public", "t", t1, first, int4_key),
	 SHAPE("public", "t", t2, second, text_key)},
	{SHAPE("public", "full_row", full0, first, int4_key), SHAPE("public", "full_row", full1, first, int4_key),
	 SHAPE("public", "full_row", full2, first, int4_key)},
	{SHAPE("public", "by_index", index0, second, uuid_key),
	 SHAPE("public", "by_index", index1, first, uuid_key),
	 SHAPE("public", "by_index", index2, first, text_key)},
	{SHAPE("Schöma x", "T.äble\"q", names0, first, int4_key),
	 SHAPE("Schöma x", "T.äble\"q", names1, first, int4_key),
	 SHAPE("public", "renamed", names0, first, int4_key)},
	{SHAPE("public", "pair", pair0, third_second, pair_key),
	 SHAPE("public", "pair", pair1, first_third, pair_key),
	 SHAPE("public", "pair", pair0, third_second, pair_key)},
};

uint32_t source_oid(unsigned table)
{
	return oids[table % SOURCE_TABLES];
}

const struct source_shape *source_shape(unsigned table, unsigned shape)
{
	return &shapes[table % SOURCE_TABLES][shape % SOURCE_SHAPES];
}

/* ---- texts ---- */

static const char prefix_600[] =
#define TEN     "0123456789"
#define HUNDRED TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN
	HUNDRED HUNDRED HUNDRED HUNDRED HUNDRED HUNDRED;

/* Short ones, and ones beyond LMDB's limit that share their first 600 bytes. */
static const char *const key_texts[SOURCE_KEYS] = {
	"",   "a",  "b",          "é",        "Z",        "-a",       "00000000-0000-0000-0000-000000000001",
	"a",  "1",  "quote'\"\\", prefix_600, prefix_600, prefix_600, "tab\tline\n",
	"10", "ab",
};

static struct slice text_key_of(unsigned key)
{
	static char text[sizeof prefix_600 + 8];

	snprintf(text, sizeof text, "%s%s", key_texts[key],
			 key_texts[key] == prefix_600 ? key_texts[key - 8] : "");
	return slice_of(text);
}

struct slice source_key_text(const struct source_shape *s, unsigned i, unsigned key)
{
	static char text[64];

	key %= SOURCE_KEYS;
	switch (s->schema.key_kinds[i]) {
	case KEY_INT4: snprintf(text, sizeof text, "%d", (int)key - 4); break;
	case KEY_UUID: snprintf(text, sizeof text, "00000000-0000-0000-0000-%012x", key); break;
	case KEY_BYTEA: snprintf(text, sizeof text, key % 3 ? "\\x%02x00" : "\\x", key); break;
	default: return text_key_of(key);
	}
	return slice_of(text);
}

struct slice source_value_text(unsigned value)
{
	static char large[3000];

	switch (value % SOURCE_VALUES) {
	case VALUE_NULL:
	case VALUE_UNCHANGED: return (struct slice){0};
	case 2: return slice_of("");
	case 3: return slice_of("1.50");
	case 4: memset(large, 'x', sizeof large); return (struct slice){(uint8_t *)large, sizeof large};
	case 5: return slice_of("{\"json\": [1, null]}");
	case 6: return (struct slice){(const uint8_t *)"nul\0inside", 10};
	default: return slice_of("日本");
	}
}

int source_key_index(const struct source_shape *s, unsigned column)
{
	for (int i = 0; i < s->schema.nkeys; i++)
		if (s->schema.key_columns[i] == column) return i;
	return -1;
}

/* ---- messages ---- */

static void put_text(struct buf *out, const char *s)
{
	buf_put(out, s, strlen(s) + 1);
}

static void put_cell(struct buf *out, uint8_t kind, struct slice text)
{
	buf_put_u8(out, kind);
	if (kind != 't') return;
	buf_put_u32(out, (uint32_t)text.n);
	buf_put(out, text.p, text.n);
}

static void put_value(struct buf *out, unsigned value)
{
	struct slice text = source_value_text(value);

	put_cell(out, value == VALUE_UNCHANGED ? 'u' : text.p ? 't' : 'n', text);
}

/* only_key: the other columns are not sent. */
static void put_tuple(struct buf *out, uint8_t letter, const struct source_shape *s, struct source_tuple t,
					  bool only_key)
{
	uint32_t values = t.values;

	buf_put_u8(out, letter);
	buf_put_u16(out, s->schema.ncolumns);
	for (unsigned i = 0; i < s->schema.ncolumns; i++) {
		int k = source_key_index(s, i);

		if (k >= 0) {
			put_cell(out, "tun"[t.key_is], source_key_text(s, (unsigned)k, t.key));
			continue;
		}
		put_value(out, only_key ? VALUE_NULL : values % SOURCE_VALUES);
		values /= SOURCE_VALUES;
	}
}

static void put_old(struct buf *out, const struct source_shape *s, enum source_old how,
					struct source_tuple old)
{
	if (how != OLD_NONE) put_tuple(out, how == OLD_KEY ? 'K' : 'O', s, old, how == OLD_KEY);
}

void source_put_begin(struct buf *out, uint64_t commit_lsn, uint32_t xid)
{
	buf_put_u8(out, 'B');
	buf_put_u64(out, commit_lsn);
	buf_put_u64(out, commit_lsn * 1000);
	buf_put_u32(out, xid);
}

void source_put_commit(struct buf *out, uint64_t commit_lsn, uint64_t end_lsn)
{
	buf_put_u8(out, 'C');
	buf_put_u8(out, 0);
	buf_put_u64(out, commit_lsn);
	buf_put_u64(out, end_lsn);
	buf_put_u64(out, commit_lsn * 1000);
}

void source_put_relation(struct buf *out, unsigned table, unsigned shape)
{
	const struct source_shape *s = source_shape(table, shape);

	buf_put_u8(out, 'R');
	buf_put_u32(out, source_oid(table));
	put_text(out, s->schema_name);
	put_text(out, s->table_name);
	buf_put_u8(out, 'd');
	buf_put_u16(out, s->schema.ncolumns);
	for (unsigned i = 0; i < s->schema.ncolumns; i++) {
		const struct column *c = &s->schema.columns[i];

		buf_put_u8(out, source_key_index(s, i) >= 0);
		put_text(out, c->name);
		buf_put_u32(out, c->type_oid);
		buf_put_u32(out, (uint32_t)c->typmod);
	}
}

void source_put_insert(struct buf *out, unsigned table, unsigned shape, struct source_tuple new)
{
	buf_put_u8(out, 'I');
	buf_put_u32(out, source_oid(table));
	put_tuple(out, 'N', source_shape(table, shape), new, false);
}

void source_put_update(struct buf *out, unsigned table, unsigned shape, enum source_old how,
					   struct source_tuple old, struct source_tuple new)
{
	buf_put_u8(out, 'U');
	buf_put_u32(out, source_oid(table));
	put_old(out, source_shape(table, shape), how, old);
	put_tuple(out, 'N', source_shape(table, shape), new, false);
}

void source_put_delete(struct buf *out, unsigned table, unsigned shape, enum source_old how,
					   struct source_tuple old)
{
	buf_put_u8(out, 'D');
	buf_put_u32(out, source_oid(table));
	put_old(out, source_shape(table, shape), how == OLD_FULL ? OLD_FULL : OLD_KEY, old);
}

void source_put_truncate(struct buf *out, uint8_t tables)
{
	uint32_t n = 0;

	for (unsigned i = 0; i < SOURCE_TABLES; i++)
		n += tables >> i & 1;
	buf_put_u8(out, 'T');
	buf_put_u32(out, n);
	buf_put_u8(out, 0);
	for (unsigned i = 0; i < SOURCE_TABLES; i++)
		if (tables >> i & 1) buf_put_u32(out, source_oid(i));
}
