/*
 * reader/chunk_lines.h - further SQL connections for chunks, when several
 * tables are copied at once and the user allows it. They are opened one by
 * one, when there is something to do for them. Losing one ends the session as losing the first does.
 */
#ifndef READER_CHUNK_LINES_H
#define READER_CHUNK_LINES_H

#include "reader/query.h"

#define CHUNK_LINES_MAX 7

struct chunk_lines {
	struct pgconn *conns[CHUNK_LINES_MAX];
	struct query *queries[CHUNK_LINES_MAX];
	size_t n;
	bool refused; /* the server wants no more of them */
};

/* Connects, waiting in the loop: from straight-line code. False: it does not go on, and no more are tried. */
bool chunk_lines_open(struct chunk_lines *lines, struct loop *l, const char *conninfo, int silence_ms,
					  struct copier *copier, const struct query_events *events, struct err *err);
/* One with no chunk in flight, or NULL. */
struct query *chunk_lines_idle(const struct chunk_lines *lines);
void chunk_lines_close(struct chunk_lines *lines); /* accepts zeroed memory */

#endif
