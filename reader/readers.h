/*
 * reader/readers.h - looks after the processes that read the store: frees the
 * slots of those that died, and warns of one whose transaction keeps pages from
 * being used again. Loop thread.
 */
#ifndef READER_READERS_H
#define READER_READERS_H

#include "state/store.h"

/* Plain data; readers_begin() sets it. */
struct readers {
	int64_t looked_us;
	uint64_t oldest_txn;               /* what the oldest reader looks at; 0 = there is none */
	uint64_t file_bytes, unused_bytes; /* of the store when it became the oldest */
	bool lagged, warned;
};

/*
 * Frees slots at once: pages that a dead reader holds may be why the last session
 * ran out of disk.
 */
void readers_begin(struct readers *r, struct store *s, int64_t now_us);
/* Looks about once a minute. */
void readers_watch(struct readers *r, struct store *s, int64_t now_us);

#endif
