/*
 * snapshot/run.h - one run: how far its table has been read.
 *
 *     rows of the table in key order
 *     |#########|======|======|------>
 *            closed        received
 *
 * `closed` is the cursor of the last page whose window has closed, and what a
 * restart goes on from. `received` is the end of the last page received: the
 * next page is asked from there. The pages between wait in open windows, which
 * close in order. run_rewind() gives them up. One owner, one thread.
 */
#ifndef SNAPSHOT_RUN_H
#define SNAPSHOT_RUN_H

#include "snapshot/inquiry.h"
#include "snapshot/unseen.h"

enum gate_state {
	GATE_OPEN,    /* nothing to wait for, or a snapshot of this session was good enough */
	GATE_CLOSED,  /* not tried yet */
	GATE_REFUSED, /* the last snapshot was not */
	GATE_BROKEN   /* its text is not a snapshot: none ever will be */
};

struct run {
	uint64_t id;
	enum run_state state;
	bool sweep;
	char *gate_text; /* "" = none */
	struct snap gate;
	lsn_t replaces; /* entries below it were there before the run: B must not be lower. 0 = there are none */
	enum gate_state gate_state;
	struct buf closed, received; /* cursors as in run_record.cursor */
	bool received_end;           /* the last page has been received */
	struct pos lowest;           /* B of the closed pages; POS_NONE = none yet */
	struct inquiry suspects;
	uint64_t rows_read;
};

struct run *run_create(const struct run_record *r, uint16_t epoch);
void run_destroy(struct run *r); /* accepts NULL */
bool run_is_open(const struct run *r);
bool run_wants_page(const struct run *r);
bool run_is_sweeping(const struct run *r);
bool run_is_gated(const struct run *r);

/*
 * Whether S may be used for the table: it covers the gate, it sees whatever
 * was streamed before the run, and its H is not below that. All of it stays so
 * for every later S: once is enough.
 */
bool run_admits(struct run *r, const struct snap *s, const struct unseen *u, lsn_t high);
/*
 * The gate of a run that takes the place of r (which may be NULL): what r waits
 * for still has to be seen. The result is gate, r's, or made in `both`.
 */
const char *run_inherit_gate(const struct run *r, const char *gate, struct buf *both);
/* What the gate waits for, for people to read. */
const char *run_gate_text(const struct run *r);

void run_page_received(struct run *r, struct slice cursor, bool last);
/* Moves on to what follows the last page; true when `state` has changed. */
bool run_page_closed(struct run *r, const struct op_chunk *chunk, struct pos bound, bool last);
/* True when the sweep is finished by it. */
bool run_suspects_closed(struct run *r, struct slice resume, bool end);

/* Pages and suspects that are under way are void. */
void run_rewind(struct run *r);
/* The key is another one: cursors of the old one mean nothing. */
void run_restart(struct run *r);

/* Texts of the key to read on from; false: there is none for a key of n columns, read from the start. */
bool run_cursor_texts(const struct run *r, struct slice *texts, size_t n);

#endif
