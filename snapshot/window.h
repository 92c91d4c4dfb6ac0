/*
 * snapshot/window.h - one window: a chunk's snapshot S, its high watermark H,
 * and its rows while they wait for the stream to pass H.
 *
 * Rows are encoded once, straight into the batch that will carry them to the
 * applier, which is the supersede buffer too. While they come in the order of
 * their encoded keys a row is found by halving; else by a hash beside the batch. One owner, one thread.
 */
#ifndef SNAPSHOT_WINDOW_H
#define SNAPSHOT_WINDOW_H

#include "snapshot/copier.h"
#include "snapshot/keylist.h"

struct window_row;

struct window {
	struct window *next; /* for the owner's list */
	enum chunk_kind kind;
	uint32_t table_id;
	uint64_t run_id;
	uint64_t counted_by; /* rows in doubt: the run that counts them as refetched; 0 = none */
	bool counts_only;    /* of a sweep: what the source does not have is counted, not removed */
	uint64_t asked_seq;  /* the owner's count of events when its chunk was asked for */
	lsn_t asked_at;      /* position of the stream then; only state/mutant.h has a use for it */

	/* From window_open(). */
	bool has_snapshot;
	uint64_t snapshot_seq; /* the owner's count of events when S came */
	struct snap snap;
	const char *snapshot_text; /* in the batch's arena */
	lsn_t high;
	struct batch *batch;    /* OP_CHUNK and its rows; without any operation for a probe */
	struct op_chunk *chunk; /* in the batch's arena; NULL for a probe */
	size_t nrows;
	struct window_row *hash; /* NULL while the rows are in order */
	struct arena row_arena;  /* of hash */
	size_t bytes;            /* of all rows received */

	/* What the chunk was: where the next one begins. */
	bool last;           /* page: the table has nothing behind it */
	bool cut;            /* rows were left out for their size */
	struct slice resume; /* of listed keys: the listing goes on behind this key */
	bool resume_end;     /* and has nothing left there */
};

struct window *window_create(enum chunk_kind kind, uint32_t table_id, uint64_t run_id);
void window_destroy(struct window *w); /* accepts NULL */

/* S and H are known. ERR_PROTOCOL when text is not a snapshot. */
bool window_open(struct window *w, const char *snapshot, bool standby, lsn_t high, uint64_t seq,
				 struct err *err);
/* full_key: see OP_F_LONG_KEY; empty for a short one. False: the window has a row of that key already. */
bool window_add_row(struct window *w, struct slice key, struct slice full_key, const struct buf *row);
bool window_has_row(const struct window *w, struct slice key);
/* Every key that was not returned; of CHUNK_SCOPED, of those in scope. */
void window_add_gone(struct window *w, const struct keylist *keys);
void window_set_cursor(struct window *w, struct slice cursor);
void window_set_resume(struct window *w, const struct keylist *keys);

/* A transaction that S does not see has written the key, or truncated the table. */
void window_supersede(struct window *w, struct slice key);
void window_truncate(struct window *w);

/* The batch, stamped with (epoch, B, 0); it is the caller's now. */
struct batch *window_close(struct window *w, struct pos bound);
size_t window_memory(const struct window *w);

#endif
