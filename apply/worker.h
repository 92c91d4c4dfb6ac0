/*
 * apply/worker.h - the apply thread: one bounded queue in, one durable
 * position out. Everything the two threads share is named in this file.
 *
 * The loop thread pushes batches and takes status; it never waits on disk.
 * The worker commits when the queue runs dry at a transaction boundary, or
 * when dirty pages or time reach their limit. While transactions arrive faster than
 * WORKER_FLOOD in flood_us it waits for more of them: a commit each 20 rows costs four
 * times what one each 100 does. After the rows of a chunk, which nobody waits for, it waits for chunks_us.
 *
 * Durability. The store runs with MDB_NOMETASYNC: a power loss can undo the
 * last commit, no more. So `durable` runs one commit behind `committed`, and
 * catches up by an mdb_env_sync once nothing has arrived for sync_idle_ms.
 * That holds for STORE_WRITE alone: under STORE_WRITE_FAST a power loss undoes any number
 * of commits until store_sync(), which worker_start() calls.
 *
 * What stands behind the end of a transaction in the same batch is committed with it.
 *
 * A source transaction whose end is not queued yet never holds back complete
 * ones: they are committed before it is begun.
 *
 * Memory: dirty_bytes bounds what LMDB holds and what may have to be applied again, for source transactions
 * of any size: a larger one is staged (applier.h), and moved into the tables between batches
 * and when there are none.
 */
#ifndef APPLY_WORKER_H
#define APPLY_WORKER_H

#include "apply/applier.h"

struct worker;

#define WORKER_FLOOD 16

struct worker_config {
	struct store *store;
	size_t queue_bytes; /* bound of the queue, in batch_bytes */
	size_t dirty_bytes; /* commit, in parts if need be, when a transaction takes about this much memory */
	int commit_ms;      /* and when a transaction has been open this long */
	int sync_idle_ms;   /* sync when idle this long with an undurable commit */
	int64_t flood_us;   /* WORKER_FLOOD transactions in this time are a flood; 0 = never */
	int64_t gather_us;  /* in one a transaction is open this long before it is committed for want of more */
	int64_t chunks_us;  /* and after a chunk this long, unless its run goes on in another state with it */
	void (*wake)(void *ctx); /* called from the worker when status has changed (uv_async_send) */
	void *wake_ctx;
};

/* Syncs the store (what is in it is durable from then on), opens an applier on it and starts the thread. */
bool worker_start(const struct worker_config *config, struct worker **out, struct err *err);

/*
 * Ends the thread and frees everything. finish: apply what is queued up to the
 * last transaction boundary, commit and sync first; otherwise drop it. Returns false with
 * the worker's error if it failed. Accepts NULL. The final status can be had through last (may be NULL).
 */
struct worker_status;
bool worker_stop(struct worker *w, bool finish, struct worker_status *last, struct err *err);

/* Takes b. Never blocks: the bound is advisory, see worker_is_full(). */
void worker_push(struct worker *w, struct batch *b);
/* True: stop reading sockets. True until there is room again (half empty); then it wakes the loop. */
bool worker_is_full(struct worker *w);

struct worker_status {
	struct checkpoint committed; /* visible to readers */
	uint16_t durable_epoch;
	lsn_t durable; /* safe to acknowledge */
	size_t queued_bytes;
	uint64_t commits;         /* how many so far */
	uint64_t durable_commits; /* and how many of them a power loss cannot undo */
	bool failed;              /* the worker has stopped; err says why */
	struct err err;
};

/* A copy of the newest status. */
void worker_get_status(struct worker *w, struct worker_status *out);
/* Answers so far, oldest first; the caller owns them. */
struct answer *worker_take_answers(struct worker *w);

#endif
