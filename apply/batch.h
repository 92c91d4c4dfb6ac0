/*
 * apply/batch.h - what travels from the loop thread to the apply thread: a run
 * of operations in source order, with the memory they point into.
 *
 * A batch has one owner at a time: the builder until it is pushed, then the
 * queue, then the applier, which destroys it. Slices in operations point into
 * the batch's arena.
 */
#ifndef APPLY_BATCH_H
#define APPLY_BATCH_H

#include "state/bytes.h"
#include "state/pos.h"
#include "state/record.h"
#include "state/schema.h"

enum op_kind {
	/* Changes of one source transaction, in order; closed by OP_COMMIT. */
	OP_UPSERT,   /* key, body = encoded row with its position and, when cells are absent, born = the
					transaction; src_key = where unchanged values come from: the old key after a key
					change, the key itself for an update, empty for an insert (nothing to inherit) */
	OP_DELETE,   /* key, pos; body = full key when it is a long one */
	OP_TRUNCATE, /* pos */
	OP_COMMIT,   /* lsn = end_lsn, pos.lsn = commit LSN, pos.epoch, xid, time_us = commit time; flags may
					have OP_F_CHANGES */

	/* Between transactions only; OP_TABLE and OP_SCHEMA may come inside one too. */
	OP_POSITION, /* lsn = an idle walEnd; pos.epoch: the checkpoint moves there if higher */
	OP_LINEAGE,  /* body = encoded lineage */
	OP_TABLE,    /* table_id; body = encoded table record. New id: creates it. Known id: names, oid and
					state are taken over, counters and positions are kept */
	OP_SCHEMA,   /* table_id; body = encoded schema: becomes the table's current version */
	OP_RUN, /* body = encoded run record of a new run: `accepted` is raised to the checkpoint, and the table's
			   trust position raised to it */
	OP_RUN_KEYS,  /* run_id; body = all keys that the run lists, numbered 0, 1, 2 ...: for each key a blob for
					 each key column. Before OP_RUN of the same batch, whose record counts them in `listed` */
	OP_RUN_STATE, /* run_id, state = enum run_state, time_us; body = why, for people (may be empty). A run
					 that is paused keeps what it was in resumes_as. A finished first run of the whole table
					 makes it TABLE_COPIED, and the end of the table's last open run clears trust. The
					 keys of a run that ends are removed */
	OP_CHUNK,     /* run_id (0: none), table_id, pos = (epoch, B, 0), chunk = the rest. The OP_CHUNK_ROW and
					 OP_CHUNK_GONE that follow belong to it, and stand in the same batch: the cursor and the
					 counters become durable with the rows */
	OP_CHUNK_ROW, /* key, body = encoded row, stamped by the applier with the chunk's pos; skipped if
					 OP_F_SUPERSEDED */
	OP_CHUNK_GONE,  /* key, body = full key when long: the source has no such row as of the chunk. OP_F_COUNT:
					   only counted as swept */
	OP_UNSEEN_DROP, /* lsn = commit LSN of a transaction now known to be visible */
	OP_PURGE, /* purge = the rest: a step of a walk that removes delete markers which nothing can need any
				 more. Costs next to nothing when no walk is worth it */

	/* Questions; the answer is available after the next commit. */
	OP_LIST_DOUBT,    /* table_id, token, limit, key = start after (empty: start) */
	OP_LIST_SUSPECTS, /* table_id, token, limit, key = start after, or at it with OP_F_INCLUSIVE; pos: live
						 entries strictly below it; body: the walk ends behind the keys that begin with it or
						 sort before it (empty: no bound); looks at no more than `scan_limit` entries.
						 OP_F_WHOLE_ROWS: texts are those of all columns of the current schema */
	OP_LIST_RUN_KEYS, /* table_id, run_id in u.list, token, limit, key = number of the first, 8 bytes
						 big-endian (empty: 0). Numbers take the place of keys in the answer's `resume`, which
						 is the next one */
	OP_BARRIER        /* token: answered when all before it is committed */
};

