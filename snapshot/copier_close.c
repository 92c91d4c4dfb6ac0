#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "snapshot/copier_impl.h"
#include "state/mutant.h"

/* ---- which ---- */

static bool same_run_page(const struct window *a, const struct window *b)
{
	return a->kind == CHUNK_PAGE && b->kind == CHUNK_PAGE && a->run_id == b->run_id;
}

static bool is_behind(const struct window *w, const struct window *x)
{
	return x && same_run_page(x, w) && x->asked_seq < w->asked_seq;
}

/*
 * Pages of a run close in the order of their keys: the cursor they carry says that all before it is there.
 * The rows of the one before may still be arriving.
 */
static bool is_next_of_run(const struct copier *c, const struct window *w)
{
	for (const struct window *x = c->windows; x && !MUTANT(ORDER_ANY); x = x->next)
		if (is_behind(w, x)) return false;
	for (const struct request *r = c->requests; r && !MUTANT(ORDER_ANY); r = r->next)
		if (is_behind(w, r->window)) return false;
	return true;
}

static struct window *next_to_close(const struct copier *c)
{
	for (struct window *w = c->windows; w; w = w->next)
		if ((w->high.v <= c->received.v || MUTANT(CLOSE_EARLY)) && is_next_of_run(c, w)) return w;
	return NULL;
}

static void unlink_window(struct copier *c, struct window *w)
{
	struct window **at = &c->windows;

	while (*at != w)
		at = &(*at)->next;
	*at = w->next;
	w->next = NULL;
}

/* ---- what follows from it ---- */

static void close_doubt(struct copier *c, struct table *t, const struct window *w)
{
	if (w->cut)
		inquiry_reset(&t->doubt.keys); /* the rows left out are still in doubt: list from the same place */
	else
		table_doubt_asked(t, w->resume, w->resume_end, c->now_us);
}

/* What was left out has to be asked for again: as a suspect it still is one, the list goes on from the same
 * place with fewer keys. */
static bool close_suspects(struct run *r, const struct window *w)
{
	if (!w->cut) return run_suspects_closed(r, w->resume, w->resume_end);
	inquiry_reset(&r->suspects);
	return false;
}

static bool close_listed(struct run *r, const struct window *w)
{
	if (!w->cut) return run_listing_closed(r, w->resume, w->resume_end, w->chunk->rows_read);
	inquiry_reset(&r->listing);
	return false;
}

/* Moves the walk that asked for the chunk; a state that the run reaches by it travels in the same batch. */
static void note_closed(struct copier *c, const struct window *w, struct pos bound)
{
	struct table *t = copier_table(c, w->table_id);
	struct run *r = t ? table_find_run(t, w->run_id) : NULL;
	bool moved = false;

	if (w->kind == CHUNK_PAGE)
		moved = run_page_closed(r, w->chunk, bound, w->last);
	else if (w->kind == CHUNK_EXISTS || w->kind == CHUNK_SCOPED)
		moved = close_suspects(r, w);
	else if (r)
		moved = close_listed(r, w);
	else if (w->kind == CHUNK_KEYED)
		close_doubt(c, t, w);
	if (moved) copier_run_moved(c, t, r, w->batch);
}

/* ---- the unseen set ---- */

struct pruning {
	struct batch *batch;
	size_t dropped;
};

static void add_drop(void *ctx, lsn_t commit_lsn)
{
	struct pruning *p = ctx;

	batch_add(p->batch, OP_UNSEEN_DROP)->u.commit.lsn = commit_lsn;
	p->dropped++;
}

/* A chunk asked for before w's snapshot came may have an older one, on another connection; it is not known
 * yet. */
static bool older_may_come(const struct copier *c, const struct window *w)
{
	for (const struct request *r = c->requests; r; r = r->next)
		if (r->window && !r->window->has_snapshot && r->window->asked_seq < w->snapshot_seq) return true;
	return false;
}

static size_t snapshots_in_use(const struct copier *c, const struct window *w, const struct snap **snaps)
{
	size_t n = 0;

	snaps[n++] = &w->snap;
	if (MUTANT(PRUNE_ONE)) return n;
	for (const struct window *x = c->windows; x; x = x->next)
		snaps[n++] = &x->snap;
	for (const struct request *r = c->requests; r; r = r->next) /* rows that are still arriving */
		if (r->window && r->window->has_snapshot) snaps[n++] = &r->window->snap;
	return n;
}

static size_t count_windows(const struct copier *c)
{
	size_t n = 0;

	for (const struct window *w = c->windows; w; w = w->next)
		n++;
	for (const struct request *r = c->requests; r; r = r->next)
		n++;
	return n;
}

/* The floor rises only: of two windows the one with the older snapshot may close last. */
static void raise_floor(struct copier *c, struct window *w)
{
	if (c->floor_text && !snap_covers(&w->snap, &c->floor)) return;
	snap_finish(&c->floor);
	free(c->floor_text);
	c->floor = w->snap;
	w->snap = (struct snap){0};
	c->floor_text = mem_text(w->snapshot_text);
}

/*
 * An entry may go when it cannot lower the bound of any window: w's snapshot
 * sees it, so does that of every other one we know, and so will every later
 * one, or it is refused (the floor).
 */
static void prune(struct copier *c, struct window *w)
{
	const struct snap **snaps = mem_alloc((count_windows(c) + 2) * sizeof *snaps);
	struct pruning p = {.batch = w->batch};

	c->pruned_us = c->now_us;
	if (!older_may_come(c, w)) {
		unseen_prune(c->unseen, snaps, snapshots_in_use(c, w, snaps), add_drop, &p);
		if (p.dropped > 0) raise_floor(c, w);
	}
	c->pruned_left = unseen_count(c->unseen);
	free(snaps);
}

/* ---- closing ---- */

/*
 * Its S was good enough when it came, but a run may begin before the stream has
 * reached what it replaces: then a transaction that S does not see could still come.
 */
static bool is_below_its_run(const struct run *r, struct pos bound)
{
	return r && bound.lsn.v < r->replaces.v && !MUTANT(REPLACE_BLIND);
}

static struct run *run_of(const struct copier *c, const struct window *w)
{
	struct table *t = copier_table(c, w->table_id);

	return t && w->run_id != 0 ? table_find_run(t, w->run_id) : NULL;
}

static void close_window(struct copier *c, struct window *w)
{
	struct pos bound = {.epoch = c->config.epoch, .lsn = unseen_bound(c->unseen, &w->snap, w->high)};

	if (MUTANT(BOUND_HIGH)) bound.lsn = w->high;
	if (MUTANT(BOUND_LOW)) bound.lsn = w->asked_at;
	if (is_below_its_run(run_of(c, w), bound)) {
		copier_hold_run(c, copier_table(c, w->table_id), run_of(c, w)); /* w goes with it */
		return;
	}
	unlink_window(c, w);
	note_closed(c, w, bound);
	prune(c, w);
	copier_emit(c, window_close(w, bound));
	window_destroy(w);
}

void copier_close_windows(struct copier *c)
{
	struct window *w;

	while (!c->tx.open && (w = next_to_close(c)) != NULL)
		close_window(c, w);
}

void copier_drop_windows(struct copier *c, uint32_t table_id, uint64_t run_id)
{
	struct window **at = &c->windows, *w;

	while ((w = *at) != NULL) {
		if (w->table_id != table_id || (run_id != 0 && w->run_id != run_id)) {
			at = &w->next;
			continue;
		}
		*at = w->next;
		window_destroy(w);
	}
}
