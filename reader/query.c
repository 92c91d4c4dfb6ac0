#include "reader/query.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

/* What the next result on the wire answers. */
enum step_kind {
	STEP_IGNORE,
	STEP_CHUNK, /* of a chunk, without an answer of interest */
	STEP_PREPARE_SNAPSHOT,
	STEP_SNAPSHOT,
	STEP_PREPARE,
	STEP_ROWS,
	STEP_CHUNK_SYNC,
	STEP_WATERMARK,
	STEP_ASK,
	STEP_TRY,
	STEP_SYNC
};

struct step {
	enum step_kind kind;
	query_fn fn;         /* STEP_ASK */
	query_try_fn try_fn; /* STEP_TRY */
	void *ctx;
};

enum { STEPS_MAX = 64, PREPARED_MAX = 64 };

struct prepared {
	struct prepared *next;
	char name[64];
};

/* One that was asked for and has not ended. */
struct chunk {
	uint64_t request_id;
	size_t columns;
	char statement[64];
	int64_t asked_us;
	bool of_user; /* what it asks holds what someone gave */
	bool ahead;   /* its rows are here, and the copier may go on behind them */
	bool failed;  /* the rest of its results is noise */
	enum chunk_failure failure;
	char message[1024]; /* the server's, of the failure */
};

/* While the rows of one are handed over the server can work at the next. */
enum { CHUNKS_MAX = 2 };

struct query {
	struct pgconn *conn;
	struct copier *copier;
	struct query_events events;
	struct step steps[STEPS_MAX]; /* ring of what is on its way */
	size_t first, count;
	bool result_taken; /* the first step's result came; its closing NULL has not */
	bool ended;

	struct chunk chunks[CHUNKS_MAX]; /* in flight, in the order asked; replies are to the first */
	size_t nchunks;
	int64_t quickest_us; /* answer to a chunk so far: the way there and back, and what every chunk costs */

	bool watermarks_refused, snapshot_is_prepared;
	struct prepared *prepared;
};

static void end(struct query *q, const struct err *err)
{
	if (q->ended) return;
	q->ended = true;
	q->events.lost(q->events.ctx, err);
}

static void end_with_connection_error(struct query *q)
{
	struct err err;
	err_of_result(&err, q->conn, NULL);
	err_wrap(&err, "SQL connection");
	end(q, &err);
}

static void push_step(struct query *q, struct step s)
{
	assert(q->count < STEPS_MAX);
	q->steps[(q->first + q->count++) % STEPS_MAX] = s;
	pgconn_expect(q->conn, true);
}

static void send_sql(struct query *q, enum step_kind kind, const char *sql)
{
	if (q->ended) return;
	if (!PQsendQueryParams(pgconn_pg(q->conn), sql, 0, NULL, NULL, NULL, NULL, 0))
		end_with_connection_error(q);
	else
		push_step(q, (struct step){.kind = kind});
}

static void send_sync(struct query *q, enum step_kind kind)
{
	if (q->ended) return;
	if (!PQpipelineSync(pgconn_pg(q->conn))) {
		end_with_connection_error(q);
		return;
	}
	push_step(q, (struct step){.kind = kind});
	pgconn_flush(q->conn);
}

/* ---- asking ---- */

static bool is_prepared(const struct query *q, const char *name)
{
	for (const struct prepared *p = q->prepared; p != NULL; p = p->next)
		if (strcmp(p->name, name) == 0) return true;
	return false;
}

static void remember_prepared(struct query *q, const char *name)
{
	struct prepared *p = calloc(1, sizeof *p);
	if (p == NULL) return; /* it will be refused as a duplicate, deallocated, and prepared again */
	strcpy(p->name, name);
	p->next = q->prepared;
	q->prepared = p;
}

/* A statement whose table was altered is of no use any more ("cached plan must not change result type"). */
static void forget_prepared(struct query *q, const char *name)
{
	for (struct prepared **p = &q->prepared; *p != NULL; p = &(*p)->next) {
		struct prepared *gone = *p;
		char sql[96];
		if (strcmp(gone->name, name) != 0) continue;
		*p = gone->next;
		free(gone);
		snprintf(sql, sizeof sql, "DEALLOCATE \"%s\"", name);
		send_sql(q, STEP_IGNORE, sql);
		send_sync(q, STEP_SYNC);
		return;
	}
}

