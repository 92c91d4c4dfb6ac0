/*
 * snapshot/request.h - one question to the source, from asking to its end.
 *
 * It owns every text of the public part, so it outlives a change of the table.
 * One owner, one thread.
 */
#ifndef SNAPSHOT_REQUEST_H
#define SNAPSHOT_REQUEST_H

#include "snapshot/table.h"
#include "snapshot/window.h"

enum request_fate {
	REQUEST_WANTED,
	REQUEST_REFUSED, /* its snapshot sees less than it must: ask again later */
	REQUEST_DROPPED  /* its table is not what it was */
};

struct request {
	struct chunk_request pub;
	uint64_t asked_seq; /* the owner's count of events when it was asked */
	enum request_fate fate;
	struct table *table;   /* NULL: a probe, or dropped */
	struct window *window; /* NULL unless REQUEST_WANTED */
	struct keylist *keys;  /* keyed, exists */
	uint32_t limit, nrows; /* asked for at most (pages only); returned */
	struct cell *cells;    /* of one row, as are: */
	struct buf row, full_key;
	struct buf cursor; /* page: after the last row */
	struct arena arena;
};

struct request *request_probe(void);
struct request *request_page(struct table *t);
/* CHUNK_KEYED or CHUNK_EXISTS. Takes keys. */
struct request *request_keys(struct table *t, enum chunk_kind kind, uint64_t run_id, struct keylist *keys);
/* Its replies mean nothing any more. */
void request_drop(struct request *r, enum request_fate fate);
void request_destroy(struct request *r); /* accepts NULL */

#endif
