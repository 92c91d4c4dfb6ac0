/*
 * tests/sim/judge.h - looks at the store after every commit, as a reader
 * would, and compares it with the source's history: promises 1 and 2.
 *
 * - No key shows an older version than before, no deleted row comes back.
 * - Every value shown is that of the version shown, or marked as in doubt.
 * - A live table equals the source at the checkpoint.
 * - Counters and the index of doubts agree with the rows (the index may name more after a large transaction).
 * - When a run is done, what it was about equals the source, and its sweep has
 *   counted what it had to.
 * - An entry changes when the stream changes its key or a run that is about it is open,
 *   else it keeps its bytes. A paused run stands still.
 *
 * Damage puts rows into the store that nothing accounts for. They are tainted, and so is
 * what inherits values from them, until a run has put them right.
 *
 * Plain data, so that it can be put back together with the store. Judging is in judge.c (rows) and
 * judge_runs.c (runs), what operations may change in judge_ops.c.
 */
#ifndef SIM_JUDGE_H
#define SIM_JUDGE_H

#include "apply/batch.h"
#include "state/store.h"
#include "tests/sim/ask.h"
#include "tests/sim/layout.h"

/* Keys that damage may invent, beyond those the source ever has. */
#define JUDGE_KEYS (SRC_KEYS_MAX + 2)
/* Versions from here on were never in the source. */
#define GHOST_VERSION 1000000U

struct judge_key {
	int index; /* of the newest version shown, in the source's chain; -1: none yet */
	bool gone; /* and then it was not there */
	/* As of the last look. */
	bool known;      /* there was one since it was damaged */
	uint64_t digest; /* of the entry's bytes; 0: there was none */
	uint8_t flags;
	struct src_row row; /* version 0: no row, not even a hidden one */
	/* By what was applied since. */
	bool allowed; /* something may change it */
	bool late;    /* the stream changed it behind the end of a run */
	/* Since it was damaged. */
	bool streamed, tainted;
};

struct judge_table {
	struct judge_key keys[JUDGE_KEYS];
	uint64_t mended_by; /* damaged while stopped: the lowest id of a run that mends it; 0: sound */
	bool live;
	bool done; /* a run's end was applied since the last look */
};

/* As of the last look at its record. */
struct judge_run {
	uint8_t state;                  /* enum run_state; 0: not seen */
	uint32_t ghosts, sure;          /* keys, as bits: what the sweep may count, and what it must */
	unsigned resumed;               /* how often it was seen to go on after a pause */
	bool moved;                     /* into another state, since */
	uint64_t rows_read, rows_swept; /* of the record */
	uint64_t cursor, sweep_cursor;  /* digests */
};

struct judge {
	struct judge_table tables[SRC_TABLES_MAX];
	struct judge_run runs[ASKS_MAX];
	uint64_t last_run; /* the highest id seen */
	lsn_t checkpoint;
	bool runs_open;
	/* Of the batch under way: the run that the chunk belongs to. */
	uint64_t chunk_run;
	bool refetch;
	bool purged; /* since the last look */
};

/* What the judge compares with. */
struct judge_view {
	const struct source *source;
	const struct layout *layouts;
	const struct ask *asks;
	bool stages; /* large transactions are staged */
};

void judge_init(struct judge *j);
/* False, with the fault in the source's trace, when something is wrong. */
bool judge_look(struct judge *j, const struct judge_view *v, struct store *store);
/* Operations from <= i < to are applied; they become visible before the next look. */
void judge_note(struct judge *j, const struct judge_view *v, const struct batch *b, size_t from, size_t to);
/* Damage took what was there: nothing is known of the key any more. */
void judge_forget(struct judge *j, int table, int key);
/* Nor what a run that has begun before may sweep. */
void judge_forget_ghosts(struct judge *j, uint64_t run);

/* ---- between its files ---- */

/* What a table holds, read in one transaction. */
struct held {
	const struct layout *layout;
	struct table_record *rec;
	bool present[JUDGE_KEYS];
	struct layout_entry entries[JUDGE_KEYS];
	uint64_t digests[JUDGE_KEYS];
	uint64_t live, hidden, doubt, markers;
};

uint64_t judge_digest(struct slice bytes);
struct src_row judge_truth(const struct judge *j, const struct judge_view *v, int table, int key);
/* Doubtful values aside. */
bool judge_agrees(const struct layout *l, struct src_row truth, const struct layout_entry *e);
/* Looks at the runs of a table, which holds h. */
bool judge_look_run(struct judge *j, const struct judge_view *v, const struct held *h,
					const struct run_record *r);

#endif
