/*
 * snapshot/copier_impl.h - the copier's own state, shared by its files:
 *
 *   copier.c        tables, stream events, answers
 *   copier_runs.c   runs: begin, pause, end
 *   copier_ask.c    what to ask next, and when
 *   copier_reply.c  the reply to it
 *   copier_close.c  windows that close: bound, order, prune
 */
#ifndef SNAPSHOT_COPIER_IMPL_H
#define SNAPSHOT_COPIER_IMPL_H

#include "snapshot/request.h"
#include "snapshot/unseen.h"

#define NEVER INT64_MAX

struct copier {
	struct copier_config config;
	struct copier_sink sink;

	struct table *tables;     /* hash by id; in the order they were added */
	struct table *turn;       /* the one asked for last */
	struct request *requests; /* unanswered */
	struct window *windows;   /* open, in the order answered */

	/* The stream. */
	struct unseen *unseen;
	lsn_t received; /* every commit below it has been received */
	struct {
		bool open;
		bool counted; /* it is in the unseen set */
		xid_t xid;
		lsn_t commit_lsn;
		lsn_t position; /* a keepalive that came meanwhile */
	} tx;

	/* The last snapshot that entries were pruned by: later chunks must see what it saw. */
	struct snap floor;
	char *floor_text;   /* NULL = none yet */
	bool floor_refused; /* the last snapshot sees less */

	struct batch *outbox; /* operations of ours that wait for the end of the transaction; NULL = none */

	uint64_t next_run, next_request, next_token, next_text;
	uint64_t seq; /* counts requests and snapshots */

	/* Time. */
	int64_t now_us;    /* as told last; never goes back */
	int64_t pruned_us; /* the last prune, and what it left */
	size_t pruned_left;
	struct backoff gate_wait;
	int64_t gate_at_us;  /* gated tables wait until then */
	int64_t floor_at_us; /* everything does */
	struct copier_load load;
	int64_t yield_at_us; /* runs wait until then */
	struct backoff probe_wait;
	int64_t probe_at_us; /* not before, after a failed one */
};

/* copier.c */
void copier_clock(struct copier *c, int64_t now_us);
struct table *copier_table(const struct copier *c, uint32_t id); /* NULL: unknown */
struct batch *copier_outbox(struct copier *c);
void copier_flush(struct copier *c);                 /* the outbox, unless inside a transaction */
void copier_emit(struct copier *c, struct batch *b); /* takes b; an empty one is not emitted */

/* ---- copier_runs.c ---- */
/* The run goes on in another state, or has ended and is no more: says so in b. */
void copier_run_moved(struct copier *c, struct table *t, struct run *r, struct batch *b);
/* What was read of it and has not closed is given up: it goes on from there. */
void copier_give_up(struct copier *c, struct table *t, struct run *r);
/* Its chunks are not good enough: they are given up, and asked for again after a while. */
void copier_hold_run(struct copier *c, struct table *t, struct run *r);
void copier_fail_run(struct copier *c, struct table *t, struct run *r, const char *why);
void copier_stop_runs(struct copier *c, struct table *t, const char *why);

struct table *copier_table_of(struct copier *c, uint32_t id); /* made if need be */
void copier_drop_requests(struct copier *c, uint32_t table_id,
						  uint64_t run_id); /* run_id 0: all of the table */

/* copier_close.c */
void copier_close_windows(struct copier *c); /* those that may close now */
void copier_drop_windows(struct copier *c, uint32_t table_id,
						 uint64_t run_id); /* run_id 0: all of the table */

#endif
