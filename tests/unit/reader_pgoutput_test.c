/* Real messages (tests/golden/pgoutput.txt) must decode to what is listed here; nothing else may crash. */
#include "reader/pgoutput.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define GOLDEN "tests/golden/pgoutput.txt"

static const struct expected {
	const char *name, *text;
} expected[] = {
	/* As the server's tools saw it: see the comments in the file. */
	{"insert.B", "begin commit=0/1552280 time=1795970961823474 xid=726"},
	{"insert.R", "relation 16384 public.t d id*:23:-1 a:25:-1 b:1043:44"},
	{"insert.I", "I 16384 new(1|plain|x)"},
	{"insert.C", "commit commit=0/1552280 end=0/15522B0 time=1795970961823474"},
	{"nulls.I", "I 16384 new(2|NULL|NULL)"},
	{"empty.I", "I 16384 new(3||)"},
	{"bytes.I", "I 16384 new(4|tab\t \"quote\\ \xc3\xa9 \xe6\x97\xa5\xe6\x9c\xac \xf0\x9f\x98\x80|y)"},
	{"toasted.I", "I 16384 new(5|2500 bytes|z)"},
	{"update.U", "U 16384 new(1|plain|new)"},
	{"update_key.U", "U 16384 K(1|NULL|NULL) new(11|plain|new)"},
	{"update_toasted.U", "U 16384 new(5|unchanged|kept)"},
	{"delete.D", "D 16384 K(2|NULL|NULL)"},
	{"full_insert.R", "relation 16391 public.full_row f id*:23:-1 v*:25:-1"},
	{"full_insert.I", "I 16391 new(1|NULL)"},
	{"full_update.U", "U 16391 O(1|NULL) new(1|set)"},
	{"full_toast.U", "U 16391 O(1|set) new(1|2500 bytes)"},
	{"full_toasted.U", "U 16391 O(1|2500 bytes) new(2|unchanged)"},
	{"full_delete.D", "D 16391 O(2|2500 bytes)"},
	{"index_insert.R", "relation 16396 public.by_index i x:25:-1 k*:2950:-1 n:1700:655366"},
	{"index_insert.I", "I 16396 new(x|00000000-0000-0000-0000-00000000000a|1.50)"},
	{"index_update.U", "U 16396 K(NULL|00000000-0000-0000-0000-00000000000a|NULL) "
					   "new(x|00000000-0000-0000-0000-00000000000b|1.50)"},
	{"index_delete.D", "D 16396 K(NULL|00000000-0000-0000-0000-00000000000b|NULL)"},
	{"no_identity.R", "relation 16402 public.no_identity n v:23:-1"},
	{"no_identity.I", "I 16402 new(7)"},
	{"no_columns.R", "relation 16405 public.no_columns d"},
	{"no_columns.I", "I 16405 new()"},
	{"names.Y", "type"},
	{"names.Y", "type"},
	{"names.R", "relation 16418 Sch\xc3\xb6ma x.T.\xc3\xa4"
				"ble\"q d \xe6\x97\xa5\xe6\x9c\xac*:23:-1 m:16410:-1 d:16416:-1"},
	{"names.I", "I 16418 new(1|gl\xc3\xbc"
				"cklich|5)"},
	{"truncate.T", "truncate 16384"},
	{"truncate_two.T", "truncate cascade restart 16391 16396"},
	{"message.M", "message transactional 0/1557D80 tidemark (watermark \t 1)"},
	{"message_now.M", "message now 0/1557DE8  ()"},
	{"origin.O", "origin"},
	{"origin.I", "I 16402 new(8)"},
};

#define NEXPECTED (sizeof expected / sizeof *expected)

/* ---- a decoded message as text ---- */

