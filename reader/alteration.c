#include "reader/alteration.h"

#include <stdlib.h>
#include <string.h>

/* Types below it are the server's own: FirstNormalObjectId. */
#define FIRST_USER_OID 16384

/* Some row of the store may have a column of that name, of whatever version. */
static bool was_a_name(const struct stored *s, size_t i, const char *name)
{
	if (schema_find(s->schemas[i], name) >= 0) return true;
	for (size_t v = 0; v < s->nolder; v++)
		if (s->older[v]->table_id == s->tables[i].id && schema_find(s->older[v], name) >= 0) return true;
	return false;
}

static bool same_column(const struct column *a, const struct column *b)
{
	return a->type_oid == b->type_oid && a->typmod == b->typmod && strcmp(a->name, b->name) == 0;
}

/* Nothing but columns behind those that were there, under names that no row has. */
static bool is_extended(const struct stored *s, size_t i, const struct schema *now)
{
	const struct schema *had = s->schemas[i];
	if (now->ncolumns < had->ncolumns) return false;
	for (uint16_t c = 0; c < now->ncolumns; c++) {
		bool fine = c < had->ncolumns ? same_column(&had->columns[c], &now->columns[c])
									  : !was_a_name(s, i, now->columns[c].name);
		if (!fine) return false;
	}
	return true;
}

/* The texts of the key are others now, and the server may not even read the old ones. */
static bool key_reads_otherwise(const struct table_record *r, const struct source_table *now)
{
	const struct schema *s = now->schema;
	if (!shape_retypes(r->shape, now->shape)) return false;
	for (uint16_t k = 0; k < s->nkeys; k++)
		if (s->columns[s->key_columns[k]].type_oid >= FIRST_USER_OID) return true;
	return false;
}

static bool same_name(const struct table_record *r, const struct source_table *t)
{
	return strcmp(r->schema_name, t->schema_name) == 0 && strcmp(r->table_name, t->table_name) == 0;
}

enum alteration alteration_find(const struct stored *s, size_t i, const struct source_table *now)
{
	const struct table_record *r = &s->tables[i];
	enum shape_change change = shape_compare(r->shape, now->shape);
	if (!schema_same_key(s->schemas[i], now->schema) || key_reads_otherwise(r, now)) return ALTERATION_KEY;
	if (change == SHAPE_EXTENDED && is_extended(s, i, now->schema)) return ALTERATION_EXTENDED;
	if (change == SHAPE_EXTENDED || change == SHAPE_ALTERED || !schema_same(s->schemas[i], now->schema))
		return ALTERATION_COLUMNS;
	return same_name(r, now) ? ALTERATION_NONE : ALTERATION_NAME;
}

/* ---- what follows ---- */

/* A column that is new under a name that some row of the store may have for another. */
static bool reuses_a_name(const struct stored *s, size_t i, const struct schema *now)
{
	for (uint16_t c = 0; c < now->ncolumns; c++) {
		const char *name = now->columns[c].name;
		if (schema_find(s->schemas[i], name) < 0 && was_a_name(s, i, name)) return true;
	}
	return false;
}

/* How many columns are known, of those in front of `limit`. They come first, unless *scattered. */
static uint16_t count_known(const struct schema *had, const struct schema *now, uint16_t limit,
							bool *scattered)
{
	uint16_t n = 0;
	*scattered = false;
	for (uint16_t c = 0; c < now->ncolumns; c++) {
		int before = schema_find(had, now->columns[c].name);
		bool known = before >= 0 && before < limit;
		*scattered |= known && n < c;
		n = (uint16_t)(n + known);
	}
	return n;
}

bool alteration_needs_rows(const struct stored *s, size_t i, const struct source_table *now,
						   enum alteration what, enum on_schema_change mode)
{
	const struct schema *had = s->schemas[i];
	bool scattered;
	if (what != ALTERATION_COLUMNS) return what == ALTERATION_KEY;
	(void)count_known(had, now->schema, had->ncolumns, &scattered);
	return mode == ON_CHANGE_BACKFILL || scattered || shape_renames(s->tables[i].shape, now->shape) ||
		   reuses_a_name(s, i, now->schema);
}

