#include "reader/session.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "apply/worker.h"
#include "reader/changes.h"
#include "reader/chunk_lines.h"
#include "reader/log.h"
#include "reader/plan.h"
#include "reader/progress.h"
#include "reader/query.h"
#include "reader/readers.h"
#include "reader/shape.h"
#include "reader/signal.h"
#include "reader/stream.h"

enum {
	TICK_US = 200000,
	IDLE_POSITION_US = 1000000, /* an idle slot's checkpoint moves at most this often */
	NUDGE_AFTER_US =
		2000, /* a window that waits this long for the stream to pass its H gets a watermark message */
	NUDGE_EVERY_US = 50000,  /* and from then on we ask for the server's position */
	LOOK_EVERY_US = 5000000, /* at the catalog, for what the stream does not tell */
	LOOK_SOON_US = 100000,   /* after the server described a table */
	PURGE_EVERY_US = 1000000,
	PURGE_MARKERS = 2000,  /* removed by one step */
	PURGE_ENTRIES = 20000, /* looked at by one step */
	LOOK_SHARE = 50,       /* and never more than a fiftieth of the time */
	GOODBYE_MS = 1000
};

/* A table of this session, for progress and for telling when it becomes live. */
struct watched {
	uint32_t table_id;
	const struct source_table *source;
	char *shape; /* as seen last */
	bool live;
};

struct session {
	struct loop *loop;
	const struct session_config *config;
	struct stored stored;
	struct attachment a;
	struct worker *worker;
	struct copier *copier;
	struct changes *changes;
	struct query *query;      /* the first connection; it also takes questions */
	struct chunk_lines lines; /* further ones, for chunks alone */
	struct stream *stream;
	uv_async_t *wake; /* from the worker */
	struct loop_timer *tick, *ask_timer, *nudge_timer, *look_timer;

	struct watched *watched;
	size_t nwatched;
	bool all_live;

	struct worker_status status;
	uint64_t counted; /* changes, when the load was told last */
	int64_t counted_us, purged_us;
	lsn_t mark; /* received then; apply_lag_us() */
	int64_t marked_us;
	int64_t timed_us, quickest_us; /* stream_lag_us(): commit time looked at last, and the least delay */
	bool has_quickest;
	bool paused;
	lsn_t nudged; /* highest H a watermark message was sent for */
	int64_t idle_stored_us;
	struct readers readers;
	bool gate_logged;
	int64_t looked_us; /* at the catalog; 0 = no look is under way */

	bool target_asked, target_known;
	lsn_t target; /* until: the position to reach */
	bool done, reached, stream_over, undecodable;
	bool wants_line; /* one more connection for chunks */
	bool turn;       /* done, or something for the main path to do */
	bool reattach;   /* the end is only for another look at the catalog */
	struct err err;
};

static void ask(struct session *s);

static size_t queue_bytes(const struct session *s)
{
	return s->config->memory / 8;
}

static void end(struct session *s, const struct err *err)
{
	if (s->done) return;
	s->done = s->turn = true;
	if (err != NULL)
		s->err = *err;
	else
		s->reached = true;
	uv_stop(&s->loop->uv);
}

/* ---- until ---- */

static bool is_one_value(const PGresult *r)
{
	return r != NULL && PQntuples(r) == 1 && PQnfields(r) == 1;
}

static void on_target(void *ctx, const PGresult *r)
{
	struct session *s = ctx;
	s->target_known = is_one_value(r) && lsn_parse(PQgetvalue(r, 0, 0), &s->target);
	s->target_asked = s->target_known;
}

static size_t tables_in_work(const struct session *s);

/* Everything is copied that is to be. */
static bool is_copied(const struct session *s)
{
	return (s->all_live || s->config->snapshot == SNAPSHOT_NEVER) && tables_in_work(s) == 0;
}

static bool wants_target(const struct session *s)
{
	return s->config->until == UNTIL_CAUGHT_UP && !s->target_asked && s->query != NULL && is_copied(s);
}

