#include "reader/attach.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reader/lineage.h"
#include "reader/log.h"
#include "reader/publication.h"

static bool run_sql(struct attachment *a, const char *sql, struct err *err)
{
	PGresult *r = NULL;
	bool good = pgconn_query(a->sql, sql, 0, NULL, &r, err);
	PQclear(r);
	return good;
}

/* ---- what was left behind ---- */

enum { TRY_SLOT_WAITS = 150 }; /* of 20 ms */
enum { PATIENCE_MAX = 64 };    /* times silence_ms */

void attach_memory_finish(struct attach_memory *m)
{
	free(m->backends);
	m->backends = NULL;
}

/* A statement that is still running shows that the server was slow, not gone. */
static void be_patient(struct attachment *a, const struct attach_config *config)
{
	struct attach_memory *m = config->memory;
	if (m->sql_silence_ms / config->silence_ms >= PATIENCE_MAX) return;
	m->sql_silence_ms *= 2;
	pgconn_set_silence(a->sql, m->sql_silence_ms);
	log_warn(
		"the source was still busy with a statement that was given up; statements get more time from now on",
		KV_I("seconds", m->sql_silence_ms / 1000), KV_END);
}

/* Of our own backends, known by their start, those that the server still has. */
static bool end_left_behind(struct attachment *a, const struct attach_config *config, struct err *err)
{
	static const char sql[] =
		"SELECT pg_catalog.count(*) FILTER (WHERE state = 'active' AND wait_event IS DISTINCT FROM "
		"'ClientWrite'"
		" AND backend_type = 'client backend') > 0, pg_catalog.count(pg_catalog.pg_terminate_backend(pid))"
		" FROM pg_catalog.pg_stat_activity WHERE pid || ' ' || backend_start = ANY ($1::pg_catalog.text[])"
		" AND usename = current_user";
	struct attach_memory *m = config->memory;
	const char *const params[] = {m->backends};
	PGresult *r = NULL;
	if (m->backends == NULL) return true;
	if (!catalog_ask(a->sql, sql, 1, params, 2, 1, &r, err)) return false;
	if (m->unanswered && PQgetvalue(r, 0, 0)[0] == 't') be_patient(a, config);
	PQclear(r);
	attach_memory_finish(m);
	m->unanswered = false;
	return true;
}

static bool remember_backends(struct attachment *a, struct err *err)
{
	char sql[256];
	snprintf(sql, sizeof sql,
			 "SELECT pg_catalog.array_agg(pid || ' ' || backend_start) FROM pg_catalog.pg_stat_activity"
			 " WHERE pid IN (pg_catalog.pg_backend_pid(), %d)",
			 pgconn_backend_pid(a->repl));
	return catalog_ask_text(a->sql, sql, &a->memory->backends, err);
}

/* ---- what the server can do ---- */

/* A store that has a history waits: in a failover its address may lead to the standby before that is
 * promoted. */
static bool refuse_standby(bool fresh, struct err *err)
{
	return fresh ? err_set(err, ERR_CONFIG, "the server is a standby: name the primary in --source")
				 : err_set(
					   err, ERR_RETRY,
					   "the server is a standby: waiting for its promotion, or for the primary in its place");
}

static bool check_settings(const PGresult *r, bool fresh, struct err *err)
{
	const char *wal_level = PQgetvalue(r, 0, 0), *encoding = PQgetvalue(r, 0, 1);
	if (PQgetvalue(r, 0, 2)[0] == 't') return refuse_standby(fresh, err);
	if (strcmp(wal_level, "logical") != 0)
		return err_set(
			err, ERR_CONFIG,
			"the server's wal_level is %s and has to be logical: run ALTER SYSTEM SET wal_level = 'logical' "
			"and restart the server",
			wal_level);
	if (strcmp(encoding, "SQL_ASCII") == 0)
		return err_set(
			err, ERR_CONFIG,
			"the database's encoding is SQL_ASCII, which does not say what its bytes mean: a copy needs a "
			"database with a real encoding, such as UTF8");
	if (PQgetvalue(r, 0, 3)[0] != 't')
		return err_set(err, ERR_CONFIG, "role %s may not replicate: run ALTER ROLE ... REPLICATION",
					   PQgetvalue(r, 0, 4));
	return true;
}

