/* Readers: which transactions a server's session sees, and what it reads. */
#include "tests/sim/source.h"

#include <stdio.h>
#include <stdlib.h>

static bool tx_committed(const struct src_tx *tx)
{
	return tx->state == TX_COMMITTED || tx->state == TX_VISIBLE;
}

static bool view_sees(const struct source *s, struct src_view view, const struct src_tx *tx)
{
	if (tx == NULL) return true;
	if (!view.replica) return tx->state == TX_VISIBLE;
	return tx_committed(tx) && tx->end_lsn.v <= s->replay.v;
}

static struct src_row published(const struct src_table *t, struct src_row row)
{
	return source_publishes(t, row) ? row : (struct src_row){0};
}

struct src_row source_read(const struct source *s, struct src_view view, int table, int key)
{
	const struct src_table *t = &s->tables[table];
	const struct src_chain *c = &t->chains[key];

	for (size_t i = c->n; i-- > 0;)
		if (view_sees(s, view, c->v[i].tx)) return published(t, c->v[i].row);
	return (struct src_row){0};
}

struct src_row source_read_at(const struct source *s, lsn_t end, int table, int key)
{
	const struct src_table *t = &s->tables[table];
	const struct src_chain *c = &t->chains[key];

	for (size_t i = c->n; i-- > 0;) {
		const struct src_tx *tx = c->v[i].tx;

		if (tx == NULL || (tx_committed(tx) && tx->commit_lsn.v < end.v)) return published(t, c->v[i].row);
	}
	return (struct src_row){0};
}

int source_find_version(const struct source *s, int table, int key, uint32_t version)
{
	const struct src_chain *c = &s->tables[table].chains[key];

	for (size_t i = 0; i < c->n; i++)
		if (c->v[i].row.version == version) return (int)i;
	return -1;
}

/* ---- locks ---- */

/* A TRUNCATE that the replica has replayed, of a transaction whose end it has not. */
static bool replica_locked(const struct source *s, int table)
{
	for (size_t i = 0; i < s->nall; i++) {
		const struct src_tx *tx = s->all[i];
		lsn_t end = tx_committed(tx) ? tx->end_lsn : tx->abort_lsn;

		if (end.v && end.v <= s->replay.v) continue;
		for (size_t e = 0; e < tx->nevents; e++)
			if (tx->events[e].kind == SRC_TRUNCATE && tx->events[e].table == table &&
				tx->events[e].lsn.v < s->replay.v)
				return true;
	}
	return false;
}

bool source_can_lock(const struct source *s, struct src_view view, int table)
{
	return view.replica ? !replica_locked(s, table) : s->tables[table].truncating == NULL;
}

/* ---- snapshots ---- */

struct ids {
	uint64_t v[SRC_ACTIVE_MAX * (SRC_SUBS_MAX + 1) + 512];
	size_t n;
};

static void ids_add(struct ids *ids, xid_t x)
{
	if (x.v && ids->n < sizeof ids->v / sizeof *ids->v) ids->v[ids->n++] = x.v;
}

static int id_order(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* list: print those of ids below xmax. */
static void snapshot_print(struct ids *ids, uint64_t xmax, bool list, char out[SRC_SNAPSHOT_SIZE])
{
	size_t at;

	qsort(ids->v, ids->n, sizeof *ids->v, id_order);
	at = (size_t)snprintf(out, SRC_SNAPSHOT_SIZE, "%lu:%lu:", ids->n && ids->v[0] < xmax ? ids->v[0] : xmax,
						  xmax);
	for (size_t i = 0; list && i < ids->n && ids->v[i] < xmax && at < SRC_SNAPSHOT_SIZE - 24; i++)
		at += (size_t)snprintf(out + at, SRC_SNAPSHOT_SIZE - at, "%s%lu", i ? "," : "", ids->v[i]);
}

/* Top-level ids of those in progress, as the primary's ProcArray has them. */
static void primary_snapshot(const struct source *s, char out[SRC_SNAPSHOT_SIZE])
{
	struct ids running = {.n = 0};

	for (size_t i = 0; i < s->nactive; i++)
		ids_add(&running, s->active[i]->xid);
	snapshot_print(&running, s->latest_completed.v + 1, true, out);
}

/* On a standby the list is empty; xmin is the oldest one not known to have ended. */
static void replica_snapshot(const struct source *s, char out[SRC_SNAPSHOT_SIZE])
{
	struct ids running = {.n = 0};
	uint64_t completed = 9;

	for (size_t i = 0; i < s->nall; i++) {
		const struct src_tx *tx = s->all[i];
		lsn_t end = tx_committed(tx) ? tx->end_lsn : tx->abort_lsn;

		if (end.v == 0 || end.v > s->replay.v) {
			ids_add(&running, tx->xid);
			continue;
		}
		if (tx->xid.v > completed) completed = tx->xid.v;
		for (int k = 0; k < tx->nsubs; k++)
			if (tx->subs[k].v > completed) completed = tx->subs[k].v;
	}
	snapshot_print(&running, completed + 1, false, out);
}

void source_snapshot(const struct source *s, struct src_view view, char out[SRC_SNAPSHOT_SIZE])
{
	if (view.replica)
		replica_snapshot(s, out);
	else
		primary_snapshot(s, out);
}

/* The snapshot builder knows what committed; all else between xmin and xmax counts as running,
 * subtransactions too. */
void source_slot_snapshot(const struct source *s, char out[SRC_SNAPSHOT_SIZE])
{
	struct ids others = {.n = 0};
	uint64_t committed = 9;

	for (size_t i = 0; i < s->nall; i++) {
		const struct src_tx *tx = s->all[i];

		if (tx_committed(tx) && tx->xid.v > committed) committed = tx->xid.v;
		if (!tx_committed(tx)) ids_add(&others, tx->xid);
		for (int k = 0; k < tx->nsubs; k++) {
			if (!tx_committed(tx) || tx->sub_aborted[k])
				ids_add(&others, tx->subs[k]);
			else if (tx->subs[k].v > committed)
				committed = tx->subs[k].v;
		}
	}
	snapshot_print(&others, committed + 1, true, out);
}