bool alteration_mark(const struct stored *s, size_t i, const struct source_tables *t,
					 const struct source_table *now, enum alteration what, lsn_t start,
					 struct shape_mark *out)
{
	const struct schema *had = s->schemas[i];
	bool scattered, marked = shape_get_mark(s->tables[i].shape, out) && start.v < out->until.v;
	bool altered = what == ALTERATION_EXTENDED || what == ALTERATION_COLUMNS;
	if (!altered) return marked;
	out->null = what == ALTERATION_EXTENDED && (!marked || out->null);
	out->first = count_known(had, now->schema, marked ? out->first : had->ncolumns, &scattered);
	out->until = t->read_at;
	return true;
}

/* ---- in words ---- */

static void put(struct buf *out, const char *before, const char *text, const char *after)
{
	if (out->n > 0) buf_put(out, ", ", 2);
	buf_put(out, before, strlen(before));
	buf_put(out, text, strlen(text));
	buf_put(out, after, strlen(after));
}

static void put_columns(struct buf *out, const struct schema *had, const struct schema *now)
{
	for (uint16_t c = 0; c < had->ncolumns; c++)
		if (schema_find(now, had->columns[c].name) < 0) put(out, "column ", had->columns[c].name, " is gone");
	for (uint16_t c = 0; c < now->ncolumns; c++) {
		const struct column *column = &now->columns[c];
		int before = schema_find(had, column->name);
		if (before < 0)
			put(out, "column ", column->name, " is new");
		else if (!same_column(&had->columns[before], column))
			put(out, "column ", column->name, " has another type");
	}
}

static char *describe(const struct table_record *r, const struct schema *had, const struct source_table *now,
					  enum alteration what)
{
	struct buf out = {0};
	if (!same_name(r, now)) {
		char *before = display_name(r->schema_name, r->table_name);
		put(&out, "it was ", before, "");
		free(before);
	}
	put_columns(&out, had, now->schema);
	if (what == ALTERATION_KEY) put(&out, "its key is another", "", "");
	if (out.n == 0) put(&out, "its rows were rewritten", "", "");
	buf_put_u8(&out, 0);
	return (char *)out.p;
}

static bool refuse(const char *table, const char *what, struct err *err)
{
	return err_set(
		err, ERR_CONFIG,
		"table %s was altered (%s), and --on-schema-change is stop: start with backfill to read its rows "
		"again where they changed, or with continue to leave them as they are",
		table, what);
}

/* The table of that name, when it is not in the store itself. */
static const struct source_table *find_new(const struct stored *s, const struct source_tables *t,
										   const struct table_record *r)
{
	for (size_t i = 0; i < t->n; i++) {
		size_t known = 0;
		while (known < s->ntables && s->tables[known].oid != t->v[i].oid)
			known++;
		if (known == s->ntables && source_table_is_used(&t->v[i]) && same_name(r, &t->v[i])) return &t->v[i];
	}
	return NULL;
}

static bool check_table(const struct stored *s, size_t i, const struct source_tables *t, struct err *err)
{
	const struct table_record *r = &s->tables[i];
	const struct source_table *now = source_tables_find(t, r->oid);
	if (now == NULL) {
		now = find_new(s, t, r);
		return now == NULL || refuse(now->display, "it was dropped and made again", err);
	}
	if (!source_table_is_used(now)) return true;
	enum alteration what = alteration_find(s, i, now);
	if (what == ALTERATION_NONE) return true;
	char *text = describe(r, s->schemas[i], now, what);
	refuse(now->display, text, err);
	free(text);
	return false;
}

bool alteration_check(const struct stored *s, const struct source_tables *t, enum on_schema_change mode,
					  struct err *err)
{
	for (size_t i = 0; mode == ON_CHANGE_STOP && i < s->ntables; i++)
		if (s->tables[i].state != TABLE_LEFT && !check_table(s, i, t, err)) return false;
	return true;
}
