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
 * close in order. run_rewind() gives them up.
 *
 * A run over listed keys has no pages: it walks its list (`listing`). One that holds text
 * that someone gave is checked before it is begun, and again whenever what the SQL is
 * made from has changed. One owner, one thread.
 */
#ifndef SNAPSHOT_RUN_H
#define SNAPSHOT_RUN_H

#include "snapshot/inquiry.h"
#include "snapshot/scope.h"
#include "snapshot/unseen.h"

enum gate_state {
	GATE_OPEN,    /* nothing to wait for, or a snapshot of this session was good enough */
	GATE_CLOSED,  /* not tried yet */
	GATE_REFUSED, /* the last snapshot was not */
	GATE_BROKEN   /* its text is not a snapshot: none ever will be */
};

enum check_state { CHECK_NEEDED, CHECK_ASKED, CHECK_GOOD };

struct run {
	struct run *next; /* of the table, by id */
	uint64_t id;
	enum run_kind kind;
	enum run_state state;
	enum run_state resumes_as; /* of a paused one */
	enum sweep_mode sweep;
	char *name; /* the requester's, or "" */
	struct scope scope;
	enum check_state check;
	unsigned refusals;        /* in a row, that may have been a change of the table */
	uint32_t chunk_time_ms;   /* 0 = the copier's */
	uint32_t rows_per_second; /* 0 = no cap */
	int64_t not_before_us;    /* the cap */
	char *gate_text;          /* "" = none */
	struct snap gate;
	lsn_t replaces; /* entries below it were there before the run: B must not be lower. 0 = there are none */
	enum gate_state gate_state;
	bool covered;                /* some snapshot of this session covers the gate */
	struct buf closed, received; /* cursors as in run_record.cursor */
	bool received_end;           /* the last page has been received */
	bool asked;                  /* a page is being asked for */
	struct pos lowest;           /* B of the closed pages; POS_NONE = none yet */
	struct inquiry suspects;
	struct inquiry listing;
	uint64_t rows_read;
};

struct run *run_create(const struct run_record *r, uint16_t epoch);
void run_destroy(struct run *r); /* accepts NULL */
bool run_is_open(const struct run *r);
bool run_wants_page(const struct run *r);
bool run_is_sweeping(const struct run *r);
bool run_is_gated(const struct run *r);
bool run_is_listing(const struct run *r);   /* it walks its list of keys */
bool run_is_requested(const struct run *r); /* someone asked for it; else it is the program's own */
bool run_needs_check(const struct run *r);
bool run_has_begun(const struct run *r); /* some of what it read has closed, so its gate was open */

/* Paused ones are open and do nothing. What was under way is void. */
void run_pause(struct run *r);
void run_resume(struct run *r);

/*
 * Whether S may be used for the table: it covers the gate, it sees whatever
 * was streamed before the run, and its H is not below that. All of it stays so
 * for every later S: once is enough.
 */
bool run_admits(struct run *r, const struct snap *s, const struct unseen *u, lsn_t high);
/* Only the gate: for chunks of another run of the table. */
bool run_covers(struct run *r, const struct snap *s);
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
/* True when the list is. */
bool run_listing_closed(struct run *r, struct slice resume, bool end, uint64_t rows_read);
/* So many rows were read at now_us: the cap says when the next ones may be. */
void run_count_rows(struct run *r, uint32_t rows, int64_t now_us);
/* No more rows than this in one chunk, for the cap; UINT32_MAX = none. */
uint32_t run_rows_max(const struct run *r);

/* Pages and suspects that are under way are void. */
void run_rewind(struct run *r);
/* The key is another one: cursors of the old one mean nothing. */
void run_restart(struct run *r);

/* Texts of the key to read on from; false: there is none for a key of n columns, read from the start. */
bool run_cursor_texts(const struct run *r, struct slice *texts, size_t n);

#endif
