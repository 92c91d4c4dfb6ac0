#include "reader/catalog.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reader/collations.h"
#include "reader/operands.h"
#include "reader/shape.h"

char *text_format(const char *fmt, ...)
{
	char *out = NULL;
	va_list ap;
	va_start(ap, fmt);
	if (vasprintf(&out, fmt, ap) < 0) abort();
	va_end(ap);
	return out;
}

static char *copy(const char *s)
{
	return text_format("%s", s);
}

char *display_name(const char *schema_name, const char *table_name)
{
	struct buf b = {0};
	names_put(&b, schema_name, table_name);
	buf_put_u8(&b, 0);
	return (char *)b.p;
}

static uint32_t get_oid(const PGresult *r, int row, int col)
{
	return (uint32_t)strtoul(PQgetvalue(r, row, col), NULL, 10);
}

static bool get_bool(const PGresult *r, int row, int col)
{
	return PQgetvalue(r, row, col)[0] == 't';
}

bool catalog_ask(struct pgconn *c, const char *sql, int nparams, const char *const *params, int columns,
				 int rows, PGresult **out, struct err *err)
{
	PGresult *r = NULL;
	if (!pgconn_query(c, sql, nparams, params, &r, err)) return false;
	if (PQnfields(r) == columns && PQntuples(r) >= rows) {
		*out = r;
		return true;
	}
	err_set(err, ERR_PROTOCOL, "the server's answer to %.40s... has %d columns and %d rows", sql,
			PQnfields(r), PQntuples(r));
	PQclear(r);
	return false;
}

bool catalog_ask_text(struct pgconn *c, const char *sql, char **out, struct err *err)
{
	PGresult *r = NULL;
	if (!catalog_ask(c, sql, 0, NULL, 1, 0, &r, err)) return false;
	*out = PQntuples(r) > 0 && !PQgetisnull(r, 0, 0) ? copy(PQgetvalue(r, 0, 0)) : NULL;
	PQclear(r);
	return true;
}

const char catalog_blockers_sql[] =
	"SELECT coalesce(string_agg(what, ', '), 'none that this role may see') FROM ("
	" SELECT 'pid ' || pid || ' (' || coalesce(usename, '?') || ', ' || coalesce(state, '?') || ', "
	"transaction since ' || coalesce(xact_start::text, '?') || ')' AS what"
	"  FROM pg_catalog.pg_stat_activity WHERE backend_xid IS NOT NULL"
	" UNION ALL SELECT 'prepared transaction ' || pg_catalog.quote_literal(gid) || ' (' || owner || ', since "
	"' || prepared || ')' FROM pg_catalog.pg_prepared_xacts"
	" LIMIT 5) x";

/* ---- tables ---- */

/*
 * Of a partitioned table the rows estimated and the number of partitions that hold rows, through all levels.
 * pg_inherits is asked rather than pg_partition_tree(), which would wait for locks on the partitions.
 */
static const char tables_sql[] =
	"SELECT c.oid, n.nspname, c.relname, c.relkind, c.relreplident, c.relpersistence,"
	" CASE c.relkind WHEN 'p' THEN p.rows ELSE c.reltuples END::bigint, coalesce(p.leaves, 0),"
	" CASE WHEN c.relispartition THEN (SELECT pg_catalog.string_agg(a.relid::oid::text, ' ' ORDER BY a.i)"
	"  FROM pg_catalog.pg_partition_ancestors(c.oid) WITH ORDINALITY a(relid, i) WHERE a.relid <> c.oid) END"
	"  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
	"  LEFT JOIN LATERAL (WITH RECURSIVE part(oid) AS ("
	"    SELECT inhrelid FROM pg_catalog.pg_inherits WHERE inhparent = c.oid AND "
	"c.relkind = 'p'"
	"    UNION ALL SELECT i.inhrelid FROM part JOIN pg_catalog.pg_inherits i ON i.inhparent = part.oid)"
	"   SELECT pg_catalog.sum(greatest(k.reltuples, 0)) AS rows, pg_catalog.count(*) AS leaves"
	"    FROM part JOIN pg_catalog.pg_class k ON k.oid = part.oid WHERE k.relkind <> 'p') p ON c.relkind = "
	"'p'"
	" WHERE c.relkind IN ('r', 'p') AND c.relpersistence <> 't'"
	"   AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'"
	" ORDER BY n.nspname, c.relname";

