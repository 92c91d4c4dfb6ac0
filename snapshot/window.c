#include "snapshot/window.h"

#include <assert.h>
#include <stdlib.h>

#include "state/mutant.h"

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
	HASH_CLEAR(hh, w->rows);
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

static struct window_row *find(const struct window *w, struct slice key)
{
	struct window_row *row;

	HASH_FIND(hh, w->rows, key.p, key.n, row);
	return row;
}

static struct slice keep(struct window *w, struct slice s)
{
	return (struct slice){arena_copy(&w->batch->arena, s.p, s.n), s.n};
}

bool window_add_row(struct window *w, struct slice key, struct slice full_key, const struct buf *row)
{
	struct window_row *r;
	struct op *op;

	if (find(w, key)) return false;
	op = batch_add(w->batch, OP_CHUNK_ROW);
	op->table_id = w->table_id;
	op->flags = full_key.n > 0 ? OP_F_LONG_KEY : 0;
	op->key = keep(w, key);
	op->body = arena_copy(&w->batch->arena, row->p, row->n);
	op->body_len = row->n;

	r = arena_alloc(&w->row_arena, sizeof *r);
	*r = (struct window_row){.key = op->key, .op = w->batch->n - 1};
	HASH_ADD_KEYPTR(hh, w->rows, r->key.p, r->key.n, r);
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

static void give_up(struct window *w, struct window_row *r)
{
	w->batch->ops[r->op].flags |= OP_F_SUPERSEDED;
	HASH_DEL(w->rows, r); /* its memory is the arena's */
}

void window_supersede(struct window *w, struct slice key)
{
	struct window_row *r = find(w, key);

	if (r) give_up(w, r);
}

void window_truncate(struct window *w)
{
	struct window_row *r, *next;

	HASH_ITER (hh, w->rows, r, next)
		give_up(w, r);
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