static bool check_server(struct attachment *a, bool fresh, struct err *err)
{
	static const char sql[] = "SELECT pg_catalog.current_setting('wal_level'), "
							  "pg_catalog.current_setting('server_encoding'), pg_catalog.pg_is_in_recovery(),"
							  " (SELECT rolreplication OR rolsuper FROM pg_catalog.pg_roles WHERE rolname = "
							  "current_user), pg_catalog.quote_ident(current_user)";
	PGresult *r = NULL;
	a->server_version = (uint32_t)PQserverVersion(pgconn_pg(a->sql));
	if (a->server_version < 140000)
		return err_set(err, ERR_CONFIG, "the server is PostgreSQL %u, and version 14 or newer is needed",
					   a->server_version / 10000);
	if (!catalog_ask(a->sql, sql, 0, NULL, 5, 1, &r, err)) return false;
	bool good = check_settings(r, fresh, err);
	PQclear(r);
	return good;
}

static bool identify(struct attachment *a, struct server_state *s, struct err *err)
{
	PGresult *r = NULL;
	if (!pgconn_query(a->repl, "IDENTIFY_SYSTEM", 0, NULL, &r, err)) return false;
	bool good = PQntuples(r) == 1 && PQnfields(r) >= 3 && lsn_parse(PQgetvalue(r, 0, 2), &s->position);
	if (good) {
		s->system_id = a->system_id = strtoull(PQgetvalue(r, 0, 0), NULL, 10);
		s->timeline = a->timeline = (uint32_t)strtoul(PQgetvalue(r, 0, 1), NULL, 10);
	}
	PQclear(r);
	return good || err_set(err, ERR_PROTOCOL, "IDENTIFY_SYSTEM: the answer is not understood");
}

static bool read_history(struct attachment *a, char **out, struct err *err)
{
	char sql[64];
	PGresult *r = NULL;
	snprintf(sql, sizeof sql, "TIMELINE_HISTORY %u", a->timeline);
	if (!pgconn_query(a->repl, sql, 0, NULL, &r, err)) return err_wrap(err, "%s", sql);
	*out = PQntuples(r) == 1 && PQnfields(r) == 2 ? strdup(PQgetvalue(r, 0, 1)) : NULL;
	PQclear(r);
	return true;
}

static bool check_lineage(struct attachment *a, const struct stored *stored, struct server_state *s,
						  struct err *err)
{
	char *history = NULL;
	if (stored->fresh) return true;
	if (a->timeline > stored->lineage.timeline && a->timeline > 1 && !read_history(a, &history, err))
		return false;
	s->history = history;
	bool good = lineage_gate(&stored->lineage, &stored->checkpoint, s, err);
	s->history = NULL;
	free(history);
	return good;
}

/* ---- tables and publication ---- */

static bool refuse_tables(const struct attach_config *config, const struct source_tables *t, struct err *err)
{
	size_t usable = 0, refused = 0;
	const char *first = NULL;
	for (size_t i = 0; i < t->n; i++) {
		usable += source_table_is_used(&t->v[i]);
		if (t->v[i].refusal == NULL) continue;
		refused++;
		if (first == NULL) first = t->v[i].refusal;
		if (config->skip_unsupported)
			log_warn("table is skipped", KV_S("reason", t->v[i].refusal), KV_END);
		else if (refused > 1)
			log_error("table cannot be replicated", KV_S("reason", t->v[i].refusal), KV_END);
	}
	if (refused > 0 && !config->skip_unsupported)
		return err_set(err, ERR_CONFIG, "table %s; or leave %s out with --tables, or with --skip-unsupported",
					   first, refused > 1 ? "those that are refused" : "it");
	if (usable == 0)
		return err_set(
			err, ERR_CONFIG,
			"there is no table to replicate: create one with a primary key, or name some with --tables");
	return true;
}

static bool is_stored(const struct stored *stored, const struct name_patterns *patterns, size_t i)
{
	for (size_t t = 0; t < stored->ntables; t++)
		if (names_match_one(patterns, i, stored->tables[t].schema_name, stored->tables[t].table_name))
			return true;
	return false;
}

/* A pattern without a table is a mistake, unless it is of a table that was dropped since. */
static bool check_patterns(const struct name_patterns *patterns, const bool *hit, const struct stored *stored,
						   struct err *err)
{
	for (size_t i = 0; i < names_pattern_count(patterns); i++)
		if (!hit[i] && !is_stored(stored, patterns, i))
			return err_set(err, ERR_CONFIG,
						   "--tables: no table matches %s in this database (or the role may not see it)",
						   names_pattern_text(patterns, i));
	return true;
}