/* The position asked for is only stored once an idle server tells it: hurry that up. */
static void check_until(struct session *s)
{
	if (s->config->until == UNTIL_NEVER || s->done) return;
	if (wants_target(s)) {
		s->target_asked = true;
		query_ask(s->query, "SELECT pg_catalog.pg_current_wal_insert_lsn()", on_target, s);
		return;
	}
	if (!s->target_known) return;
	bool live = s->config->until == UNTIL_LSN || is_copied(s);
	if (s->status.committed.lsn.v >= s->target.v && live) {
		end(s, NULL);
		return;
	}
	if (changes_received(s->changes).v >= s->target.v)
		changes_store_position(s->changes);
	else if (!loop_timer_is_set(s->nudge_timer))
		loop_timer_set(s->nudge_timer, NUDGE_AFTER_US);
}

/* ---- windows that wait ---- */

static bool waits(const struct session *s, lsn_t *high)
{
	if (copier_waits_for(s->copier, high) && changes_received(s->changes).v < high->v) return true;
	*high = s->target;
	return s->target_known && s->config->until == UNTIL_CAUGHT_UP &&
		   changes_received(s->changes).v < s->target.v;
}

static void on_nudge(void *ctx)
{
	struct session *s = ctx;
	lsn_t high;
	if (s->done || !waits(s, &high)) return;
	if (high.v > s->nudged.v) {
		s->nudged = high;
		query_emit_watermark(s->query);
	} else if (!s->paused) {
		stream_ask_position(s->stream);
	}
	if (!s->done) loop_timer_set(s->nudge_timer, NUDGE_EVERY_US);
}

static void arm_nudge(struct session *s)
{
	lsn_t high;
	if (!loop_timer_is_set(s->nudge_timer) && waits(s, &high)) loop_timer_set(s->nudge_timer, NUDGE_AFTER_US);
}

/* ---- asking chunks ---- */

static void on_blockers(void *ctx, const PGresult *r)
{
	(void)ctx;
	log_info("copy waits until transactions that were open when we attached have ended",
			 KV_S("blockers", is_one_value(r) ? PQgetvalue(r, 0, 0) : "unknown"), KV_END);
}

static void report_gate(struct session *s)
{
	const char *gate;
	bool gated = copier_is_gated(s->copier, &gate);
	if (gated && !s->gate_logged) query_ask(s->query, catalog_blockers_sql, on_blockers, s);
	s->gate_logged = gated;
}

static bool is_open(enum run_state state)
{
	return state == RUN_COPYING || state == RUN_SWEEPING;
}

/* Tables that a run is reading now. */
static size_t tables_in_work(const struct session *s)
{
	size_t n = 0;
	for (size_t i = 0; i < s->nwatched; i++) {
		struct copier_progress p;
		n += copier_get_progress(s->copier, s->watched[i].table_id, &p) && is_open(p.state);
	}
	return n;
}

/* A table's chunks are asked for one after the other: more connections are for more tables. */
static void want_line(struct session *s)
{
	size_t lines = 1 + s->lines.n;
	s->wants_line = !s->lines.refused && lines < (size_t)s->config->connections && lines < tables_in_work(s);
	if (!s->wants_line) return;
	s->turn = true;
	uv_stop(&s->loop->uv);
}

/* NULL: no connection is free. */
static struct query *idle_query(const struct session *s)
{
	return query_chunk_in_flight(s->query) ? chunk_lines_idle(&s->lines) : s->query;
}

static void ask(struct session *s)
{
	if (s->done || s->query == NULL || s->stream == NULL) return;
	arm_nudge(s);
	int64_t now_us = clock_now_us();
	struct query *q;
	while ((q = idle_query(s)) != NULL && !worker_is_full(s->worker)) {
		const struct chunk_request *r = copier_next(s->copier, now_us);
		if (r == NULL) {
			int64_t at_us = copier_next_at(s->copier);
			if (at_us != INT64_MAX) loop_timer_set(s->ask_timer, at_us - now_us);
			return;
		}
		query_chunk(q, r);
		if (s->done) return;
	}
	if (q == NULL) want_line(s);
}

static void on_ask_timer(void *ctx)
{
	ask(ctx);
}

static void on_chunk_done(void *ctx)
{
	struct session *s = ctx;
	report_gate(s);
	ask(s);
}

static void on_query_lost(void *ctx, const struct err *err)
{
	end(ctx, err);
}

