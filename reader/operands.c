#include "reader/operands.h"

#include <stdio.h>

#include "reader/catalog.h"
#include "snapshot/chunk_sql.h"

/* An operator of the default B-tree operator class c: what ORDER BY goes by. */
#define OWN_OPERATOR(strategy)                                                                               \
	"(SELECT pg_catalog.format('OPERATOR(%I.%s)', n.nspname, o.oprname) FROM pg_catalog.pg_amop x"           \
	"   JOIN pg_catalog.pg_operator o ON o.oid = x.amopopr"                                                  \
	"   JOIN pg_catalog.pg_namespace n ON n.oid = o.oprnamespace"                                            \
	"  WHERE x.amopfamily = c.opcfamily AND x.amoplefttype = c.opcintype AND x.amoprighttype = c.opcintype"  \
	"    AND x.amopstrategy = " strategy " AND n.nspname <> 'pg_catalog')"

/* Columns in the order of $2, by the base type. */
static const char operands_sql[] =
	"WITH RECURSIVE base(nth, oid, typtype) AS ("
	"  SELECT k.nth, t.oid, t.typtype FROM pg_catalog.unnest($2::name[]) WITH ORDINALITY AS k(name, nth)"
	"    JOIN pg_catalog.pg_attribute a ON a.attrelid = $1 AND a.attname = k.name"
	"    JOIN pg_catalog.pg_type t ON t.oid = a.atttypid"
	"  UNION ALL"
	"  SELECT b.nth, t.oid, t.typtype FROM base b"
	"    JOIN pg_catalog.pg_type d ON d.oid = b.oid AND b.typtype = 'd'"
	"    JOIN pg_catalog.pg_type t ON t.oid = d.typbasetype)"
	"SELECT pg_catalog.format_type(b.oid, -1), " OWN_OPERATOR("5") ", " OWN_OPERATOR(
		"3") " FROM base b"
			 "  LEFT JOIN pg_catalog.pg_opclass c ON c.opcintype = b.oid AND c.opcdefault"
			 "   AND c.opcmethod = (SELECT m.oid FROM pg_catalog.pg_am m WHERE m.amname = 'btree')"
			 " WHERE b.typtype <> 'd' ORDER BY b.nth";

enum { OID_TEXT = 25, OID_BPCHAR = 1042, OID_VARCHAR = 1043 };

static const struct column *key_column(const struct schema *s, size_t i)
{
	return &s->columns[s->key_columns[i]];
}

/* The types of nearly all keys: nothing to ask. */
static bool all_are_plain(const struct schema *s)
{
	for (size_t i = 0; i < s->nkeys; i++) {
		uint32_t oid = key_column(s, i)->type_oid;

		if (key_kind_of_type(oid) == KEY_TEXT && oid != OID_TEXT && oid != OID_BPCHAR && oid != OID_VARCHAR)
			return false;
	}
	return true;
}

static const char *key_names(struct arena *a, const struct schema *s)
{
	struct slice names[KEY_COLUMNS_MAX];

	for (size_t i = 0; i < s->nkeys; i++)
		names[i] = slice_of(key_column(s, i)->name);
	return chunk_sql_array(a, names, s->nkeys);
}

static const char *text_at(const PGresult *r, int row, int col)
{
	return PQgetisnull(r, row, col) ? NULL : PQgetvalue(r, row, col);
}

/* A column that was dropped or renamed meanwhile is missing: the next look at the catalog will tell. */
static struct operand *take(const PGresult *r, size_t n)
{
	struct operand o[KEY_COLUMNS_MAX];

	if ((size_t)PQntuples(r) != n) return NULL;
	for (int i = 0; i < (int)n; i++)
		o[i] = (struct operand){PQgetvalue(r, i, 0), text_at(r, i, 1), text_at(r, i, 2)};
	return operands_copy(o, n);
}

bool operands_read(struct pgconn *c, uint32_t table_oid, const struct schema *s, struct operand **out,
				   struct err *err)
{
	char oid[16];
	struct arena a;
	PGresult *r = NULL;
	bool good;

	*out = NULL;
	if (all_are_plain(s)) return true;
	snprintf(oid, sizeof oid, "%u", table_oid);
	arena_init(&a);
	good = catalog_ask(c, operands_sql, 2, (const char *[]){oid, key_names(&a, s)}, 3, 0, &r, err);
	if (good) *out = take(r, s->nkeys);
	PQclear(r);
	arena_finish(&a);
	return good;
}