static bool read_tables(struct attachment *a, const struct attach_config *config, const struct stored *stored,
						struct err *err)
{
	bool *hit = calloc(names_pattern_count(config->tables) + 1, sizeof *hit);
	bool good = hit != NULL && catalog_read_tables(a->sql, config->tables, hit, &a->tables, err) &&
				check_patterns(config->tables, hit, stored, err);
	free(hit);
	return good;
}

/*
 * Tables that the store follows but --tables names no more, or whose key is gone: as long as such a one is
 * published, updates of it fail for the application.
 */
static uint32_t *left_oids(const struct stored *stored, const struct source_tables *t, size_t *n)
{
	uint32_t *oids = calloc(stored->ntables + 1, sizeof *oids);
	*n = 0;
	for (size_t i = 0; oids != NULL && i < stored->ntables; i++) {
		const struct source_table *found = source_tables_find(t, stored->tables[i].oid);
		bool keyless = found != NULL && found->refusal != NULL && found->key_attnums == NULL;
		if (stored->tables[i].state != TABLE_LEFT && (found == NULL || keyless))
			oids[(*n)++] = stored->tables[i].oid;
	}
	return oids;
}

static bool check_slot_use(const struct attach_config *config, const struct stored *stored,
						   const struct slot_state *slot, bool has_publication, struct err *err)
{
	if (slot->exists && (!slot->logical || !slot->ours_to_use))
		return err_set(err, ERR_CONFIG,
					   "slot %s is not a pgoutput slot of this database: choose another name with --slot",
					   config->slot);
	if (slot->exists && stored->fresh && slot->lost)
		return err_set(err, ERR_GAP,
					   "slot %s was invalidated (%s): drop it with SELECT pg_drop_replication_slot('%s') and "
					   "start again",
					   config->slot, slot->why_lost, config->slot);
	/* A slot decodes with the catalogs of its time: a publication made after it does not exist for it. */
	if (slot->exists && !has_publication)
		return err_set(err, ERR_GAP,
					   "slot %s exists but publication %s does not, so changes in between cannot be decoded: "
					   "drop the slot with "
					   "SELECT pg_drop_replication_slot('%s') and start over with an empty --store directory",
					   config->slot, config->publication, config->slot);
	return true;
}

/* ---- the slot ---- */

/* The walsender is silent for as long as it takes; whether it is still there can be asked. */
static bool is_at_work(struct attachment *a, struct err *err)
{
	char sql[160], *state = NULL;
	snprintf(sql, sizeof sql,
			 "SELECT coalesce(state, 'active') FROM pg_catalog.pg_stat_activity WHERE pid = %d",
			 pgconn_backend_pid(a->repl));
	if (!catalog_ask_text(a->sql, sql, &state, err)) return false;
	bool active = state != NULL && strcmp(state, "active") == 0;
	free(state);
	return active || err_set(err, ERR_RETRY, "the server is done with it, and its answer did not arrive");
}

/* Called from the straight-line wait for the slot, so that the other connection is free. */
static bool report_wait(void *ctx, int64_t waited_us, struct err *err)
{
	struct attachment *a = ctx;
	char *blockers = NULL;
	if (waited_us / 1000000 % 10 != 3) return true;
	if (!is_at_work(a, err) || !catalog_ask_text(a->sql, catalog_blockers_sql, &blockers, err)) return false;
	log_info("slot creation waits for transactions that are older than it to end", KV_S("blockers", blockers),
			 KV_I("waited_s", waited_us / 1000000), KV_END);
	free(blockers);
	return true;
}

/* It is there as long as the walsender is: a refusal means that this has ended, whatever code it has. */
static bool set_snapshot(struct attachment *a, const char *name, struct err *err)
{
	char *literal = quote_literal(name), *sql = NULL;
	if (asprintf(&sql, "SET TRANSACTION SNAPSHOT %s", literal) < 0) abort();
	bool good = run_sql(a, sql, err);
	free(sql);
	free(literal);
	if (good || err->kind == ERR_STOPPED || err->kind == ERR_NOMEM) return good;
	err->kind = ERR_RETRY;
	return err_wrap(err, "the slot's snapshot is gone");
}

