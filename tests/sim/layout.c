#include "tests/sim/layout.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OID_INT4 23
#define OID_TEXT 25

static int add_column(struct layout *l, const char *name, uint32_t oid)
{
	int i = l->schema.ncolumns++;

	l->columns[i] = (struct column){.name = name,
									.type_oid = oid,
									.typmod = -1,
									.type_name = oid == OID_INT4 ? "integer" : "text",
									.type_class = oid == OID_INT4 ? TYPE_INT : TYPE_OTHER};
	return i;
}

void layout_init(struct layout *l, int table, const struct src_table *t, struct rng *rng)
{
	unsigned order = rng_below(rng, 3);

	memset(l, 0, sizeof *l);
	l->table = table;
	l->table_id = (uint32_t)table + 1;
	l->nwide = t->nwide;
	l->key_kind = KEY_INT4;
	l->filter_sql = t->filtered ? "a % 3 <> 0" : NULL;
	snprintf(l->name, sizeof l->name, "t%d", table);
	snprintf(l->from_sql, sizeof l->from_sql, "ONLY \"public\".\"%s\"", l->name);
	if (order == 0) l->key_column = (uint16_t)add_column(l, "id", OID_INT4);
	l->wide_columns[0] = add_column(l, "w0", OID_TEXT);
	if (order == 1) l->key_column = (uint16_t)add_column(l, "id", OID_INT4);
	l->version_column = add_column(l, "a", OID_INT4);
	l->tenant_column = add_column(l, "tenant", OID_INT4);
	if (l->nwide > 1) l->wide_columns[1] = add_column(l, "w1", OID_TEXT);
	if (order == 2) l->key_column = (uint16_t)add_column(l, "id", OID_INT4);
	l->schema.table_id = l->table_id;
	l->schema.version = 1;
	l->schema.columns = l->columns;
	l->schema.nkeys = 1;
	l->schema.key_columns = &l->key_column;
	l->schema.key_kinds = &l->key_kind;
}

struct table_record layout_record(const struct layout *l)
{
	return (struct table_record){.id = l->table_id,
								 .oid = 1000 + l->table_id,
								 .schema_name = "public",
								 .table_name = l->name,
								 .state = TABLE_COPYING,
								 .schema_version = 1};
}

/* ---- rows ---- */

void layout_texts(const struct layout *l, int key, struct src_row row, struct row_texts *out)
{
	memset(out, 0, sizeof *out);
	snprintf(out->text[l->key_column], sizeof out->text[0], "%d", key);
	snprintf(out->text[l->version_column], sizeof out->text[0], "%u", row.version);
	out->null[l->tenant_column] = row.tenant == 0;
	snprintf(out->text[l->tenant_column], sizeof out->text[0], "%u", row.tenant);
	for (int i = 0; i < l->nwide; i++) {
		int c = l->wide_columns[i];

		out->null[c] = row.wide[i] == 0;
		/* Some are longer than others, for chunks that are cut. */
		snprintf(out->text[c], sizeof out->text[c], "wide-%0*u", row.wide[i] % 5 == 0 ? 60 : 1, row.wide[i]);
	}
}

static bool parse_number(const char *text, const char *prefix, uint32_t *out)
{
	size_t n = strlen(prefix);
	char *end;

	if (strncmp(text, prefix, n) != 0) return false;
	*out = (uint32_t)strtoul(text + n, &end, 10);
	return end > text + n && *end == '\0';
}

bool layout_row_of_texts(const struct layout *l, const struct row_texts *t, struct src_row *out)
{
	bool ok = parse_number(t->text[l->version_column], "", &out->version);

	if (!t->null[l->tenant_column]) ok = parse_number(t->text[l->tenant_column], "", &out->tenant) && ok;
	for (int i = 0; i < l->nwide; i++)
		if (!t->null[l->wide_columns[i]])
			ok = parse_number(t->text[l->wide_columns[i]], "wide-", &out->wide[i]) && ok;
	return ok;
}

size_t layout_key(int key, uint8_t out[LAYOUT_KEY_SIZE])
{
	be32_put(out, (uint32_t)key ^ 0x80000000U);
	return 4;
}

int layout_key_of(struct slice encoded)
{
	return encoded.n == 4 ? (int)(be32_get(encoded.p) ^ 0x80000000U) : -1;
}

void layout_encode(const struct layout *l, struct buf *out, struct pos pos, xid_t born, int key,
				   struct src_row row, unsigned unsent)
{
	struct row_texts texts;
	struct cell cells[LAYOUT_COLUMNS_MAX];

	layout_texts(l, key, row, &texts);
	for (int c = 0; c < l->schema.ncolumns; c++)
		cells[c] = texts.null[c] ? (struct cell){.kind = CELL_NULL}
								 : (struct cell){.kind = CELL_TEXT, .text = slice_of(texts.text[c])};
	for (int i = 0; i < l->nwide; i++)
		if (unsent >> i & 1) cells[l->wide_columns[i]] = (struct cell){.kind = CELL_ABSENT, .doubt = true};
	row_encode(out, pos, 1, born, (struct slice){0}, cells, l->schema.ncolumns);
}

/* A number behind `prefix`; false: not of that form. */
static bool text_number(const struct cell *c, const char *prefix, uint32_t *out)
{
	size_t n = strlen(prefix);
	char text[LAYOUT_TEXT_SIZE];

	if (c->kind != CELL_TEXT || c->text.n <= n || c->text.n >= sizeof text ||
		memcmp(c->text.p, prefix, n) != 0)
		return false;
	memcpy(text, c->text.p, c->text.n);
	text[c->text.n] = '\0';
	*out = (uint32_t)strtoul(text + n, NULL, 10);
	return true;
}

static bool decode_wide(const struct cell *c, struct layout_entry *out, int i)
{
	out->doubt[i] = c->doubt;
	out->absent[i] = c->kind == CELL_ABSENT;
	return c->kind != CELL_TEXT || text_number(c, "wide-", &out->row.wide[i]);
}

static bool decode_tenant(const struct cell *c, struct layout_entry *out)
{
	return c->kind == CELL_NULL || text_number(c, "", &out->row.tenant);
}

bool layout_decode(const struct layout *l, struct slice entry, struct layout_entry *out, struct err *err)
{
	struct cell cells[LAYOUT_COLUMNS_MAX];
	struct row_head head;
	uint32_t key;
	bool ok;

	memset(out, 0, sizeof *out);
	out->key = -1;
	if (!row_decode(entry, l->schema.ncolumns, &head, cells, err)) return false;
	out->flags = head.flags;
	out->pos = head.pos;
	if (head.flags & ROW_DELETED) return true;
	ok = text_number(&cells[l->key_column], "", &key) &&
		 text_number(&cells[l->version_column], "", &out->row.version) &&
		 decode_tenant(&cells[l->tenant_column], out);
	for (int i = 0; i < l->nwide; i++)
		ok = decode_wide(&cells[l->wide_columns[i]], out, i) && ok;
	if (!ok) return err_set(err, ERR_CORRUPT, "a row with values that no table has");
	out->key = (int)key;
	out->other_doubt =
		cells[l->key_column].doubt || cells[l->version_column].doubt || cells[l->tenant_column].doubt;
	return true;
}
