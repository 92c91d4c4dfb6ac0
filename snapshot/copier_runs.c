#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "snapshot/copier_impl.h"

/* ---- ending ---- */

void copier_give_up(struct copier *c, struct table *t, struct run *r)
{
	copier_drop_windows(c, t->id, r->id);
	copier_drop_requests(c, t->id, r->id);
	run_rewind(r);
}

void copier_run_moved(struct copier *c, struct table *t, struct run *r, struct batch *b)
{
	batch_add_run_state(b, t->id, r->id, r->state, c->now_us);
	if (run_is_open(r)) return;
	t->copied = t->copied || (r->state == RUN_DONE && scope_is_whole(&r->scope));
	table_end_run(t, r);
	table_choose_run(t);
}

void copier_hold_run(struct copier *c, struct table *t, struct run *r)
{
	copier_give_up(c, t, r);
	r->gate_state = GATE_REFUSED;
	c->gate_at_us = c->now_us + backoff_next(&c->gate_wait);
}

static void end_run(struct copier *c, struct table *t, struct run *r, enum run_state how, const char *why)
{
	copier_give_up(c, t, r);
	r->state = how;
	batch_add_run_end(copier_outbox(c), t->id, r->id, how, c->now_us, why);
	table_end_run(t, r);
	table_choose_run(t);
}

void copier_fail_run(struct copier *c, struct table *t, struct run *r, const char *why)
{
	end_run(c, t, r, RUN_FAILED, why);
}

void copier_stop_runs(struct copier *c, struct table *t, const char *why)
{
	while (t->runs)
		end_run(c, t, t->runs, RUN_STOPPED, why);
}

/* ---- beginning ---- */

/* It may be another one's turn now: what that one has under way waits until it is its turn again. */
static void choose(struct copier *c, struct table *t)
{
	struct run *before = t->run;

	table_choose_run(t);
	if (before && before != t->run && run_is_open(before)) copier_give_up(c, t, before);
}

static void take_run(struct copier *c, struct table *t, const struct run_record *rec)
{
	table_add_run(t, run_create(rec, c->config.epoch));
	choose(c, t);
	if (rec->id >= c->next_run) c->next_run = rec->id + 1;
}

static void stop_unrecorded(struct copier *c, const struct run_record *rec)
{
	batch_add_run_end(copier_outbox(c), rec->table_id, rec->id, RUN_STOPPED, c->now_us,
					  "another run took its place");
}

/* The program itself wants one thing of a table at a time: the newest. */
void copier_load_run(struct copier *c, const struct run_record *r)
{
	struct table *t = copier_table_of(c, r->table_id);
	struct run *own = r->kind == RUN_REQUESTED ? table_find_run(t, r->id) : table_own_run(t);
	bool known = own && own->id == r->id, newer = !own || own->id < r->id;

	if (own && newer) end_run(c, t, own, RUN_STOPPED, "another run took its place");
	if (newer)
		take_run(c, t, r);
	else if (!known && run_record_is_open(r))
		stop_unrecorded(c, r);
	copier_flush(c);
}

uint64_t copier_start_run(struct copier *c, uint32_t table_id, enum run_kind kind, bool sweep,
						  const char *gate, const char *requester, int64_t now_us)
{
	return copier_start_run_as_of(c, table_id, kind, sweep, gate, requester, LSN(0), now_us);
}

/* Entries below it are what the run replaces. */
static lsn_t accepted_at(const struct copier *c, const struct run *before, lsn_t as_of)
{
	lsn_t at = as_of.v > c->received.v ? as_of : c->received;

	return before && before->replaces.v > at.v ? before->replaces : at;
}

