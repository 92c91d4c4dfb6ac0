#include "apply/applier_impl.h"

/*
 * Delete markers that nothing can need any more are removed by walks over the
 * tables. There is no index of markers: it would cost every delete a page. So a walk begins
 * only when it is worth it, and goes on a bounded step at a time.
 */

#define WALK_EVERY_US INT64_C(3600000000)

struct step {
	struct applier *a;
	struct table *t;
	struct pos limit;         /* markers strictly below it go */
	uint32_t looks, removals; /* left of what the operation allows */
	struct buf keys;          /* to be removed, as blobs */
};

/* ---- which table ---- */

static uint64_t entries_of(const struct table_record *r)
{
	return r->live + r->hidden + r->markers;
}

static int64_t pause_of(const struct op_purge *what)
{
	return what->retention_us / 8 < WALK_EVERY_US / 2 ? what->retention_us / 8 : WALK_EVERY_US / 2;
}

/*
 * There is something to find, going by the last walk, and it is much, or it
 * has waited for an hour. What is much is not looked for all the time either: with a
 * retention, markers become old one by one.
 */
static bool is_worth_it(const struct table *t, struct pos limit, const struct op_purge *what)
{
	int64_t ago = what->now_us - t->walked_us;

	if (t->rec.markers == 0 || pos_cmp(limit, t->no_marker_below) <= 0) return false;
	if (ago >= WALK_EVERY_US || ago < 0) return true;
	return t->rec.markers >= entries_of(&t->rec) / 8 && ago >= pause_of(what);
}

/* The one under way, else the one that has waited longest; NULL: none is worth it. */
static struct table *choose(struct applier *a, struct pos limit, const struct op_purge *what)
{
	struct table *best = NULL;

	if (a->walk.table) return a->walk.table;
	for (struct table *t = a->tables; t; t = t->hh.next) {
		if (t->walked_us == 0) t->walked_us = what->now_us - pause_of(what);
		if (is_worth_it(t, limit, what) && (!best || t->walked_us < best->walked_us)) best = t;
	}
	if (!best) return NULL;
	a->walk.table = best;
	a->walk.lowest = limit;
	buf_reset(&a->walk.at);
	return best;
}

static void walk_over(struct applier *a, int64_t now_us)
{
	a->walk.table->walked_us = now_us;
	a->walk.table->no_marker_below = a->walk.lowest;
	a->walk.table = NULL;
}

/* ---- a step ---- */

static bool look(struct step *s, struct slice key, struct slice bytes, struct err *err)
{
	struct entry e;

	s->looks--;
	if (!row_peek(bytes, &e.flags, &e.pos))
		return err_set(err, ERR_CORRUPT, "a stored entry of %zu bytes is cut short", bytes.n);
	if (!(e.flags & ROW_DELETED)) return true;
	if (pos_cmp(e.pos, s->limit) < 0) {
		buf_put_blob(&s->keys, key.p, key.n);
		s->removals--;
	} else if (pos_cmp(e.pos, s->a->walk.lowest) < 0) {
		s->a->walk.lowest = e.pos;
	}
	return true;
}

/* From where the walk stands, as far as the operation allows; *end: to the end of the table. */
static bool look_on(struct step *s, struct store_scan *scan, bool *end, struct err *err)
{
	struct buf *at = &s->a->walk.at;
	struct slice key, bytes;
	bool found;

	for (*end = false; s->looks > 0 && s->removals > 0;) {
		if (!store_scan_next(scan, &key, &bytes, &found, err)) return false;
		if (!found) {
			*end = true;
			return true;
		}
		if (slice_eq(key, (struct slice){at->p, at->n})) continue;
		if (!look(s, key, bytes, err)) return false;
		buf_reset(at);
		buf_put(at, key.p, key.n);
	}
	return true;
}

static bool remove_found(struct step *s, struct err *err)
{
	struct cur c = cur_of((struct slice){s->keys.p, s->keys.n});
	struct entry e;

	while (!cur_done(&c)) {
		struct slice key = cur_blob(&c);

		if (!entry_get_unchecked(s->a, s->t, key, &e, err) ||
			!entry_replace(s->a, s->t, key, &e, (struct slice){0}, err))
			return false;
		s->a->history.purged++;
		s->a->history_dirty = true;
	}
	return true;
}

static bool take_step(struct step *s, bool *end, struct err *err)
{
	struct buf *at = &s->a->walk.at;
	struct store_scan *scan;
	bool ok;

	if (!store_scan_open(s->a->txn, s->t->rec.id, SPACE_ROWS, (struct slice){at->p, at->n}, &scan, err))
		return false;
	ok = look_on(s, scan, end, err);
	store_scan_close(scan);
	ok = ok && remove_found(s, err);
	buf_reset(&s->keys);
	return ok;
}

static bool take_steps(struct step *s, const struct op_purge *what, struct err *err)
{
	bool end, ok = true;

	while (ok && s->looks > 0 && s->removals > 0 && (s->t = choose(s->a, s->limit, what))) {
		ok = take_step(s, &end, err);
		if (ok && end) walk_over(s->a, what->now_us);
	}
	buf_finish(&s->keys);
	return ok;
}

/* ---- the operation ---- */

static bool has_markers(const struct applier *a)
{
	for (const struct table *t = a->tables; t; t = t->hh.next)
		if (t->rec.markers > 0) return true;
	return false;
}

bool apply_purge(struct applier *a, const struct op *op, struct err *err)
{
	const struct op_purge *what = &op->u.purge;
	struct step s = {.a = a, .looks = what->scan_limit, .removals = what->limit};
	enum purge_bound bound;
	lsn_t unseen;

	if (!has_markers(a)) return true;
	if (!store_oldest_unseen(a->txn, &unseen, err)) return false;
	if (history_note(&a->history, what->now_us, what->retention_us, &a->checkpoint))
		a->history_dirty = a->wrote = true;
	s.limit = purge_limit(&a->history, &a->checkpoint, unseen, what->now_us, what->retention_us, &bound);
	return take_steps(&s, what, err);
}
