#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "snapshot/copier_impl.h"

#define GATE_WAIT_FIRST_US  200000
#define GATE_WAIT_MAX_US    5000000
#define PROBE_WAIT_FIRST_US 1000000
#define PROBE_WAIT_MAX_US   5000000
#define CLOCK_SET_BACK_US   1000000 /* by less it stands still for a while */

struct copier *copier_create(const struct copier_config *config, struct copier_sink sink)
{
	struct copier *c = mem_alloc(sizeof *c);

	*c = (struct copier){.config = *config, .sink = sink, .next_run = config->next_run_id};
	c->unseen = unseen_create();
	c->gate_wait = (struct backoff){.first_us = GATE_WAIT_FIRST_US, .max_us = GATE_WAIT_MAX_US};
	c->probe_wait = (struct backoff){.first_us = PROBE_WAIT_FIRST_US, .max_us = PROBE_WAIT_MAX_US};
	c->pruned_us = INT64_MIN / 2;
	return c;
}

void copier_destroy(struct copier *c)
{
	struct table *t, *next;

	if (!c) return;
	for (struct request *r = c->requests, *after; r; r = after) {
		after = r->next;
		request_destroy(r);
	}
	for (struct window *w = c->windows, *after; w; w = after) {
		after = w->next;
		window_destroy(w);
	}
	HASH_ITER (hh, c->tables, t, next) {
		HASH_DEL(c->tables, t);
		table_destroy(t);
	}
	unseen_destroy(c->unseen);
	snap_finish(&c->floor);
	free(c->floor_text);
	batch_destroy(c->outbox);
	free(c);
}

/* ---- what the files share ---- */

/* Set back: what was to happen at times that are far away now may happen at once. */
static void clock_was_set_back(struct copier *c, int64_t now_us)
{
	c->now_us = c->pruned_us = now_us;
	c->gate_at_us = c->floor_at_us = c->probe_at_us = c->yield_at_us = 0;
	for (struct table *t = c->tables; t; t = t->hh.next) {
		t->not_before_us = t->doubt.due_us = 0;
		for (struct run *r = t->runs; r; r = r->next)
			r->not_before_us = 0;
	}
}

void copier_clock(struct copier *c, int64_t now_us)
{
	if (now_us < c->now_us - CLOCK_SET_BACK_US)
		clock_was_set_back(c, now_us);
	else if (now_us > c->now_us)
		c->now_us = now_us;
}

struct table *copier_table(const struct copier *c, uint32_t id)
{
	struct table *t;

	HASH_FIND(hh, c->tables, &id, sizeof id, t);
	return t;
}

struct batch *copier_outbox(struct copier *c)
{
	if (!c->outbox) c->outbox = batch_create();
	return c->outbox;
}

void copier_emit(struct copier *c, struct batch *b)
{
	assert(!c->tx.open);
	if (b->n == 0)
		batch_destroy(b);
	else
		c->sink.emit(c->sink.ctx, b);
}

void copier_flush(struct copier *c)
{
	struct batch *b = c->outbox;

	if (!b || c->tx.open) return;
	c->outbox = NULL;
	copier_emit(c, b);
}

/* ---- tables ---- */

struct table *copier_table_of(struct copier *c, uint32_t id)
{
	struct table *t = copier_table(c, id);

	if (t) return t;
	t = table_create(id, &c->config);
	HASH_ADD(hh, c->tables, id, sizeof t->id, t);
	return t;
}

void copier_drop_requests(struct copier *c, uint32_t table_id, uint64_t run_id)
{
	for (struct request *r = c->requests; r; r = r->next)
		if (r->table && r->pub.table_id == table_id && (run_id == 0 || r->pub.run_id == run_id))
			request_drop(r, REQUEST_DROPPED);
}

/*
 * Pages wait for their windows in order, so giving up one means giving up all
 * behind it: every window of the table goes, and the run goes on from the page that
 * closed last.
 */
