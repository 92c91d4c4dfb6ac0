/*
 * reader/query.h - the SQL connection while streaming: chunks, watermark
 * messages and small questions, in libpq's pipeline mode.
 *
 * A chunk is one round trip: BEGIN, LOCK, snapshot and position, rows, COMMIT.
 * Its replies go straight to the copier. Loop thread.
 */
#ifndef READER_QUERY_H
#define READER_QUERY_H

#include "reader/pgconn.h"
#include "snapshot/copier.h"

struct query;

struct query_events {
	void *ctx;
	/* A chunk was answered or failed: there may be something new to ask. */
	void (*chunk_done)(void *ctx);
	/* A chunk's rows are here, and before they are handed over the next may be asked for. */
	void (*chunk_whole)(void *ctx);
	/* The connection is gone, or the server refused for good; nothing is called afterwards. */
	void (*lost)(void *ctx, const struct err *err);
};

/* Puts c, which stays the caller's and must outlive it, into pipeline mode. */
bool query_create(struct pgconn *c, struct copier *copier, const struct query_events *events,
				  struct query **out, struct err *err);
void query_destroy(struct query *q); /* accepts NULL; not from a callback of its own */

/* Whether no chunk may be asked: one is in flight, and its rows are still to come or it is not alone. */
bool query_chunk_in_flight(const struct query *q);
/* The request is the copier's. */
void query_chunk(struct query *q, const struct chunk_request *request);

/* What a chunk takes however small it is, microseconds: the way there and back, for the most. 0: none yet. */
int64_t query_way_us(const struct query *q);

/* Emits a tiny transactional message, so that the stream passes the present soon. Harmless where it is not
 * possible. */
void query_emit_watermark(struct query *q);

/* One statement without parameters; fn gets its result, or NULL when it failed (also on loss). r is cleared
 * after. */
typedef void (*query_fn)(void *ctx, const PGresult *r);
void query_ask(struct query *q, const char *sql, query_fn fn, void *ctx);

/*
 * One statement that may fail by itself: fn gets its result, or the error, of kind ERR_CONFIG when the
 * statement is to blame. False: too much is under way, try again later; fn is not called. Nor is it when the
 * connection is lost.
 */
typedef void (*query_try_fn)(void *ctx, const PGresult *r, const struct err *err);
bool query_try(struct query *q, const char *sql, query_try_fn fn, void *ctx);

#endif
