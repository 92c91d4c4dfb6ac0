/*
 * apply/applier_impl.h - what the files of the applier share. Private.
 *
 *   applier.c        batches in, commits out; which operation goes where
 *   table_cache.c    table records, schema versions and open runs, held in memory
 *   entry.c          read and replace one entry, keeping counters and the doubt index
 *   stream_apply.c   changes of source transactions
 *   merge.c          values that the log left out
 *   chunk_apply.c    rows that a snapshot read
 *   records_apply.c  checkpoint, tables, schemas, runs, lineage
 *   purge.c          delete markers that nothing needs any more
 *   answers.c        questions
 *
 * Table and run records are changed in memory and written once a commit.
 */
#ifndef APPLY_APPLIER_IMPL_H
#define APPLY_APPLIER_IMPL_H

#include <uthash.h>

#include "apply/applier.h"
#include "apply/guard.h"
#include "state/history.h"

/* What LMDB copies to change anything on it. */
#define PAGE_BYTES 4096

struct table {
	struct table_record rec;
	bool dirty;               /* rec differs from the store */
	uint64_t doubt_posted;    /* rec.doubt as last announced */
	struct schema **versions; /* by number; NULL: not loaded so far */
	size_t nversions;
	int64_t walked_us;          /* when a walk over it for markers ended last; 0: not since the start */
	struct pos no_marker_below; /* as that walk found it */
	struct buf put;             /* key written last in the open write transaction */
	UT_hash_handle hh;          /* by rec.id */
};

struct run {
	struct run_record rec; /* texts and slices that moved point into the buffers below */
	bool dirty;
	struct buf cursor, sweep_cursor, first_snapshot, last_snapshot, error;
	UT_hash_handle hh; /* by rec.id */
};

/* The chunk whose rows are being applied. */
struct chunk {
	struct table *table;       /* NULL: none */
	struct run_record *counts; /* of its run, or a throw-away */
	bool skipped;              /* its run has ended */
	struct pos bound;          /* (epoch, B, 0) */
	const struct op_chunk *what;
};

struct cells {
	struct cell *v;
	size_t cap;
};

struct answers {
	struct answer *head, *tail;
};

/* Over a table, for delete markers. */
struct walk {
	struct table *table; /* NULL: none is under way */
	struct buf at;       /* key looked at last */
	struct pos lowest;   /* of the markers left behind, and of those that came since it began */
};

struct applier {
	struct store *store;
	struct store_txn *txn; /* NULL: none open */
	bool loaded;           /* tables, runs and checkpoint are those of the store */
	bool failed;           /* only abort and destroy may follow */
	bool in_transaction;   /* of the source */
	bool wrote;            /* txn has changed something */
	bool staging;          /* the source transaction under way, or the next one, is staged */
	bool stage_begun;      /* and what is in the stage is its own */
	enum store_overlay overlay, overlay_committed; /* as txn left it; as the store has it */
	size_t dirty_bytes;
	struct checkpoint checkpoint, committed;
	struct table *tables, *last_table; /* hash by id, and the one found last */
	struct run *runs;                  /* open runs, hash by id; ended ones until the commit */
	struct chunk chunk;
	struct run_record no_run;
	struct purge_history history;
	bool history_dirty; /* differs from the store */
	struct walk walk;
	struct buf row; /* scratch */
	struct cells new_cells, stored_cells;
	struct answers pending, ready; /* of the open transaction; of commits */
};

/* ---- table_cache.c ---- */
bool cache_load(struct applier *a, struct err *err);
void cache_drop(struct applier *a);
/* Writes changed tables and runs to the open transaction, forgets runs that have ended. */
bool cache_write(struct applier *a, struct err *err);
struct table *table_find(struct applier *a, uint32_t id); /* NULL: unknown */
/* The table that an operation names; unknown: ERR_BUG. */
struct table *table_of(struct applier *a, uint32_t id, struct err *err);
void table_add(struct applier *a, struct table_record *rec); /* takes rec */
/* A version of the table's schema; lives until cache_drop. Absent: ERR_CORRUPT. */
const struct schema *table_schema(struct applier *a, struct table *t, uint32_t version, struct err *err);
void table_set_schema(struct table *t, struct schema *s); /* takes s */
/* An open run, or *out = NULL if it has ended. Unknown: ERR_BUG. */
bool run_find(struct applier *a, uint64_t id, struct run **out, struct err *err);
struct run *run_add(struct applier *a, struct run_record *rec); /* takes rec */

