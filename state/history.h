/*
 * state/history.h - when the stream was where, and which delete markers may go.
 *
 * Positions have no time. So the writer notes now and then how far the stream
 * had come: what lies below the position of a sample was received before it was taken, by our
 * own clock. Kept in the store (FORMAT.md), so that a restart does not start the wait anew.
 *
 * The argument for the limit is in snapshot/WINDOWS.md, "Delete markers".
 * Plain data; any thread, one owner each.
 */
#ifndef STATE_HISTORY_H
#define STATE_HISTORY_H

#include "state/record.h"

#define HISTORY_MAX 64

struct sample {
	int64_t time_us;
	uint16_t epoch;
	lsn_t lsn; /* of the checkpoint */
};

struct purge_history {
	uint64_t purged;      /* markers removed so far */
	int64_t retention_us; /* as asked for last; -1: never */
	size_t n;
	struct sample samples[HISTORY_MAX]; /* oldest first */
};

#define HISTORY_NONE ((struct purge_history){.retention_us = -1})

void history_encode(const struct purge_history *h, struct buf *out);
bool history_decode(struct slice bytes, struct purge_history *out, struct err *err);

/*
 * Takes a sample if the last one is a thirty-second of the retention ago and
 * the stream has moved since. A retention of 0 needs none. True: h has changed.
 */
bool history_note(struct purge_history *h, int64_t now_us, int64_t retention_us, const struct checkpoint *c);

enum purge_bound {
	PURGE_TO_CHECKPOINT, /* nothing but that holds markers back */
	PURGE_TO_UNSEEN,     /* a transaction that is not known to be visible yet */
	PURGE_TO_RETENTION   /* what is above was received less than the retention ago */
};

/* Markers strictly below the result may go. oldest_unseen: 0 = there is none. */
struct pos purge_limit(const struct purge_history *h, const struct checkpoint *c, lsn_t oldest_unseen,
					   int64_t now_us, int64_t retention_us, enum purge_bound *bound);

#endif