/* ---- the stream ---- */

static void push(void *ctx, struct batch *b)
{
	struct session *s = ctx;
	if (s->worker == NULL) { /* we are saying goodbye: what comes now will come again */
		batch_destroy(b);
		return;
	}
	worker_push(s->worker, b);
	if (!s->paused && s->stream != NULL && worker_is_full(s->worker)) {
		s->paused = true;
		stream_pause(s->stream);
	}
}

static void emit(void *ctx, struct batch *b)
{
	struct session *s = ctx;
	changes_emit(s->changes, b);
}

/* What is asked of us is done between two source transactions. */
static bool on_message(void *ctx, struct slice payload, struct err *err)
{
	struct session *s = ctx;
	bool was_in = changes_in_transaction(s->changes);
	if (s->done) return true;
	if (!changes_message(s->changes, payload, &s->reattach, err)) return false;
	if (was_in && !changes_in_transaction(s->changes)) requests_turn(s->config->requests);
	return true;
}

static bool is_between(void *ctx)
{
	struct session *s = ctx;
	return !s->done && !changes_in_transaction(s->changes);
}

static bool replicates(void *ctx, uint32_t table_id)
{
	const struct session *s = ctx;
	for (size_t i = 0; i < s->nwatched; i++)
		if (s->watched[i].table_id == table_id) return true;
	return false;
}

static void on_position(void *ctx, lsn_t wal_end)
{
	struct session *s = ctx;
	if (!s->done) changes_position(s->changes, wal_end);
}

/* Idle keepalives would make a commit each on a busy server with quiet tables: once a second is enough. */
static void store_idle_position(struct session *s)
{
	int64_t now_us = loop_now_us();
	if (now_us - s->idle_stored_us < IDLE_POSITION_US) return;
	if (changes_store_position(s->changes)) s->idle_stored_us = now_us;
}

static void on_dry(void *ctx)
{
	struct session *s = ctx;
	if (s->done) return;
	changes_dry(s->changes);
	store_idle_position(s);
	check_until(s);
	ask(s);
}

static void on_stream_lost(void *ctx, const struct err *err)
{
	struct session *s = ctx;
	s->stream_over = true;
	s->undecodable = s->stream != NULL && stream_was_undecodable(s->stream);
	end(s, err);
}

static void reset_copier_table(struct session *s, uint32_t table_id, bool copied)
{
	for (size_t i = 0; i < s->nwatched; i++) {
		if (s->watched[i].table_id != table_id) continue;
		copier_set_table(s->copier, &(struct copier_table){
										.schema = changes_schema(s->changes, table_id),
										.from_sql = s->watched[i].source->from_sql,
										.filter_sql = s->watched[i].source->filter_sql,
										.operands = s->watched[i].source->operands,
										.collations = (const char *const *)s->watched[i].source->collations,
										.copied = copied});
		s->watched[i].live = false;
		s->all_live = false;
	}
}

/* ---- the catalog: what the stream does not tell (shape.h) ---- */

/* Attaching again compares store and catalog, and plans what follows. */
static void attach_again(struct session *s, const char *table, const char *why)
{
	struct err err;
	err_set(&err, ERR_RETRY, "table %s %s", table, why);
	s->reattach = true;
	end(s, &err);
}

static void compare_shape(struct session *s, struct watched *w, const char *now)
{
	switch (shape_compare(w->shape, now)) {
	case SHAPE_SAME: break;
	case SHAPE_STORAGE:
		free(w->shape);
		w->shape = strdup(now);
		break;
	case SHAPE_OTHER:
	case SHAPE_EXTENDED:
	case SHAPE_ALTERED: attach_again(s, w->source->display, "was altered"); break;
	case SHAPE_PARTS:
		attach_again(s, w->source->display, "has other partitions, or one has another file");
		break;
	case SHAPE_REPUBLISHED:
		attach_again(s, w->source->display, "may have been published otherwise for a while");
		break;
	}
}

static struct watched *find_watched(const struct session *s, uint32_t oid)
{
	for (size_t i = 0; i < s->nwatched; i++)
		if (s->watched[i].source->oid == oid) return &s->watched[i];
	return NULL;
}

