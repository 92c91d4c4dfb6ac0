#include "snapshot/scope.h"
#include "snapshot/sql_text.h"
#include "state/key.h"

/* ---- literals and bounds ---- */

/* E'...': the same with every setting of standard_conforming_strings. */
static void put_literal(struct buf *out, struct slice text)
{
	sql_put(out, "E'");
	for (size_t i = 0; i < text.n; i++) {
		if (text.p[i] == '\'' || text.p[i] == '\\') buf_put_u8(out, text.p[i]);
		buf_put_u8(out, text.p[i]);
	}
	sql_put(out, "'");
}

static void put_key_name(struct buf *out, const struct chunk_source *from, size_t i)
{
	chunk_sql_identifier(out, from->schema->columns[from->schema->key_columns[i]].name);
}

static void put_key_literal(struct buf *out, const struct chunk_source *from, size_t i, struct slice text)
{
	put_literal(out, text);
	chunk_sql_cast(out, from, from->schema->key_columns[i]);
}

struct bound {
	const struct chunk_source *from;
	struct slice texts[KEY_COLUMNS_MAX];
	size_t n;
};

static struct bound bound_of(const struct chunk_source *from, const struct buf *blobs)
{
	struct bound b = {.from = from};

	b.n = scope_bound_texts(blobs, from->schema, b.texts);
	return b;
}

static void put_names(struct buf *out, const struct bound *b)
{
	sql_put(out, "(");
	for (size_t i = 0; i < b->n; i++) {
		sql_put(out, i ? ", " : "");
		put_key_name(out, b->from, i);
	}
	sql_put(out, ")");
}

static void put_literals(struct buf *out, const struct bound *b, size_t n)
{
	sql_put(out, "(");
	for (size_t i = 0; i < n; i++) {
		sql_put(out, i ? ", " : "");
		put_key_literal(out, b->from, i, b->texts[i]);
	}
	sql_put(out, ")");
}

/* "k" OPERATOR(...) 'text'::type */
static void put_one(struct buf *out, const struct bound *b, size_t i, bool greater)
{
	const struct operand *o = b->from->operands ? &b->from->operands[i] : NULL;
	const char *own = !o ? NULL : greater ? o->gt : o->eq;

	put_key_name(out, b->from, i);
	sql_put(out, " ");
	sql_put(out, own ? own : greater ? ">" : "=");
	sql_put(out, " ");
	put_key_literal(out, b->from, i, b->texts[i]);
}

/* The key's first columns are greater than the bound, spelled out: for operators that a row comparison cannot
 * name. */
static void put_greater(struct buf *out, const struct bound *b)
{
	sql_put(out, "(");
	for (size_t n = 0; n < b->n; n++) {
		sql_put(out, n ? " OR (" : "(");
		for (size_t i = 0; i <= n; i++) {
			sql_put(out, i ? " AND " : "");
			put_one(out, b, i, i == n);
		}
		sql_put(out, ")");
	}
	sql_put(out, ")");
}

static void put_equal(struct buf *out, const struct bound *b)
{
	sql_put(out, "(");
	for (size_t i = 0; i < b->n; i++) {
		sql_put(out, i ? " AND " : "");
		put_one(out, b, i, false);
	}
	sql_put(out, ")");
}

static void put_at_least(struct buf *out, const struct bound *b)
{
	if (chunk_sql_has_operators(b->from)) {
		sql_put(out, "(");
		put_greater(out, b);
		sql_put(out, " OR ");
		put_equal(out, b);
		sql_put(out, ")");
		return;
	}
	put_names(out, b);
	sql_put(out, " >= ");
	put_literals(out, b, b->n);
}

static void put_at_most(struct buf *out, const struct bound *b)
{
	if (chunk_sql_has_operators(b->from)) {
		sql_put(out, "NOT ");
		put_greater(out, b);
		return;
	}
	put_names(out, b);
	sql_put(out, " <= ");
	put_literals(out, b, b->n);
}

