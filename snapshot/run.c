#include "snapshot/run.h"

#include <stdlib.h>
#include <string.h>

#include "state/mutant.h"

static void set(struct buf *b, struct slice bytes)
{
	buf_reset(b);
	buf_put(b, bytes.p, bytes.n);
}

/* A first copy finds its table empty; any other run may have to replace what an earlier one, or the log,
 * wrote. */
static lsn_t replaced_by(const struct run_record *rec, uint16_t epoch)
{
	bool into_empty = rec->kind == RUN_INITIAL && !rec->sweep;

	return into_empty || rec->accepted.epoch != epoch ? LSN(0) : rec->accepted.lsn;
}

static void take_gate(struct run *r, const char *text)
{
	struct err ignored;
	size_t size = strlen(text) + 1;

	r->gate_text = memcpy(mem_alloc(size), text, size);
	r->gate_state = *text || r->replaces.v > 0 ? GATE_CLOSED : GATE_OPEN;
	if (*text && !snap_parse(text, false, &r->gate, &ignored)) r->gate_state = GATE_BROKEN;
}

struct run *run_create(const struct run_record *rec, uint16_t epoch)
{
	struct run *r = mem_alloc(sizeof *r);

	*r = (struct run){.id = rec->id, .kind = rec->kind, .state = rec->state, .sweep = rec->sweep};
	r->resumes_as = rec->resumes_as ? rec->resumes_as : RUN_COPYING;
	r->name = mem_text(rec->name ? rec->name : "");
	scope_set(&r->scope, rec->where_sql, rec->from, rec->to, rec->listed);
	r->check = scope_has_text(&r->scope) ? CHECK_NEEDED : CHECK_GOOD;
	r->chunk_time_ms = rec->chunk_time_ms;
	r->rows_per_second = rec->rows_per_second;
	r->suspects.whole = scope_has_where(&r->scope);
	r->lowest = rec->lowest_bound;
	r->replaces = replaced_by(rec, epoch);
	r->rows_read = rec->rows_read;
	set(rec->listed > 0 ? &r->listing.from : &r->closed, rec->cursor);
	set(&r->received, (struct slice){r->closed.p, r->closed.n});
	set(&r->suspects.from, rec->sweep_cursor);
	take_gate(r, rec->gate);
	return r;
}

void run_destroy(struct run *r)
{
	if (!r) return;
	inquiry_finish(&r->suspects);
	inquiry_finish(&r->listing);
	scope_finish(&r->scope);
	free(r->name);
	buf_finish(&r->closed);
	buf_finish(&r->received);
	snap_finish(&r->gate);
	free(r->gate_text);
	free(r);
}

bool run_is_open(const struct run *r)
{
	return r && run_record_is_open(&(struct run_record){.state = (uint8_t)r->state});
}

bool run_wants_page(const struct run *r)
{
	return r && r->state == RUN_COPYING && !r->received_end && !r->asked && r->scope.listed == 0;
}

bool run_is_listing(const struct run *r)
{
	return r && r->state == RUN_COPYING && r->scope.listed > 0;
}

bool run_is_requested(const struct run *r)
{
	return r->kind == RUN_REQUESTED;
}

bool run_needs_check(const struct run *r)
{
	return r && r->check == CHECK_NEEDED && (r->state == RUN_COPYING || r->state == RUN_SWEEPING);
}

bool run_has_begun(const struct run *r)
{
	return r->closed.n > 0 || r->listing.from.n > 0 || pos_cmp(r->lowest, POS_NONE) != 0;
}

void run_pause(struct run *r)
{
	if (r->state == RUN_PAUSED) return;
	r->resumes_as = r->state;
	r->state = RUN_PAUSED;
	run_rewind(r);
}

void run_resume(struct run *r)
{
	if (r->state == RUN_PAUSED) r->state = r->resumes_as;
}

bool run_is_sweeping(const struct run *r)
{
	return r && r->state == RUN_SWEEPING;
}

bool run_is_gated(const struct run *r)
{
	return run_is_open(r) && r->gate_state != GATE_OPEN;
}