enum {
	OP_F_CHANGES = 1 << 0,    /* OP_COMMIT: it changed a replicated table: remember it as unseen */
	OP_F_SUPERSEDED = 1 << 1, /* OP_CHUNK_ROW: a newer change of the key was streamed; counted only */
	OP_F_LONG_KEY = 1 << 2,   /* the key is a prefix and hash; the full key is in body */
	OP_F_COUNT = 1 << 3,      /* OP_CHUNK_GONE */
	OP_F_INCLUSIVE = 1 << 4,  /* OP_LIST_SUSPECTS */
	OP_F_WHOLE_ROWS = 1 << 5  /* OP_LIST_SUSPECTS */
};

/* Of an OP_CHUNK; lives in the batch's arena. */
struct op_chunk {
	const char *snapshot; /* pg_snapshot text of S, for the record */
	lsn_t high;           /* H */
	bool standby;         /* S was taken on a standby: its xip list says nothing */
	bool moves_cursor;    /* page of a run: `cursor` is its new cursor */
	struct slice cursor;  /* as in run_record.cursor */
	bool moves_sweep;     /* keys of a sweep: `sweep_cursor` is its new cursor */
	struct slice sweep_cursor;
	bool refetch; /* rows in doubt: applied whether or not the run, if any, is still open; it counts them as
					 refetched */
	uint32_t rows_read;
	uint32_t suspects; /* keys of a sweep that were asked for */
};

struct op {
	uint8_t kind;  /* enum op_kind */
	uint8_t flags; /* OP_F_* */
	uint8_t state; /* OP_RUN_STATE */
	uint32_t table_id;
	struct pos pos;
	struct slice key, src_key;
	uint8_t *body; /* writable: rows are stamped in place */
	size_t body_len;
	union {
		struct {
			lsn_t lsn;
			xid_t xid;
			int64_t time_us;
		} commit; /* OP_COMMIT, OP_POSITION, OP_UNSEEN_DROP */
		/* OP_RUN_STATE, OP_CHUNK */
		struct {
			uint64_t run_id;
			int64_t time_us;
			const struct op_chunk *chunk;
		} run;
		/* OP_LIST_*, OP_BARRIER */
		struct {
			uint64_t token, run_id;
			uint32_t limit, scan_limit;
		} list;
		struct op_purge {
			int64_t now_us;       /* our clock */
			int64_t retention_us; /* received less than this ago: kept. 0: no waiting */
			uint32_t limit;       /* markers removed at most */
			uint32_t scan_limit;  /* entries looked at at most */
		} purge;
	} u;
};

struct batch {
	struct batch *next; /* for the queue */
	struct arena arena;
	struct op *ops;
	size_t n, cap;
	size_t ncommits; /* OP_COMMIT among them */
};

struct batch *batch_create(void);
void batch_destroy(struct batch *b); /* accepts NULL */
/* A zeroed operation at the end; the pointer lives until the next batch_add. */
struct op *batch_add(struct batch *b, enum op_kind kind);
/* The operations of `from` at the end of b, with the memory they point into. Takes from. */
void batch_append(struct batch *b, struct batch *from);
/* Memory held, in bytes: what the queue is bounded by. */
size_t batch_bytes(const struct batch *b);
/* Operations from the start that end between source transactions; the rest begins one that b does not end. */
size_t batch_whole_ops(const struct batch *b);

/* Builders for operations that carry a record. */
void batch_add_table(struct batch *b, const struct table_record *t);
void batch_add_schema(struct batch *b, const struct schema *s);
void batch_add_run(struct batch *b, const struct run_record *r);
void batch_add_run_state(struct batch *b, uint32_t table_id, uint64_t run_id, enum run_state state,
						 int64_t time_us);
/* The same, saying why, for people. */
void batch_add_run_end(struct batch *b, uint32_t table_id, uint64_t run_id, enum run_state state,
					   int64_t time_us, const char *why);
void batch_add_lineage(struct batch *b, const struct lineage *l);

#endif