/* On lines of its own: it may end in a comment. */
static void put_where(struct buf *out, const struct scope *s, const char *open, const char *close)
{
	sql_put(out, open);
	sql_put(out, "\n");
	sql_put(out, (const char *)s->where.p);
	sql_put(out, "\n");
	sql_put(out, close);
}

static void put_condition(struct buf *out, const struct scope *s, const struct chunk_source *from)
{
	struct bound low = bound_of(from, &s->from), high = bound_of(from, &s->to);
	const char *and = "";

	if (s->where.n > 0) {
		put_where(out, s, "(", ")");
		and = " AND ";
	}
	if (low.n > 0) {
		sql_put(out, and);
		put_at_least(out, &low);
		and = " AND ";
	}
	if (high.n == 0) return;
	sql_put(out, and);
	put_at_most(out, &high);
}

const char *scope_sql_condition(struct arena *a, const struct scope *s, const struct chunk_source *from)
{
	struct buf t = {0};

	if (!scope_has_text(s)) return NULL;
	if (from->filter_sql) {
		sql_put(&t, "(");
		sql_put(&t, from->filter_sql);
		sql_put(&t, ") AND ");
	}
	put_condition(&t, s, from);
	return sql_finish(a, &t);
}

/* ---- suspects ---- */

/* A name that no column of the table has. */
static const char *free_name(struct arena *a, const struct schema *s)
{
	struct buf name = {0};

	do {
		if (name.n > 0) name.n--;
		sql_put(&name, "n");
		buf_put_u8(&name, 0);
	} while (schema_find(s, (const char *)name.p) >= 0);
	name.n--;
	return sql_finish(a, &name);
}

/* The table's own name, as a condition may use it to qualify a column: what stands last in from_sql. */
static const char *alias_of(const struct chunk_source *from)
{
	const char *last = from->from_sql;
	bool quoted = false;

	for (const char *p = from->from_sql; *p; p++) {
		if (*p == '"') {
			if (!quoted) last = p;
			if (!quoted || p[1] != '"')
				quoted = !quoted;
			else
				p++;
		}
	}
	return last;
}

/* Which columns of the stored rows are sent: a condition may look at any, bounds look at the key. */
static size_t sent_columns(const struct scope *s, const struct schema *schema)
{
	return s->where.n > 0 ? schema->ncolumns : schema->nkeys;
}

static size_t sent_column(const struct scope *s, const struct schema *schema, size_t i)
{
	return s->where.n > 0 ? i : schema->key_columns[i];
}

static void put_typed(struct buf *out, const struct chunk_source *from, size_t column)
{
	chunk_sql_cast(out, from, column);
	if (from->collations && from->collations[column]) {
		sql_put(out, " COLLATE ");
		sql_put(out, from->collations[column]);
	}
	sql_put(out, " AS ");
	chunk_sql_identifier(out, from->schema->columns[column].name);
}

/* FROM (SELECT u.n AS "n", u.c1::t1 AS "k", ... FROM unnest(...) ...) AS "table" */
static void put_stored(struct buf *out, const struct scope *s, const struct chunk_source *from, const char *n)
{
	size_t count = sent_columns(s, from->schema);

	sql_put(out, "(SELECT u.n AS ");
	chunk_sql_identifier(out, n);
	for (size_t i = 0; i < count; i++) {
		sql_put_number(out, ", u.c", i + 1);
		put_typed(out, from, sent_column(s, from->schema, i));
	}
	for (size_t i = 0; i < count; i++) {
		sql_put_number(out, i ? ", $" : " FROM unnest($", i + 1);
		chunk_sql_cast_list(out, from, sent_column(s, from->schema, i));
	}
	for (size_t i = 0; i < count; i++)
		sql_put_number(out, i ? ", c" : ") WITH ORDINALITY AS u(c", i + 1);
	sql_put(out, ", n)) AS ");
	sql_put(out, alias_of(from));
}

static void put_columns(struct buf *out, const struct schema *schema, bool whole, const char *qualifier)
{
	size_t n = whole ? schema->ncolumns : schema->nkeys;

	for (size_t i = 0; i < n; i++) {
		sql_put(out, i ? ", " : "");
		sql_put(out, qualifier);
		chunk_sql_identifier(out, schema->columns[whole ? i : schema->key_columns[i]].name);
	}
}