static void look_for_new(struct session *s, const PGresult *r, int row)
{
	const char *schema_name = PQgetvalue(r, row, 1), *table_name = PQgetvalue(r, row, 2);
	uint32_t oid = (uint32_t)strtoul(PQgetvalue(r, row, 0), NULL, 10);
	if (!names_match(s->config->attach.tables, schema_name, table_name) ||
		source_tables_find(&s->a.tables, oid) != NULL)
		return;
	char *display = display_name(schema_name, table_name);
	attach_again(s, display, "is new");
	free(display);
}

static void on_shapes(void *ctx, const PGresult *r)
{
	struct session *s = ctx;
	int64_t took_us = loop_now_us() - s->looked_us;
	size_t seen = 0;
	s->looked_us = 0;
	if (s->done) return;
	loop_timer_set(s->look_timer,
				   took_us * LOOK_SHARE > LOOK_EVERY_US ? took_us * LOOK_SHARE : LOOK_EVERY_US);
	if (r == NULL || PQnfields(r) != 4) return;
	for (int row = 0; row < PQntuples(r) && !s->done; row++) {
		struct watched *w = find_watched(s, (uint32_t)strtoul(PQgetvalue(r, row, 0), NULL, 10));
		seen += w != NULL;
		if (w == NULL)
			look_for_new(s, r, row);
		else if (!PQgetisnull(r, row, 3))
			compare_shape(s, w, PQgetvalue(r, row, 3));
	}
	if (!s->done && seen < s->nwatched) attach_again(s, "of ours", "was dropped");
}

static void look(void *ctx)
{
	struct session *s = ctx;
	if (s->done || s->looked_us != 0) return;
	uint32_t *oids = mem_alloc((s->nwatched + 1) * sizeof *oids);
	for (size_t i = 0; i < s->nwatched; i++)
		oids[i] = s->watched[i].source->oid;
	char *sql = shape_sql(s->a.server_version, s->config->attach.publication, oids, s->nwatched);
	s->looked_us = loop_now_us();
	query_ask(s->query, sql, on_shapes, s);
	free(sql);
	free(oids);
}

static void on_described(void *ctx)
{
	struct session *s = ctx;
	if (s->look_timer != NULL && s->looked_us == 0) loop_timer_set(s->look_timer, LOOK_SOON_US);
}

/* ---- signals of the source ---- */

static void refuse_signal(void *ctx, const char *why)
{
	(void)ctx;
	log_warn("signal refused", KV_S("reason", why), KV_END);
}

static void on_signal(struct session *s, const struct signal *signal)
{
	struct signal_meaning m;
	struct err err;
	if (!signal_read(signal, &m, &err)) {
		refuse_signal(s, err.msg);
		return;
	}
	if (m.log != NULL) log_info("signal", KV_S("message", m.log), KV_L("commit", signal->commit_lsn), KV_END);
	if (m.is_request) (void)requests_make_now(s->config->requests, &m.request, &err);
	request_finish(&m.request);
	free(m.log);
}

static void on_signals(void *ctx, const struct signals *signals)
{
	struct session *s = ctx;
	for (size_t i = 0; i < signals->n; i++)
		on_signal(s, &signals->v[i]);
	if (signals->left_out > 0)
		log_warn("too many signals in one transaction: the rest is left out",
				 KV_U("left_out", signals->left_out), KV_END);
}

static bool is_table(const struct source_table *t, const struct table_name *name)
{
	return strcmp(t->schema_name, name->schema_name) == 0 && strcmp(t->table_name, name->table_name) == 0;
}

static void find_signal_table(struct session *s)
{
	static const char *const columns[] = {"id", "type", "data"};
	const struct table_name *name = s->config->signal_table;
	for (size_t i = 0; name != NULL && i < s->nwatched; i++) {
		const struct watched *w = &s->watched[i];
		if (!is_table(w->source, name)) continue;
		changes_set_signal_table(s->changes, w->table_id);
		for (size_t c = 0; c < sizeof columns / sizeof *columns; c++)
			if (schema_find(w->source->schema, columns[c]) < 0)
				log_warn("the signal table lacks a column", KV_S("table", w->source->display),
						 KV_S("column", columns[c]), KV_END);
		return;
	}
	if (name != NULL) log_warn("the signal table is not replicated", KV_S("table", name->table_name), KV_END);
}

