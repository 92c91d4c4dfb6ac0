/*
 * reader/outcome.h - what became of a request: the runs that it made or
 * changed, or why it was refused. And the same as a line of JSON (CONTROL.md).
 */
#ifndef READER_OUTCOME_H
#define READER_OUTCOME_H

#include "reader/request.h"

struct outcome_run {
	uint64_t id;
	char *table;
	const char *state; /* a word: what it is now, or is to become */
	bool is_new;       /* it was made by this request */
};

struct outcome {
	struct outcome_run *runs;
	size_t nruns;
};

void outcome_add(struct outcome *o, uint64_t id, const char *table, enum run_state state, bool is_new);
void outcome_finish(struct outcome *o); /* accepts zeroed memory */

/* A line with its newline. id: the name of the runs; NULL = none. */
void outcome_put_json(const struct outcome *o, const char *id, struct buf *out);
/* The line that says no. */
void outcome_put_error(const struct err *err, struct buf *out);
/* The kind of error that a line's word means; ERR_PROTOCOL for any other. */
enum err_kind outcome_kind(const char *word);

#endif
