/*
 * snapshot/unseen.h - the streamed transactions not yet known to be visible at
 * the source (xid, commit LSN): what the bound B of a window is computed from.
 *
 * Bounded: past UNSEEN_MAX entries the oldest half is folded into one summary
 * (its lowest commit LSN, its highest xid) that counts as not visible until a
 * snapshot's xmin is past that xid. Folding can only lower B, which is safe.
 * (The stored set is not folded; loading it folds again.)
 */
#ifndef SNAPSHOT_UNSEEN_H
#define SNAPSHOT_UNSEEN_H

#include "snapshot/visibility.h"
#include "state/record.h"

#define UNSEEN_MAX 65536

struct unseen;

struct unseen *unseen_create(void);
void unseen_destroy(struct unseen *u);
void unseen_add(struct unseen *u, xid_t xid, lsn_t commit_lsn); /* in commit order */
size_t unseen_count(const struct unseen *u);

/* B of a window: min(commit LSN of every entry that s does not see, high). */
lsn_t unseen_bound(const struct unseen *u, const struct snap *s, lsn_t high);

/* Removes every entry that all n snapshots see and calls gone(ctx, commit_lsn) for each. */
void unseen_prune(struct unseen *u, const struct snap *const *snaps, size_t n,
                  void (*gone)(void *ctx, lsn_t commit_lsn), void *ctx);

#endif
