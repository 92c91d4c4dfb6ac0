/*
 * snapshot/chunk_sql.h - the text of what a chunk asks the source.
 *
 *   page    SELECT "a", "b" FROM ONLY "s"."t" WHERE ("k1", "k2") > ($1::int4, $2::text) AND (filter)
 *           ORDER BY "k1", "k2" LIMIT $3::bigint
 *   keys    SELECT ... WHERE ("k1", "k2") IN (SELECT u.c1::int4, u.c2::text
 *           FROM unnest($1::text[], $2::text[]) AS u(c1, c2)) AND (filter)
 *
 * Order and comparison are the key columns' own: the server compares, we never
 * do. The row comparison is an index condition; `a > $1 OR (a = $1 AND ...)`
 * would be a filter. The list is a subquery and not `= ANY`, which takes one
 * column only; the server makes its values distinct and probes the index with each.
 *
 * Where a key column's operators are not in pg_catalog (operand.h) a row
 * comparison cannot name them. Then a page is a UNION ALL, in the order of the
 * key, of the rows with (k1 = $1 AND k2 > $2) and those with (k1 > $1), each an
 * index condition with a limit of its own; and the list of keys an EXISTS.
 *
 * Pure. Results live in the given arena. Any thread.
 */
#ifndef SNAPSHOT_CHUNK_SQL_H
#define SNAPSHOT_CHUNK_SQL_H

#include "snapshot/operand.h"
#include "state/schema.h"

/* A table, as in struct copier_table. */
struct chunk_source {
	const struct schema *schema;
	const struct operand *operands; /* or NULL */
	const char *from_sql;
	const char *filter_sql;        /* or NULL */
	const char *const *collations; /* of each column, or NULL; as in struct copier_table */
};

const char *chunk_sql_lock(struct arena *a, const char *from_sql);
/* Parameters: the key columns' texts unless `first`, then the limit. */
const char *chunk_sql_page(struct arena *a, const struct chunk_source *from, bool first);
/* Parameters: one array literal for each key column. whole: all columns, else those of the key in key order.
 */
const char *chunk_sql_keys(struct arena *a, const struct chunk_source *from, bool whole);

/* Some key column is compared by operators of its own: no row comparison. */
bool chunk_sql_has_operators(const struct chunk_source *from);
/* "::type" of a column of the table, as a text of it is cast to. */
void chunk_sql_cast(struct buf *out, const struct chunk_source *from, size_t column);
/* "::text[]": what a parameter with many of a column's texts is cast to, before each of them is to its type.
 */
void chunk_sql_cast_list(struct buf *out, const struct chunk_source *from, size_t column);
/* "name", with quotes inside doubled. */
void chunk_sql_identifier(struct buf *out, const char *name);
/* The text of a text[] with these elements, NUL-terminated: {"a","b\"c",NULL}; p == NULL is NULL. */
const char *chunk_sql_array(struct arena *a, const struct slice *texts, size_t n);

#endif