/* Stored entries below `replaces` give way only to a higher bound. A replica has an H that can lag. */
static bool is_high_enough(const struct run *r, const struct snap *s, const struct unseen *u, lsn_t high)
{
	return unseen_bound(u, s, high).v >= r->replaces.v || MUTANT(REPLACE_BLIND);
}

bool run_admits(struct run *r, const struct snap *s, const struct unseen *u, lsn_t high)
{
	if (!run_is_gated(r) || r->gate_state == GATE_BROKEN) return !run_is_gated(r);
	r->gate_state = run_covers(r, s) && is_high_enough(r, s, u, high) ? GATE_OPEN : GATE_REFUSED;
	return r->gate_state == GATE_OPEN;
}

bool run_covers(struct run *r, const struct snap *s)
{
	if (!run_is_gated(r)) return true;
	if (r->gate_state == GATE_BROKEN) return false;
	r->covered = r->covered || *r->gate_text == '\0' || snap_covers(s, &r->gate);
	if (!r->covered) r->gate_state = GATE_REFUSED;
	return r->covered;
}

const char *run_inherit_gate(const struct run *r, const char *gate, struct buf *both)
{
	struct snap own;
	struct err ignored;

	if (!run_is_gated(r) || *r->gate_text == '\0' || MUTANT(GATE_LOST)) return gate;
	if (*gate == '\0' || r->gate_state == GATE_BROKEN) return r->gate_text;
	if (!snap_parse(gate, false, &own, &ignored)) return gate;
	snap_union(&r->gate, &own, both);
	snap_finish(&own);
	return (const char *)both->p;
}

const char *run_gate_text(const struct run *r)
{
	return *r->gate_text ? r->gate_text : "transactions streamed before the run began";
}

void run_page_received(struct run *r, struct slice cursor, bool last)
{
	if (cursor.n > 0) set(&r->received, cursor);
	r->received_end = last;
	r->asked = false;
}

bool run_page_closed(struct run *r, const struct op_chunk *chunk, struct pos bound, bool last)
{
	if (chunk->moves_cursor) set(&r->closed, chunk->cursor);
	if (pos_cmp(r->lowest, POS_NONE) == 0 || pos_cmp(bound, r->lowest) < 0) r->lowest = bound;
	r->rows_read += chunk->rows_read;
	if (last) r->state = r->sweep == SWEEP_OFF ? RUN_DONE : RUN_SWEEPING;
	return last;
}

bool run_listing_closed(struct run *r, struct slice resume, bool end, uint64_t rows_read)
{
	inquiry_advance(&r->listing, resume);
	r->rows_read += rows_read;
	if (end) r->state = RUN_DONE;
	return end;
}

void run_count_rows(struct run *r, uint32_t rows, int64_t now_us)
{
	int64_t from = r->not_before_us > now_us ? r->not_before_us : now_us;

	if (r->rows_per_second > 0) r->not_before_us = from + (int64_t)rows * 1000000 / r->rows_per_second;
}

uint32_t run_rows_max(const struct run *r)
{
	return r->rows_per_second > 0 ? r->rows_per_second : UINT32_MAX;
}

bool run_suspects_closed(struct run *r, struct slice resume, bool end)
{
	inquiry_advance(&r->suspects, resume);
	if (end) r->state = RUN_DONE;
	return end;
}

void run_rewind(struct run *r)
{
	if (!MUTANT(PAUSE_AHEAD)) set(&r->received, (struct slice){r->closed.p, r->closed.n});
	r->received_end = false;
	r->asked = false;
	inquiry_reset(&r->suspects);
	inquiry_reset(&r->listing);
	if (scope_has_text(&r->scope)) r->check = CHECK_NEEDED;
}

void run_restart(struct run *r)
{
	buf_reset(&r->closed);
	buf_reset(&r->suspects.from);
	buf_reset(&r->listing.from);
	run_rewind(r);
}

bool run_cursor_texts(const struct run *r, struct slice *texts, size_t n)
{
	struct cur c = cur_of((struct slice){r->received.p, r->received.n});

	for (size_t i = 0; i < n; i++)
		texts[i] = cur_blob(&c);
	return cur_done(&c);
}
