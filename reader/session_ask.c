#include "reader/session_impl.h"

#include "reader/chunk_lines.h"
#include "reader/log.h"

enum {
	/* A window that waits this long for the stream to pass its H gets a watermark message, */
	NUDGE_AFTER_US = 2000,
	NUDGE_BUSY_US =
		15000, /* or, while the source is asked for more meanwhile, this long: it costs a WAL flush, */
	NUDGE_EVERY_US = 50000 /* and from then on we ask for the server's position. */
};

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
void session_check_until(struct session *s)
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
		session_end(s, NULL);
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

void session_on_nudge(void *ctx)
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
	s->nudge_is_late = false;
}

/* Something else is there to do than to wait for the windows. */
static bool goes_on(const struct session *s)
{
	return query_chunk_in_flight(s->query) || copier_next_at(s->copier) != INT64_MAX;
}

static void arm_nudge(struct session *s)
{
	bool late = goes_on(s);
	lsn_t high;
	if (!waits(s, &high) || (loop_timer_is_set(s->nudge_timer) && (late || !s->nudge_is_late))) return;
	loop_timer_set(s->nudge_timer, late ? NUDGE_BUSY_US : NUDGE_AFTER_US);
	s->nudge_is_late = late;
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

static void ask_chunks(struct session *s)
{
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

void session_ask(struct session *s)
{
	if (s->done || s->query == NULL || s->stream == NULL) return;
	ask_chunks(s);
	if (!s->done) arm_nudge(s);
}

void session_on_ask_timer(void *ctx)
{
	session_ask(ctx);
}

void session_on_chunk_whole(void *ctx)
{
	session_ask(ctx);
}

void session_on_chunk_done(void *ctx)
{
	struct session *s = ctx;
	report_gate(s);
	session_ask(s);
}

void session_on_query_lost(void *ctx, const struct err *err)
{
	session_end(ctx, err);
}
