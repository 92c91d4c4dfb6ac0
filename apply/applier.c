#include "apply/applier.h"

#include <assert.h>
#include <stdlib.h>

#include "apply/applier_impl.h"
#include "state/mutant.h"

bool applier_create(struct store *store, struct applier **out, struct err *err)
{
	struct applier *a = mem_alloc(sizeof *a);

	*a = (struct applier){.store = store};
	if (!cache_load(a, err)) {
		applier_destroy(a);
		return false;
	}
	answers_post_doubt(a, true);
	answers_move(&a->pending, &a->ready);
	*out = a;
	return true;
}

void applier_destroy(struct applier *a)
{
	if (!a) return;
	applier_abort(a);
	answers_free(&a->ready);
	buf_finish(&a->row);
	buf_finish(&a->walk.at);
	free(a->new_cells.v);
	free(a->stored_cells.v);
	free(a);
}

bool applier_is_open(const struct applier *a)
{
	return a->txn;
}

bool applier_at_boundary(const struct applier *a)
{
	return !a->in_transaction;
}

bool applier_has_writes(const struct applier *a)
{
	return a->wrote;
}

size_t applier_dirty_bytes(const struct applier *a)
{
	return a->dirty_bytes;
}

struct checkpoint applier_committed(const struct applier *a)
{
	return a->committed;
}

/* ---- applying ---- */

/* Operations that would tear a source transaction apart if they came inside one. */
static bool needs_boundary(uint8_t kind)
{
	switch ((enum op_kind)kind) {
	case OP_UPSERT:
	case OP_DELETE:
	case OP_TRUNCATE:
	case OP_COMMIT:
	case OP_TABLE:
	case OP_SCHEMA: return false;
	default: return true;
	}
}

static bool apply_kind(struct applier *a, const struct op *op, struct err *err)
{
	switch ((enum op_kind)op->kind) {
	case OP_UPSERT: return apply_upsert(a, op, err);
	case OP_DELETE: return apply_delete(a, op, err);
	case OP_TRUNCATE: return apply_truncate(a, op, err);
	case OP_COMMIT: return apply_commit(a, op, err);
	case OP_POSITION: return apply_position(a, op, err);
	case OP_LINEAGE: return apply_lineage(a, op, err);
	case OP_TABLE: return apply_table(a, op, err);
	case OP_SCHEMA: return apply_schema(a, op, err);
	case OP_RUN: return apply_run(a, op, err);
	case OP_RUN_STATE: return apply_run_state(a, op, err);
	case OP_CHUNK: return apply_chunk(a, op, err);
	case OP_CHUNK_ROW: return apply_chunk_row(a, op, err);
	case OP_CHUNK_GONE: return apply_chunk_gone(a, op, err);
	case OP_UNSEEN_DROP: return apply_unseen_drop(a, op, err);
	case OP_PURGE: return apply_purge(a, op, err);
	case OP_RUN_KEYS: return apply_run_keys(a, op, err);
	case OP_LIST_RUN_KEYS: return apply_list_run_keys(a, op, err);
	case OP_BARRIER: return apply_barrier(a, op);
	case OP_LIST_DOUBT:
	case OP_LIST_SUSPECTS: return apply_list(a, op, err);
	}
	return err_set(err, ERR_BUG, "there is no operation %u", op->kind);
}

static bool apply_op(struct applier *a, const struct op *op, struct err *err)
{
	if (op->kind == OP_UPSERT || op->kind == OP_DELETE || op->kind == OP_TRUNCATE)
		a->in_transaction = true;
	else if ((a->in_transaction || a->staging) && needs_boundary(op->kind))
		return err_set(err, ERR_BUG, "operation %u came inside a source transaction", op->kind);
	if (op->kind != OP_CHUNK_ROW && op->kind != OP_CHUNK_GONE) a->chunk.table = NULL;
	return apply_kind(a, op, err);
}

/* A stage that is not that of the transaction under way is of one whose end never came. */
static bool stage_ready(struct applier *a, struct err *err)
{
	if (a->overlay == OVERLAY_STAGED && !a->stage_begun && !MUTANT(STAGE_KEPT)) {
		if (!store_stage_drop(a->txn, err)) return false;
		a->overlay = OVERLAY_NONE;
		a->wrote = true;
	}
	if (!a->staging) return true;
	a->stage_begun = true;
	return store_stage(a->txn, err) && store_get_overlay(a->txn, &a->overlay, err);
}

