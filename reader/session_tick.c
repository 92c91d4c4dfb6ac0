#include "reader/session_impl.h"

#include "reader/log.h"
#include "reader/progress.h"

enum {
	PURGE_EVERY_US = 1000000,
	PURGE_MARKERS = 2000, /* removed by one step */
	PURGE_ENTRIES = 20000 /* looked at by one step */
};

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

void session_on_wake(uv_async_t *handle)
{
	struct session *s = handle->data;
	if (s->done || s->stream == NULL) /* still starting the stream: it looks itself when it has */
		return;
	worker_get_status(s->worker, &s->status);
	if (s->status.failed) {
		session_end(s, &s->status.err);
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
	session_check_until(s);
	session_ask(s);
}

void session_wake(void *ctx)
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
	struct copier_load load = {.queue_fill = (double)s->status.queued_bytes / (double)session_queue_bytes(s),
							   .lag_us = apply_us > stream_us ? apply_us : stream_us,
							   .way_us = s->query != NULL ? query_way_us(s->query) : 0};
	/* Quiet for a moment is not idle: the rate rises at once and falls by half in 0.6 s. */
	s->changes_rate *= 0.8;
	if (passed_us > 0) load.changes_rate = (double)(count - s->counted) * 1e6 / (double)passed_us;
	if (load.changes_rate < s->changes_rate) load.changes_rate = s->changes_rate;
	s->changes_rate = load.changes_rate;
	s->counted = count;
	s->counted_us = now_us;
	copier_set_load(s->copier, load);
}

static void purge(struct session *s)
{
	int64_t now_us = loop_now_us();
	bool busy = s->status.queued_bytes > session_queue_bytes(s) / 8 || changes_in_transaction(s->changes);
	if (busy || now_us - s->purged_us < PURGE_EVERY_US) return;
	struct batch *b = batch_create();
	batch_add(b, OP_PURGE)->u.purge = (struct op_purge){.now_us = clock_now_us(),
														.retention_us = s->config->marker_retention_us,
														.limit = PURGE_MARKERS,
														.scan_limit = PURGE_ENTRIES};
	s->purged_us = now_us;
	changes_emit(s->changes, b);
}

void session_on_tick(void *ctx)
{
	struct session *s = ctx;
	if (s->done) return;
	session_store_idle(s);
	tell_load(s);
	purge(s);
	requests_watch(s->config->requests);
	requests_turn(s->config->requests);
	readers_watch(&s->readers, s->config->store, loop_now_us());
	if (s->all_live || s->config->snapshot == SNAPSHOT_NEVER)
		progress_end();
	else
		show_progress(s);
	session_check_until(s);
	session_ask(s);
	if (!s->done) loop_timer_set(s->tick, TICK_US);
}
