/*
 * tests/sim/judge.h - looks at the store after every commit, as a reader
 * would, and compares it with the source's history: promises 1 and 2.
 *
 * - No key shows an older version than before, no deleted row comes back.
 * - Every value shown is that of the version shown, or marked as in doubt.
 * - A live table equals the source at the checkpoint.
 * - Counters and the index of doubts agree with the rows.
 *
 * Plain data, so that it can be put back together with the store.
 */
#ifndef SIM_JUDGE_H
#define SIM_JUDGE_H

#include "state/store.h"
#include "tests/sim/layout.h"

/* Keys that damage may invent, beyond those the source ever has. */
#define JUDGE_KEYS (SRC_KEYS_MAX + 2)
/* Versions from here on were never in the source. */
#define GHOST_VERSION 1000000U

struct judge_key {
	int index; /* of the newest version shown, in the source's chain; -1: none yet */
	bool gone; /* and then it was not there */
};

struct judge_table {
	struct judge_key keys[JUDGE_KEYS];
	uint64_t mended_by; /* damaged while stopped: the lowest id of a run that mends it; 0: sound */
	bool live;
};

struct judge {
	struct judge_table tables[SRC_TABLES_MAX];
	lsn_t checkpoint;
	bool runs_open;
};

void judge_init(struct judge *j);
/* False, with the fault in the source's trace, when something is wrong. */
bool judge_look(struct judge *j, const struct source *s, const struct layout *layouts, struct store *store);
/* Damage took what was there: nothing is known of the key any more. */
void judge_forget(struct judge *j, int table, int key);

#endif
