/* Runs: what must be true when one is done, and while one is paused. */
#include <string.h>

#include "tests/sim/judge.h"
#include "tests/sim/trace.h"

/* ---- ghosts ---- */

static bool is_row(const struct held *h, int key)
{
	return h->present[key] && !(h->entries[key].flags & ROW_DELETED);
}

/* Rows in the scope of a sweep that the source does not have. */
static uint32_t ghosts_in(const struct judge *j, const struct judge_view *v, const struct held *h,
						  const struct ask *a)
{
	uint32_t keys = 0;

	for (int k = 0; k < JUDGE_KEYS && a->nlisted == 0; k++)
		if (is_row(h, k) && ask_holds(a, k, h->entries[k].row) == ASK_IN &&
			judge_truth(j, v, h->layout->table, k).version == 0)
			keys |= UINT32_C(1) << k;
	return keys;
}

static uint64_t count(uint32_t keys)
{
	return (uint64_t)__builtin_popcount(keys);
}

/* What was there all the time must be counted, what was never there must not. */
static bool check_swept(const struct judge_view *v, const struct held *h, const struct ask *a,
						const struct judge_run *seen, const struct run_record *r)
{
	uint64_t least = count(seen->sure), most = count(seen->ghosts);

	if (a->nlisted > 0) return true;
	if (a->sweep == SWEEP_OFF) least = most = 0;
	if (r->rows_swept >= least && r->rows_swept <= most) return true;
	return trace_fail(v->source->trace, "run %lu over %s has swept %lu rows, of %lu to %lu", r->id,
					  h->layout->name, r->rows_swept, least, most);
}

/* ---- the scope ---- */

static bool must_agree(const struct ask *a, int key, struct src_row truth, const struct layout_entry *e)
{
	if (a->nlisted > 0) return ask_lists(a, key);
	if (truth.version && ask_holds(a, key, truth) == ASK_IN) return true;
	return a->sweep == SWEEP_ON && e->row.version && ask_holds(a, key, e->row) == ASK_IN;
}

static bool check_scope(struct judge *j, const struct judge_view *v, const struct held *h,
						const struct ask *a, const struct run_record *r)
{
	int t = h->layout->table;

	for (int k = 0; k < JUDGE_KEYS; k++) {
		struct layout_entry none = {0};
		const struct layout_entry *e = is_row(h, k) ? &h->entries[k] : &none;
		struct src_row truth = judge_truth(j, v, t, k);
		struct judge_key *key = &j->tables[t].keys[k];

		if (key->late || !must_agree(a, k, truth, e)) continue;
		if (!judge_agrees(h->layout, truth, e))
			return trace_fail(
				v->source->trace,
				"run %lu is done at %lu, %s[%d] has v%u of %u w%u,%u, the source v%u of %u w%u,%u", r->id,
				j->checkpoint.v, h->layout->name, k, e->row.version, e->row.tenant, e->row.wide[0],
				e->row.wide[1], truth.version, truth.tenant, truth.wide[0], truth.wide[1]);
		if (!(e->flags & ROW_DOUBT)) key->tainted = false;
	}
	return true;
}

static void mended(struct judge_table *t)
{
	t->mended_by = 0;
	for (int k = 0; k < JUDGE_KEYS; k++)
		t->keys[k].tainted = false;
}

static bool run_is_done(struct judge *j, const struct judge_view *v, const struct held *h,
						const struct run_record *r)
{
	const struct ask *a = &v->asks[r->id];
	struct judge_table *t = &j->tables[h->layout->table];

	if (r->id < t->mended_by) return true; /* what it had read has been damaged since */
	if (ask_is_hopeless(a))
		return trace_fail(v->source->trace, "run %lu is done, with the condition %s", r->id, r->where_sql);
	if (!check_scope(j, v, h, a, r) || !check_swept(v, h, a, &j->runs[r->id], r)) return false;
	if (t->mended_by && ask_is_whole(a) && a->sweep == SWEEP_ON) mended(t);
	return true;
}

/* ---- pauses ---- */

static bool same_progress(const struct judge_run *a, const struct judge_run *b)
{
	return a->rows_read == b->rows_read && a->rows_swept == b->rows_swept && a->cursor == b->cursor &&
		   a->sweep_cursor == b->sweep_cursor;
}

static bool check_pause(const struct judge_view *v, const struct judge_run *seen, const struct judge_run *now,
						const struct run_record *r)
{
	if (now->resumed > v->asks[r->id].resumed)
		return trace_fail(v->source->trace, "run %lu goes on although it was paused", r->id);
	return seen->state != RUN_PAUSED || seen->moved || same_progress(seen, now) ||
		   trace_fail(v->source->trace, "run %lu has moved while it was paused", r->id);
}

/* ---- looking ---- */

static bool check_end(const struct judge_view *v, const struct run_record *r)
{
	const struct ask *a = &v->asks[r->id];

	if (r->state == RUN_FAILED && !a->may_fail && !ask_is_hopeless(a))
		return trace_fail(v->source->trace, "run %lu has failed: %s", r->id, r->error);
	if (r->state == RUN_FAILED && r->error[0] == '\0')
		return trace_fail(v->source->trace, "run %lu has failed and does not say why", r->id);
	if (r->state == RUN_STOPPED && a->requested && !a->stopped)
		return trace_fail(v->source->trace, "run %lu was stopped by nobody: %s", r->id, r->error);
	return true;
}

/* It is what was asked for. */
static bool check_record(const struct judge_view *v, const struct run_record *r)
{
	const struct ask *a = &v->asks[r->id];

	if (strcmp(r->where_sql, ask_where(a)) == 0 && strcmp(r->name, a->name) == 0 && r->sweep == a->sweep &&
		r->listed == (uint64_t)a->nlisted && run_record_is_scoped(r) == !ask_is_whole(a))
		return true;
	return trace_fail(v->source->trace, "run %lu is not the one asked for", r->id);
}

static bool goes_on(const struct judge_run *seen, const struct run_record *r)
{
	return seen->state == RUN_PAUSED &&
		   (r->state == RUN_COPYING || r->state == RUN_SWEEPING || r->state == RUN_DONE);
}

bool judge_look_run(struct judge *j, const struct judge_view *v, const struct held *h,
					const struct run_record *r)
{
	struct judge_run *seen = &j->runs[r->id];
	struct judge_run now = {.state = r->state,
							.ghosts = seen->ghosts,
							.sure = seen->sure,
							.resumed = seen->resumed + goes_on(seen, r),
							.rows_read = r->rows_read,
							.rows_swept = r->rows_swept,
							.cursor = judge_digest(r->cursor),
							.sweep_cursor = judge_digest(r->sweep_cursor)};
	bool ended = seen->state != r->state && !run_record_is_open(r);
	bool ok = check_record(v, r);

	if (seen->state == 0) now.ghosts = now.sure = ghosts_in(j, v, h, &v->asks[r->id]);
	ok = ok && check_pause(v, seen, &now, r) && (!ended || check_end(v, r));
	*seen = now;
	if (r->id > j->last_run) j->last_run = r->id;
	if (ok && ended && r->state == RUN_DONE) ok = run_is_done(j, v, h, r);
	return ok;
}
