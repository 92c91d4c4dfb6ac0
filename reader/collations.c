#include "reader/collations.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reader/catalog.h"

static const char collations_sql[] =
	"SELECT a.attname, pg_catalog.format('%I.%I', n.nspname, c.collname) FROM pg_catalog.pg_attribute a"
	"  JOIN pg_catalog.pg_type t ON t.oid = a.atttypid"
	"  JOIN pg_catalog.pg_collation c ON c.oid = a.attcollation"
	"  JOIN pg_catalog.pg_namespace n ON n.oid = c.collnamespace"
	" WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped AND a.attcollation <> t.typcollation";

static size_t bytes_of(const struct schema *s, const PGresult *r)
{
	size_t n = s->ncolumns * sizeof(char *);
	for (int i = 0; i < PQntuples(r); i++)
		n += (size_t)PQgetlength(r, i, 1) + 1;
	return n;
}

/* A column that was renamed meanwhile is missing: the next look at the catalog will tell. */
static char **take(const struct schema *s, const PGresult *r)
{
	char **out = mem_alloc(bytes_of(s, r)), *at = (char *)(out + s->ncolumns);
	for (uint16_t i = 0; i < s->ncolumns; i++)
		out[i] = NULL;
	for (int i = 0; i < PQntuples(r); i++) {
		int column = schema_find(s, PQgetvalue(r, i, 0));
		if (column < 0) continue;
		out[column] = strcpy(at, PQgetvalue(r, i, 1));
		at += strlen(at) + 1;
	}
	return out;
}

bool collations_read(struct pgconn *c, uint32_t table_oid, const struct schema *s, char ***out,
					 struct err *err)
{
	char oid[16];
	const char *params[] = {oid};
	PGresult *r = NULL;
	*out = NULL;
	snprintf(oid, sizeof oid, "%u", table_oid);
	if (!catalog_ask(c, collations_sql, 1, params, 2, 0, &r, err)) return false;
	if (PQntuples(r) > 0) *out = take(s, r);
	PQclear(r);
	return true;
}
