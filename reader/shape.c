#include "reader/shape.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reader/pgconn.h"
#include "reader/publication.h"
#include "state/bytes.h"

enum part { PUBLISHED, FILES, ATTRIBUTES, KEYS, NAME, PARTS };

/* ---- the mark ---- */

char *shape_put_mark(const char *shape, const struct shape_mark *mark)
{
	char until[LSN_TEXT_SIZE], *out = NULL;
	if (asprintf(&out, "@%s %u %d@%s", lsn_format(mark->until, until), mark->first, mark->null, shape) < 0)
		abort();
	return out;
}

/* The shape behind the mark. */
static const char *skip_mark(const char *shape)
{
	const char *end = *shape == '@' ? strchr(shape + 1, '@') : NULL;
	return end != NULL ? end + 1 : shape;
}

bool shape_get_mark(const char *shape, struct shape_mark *out)
{
	char until[LSN_TEXT_SIZE];
	size_t n = *shape == '@' ? strcspn(shape + 1, " @") : 0;
	if (n == 0 || n >= sizeof until || shape[1 + n] != ' ') return false;
	memcpy(until, shape + 1, n);
	until[n] = '\0';
	unsigned first, null;
	if (sscanf(shape + 2 + n, "%4u %1u@", &first, &null) != 2 || !lsn_parse(until, &out->until)) return false;
	out->first = (uint16_t)first;
	out->null = null != 0;
	return true;
}

/* The name comes last: it may contain anything. */
static void split(const char *shape, struct slice parts[PARTS])
{
	const char *p = skip_mark(shape);
	for (int i = 0; i < PARTS; i++) {
		size_t n = i == NAME ? strlen(p) : strcspn(p, "/");
		parts[i] = (struct slice){(const uint8_t *)p, n};
		p += n + (p[n] == '/');
	}
}

/* ---- columns ---- */

struct attribute {
	long attnum;
	struct slice xmin, name; /* name with its m */
};

/* Takes "count;" off. -1: it is not there. */
static long take_count(struct slice *s)
{
	long n = 0;
	size_t i = 0;
	for (; i < s->n && i < 9 && s->p[i] >= '0' && s->p[i] <= '9'; i++)
		n = n * 10 + (s->p[i] - '0');
	if (i == 0 || i == s->n || s->p[i] != ';') return -1;
	*s = (struct slice){s->p + i + 1, s->n - i - 1};
	return n;
}

static struct slice take_field(struct slice *s, uint8_t end)
{
	const uint8_t *at = s->n > 0 ? memchr(s->p, end, s->n) : NULL;
	struct slice field = {s->p, at != NULL ? (size_t)(at - s->p) : s->n};
	size_t taken = field.n + (at != NULL);
	*s = (struct slice){s->p + taken, s->n - taken};
	return field;
}

/* Takes "attnum:xmin:name," off. False: nothing is left. */
static bool take_attribute(struct slice *s, struct attribute *out)
{
	if (s->n == 0) return false;
	struct slice entry = take_field(s, ','), attnum = take_field(&entry, ':');
	out->attnum = 0;
	for (size_t i = 0; i < attnum.n && i < 9; i++)
		out->attnum = out->attnum * 10 + (attnum.p[i] - '0');
	out->xmin = take_field(&entry, ':');
	out->name = entry;
	return true;
}

static bool has_missing(const struct attribute *a)
{
	return a->name.n > 0 && a->name.p[a->name.n - 1] == 'm';
}

/* The same columns, whatever touched their entries, and none that came and went. */
static bool same_attnums(struct slice a, struct slice b)
{
	struct attribute x, y;
	if (take_count(&a) != take_count(&b)) return false;
	for (;;) {
		bool more = take_attribute(&a, &x);
		if (more != take_attribute(&b, &y)) return false;
		if (!more) return true;
		if (x.attnum != y.attnum) return false;
	}
}

/*
 * All that was there is there untouched, and what follows was added: all of it, without a gap, which a column
 * that came and went in between would leave, and which might have had another's name.
 */
static bool is_extended(struct slice a, struct slice b)
{
	struct attribute x, y;
	long count = take_count(&a), now = take_count(&b);
	while (take_attribute(&a, &x))
		if (!take_attribute(&b, &y) || x.attnum != y.attnum || !slice_eq(x.xmin, y.xmin) ||
			!slice_eq(x.name, y.name))
			return false;
	if (count < 0 || count == now) return false;
	while (take_attribute(&b, &y))
		if (y.attnum != ++count || has_missing(&y)) return false;
	return count == now;
}

static struct slice digest(struct slice name)
{
	return (struct slice){name.p, name.n < 8 ? name.n : 8};
}

static bool is_renamed(struct slice before, const struct attribute *now)
{
	struct attribute x;
	(void)take_count(&before);
	while (take_attribute(&before, &x))
		if ((x.attnum == now->attnum) != slice_eq(digest(x.name), digest(now->name))) return true;
	return false;
}