static bool import_snapshot(struct attachment *a, const char *name, struct err *err)
{
	bool good = run_sql(a, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", err) &&
				set_snapshot(a, name, err) &&
				catalog_ask_text(a->sql, "SELECT pg_catalog.pg_current_snapshot()", &a->gate, err) &&
				run_sql(a, "COMMIT", err);
	return good && (a->gate != NULL || err_set(err, ERR_PROTOCOL, "the server's snapshot is not understood"));
}

static void drop_slot(struct attachment *a, const char *slot)
{
	const char *params[] = {slot};
	PGresult *r = NULL;
	struct err ignored; /* what is left can be taken over */
	(void)pgconn_query(a->sql, "SELECT pg_catalog.pg_drop_replication_slot($1)", 1, params, &r, &ignored);
	PQclear(r);
}

/*
 * Where a table is truncated or rewritten while a slot is made, PostgreSQL (14
 * to 18) now and then starts the slot from catalogs that lack it, and fails at
 * the table's first change ("could not map filenode to relation OID"), then
 * and for ever. So once the transactions that ran meanwhile have ended, or after
 * a few seconds, what there is by then is decoded, before anything depends on the slot.
 */
static bool wait_for_running(struct attachment *a, struct err *err)
{
	char *xid = NULL, sql[160], *ended = NULL;
	if (!catalog_ask_text(a->sql, "SELECT pg_catalog.pg_current_xact_id()", &xid, err)) return false;
	snprintf(sql, sizeof sql,
			 "SELECT pg_catalog.pg_snapshot_xmin(pg_catalog.pg_current_snapshot()) > '%s'"
			 " FROM pg_catalog.pg_sleep(0.02)",
			 xid != NULL ? xid : "0");
	free(xid);
	bool good = true, done = false;
	for (int i = 0; good && !done && i < TRY_SLOT_WAITS; i++) {
		good = catalog_ask_text(a->sql, sql, &ended, err);
		done = good && ended != NULL && ended[0] == 't';
		free(ended);
		ended = NULL;
	}
	return good;
}

static bool try_slot(struct attachment *a, const struct attach_config *config, struct err *err)
{
	static const char sql[] = "SELECT count(*) FROM pg_catalog.pg_logical_slot_peek_binary_changes($1, "
							  "pg_catalog.pg_current_wal_lsn(), NULL,"
							  " 'proto_version', '1', 'publication_names', $2)";
	char *publication = publication_identifiers(config->publication);
	const char *params[] = {config->slot, publication};
	PGresult *r = NULL;
	bool good = wait_for_running(a, err) && pgconn_query(a->sql, sql, 2, params, &r, err);
	PQclear(r);
	free(publication);
	if (!good) {
		drop_slot(a, config->slot);
		err_wrap(err, "slot %s could not be decoded, and was dropped again", config->slot);
	}
	return good;
}

/*
 * The exported snapshot sees every transaction that committed before the
 * slot's start, also those that other sessions do not see yet.
 */
static bool create_slot(struct attachment *a, const struct attach_config *config, struct err *err)
{
	PGresult *r = NULL;
	char *id = quote_identifier(config->slot), *sql = NULL;
	bool good = false;
	if (asprintf(&sql, "CREATE_REPLICATION_SLOT %s LOGICAL pgoutput EXPORT_SNAPSHOT", id) < 0) sql = NULL;
	pgconn_on_wait(a->repl, report_wait, a);
	if (sql == NULL || !pgconn_query(a->repl, sql, 0, NULL, &r, err)) {
		err_wrap(err, "creating slot %s", config->slot);
		goto out;
	}
	if (PQntuples(r) != 1 || PQnfields(r) != 4 || !lsn_parse(PQgetvalue(r, 0, 1), &a->start)) {
		err_set(err, ERR_PROTOCOL, "CREATE_REPLICATION_SLOT: the answer is not understood");
		goto out;
	}
	a->slot_created = true;
	good = import_snapshot(a, PQgetvalue(r, 0, 2), err) && try_slot(a, config, err);
	if (good) log_info("slot created", KV_S("slot", config->slot), KV_L("start", a->start), KV_END);
out:
	pgconn_on_wait(a->repl, NULL, NULL);
	PQclear(r);
	free(sql);
	free(id);
	return good;
}

/*
 * A snapshot text that sees every transaction given an id until now: it is
 * covered once all of them have ended. An id of our own marks the place; a
 * snapshot's xmax would not do, since it only knows of those that ended.
 */
static bool gate_of_now(struct attachment *a, char **out, struct err *err)
{
	return catalog_ask_text(
		a->sql, "SELECT pg_catalog.format('%s:%s:', x, x) FROM pg_catalog.pg_current_xact_id() x", out, err);
}

static bool read_xid(struct attachment *a, struct err *err)
{
	char *text = NULL;
	if (!catalog_ask_text(a->sql, "SELECT pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())",
						  &text, err))
		return false;
	a->xid_near = XID(text != NULL ? strtoull(text, NULL, 10) : 0);
	free(text);
	return a->xid_near.v != 0 || err_set(err, ERR_PROTOCOL, "the server's transaction id is not understood");
}

static bool take_slot(struct attachment *a, const struct attach_config *config, const struct stored *stored,
					  const struct slot_state *slot, struct err *err)
{
	if (!slot->exists) return create_slot(a, config, err);
	a->start = stored->fresh ? slot->confirmed_flush : stored->checkpoint.lsn;
	if (!stored->fresh) return true;
	/* It has no position before it is done: a start of ours that was killed may still be at it on the server.
	 */
	if (a->start.v == 0)
		return err_set(err, ERR_RETRY, "slot %s is still being made, by a session that has not ended yet",
					   config->slot);
	log_warn("slot exists already; taking it over", KV_S("slot", config->slot), KV_L("start", a->start),
			 KV_END);
	return gate_of_now(a, &a->gate, err);
}

static bool change_publication(struct attachment *a, const struct publications *p,
							   const struct stored *stored, struct err *err)
{
	size_t nleft;
	uint32_t *left = left_oids(stored, &a->tables, &nleft);
	bool good = left != NULL && publications_ensure(a->sql, p, &a->tables, a->added, left, nleft, err);
	free(left);
	return good;
}

/* How each table is sent, then the refusals, and only then the publication is changed. */
static bool settle_publication(struct attachment *a, const struct attach_config *config,
							   const struct stored *stored, struct err *err)
{
	struct publications *p = NULL;
	a->added = calloc(a->tables.n + 1, sizeof *a->added);
	bool good = a->added != NULL && publications_read(a->sql, config->publication, &p, err) &&
				publications_settle(a->sql, p, &a->tables, a->added, err) &&
				refuse_tables(config, &a->tables, err) && change_publication(a, p, stored, err);
	publications_free(p);
	return good;
}

/*
 * One snapshot for all that is read of the catalogs, so that columns and shape
 * belong together; and one transaction, so that a refusal leaves nothing behind. It has to end before
 * the slot is made, which waits for it.
 */
static bool settle_tables(struct attachment *a, const struct attach_config *config,
						  const struct stored *stored, struct err *err)
{
	if (!run_sql(a, "BEGIN ISOLATION LEVEL REPEATABLE READ", err) || !read_tables(a, config, stored, err) ||
		!settle_publication(a, config, stored, err) ||
		!catalog_read_shapes(a->sql, config->publication, &a->tables, err) ||
		!alteration_check(stored, &a->tables, config->on_schema_change, err) || !run_sql(a, "COMMIT", err))
		return false;
	/*
	 * Changes of a table that were written before it was published, or before
	 * it was altered, come from the copy alone: whoever wrote them must have ended.
	 */
	return gate_of_now(a, &a->added_gate, err);
}

static bool prepare(struct attachment *a, const struct attach_config *config, const struct stored *stored,
					struct err *err)
{
	struct server_state server = {.slot = config->slot};
	bool has_publication;
	return identify(a, &server, err) && catalog_read_slot(a->sql, config->slot, &server.slot_state, err) &&
		   check_lineage(a, stored, &server, err) &&
		   publication_exists(a->sql, config->publication, &has_publication, err) &&
		   check_slot_use(config, stored, &server.slot_state, has_publication, err) &&
		   settle_tables(a, config, stored, err) && take_slot(a, config, stored, &server.slot_state, err) &&
		   read_xid(a, err);
}

bool attach(struct loop *l, const struct attach_config *config, const struct stored *stored,
			struct attachment *out, struct err *err)
{
	*out = (struct attachment){.memory = config->memory, .on_schema_change = config->on_schema_change};
	/* What can be told over SQL comes first: it is told better than by a refused replication connection. */
	if (pgconn_open(l, config->source, false, config->memory->sql_silence_ms, &out->sql, err) &&
		check_server(out, stored->fresh, err) && end_left_behind(out, config, err) &&
		pgconn_open(l, config->source, true, config->silence_ms, &out->repl, err) &&
		remember_backends(out, err) && prepare(out, config, stored, err))
		return true;
	attachment_finish(out);
	return false;
}

void attachment_finish(struct attachment *a)
{
	if (a->sql != NULL && pgconn_was_silent(a->sql)) a->memory->unanswered = true;
	pgconn_close(a->sql);
	pgconn_close(a->repl);
	source_tables_free(&a->tables);
	free(a->gate);
	free(a->added_gate);
	free(a->added);
	*a = (struct attachment){.sql = NULL};
}
