/*
 * tests/sim/history.h - one seeded history: writers, stream, chunks, commits,
 * crashes and restarts in random order; then the writers stop, and the store
 * must become equal to the source within a bounded number of steps.
 */
#ifndef SIM_HISTORY_H
#define SIM_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

struct history_options {
	uint64_t seed;
	unsigned steps;  /* cut the random part to so many; 0: as the seed wants it */
	bool verbose;    /* print it step by step */
	const char *dir; /* an empty directory of our own */
};

struct history_result {
	bool bad;
	unsigned steps; /* of the random part */
	char fault[1600];
};

/* Removes what a history that was cut off, by an assertion, has left in its directory. */
void history_clean(const char *dir);
void history_run(const struct history_options *o, struct history_result *out);

#endif