bool shape_renames(const char *before, const char *now)
{
	struct slice a[PARTS], b[PARTS];
	struct attribute y;
	split(before, a);
	split(now, b);
	(void)take_count(&b[ATTRIBUTES]);
	while (take_attribute(&b[ATTRIBUTES], &y))
		if (is_renamed(a[ATTRIBUTES], &y)) return true;
	return false;
}

/* ---- types ---- */

/* What "types" says of an id; empty where it says nothing. */
static struct slice find_type(struct slice types, struct slice id)
{
	while (types.n > 0) {
		struct slice value = take_field(&types, ','), name = take_field(&value, '=');
		if (slice_eq(name, id)) return value;
	}
	return (struct slice){NULL, 0};
}

/* A label or a type that came or went changes no value that is left. */
static bool is_retyped(struct slice before, struct slice now)
{
	(void)take_field(&before, ';');
	(void)take_field(&now, ';');
	while (before.n > 0) {
		struct slice value = take_field(&before, ','), id = take_field(&value, '='),
					 other = find_type(now, id);
		if (other.n > 0 && !slice_eq(value, other)) return true;
	}
	return false;
}

bool shape_retypes(const char *before, const char *now)
{
	struct slice a[PARTS], b[PARTS];
	split(before, a);
	split(now, b);
	return is_retyped(a[KEYS], b[KEYS]);
}

/* ---- the whole ---- */

static bool is_partitioned(struct slice files)
{
	return files.n > 0 && files.p[0] == 'p';
}

enum shape_change shape_compare(const char *before, const char *now)
{
	struct slice a[PARTS], b[PARTS];
	if (*before == '\0' || strcmp(skip_mark(before), skip_mark(now)) == 0) return SHAPE_SAME;
	split(before, a);
	split(now, b);
	bool moved = !slice_eq(a[FILES], b[FILES]), touched = !slice_eq(a[ATTRIBUTES], b[ATTRIBUTES]);
	if (!slice_eq(a[PUBLISHED], b[PUBLISHED])) return SHAPE_REPUBLISHED;
	if (is_retyped(a[KEYS], b[KEYS])) return SHAPE_ALTERED;
	if (!moved && is_extended(a[ATTRIBUTES], b[ATTRIBUTES])) return SHAPE_EXTENDED;
	/* A rewrite by ALTER TYPE touches the column's entry; TRUNCATE and VACUUM FULL do not. */
	if (!same_attnums(a[ATTRIBUTES], b[ATTRIBUTES]) || (moved && touched)) return SHAPE_ALTERED;
	if (moved && (is_partitioned(a[FILES]) || is_partitioned(b[FILES]))) return SHAPE_PARTS;
	if (touched || !slice_eq(a[KEYS], b[KEYS]) || !slice_eq(a[NAME], b[NAME])) return SHAPE_OTHER;
	return SHAPE_STORAGE;
}

/*
 * A publication's own row changes with the kinds of change that it has; the
 * entries that make a table part of it are of the table, of those above a partition, or, from version 15 on,
 * of their schemas. Of partitions: which, whether they are being detached, their files, what tells of values
 * in columns added to them, and of their keys. Only pg_inherits is asked about them: it takes no locks.
 */
static const char shape_of_class[] =
	"pg_catalog.concat_ws('/', coalesce((SELECT pg_catalog.string_agg(p.oid || ':' || p.xmin || ':' || "
	"pg_catalog.concat_ws('+', (SELECT pg_catalog.string_agg(r.oid::text, '+' ORDER BY r.oid) FROM "
	"pg_catalog.pg_publication_rel r WHERE r.prpubid = p.oid AND r.prrelid = ANY (x.self))%s), ',' ORDER BY "
	"p.oid)"
	"  FROM pg_catalog.pg_publication p WHERE p.pubname = ANY (%s::pg_catalog.text[])), '0'),"
	" CASE c.relkind WHEN 'p' THEN 'p' || x.files ELSE c.relfilenode::text END,"
	" c.relnatts || ';' || coalesce((SELECT pg_catalog.string_agg(a.attnum || ':' || a.xmin || ':' ||"
	"   pg_catalog.substr(pg_catalog.md5(a.attname), 1, 8) || CASE WHEN a.atthasmissing THEN 'm' ELSE '' END,"
	"   ',' ORDER BY a.attnum) FROM pg_catalog.pg_attribute a"
	"  WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped), ''),"
	" c.relreplident::text || coalesce(x.keys, '') || coalesce((SELECT "
	"pg_catalog.string_agg(i.indexrelid::text || i.indisreplident::int || i.indisprimary::int, ',' ORDER BY "
	"i.indexrelid)"
	"  FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid AND i.indisunique), '') || "
	"coalesce(';' || (WITH RECURSIVE used(oid) AS ("
	"   SELECT a.atttypid FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT "
	"a.attisdropped AND a.atttypid >= 16384"
	"   UNION SELECT x.oid FROM used u JOIN pg_catalog.pg_type t ON t.oid = u.oid,"
	"    LATERAL (SELECT t.typelem UNION ALL SELECT t.typbasetype"
	"     UNION ALL SELECT b.atttypid FROM pg_catalog.pg_attribute b WHERE b.attrelid = t.typrelid AND "
	"b.attnum "
	"> 0 AND NOT b.attisdropped"
	"     UNION ALL SELECT r.rngsubtype FROM pg_catalog.pg_range r WHERE t.oid IN (r.rngtypid, "
	"r.rngmultitypid)) x(oid) WHERE x.oid >= 16384)"
	"  SELECT pg_catalog.string_agg(token, ',' ORDER BY token) FROM ("
	"   SELECT e.oid || '=' || pg_catalog.substr(pg_catalog.md5(e.enumlabel), 1, 8) FROM used u"
	"    JOIN pg_catalog.pg_enum e ON e.enumtypid = u.oid"
	"   UNION ALL SELECT 'c' || u.oid || '=' || pg_catalog.md5(pg_catalog.string_agg(b.attnum || ':' || "
	"b.atttypid || b.attisdropped, ',' ORDER BY b.attnum)) FROM used u"
	"    JOIN pg_catalog.pg_type t ON t.oid = u.oid AND t.typtype = 'c'"
	"    JOIN pg_catalog.pg_attribute b ON b.attrelid = t.typrelid AND b.attnum > 0 GROUP BY u.oid) "
	"y(token)), ''),"
	" pg_catalog.quote_ident(n.nspname) || '.' || pg_catalog.quote_ident(c.relname))";