static void send_prepare(struct query *q, enum step_kind kind, const char *name, const char *sql)
{
	if (q->ended) return;
	if (!PQsendPrepare(pgconn_pg(q->conn), name, sql, 0, NULL))
		end_with_connection_error(q);
	else
		push_step(q, (struct step){.kind = kind});
}

static void send_prepared(struct query *q, enum step_kind kind, const char *name, int nparams,
						  const char *const *params)
{
	if (q->ended) return;
	if (!PQsendQueryPrepared(pgconn_pg(q->conn), name, nparams, params, NULL, NULL, 0))
		end_with_connection_error(q);
	else
		push_step(q, (struct step){.kind = kind});
}

static void send_snapshot(struct query *q)
{
	static const char name[] = "snapshot";
	static const char sql[] =
		"SELECT pg_catalog.pg_current_snapshot(), pg_catalog.pg_is_in_recovery(), "
		/* A standby shows a transaction before its replay position has passed it. */
		"CASE WHEN pg_catalog.pg_is_in_recovery() "
		"THEN greatest(pg_catalog.pg_last_wal_receive_lsn(), pg_catalog.pg_last_wal_replay_lsn()) "
		"ELSE pg_catalog.pg_current_wal_insert_lsn() END";
	if (!q->snapshot_is_prepared) send_prepare(q, STEP_PREPARE_SNAPSHOT, name, sql);
	send_prepared(q, STEP_SNAPSHOT, name, 0, NULL);
}

/* The Parse must come behind LOCK: analysing a SELECT takes the transaction's snapshot. */
static void send_select(struct query *q, const struct chunk_request *r)
{
	if (!is_prepared(q, r->statement)) send_prepare(q, STEP_PREPARE, r->statement, r->select_sql);
	send_prepared(q, STEP_ROWS, r->statement, r->nparams, r->params);
}

static void add_chunk(struct query *q, const struct chunk_request *r)
{
	struct chunk *c = &q->chunks[q->nchunks++];
	*c = (struct chunk){
		.request_id = r->id, .columns = r->ncolumns, .of_user = r->of_user, .asked_us = loop_now_us()};
	if (r->statement == NULL) return;
	assert(strlen(r->statement) < sizeof c->statement);
	strcpy(c->statement, r->statement);
}

