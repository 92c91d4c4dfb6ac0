#include "snapshot/unseen.h"

#include <stdlib.h>
#include <string.h>

struct unseen {
	struct unseen_entry *entries; /* ascending by commit LSN */
	size_t n, cap;

	/* The summary of the folded ones; fold_xid 0 = there is none. */
	xid_t fold_xid; /* highest */
	lsn_t fold_lsn; /* lowest */

	/* Commit LSNs of folded entries, to be named when they leave the stored set. The first
	   `settled` of them are known to be visible already and only wait for their turn. */
	lsn_t *folded;
	size_t nfolded, settled;
};

struct unseen *unseen_create(void)
{
	struct unseen *u = mem_alloc(sizeof *u);

	*u = (struct unseen){0};
	return u;
}

void unseen_destroy(struct unseen *u)
{
	if (u == NULL) return;
	free(u->entries);
	free(u->folded);
	free(u);
}

/* Makes room for `more` commit LSNs; past the limit the oldest are left to the next start of the program. */
static void folded_reserve(struct unseen *u, size_t more)
{
	if (u->folded == NULL) u->folded = mem_alloc(UNSEEN_FOLDED_MAX * sizeof *u->folded);
	if (u->nfolded + more > UNSEEN_FOLDED_MAX) {
		size_t drop = u->nfolded + more - UNSEEN_FOLDED_MAX;
		memmove(u->folded, u->folded + drop, (u->nfolded - drop) * sizeof *u->folded);
		u->nfolded -= drop;
		u->settled = u->settled > drop ? u->settled - drop : 0;
	}
}

static void fold_oldest(struct unseen *u, size_t count)
{
	folded_reserve(u, count);
	for (size_t i = 0; i < count; i++) {
		struct unseen_entry e = u->entries[i];
		if (u->fold_xid.v == 0 || e.commit_lsn.v < u->fold_lsn.v) u->fold_lsn = e.commit_lsn;
		if (e.xid.v > u->fold_xid.v) u->fold_xid = e.xid;
		u->folded[u->nfolded++] = e.commit_lsn;
	}
	u->n -= count;
	memmove(u->entries, u->entries + count, u->n * sizeof *u->entries);
}

static void grow(struct unseen *u)
{
	size_t cap = u->cap ? u->cap * 2 : 64;
	struct unseen_entry *entries = mem_alloc(cap * sizeof *entries);

	if (u->n > 0) memcpy(entries, u->entries, u->n * sizeof *entries);
	free(u->entries);
	u->entries = entries;
	u->cap = cap;
}

static void reserve_one(struct unseen *u)
{
	if (u->n == UNSEEN_MAX) fold_oldest(u, UNSEEN_MAX / 2);
	if (u->n == u->cap) grow(u);
}

/* The stream brings commits in order; only one that is delivered again, after a reconnect, goes further down.
 */
static size_t place_of(const struct unseen *u, lsn_t commit_lsn)
{
	size_t i = u->n;

	while (i > 0 && u->entries[i - 1].commit_lsn.v >= commit_lsn.v)
		i--;
	return i;
}

void unseen_add(struct unseen *u, xid_t xid, lsn_t commit_lsn)
{
	size_t i;

	reserve_one(u);
	i = place_of(u, commit_lsn);
	if (i < u->n && u->entries[i].commit_lsn.v == commit_lsn.v) return;
	memmove(u->entries + i + 1, u->entries + i, (u->n - i) * sizeof *u->entries);
	u->entries[i] = (struct unseen_entry){.commit_lsn = commit_lsn, .xid = xid};
	u->n++;
}

size_t unseen_count(const struct unseen *u)
{
	return u->n + u->nfolded;
}

static bool fold_is_seen(const struct unseen *u, const struct snap *s)
{
	return u->fold_xid.v < s->xmin.v;
}

lsn_t unseen_bound(const struct unseen *u, const struct snap *s, lsn_t high)
{
	lsn_t bound = high;

	if (u->fold_xid.v != 0 && !fold_is_seen(u, s) && u->fold_lsn.v < bound.v) bound = u->fold_lsn;
	for (size_t i = 0; i < u->n && u->entries[i].commit_lsn.v < bound.v; i++)
		if (!snap_sees(s, u->entries[i].xid)) return u->entries[i].commit_lsn;
	return bound;
}

static bool all_see(const struct snap *const *snaps, size_t n, xid_t xid)
{
	for (size_t i = 0; i < n; i++)
		if (!snap_sees(snaps[i], xid)) return false;
	return true;
}

static bool all_see_fold(const struct unseen *u, const struct snap *const *snaps, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!fold_is_seen(u, snaps[i])) return false;
	return true;
}

/* A bounded number at a time: each becomes an operation of one batch. */
static void drain_settled(struct unseen *u, void (*gone)(void *ctx, lsn_t commit_lsn), void *ctx)
{
	size_t count = u->settled < UNSEEN_MAX ? u->settled : UNSEEN_MAX;

	for (size_t i = 0; i < count; i++)
		gone(ctx, u->folded[i]);
	u->settled -= count;
	u->nfolded -= count;
	if (count > 0) memmove(u->folded, u->folded + count, u->nfolded * sizeof *u->folded);
	if (u->nfolded == 0) {
		free(u->folded);
		u->folded = NULL;
	}
}

void unseen_prune(struct unseen *u, const struct snap *const *snaps, size_t n,
				  void (*gone)(void *ctx, lsn_t commit_lsn), void *ctx)
{
	size_t kept = 0;

	if (u->fold_xid.v != 0 && all_see_fold(u, snaps, n)) {
		u->fold_xid = XID(0);
		u->settled = u->nfolded;
	}
	drain_settled(u, gone, ctx);
	for (size_t i = 0; i < u->n; i++) {
		if (all_see(snaps, n, u->entries[i].xid))
			gone(ctx, u->entries[i].commit_lsn);
		else
			u->entries[kept++] = u->entries[i];
	}
	u->n = kept;
}