/*
 * Domains resolve to what they are made of: that decides encoding and JSON form.
 * $2: the published columns, NULL for all. The publication's list may name generated columns
 * although the stream lacks them; $3 tells whether it has the stored ones.
 */
static const char columns_sql[] =
	"WITH RECURSIVE base(oid, base_oid, typtype) AS ("
	"  SELECT t.oid, t.oid, t.typtype FROM pg_catalog.pg_type t"
	"   WHERE t.oid IN (SELECT atttypid FROM pg_catalog.pg_attribute WHERE attrelid = $1 AND attnum > 0)"
	"  UNION ALL"
	"  SELECT b.oid, t.oid, t.typtype FROM base b"
	"    JOIN pg_catalog.pg_type d ON d.oid = b.base_oid AND b.typtype = 'd'"
	"    JOIN pg_catalog.pg_type t ON t.oid = d.typbasetype)"
	"SELECT a.attnum, a.attname, a.atttypid, a.atttypmod, pg_catalog.format_type(a.atttypid, -1), "
	"b.base_oid, a.attnotnull"
	"  FROM pg_catalog.pg_attribute a JOIN base b ON b.oid = a.atttypid AND b.typtype <> 'd'"
	" WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped"
	"   AND ($2::pg_catalog.name[] IS NULL OR a.attname = ANY ($2::pg_catalog.name[]))"
	"   AND (a.attgenerated = '' OR (a.attgenerated = 's' AND $3::boolean))"
	" ORDER BY a.attnum";

/*
 * The index to go by: the replica identity if it is one; for FULL the primary
 * key, else any that would do. A deferrable one lets a key exist twice inside a
 * transaction, so that the log could not be followed by key. One that tells apart what the columns' own
 * types and collations call equal (citext by text_ops, composites by record_image_ops, another collation
 * than a nondeterministic one) lets rows tie in the order that pages are read in: some would never be read.
 */
static const char key_sql[] =
	"SELECT pg_catalog.array_to_string((i.indkey::int2[])[0:i.indnkeyatts - 1], ' '), i.indimmediate"
	"  FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indrelid"
	" WHERE i.indrelid = $1 AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL"
	"   AND CASE c.relreplident WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident WHEN 'f' THEN "
	"true ELSE false END"
	"   AND NOT EXISTS (SELECT FROM unnest((i.indkey::int2[])[0:i.indnkeyatts - 1], "
	"(i.indclass::oid[])[0:i.indnkeyatts - 1], (i.indcollation::oid[])[0:i.indnkeyatts - 1]) k(attnum, "
	"class, "
	"coll)"
	"   JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum"
	"   JOIN pg_catalog.pg_type t ON t.oid = a.atttypid JOIN pg_catalog.pg_opclass o ON o.oid = k.class"
	"   WHERE NOT a.attnotnull OR (a.attcollation <> k.coll AND EXISTS (SELECT FROM "
	"pg_catalog.pg_collation l WHERE l.oid = a.attcollation AND NOT l.collisdeterministic))"
	"   OR EXISTS (SELECT FROM pg_catalog.pg_opclass d WHERE d.opcmethod = o.opcmethod AND d.opcdefault AND "
	"d.opcintype = coalesce(nullif(t.typbasetype, 0), t.oid) AND d.opcintype <> o.opcintype)"
	"   OR NOT EXISTS (SELECT FROM pg_catalog.pg_opclass d JOIN pg_catalog.pg_amop x ON x.amopfamily = "
	"d.opcfamily"
	"     JOIN pg_catalog.pg_amop y ON y.amopfamily = o.opcfamily AND y.amopopr = x.amopopr"
	"    WHERE d.opcmethod = o.opcmethod AND d.opcdefault AND d.opcintype = o.opcintype AND x.amopstrategy = "
	"3 "
	"AND y.amopstrategy = 3 AND x.amoplefttype = o.opcintype AND x.amoprighttype = o.opcintype))"
	" ORDER BY i.indimmediate DESC, i.indisprimary DESC, i.indexrelid LIMIT 1";