/* ---- the apply thread ---- */

static void log_live(struct session *s, const struct watched *w)
{
	struct copier_progress p = {.rows_read = 0};
	copier_get_progress(s->copier, w->table_id, &p);
	log_info("table is live", KV_S("table", w->source->display), KV_U("rows_read", p.rows_read), KV_END);
}

static void note_live(struct session *s)
{
	bool was_all = s->all_live;
	s->all_live = copier_all_live(s->copier);
	if (s->all_live) progress_end();
	for (size_t i = 0; i < s->nwatched; i++) {
		struct watched *w = &s->watched[i];
		bool was = w->live;
		w->live = copier_table_is_live(s->copier, w->table_id);
		if (w->live && !was) log_live(s, w);
	}
	if (s->all_live && !was_all) log_info("all tables are live", KV_U("tables", s->nwatched), KV_END);
}

/* What they answer may be in a commit that came after the status was taken. */
static void take_answers(struct session *s)
{
	struct answer *answers = worker_take_answers(s->worker);
	if (answers != NULL) worker_get_status(s->worker, &s->status);
	for (struct answer *a = answers, *next; a != NULL; a = next) {
		next = a->next;
		if (a->kind != ANSWER_DONE || !requests_answered(s->config->requests, a->token, s->status.commits))
			copier_answer(s->copier, a, clock_now_us());
		answer_destroy(a);
	}
}

static void on_wake(uv_async_t *handle)
{
	struct session *s = handle->data;
	if (s->done || s->stream == NULL) /* still starting the stream: it looks itself when it has */
		return;
	worker_get_status(s->worker, &s->status);
	if (s->status.failed) {
		end(s, &s->status.err);
		return;
	}
	stream_acknowledge(s->stream, s->status.durable);
	take_answers(s);
	requests_durable(s->config->requests, s->status.durable_commits);
	note_live(s);
	if (s->paused && !worker_is_full(s->worker)) {
		s->paused = false;
		stream_resume(s->stream);
	}
	check_until(s);
	ask(s);
}

static void wake(void *ctx)
{
	struct session *s = ctx;
	uv_async_send(s->wake);
}

/* ---- the tick: progress, idle positions, readers ---- */

static void show_progress(struct session *s)
{
	struct progress_state p = {.tables = s->nwatched, .changes = changes_count(s->changes)};
	for (size_t i = 0; i < s->nwatched; i++) {
		const struct watched *w = &s->watched[i];
		struct copier_progress c = {.rows_read = 0};
		copier_get_progress(s->copier, w->table_id, &c);
		p.tables_live += w->live;
		p.rows += c.rows_read;
		if (w->source->rows_estimate > 0) p.rows_expected += (uint64_t)w->source->rows_estimate;
		if (!w->live && p.table == NULL) p.table = w->source->display;
	}
	uint64_t received = changes_received(s->changes).v, applied = s->status.committed.lsn.v;
	p.lag_bytes = received > applied ? received - applied : 0;
	progress_show(&p, loop_now_us());
}

/* ---- the tick: how busy we are, delete markers ---- */

/*
 * How long what was received at a mark has been waiting to be applied. The
 * source's clock is not asked: it may be another one than ours.
 */
static int64_t apply_lag_us(struct session *s, int64_t now_us)
{
	if (s->status.committed.lsn.v >= s->mark.v) {
		s->mark = changes_received(s->changes);
		s->marked_us = now_us;
	}
	return s->status.committed.lsn.v >= s->mark.v ? 0 : now_us - s->marked_us;
}

/*
 * How much longer than the quickest so far the last transaction took from its
 * commit to us: clocks that differ do so always.
 */
static int64_t stream_lag_us(struct session *s)
{
	int64_t passed_us = clock_now_us() - changes_commit_time_us(s->changes);
	if (changes_commit_time_us(s->changes) == s->timed_us) return 0; /* nothing came since */
	s->timed_us = changes_commit_time_us(s->changes);
	if (!s->has_quickest || passed_us < s->quickest_us) s->quickest_us = passed_us;
	s->has_quickest = true;
	return passed_us - s->quickest_us;
}