uint64_t copier_start_run_as_of(struct copier *c, uint32_t table_id, enum run_kind kind, bool sweep,
								const char *gate, const char *requester, lsn_t as_of, int64_t now_us)
{
	struct table *t = copier_table_of(c, table_id);
	struct run *own = table_own_run(t);
	struct buf both = {0};
	char *inherited =
		mem_text(run_inherit_gate(own, gate ? gate : "", &both)); /* own goes before it is used */
	struct run_record r = {
		.id = c->next_run,
		.table_id = table_id,
		.kind = (uint8_t)kind,
		.state = RUN_COPYING,
		.sweep = sweep ? SWEEP_ON : SWEEP_OFF,
		.gate = inherited,
		.requester = requester ? requester : "",
		.first_snapshot = "",
		.last_snapshot = "",
		.accepted = {c->config.epoch, accepted_at(c, own, as_of), 0},
	};

	assert(!c->tx.open && kind != RUN_REQUESTED);
	copier_clock(c, now_us);
	r.started_us = c->now_us;
	if (own) end_run(c, t, own, RUN_STOPPED, "another run took its place");
	batch_add_run(copier_outbox(c), &r);
	take_run(c, t, &r);
	free(inherited);
	buf_finish(&both);
	copier_flush(c);
	return r.id;
}

/* ---- what someone asks for ---- */

static struct run *find_named(const struct table *t, const char *name)
{
	struct run *r = *name ? t->runs : NULL;

	while (r && strcmp(r->name, name) != 0)
		r = r->next;
	return r;
}

uint64_t copier_request_run(struct copier *c, const struct run_request *q, bool *is_new, int64_t now_us)
{
	struct table *t = copier_table_of(c, q->table_id);
	struct run *known = find_named(t, q->name);
	struct run_record r;

	assert(!c->tx.open);
	copier_clock(c, now_us);
	if (is_new) *is_new = !known;
	if (known) return known->id;
	r = run_request_record(q, c->next_run, c->now_us);
	r.accepted = (struct pos){c->config.epoch, accepted_at(c, NULL, LSN(0)), 0};
	run_request_add(copier_outbox(c), q, &r);
	take_run(c, t, &r);
	copier_flush(c);
	return r.id;
}

static struct run *find_run(const struct copier *c, uint64_t run_id, struct table **t)
{
	for (*t = c->tables; *t; *t = (*t)->hh.next) {
		struct run *r = table_find_run(*t, run_id);

		if (r) return r;
	}
	return NULL;
}

static bool change_state(struct copier *c, uint64_t run_id, bool pause, int64_t now_us)
{
	struct table *t;
	struct run *r = find_run(c, run_id, &t);

	assert(!c->tx.open);
	copier_clock(c, now_us);
	if (!r) return false;
	if ((r->state == RUN_PAUSED) == pause) return true;
	if (pause) {
		copier_give_up(c, t, r);
		run_pause(r);
	} else {
		run_resume(r);
	}
	copier_run_moved(c, t, r, copier_outbox(c));
	choose(c, t);
	copier_flush(c);
	return true;
}

bool copier_pause_run(struct copier *c, uint64_t run_id, int64_t now_us)
{
	return change_state(c, run_id, true, now_us);
}

bool copier_resume_run(struct copier *c, uint64_t run_id, int64_t now_us)
{
	return change_state(c, run_id, false, now_us);
}

enum run_stop copier_stop_run(struct copier *c, uint64_t run_id, const char *why, int64_t now_us)
{
	struct table *t;
	struct run *r = find_run(c, run_id, &t);

	assert(!c->tx.open);
	copier_clock(c, now_us);
	if (!r) return RUN_STOP_UNKNOWN;
	if (*r->gate_text && !r->covered && !run_has_begun(r)) return RUN_STOP_GATED;
	end_run(c, t, r, RUN_STOPPED, why);
	copier_flush(c);
	return RUN_STOP_OK;
}

char *copier_check_sql(const struct copier *c, const struct run_request *q)
{
	struct table *t = copier_table(c, q->table_id);
	struct scope scope = {.listed = 0};
	struct chunk_source from;
	struct arena arena;
	char *text;

	scope_set(&scope, q->where_sql, q->from, q->to, 0);
	if (!t || !t->schema || !scope_has_text(&scope)) {
		scope_finish(&scope);
		return NULL;
	}
	from = table_source(t);
	arena_init(&arena);
	text = strdup(scope_sql_check(&arena, &scope, &from));
	arena_finish(&arena);
	scope_finish(&scope);
	if (!text) abort();
	return text;
}
