/*
 * reader/output.h - what a command prints on standard output, gathered in one
 * big buffer and written with write(2).
 *
 * A reader of a pipe that goes away (`tidemark scan ... | head`) is not a
 * fault: the output is then `closed`, takes everything and drops it. One
 * owner.
 */
#ifndef READER_OUTPUT_H
#define READER_OUTPUT_H

#include <stdbool.h>

#include "state/bytes.h"
#include "state/err.h"

struct output {
	struct buf buf; /* append here */
	int fd;
	bool closed;
};

/* Also makes the process ignore SIGPIPE. */
void output_init(struct output *o, int fd);
void output_finish(struct output *o); /* frees; does not write. Accepts zeroed memory */

/* Writes when much is waiting. Call it after each line. Errors as of output_flush(). */
bool output_step(struct output *o, struct err *err);
/* Writes everything. ERR_DISK: it could not be written. */
bool output_flush(struct output *o, struct err *err);

#endif
