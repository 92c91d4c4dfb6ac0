/*
 * snapshot/inquiry.h - a walk over keys of the store that the source must be
 * asked about: those in doubt, or a sweep's suspects.
 *
 *        list                answer               take               advance
 *   IDLE ----> LISTING ----------------> LISTED --------> ASKED ----------------> IDLE
 *     ^           |  stale answer           |               |  request failed
 *     +-----------+-------------------------+---------------+  (inquiry_reset)
 *
 * The place reached moves in inquiry_advance() only, when the window of the
 * keys has closed, so whatever goes wrong before is simply listed again.
 */
#ifndef SNAPSHOT_INQUIRY_H
#define SNAPSHOT_INQUIRY_H

#include "snapshot/keylist.h"

enum inquiry_step { INQUIRY_IDLE, INQUIRY_LISTING, INQUIRY_LISTED, INQUIRY_ASKED };

/* A zeroed struct is at the start of the walk. */
struct inquiry {
	enum inquiry_step step;
	uint64_t token;       /* of the listing we wait for */
	struct buf from;      /* list behind this key; empty = the start */
	bool whole;           /* whole rows are listed */
	struct keylist *keys; /* LISTED */
};

void inquiry_finish(struct inquiry *q);
void inquiry_reset(struct inquiry *q); /* forgets what is under way, keeps the place */
void inquiry_list(struct inquiry *q, uint64_t token);
/* False: the answer is not the one waited for. One made under another schema leads back to IDLE. */
bool inquiry_answer(struct inquiry *q, const struct answer *a, const struct schema *s);
struct keylist *inquiry_take(struct inquiry *q); /* gives the keys away */
void inquiry_advance(struct inquiry *q, struct slice resume);

#endif