/*
 * Partitions ($1: of which table) that keep the whole from being followed. What the log keeps of an old row
 * is up to the partition's own replica identity: it has to have the columns of the whole's key ($2). A
 * foreign table is none of them: where there is one, the whole can have no unique index.
 */
static const char parts_sql[] =
	"WITH RECURSIVE part(oid) AS ("
	"  SELECT inhrelid FROM pg_catalog.pg_inherits WHERE inhparent = $1 AND NOT inhdetachpending"
	"  UNION ALL SELECT i.inhrelid FROM part JOIN pg_catalog.pg_inherits i ON i.inhparent = part.oid"
	"   WHERE NOT i.inhdetachpending)"
	"SELECT n.nspname, c.relname, c.relpersistence"
	"  FROM part JOIN pg_catalog.pg_class c ON c.oid = part.oid JOIN pg_catalog.pg_namespace n ON n.oid = "
	"c.relnamespace"
	" WHERE c.relkind = 'r' AND (c.relpersistence <> 'p' OR (c.relreplident <> 'f' AND NOT "
	"EXISTS ("
	"  SELECT FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid AND i.indimmediate AND i.indisvalid"
	"   AND CASE c.relreplident WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident END"
	"   AND (SELECT pg_catalog.array_agg(a.attname) FROM pg_catalog.pg_attribute a WHERE a.attrelid = $1"
	"     AND a.attnum = ANY ($2::int2[])) <@"
	"    (SELECT pg_catalog.array_agg(a.attname) FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid"
	"     AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1])))))"
	" ORDER BY 1, 2 LIMIT 1";

struct columns {
	int n;
	int attnum[1664];
	uint32_t base_oid[1664];
};

/* The schema as one block: built on the stack of arrays, then copied. NULL: a key column is not published. */
static struct schema *build_schema(const PGresult *cols, struct columns *map, const int *key_attnums,
								   size_t nkeys)
{
	struct column columns[1664];
	uint16_t key_columns[KEY_COLUMNS_MAX];
	uint8_t key_kinds[KEY_COLUMNS_MAX];
	for (int i = 0; i < map->n; i++)
		columns[i] = (struct column){.name = PQgetvalue(cols, i, 1),
									 .type_oid = get_oid(cols, i, 2),
									 .typmod = atoi(PQgetvalue(cols, i, 3)),
									 .type_name = PQgetvalue(cols, i, 4),
									 .type_class = (uint8_t)type_class_of(map->base_oid[i])};
	for (size_t k = 0; k < nkeys; k++) {
		int i = 0;
		while (i < map->n && map->attnum[i] != key_attnums[k])
			i++;
		if (i == map->n) return NULL;
		key_columns[k] = (uint16_t)i;
		key_kinds[k] = (uint8_t)key_kind_of_type(map->base_oid[i]);
	}
	struct schema s = {.ncolumns = (uint16_t)map->n,
					   .nkeys = (uint16_t)nkeys,
					   .columns = columns,
					   .key_columns = key_columns,
					   .key_kinds = key_kinds};
	return schema_copy(&s);
}

static bool has_attnum(const int *attnums, size_t n, int attnum)
{
	for (size_t i = 0; i < n; i++)
		if (attnums[i] == attnum) return true;
	return false;
}

/* An index may have a column twice: the second time it adds nothing to the key. 0: more columns than a key
 * may have. */
static size_t parse_attnums(const char *text, int *out)
{
	size_t n = 0;
	for (char *end; *text != '\0'; text = *end == ' ' ? end + 1 : end) {
		int attnum = (int)strtol(text, &end, 10);
		if (end == text) break;
		if (has_attnum(out, n, attnum)) continue;
		if (n == KEY_COLUMNS_MAX) return 0;
		out[n++] = attnum;
	}
	return n;
}

