#include "snapshot/window.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "state/mutant.h"

/* Of rows that did not come in the order of their keys. */
struct window_row {
	struct slice key; /* in the batch's arena */
	size_t op;        /* index: the operations move as they grow */
	UT_hash_handle hh;
};

struct window *window_create(enum chunk_kind kind, uint32_t table_id, uint64_t run_id)
{
	struct window *w = mem_alloc(sizeof *w);

	*w = (struct window){.kind = kind, .table_id = table_id, .run_id = run_id};
	arena_init(&w->row_arena);
	return w;
}

static void forget_rows(struct window *w)
{
	HASH_CLEAR(hh, w->hash);
	arena_finish(&w->row_arena);
}

void window_destroy(struct window *w)
{
	if (!w) return;
	forget_rows(w);
	batch_destroy(w->batch);
	snap_finish(&w->snap);
	free(w);
}

/* The operation that all others of the chunk belong to. */
static void add_chunk(struct window *w)
{
	struct op *op = batch_add(w->batch, OP_CHUNK);

	w->chunk = arena_alloc(&w->batch->arena, sizeof *w->chunk);
	*w->chunk = (struct op_chunk){.snapshot = w->snapshot_text, .high = w->high, .standby = w->snap.standby};
	op->table_id = w->table_id;
	op->u.run.run_id = w->counted_by ? w->counted_by : w->run_id;
	w->chunk->refetch = w->kind == CHUNK_KEYED && w->run_id == 0;
	op->u.run.chunk = w->chunk;
}

bool window_open(struct window *w, const char *snapshot, bool standby, lsn_t high, uint64_t seq,
				 struct err *err)
{
	assert(!w->has_snapshot);
	if (!snap_parse(snapshot, standby, &w->snap, err)) return false;
	w->has_snapshot = true;
	w->snapshot_seq = seq;
	w->high = high;
	w->batch = batch_create();
	w->snapshot_text = arena_strdup(&w->batch->arena, snapshot);
	if (w->kind != CHUNK_PROBE) add_chunk(w);
	return true;
}

/* ---- rows: operations 1 to nrows of the batch ---- */

static struct op *row_at(const struct window *w, size_t i)
{
	return &w->batch->ops[1 + i];
}

static int compare(struct slice a, struct slice b)
{
	int order = memcmp(a.p, b.p, a.n < b.n ? a.n : b.n);

	return order != 0 ? order : (a.n > b.n) - (a.n < b.n);
}

static struct op *find_in_order(const struct window *w, struct slice key)
{
	size_t low = 0, high = w->nrows;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = compare(row_at(w, middle)->key, key);

		if (order == 0) return row_at(w, middle);
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

static struct op *find_in_hash(const struct window *w, struct slice key)
{
	struct window_row *row;

	HASH_FIND(hh, w->hash, key.p, key.n, row);
	return row ? &w->batch->ops[row->op] : NULL;
}

static struct op *find(const struct window *w, struct slice key)
{
	return w->hash ? find_in_hash(w, key) : find_in_order(w, key);
}

static void hash_row(struct window *w, size_t i)
{
	struct window_row *r = arena_alloc(&w->row_arena, sizeof *r);

	*r = (struct window_row){.key = row_at(w, i)->key, .op = 1 + i};
	HASH_ADD_KEYPTR(hh, w->hash, r->key.p, r->key.n, r);
}

/* Pages mostly come in our order too: then there is nothing to look up before a row is added, and no hash to
 * build. */
static bool comes_last(const struct window *w, struct slice key)
{
	return !w->hash && (w->nrows == 0 || compare(row_at(w, w->nrows - 1)->key, key) < 0);
}

/* The rows so far do not go on in order: from here on they are found by hash. */
static void leave_order(struct window *w)
{
	if (w->hash) return;
	for (size_t i = 0; i < w->nrows; i++)
		hash_row(w, i);
}

static struct slice keep(struct window *w, struct slice s)
{
	return (struct slice){arena_copy(&w->batch->arena, s.p, s.n), s.n};
}

bool window_add_row(struct window *w, struct slice key, struct slice full_key, const struct buf *row)
{
	bool in_order = comes_last(w, key);
	struct op *op;

	if (!in_order) {
		if (find(w, key)) return false;
		leave_order(w);
	}
	op = batch_add(w->batch, OP_CHUNK_ROW);
	op->table_id = w->table_id;
	op->flags = full_key.n > 0 ? OP_F_LONG_KEY : 0;
	op->key = keep(w, key);
	op->body = arena_copy(&w->batch->arena, row->p, row->n);
	op->body_len = row->n;
	if (!in_order) hash_row(w, w->nrows);
	w->nrows++;
	w->chunk->rows_read++;
	w->bytes += key.n + row->n;
	return true;
}

static void add_gone(struct window *w, const struct keylist_key *k)
{
	struct op *op = batch_add(w->batch, OP_CHUNK_GONE);

	op->table_id = w->table_id;
	op->flags = w->counts_only ? OP_F_COUNT : 0;
	op->key = keep(w, k->key);
	if (k->full.n == 0) return;
	op->flags |= OP_F_LONG_KEY;
	op->body = arena_copy(&w->batch->arena, k->full.p, k->full.n);
	op->body_len = k->full.n;
}

static bool is_gone(const struct window *w, const struct keylist_key *k)
{
	if (MUTANT(SWEEP_BLIND) && w->kind == CHUNK_EXISTS) return true;
	if (MUTANT(SCOPE_ALL) && w->kind == CHUNK_SCOPED) return !k->returned;
	return !k->returned && (k->in_scope || w->kind != CHUNK_SCOPED);
}

void window_add_gone(struct window *w, const struct keylist *keys)
{
	for (size_t i = 0; i < keys->n; i++)
		if (is_gone(w, &keys->keys[i])) add_gone(w, &keys->keys[i]);
}

void window_set_cursor(struct window *w, struct slice cursor)
{
	w->chunk->moves_cursor = true;
	w->chunk->cursor = keep(w, cursor);
}

void window_set_resume(struct window *w, const struct keylist *keys)
{
	w->resume = keep(w, keys->resume);
	w->resume_end = keys->end;
	if (w->cut) return; /* the same keys are listed again, as far as they are still to be asked about */
	if (w->kind == CHUNK_EXISTS || w->kind == CHUNK_SCOPED) {
		w->chunk->moves_sweep = true;
		w->chunk->sweep_cursor = w->resume;
		w->chunk->suspects = (uint32_t)keys->n;
	} else if (w->run_id != 0) {
		w->chunk->moves_cursor = true;
		w->chunk->cursor = w->resume;
	}
}

bool window_has_row(const struct window *w, struct slice key)
{
	return find(w, key) != NULL;
}

void window_supersede(struct window *w, struct slice key)
{
	struct op *op = find(w, key);

	if (op) op->flags |= OP_F_SUPERSEDED;
}

void window_truncate(struct window *w)
{
	for (size_t i = 0; i < w->nrows; i++)
		row_at(w, i)->flags |= OP_F_SUPERSEDED;
}

struct batch *window_close(struct window *w, struct pos bound)
{
	struct batch *b = w->batch;

	forget_rows(w);
	if (w->chunk) b->ops[0].pos = bound;
	w->batch = NULL;
	w->chunk = NULL;
	return b;
}

size_t window_memory(const struct window *w)
{
	return sizeof *w + w->row_arena.reserved + (w->batch ? batch_bytes(w->batch) : 0);
}