static void start_over(struct copier *c, struct table *t, bool other_key)
{
	copier_drop_windows(c, t->id, 0);
	copier_drop_requests(c, t->id, 0);
	inquiry_reset(&t->doubt.keys);
	if (other_key) inquiry_advance(&t->doubt.keys, (struct slice){0});
	for (struct run *r = t->runs; r; r = r->next) {
		if (other_key)
			run_restart(r);
		else
			run_rewind(r);
	}
	t->not_before_us = 0;
	backoff_reset(&t->retry);
}

void copier_set_table(struct copier *c, const struct copier_table *d)
{
	struct table *t = copier_table_of(c, d->schema->table_id);
	bool known = t->schema != NULL;
	enum table_change change = table_describe(t, d, c->next_text + 1);

	if (change == TABLE_SAME) return;
	c->next_text++;
	if (known) start_over(c, t, change == TABLE_OTHER_KEY);
}

void copier_remove_table(struct copier *c, uint32_t table_id)
{
	struct table *t = copier_table(c, table_id);

	if (!t) return;
	copier_stop_runs(c, t, "the table is no longer replicated");
	copier_drop_windows(c, table_id, 0);
	copier_drop_requests(c, table_id, 0);
	if (c->turn == t) c->turn = NULL;
	HASH_DEL(c->tables, t);
	table_destroy(t);
	copier_flush(c);
}

/* ---- the stream ---- */

void copier_load_unseen(struct copier *c, const struct unseen_entry *e, size_t n)
{
	for (size_t i = 0; i < n; i++)
		unseen_add(c->unseen, e[i].xid, e[i].commit_lsn);
}

/* Outside of a transaction. A stream that was cut and began again further down has brought nothing new yet.
 */
static void advance(struct copier *c, lsn_t position)
{
	if (position.v > c->received.v) c->received = position;
	copier_flush(c);
	copier_close_windows(c);
}

void copier_stream_begin(struct copier *c, xid_t xid, lsn_t commit_lsn)
{
	c->tx.open = false; /* one that was cut off comes again as a whole */
	advance(c, commit_lsn);
	c->tx.open = true;
	c->tx.counted = false;
	c->tx.xid = xid;
	c->tx.commit_lsn = commit_lsn;
	c->tx.position = LSN(0);
}

/* From its first change on the transaction counts as one that a snapshot may not see. */
static void count_transaction(struct copier *c)
{
	assert(c->tx.open);
	if (c->tx.counted) return;
	unseen_add(c->unseen, c->tx.xid, c->tx.commit_lsn);
	c->tx.counted = true;
}

/* A snapshot that sees the transaction has its row already, and that row may fill one in doubt. */
static bool is_overtaken(const struct copier *c, const struct window *w, uint32_t table_id)
{
	return w && w->table_id == table_id && w->has_snapshot && !snap_sees(&w->snap, c->tx.xid);
}

void copier_stream_change(struct copier *c, uint32_t table_id, struct slice key)
{
	count_transaction(c);
	for (struct window *w = c->windows; w; w = w->next)
		if (is_overtaken(c, w, table_id)) window_supersede(w, key);
	for (struct request *r = c->requests; r; r = r->next) /* rows that are still arriving */
		if (is_overtaken(c, r->window, table_id)) window_supersede(r->window, key);
}

void copier_stream_truncate(struct copier *c, uint32_t table_id)
{
	count_transaction(c);
	for (struct window *w = c->windows; w; w = w->next)
		if (is_overtaken(c, w, table_id)) window_truncate(w);
	for (struct request *r = c->requests; r; r = r->next)
		if (is_overtaken(c, r->window, table_id)) window_truncate(r->window);
}

void copier_stream_commit(struct copier *c, lsn_t end_lsn)
{
	lsn_t kept = c->tx.position;

	c->tx.open = false;
	advance(c, kept.v > end_lsn.v ? kept : end_lsn);
}

