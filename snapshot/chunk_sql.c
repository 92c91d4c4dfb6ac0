#include "snapshot/chunk_sql.h"

#include <stdio.h>

/* Types whose plain name means one of length 1: casting a key to it would cut the key. */
#define BPCHAR_OID 1042
#define BIT_OID    1560

static void put(struct buf *out, const char *s)
{
	struct slice text = slice_of(s);

	buf_put(out, text.p, text.n);
}

static void put_number(struct buf *out, const char *before, size_t n)
{
	char digits[24];

	put(out, before);
	snprintf(digits, sizeof digits, "%zu", n);
	put(out, digits);
}

static const char *finish(struct arena *a, struct buf *text)
{
	const char *s;

	buf_put_u8(text, 0);
	s = arena_copy(a, text->p, text->n);
	buf_finish(text);
	return s;
}

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

static void put_cast(struct buf *out, const struct column *c)
{
	put(out, "::");
	if (c->type_oid == BPCHAR_OID)
		put(out, "bpchar");
	else if (c->type_oid == BIT_OID)
		put(out, "\"bit\"");
	else
		put(out, c->type_name);
}

static void put_all_columns(struct buf *out, const struct schema *s)
{
	for (size_t i = 0; i < s->ncolumns; i++) {
		put(out, i ? ", " : "");
		chunk_sql_identifier(out, s->columns[i].name);
	}
}

static void put_key_columns(struct buf *out, const struct schema *s)
{
	for (size_t i = 0; i < s->nkeys; i++) {
		put(out, i ? ", " : "");
		chunk_sql_identifier(out, key_column(s, i)->name);
	}
}

/* The key as one operand: a row only where there is more than one column. */
static void put_key_operand(struct buf *out, const struct schema *s)
{
	put(out, s->nkeys > 1 ? "(" : "");
	put_key_columns(out, s);
	put(out, s->nkeys > 1 ? ")" : "");
}

static void put_key_params(struct buf *out, const struct schema *s)
{
	put(out, s->nkeys > 1 ? "(" : "");
	for (size_t i = 0; i < s->nkeys; i++) {
		put_number(out, i ? ", $" : "$", i + 1);
		put_cast(out, key_column(s, i));
	}
	put(out, s->nkeys > 1 ? ")" : "");
}

static void put_filter(struct buf *out, const char *before, const char *filter_sql)
{
	if (filter_sql == NULL) return;
	put(out, before);
	put(out, "(");
	put(out, filter_sql);
	put(out, ")");
}

static void put_from(struct buf *out, const char *from_sql)
{
	put(out, " FROM ");
	put(out, from_sql);
}

const char *chunk_sql_lock(struct arena *a, const char *from_sql)
{
	struct buf t = {0};

	put(&t, "LOCK TABLE ");
	put(&t, from_sql);
	put(&t, " IN ACCESS SHARE MODE");
	return finish(a, &t);
}

const char *chunk_sql_page(struct arena *a, const struct schema *s, const char *from_sql,
						   const char *filter_sql, bool first)
{
	struct buf t = {0};

	put(&t, "SELECT ");
	put_all_columns(&t, s);
	put_from(&t, from_sql);
	if (!first) {
		put(&t, " WHERE ");
		put_key_operand(&t, s);
		put(&t, " > ");
		put_key_params(&t, s);
	}
	put_filter(&t, first ? " WHERE " : " AND ", filter_sql);
	put(&t, " ORDER BY ");
	put_key_columns(&t, s);
	put_number(&t, " LIMIT $", first ? 1 : s->nkeys + 1u);
	put(&t, "::bigint");
	return finish(a, &t);
}

/* SELECT u.c1::type1, ... FROM unnest($1::text[], ...) AS u(c1, ...) */
static void put_key_list(struct buf *out, const struct schema *s)
{
	for (size_t i = 0; i < s->nkeys; i++) {
		put_number(out, i ? ", u.c" : "SELECT u.c", i + 1);
		put_cast(out, key_column(s, i));
	}
	for (size_t i = 0; i < s->nkeys; i++) {
		put_number(out, i ? ", $" : " FROM unnest($", i + 1);
		put(out, "::text[]");
	}
	for (size_t i = 0; i < s->nkeys; i++)
		put_number(out, i ? ", c" : ") AS u(c", i + 1);
	put(out, ")");
}

const char *chunk_sql_keys(struct arena *a, const struct schema *s, const char *from_sql,
						   const char *filter_sql, bool whole)
{
	struct buf t = {0};

	put(&t, "SELECT ");
	if (whole)
		put_all_columns(&t, s);
	else
		put_key_columns(&t, s);
	put_from(&t, from_sql);
	put(&t, " WHERE ");
	put_key_operand(&t, s);
	put(&t, " IN (");
	put_key_list(&t, s);
	put(&t, ")");
	put_filter(&t, " AND ", filter_sql);
	return finish(a, &t);
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
		put(&t, i ? "," : "");
		put_element(&t, texts[i]);
	}
	buf_put_u8(&t, '}');
	return finish(a, &t);
}