static bool open_transaction(struct applier *a, struct err *err)
{
	assert(!a->failed);
	if (!a->loaded && !cache_load(a, err)) return false;
	if (a->txn) return true;
	if (!store_begin_write(a->store, &a->txn, err)) return false;
	return stage_ready(a, err);
}

/* Says which table a failure is about. */
static bool apply_failed(struct applier *a, const struct op *op, struct err *err)
{
	const struct table *t = a->chunk.table ? a->chunk.table : table_find(a, op->table_id);

	a->failed = true;
	if (t) err_wrap(err, "table \"%s.%s\"", t->rec.schema_name, t->rec.table_name);
	return false;
}

bool applier_apply_part(struct applier *a, struct batch *b, size_t from, size_t to, struct err *err)
{
	if (from == to) return true;
	if (!open_transaction(a, err)) {
		a->failed = true;
		return false;
	}
	for (size_t i = from; i < to; i++)
		if (!apply_op(a, &b->ops[i], err)) return apply_failed(a, &b->ops[i], err);
	a->chunk.table = NULL; /* it points into b */
	return true;
}

bool applier_apply(struct applier *a, struct batch *b, struct err *err)
{
	return applier_apply_part(a, b, 0, b->n, err);
}

/* ---- ending the transaction ---- */

static void transaction_over(struct applier *a)
{
	for (struct table *t = a->tables; t; t = t->hh.next)
		buf_reset(&t->put);
	a->txn = NULL;
	a->wrote = false;
	a->dirty_bytes = 0;
}

static bool write_records(struct applier *a, int64_t now_us, struct err *err)
{
	if (!a->wrote) return true;
	a->checkpoint.written_us = now_us;
	return cache_write(a, err) &&
		   (a->checkpoint.lsn.v == 0 || store_put_checkpoint(a->txn, &a->checkpoint, err));
}

bool applier_commit(struct applier *a, int64_t now_us, struct err *err)
{
	bool ok;

	assert(!a->failed && applier_at_boundary(a));
	if (!a->txn) return true;
	ok = write_records(a, now_us, err);
	if (ok) {
		ok = store_commit(a->txn, err);
		a->txn = NULL; /* gone, also on failure */
	}
	if (!ok) {
		a->failed = true;
		return false;
	}
	answers_post_doubt(a, false);
	answers_move(&a->pending, &a->ready);
	a->committed = a->checkpoint;
	a->overlay_committed = a->overlay;
	transaction_over(a);
	return true;
}

void applier_abort(struct applier *a)
{
	store_abort(a->txn);
	transaction_over(a);
	answers_free(&a->pending);
	cache_drop(a); /* loaded again by the next batch */
	a->chunk = (struct chunk){0};
	a->in_transaction = a->staging = a->stage_begun = a->failed = false;
	a->overlay = a->overlay_committed;
}

/* ---- large transactions ---- */

void applier_stage(struct applier *a)
{
	assert(applier_at_boundary(a) && !a->txn && !applier_has_overlay(a));
	a->staging = true;
	a->stage_begun = false;
}

bool applier_is_staging(const struct applier *a)
{
	return a->staging;
}

bool applier_stage_commit(struct applier *a, struct err *err)
{
	bool ok;

	assert(!a->failed && a->staging);
	if (!a->txn) return true;
	ok = store_commit(a->txn, err);
	transaction_over(a);
	if (ok) a->overlay_committed = a->overlay;
	a->failed = !ok;
	return ok;
}

bool applier_has_overlay(const struct applier *a)
{
	return a->overlay == OVERLAY_SHOWN;
}

bool applier_move(struct applier *a, size_t bytes, struct err *err)
{
	assert(applier_at_boundary(a));
	if (!applier_has_overlay(a)) return true;
	a->failed = !open_transaction(a, err) || !store_overlay_move(a->txn, bytes + 1, err) ||
				!store_get_overlay(a->txn, &a->overlay, err);
	a->wrote = true;
	a->dirty_bytes += bytes;
	return !a->failed;
}
