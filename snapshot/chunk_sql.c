#include "snapshot/chunk_sql.h"

#include "snapshot/sql_text.h"

#include <stdio.h>
#include <string.h>

/* Types whose plain name means one of length 1: casting a key to it would cut the key. */
#define BPCHAR_OID 1042
#define BIT_OID    1560

#define REGCLASS_OID 2205

void chunk_sql_identifier(struct buf *out, const char *name)
{
	buf_put_u8(out, '"');
	for (; *name; name++) {
		if (*name == '"') buf_put_u8(out, '"');
		buf_put_u8(out, (uint8_t)*name);
	}
	buf_put_u8(out, '"');
}

static const struct column *key_column(const struct schema *s, size_t i)
{
	return &s->columns[s->key_columns[i]];
}

/* A key column may be cast to another type than its own: operand.h. */
static const char *own_cast(const struct chunk_source *from, size_t column)
{
	for (size_t i = 0; from->operands && i < from->schema->nkeys; i++)
		if (from->schema->key_columns[i] == column) return from->operands[i].cast;
	return NULL;
}

void chunk_sql_cast(struct buf *out, const struct chunk_source *from, size_t column)
{
	const struct column *c = &from->schema->columns[column];
	const char *own = own_cast(from, column);

	sql_put(out, "::");
	if (own)
		sql_put(out, own);
	else if (c->type_oid == BPCHAR_OID)
		sql_put(out, "bpchar");
	else if (c->type_oid == BIT_OID)
		sql_put(out, "\"bit\"");
	else
		sql_put(out, c->type_name);
}

/* regclass reads "-" and numbers, and the cast of a text to regclass does not; every other type's is as good.
 */
void chunk_sql_cast_list(struct buf *out, const struct chunk_source *from, size_t column)
{
	const char *own = own_cast(from, column);
	bool regclass =
		from->schema->columns[column].type_oid == REGCLASS_OID || (own && strcmp(own, "regclass") == 0);

	sql_put(out, regclass ? "::regclass[]" : "::text[]");
}

static void put_cast(struct buf *out, const struct chunk_source *from, size_t i)
{
	chunk_sql_cast(out, from, from->schema->key_columns[i]);
}

static void put_all_columns(struct buf *out, const struct schema *s)
{
	for (size_t i = 0; i < s->ncolumns; i++) {
		sql_put(out, i ? ", " : "");
		chunk_sql_identifier(out, s->columns[i].name);
	}
}

static void put_key_columns(struct buf *out, const struct schema *s)
{
	for (size_t i = 0; i < s->nkeys; i++) {
		sql_put(out, i ? ", " : "");
		chunk_sql_identifier(out, key_column(s, i)->name);
	}
}

/* The key as one operand: a row only where there is more than one column. */
static void put_key_operand(struct buf *out, const struct schema *s)
{
	sql_put(out, s->nkeys > 1 ? "(" : "");
	put_key_columns(out, s);
	sql_put(out, s->nkeys > 1 ? ")" : "");
}

static void put_param(struct buf *out, const struct chunk_source *from, size_t i)
{
	sql_put_number(out, "$", i + 1);
	put_cast(out, from, i);
}

static void put_key_params(struct buf *out, const struct chunk_source *from)
{
	size_t n = from->schema->nkeys;

	sql_put(out, n > 1 ? "(" : "");
	for (size_t i = 0; i < n; i++) {
		sql_put(out, i ? ", " : "");
		put_param(out, from, i);
	}
	sql_put(out, n > 1 ? ")" : "");
}

/* A row comparison has one operator for all columns, and looks it up in one schema. */
bool chunk_sql_has_operators(const struct chunk_source *from)
{
	for (size_t i = 0; from->operands && i < from->schema->nkeys; i++)
		if (from->operands[i].gt || from->operands[i].eq) return true;
	return false;
}

/* " > " or " OPERATOR(...) " */
static void put_operator(struct buf *out, const char *own, const char *plain)
{
	sql_put(out, " ");
	sql_put(out, own ? own : plain);
	sql_put(out, " ");
}

static void put_filter(struct buf *out, const char *before, const char *filter_sql)
{
	if (filter_sql == NULL) return;
	sql_put(out, before);
	sql_put(out, "(");
	sql_put(out, filter_sql);
	sql_put(out, ")");
}

static void put_from(struct buf *out, const char *from_sql)
{
	sql_put(out, " FROM ");
	sql_put(out, from_sql);
}

const char *chunk_sql_lock(struct arena *a, const char *from_sql)
{
	struct buf t = {0};

	sql_put(&t, "LOCK TABLE ");
	sql_put(&t, from_sql);
	sql_put(&t, " IN ACCESS SHARE MODE");
	return sql_finish(a, &t);
}

/* ---- pages ---- */

static void put_order(struct buf *out, const struct schema *s, size_t limit_param)
{
	sql_put(out, " ORDER BY ");
	put_key_columns(out, s);
	sql_put_number(out, " LIMIT $", limit_param);
	sql_put(out, "::bigint");
}

