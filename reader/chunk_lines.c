#include "reader/chunk_lines.h"

#include <assert.h>

bool chunk_lines_open(struct chunk_lines *lines, struct loop *l, const char *conninfo, int silence_ms,
					  struct copier *copier, const struct query_events *events, struct err *err)
{
	struct pgconn *conn = NULL;
	struct query *query;
	assert(lines->n < CHUNK_LINES_MAX);
	if (!pgconn_open(l, conninfo, false, silence_ms, &conn, err) ||
		!query_create(conn, copier, events, &query, err)) {
		pgconn_close(conn);
		lines->refused = true;
		return false;
	}
	lines->conns[lines->n] = conn;
	lines->queries[lines->n++] = query;
	return true;
}

struct query *chunk_lines_idle(const struct chunk_lines *lines)
{
	for (size_t i = 0; i < lines->n; i++)
		if (!query_chunk_in_flight(lines->queries[i])) return lines->queries[i];
	return NULL;
}

void chunk_lines_close(struct chunk_lines *lines)
{
	for (size_t i = 0; i < lines->n; i++) {
		query_destroy(lines->queries[i]);
		pgconn_close(lines->conns[i]);
	}
	*lines = (struct chunk_lines){.n = 0};
}
