/*
 * snapshot/unseen.h - the streamed transactions not yet known to be visible at
 * the source (xid, commit LSN): what the bound B of a window is computed from.
 *
 * Bounded: past UNSEEN_MAX entries the oldest half is folded into one summary
 * (its lowest commit LSN, its highest xid) that counts as not visible until a
 * snapshot's xmin is past that xid. Folding can only lower B, which is safe.
 *
 * The stored set is not folded (loading it folds again), so the commit LSNs of
 * folded entries are kept, to be named when they may leave it. Past
 * UNSEEN_FOLDED_MAX the oldest of those are forgotten: their records stay in
 * the store, where they only hold back the purge of delete markers, until the
 * next start of the program loads them and sees them off.
 *
 * One owner, one thread.
 */
#ifndef SNAPSHOT_UNSEEN_H
#define SNAPSHOT_UNSEEN_H

#include "snapshot/visibility.h"
#include "state/record.h"

#define UNSEEN_MAX        65536
#define UNSEEN_FOLDED_MAX (UNSEEN_MAX * 8) /* 4 MiB */

struct unseen;

struct unseen *unseen_create(void);
void unseen_destroy(struct unseen *u); /* accepts NULL */
/* In commit order, except what is delivered again after a reconnect; one that is there already is left alone.
 */
void unseen_add(struct unseen *u, xid_t xid, lsn_t commit_lsn);
/* Entries still to be named by unseen_prune(), folded ones included. */
size_t unseen_count(const struct unseen *u);

/* B of a window: min(commit LSN of every entry that s does not see, high). */
lsn_t unseen_bound(const struct unseen *u, const struct snap *s, lsn_t high);

/*
 * Removes every entry that all n snapshots see and calls gone(ctx, commit_lsn)
 * for each. Of folded entries at most UNSEEN_MAX are named by one call and the
 * rest by later ones.
 */
void unseen_prune(struct unseen *u, const struct snap *const *snaps, size_t n,
				  void (*gone)(void *ctx, lsn_t commit_lsn), void *ctx);

#endif