/* The source's row of the same key, as far as the publication has it. */
static void put_lookup(struct buf *out, const struct chunk_source *from, bool whole)
{
	sql_put(out, "SELECT ");
	put_columns(out, from->schema, whole, "");
	sql_put(out, " FROM ");
	sql_put(out, from->from_sql);
	for (size_t i = 0; i < from->schema->nkeys; i++) {
		sql_put(out, i ? " AND " : " WHERE ");
		put_key_name(out, from, i);
		sql_put(out, " ");
		sql_put(out, from->operands && from->operands[i].eq ? from->operands[i].eq : "=");
		sql_put(out, " s.");
		put_key_name(out, from, i);
	}
	if (!from->filter_sql) return;
	sql_put(out, " AND (");
	sql_put(out, from->filter_sql);
	sql_put(out, ")");
}

const char *scope_sql_suspects(struct arena *a, const struct scope *s, const struct chunk_source *from,
							   bool whole)
{
	const char *n = free_name(a, from->schema);
	struct buf t = {0};

	sql_put(&t, "SELECT s.");
	chunk_sql_identifier(&t, n);
	sql_put(&t, ", ");
	put_columns(&t, from->schema, whole, "t.");
	sql_put(&t, " FROM (SELECT * FROM ");
	put_stored(&t, s, from, n);
	sql_put(&t, " WHERE ");
	put_condition(&t, s, from);
	sql_put(&t, ") AS s LEFT JOIN LATERAL (");
	put_lookup(&t, from, whole);
	sql_put(&t, ") AS t ON true");
	return sql_finish(a, &t);
}

/* ---- check ---- */

/* A row when `from` is behind `to`, as far as both go. */
static void put_bounds_check(struct buf *out, const struct scope *s, const struct chunk_source *from)
{
	struct bound low = bound_of(from, &s->from), high = bound_of(from, &s->to);
	size_t n = low.n < high.n ? low.n : high.n;

	sql_put(out, "SELECT true FROM (SELECT ");
	for (size_t i = 0; i < n; i++) {
		sql_put(out, i ? ", " : "");
		put_literal(out, low.texts[i]);
		put_typed(out, from, from->schema->key_columns[i]);
	}
	sql_put(out, n ? "" : "true");
	sql_put(out, ") AS low WHERE ");
	high.n = n;
	if (n == 0)
		sql_put(out, "false");
	else if (chunk_sql_has_operators(from))
		put_greater(out, &high);
	else {
		put_names(out, &high);
		sql_put(out, " > ");
		put_literals(out, &high, n);
	}
}

/* The condition over the table, and over stored rows. Nothing is read. */
static void put_where_check(struct buf *out, const struct scope *s, const struct chunk_source *from)
{
	sql_put(out, " UNION ALL SELECT true FROM ");
	sql_put(out, from->from_sql);
	sql_put(out, " WHERE false AND ");
	put_condition(out, s, from);
	sql_put(out, " UNION ALL SELECT true FROM (SELECT ");
	for (size_t i = 0; i < from->schema->ncolumns; i++) {
		sql_put(out, i ? ", NULL" : "NULL");
		put_typed(out, from, i);
	}
	sql_put(out, ") AS ");
	sql_put(out, alias_of(from));
	sql_put(out, " WHERE false AND ");
	put_condition(out, s, from);
	if (s->where.n == 0) return;
	sql_put(out, " UNION ALL SELECT true FROM ");
	sql_put(out, from->from_sql);
	sql_put(out, " WHERE false AND ");
	put_where(out, s, "(ARRAY[", "]) IS NOT NULL");
}

const char *scope_sql_check(struct arena *a, const struct scope *s, const struct chunk_source *from)
{
	struct buf t = {0};

	put_bounds_check(&t, s, from);
	put_where_check(&t, s, from);
	return sql_finish(a, &t);
}
