/*
 * apply/applier.h - apply batches to the store: the guard, the merge of
 * unchanged values, chunk rows, records. One LMDB write transaction is opened
 * by the first batch and ended by applier_commit() or applier_abort().
 *
 * No threads and no clock of its own: the worker drives it, and so does the
 * simulator. All calls from the thread that owns the store's write transaction.
 *
 * Invariant: what readers see changes only between source transactions, together
 * with the checkpoint of the last one applied.
 *
 * Large transactions. Between source transactions, with nothing open, applier_stage() says that the next one
 * goes to the stage (store.h): what is applied of it may be committed in parts with applier_stage_commit().
 * applier_commit() after its end shows all of it. Then applier_move() moves it into the tables, a bounded
 * step at a time, with anything else in between. An abort, or a crash, before its end forgets what was
 * staged.
 */
#ifndef APPLY_APPLIER_H
#define APPLY_APPLIER_H

#include "apply/batch.h"
#include "state/store.h"

struct applier;

/* Loads tables and schemas from the store. The store must outlive it. */
bool applier_create(struct store *store, struct applier **out, struct err *err);
void applier_destroy(struct applier *a); /* aborts an open transaction; accepts NULL */

/*
 * Applies all of b, in order; does not take it. After a failure only applier_abort() and
 * applier_destroy() may follow.
 */
bool applier_apply(struct applier *a, struct batch *b, struct err *err);

/* Only operations from <= i < to. A chunk's rows belong in one part with their OP_CHUNK. */
bool applier_apply_part(struct applier *a, struct batch *b, size_t from, size_t to, struct err *err);

bool applier_is_open(const struct applier *a);       /* a write transaction with something in it */
bool applier_has_writes(const struct applier *a);    /* not only questions: committing it writes to disk */
bool applier_at_boundary(const struct applier *a);   /* not inside a source transaction */
size_t applier_dirty_bytes(const struct applier *a); /* estimate of dirty pages held by LMDB, in bytes */

/* now_us: our clock, for the checkpoint. Requires applier_at_boundary(). Answers become available. */
bool applier_commit(struct applier *a, int64_t now_us, struct err *err);
void applier_abort(struct applier *a); /* drops answers of the aborted transaction; reloads what it cached */

/* ---- large transactions ---- */
/* Requires applier_at_boundary(), no open write transaction and nothing to move. */
void applier_stage(struct applier *a);
bool applier_is_staging(const struct applier *a);
/* Inside the staged transaction: commits what was applied of it. Readers see nothing of that. */
bool applier_stage_commit(struct applier *a, struct err *err);
bool applier_has_overlay(const struct applier *a); /* as of the last commit: there is something to move */
/* Writes about `bytes` of pages, one entry at least; an applier_commit() has to follow. Requires
 * applier_at_boundary(). */
bool applier_move(struct applier *a, size_t bytes, struct err *err);

/* The checkpoint as of the last commit (zeroes before the first). */
struct checkpoint applier_committed(const struct applier *a);

/* ---- answers ---- */
enum answer_kind {
	ANSWER_DOUBT, /* table_id has `count` entries in doubt now: posted by the commit that changed it, and once
					 for each table at creation */
	ANSWER_KEYS,  /* of OP_LIST_*: keys, and where to go on */
	ANSWER_DONE   /* of OP_BARRIER: token */
};

struct answer_key {
	struct slice key; /* encoded */
	const struct slice
		*texts; /* the key columns' texts, in key order; of OP_F_WHOLE_ROWS all columns', p = NULL
				   for NULL, for a value that is absent and for a column that the row does not have */
};

struct answer {
	struct answer *next;
	enum answer_kind kind;
	uint32_t table_id;
	uint64_t count;          /* ANSWER_DOUBT */
	uint64_t token;          /* ANSWER_KEYS, ANSWER_DONE */
	uint32_t schema_version; /* of texts */
	size_t nkeys;
	struct answer_key *keys;
	bool end;            /* nothing left behind `resume` */
	struct slice resume; /* last key looked at */
	struct arena arena;
};

/* The list of answers made available by commits so far, oldest first; the caller owns them. NULL = none. */
struct answer *applier_take_answers(struct applier *a);
void answer_destroy(struct answer *a); /* one; accepts NULL */

#endif
