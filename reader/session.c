#include "reader/session_impl.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "reader/log.h"
#include "reader/plan.h"
#include "reader/progress.h"

enum { GOODBYE_MS = 1000 };

size_t session_queue_bytes(const struct session *s)
{
	return s->config->memory / 8;
}

void session_end(struct session *s, const struct err *err)
{
	if (s->done) return;
	s->done = s->turn = true;
	if (err != NULL)
		s->err = *err;
	else
		s->reached = true;
	uv_stop(&s->loop->uv);
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
							  .queue_bytes = session_queue_bytes(s),
							  .dirty_bytes = memory / 8 * 3,
							  .commit_ms = 200,
							  .sync_idle_ms = 50,
							  .flood_us = 8000, /* 2,000 transactions a second */
							  .gather_us = 40000,
							  .chunks_us = 50000,
							  .wake = session_wake,
							  .wake_ctx = s};
	s->wake = malloc(sizeof *s->wake);
	if (s->wake == NULL) return err_set(err, ERR_NOMEM, "out of memory");
	uv_async_init(&s->loop->uv, s->wake, session_on_wake);
	s->wake->data = s;
	return worker_start(&w, &s->worker, err);
}

static void make_copier(struct session *s, uint16_t epoch)
{
	size_t memory = s->config->memory;
	struct copier_config c = {.epoch = epoch,
							  .chunk_rows_max = s->config->chunk_rows_max,
							  .chunk_time_ms = s->config->chunk_time_ms,
							  .chunk_bytes = memory / 256,
							  .buffer_bytes = memory / 8,
							  .windows_max = 64,
							  .requests_max = (size_t)s->config->connections,
							  .next_run_id = stored_next_run_id(&s->stored)};
	s->copier = copier_create(&c, (struct copier_sink){.ctx = s, .emit = session_emit});
	changes_set_copier(s->changes, s->copier);
	copier_load_unseen(s->copier, s->stored.unseen, s->stored.nunseen);
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
	session_push(s, records);
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
																.push = session_push,
																.described = session_on_described,
																.signals = session_on_signals,
																.refused = session_refuse_signal});
	make_copier(s, epoch);
	plan_make(&s->stored, &s->a, &lineage, epoch, c->snapshot == SNAPSHOT_ALWAYS, s->changes, &plan);
	carry_out(s, &plan);
	plan_finish(&plan);
	session_find_signal_table(s);
	s->target = c->until_lsn;
	s->target_known = c->until == UNTIL_LSN;

	struct query_events qe = {.ctx = s,
							  .chunk_done = session_on_chunk_done,
							  .chunk_whole = session_on_chunk_whole,
							  .lost = session_on_query_lost};
	struct stream_events se = {.ctx = s,
							   .message = session_on_message,
							   .position = session_on_position,
							   .dry = session_on_dry,
							   .lost = session_on_stream_lost};
	if (!query_create(s->a.sql, s->copier, &qe, &s->query, err) ||
		!stream_start(s->loop, s->a.repl, c->attach.slot, c->attach.publication, s->a.start, &se, &s->stream,
					  err))
		return false;
	s->tick = loop_timer_create(s->loop, session_on_tick, s);
	s->ask_timer = loop_timer_create(s->loop, session_on_ask_timer, s);
	s->nudge_timer = loop_timer_create(s->loop, session_on_nudge, s);
	s->look_timer = loop_timer_create(s->loop, session_look, s);
	loop_timer_set(s->tick, TICK_US);
	loop_timer_set(s->look_timer, LOOK_EVERY_US);
	requests_go_live(c->requests, &(struct requests_session){.ctx = s,
															 .copier = s->copier,
															 .query = s->query,
															 .between = session_is_between,
															 .replicates = session_replicates,
															 .emit = session_emit});
	session_on_wake(s->wake);
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
	struct query_events events = {.ctx = s,
								  .chunk_done = session_on_chunk_done,
								  .chunk_whole = session_on_chunk_whole,
								  .lost = session_on_query_lost};
	struct err err;
	s->wants_line = false;
	if (chunk_lines_open(&s->lines, s->loop, s->config->attach.source, s->config->attach.silence_ms,
						 s->copier, &events, &err)) {
		log_info("one more connection for chunks", KV_U("connections", 1 + s->lines.n), KV_END);
		session_ask(s);
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