static void tell_load(struct session *s)
{
	int64_t now_us = loop_now_us(), passed_us = now_us - s->counted_us;
	int64_t apply_us = apply_lag_us(s, now_us), stream_us = stream_lag_us(s);
	uint64_t count = changes_count(s->changes);
	struct copier_load load = {.queue_fill = (double)s->status.queued_bytes / (double)queue_bytes(s),
							   .lag_us = apply_us > stream_us ? apply_us : stream_us};
	if (passed_us > 0) load.changes_rate = (double)(count - s->counted) * 1e6 / (double)passed_us;
	s->counted = count;
	s->counted_us = now_us;
	copier_set_load(s->copier, load);
}

static void purge(struct session *s)
{
	int64_t now_us = loop_now_us();
	bool busy = s->status.queued_bytes > queue_bytes(s) / 8 || changes_in_transaction(s->changes);
	if (busy || now_us - s->purged_us < PURGE_EVERY_US) return;
	struct batch *b = batch_create();
	batch_add(b, OP_PURGE)->u.purge = (struct op_purge){.now_us = clock_now_us(),
														.retention_us = s->config->marker_retention_us,
														.limit = PURGE_MARKERS,
														.scan_limit = PURGE_ENTRIES};
	s->purged_us = now_us;
	changes_emit(s->changes, b);
}

static void on_tick(void *ctx)
{
	struct session *s = ctx;
	if (s->done) return;
	store_idle_position(s);
	tell_load(s);
	purge(s);
	requests_watch(s->config->requests);
	requests_turn(s->config->requests);
	readers_watch(&s->readers, s->config->store, loop_now_us());
	if (s->all_live || s->config->snapshot == SNAPSHOT_NEVER)
		progress_end();
	else
		show_progress(s);
	check_until(s);
	ask(s);
	if (!s->done) loop_timer_set(s->tick, TICK_US);
}

/* ---- beginning ---- */

static void free_async(uv_handle_t *handle)
{
	free(handle);
}

static bool start_worker(struct session *s, struct err *err)
{
	size_t memory = s->config->memory;
	struct worker_config w = {.store = s->config->store,
							  .queue_bytes = queue_bytes(s),
							  .dirty_bytes = memory / 8 * 3,
							  .commit_ms = 200,
							  .sync_idle_ms = 50,
							  .wake = wake,
							  .wake_ctx = s};
	s->wake = malloc(sizeof *s->wake);
	if (s->wake == NULL) return err_set(err, ERR_NOMEM, "out of memory");
	uv_async_init(&s->loop->uv, s->wake, on_wake);
	s->wake->data = s;
	return worker_start(&w, &s->worker, err);
}

static void make_copier(struct session *s, uint16_t epoch)
{
	size_t memory = s->config->memory;
	struct copier_config c = {.epoch = epoch,
							  .chunk_rows_max = s->config->chunk_rows_max,
							  .chunk_time_ms = s->config->chunk_time_ms,
							  .chunk_bytes = memory / 64,
							  .buffer_bytes = memory / 8,
							  .windows_max = 8,
							  .requests_max = (size_t)s->config->connections,
							  .next_run_id = stored_next_run_id(&s->stored)};
	s->copier = copier_create(&c, (struct copier_sink){.ctx = s, .emit = emit});
	changes_set_copier(s->changes, s->copier);
	copier_load_unseen(s->copier, s->stored.unseen, s->stored.nunseen);
}

static void start_run(struct session *s, const struct planned_run *r)
{
	if (s->config->snapshot == SNAPSHOT_NEVER) return;
	copier_start_run_as_of(s->copier, r->table_id, r->kind, r->sweep, r->gate, r->requester, r->as_of,
						   clock_now_us());
}

/* Runs that somebody asked for, in the order of that. */
static void load_requested(struct session *s, uint32_t table_id)
{
	for (size_t i = 0; i < s->stored.nruns; i++) {
		const struct run_record *r = &s->stored.runs[i];
		if (r->table_id == table_id && r->kind == RUN_REQUESTED && run_record_is_open(r))
			copier_load_run(s->copier, r);
	}
}

