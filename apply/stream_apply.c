#include "apply/applier_impl.h"

/* How many entries a truncate collects before it removes them. */
#define TRUNCATE_STEP 1024

bool apply_upsert(struct applier *a, const struct op *op, struct err *err)
{
	struct table *t = table_of(a, op->table_id, err);
	struct row_head row;
	struct entry old;

	if (!t || !op_row(a, t, op, &row, err) || !entry_get(a, t, op->key, row.full_key, &old, err))
		return false;
	if (!guard_admits(old.present, old.pos, t->rec.floor, row.pos)) return true;
	if (row.flags & ROW_DOUBT) return merge_row(a, t, op, &old, err);
	return entry_replace(a, t, op->key, &old, op_body(op), err);
}

bool apply_delete(struct applier *a, const struct op *op, struct err *err)
{
	struct table *t = table_of(a, op->table_id, err);
	struct entry old;

	if (!t || !entry_get(a, t, op->key, op_full_key(op), &old, err)) return false;
	if (!guard_admits(old.present, old.pos, t->rec.floor, op->pos)) return true;
	return entry_mark_deleted(a, t, op->key, op_full_key(op), &old, op->pos, err);
}

/* ---- truncate ---- */

/* Nothing in the table is as new as the truncate: everything goes at once. */
static bool truncate_all(struct applier *a, struct table *t, struct err *err)
{
	t->rec.live = t->rec.hidden = t->rec.doubt = t->rec.markers = 0;
	a->dirty_bytes += PAGE_BYTES;
	return store_rows_drop(a->txn, t->rec.id, err);
}

/* Keys of up to TRUNCATE_STEP entries below pos, from `from` on; as blobs. *more: there may be others. */
static bool collect_below(struct applier *a, struct table *t, struct pos pos, struct slice from,
						  struct buf *keys, bool *more, struct err *err)
{
	struct store_scan *scan;
	struct slice key, bytes;
	struct entry e;
	size_t n = 0;
	bool ok = false;

	if (!store_scan_open(a->txn, t->rec.id, SPACE_ROWS, from, &scan, err)) return false;
	while (n < TRUNCATE_STEP) {
		if (!store_scan_next(scan, &key, &bytes, more, err)) goto out;
		if (!*more) break;
		if (!row_peek(bytes, &e.flags, &e.pos)) {
			err_set(err, ERR_CORRUPT, "a stored entry of %zu bytes is cut short", bytes.n);
			goto out;
		}
		if (pos_cmp(e.pos, pos) < 0) {
			buf_put_blob(keys, key.p, key.n);
			n++;
		}
	}
	ok = true;
out:
	store_scan_close(scan);
	return ok;
}

/* The stage has no way to say that an entry is gone but a marker, which at pos says the same. */
static bool remove_entry(struct applier *a, struct table *t, struct slice key, struct pos pos,
						 struct err *err)
{
	struct slice full;
	struct entry e;

	if (!entry_get_unchecked(a, t, key, &e, err)) return false;
	if (!a->staging) return entry_replace(a, t, key, &e, (struct slice){0}, err);
	return entry_full_key(a, t, &e, &full, err) && entry_mark_deleted(a, t, key, full, &e, pos, err);
}

/* Removes the collected keys; *last receives the last one (it points into keys). */
static bool remove_keys(struct applier *a, struct table *t, const struct buf *keys, struct pos pos,
						struct slice *last, struct err *err)
{
	struct cur c = cur_of((struct slice){keys->p, keys->n});

	while (!cur_done(&c)) {
		*last = cur_blob(&c);
		if (!remove_entry(a, t, *last, pos, err)) return false;
	}
	return true;
}

/* Some entries are newer (a replay, or a chunk): the others go one by one. */
static bool truncate_below(struct applier *a, struct table *t, struct pos pos, struct err *err)
{
	struct buf keys[2] = {{0}};
	struct slice from = {0};
	bool more = true, ok = true;

	/* Two buffers in turn: `from` points into the one that was removed last. */
	for (int turn = 0; ok && more; turn ^= 1) {
		buf_reset(&keys[turn]);
		ok = collect_below(a, t, pos, from, &keys[turn], &more, err) &&
			 remove_keys(a, t, &keys[turn], pos, &from, err);
	}
	buf_finish(&keys[0]);
	buf_finish(&keys[1]);
	return ok;
}

bool apply_truncate(struct applier *a, const struct op *op, struct err *err)
{
	struct table *t = table_of(a, op->table_id, err);
	bool all;

	if (!t) return false;
	if (pos_cmp(op->pos, t->rec.floor) <= 0) return true;
	all = pos_cmp(t->rec.high, op->pos) < 0;
	t->rec.floor = op->pos;
	if (all) t->rec.high = op->pos;
	t->dirty = a->wrote = true;
	return all ? truncate_all(a, t, err) : truncate_below(a, t, op->pos, err);
}
