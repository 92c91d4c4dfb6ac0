#include "reader/catalog.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reader/operands.h"
#include "reader/shape.h"

static char *format(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static char *format(const char *fmt, ...)
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
	return format("%s", s);
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

static const char tables_sql[] =
	"SELECT c.oid, n.nspname, c.relname, c.relkind, c.relreplident, c.relpersistence, c.reltuples::bigint,"
	"       c.relispartition"
	"  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
	" WHERE c.relkind IN ('r', 'p') AND c.relpersistence <> 't'"
	"   AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'"
	" ORDER BY n.nspname, c.relname";

/*
 * Domains resolve to what they are made of: that decides encoding and JSON form.
 * Generated columns are not in the stream, unless they are stored and, from
 * version 18 on, the publication has them.
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
	" WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped AND (a.attgenerated = '' OR "
	"(a.attgenerated = 's'"
	"   AND (SELECT pg_catalog.to_jsonb(p) ->> 'pubgencols' = 's' FROM pg_catalog.pg_publication p WHERE "
	"p.pubname = $2)))"
	" ORDER BY a.attnum";

/*
 * The index to go by: the replica identity if it is one; for FULL the primary
 * key, else any that would do. A deferrable one lets a key exist twice inside a
 * transaction, so that the log could not be followed by key.
 */
static const char key_sql[] =
	"SELECT pg_catalog.array_to_string((i.indkey::int2[])[0:i.indnkeyatts - 1], ' '), i.indimmediate"
	"  FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indrelid"
	" WHERE i.indrelid = $1 AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL"
	"   AND CASE c.relreplident WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident WHEN 'f' THEN "
	"true ELSE false END"
	"   AND NOT EXISTS (SELECT FROM pg_catalog.pg_attribute a WHERE a.attrelid = i.indrelid"
	"                   AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1]) AND NOT a.attnotnull)"
	" ORDER BY i.indimmediate DESC, i.indisprimary DESC, i.indexrelid LIMIT 1";

struct columns {
	int n;
	int attnum[1664];
	uint32_t base_oid[1664];
};

/* The schema as one block: built on the stack of arrays, then copied. */
static struct schema *build_schema(const PGresult *cols, struct columns *map, const int *key_attnums,
								   size_t nkeys)
{
	struct column columns[1664];
	uint16_t key_columns[KEY_COLUMNS_MAX];
	uint8_t key_kinds[KEY_COLUMNS_MAX];
	if (nkeys == 0) return NULL;
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
		if (i == map->n) return NULL; /* a generated column, which the stream does not carry */
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

static char *refuse_key(const struct source_table *t, char identity)
{
	char *s = quote_identifier(t->schema_name), *n = quote_identifier(t->table_name), *out;
	if (identity == 'n')
		out = format("%s has REPLICA IDENTITY NOTHING, so its updates and deletes could not be told apart: "
					 "run ALTER TABLE %s.%s REPLICA IDENTITY DEFAULT",
					 t->display, s, n);
	else
		out = format(
			"%s has no usable key (primary key, or unique index over NOT NULL columns, not partial, not "
			"deferrable): run "
			"ALTER TABLE %s.%s ADD PRIMARY KEY (...), or ALTER TABLE %s.%s REPLICA IDENTITY USING INDEX ...",
			t->display, s, n, s, n);
	free(s);
	free(n);
	return out;
}

/* Fills in schema, or refusal. */
static bool read_shape(struct pgconn *c, const char *publication, struct source_table *t, char identity,
					   struct err *err)
{
	char oid[16];
	const char *params[] = {oid, publication};
	PGresult *cols = NULL, *key = NULL;
	bool good = false;
	int attnums[KEY_COLUMNS_MAX];
	struct columns map = {.n = 0};

	snprintf(oid, sizeof oid, "%u", t->oid);
	if (!catalog_ask(c, columns_sql, 2, params, 7, 0, &cols, err) ||
		!catalog_ask(c, key_sql, 1, params, 2, 0, &key, err))
		goto out;
	for (; map.n < PQntuples(cols) && map.n < 1664; map.n++) {
		map.attnum[map.n] = atoi(PQgetvalue(cols, map.n, 0));
		map.base_oid[map.n] = get_oid(cols, map.n, 5);
	}
	if (PQntuples(key) == 1 && get_bool(key, 0, 1))
		t->schema = build_schema(cols, &map, attnums, parse_attnums(PQgetvalue(key, 0, 0), attnums));
	if (t->schema == NULL) t->refusal = refuse_key(t, identity);
	good = t->schema == NULL || operands_read(c, t->oid, t->schema, &t->operands, err);
out:
	PQclear(cols);
	PQclear(key);
	return good;
}

static bool add_table(struct pgconn *c, const char *publication, const PGresult *r, int row,
					  struct source_tables *out, struct err *err)
{
	struct source_table *t = &out->v[out->n++];
	char kind = PQgetvalue(r, row, 3)[0], identity = PQgetvalue(r, row, 4)[0],
		 persistence = PQgetvalue(r, row, 5)[0];
	*t = (struct source_table){.oid = get_oid(r, row, 0),
							   .schema_name = copy(PQgetvalue(r, row, 1)),
							   .table_name = copy(PQgetvalue(r, row, 2)),
							   .rows_estimate = atoll(PQgetvalue(r, row, 6))};
	char *s = quote_identifier(t->schema_name), *n = quote_identifier(t->table_name);
	t->display = display_name(t->schema_name, t->table_name);
	t->from_sql = format("ONLY %s.%s", s, n);
	free(s);
	free(n);
	if (kind == 'p')
		t->refusal =
			format("%s is partitioned, which is not supported yet: name its partitions instead", t->display);
	else if (persistence == 'u')
		t->refusal = format("%s is unlogged, so the log has no changes of it: run ALTER TABLE ... SET LOGGED",
							t->display);
	else
		return read_shape(c, publication, t, identity, err);
	return true;
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

bool catalog_read_tables(struct pgconn *c, const char *publication, const struct name_patterns *patterns,
						 bool *hit, struct source_tables *out, struct err *err)
{
	PGresult *r = NULL;
	char *at = NULL;
	bool good = false;
	*out = (struct source_tables){.v = NULL};
	if (!catalog_ask(c, tables_sql, 0, NULL, 8, 0, &r, err)) goto out;
	out->v = calloc((size_t)PQntuples(r) + 1, sizeof *out->v);
	if (out->v == NULL) abort();
	for (int row = 0; row < PQntuples(r); row++) {
		if (!match(patterns, PQgetvalue(r, row, 1), PQgetvalue(r, row, 2), hit)) continue;
		if (!add_table(c, publication, r, row, out, err)) goto out;
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
		free(x->shape);
		free(x->refusal);
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

/* ---- publication ---- */

struct text {
	char *p;
};

static void text_add(struct text *t, const char *a, const char *b)
{
	char *grown = format("%s%s%s", t->p != NULL ? t->p : "", a, b);
	free(t->p);
	t->p = grown;
}

static bool run_ddl(struct pgconn *c, const char *sql, struct err *err)
{
	PGresult *r = NULL;
	if (!pgconn_query(c, sql, 0, NULL, &r, err)) return err_wrap(err, "%s", sql);
	PQclear(r);
	return true;
}

static bool create_publication(struct pgconn *c, const char *id, const struct source_tables *t,
							   struct err *err)
{
	struct text sql = {format("CREATE PUBLICATION %s FOR TABLE ", id)};
	const char *comma = "";
	for (size_t i = 0; i < t->n; i++) {
		if (t->v[i].refusal != NULL) continue;
		text_add(&sql, comma, t->v[i].from_sql);
		comma = ", ";
	}
	text_add(&sql, " WITH (publish = 'insert, update, delete, truncate', publish_via_partition_root = true)",
			 "");
	bool good = run_ddl(c, sql.p, err);
	free(sql.p);
	return good;
}

static bool check_publication(const PGresult *r, const char *publication, struct err *err)
{
	for (int i = 0; i < 4; i++)
		if (!get_bool(r, 0, i))
			return err_set(
				err, ERR_CONFIG,
				"publication %s leaves out some kinds of change, so the copy could not be exact: run "
				"ALTER PUBLICATION ... SET (publish = 'insert, update, delete, truncate')",
				publication);
	return true;
}

/* Marks which tables are published, and refuses what the copy would have to imitate but does not. */
static bool read_members(struct pgconn *c, const char *publication, const struct source_tables *t,
						 bool *member, struct err *err)
{
	PGresult *r = NULL;
	const char *params[] = {publication};
	bool good = true;
	const char *sql =
		PQserverVersion(pgconn_pg(c)) >= 150000
			? "SELECT pr.prrelid, pg_catalog.pg_get_expr(pr.prqual, pr.prrelid), pr.prattrs IS NOT NULL FROM "
			  "pg_catalog.pg_publication_rel pr"
			  "  JOIN pg_catalog.pg_publication p ON p.oid = pr.prpubid WHERE p.pubname = $1"
			  " UNION SELECT c.oid, NULL, false FROM pg_catalog.pg_publication_tables pt"
			  "  JOIN pg_catalog.pg_namespace n ON n.nspname = pt.schemaname JOIN pg_catalog.pg_class c ON "
			  "c.relnamespace = n.oid AND c.relname = pt.tablename"
			  " WHERE pt.pubname = $1 AND NOT EXISTS (SELECT FROM pg_catalog.pg_publication_rel x JOIN "
			  "pg_catalog.pg_publication y ON y.oid = x.prpubid"
			  "   WHERE y.pubname = $1 AND x.prrelid = c.oid)"
			: "SELECT c.oid, NULL::text, false FROM pg_catalog.pg_publication_tables pt"
			  "  JOIN pg_catalog.pg_namespace n ON n.nspname = pt.schemaname JOIN pg_catalog.pg_class c ON "
			  "c.relnamespace = n.oid AND c.relname = pt.tablename"
			  " WHERE pt.pubname = $1";
	if (!catalog_ask(c, sql, 1, params, 3, 0, &r, err)) return false;
	for (int row = 0; row < PQntuples(r) && good; row++) {
		for (size_t i = 0; i < t->n; i++) {
			if (t->v[i].oid != get_oid(r, row, 0)) continue;
			member[i] = true;
			if (!PQgetisnull(r, row, 1) && t->v[i].filter_sql == NULL)
				t->v[i].filter_sql = copy(PQgetvalue(r, row, 1));
			if (get_bool(r, row, 2))
				good =
					err_set(err, ERR_CONFIG,
							"publication %s publishes only some columns of %s, which is not supported yet: "
							"use a publication without column lists",
							publication, t->v[i].display);
		}
	}
	PQclear(r);
	return good;
}

static bool add_missing(struct pgconn *c, const char *id, const struct source_tables *t, const bool *member,
						bool *added, struct err *err)
{
	for (size_t i = 0; i < t->n; i++) {
		if (member[i] || t->v[i].refusal != NULL) continue;
		char *sql = format("ALTER PUBLICATION %s ADD TABLE %s", id, t->v[i].from_sql);
		bool good = run_ddl(c, sql, err);
		free(sql);
		if (!good) return false;
		added[i] = true;
	}
	return true;
}

/* A table that was left would only be streamed for nothing. */
static bool drop_one(struct pgconn *c, const char *publication, const char *id, uint32_t oid, struct err *err)
{
	static const char ask[] =
		"SELECT pg_catalog.format('%I.%I', n.nspname, c.relname) FROM pg_catalog.pg_publication_rel r"
		" JOIN pg_catalog.pg_publication p ON p.oid = r.prpubid JOIN pg_catalog.pg_class c ON c.oid = "
		"r.prrelid"
		" JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE p.pubname = $1 AND c.oid = $2::oid";
	char text[16];
	const char *params[] = {publication, text};
	PGresult *r = NULL;
	snprintf(text, sizeof text, "%u", oid);
	if (!catalog_ask(c, ask, 2, params, 1, 0, &r, err)) return false;
	bool good = true;
	if (PQntuples(r) == 1) {
		char *sql = format("ALTER PUBLICATION %s DROP TABLE %s", id, PQgetvalue(r, 0, 0));
		good = run_ddl(c, sql, err);
		free(sql);
	}
	PQclear(r);
	return good;
}

bool catalog_has_publication(struct pgconn *c, const char *publication, bool *out, struct err *err)
{
	PGresult *r = NULL;
	const char *params[] = {publication};
	if (!pgconn_query(c, "SELECT FROM pg_catalog.pg_publication WHERE pubname = $1", 1, params, &r, err))
		return false;
	*out = PQntuples(r) == 1;
	PQclear(r);
	return true;
}

bool catalog_ensure_publication(struct pgconn *c, const char *publication, struct source_tables *t,
								const uint32_t *drop_oids, size_t ndrop, bool *created, bool *added,
								struct err *err)
{
	PGresult *r = NULL;
	const char *params[] = {publication};
	*created = false;
	if (!catalog_ask(c,
					 "SELECT pubinsert, pubupdate, pubdelete, pubtruncate FROM pg_catalog.pg_publication "
					 "WHERE pubname = $1",
					 1, params, 4, 0, &r, err))
		return false;
	char *id = quote_identifier(publication);
	bool *member = calloc(t->n + 1, sizeof *member);
	bool good = member != NULL;
	if (PQntuples(r) == 0) {
		*created = true;
		good = good && create_publication(c, id, t, err);
		for (size_t i = 0; i < t->n; i++)
			added[i] = t->v[i].refusal == NULL;
	} else {
		good = good && check_publication(r, publication, err) &&
			   read_members(c, publication, t, member, err) && add_missing(c, id, t, member, added, err);
		for (size_t i = 0; good && i < ndrop; i++)
			good = drop_one(c, publication, id, drop_oids[i], err);
	}
	free(member);
	free(id);
	PQclear(r);
	return good;
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
	for (size_t i = 0; i < t->n; i++)
		oids[i] = t->v[i].oid;
	char *sql = shape_sql((uint32_t)PQserverVersion(pgconn_pg(c)), publication, oids, t->n);
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