static const char entry_of_schema[] =
	", (SELECT pg_catalog.string_agg('s' || s.oid, '+' ORDER BY s.oid) FROM "
	"pg_catalog.pg_publication_namespace s"
	" WHERE s.pnpubid = p.oid AND s.pnnspid IN (SELECT relnamespace FROM pg_catalog.pg_class WHERE oid = ANY "
	"(x.self)))";

static const char from_classes[] =
	" END FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace,"
	" LATERAL (SELECT CASE WHEN c.relispartition THEN ARRAY(SELECT relid::oid FROM "
	"pg_catalog.pg_partition_ancestors(c.oid)) ELSE ARRAY[c.oid] END, p.files, p.keys FROM (SELECT) one"
	"  LEFT JOIN LATERAL (WITH RECURSIVE part(oid, pending) AS ("
	"    SELECT inhrelid, inhdetachpending FROM pg_catalog.pg_inherits WHERE inhparent = c.oid AND "
	"c.relkind = 'p'"
	"    UNION ALL SELECT i.inhrelid, i.inhdetachpending FROM part JOIN pg_catalog.pg_inherits i ON "
	"i.inhparent = "
	"part.oid)"
	"   SELECT pg_catalog.md5(pg_catalog.string_agg(pg_catalog.concat_ws(',', k.oid, pending, k.relfilenode,"
	"     (SELECT count(*) FROM pg_catalog.pg_attribute a WHERE a.attrelid = k.oid AND a.atthasmissing)), ' "
	"' ORDER "
	"BY k.oid)) AS files,"
	"    pg_catalog.md5(pg_catalog.string_agg(pg_catalog.concat_ws(',', k.relreplident, (SELECT i.indexrelid "
	"FROM "
	"pg_catalog.pg_index i WHERE i.indrelid = k.oid"
	"     AND i.indisreplident), (SELECT i.indexrelid FROM pg_catalog.pg_index i WHERE i.indrelid = k.oid "
	"AND "
	"i.indisprimary)), ' ' ORDER BY k.oid)) AS keys"
	"    FROM part JOIN pg_catalog.pg_class k ON k.oid = part.oid WHERE k.relkind <> 'p') p ON c.relkind = "
	"'p') "
	"x(self, files, keys)"
	" WHERE c.relkind IN ('r', 'p') AND c.relpersistence <> 't'"
	" AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'";

char *shape_sql(uint32_t server_version, const char *publications, const uint32_t *oids, size_t n)
{
	struct buf b = {0};
	char *array = publication_array(publications), *literal = quote_literal(array), *shape = NULL, oid[16];
	if (asprintf(&shape, shape_of_class, server_version >= 150000 ? entry_of_schema : "", literal) < 0)
		abort();
	static const char first[] = "SELECT c.oid, n.nspname, c.relname, CASE WHEN c.oid IN (0";
	buf_put(&b, first, sizeof first - 1);
	for (size_t i = 0; i < n; i++) {
		snprintf(oid, sizeof oid, ",%u", oids[i]);
		buf_put(&b, oid, strlen(oid));
	}
	buf_put(&b, ") THEN ", 7);
	buf_put(&b, shape, strlen(shape));
	buf_put(&b, from_classes, sizeof from_classes);
	free(shape);
	free(literal);
	free(array);
	return (char *)b.p;
}