static void carry_out(struct session *s, struct plan *plan)
{
	struct batch *records = plan->batch;
	plan->batch = NULL;
	push(s, records);
	s->watched = calloc(plan->ntables + 1, sizeof *s->watched);
	if (s->watched == NULL) abort();
	for (size_t i = 0; i < plan->ntables; i++) {
		const struct planned_table *t = &plan->tables[i];
		s->watched[s->nwatched++] =
			(struct watched){.table_id = t->table_id, .source = t->source, .shape = strdup(t->source->shape)};
		reset_copier_table(s, t->table_id, t->copied);
		if (t->resume != NULL && s->config->snapshot != SNAPSHOT_NEVER) copier_load_run(s->copier, t->resume);
		load_requested(s, t->table_id);
	}
	for (size_t i = 0; i < plan->nruns; i++)
		start_run(s, &plan->runs[i]);
}

/* What the store says becomes what this session does. */
static bool begin(struct session *s, struct err *err)
{
	const struct session_config *c = s->config;
	uint16_t epoch = s->stored.fresh ? 1 : s->stored.checkpoint.epoch;
	struct lineage lineage = {.system_id = s->a.system_id,
							  .timeline = s->a.timeline,
							  .slot = c->attach.slot,
							  .publication = c->attach.publication,
							  .source = c->source_display,
							  .source_version = s->a.server_version};
	struct changes_config changes = {.epoch = epoch,
									 .checkpoint = s->a.start,
									 .xid_near = s->a.xid_near,
									 .message_signals = c->message_signals};
	struct plan plan;
	/* From here on the apply thread is the writer; what was asked for until now is in the store. */
	requests_hold(c->requests);
	if (!stored_reload_runs(c->store, &s->stored, err) || !start_worker(s, err)) return false;
	s->changes = changes_create(&changes, (struct changes_sink){.ctx = s,
																.push = push,
																.described = on_described,
																.signals = on_signals,
																.refused = refuse_signal});
	make_copier(s, epoch);
	plan_make(&s->stored, &s->a, &lineage, epoch, c->snapshot == SNAPSHOT_ALWAYS, s->changes, &plan);
	carry_out(s, &plan);
	plan_finish(&plan);
	find_signal_table(s);
	s->target = c->until_lsn;
	s->target_known = c->until == UNTIL_LSN;

	struct query_events qe = {.ctx = s, .chunk_done = on_chunk_done, .lost = on_query_lost};
	struct stream_events se = {
		.ctx = s, .message = on_message, .position = on_position, .dry = on_dry, .lost = on_stream_lost};
	if (!query_create(s->a.sql, s->copier, &qe, &s->query, err) ||
		!stream_start(s->loop, s->a.repl, c->attach.slot, c->attach.publication, s->a.start, &se, &s->stream,
					  err))
		return false;
	s->tick = loop_timer_create(s->loop, on_tick, s);
	s->ask_timer = loop_timer_create(s->loop, on_ask_timer, s);
	s->nudge_timer = loop_timer_create(s->loop, on_nudge, s);
	s->look_timer = loop_timer_create(s->loop, look, s);
	loop_timer_set(s->tick, TICK_US);
	loop_timer_set(s->look_timer, LOOK_EVERY_US);
	requests_go_live(c->requests, &(struct requests_session){.ctx = s,
															 .copier = s->copier,
															 .query = s->query,
															 .between = is_between,
															 .replicates = replicates,
															 .emit = emit});
	on_wake(s->wake);
	return true;
}

/* ---- ending ---- */

/* Tells the server what became durable, and waits a moment for it to close the stream in order. */
static void say_goodbye(struct session *s)
{
	struct err ignored;
	bool stopping = s->loop->stopping;
	if (s->stream == NULL || s->stream_over) return;
	s->loop->stopping = false;
	stream_acknowledge(s->stream, s->status.durable);
	stream_resume(s->stream);
	stream_say_goodbye(s->stream);
	(void)loop_wait(s->loop, &s->stream_over, GOODBYE_MS, &ignored);
	s->loop->stopping |= stopping;
}

static void close_queries(struct session *s)
{
	chunk_lines_close(&s->lines);
	query_destroy(s->query);
	s->query = NULL;
}

