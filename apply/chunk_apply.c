#include "apply/applier_impl.h"
#include "apply/xid_snapshot.h"
#include "state/mutant.h"

/* ---- the record of the run ---- */

/* Keeps bytes in buf, which then belongs to a record. */
static struct slice keep(struct buf *buf, const void *p, size_t n)
{
	buf_reset(buf);
	buf_put(buf, p, n);
	return (struct slice){buf->p, buf->n};
}

static const char *keep_text(struct buf *buf, const char *text)
{
	return (const char *)keep(buf, text, strlen(text) + 1).p;
}

/* The cursor and the counters become durable with the rows: all of them are in one batch. */
static void run_note_chunk(struct run *run, const struct chunk *chunk)
{
	const struct op_chunk *what = chunk->what;
	struct run_record *r = &run->rec;

	if (what->moves_cursor) {
		r->cursor = keep(&run->cursor, what->cursor.p, what->cursor.n);
		if (pos_cmp(r->lowest_bound, POS_NONE) == 0 || pos_cmp(chunk->bound, r->lowest_bound) < 0)
			r->lowest_bound = chunk->bound;
	}
	if (what->moves_sweep)
		r->sweep_cursor = keep(&run->sweep_cursor, what->sweep_cursor.p, what->sweep_cursor.n);
	if (r->first_snapshot[0] == '\0') r->first_snapshot = keep_text(&run->first_snapshot, what->snapshot);
	r->last_snapshot = keep_text(&run->last_snapshot, what->snapshot);
	r->last_high = what->high;
	r->rows_suspect += what->suspects;
	if (what->refetch)
		r->rows_refetched += what->rows_read;
	else
		r->rows_read += what->rows_read;
	r->chunks++;
	run->dirty = true;
}

/* ---- the chunk ---- */

bool apply_chunk(struct applier *a, const struct op *op, struct err *err)
{
	struct table *t = table_of(a, op->table_id, err);
	struct run *run = NULL;

	if (!t) return false;
	a->chunk = (struct chunk){.table = t, .counts = &a->no_run, .bound = op->pos, .what = op->u.run.chunk};
	if (op->u.run.run_id == 0) return true;
	if (!run_find(a, op->u.run.run_id, &run, err)) return false;
	a->chunk.skipped = !run && !a->chunk.what->refetch;
	if (run) {
		a->chunk.counts = &run->rec;
		a->wrote = true;
		run_note_chunk(run, &a->chunk);
	}
	return true;
}

/*
 * They differ in nothing but the position. A chunk's row is live and complete:
 * so is an entry of the same flags.
 */
static bool same_row(const struct entry *old, struct slice row)
{
	size_t skip = 1 + POS_SIZE;

	return old->present && old->flags == row.p[0] && old->bytes.n == row.n &&
		   memcmp(old->bytes.p + skip, row.p + skip, row.n - skip) == 0;
}

static bool write_row(struct applier *a, const struct op *op, const struct entry *old, struct err *err)
{
	struct run_record *counts = a->chunk.counts;

	if (same_row(old, op_body(op)))
		counts->rows_same++;
	else
		counts->rows_written++;
	return entry_replace(a, a->chunk.table, op->key, old, op_body(op), err);
}

/* ---- rows in doubt ---- */

/* Cells of `row` in doubt that `chunk` has a value for get it; how many. */
static size_t fill_cells(const struct schema *row_schema, struct cell *row, const struct schema *chunk_schema,
						 const struct cell *chunk)
{
	size_t filled = 0;
	bool same_type;

	for (size_t i = 0; i < row_schema->ncolumns; i++) {
		int j = row[i].doubt ? column_in(chunk_schema, row_schema, i, &same_type) : -1;

		if (j < 0 || !same_type) continue;
		row[i] = chunk[j];
		filled++;
	}
	return filled;
}

/*
 * The entry is as new as the chunk's row or newer, but in doubt, and the chunk
 * saw the transaction that left it so: what the log left out was unchanged
 * since, so the chunk's values belong to this version too. Columns of
 * another type or another schema version stay in doubt for a later chunk.
 */
