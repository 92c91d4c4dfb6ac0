#include <assert.h>
#include <string.h>

#include "tests/sim/session_impl.h"

bool session_can_start(const struct session *s, unsigned reserved)
{
	return s->last_run + 1 + reserved < ASKS_MAX;
}

void session_run_is(struct session *s, uint64_t id, struct ask a)
{
	assert(id < ASKS_MAX);
	s->w->asks[id] = a;
	if (id > s->last_run) s->last_run = id;
	if (ask_is_whole(&a) && a.sweep == SWEEP_ON) s->mending[a.table] = id;
}

void session_request(struct session *s, const struct ask *a)
{
	const struct ask *known;
	bool is_new;
	uint64_t id;

	id = ask_request(a, s->copier, s->w->layouts[a->table].table_id, &is_new, s->w->now_us);
	trace(trace_of(s),
		  "someone asks for a run of t%d \"%s\" where %s from %d to %d, %d keys, sweep %d: run %lu", a->table,
		  a->name, ask_where(a), a->low, a->high, a->nlisted, a->sweep, id);
	known = &s->w->asks[id];
	if (is_new)
		session_run_is(s, id, *a);
	else if (a->name[0] == '\0' || strcmp(a->name, known->name) != 0 || known->table != a->table)
		trace_fail(trace_of(s), "run %lu is not the one of that name", id);
}

bool session_can_request(const struct session *s)
{
	return session_is_between(s) && session_can_start(s, ASKS_RESERVED);
}

void session_pause(struct session *s, uint64_t run)
{
	bool known = copier_pause_run(s->copier, run, s->w->now_us);

	trace(trace_of(s), "someone pauses run %lu%s", run, known ? "" : ", which is not open");
}

void session_resume(struct session *s, uint64_t run)
{
	bool known = copier_resume_run(s->copier, run, s->w->now_us);

	trace(trace_of(s), "someone resumes run %lu%s", run, known ? "" : ", which is not open");
	s->w->asks[run].resumed++;
}

void session_stop(struct session *s, uint64_t run)
{
	struct ask *a = &s->w->asks[run];
	enum run_stop stop = copier_stop_run(s->copier, run, "someone wants it", s->w->now_us);

	trace(trace_of(s), "someone stops run %lu: %d", run, stop);
	if (stop != RUN_STOP_OK) return;
	a->stopped = true;
	if (s->mending[a->table] == run) s->mending[a->table] = 0;
}

void session_mend(struct session *s)
{
	for (uint64_t id = 1; id <= s->last_run; id++)
		if (s->w->judge.runs[id].state == RUN_PAUSED) session_resume(s, id);
	for (int t = 0; t < s->w->source.ntables; t++) {
		struct ask a = ask_whole(t, SWEEP_ON);

		a.requested = true;
		if (s->w->judge.tables[t].mended_by && s->mending[t] == 0) session_request(s, &a);
	}
}

void session_purge(struct session *s)
{
	struct op *op = batch_add(s->held, OP_PURGE);

	op->u.purge = (struct op_purge){.now_us = s->w->now_us,
									.limit = (uint32_t)rng_range(&s->w->rng, 1, 4),
									.scan_limit = (uint32_t)rng_range(&s->w->rng, 1, 12)};
	trace(trace_of(s), "purge");
}