/* ---- what stands in the way ---- */

static char *refuse_key(const struct source_table *t)
{
	char *s = quote_identifier(t->schema_name), *n = quote_identifier(t->table_name), *out;
	if (t->identity == 'n')
		out = text_format(
			"%s has REPLICA IDENTITY NOTHING, so its updates and deletes could not be told apart: "
			"run ALTER TABLE %s.%s REPLICA IDENTITY DEFAULT",
			t->display, s, n);
	else
		out = text_format(
			"%s has no usable key (primary key, or unique index over NOT NULL columns, not partial, not "
			"deferrable, that takes for equal what the columns' types do): run "
			"ALTER TABLE %s.%s ADD PRIMARY KEY (...), or ALTER TABLE %s.%s REPLICA IDENTITY USING INDEX ...",
			t->display, s, n, s, n);
	free(s);
	free(n);
	return out;
}

static char *refuse_part(const struct source_table *t, const char *schema_name, const char *table_name,
						 char persistence)
{
	char *part = display_name(schema_name, table_name), *out;
	if (persistence == 'u')
		out = text_format(
			"%s has an unlogged partition %s, so the log has no changes of it: run ALTER TABLE %s "
			"SET LOGGED",
			t->display, part, part);
	else
		out = text_format(
			"%s has a partition %s whose replica identity lacks columns of the key of %s: run ALTER "
			"TABLE %s REPLICA IDENTITY DEFAULT (or FULL)",
			t->display, part, t->display, part);
	free(part);
	return out;
}

static bool check_parts(struct pgconn *c, const char *oid, struct source_table *t, struct err *err)
{
	char *attnums = text_format("{%s}", t->key_attnums);
	const char *params[] = {oid, attnums};
	PGresult *r = NULL;
	for (char *p = attnums; *p != '\0'; p++)
		if (*p == ' ') *p = ',';
	bool good = catalog_ask(c, parts_sql, 2, params, 3, 0, &r, err);
	if (good && PQntuples(r) > 0)
		t->refusal = refuse_part(t, PQgetvalue(r, 0, 0), PQgetvalue(r, 0, 1), PQgetvalue(r, 0, 2)[0]);
	PQclear(r);
	free(attnums);
	return good;
}

bool catalog_read_key(struct pgconn *c, struct source_table *t, struct err *err)
{
	char oid[16];
	const char *params[] = {oid};
	int attnums[KEY_COLUMNS_MAX];
	PGresult *key = NULL;
	if (t->refusal != NULL || t->key_attnums != NULL) return true;
	snprintf(oid, sizeof oid, "%u", t->oid);
	if (!catalog_ask(c, key_sql, 1, params, 2, 0, &key, err)) return false;
	if (PQntuples(key) == 1 && get_bool(key, 0, 1) && parse_attnums(PQgetvalue(key, 0, 0), attnums) > 0)
		t->key_attnums = copy(PQgetvalue(key, 0, 0));
	else
		t->refusal = refuse_key(t);
	PQclear(key);
	return !t->partitioned || t->refusal != NULL || check_parts(c, oid, t, err);
}

bool catalog_read_columns(struct pgconn *c, struct source_table *t, const struct published_columns *published,
						  struct err *err)
{
	char oid[16];
	const char *params[] = {oid, published->names, published->generated ? "t" : "f"};
	PGresult *cols = NULL;
	int attnums[KEY_COLUMNS_MAX];
	struct columns map = {.n = 0};
	snprintf(oid, sizeof oid, "%u", t->oid);
	if (!catalog_ask(c, columns_sql, 3, params, 7, 0, &cols, err)) return false;
	for (; map.n < PQntuples(cols) && map.n < 1664; map.n++) {
		map.attnum[map.n] = atoi(PQgetvalue(cols, map.n, 0));
		map.base_oid[map.n] = get_oid(cols, map.n, 5);
	}
	t->schema = build_schema(cols, &map, attnums, parse_attnums(t->key_attnums, attnums));
	if (t->schema == NULL)
		t->refusal =
			text_format("%s has a key with columns that are not published (left out by a column list, "
						"or generated), so its rows could not be told apart: publish them",
						t->display);
	PQclear(cols);
	return t->schema == NULL || (operands_read(c, t->oid, t->schema, &t->operands, err) &&
								 collations_read(c, t->oid, t->schema, &t->collations, err));
}