static bool finish(struct session *s, struct err *err)
{
	struct err worker_err = {.kind = ERR_NONE};
	bool good = s->reached;
	s->done = true;
	progress_end();
	if (s->changes != NULL && s->worker != NULL && s->err.kind != ERR_CORRUPT) changes_flush(s->changes);
	if (!worker_stop(s->worker, s->err.kind != ERR_CORRUPT, &s->status, &worker_err) &&
		(good || s->err.kind == ERR_STOPPED)) {
		s->err = worker_err;
		good = false;
	}
	s->worker = NULL;
	close_queries(s); /* no answer may come any more to what is begun again */
	requests_go_direct(s->config->requests);
	if (good || s->err.kind == ERR_STOPPED) say_goodbye(s);
	if (!good) *err = s->err;
	return good;
}

static void release(struct session *s)
{
	stream_stop(s->stream);
	close_queries(s);
	copier_destroy(s->copier);
	changes_destroy(s->changes);
	loop_timer_free(s->tick);
	loop_timer_free(s->ask_timer);
	loop_timer_free(s->nudge_timer);
	loop_timer_free(s->look_timer);
	if (s->wake != NULL) uv_close((uv_handle_t *)s->wake, free_async);
	for (size_t i = 0; i < s->nwatched; i++)
		free(s->watched[i].shape);
	free(s->watched);
	attachment_finish(&s->a);
	stored_free(&s->stored);
}

/* What this process does not remember, one that was killed may have written down. */
static void recall_backends(struct session *s)
{
	struct attach_memory *m = s->config->attach.memory;
	if (m->backends != NULL) return;
	m->backends = s->stored.backends;
	s->stored.backends = NULL;
}

static bool write_down_backends(struct session *s, struct err *err)
{
	const char *backends = s->config->attach.memory->backends;
	struct store_txn *t = NULL;
	if (backends == NULL) return true;
	if (!store_begin_write(s->config->store, &t, err)) return false;
	if (store_put_backends(t, backends, err)) return store_commit(t, err);
	store_abort(t);
	return false;
}

static bool start(struct session *s, struct err *err)
{
	if (!stored_load(s->config->store, &s->stored, err)) return false;
	recall_backends(s);
	return attach(s->loop, &s->config->attach, &s->stored, &s->a, err) && write_down_backends(s, err);
}

/* Whatever it takes a connection for is done here; one that cannot be had is done without. */
static void open_line(struct session *s)
{
	struct query_events events = {.ctx = s, .chunk_done = on_chunk_done, .lost = on_query_lost};
	struct err err;
	s->wants_line = false;
	if (chunk_lines_open(&s->lines, s->loop, s->config->attach.source, s->config->attach.silence_ms,
						 s->copier, &events, &err)) {
		log_info("one more connection for chunks", KV_U("connections", 1 + s->lines.n), KV_END);
		ask(s);
	} else if (err.kind != ERR_STOPPED) {
		log_warn("no further connection for chunks", KV_S("reason", err.msg),
				 KV_U("connections", 1 + s->lines.n), KV_END);
	}
}

static void keep_streaming(struct session *s)
{
	while (!s->done) {
		s->turn = false;
		if (!loop_wait(s->loop, &s->turn, -1, &s->err)) {
			assert(s->err.kind == ERR_STOPPED);
			return;
		}
		if (s->wants_line && !s->done) open_line(s);
	}
}

bool session_run(struct loop *l, const struct session_config *config, struct session_result *result,
				 struct err *err)
{
	struct session s = {.loop = l, .config = config};
	bool good = false;
	*result = (struct session_result){.streamed = false};
	readers_begin(&s.readers, config->store, loop_now_us());
	if (!start(&s, err)) goto out;
	if (!begin(&s, &s.err)) {
		finish(&s, err);
		goto out;
	}
	result->streamed = true;
	log_info("streaming", KV_S("source", config->source_display), KV_S("slot", config->attach.slot),
			 KV_L("from", s.a.start), KV_U("tables", s.nwatched), KV_END);
	progress_start();
	keep_streaming(&s);
	good = finish(&s, err);
	result->reattach = s.reattach;
	result->undecodable = s.undecodable;
out:
	release(&s);
	return good;
}