static bool fill_row(struct applier *a, const struct op *op, const struct entry *old, struct err *err)
{
	struct table *t = a->chunk.table;
	struct row_head head, chunk_head;
	const struct schema *schema = row_cells(a, t, old->bytes, &head, &a->stored_cells, err);
	const struct schema *chunk_schema;

	if (!schema) return false;
	chunk_schema = row_cells(a, t, op_body(op), &chunk_head, &a->new_cells, err);
	if (!chunk_schema) return false;
	if (fill_cells(schema, a->stored_cells.v, chunk_schema, a->new_cells.v) == 0) {
		a->chunk.counts->rows_newer++;
		return true;
	}
	a->chunk.counts->rows_filled++;
	buf_reset(&a->row);
	row_encode(&a->row, head.pos, head.version, head.born, head.full_key, a->stored_cells.v,
			   schema->ncolumns);
	return entry_replace(a, t, op->key, old, (struct slice){a->row.p, a->row.n}, err);
}

/* Whether the chunk saw the transaction that left the entry in doubt. */
static bool chunk_saw_born(struct applier *a, const struct entry *e, bool *saw, struct err *err)
{
	const struct op_chunk *what = a->chunk.what;
	const struct schema *s = table_schema(a, a->chunk.table, row_version(e->bytes), err);
	struct row_head head;

	if (MUTANT(FILL_BLIND)) return *saw = true;
	return s && row_head(e->bytes, s->ncolumns, &head, err) &&
		   xid_snapshot_sees(what->snapshot, what->standby, head.born, saw, err);
}

static bool keep_row(struct applier *a, const struct op *op, const struct entry *old, struct err *err)
{
	struct run_record *counts = a->chunk.counts;
	bool saw = false;

	if (old->present && old->flags & ROW_DOUBT && !chunk_saw_born(a, old, &saw, err)) return false;
	if (saw) return fill_row(a, op, old, err);
	if (old->present && pos_cmp(old->pos, a->chunk.bound) == 0 && same_row(old, op_body(op)))
		counts->rows_same++;
	else
		counts->rows_newer++;
	return true;
}

/* ---- the operations ---- */

static bool chunk_is_open(const struct applier *a, struct err *err)
{
	return a->chunk.table || err_set(err, ERR_BUG, "a chunk's row came without its chunk");
}

bool apply_chunk_row(struct applier *a, const struct op *op, struct err *err)
{
	struct chunk *chunk = &a->chunk;
	struct row_head row;
	struct entry old;

	if (!chunk_is_open(a, err)) return false;
	if (chunk->skipped) return true;
	if (op->flags & OP_F_SUPERSEDED) {
		chunk->counts->rows_superseded++;
		return true;
	}
	if (!op_row(a, chunk->table, op, &row, err)) return false;
	if (row.flags & ROW_DOUBT) return err_set(err, ERR_BUG, "a chunk's row lacks values");
	row_stamp(op->body, chunk->bound);
	if (!entry_get(a, chunk->table, op->key, row.full_key, &old, err)) return false;
	if (guard_admits(old.present, old.pos, chunk->table->rec.floor, chunk->bound))
		return write_row(a, op, &old, err);
	return keep_row(a, op, &old, err);
}

bool apply_chunk_gone(struct applier *a, const struct op *op, struct err *err)
{
	struct chunk *chunk = &a->chunk;
	struct entry old;

	if (!chunk_is_open(a, err)) return false;
	if (chunk->skipped) return true;
	if (!entry_get(a, chunk->table, op->key, op_full_key(op), &old, err)) return false;
	if (!old.present || !guard_admits(true, old.pos, chunk->table->rec.floor, chunk->bound)) return true;
	if (entry_is_live(&old)) chunk->counts->rows_swept++;
	if (op->flags & OP_F_COUNT) return true;
	return entry_mark_deleted(a, chunk->table, op->key, op_full_key(op), &old, chunk->bound, err);
}