/* ---- entry.c ---- */

/* What the store holds under a key. */
struct entry {
	bool present;
	uint8_t flags;
	struct pos pos;
	struct slice bytes; /* in the map: until the next write */
};

/*
 * full: the whole key when it is a long one, else empty; a stored entry with another one is a
 * collision: ERR_CORRUPT.
 */
bool entry_get(struct applier *a, struct table *t, struct slice key, struct slice full, struct entry *out,
			   struct err *err);
/* The same where the full key is not at hand. */
bool entry_get_unchecked(struct applier *a, struct table *t, struct slice key, struct entry *out,
						 struct err *err);
/* The whole key of one that is present, if it is a long one, else empty; in the map. */
bool entry_full_key(struct applier *a, struct table *t, const struct entry *e, struct slice *out,
					struct err *err);
/*
 * The one way an entry changes: to bytes (not in the map), or to nothing when
 * bytes.n = 0. `old` as entry_get() found it. Keeps the counters, the
 * doubt index and table.high.
 */
bool entry_replace(struct applier *a, struct table *t, struct slice key, const struct entry *old,
				   struct slice bytes, struct err *err);
/* A delete marker at pos in place of old. */
bool entry_mark_deleted(struct applier *a, struct table *t, struct slice key, struct slice full,
						const struct entry *old, struct pos pos, struct err *err);
static inline bool entry_is_live(const struct entry *e)
{
	return e->present && !(e->flags & ROW_DELETED);
}
/*
 * All columns of a live row. Slices point into bytes, *out into cells. The
 * schema of its version, or NULL with err.
 */
const struct schema *row_cells(struct applier *a, struct table *t, struct slice bytes, struct row_head *head,
							   struct cells *cells, struct err *err);
/* Head of the row an operation carries. ERR_BUG. */
bool op_row(struct applier *a, struct table *t, const struct op *op, struct row_head *out, struct err *err);
static inline struct slice op_body(const struct op *op)
{
	return (struct slice){op->body, op->body_len};
}
/* Of an operation whose body is nothing but that. */
static inline struct slice op_full_key(const struct op *op)
{
	return op->flags & OP_F_LONG_KEY ? op_body(op) : (struct slice){0};
}

/* ---- the operations ---- */
bool apply_upsert(struct applier *a, const struct op *op, struct err *err);
bool apply_delete(struct applier *a, const struct op *op, struct err *err);
bool apply_truncate(struct applier *a, const struct op *op, struct err *err);

/* Completes the row of op, some cells of which are absent, as far as it can and replaces `old` with it. */
bool merge_row(struct applier *a, struct table *t, const struct op *op, const struct entry *old,
			   struct err *err);
/* Where column i of `to` stands in `from`, by name; -1: nowhere. same_type: a text of one is a text of the
 * other. */
int column_in(const struct schema *from, const struct schema *to, size_t i, bool *same_type);

bool apply_chunk(struct applier *a, const struct op *op, struct err *err);
bool apply_chunk_row(struct applier *a, const struct op *op, struct err *err);
bool apply_chunk_gone(struct applier *a, const struct op *op, struct err *err);

bool apply_commit(struct applier *a, const struct op *op, struct err *err);
bool apply_position(struct applier *a, const struct op *op, struct err *err);
bool apply_lineage(struct applier *a, const struct op *op, struct err *err);
bool apply_table(struct applier *a, const struct op *op, struct err *err);
bool apply_schema(struct applier *a, const struct op *op, struct err *err);
bool apply_run(struct applier *a, const struct op *op, struct err *err);
bool apply_run_keys(struct applier *a, const struct op *op, struct err *err);
bool apply_run_state(struct applier *a, const struct op *op, struct err *err);
bool apply_unseen_drop(struct applier *a, const struct op *op, struct err *err);
bool apply_purge(struct applier *a, const struct op *op, struct err *err);

bool apply_list(struct applier *a, const struct op *op, struct err *err);
bool apply_list_run_keys(struct applier *a, const struct op *op, struct err *err);
bool apply_barrier(struct applier *a, const struct op *op);
/* Announces the tables whose count of entries in doubt has changed (or all). */
void answers_post_doubt(struct applier *a, bool all);
void answers_move(struct answers *from, struct answers *to);
void answers_free(struct answers *list);

#endif
