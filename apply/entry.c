#include <stdlib.h>

#include "apply/applier_impl.h"

/* ---- reading ---- */

bool entry_get_unchecked(struct applier *a, struct table *t, struct slice key, struct entry *out,
						 struct err *err)
{
	*out = (struct entry){0};
	if (!store_row_get(a->txn, t->rec.id, key, &out->bytes, &out->present, err)) return false;
	if (out->present && !row_peek(out->bytes, &out->flags, &out->pos))
		return err_set(err, ERR_CORRUPT, "a stored entry of %zu bytes is cut short", out->bytes.n);
	return true;
}

static size_t columns_of(struct applier *a, struct table *t, struct slice bytes, struct err *err)
{
	const struct schema *s = table_schema(a, t, row_version(bytes), err);

	return s ? s->ncolumns : 0;
}

bool entry_full_key(struct applier *a, struct table *t, const struct entry *e, struct slice *out,
					struct err *err)
{
	struct row_head head;
	size_t ncolumns = 0;

	if (entry_is_live(e) && (ncolumns = columns_of(a, t, e->bytes, err)) == 0) return false;
	if (!row_head(e->bytes, ncolumns, &head, err)) return false;
	*out = head.full_key;
	return true;
}

/* A long key is a prefix and a hash: only the full keys tell whether two are the same. */
static bool check_full_key(struct applier *a, struct table *t, const struct entry *e, struct slice full,
						   struct err *err)
{
	struct slice stored;

	if (!entry_full_key(a, t, e, &stored, err)) return false;
	if (!slice_eq(stored, full))
		return err_set(err, ERR_CORRUPT,
					   "two different keys of %zu and %zu bytes share one place in the store (a hash "
					   "collision, or damage)",
					   stored.n, full.n);
	return true;
}

bool entry_get(struct applier *a, struct table *t, struct slice key, struct slice full, struct entry *out,
			   struct err *err)
{
	if (!entry_get_unchecked(a, t, key, out, err)) return false;
	return !out->present || key.n < KEY_MAX || check_full_key(a, t, out, full, err);
}

static void cells_reserve(struct cells *cells, size_t n)
{
	if (n <= cells->cap) return;
	free(cells->v);
	cells->v = mem_alloc(n * sizeof *cells->v);
	cells->cap = n;
}

const struct schema *row_cells(struct applier *a, struct table *t, struct slice bytes, struct row_head *head,
							   struct cells *cells, struct err *err)
{
	const struct schema *s = table_schema(a, t, row_version(bytes), err);

	if (!s) return NULL;
	cells_reserve(cells, s->ncolumns);
	return row_decode(bytes, s->ncolumns, head, cells->v, err) ? s : NULL;
}

bool op_row(struct applier *a, struct table *t, const struct op *op, struct row_head *out, struct err *err)
{
	const struct schema *s = table_schema(a, t, row_version(op_body(op)), err);

	if (!s) return err_wrap(err, "an operation's row");
	if (row_head(op_body(op), s->ncolumns, out, err)) return true;
	return err_set(err, ERR_BUG,
				   "an operation carries a row of %zu bytes that is not encoded as the store's rows",
				   op->body_len);
}

/* ---- replacing ---- */

static uint64_t *counter_of(struct table_record *r, uint8_t flags)
{
	if (flags & ROW_DELETED) return &r->markers;
	return flags & ROW_HIDDEN ? &r->hidden : &r->live;
}

static void count(struct table_record *r, uint8_t flags)
{
	++*counter_of(r, flags);
	if (flags & ROW_DOUBT) r->doubt++;
}

static bool uncount(struct table_record *r, uint8_t flags, struct err *err)
{
	uint64_t *n = counter_of(r, flags);

	if (*n == 0 || ((flags & ROW_DOUBT) && r->doubt == 0))
		return err_set(err, ERR_CORRUPT, "the table's counters do not fit its rows");
	--*n;
	if (flags & ROW_DOUBT) r->doubt--;
	return true;
}

/*
 * What a change adds to the pages that LMDB holds. A page of its own, unless
 * the entry before it was just written; values beyond half a page have pages of
 * their own anyway. In key order a page ends up half full at worst. Rather too much than too
 * little: it bounds memory.
 */
static void count_dirty(struct applier *a, struct table *t, struct slice key, struct slice bytes)
{
	size_t n = key.n + bytes.n + 16;
	struct slice last = {t->put.p, t->put.n};

	if (n > PAGE_BYTES / 2)
		a->dirty_bytes += PAGE_BYTES + (n / PAGE_BYTES + 1) * PAGE_BYTES;
	else if (bytes.n > 0 && (slice_eq(key, last) || store_row_follows(a->txn, t->rec.id, last)))
		a->dirty_bytes += 2 * n;
	else
		a->dirty_bytes += PAGE_BYTES;
	buf_reset(&t->put);
	if (bytes.n > 0) buf_put(&t->put, key.p, key.n);
}

/*
 * Whether the index has to be written. A stage may come to nothing: until it is shown
 * nothing is removed. And where there is an overlay, the index may have more than it should.
 */
static bool index_differs(const struct applier *a, uint8_t old, uint8_t new)
{
	if (a->staging) return new &ROW_DOUBT && !(old & ROW_DOUBT);
	return a->overlay == OVERLAY_SHOWN || (old ^ new) & ROW_DOUBT;
}

static bool index_doubt(struct applier *a, struct table *t, struct slice key, uint8_t old, uint8_t new,
						struct err *err)
{
	if (!index_differs(a, old, new)) return true;
	a->dirty_bytes += PAGE_BYTES;
	return new &ROW_DOUBT ? store_doubt_put(a->txn, t->rec.id, key, err)
						  : store_doubt_del(a->txn, t->rec.id, key, err);
}

/* Flags 0 stand for no entry: it has no doubt either. */
static bool write_entry(struct applier *a, struct table *t, struct slice key, uint8_t old_flags,
						struct slice bytes, struct err *err)
{
	if (bytes.n == 0) {
		count_dirty(a, t, key, bytes);
		return store_row_del(a->txn, t->rec.id, key, err) && index_doubt(a, t, key, old_flags, 0, err);
	}
	count(&t->rec, bytes.p[0]);
	if (!store_row_put(a->txn, t->rec.id, key, bytes, err)) return false;
	count_dirty(a, t, key, bytes);
	return index_doubt(a, t, key, old_flags, bytes.p[0], err);
}

bool entry_replace(struct applier *a, struct table *t, struct slice key, const struct entry *old,
				   struct slice bytes, struct err *err)
{
	uint8_t old_flags = old->present ? old->flags : 0, flags;
	struct pos pos;

	if (old->present && !uncount(&t->rec, old_flags, err)) return false;
	if (bytes.n > 0 && row_peek(bytes, &flags, &pos) && pos_cmp(pos, t->rec.high) > 0) t->rec.high = pos;
	t->dirty = a->wrote = true;
	return write_entry(a, t, key, old_flags, bytes, err);
}

bool entry_mark_deleted(struct applier *a, struct table *t, struct slice key, struct slice full,
						const struct entry *old, struct pos pos, struct err *err)
{
	buf_reset(&a->row);
	row_encode_marker(&a->row, pos, full);
	return entry_replace(a, t, key, old, (struct slice){a->row.p, a->row.n}, err);
}