static void say(struct buf *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void say(struct buf *out, const char *fmt, ...)
{
	char text[4096];
	va_list ap;

	va_start(ap, fmt);
	buf_put(out, text, (size_t)vsnprintf(text, sizeof text, fmt, ap));
	va_end(ap);
}

static void say_cell(struct buf *out, const struct pgo_cell *c)
{
	if (c->kind == 'n')
		say(out, "NULL");
	else if (c->kind == 'u')
		say(out, "unchanged");
	else if (c->text.n > 100)
		say(out, "%zu bytes", c->text.n);
	else
		say(out, "%.*s", (int)c->text.n, (const char *)c->text.p);
}

static void say_tuple(struct buf *out, const char *what, const struct pgo_tuple *t)
{
	say(out, " %s(", what);
	for (uint16_t i = 0; i < t->n; i++) {
		say(out, "%s", i > 0 ? "|" : "");
		say_cell(out, &t->cells[i]);
	}
	say(out, ")");
}

static void say_change(struct buf *out, const struct pgo_msg *m)
{
	char old[2] = {m->u.change.old_kind, 0};

	say(out, "%c %" PRIu32, m->kind, m->u.change.oid);
	if (m->u.change.old_kind != 0) say_tuple(out, old, &m->u.change.old_tuple);
	if (m->kind != PGO_DELETE) say_tuple(out, "new", &m->u.change.new_tuple);
}

static void say_relation(struct buf *out, const struct pgo_msg *m)
{
	say(out, "relation %" PRIu32 " %s.%s %c", m->u.relation.oid, m->u.relation.schema_name,
		m->u.relation.name, m->u.relation.identity);
	for (uint16_t i = 0; i < m->u.relation.n; i++) {
		const struct pgo_column *c = &m->u.relation.columns[i];
		say(out, " %s%s:%" PRIu32 ":%" PRId32, c->name, c->key ? "*" : "", c->type_oid, c->typmod);
	}
}

static void say_truncate(struct buf *out, const struct pgo_msg *m)
{
	say(out, "truncate%s%s", m->u.truncate.cascade ? " cascade" : "",
		m->u.truncate.restart_identity ? " restart" : "");
	for (uint32_t i = 0; i < m->u.truncate.n; i++)
		say(out, " %" PRIu32, m->u.truncate.oids[i]);
}

static void say_message(struct buf *out, const struct pgo_msg *m)
{
	char a[LSN_TEXT_SIZE], b[LSN_TEXT_SIZE];

	switch (m->kind) {
	case PGO_BEGIN:
		say(out, "begin commit=%s time=%" PRId64 " xid=%" PRIu32, lsn_format(m->u.begin.commit_lsn, a),
			m->u.begin.commit_time_us, m->u.begin.xid);
		break;
	case PGO_COMMIT:
		say(out, "commit commit=%s end=%s time=%" PRId64, lsn_format(m->u.commit.commit_lsn, a),
			lsn_format(m->u.commit.end_lsn, b), m->u.commit.commit_time_us);
		break;
	case PGO_ORIGIN: say(out, "origin"); break;
	case PGO_TYPE: say(out, "type"); break;
	case PGO_RELATION: say_relation(out, m); break;
	case PGO_INSERT:
	case PGO_UPDATE:
	case PGO_DELETE: say_change(out, m); break;
	case PGO_TRUNCATE: say_truncate(out, m); break;
	case PGO_MESSAGE:
		say(out, "message %s %s %s (%.*s)", m->u.message.transactional ? "transactional" : "now",
			lsn_format(m->u.message.lsn, a), m->u.message.prefix, (int)m->u.message.content.n,
			(const char *)m->u.message.content.p);
		break;
	}
	buf_put_u8(out, 0);
}

/* ---- fixtures ---- */

struct golden {
	char name[64];
	uint8_t *p;
	size_t n;
};

struct fixture {
	struct golden all[NEXPECTED + 1];
	size_t n;
	struct pgo_scratch *scratch;
};

static uint8_t unhex(char c)
{
	return (uint8_t)(c <= '9' ? c - '0' : c - 'a' + 10);
}

static void read_golden(struct golden *g, const char *line)
{
	const char *hex = strchr(line, ' ') + 1;

	snprintf(g->name, sizeof g->name, "%.*s", (int)(hex - 1 - line), line);
	g->n = strcspn(hex, "\n") / 2;
	g->p = malloc(g->n);
	for (size_t i = 0; i < g->n; i++)
		g->p[i] = (uint8_t)(unhex(hex[2 * i]) << 4 | unhex(hex[2 * i + 1]));
}

static int set_up(void **state)
{
	static struct fixture f;
	FILE *in = fopen(GOLDEN, "r");
	char *line = NULL;
	size_t cap = 0;

	if (in == NULL) return -1;
	f.scratch = malloc(sizeof *f.scratch);
	while (getline(&line, &cap, in) > 0 && f.n <= NEXPECTED)
		if (line[0] != '#') read_golden(&f.all[f.n++], line);
	free(line);
	fclose(in);
	*state = &f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	for (size_t i = 0; i < f->n; i++)
		free(f->all[i].p);
	free(f->scratch);
	return 0;
}

/* Decodes a copy of exactly n bytes, so that a read past the end is seen by the sanitizer. */
static bool decode(struct fixture *f, const uint8_t *p, size_t n, struct buf *text, struct err *err)
{
	uint8_t *copy = malloc(n > 0 ? n : 1);
	struct pgo_msg m;
	bool ok;

	memcpy(copy, p, n);
	*err = (struct err){0};
	ok = pgo_decode((struct slice){copy, n}, f->scratch, &m, err);
	if (ok)
		say_message(text, &m);
	else
		assert_int_equal(err->kind, ERR_PROTOCOL);
	free(copy);
	return ok;
}

static void assert_refused(struct fixture *f, const uint8_t *p, size_t n, const char *with)
{
	struct buf text = {0};
	struct err err;

	if (decode(f, p, n, &text, &err)) fail_msg("%zu bytes decode to %s", n, (const char *)text.p);
	if (with != NULL && strcmp(err.msg, with) != 0) fail_msg("expected: %s\n     got: %s", with, err.msg);
	buf_finish(&text);
}

/* ---- tests ---- */

static void golden_messages_decode(void **state)
{
	struct fixture *f = *state;
	struct buf text = {0};
	struct err err;

	assert_int_equal(f->n, NEXPECTED);
	for (size_t i = 0; i < f->n; i++) {
		buf_reset(&text);
		assert_string_equal(f->all[i].name, expected[i].name);
		if (!decode(f, f->all[i].p, f->all[i].n, &text, &err)) fail_msg("%s: %s", expected[i].name, err.msg);
		assert_string_equal((const char *)text.p, expected[i].text);
	}
	buf_finish(&text);
}

static void every_truncation_is_refused(void **state)
{
	struct fixture *f = *state;

	for (size_t i = 0; i < f->n; i++)
		for (size_t n = 0; n < f->all[i].n; n++)
			assert_refused(f, f->all[i].p, n, NULL);
}

static void every_byte_too_many_is_refused(void **state)
{
	struct fixture *f = *state;

	for (size_t i = 0; i < f->n; i++) {
		size_t n = f->all[i].n;
		uint8_t *longer = malloc(n + 1);

		memcpy(longer, f->all[i].p, n);
		for (int c = 0; c < 256; c++) {
			longer[n] = (uint8_t)c;
			assert_refused(f, longer, n + 1, NULL);
		}
		free(longer);
	}
}

static uint32_t next_random(uint32_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 17;
	*seed ^= *seed << 5;
	return *seed;
}

/* Flipped bits in up to four places: refused or decoded, and every byte of the result can be read. */
static void damaged_messages_do_no_harm(void **state)
{
	struct fixture *f = *state;
	uint32_t seed = 20000101;
	struct buf text = {0}, bytes = {0};
	struct err err;

	for (int round = 0; round < 30000; round++) {
		const struct golden *g = &f->all[next_random(&seed) % f->n];

		buf_reset(&text);
		buf_reset(&bytes);
		buf_put(&bytes, g->p, g->n);
		for (uint32_t flips = 1 + next_random(&seed) % 4; flips > 0; flips--)
			bytes.p[next_random(&seed) % (g->n < 64 ? g->n : 64)] ^= (uint8_t)(1u << next_random(&seed) % 8);
		decode(f, bytes.p, bytes.n, &text, &err);
	}
	buf_finish(&text);
	buf_finish(&bytes);
}

#define BYTES(s) (const uint8_t *)(s), sizeof(s) - 1

static void faults_are_named(void **state)
{
	static const struct {
		const uint8_t *p;
		size_t n;
		const char *message;
	} cases[] = {
		{BYTES(""), "empty logical replication message"},
		{BYTES("S\0\0\0\1\1"), "unknown logical replication message type 'S'"},
		{BYTES("\0"), "unknown logical replication message type 0x00"},
		{BYTES("\xff"), "unknown logical replication message type 0xff"},
		{BYTES("I\0\0\0\1N\0\1t\0\0\0\3ab"), "insert message of 15 bytes ends inside a field"},
		{BYTES("I\0\0\0\1N\0\1t\xff\xff\xff\xff"
			   "ab"),
		 "insert message of 15 bytes ends inside a field"},
		{BYTES("I\0\0\0\1N\0\1nn"), "insert message of 10 bytes goes on after its last field, at byte 9"},
		{BYTES("I\0\0\0\1N\0\2nb\0\0\0\1x"), "insert message has a column value in binary format, which was "
											 "not asked for (before byte 10 of 15)"},
		{BYTES("I\0\0\0\1N\0\1x"), "insert message has a column value of unknown kind (before byte 9 of 9)"},
		{BYTES("I\0\0\0\1K\0\1n"), "insert message has no 'N' before the new row (before byte 6 of 9)"},
		{BYTES("I\0\0\0\1N\6\x81n"),
		 "insert message has a row of more columns than PostgreSQL allows (before byte 8 of 9)"},
		{BYTES("U\0\0\0\1X\0\0N\0\0"),
		 "update message has neither 'K' nor 'O' before the old row (before byte 6 of 11)"},
		{BYTES("U\0\0\0\1K\0\0K\0\0"), "update message has no 'N' before the new row (before byte 9 of 11)"},
		{BYTES("D\0\0\0\1N\0\0"),
		 "delete message has neither 'K' nor 'O' before the old row (before byte 6 of 8)"},
		{BYTES("R\0\0\0\1s\0t\0x\0\0"),
		 "relation message has an unknown replica identity (before byte 10 of 12)"},
		{BYTES("R\0\0\0\1s\0t\0d\6\x81"),
		 "relation message has more columns than PostgreSQL allows (before byte 12 of 12)"},
		{BYTES("R\0\0\0\1s\0t\0d\0\1\2c\0\0\0\0\0\0\0\0\0"),
		 "relation message has unknown column flags (before byte 13 of 23)"},
		{BYTES("C\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\0"),
		 "commit message has unknown commit flags (before byte 26 of 26)"},
		{BYTES("T\0\0\6\x81\0"),
		 "truncate message has more relations than one message may have (before byte 6 of 6)"},
		{BYTES("T\0\0\0\1\4\0\0\0\1"), "truncate message has unknown truncate flags (before byte 6 of 10)"},
		{BYTES("M\2\0\0\0\0\0\0\0\1\0\0\0\0\0"),
		 "logical message has unknown message flags (before byte 15 of 15)"},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		assert_refused(*state, cases[i].p, cases[i].n, cases[i].message);
}

/* The most that PostgreSQL allows is decoded: 1,664 columns and relations. */
static void the_widest_messages_decode(void **state)
{
	struct fixture *f = *state;
	struct buf row = {0}, truncate = {0};
	struct pgo_msg m;
	struct err err;

	buf_put(&row, "U\0\0\0\1O\6\x80", 8);
	memset(buf_extend(&row, PGO_COLUMNS_MAX), 'n', PGO_COLUMNS_MAX);
	buf_put(&row, "N\6\x80", 3);
	memset(buf_extend(&row, PGO_COLUMNS_MAX), 'u', PGO_COLUMNS_MAX);
	assert_true(pgo_decode((struct slice){row.p, row.n}, f->scratch, &m, &err));
	assert_int_equal(m.u.change.old_tuple.cells[PGO_COLUMNS_MAX - 1].kind, 'n');
	assert_int_equal(m.u.change.new_tuple.cells[PGO_COLUMNS_MAX - 1].kind, 'u');

	buf_put(&truncate, "T\0\0\6\x80\2", 6);
	for (uint32_t i = 0; i < PGO_COLUMNS_MAX; i++)
		buf_put_u32(&truncate, i);
	assert_true(pgo_decode((struct slice){truncate.p, truncate.n}, f->scratch, &m, &err));
	assert_int_equal(m.u.truncate.n, PGO_COLUMNS_MAX);
	assert_int_equal(m.u.truncate.oids[PGO_COLUMNS_MAX - 1], PGO_COLUMNS_MAX - 1);
	assert_false(m.u.truncate.cascade);
	assert_true(m.u.truncate.restart_identity);
	buf_finish(&row);
	buf_finish(&truncate);
}

static bool repl(const uint8_t *p, size_t n, struct repl_msg *out, struct err *err)
{
	*err = (struct err){0};
	return repl_decode((struct slice){p, n}, out, err);
}

#define XLOG      "w\0\0\0\1\0\0\0\2\0\0\0\3\0\0\0\4\0\0\0\0\0\0\0\5"
#define KEEPALIVE "k\0\0\0\1\0\0\0\2\0\0\0\0\0\0\0\5\1"

static void replication_messages_decode(void **state)
{
	struct repl_msg m;
	struct err err;

	(void)state;
	assert_true(repl(BYTES(XLOG "body"), &m, &err));
	assert_int_equal(m.kind, REPL_XLOG);
	assert_int_equal(m.start.v, 0x100000002);
	assert_int_equal(m.wal_end.v, 0x300000004);
	assert_true(slice_eq(m.payload, slice_of("body")));
	assert_false(m.reply_requested);

	assert_true(repl(BYTES(KEEPALIVE), &m, &err));
	assert_int_equal(m.kind, REPL_KEEPALIVE);
	assert_int_equal(m.wal_end.v, 0x100000002);
	assert_true(m.reply_requested);
	assert_int_equal(m.payload.n, 0);
}

static void replication_messages_are_checked(void **state)
{
	struct repl_msg m;
	struct err err;

	(void)state;
	for (size_t n = 0; n < sizeof XLOG - 1; n++)
		assert_false(repl((const uint8_t *)XLOG, n, &m, &err));
	for (size_t n = 0; n < sizeof KEEPALIVE - 1; n++)
		assert_false(repl((const uint8_t *)KEEPALIVE, n, &m, &err));
	assert_false(repl(BYTES(KEEPALIVE "x"), &m, &err));
	assert_string_equal(err.msg, "keepalive message of 19 bytes goes on after its last field, at byte 18");
	assert_false(repl(BYTES("r"), &m, &err));
	assert_string_equal(err.msg, "unknown replication message type 'r'");
	assert_int_equal(err.kind, ERR_PROTOCOL);
}

static void status_is_encoded(void **state)
{
	static const uint8_t wanted[REPL_STATUS_SIZE] =
		"r\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\7\1";
	uint8_t out[REPL_STATUS_SIZE];

	(void)state;
	repl_encode_status(out, LSN(3), LSN(2), LSN(1), INT64_C(946684800000007), true);
	assert_memory_equal(out, wanted, sizeof out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(golden_messages_decode),
		cmocka_unit_test(every_truncation_is_refused),
		cmocka_unit_test(every_byte_too_many_is_refused),
		cmocka_unit_test(damaged_messages_do_no_harm),
		cmocka_unit_test(faults_are_named),
		cmocka_unit_test(the_widest_messages_decode),
		cmocka_unit_test(replication_messages_decode),
		cmocka_unit_test(replication_messages_are_checked),
		cmocka_unit_test(status_is_encoded),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