/* Rows of the same first n key columns and a greater next one. */
static void put_branch(struct buf *out, const struct chunk_source *from, size_t n)
{
	const struct schema *s = from->schema;

	sql_put(out, "(SELECT ");
	put_all_columns(out, s);
	put_from(out, from->from_sql);
	for (size_t i = 0; i <= n; i++) {
		const struct operand *o = &from->operands[i];

		sql_put(out, i ? " AND " : " WHERE ");
		chunk_sql_identifier(out, key_column(s, i)->name);
		put_operator(out, i < n ? o->eq : o->gt, i < n ? "=" : ">");
		put_param(out, from, i);
	}
	put_filter(out, " AND ", from->filter_sql);
	put_order(out, s, s->nkeys + 1u);
	sql_put(out, ")");
}

/* A branch for each length of what the row has in common with the cursor: each is an index condition. */
static void put_branches(struct buf *out, const struct chunk_source *from)
{
	sql_put(out, " FROM (");
	for (size_t n = from->schema->nkeys; n-- > 0;) {
		put_branch(out, from, n);
		sql_put(out, n ? " UNION ALL " : "");
	}
	sql_put(out, ") AS branches");
}

const char *chunk_sql_page(struct arena *a, const struct chunk_source *from, bool first)
{
	const struct schema *s = from->schema;
	struct buf t = {0};

	sql_put(&t, "SELECT ");
	put_all_columns(&t, s);
	if (!first && chunk_sql_has_operators(from)) {
		put_branches(&t, from);
	} else {
		put_from(&t, from->from_sql);
		if (!first) {
			sql_put(&t, " WHERE ");
			put_key_operand(&t, s);
			sql_put(&t, " > ");
			put_key_params(&t, from);
		}
		put_filter(&t, first ? " WHERE " : " AND ", from->filter_sql);
	}
	put_order(&t, s, first ? 1 : s->nkeys + 1u);
	return sql_finish(a, &t);
}

/* ---- keys ---- */

/* SELECT u.c1::type1, ... FROM unnest($1::text[], ...) AS u(c1, ...) */
static void put_key_list(struct buf *out, const struct chunk_source *from, bool named)
{
	size_t nkeys = from->schema->nkeys;

	for (size_t i = 0; i < nkeys; i++) {
		sql_put_number(out, i ? ", u.c" : "SELECT u.c", i + 1);
		put_cast(out, from, i);
		if (named) sql_put_number(out, " AS c", i + 1);
	}
	for (size_t i = 0; i < nkeys; i++) {
		sql_put_number(out, i ? ", $" : " FROM unnest($", i + 1);
		chunk_sql_cast_list(out, from, from->schema->key_columns[i]);
	}
	for (size_t i = 0; i < nkeys; i++)
		sql_put_number(out, i ? ", c" : ") AS u(c", i + 1);
	sql_put(out, ")");
}

/* What IN would say, with operators of the columns' own. */
static void put_exists(struct buf *out, const struct chunk_source *from)
{
	const struct schema *s = from->schema;

	sql_put(out, "EXISTS (SELECT FROM (");
	put_key_list(out, from, true);
	sql_put(out, ") AS w WHERE ");
	for (size_t i = 0; i < s->nkeys; i++) {
		sql_put(out, i ? " AND " : "");
		chunk_sql_identifier(out, key_column(s, i)->name);
		put_operator(out, from->operands[i].eq, "=");
		sql_put_number(out, "w.c", i + 1);
	}
	sql_put(out, ")");
}

static void put_in(struct buf *out, const struct chunk_source *from)
{
	put_key_operand(out, from->schema);
	sql_put(out, " IN (");
	put_key_list(out, from, false);
	sql_put(out, ")");
}

const char *chunk_sql_keys(struct arena *a, const struct chunk_source *from, bool whole)
{
	const struct schema *s = from->schema;
	struct buf t = {0};

	sql_put(&t, "SELECT ");
	if (whole)
		put_all_columns(&t, s);
	else
		put_key_columns(&t, s);
	put_from(&t, from->from_sql);
	sql_put(&t, " WHERE ");
	if (chunk_sql_has_operators(from))
		put_exists(&t, from);
	else
		put_in(&t, from);
	put_filter(&t, " AND ", from->filter_sql);
	return sql_finish(a, &t);
}

/* Always quoted: an unquoted NULL, a blank or a brace would mean something. */
static void put_element(struct buf *out, struct slice text)
{
	buf_put_u8(out, '"');
	for (size_t i = 0; i < text.n; i++) {
		if (text.p[i] == '"' || text.p[i] == '\\') buf_put_u8(out, '\\');
		buf_put_u8(out, text.p[i]);
	}
	buf_put_u8(out, '"');
}

const char *chunk_sql_array(struct arena *a, const struct slice *texts, size_t n)
{
	struct buf t = {0};

	buf_put_u8(&t, '{');
	for (size_t i = 0; i < n; i++) {
		sql_put(&t, i ? "," : "");
		if (texts[i].p)
			put_element(&t, texts[i]);
		else
			sql_put(&t, "NULL");
	}
	buf_put_u8(&t, '}');
	return sql_finish(a, &t);
}