void copier_stream_position(struct copier *c, lsn_t wal_end)
{
	if (!c->tx.open)
		advance(c, wal_end);
	else if (wal_end.v > c->tx.position.v)
		c->tx.position = wal_end;
}

/* ---- answers ---- */

/* Nothing to ask the source about here: go on behind it at once. */
static void skip_doubt(struct copier *c, struct table *t)
{
	struct inquiry *q = &t->doubt.keys;

	if (q->step == INQUIRY_LISTED && q->keys->n == 0)
		table_doubt_asked(t, q->keys->resume, q->keys->end, c->now_us);
}

static void skip_suspects(struct copier *c, struct table *t, struct run *r)
{
	struct inquiry *q = &r->suspects;

	if (q->step != INQUIRY_LISTED || q->keys->n > 0) return;
	if (run_suspects_closed(r, q->keys->resume, q->keys->end)) copier_run_moved(c, t, r, copier_outbox(c));
}

/* A list that is empty, or whose end was reached by a restart. */
static void skip_listed(struct copier *c, struct table *t, struct run *r)
{
	struct inquiry *q = &r->listing;

	if (q->step != INQUIRY_LISTED || q->keys->n > 0) return;
	if (run_listing_closed(r, q->keys->resume, q->keys->end, 0)) copier_run_moved(c, t, r, copier_outbox(c));
}

static void answer_keys(struct copier *c, struct table *t, const struct answer *a)
{
	struct run *r = t->run;

	if (inquiry_answer(&t->doubt.keys, a, t->schema))
		skip_doubt(c, t);
	else if (r && inquiry_answer(&r->suspects, a, t->schema))
		skip_suspects(c, t, r);
	else if (r && inquiry_answer(&r->listing, a, t->schema))
		skip_listed(c, t, r);
}

void copier_answer(struct copier *c, const struct answer *a, int64_t now_us)
{
	struct table *t = copier_table(c, a->table_id);

	copier_clock(c, now_us);
	if (a->kind == ANSWER_DOUBT)
		table_doubt_is(copier_table_of(c, a->table_id), a->count, c->now_us);
	else if (a->kind == ANSWER_KEYS && t && t->schema) /* else it left meanwhile */
		answer_keys(c, t, a);
	copier_flush(c);
}

/* ---- yielding ---- */

void copier_set_load(struct copier *c, struct copier_load load)
{
	c->load = load;
}

/* ---- state ---- */

bool copier_waits_for(const struct copier *c, lsn_t *high)
{
	bool waits = false;

	*high = c->received;
	for (const struct window *w = c->windows; w; w = w->next) {
		if (w->high.v <= high->v) continue;
		*high = w->high;
		waits = true;
	}
	return waits;
}

bool copier_table_is_live(const struct copier *c, uint32_t table_id)
{
	const struct table *t = copier_table(c, table_id);

	return t && table_is_live(t);
}

bool copier_all_live(const struct copier *c)
{
	for (const struct table *t = c->tables; t; t = t->hh.next)
		if (t->schema && !table_is_live(t)) return false;
	return true;
}

bool copier_is_gated(const struct copier *c, const char **gate)
{
	if (c->floor_refused) {
		*gate = c->floor_text;
		return true;
	}
	for (const struct table *t = c->tables; t; t = t->hh.next) {
		const struct run *r = table_gated_run(t);

		if (!r || r->gate_state == GATE_CLOSED) continue;
		*gate = run_gate_text(r);
		return true;
	}
	return false;
}

bool copier_get_progress(const struct copier *c, uint32_t table_id, struct copier_progress *out)
{
	const struct table *t = copier_table(c, table_id);

	const struct run *r = t ? t->run : NULL;

	if (!t || (!r && t->last.id == 0)) return false;
	if (r)
		*out = (struct copier_progress){.run_id = r->id, .rows_read = r->rows_read, .state = r->state};
	else
		*out = (struct copier_progress){
			.run_id = t->last.id, .rows_read = t->last.rows_read, .state = t->last.state};
	return true;
}
