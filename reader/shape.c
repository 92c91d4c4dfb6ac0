#include "reader/shape.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reader/pgconn.h"
#include "state/bytes.h"

enum part { PUBLISHED, FILE_NODE, ATTRIBUTES, KEYS, NAME, PARTS };

/* The name comes last: it may contain anything. */
static void split(const char *shape, struct slice parts[PARTS])
{
	const char *p = shape;
	for (int i = 0; i < PARTS; i++) {
		size_t n = i == NAME ? strlen(p) : strcspn(p, "/");
		parts[i] = (struct slice){(const uint8_t *)p, n};
		p += n + (p[n] == '/');
	}
}

/* "1:728,2:731" as "1,2,": which columns, whatever touched their entries. */
static void put_attnums(struct buf *out, struct slice attributes)
{
	bool in_number = true;
	for (size_t i = 0; i < attributes.n; i++) {
		uint8_t c = attributes.p[i];
		in_number = c == ',' || (in_number && c != ':');
		if (in_number) buf_put_u8(out, c);
	}
}

static bool same_attnums(struct slice a, struct slice b)
{
	struct buf x = {0}, y = {0};
	put_attnums(&x, a);
	put_attnums(&y, b);
	bool same = slice_eq((struct slice){x.p, x.n}, (struct slice){y.p, y.n});
	buf_finish(&x);
	buf_finish(&y);
	return same;
}

enum shape_change shape_compare(const char *before, const char *now)
{
	struct slice a[PARTS], b[PARTS];
	if (*before == '\0' || strcmp(before, now) == 0) return SHAPE_SAME;
	split(before, a);
	split(now, b);
	bool moved = !slice_eq(a[FILE_NODE], b[FILE_NODE]), touched = !slice_eq(a[ATTRIBUTES], b[ATTRIBUTES]);
	if (!slice_eq(a[PUBLISHED], b[PUBLISHED])) return SHAPE_REPUBLISHED;
	/* A rewrite by ALTER TYPE touches the column's entry; TRUNCATE and VACUUM FULL do not. */
	if (!same_attnums(a[ATTRIBUTES], b[ATTRIBUTES]) || (moved && touched)) return SHAPE_ALTERED;
	if (touched || !slice_eq(a[KEYS], b[KEYS]) || !slice_eq(a[NAME], b[NAME])) return SHAPE_OTHER;
	return SHAPE_STORAGE;
}

/*
 * The publication's own row changes with the kinds of change that it has; the
 * entry that makes a table part of it is of the table or, from version 15 on, of its schema.
 */
static const char shape_of_class[] =
	"pg_catalog.concat_ws('/', coalesce((SELECT p.oid || ':' || p.xmin || ':' || coalesce("
	"   (SELECT r.oid FROM pg_catalog.pg_publication_rel r WHERE r.prpubid = p.oid AND r.prrelid = c.oid),%s "
	"0)"
	"  FROM pg_catalog.pg_publication p WHERE p.pubname = %s), '0'), c.relfilenode,"
	" coalesce((SELECT pg_catalog.string_agg(a.attnum || ':' || a.xmin, ',' ORDER BY a.attnum) FROM "
	"pg_catalog.pg_attribute a"
	"  WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped), ''),"
	" c.relreplident::text || coalesce((SELECT pg_catalog.string_agg(i.indexrelid::text || "
	"i.indisreplident::int || i.indisprimary::int, ',' ORDER BY i.indexrelid)"
	"  FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid AND i.indisunique), ''),"
	" pg_catalog.quote_ident(n.nspname) || '.' || pg_catalog.quote_ident(c.relname))";

static const char entry_of_schema[] = " (SELECT s.oid FROM pg_catalog.pg_publication_namespace s WHERE "
									  "s.pnpubid = p.oid AND s.pnnspid = c.relnamespace),";

char *shape_sql(uint32_t server_version, const char *publication, const uint32_t *oids, size_t n)
{
	struct buf b = {0};
	char *name = quote_literal(publication), *shape = NULL, oid[16];
	if (asprintf(&shape, shape_of_class, server_version >= 150000 ? entry_of_schema : "", name) < 0) abort();
	static const char first[] = "SELECT c.oid, n.nspname, c.relname, CASE WHEN c.oid IN (0";
	buf_put(&b, first, sizeof first - 1);
	for (size_t i = 0; i < n; i++) {
		snprintf(oid, sizeof oid, ",%u", oids[i]);
		buf_put(&b, oid, strlen(oid));
	}
	buf_put(&b, ") THEN ", 7);
	buf_put(&b, shape, strlen(shape));
	static const char rest[] =
		" END FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
		" WHERE c.relkind IN ('r', 'p') AND c.relpersistence <> 't'"
		" AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'";
	buf_put(&b, rest, sizeof rest);
	free(shape);
	free(name);
	return (char *)b.p;
}