void query_chunk(struct query *q, const struct chunk_request *r)
{
	assert(!query_chunk_in_flight(q));
	add_chunk(q, r);
	send_sql(q, STEP_CHUNK, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
	/* First the lock, then the snapshot: TRUNCATE and rewrites are not MVCC-safe. */
	if (r->lock_sql != NULL) send_sql(q, STEP_CHUNK, r->lock_sql);
	send_snapshot(q);
	if (r->select_sql != NULL) send_select(q, r);
	send_sql(q, STEP_CHUNK, "COMMIT");
	send_sync(q, STEP_CHUNK_SYNC);
}

bool query_chunk_in_flight(const struct query *q)
{
	return q->nchunks == CHUNKS_MAX || (q->nchunks > 0 && !q->chunks[0].ahead);
}

int64_t query_way_us(const struct query *q)
{
	return q->quickest_us;
}

void query_emit_watermark(struct query *q)
{
	if (q->watermarks_refused || q->count > STEPS_MAX / 2) return;
	send_sql(q, STEP_WATERMARK, "SELECT pg_catalog.pg_logical_emit_message(true, 'tidemark', 'watermark')");
	send_sync(q, STEP_SYNC);
}

void query_ask(struct query *q, const char *sql, query_fn fn, void *ctx)
{
	if (q->count > STEPS_MAX / 2) {
		fn(ctx, NULL);
		return;
	}
	send_sql(q, STEP_ASK, sql);
	if (q->ended) return;
	struct step *s = &q->steps[(q->first + q->count - 1) % STEPS_MAX];
	s->fn = fn;
	s->ctx = ctx;
	send_sync(q, STEP_SYNC);
}

bool query_try(struct query *q, const char *sql, query_try_fn fn, void *ctx)
{
	if (q->ended || q->count > STEPS_MAX / 2) return false;
	send_sql(q, STEP_TRY, sql);
	if (q->ended) return false;
	struct step *s = &q->steps[(q->first + q->count - 1) % STEPS_MAX];
	s->try_fn = fn;
	s->ctx = ctx;
	send_sync(q, STEP_SYNC);
	return true;
}

/* ---- replies ---- */

static bool state_is(const char *sqlstate, const char *prefix)
{
	return strncmp(sqlstate, prefix, strlen(prefix)) == 0;
}

/*
 * What somebody's condition or bound can bring about by itself: data exceptions, cardinality, syntax and
 * names, missing rights, unsupported features, an exception raised by a function; and parameters, which there
 * are none for.
 */
static bool blames_user(const char *sqlstate)
{
	static const char *const classes[] = {"08P01", "0A", "21", "22", "23", "25006", "2B",
										  "2F",    "38", "39", "42", "44", "54",    "P0"};
	for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
		if (state_is(sqlstate, classes[i])) return true;
	return false;
}

/* False: nothing a later attempt could cure. */
static bool classify(const PGresult *r, enum chunk_failure *why)
{
	const char *state = PQresultErrorField(r, PG_DIAG_SQLSTATE);
	/* Waiting for a lock says nothing about the size of a chunk. */
	if (state == NULL || state_is(state, "40") || state_is(state, "57P") || state_is(state, "08") ||
		state_is(state, "53") || state_is(state, "55P03") || state_is(state, "XX") ||
		state_is(state, "25P02")) /* the chunk before it failed when this one had been asked for */
		*why = CHUNK_LOST;
	else if (state_is(state, "57014") || state_is(state, "25P04"))
		*why = CHUNK_TIMEOUT;
	else if (state_is(state, "42P01") || state_is(state, "42703") || state_is(state, "3F000") ||
			 state_is(state, "0A000"))
		*why = CHUNK_SCHEMA;
	else
		return false;
	return true;
}

static void chunk_error(struct query *q, struct chunk *c, const PGresult *r)
{
	if (c->failed || PQresultStatus(r) == PGRES_PIPELINE_ABORTED) return;
	const char *state = PQresultErrorField(r, PG_DIAG_SQLSTATE);
	struct err err;
	err_of_result(&err, q->conn, r);
	c->failed = true;
	snprintf(c->message, sizeof c->message, "%s", err.msg);
	bool known = classify(r, &c->failure);
	if (known && c->failure != CHUNK_LOST) return;
	if (c->of_user && state != NULL && blames_user(state)) {
		c->failure = CHUNK_REFUSED;
		return;
	}
	if (known) return;
	err.kind = ERR_CONFIG;
	err_wrap(&err, "reading rows of a table");
	end(q, &err);
}

static bool take_snapshot(struct query *q, const struct chunk *c, const PGresult *r, struct err *err)
{
	lsn_t high;
	if (PQntuples(r) != 1 || PQnfields(r) != 3 || !lsn_parse(PQgetvalue(r, 0, 2), &high))
		return err_set(err, ERR_PROTOCOL, "the server's snapshot and position are not understood");
	bool standby = PQgetvalue(r, 0, 1)[0] == 't';
	return copier_chunk_snapshot(q->copier, c->request_id, PQgetvalue(r, 0, 0), standby, high, err);
}

/* p == NULL: it is NULL, which only what is empty can be. */
static struct slice text_at(const PGresult *r, int row, int column)
{
	size_t n = (size_t)PQgetlength(r, row, column);
	if (n == 0 && PQgetisnull(r, row, column)) return (struct slice){NULL, 0};
	return (struct slice){(const uint8_t *)PQgetvalue(r, row, column), n};
}

enum { COLUMNS_MAX = 1664 }; /* the server's */

static void texts_at(const PGresult *r, int row, struct slice *texts)
{
	for (int i = 0; i < PQnfields(r); i++)
		texts[i] = text_at(r, row, i);
}

/* The server is asked for the next page before these rows are handed over. */
static bool ask_ahead(struct query *q, struct chunk *c, const PGresult *r, struct err *err)
{
	struct slice last[COLUMNS_MAX];
	int rows = PQntuples(r);
	if (rows == 0) return true;
	texts_at(r, rows - 1, last);
	if (!copier_chunk_is_whole(q->copier, c->request_id, last, (size_t)PQnfields(r), (size_t)rows,
							   PQresultMemorySize(r), &c->ahead, err))
		return false;
	if (c->ahead) q->events.chunk_whole(q->events.ctx);
	return true;
}

static bool take_rows(struct query *q, struct chunk *c, const PGresult *r, struct err *err)
{
	struct slice texts[COLUMNS_MAX];
	size_t n = (size_t)PQnfields(r);
	if (n != c->columns || n > COLUMNS_MAX)
		return err_set(err, ERR_PROTOCOL, "a chunk has %zu columns where %zu were asked for", n, c->columns);
	if (!ask_ahead(q, c, r, err)) return false;
	for (int row = 0; row < PQntuples(r) && !q->ended; row++) {
		texts_at(r, row, texts);
		if (!copier_chunk_row(q->copier, c->request_id, texts, n, err)) return false;
	}
	return true;
}

static void chunk_result(struct query *q, struct chunk *c, enum step_kind kind, const PGresult *r)
{
	struct err err;
	bool good = true;
	if (kind == STEP_SNAPSHOT)
		good = take_snapshot(q, c, r, &err);
	else if (kind == STEP_ROWS)
		good = take_rows(q, c, r, &err);
	else if (kind == STEP_PREPARE)
		remember_prepared(q, c->statement);
	else if (kind == STEP_PREPARE_SNAPSHOT)
		q->snapshot_is_prepared = true;
	if (!good) end(q, &err);
}

/*
 * What the size of the chunk cost. Where the way to the server takes longer
 * than a chunk is to take, it would otherwise come down to single rows.
 */
static int64_t time_of_rows(struct query *q, const struct chunk *c)
{
	int64_t elapsed_us = loop_now_us() - c->asked_us;
	if (q->quickest_us == 0 || elapsed_us < q->quickest_us) q->quickest_us = elapsed_us;
	return elapsed_us - q->quickest_us;
}

/* Every run with a condition has texts of its own: the oldest goes, and is prepared again if it is of use. */
static void trim_prepared(struct query *q)
{
	const struct prepared *last = NULL;
	char name[sizeof last->name];
	size_t n = 0;
	for (const struct prepared *p = q->prepared; p != NULL; p = p->next, n++)
		last = p;
	if (n <= PREPARED_MAX) return;
	strcpy(name, last->name);
	forget_prepared(q, name);
}

static void chunk_finished(struct query *q)
{
	struct err err;
	int64_t now_us = clock_now_us();
	struct chunk c = q->chunks[0];
	q->nchunks--;
	memmove(q->chunks, q->chunks + 1, q->nchunks * sizeof *q->chunks);
	if (c.failed) {
		send_sql(q, STEP_IGNORE, "ROLLBACK");
		send_sync(q, STEP_SYNC);
		if (c.failure == CHUNK_SCHEMA) forget_prepared(q, c.statement);
		copier_chunk_failed_saying(q->copier, c.request_id, c.failure, c.message, now_us);
	} else if (!copier_chunk_end(q->copier, c.request_id, time_of_rows(q, &c), now_us, &err)) {
		end(q, &err);
		return;
	}
	if (!q->ended) trim_prepared(q);
	if (!q->ended) q->events.chunk_done(q->events.ctx);
}

static void take_try(struct query *q, struct step s, const PGresult *r)
{
	const char *state = PQresultErrorField(r, PG_DIAG_SQLSTATE);
	enum chunk_failure why;
	struct err err;
	err_of_result(&err, q->conn, r);
	/* What later might go well is not its fault. */
	bool blamed = state != NULL && (blames_user(state) || !classify(r, &why) || why == CHUNK_SCHEMA);
	err.kind = blamed ? ERR_CONFIG : ERR_RETRY;
	s.try_fn(s.ctx, NULL, &err);
}

static void take_result(struct query *q, struct step s, const PGresult *r)
{
	ExecStatusType status = PQresultStatus(r);
	bool good = status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
	switch (s.kind) {
	case STEP_IGNORE: break;
	case STEP_CHUNK:
	case STEP_PREPARE_SNAPSHOT:
	case STEP_SNAPSHOT:
	case STEP_PREPARE:
	case STEP_ROWS:
		if (!good)
			chunk_error(q, &q->chunks[0], r);
		else if (!q->chunks[0].failed)
			chunk_result(q, &q->chunks[0], s.kind, r);
		break;
	case STEP_WATERMARK: q->watermarks_refused = !good; break;
	case STEP_ASK: s.fn(s.ctx, good ? r : NULL); break;
	case STEP_TRY:
		if (good)
			s.try_fn(s.ctx, r, NULL);
		else
			take_try(q, s, r);
		break;
	case STEP_CHUNK_SYNC: chunk_finished(q); break;
	case STEP_SYNC: break;
	}
}

static void pop_step(struct query *q)
{
	q->first = (q->first + 1) % STEPS_MAX;
	q->count--;
	q->result_taken = false;
	pgconn_expect(q->conn, q->count > 0);
}

static bool is_sync(struct step s)
{
	return s.kind == STEP_SYNC || s.kind == STEP_CHUNK_SYNC;
}

/* The server decides what comes when; what answers nothing that we sent would be taken for something else. */
static bool fits(struct step s, ExecStatusType status)
{
	switch (status) {
	case PGRES_PIPELINE_SYNC: return is_sync(s);
	case PGRES_COMMAND_OK:
	case PGRES_TUPLES_OK:
	case PGRES_PIPELINE_ABORTED: return !is_sync(s);
	case PGRES_FATAL_ERROR: return true;
	default: return false;
	}
}

/* An error in place of a sync is the end of the connection. */
static void end_with_result(struct query *q, struct step s, const PGresult *r)
{
	struct err err;
	if (fits(s, PQresultStatus(r)))
		err_of_result(&err, q->conn, r);
	else
		err_set(&err, ERR_PROTOCOL, "an answer of kind %s to nothing that was asked",
				PQresStatus(PQresultStatus(r)));
	err_wrap(&err, "SQL connection");
	end(q, &err);
}

/* Each statement answers with one result and a NULL; a sync with one result and no NULL. */
static void take_one(struct query *q)
{
	struct step s = q->steps[q->first];
	PGresult *r = PQgetResult(pgconn_pg(q->conn));
	ExecStatusType status = PQresultStatus(r);
	if (r == NULL) {
		if (q->result_taken) pop_step(q);
		return;
	}
	if (!fits(s, status) || (is_sync(s) && status == PGRES_FATAL_ERROR)) {
		end_with_result(q, s, r);
	} else {
		if (is_sync(s))
			pop_step(q);
		else
			q->result_taken = true;
		take_result(q, s, r);
	}
	PQclear(r);
}

/* More than libpq has taken of it at once. */
static bool more_has_come(struct query *q)
{
	int n = 0;
	return ioctl(PQsocket(pgconn_pg(q->conn)), FIONREAD, &n) == 0 && n > 0 &&
		   PQconsumeInput(pgconn_pg(q->conn));
}

static bool has_result(struct query *q)
{
	while (PQisBusy(pgconn_pg(q->conn)))
		if (!more_has_come(q)) return false;
	return true;
}

/*
 * Up to the end of a chunk at a time: with the next one asked ahead there may always be more, and the stream
 * has its turn too. A connection that is lost while we read is told here: libpq has closed its socket, and
 * nobody else will look.
 */
static void on_input(void *ctx)
{
	struct query *q = ctx;
	bool chunk_ended = false;
	while (!q->ended && q->count > 0 && !chunk_ended && has_result(q) &&
		   PQstatus(pgconn_pg(q->conn)) != CONNECTION_BAD) {
		chunk_ended = q->steps[q->first].kind == STEP_CHUNK_SYNC;
		take_one(q);
	}
	if (q->ended) return;
	if (PQstatus(pgconn_pg(q->conn)) == CONNECTION_BAD)
		end_with_connection_error(q);
	else if (chunk_ended && q->count > 0)
		pgconn_again(q->conn);
}

static void on_lost(void *ctx, const struct err *err)
{
	struct err mine = *err;
	err_wrap(&mine, "SQL connection");
	end(ctx, &mine);
}

bool query_create(struct pgconn *c, struct copier *copier, const struct query_events *events,
				  struct query **out, struct err *err)
{
	if (!PQenterPipelineMode(pgconn_pg(c))) return err_of_result(err, c, NULL);
	struct query *q = calloc(1, sizeof *q);
	if (q == NULL) return err_set(err, ERR_NOMEM, "out of memory");
	q->conn = c;
	q->copier = copier;
	q->events = *events;
	pgconn_listen(c, &(struct pgconn_events){.ctx = q, .on_input = on_input, .on_lost = on_lost});
	*out = q;
	return true;
}

void query_destroy(struct query *q)
{
	if (q == NULL) return;
	pgconn_listen(q->conn, &(struct pgconn_events){.ctx = NULL});
	while (q->prepared != NULL) {
		struct prepared *p = q->prepared;
		q->prepared = p->next;
		free(p);
	}
	free(q);
}