static uint32_t *parse_oids(const char *text)
{
	uint32_t *out = calloc(strlen(text) / 2 + 2, sizeof *out);
	size_t n = 0;
	if (out == NULL) abort();
	for (char *end; *text != '\0'; text = *end == ' ' ? end + 1 : end) {
		out[n] = (uint32_t)strtoul(text, &end, 10);
		if (end == text || out[n] == 0) break;
		n++;
	}
	out[n] = 0;
	return out;
}

static bool add_table(struct pgconn *c, const PGresult *r, int row, struct source_tables *out,
					  struct err *err)
{
	struct source_table *t = &out->v[out->n++];
	bool unlogged = PQgetvalue(r, row, 5)[0] == 'u';
	*t = (struct source_table){.oid = get_oid(r, row, 0),
							   .schema_name = copy(PQgetvalue(r, row, 1)),
							   .table_name = copy(PQgetvalue(r, row, 2)),
							   .partitioned = PQgetvalue(r, row, 3)[0] == 'p',
							   .identity = PQgetvalue(r, row, 4)[0],
							   .rows_estimate = atoll(PQgetvalue(r, row, 6)),
							   .leaves = atoi(PQgetvalue(r, row, 7))};
	char *s = quote_identifier(t->schema_name), *n = quote_identifier(t->table_name);
	t->display = display_name(t->schema_name, t->table_name);
	t->from_sql = text_format("%s%s.%s", t->partitioned ? "" : "ONLY ", s, n);
	if (!PQgetisnull(r, row, 8)) t->ancestors = parse_oids(PQgetvalue(r, row, 8));
	free(s);
	free(n);
	if (unlogged)
		t->refusal = text_format(
			"%s is unlogged, so the log has no changes of it: run ALTER TABLE ... SET LOGGED", t->display);
	return (t->ancestors != NULL && !t->partitioned) || catalog_read_key(c, t, err);
}

/* Notes every pattern that matches. */
static bool match(const struct name_patterns *patterns, const char *schema_name, const char *table_name,
				  bool *hit)
{
	bool any = false;
	for (size_t i = 0; i < names_pattern_count(patterns); i++) {
		if (!names_match_one(patterns, i, schema_name, table_name)) continue;
		any = hit[i] = true;
	}
	return any;
}

bool catalog_read_tables(struct pgconn *c, const struct name_patterns *patterns, bool *hit,
						 struct source_tables *out, struct err *err)
{
	PGresult *r = NULL;
	char *at = NULL;
	bool good = false;
	*out = (struct source_tables){.v = NULL};
	if (!catalog_ask(c, tables_sql, 0, NULL, 9, 0, &r, err)) goto out;
	out->v = calloc((size_t)PQntuples(r) + 1, sizeof *out->v);
	if (out->v == NULL) abort();
	for (int row = 0; row < PQntuples(r); row++) {
		if (!match(patterns, PQgetvalue(r, row, 1), PQgetvalue(r, row, 2), hit)) continue;
		if (!add_table(c, r, row, out, err)) goto out;
	}
	/* Read after the shapes: any DDL that they show has committed below this. */
	if (!catalog_ask_text(c, "SELECT pg_catalog.pg_current_wal_insert_lsn()", &at, err)) goto out;
	good = at != NULL && lsn_parse(at, &out->read_at);
	if (!good) err_set(err, ERR_PROTOCOL, "the server's WAL position is not understood");
out:
	free(at);
	PQclear(r);
	if (!good) source_tables_free(out);
	return good;
}

