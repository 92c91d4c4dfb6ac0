/*
 * snapshot/scope.h - what a run is about: all rows of its table, or those that
 * meet an SQL condition, lie between two keys, or are listed; and the SQL for it.
 *
 * A bound is the texts of the first columns of a key, all or some, each a blob; both
 * are inclusive. Where rows are compared, the server does it.
 *
 *   condition  (where) AND ("k1", "k2") >= ('a'::t1, 'b'::t2) AND ("k1", "k2") <= ...: what a page is
 * filtered by suspects   which of these stored rows are in the scope, and the source's row for each:
 *
 *              SELECT s."n", t."k", t."v" FROM (
 *                SELECT * FROM (SELECT u.n AS "n", u.c1::t1 AS "k", u.c2::t2 AS "v"
 *                               FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS u(c1, c2, n)) AS
 * "table" WHERE condition) AS s LEFT JOIN LATERAL (SELECT "k", "v" FROM ONLY "s"."table" WHERE "k" = s."k"
 * AND (filter)) AS t ON true
 *
 *   check      finds fault with the condition in every place it is used in: no row when it is good, one
 *              when `from` is behind `to`, else the server's own message. A condition is text that
 *              someone gave: it must end where it should. "a) OR (b" is two halves in round brackets and
 * nothing in square ones, so it is parsed in both.
 *
 * Bounds are literals, so a condition that holds "$1" finds no parameter in the check. Texts live in the
 * arena given. One owner, one thread.
 */
#ifndef SNAPSHOT_SCOPE_H
#define SNAPSHOT_SCOPE_H

#include "snapshot/chunk_sql.h"

/* A zeroed one is the whole table. */
struct scope {
	struct buf where; /* NUL-terminated; empty = no condition */
	struct buf from, to;
	uint64_t listed; /* how many keys; 0 = not by keys */
};

void scope_set(struct scope *s, const char *where_sql, struct slice from, struct slice to, uint64_t listed);
void scope_finish(struct scope *s);
bool scope_is_whole(const struct scope *s);
/* It has a condition or bounds: text that the server has to find good. */
bool scope_has_text(const struct scope *s);
bool scope_has_where(const struct scope *s);
/* Texts of a bound; returns how many: at most as many as the key has columns. */
size_t scope_bound_texts(const struct buf *bound, const struct schema *schema, struct slice *texts);

/*
 * The bounds as the store encodes keys, where its order is the server's: no row of the scope is before low,
 * none that does not begin with high is behind it. Empty = none.
 */
void scope_encode(const struct scope *s, const struct schema *schema, struct buf *low, struct buf *high);

/* ---- scope_sql.c ---- */
/* NULL when there is none. */
const char *scope_sql_condition(struct arena *a, const struct scope *s, const struct chunk_source *from);
/*
 * Parameters: an array literal for each column, or for each key column when there is no `where`. whole: the
 * source's whole rows, else their key columns.
 */
const char *scope_sql_suspects(struct arena *a, const struct scope *s, const struct chunk_source *from,
							   bool whole);
const char *scope_sql_check(struct arena *a, const struct scope *s, const struct chunk_source *from);

#endif
