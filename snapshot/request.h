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
	struct request *next; /* for the owner's list */
	struct chunk_request pub;
	enum request_fate fate;
	struct table *table;   /* NULL: a probe, or dropped */
	struct window *window; /* NULL unless REQUEST_WANTED */
	struct keylist *keys;  /* keyed, exists */
	uint32_t limit, nrows; /* asked for at most (pages only); returned */
	bool end_known;        /* page: the next one may be asked for, behind `cursor` */
	struct cell *cells;    /* of one row, as are: */
	struct buf row, full_key;
	struct buf cursor; /* page: after the last row */
	struct arena arena;
};

struct request *request_probe(void);
/* Of the table's run, as are the next two. */
struct request *request_page(struct table *t);
/* CHUNK_EXISTS or CHUNK_SCOPED. Takes keys. */
struct request *request_suspects(struct table *t, struct keylist *keys);
/* CHUNK_KEYED for keys that the run lists. Takes keys. */
struct request *request_listed(struct table *t, struct keylist *keys);
struct request *request_check(struct table *t);
/* CHUNK_KEYED for rows in doubt. Takes keys. */
struct request *request_doubt(struct table *t, struct keylist *keys);
/* Its replies mean nothing any more. */
void request_drop(struct request *r, enum request_fate fate);
void request_destroy(struct request *r); /* accepts NULL */

#endif