void source_tables_free(struct source_tables *t)
{
	for (size_t i = 0; i < t->n; i++) {
		struct source_table *x = &t->v[i];
		free(x->schema_name);
		free(x->table_name);
		free(x->display);
		free(x->from_sql);
		free(x->filter_sql);
		free(x->operands);
		free(x->collations);
		free(x->shape);
		free(x->refusal);
		free(x->ancestors);
		free(x->key_attnums);
		schema_free(x->schema);
	}
	free(t->v);
	*t = (struct source_tables){.v = NULL};
}

const struct source_table *source_tables_find(const struct source_tables *t, uint32_t oid)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->v[i].oid == oid) return &t->v[i];
	return NULL;
}

bool source_table_is_used(const struct source_table *t)
{
	return t->refusal == NULL && !t->covered;
}

/* ---- shapes ---- */

static void take_shapes(const PGresult *r, struct source_tables *t)
{
	for (int row = 0; row < PQntuples(r); row++)
		for (size_t i = 0; i < t->n; i++)
			if (t->v[i].oid == get_oid(r, row, 0) && !PQgetisnull(r, row, 3) && t->v[i].shape == NULL)
				t->v[i].shape = copy(PQgetvalue(r, row, 3));
}

bool catalog_read_shapes(struct pgconn *c, const char *publication, struct source_tables *t, struct err *err)
{
	uint32_t *oids = calloc(t->n + 1, sizeof *oids);
	PGresult *r = NULL;
	if (oids == NULL) return err_set(err, ERR_NOMEM, "out of memory");
	size_t n = 0;
	for (size_t i = 0; i < t->n; i++)
		if (source_table_is_used(&t->v[i])) oids[n++] = t->v[i].oid;
	char *sql = shape_sql((uint32_t)PQserverVersion(pgconn_pg(c)), publication, oids, n);
	bool good = catalog_ask(c, sql, 0, NULL, 4, 0, &r, err);
	if (good) take_shapes(r, t);
	/* One that has none was dropped since: the next look at the catalog will tell. */
	for (size_t i = 0; good && i < t->n; i++)
		if (t->v[i].shape == NULL) t->v[i].shape = copy("");
	PQclear(r);
	free(sql);
	free(oids);
	return good;
}

/* ---- slot ---- */

bool catalog_read_slot(struct pgconn *c, const char *slot, struct slot_state *out, struct err *err)
{
	static const char sql[] = "SELECT active, slot_type = 'logical', plugin = 'pgoutput' AND database = "
							  "pg_catalog.current_database(), active_pid,"
							  " confirmed_flush_lsn, coalesce(pg_catalog.to_jsonb(s) ->> "
							  "'invalidation_reason', ''), coalesce(wal_status, ''),"
							  " coalesce((pg_catalog.to_jsonb(s) ->> 'conflicting')::boolean, false)"
							  " FROM pg_catalog.pg_replication_slots s WHERE slot_name = $1";
	PGresult *r = NULL;
	const char *params[] = {slot};
	*out = (struct slot_state){.exists = false};
	if (!catalog_ask(c, sql, 1, params, 8, 0, &r, err)) return false;
	if (PQntuples(r) == 1) {
		const char *reason = PQgetvalue(r, 0, 5), *wal = PQgetvalue(r, 0, 6);
		bool conflicting = get_bool(r, 0, 7);
		out->exists = true;
		out->active = get_bool(r, 0, 0);
		out->logical = get_bool(r, 0, 1);
		out->ours_to_use = get_bool(r, 0, 2);
		out->active_pid = atoi(PQgetvalue(r, 0, 3));
		(void)lsn_parse(PQgetvalue(r, 0, 4), &out->confirmed_flush);
		out->lost = *reason != '\0' || conflicting || strcmp(wal, "lost") == 0;
		/* Version 16 calls every lost slot conflicting and has no reason yet. */
		snprintf(out->why_lost, sizeof out->why_lost, "%s",
				 *reason != '\0' ? reason
				 : conflicting   ? "required WAL or catalog rows were removed"
								 : "required WAL was removed");
	}
	PQclear(r);
	return true;
}
