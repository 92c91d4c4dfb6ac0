/* Writers: what they change, when it is committed, flushed and visible. */
#include "tests/sim/source.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define WRITERS_MAX 5

static void *grow(void *p, size_t n, size_t *cap, size_t size)
{
	if (n < *cap) return p;
	*cap = *cap ? *cap * 2 : 8;
	p = realloc(p, *cap * size);
	assert(p != NULL);
	return p;
}

static lsn_t write_wal(struct source *s)
{
	lsn_t at = s->insert;

	s->insert.v += 8 * (uint64_t)rng_range(s->rng, 1, 4);
	return at;
}

/* ---- versions ---- */

static void chain_push(struct src_chain *c, struct src_tx *tx, unsigned op, struct src_row row)
{
	c->v = grow(c->v, c->n, &c->cap, sizeof *c->v);
	c->v[c->n++] = (struct src_version){tx, op, row};
}

static uint32_t new_wide(struct source *s)
{
	unsigned a = rng_below(s->rng, 100);

	if (a < 10) return 0;
	s->next_wide += 2;
	return a < 85 ? s->next_wide | 1 : s->next_wide & ~1U;
}

static struct src_row new_row(struct source *s, const struct src_table *t)
{
	struct src_row row = {.version = s->next_version++, .tenant = rng_below(s->rng, SRC_TENANTS)};

	for (int i = 0; i < t->nwide; i++)
		row.wide[i] = new_wide(s);
	return row;
}

/* What a writer works on: lock rules make the newest version it may lock its own or a visible one. */
static struct src_row newest(const struct src_chain *c)
{
	return c->n ? c->v[c->n - 1].row : (struct src_row){0};
}

bool source_publishes(const struct src_table *t, struct src_row row)
{
	return row.version != 0 && (!t->filtered || row.version % 3 != 0);
}

/* ---- transactions ---- */

static xid_t new_xid(struct source *s)
{
	return XID(s->next_xid.v++);
}

static struct src_tx *tx_begin(struct source *s)
{
	struct src_tx *tx = calloc(1, sizeof *tx);

	assert(tx != NULL);
	tx->lazy = rng_chance(s->rng, s->shape.lazy_percent);
	s->all = grow(s->all, s->nall, &s->capall, sizeof *s->all);
	s->all[s->nall++] = tx;
	s->active[s->nactive++] = tx;
	return tx;
}

static void tx_need_xid(struct source *s, struct src_tx *tx)
{
	if (tx->xid.v == 0) tx->xid = new_xid(s);
}

static struct src_event *tx_event(struct source *s, struct src_tx *tx, enum src_event_kind kind, int table,
								  int key)
{
	struct src_event *e;

	tx->events = grow(tx->events, tx->nevents, &tx->cap, sizeof *tx->events);
	e = &tx->events[tx->nevents++];
	*e = (struct src_event){.kind = kind, .table = table, .key = key, .old_key = -1, .lsn = write_wal(s)};
	return e;
}

static void active_remove(struct source *s, const struct src_tx *tx)
{
	size_t i = 0;

	while (s->active[i] != tx)
		i++;
	s->active[i] = s->active[--s->nactive];
}

static void locks_release(struct source *s, const struct src_tx *tx)
{
	for (int t = 0; t < s->ntables; t++) {
		if (s->tables[t].truncating == tx) s->tables[t].truncating = NULL;
		for (int k = 0; k < s->tables[t].nkeys; k++)
			if (s->tables[t].chains[k].lock == tx) s->tables[t].chains[k].lock = NULL;
	}
}

static void tx_completed(struct source *s, const struct src_tx *tx)
{
	if (tx->xid.v > s->latest_completed.v) s->latest_completed = tx->xid;
	for (int i = 0; i < tx->nsubs; i++)
		if (tx->subs[i].v > s->latest_completed.v) s->latest_completed = tx->subs[i];
}

/* Takes back the versions of tx from operation `op` on. */
static void versions_undo(struct source *s, const struct src_tx *tx, unsigned op)
{
	for (int t = 0; t < s->ntables; t++)
		for (int k = 0; k < s->tables[t].nkeys; k++) {
			struct src_chain *c = &s->tables[t].chains[k];

			while (c->n && c->v[c->n - 1].tx == tx && c->v[c->n - 1].op >= op)
				c->n--;
		}
}

static void tx_abort(struct source *s, struct src_tx *tx)
{
	versions_undo(s, tx, 0);
	tx->state = TX_ABORTED;
	if (tx->xid.v) {
		tx->abort_lsn = write_wal(s);
		tx_completed(s, tx);
	}
	locks_release(s, tx);
	active_remove(s, tx);
	trace(s->trace, "xid %lu rolls back", tx->xid.v);
}

static void tx_show(struct source *s, struct src_tx *tx)
{
	tx->state = TX_VISIBLE;
	tx_completed(s, tx);
	locks_release(s, tx);
	active_remove(s, tx);
	trace(s->trace, "xid %lu is visible", tx->xid.v);
}

static void tx_record_commit(struct source *s, struct src_tx *tx)
{
	tx->savepoint = false;
	tx->state = TX_COMMITTED;
	tx->commit_lsn = s->insert;
	s->insert.v += 8 * (uint64_t)rng_range(s->rng, 3, 6);
	tx->end_lsn = s->insert;
	s->log = grow(s->log, s->nlog, &s->caplog, sizeof *s->log);
	s->log[s->nlog++] = tx;
}

static void tx_commit(struct source *s, struct src_tx *tx)
{
	bool asynchronous = rng_chance(s->rng, s->shape.async_percent);

	tx_record_commit(s, tx);
	if (!asynchronous) source_flush(s);
	tx->hung = !asynchronous && s->outage;
	trace(s->trace, "xid %lu commits at %lu..%lu%s%s", tx->xid.v, tx->commit_lsn.v, tx->end_lsn.v,
		  asynchronous ? " asynchronously" : "", tx->hung ? ", hangs" : "");
	if (asynchronous || (!tx->hung && !rng_chance(s->rng, s->shape.delay_percent))) tx_show(s, tx);
}

static void tx_end(struct source *s, struct src_tx *tx)
{
	if (tx->xid.v == 0 || rng_chance(s->rng, 15)) {
		tx_abort(s, tx);
	} else if (tx->state == TX_ACTIVE && rng_chance(s->rng, 10)) {
		tx->state = TX_PREPARED;
		tx->savepoint = false;
		write_wal(s);
		source_flush(s);
		trace(s->trace, "xid %lu is prepared", tx->xid.v);
	} else {
		tx_commit(s, tx);
	}
}

/* ---- subtransactions ---- */

static void savepoint_begin(struct source *s, struct src_tx *tx)
{
	if (tx->nsubs == SRC_SUBS_MAX) return;
	tx_need_xid(s, tx);
	tx->subs[tx->nsubs++] = new_xid(s);
	tx->savepoint = true;
	tx->save_op = tx->nops;
	tx->save_event = tx->nevents;
	trace(s->trace, "xid %lu begins subtransaction %lu", tx->xid.v, tx->subs[tx->nsubs - 1].v);
}

static void savepoint_end(struct source *s, struct src_tx *tx)
{
	bool undo = rng_chance(s->rng, 60);

	tx->savepoint = false;
	trace(s->trace, "xid %lu %s its subtransaction", tx->xid.v, undo ? "rolls back" : "keeps");
	if (!undo) return;
	versions_undo(s, tx, tx->save_op);
	tx->nevents = tx->save_event;
	tx->sub_aborted[tx->nsubs - 1] = true;
	if (tx->subs[tx->nsubs - 1].v > s->latest_completed.v) s->latest_completed = tx->subs[tx->nsubs - 1];
}

/* ---- changes ---- */

static bool lock_row(struct source *s, struct src_tx *tx, int table, int key)
{
	struct src_table *t = &s->tables[table];
	struct src_chain *c = &t->chains[key];

	if (t->truncating && t->truncating != tx) return false;
	if (c->lock && c->lock != tx) return false;
	c->lock = tx;
	return true;
}

static unsigned unsent_mask(const struct src_table *t, struct src_row old, struct src_row row)
{
	unsigned mask = 0;

	for (int i = 0; i < t->nwide; i++)
		if (row.wide[i] == old.wide[i] && row.wide[i] % 2) mask |= 1U << i;
	return mask;
}

static void publish_update(struct source *s, struct src_tx *tx, int table, int from, int key,
						   struct src_row old, struct src_row row)
{
	struct src_table *t = &s->tables[table];
	bool was = source_publishes(t, old), is = source_publishes(t, row);
	struct src_event *e;

	if (!is) {
		if (was) tx_event(s, tx, SRC_DELETE, table, from);
		return;
	}
	e = tx_event(s, tx, was ? SRC_UPDATE : SRC_INSERT, table, key);
	if (was && from != key) e->old_key = from;
	e->row = row;
	e->unsent = unsent_mask(t, old, row);
}

static void row_insert(struct source *s, struct src_tx *tx, int table, int key)
{
	struct src_table *t = &s->tables[table];
	struct src_row row = new_row(s, t);

	chain_push(&t->chains[key], tx, tx->nops++, row);
	if (source_publishes(t, row)) tx_event(s, tx, SRC_INSERT, table, key)->row = row;
	trace(s->trace, "xid %lu inserts t%d[%d] v%u of %u w%u,%u", tx->xid.v, table, key, row.version,
		  row.tenant, row.wide[0], row.wide[1]);
}

static void row_delete(struct source *s, struct src_tx *tx, int table, int key)
{
	struct src_table *t = &s->tables[table];
	struct src_row old = newest(&t->chains[key]);

	chain_push(&t->chains[key], tx, tx->nops++, (struct src_row){0});
	if (source_publishes(t, old)) tx_event(s, tx, SRC_DELETE, table, key);
	trace(s->trace, "xid %lu deletes t%d[%d] v%u", tx->xid.v, table, key, old.version);
}

/* An UPDATE, that changes the key when from != key. */
static void row_update(struct source *s, struct src_tx *tx, int table, int from, int key)
{
	struct src_table *t = &s->tables[table];
	struct src_row old = newest(&t->chains[from]), row = new_row(s, t);

	for (int i = 0; i < t->nwide; i++)
		if (rng_chance(s->rng, 70)) row.wide[i] = old.wide[i];
	if (rng_chance(s->rng, 60)) row.tenant = old.tenant;
	if (from != key) chain_push(&t->chains[from], tx, tx->nops, (struct src_row){0});
	chain_push(&t->chains[key], tx, tx->nops++, row);
	publish_update(s, tx, table, from, key, old, row);
	trace(s->trace, "xid %lu updates t%d[%d] v%u -> [%d] v%u of %u w%u,%u", tx->xid.v, table, from,
		  old.version, key, row.version, row.tenant, row.wide[0], row.wide[1]);
}

/* A free key that tx may take, or -1. */
static int free_key(struct source *s, struct src_tx *tx, int table)
{
	const struct src_table *t = &s->tables[table];
	int key = (int)rng_below(s->rng, (unsigned)t->nkeys);

	for (int i = 0; i < t->nkeys; i++, key = (key + 1) % t->nkeys)
		if (newest(&t->chains[key]).version == 0 && lock_row(s, tx, table, key)) return key;
	return -1;
}

static void row_move(struct source *s, struct src_tx *tx, int table, int key)
{
	int other = (int)rng_below(s->rng, (unsigned)s->tables[table].nkeys);
	int spare = free_key(s, tx, table);

	if (spare < 0) return;
	if (other == key || !lock_row(s, tx, table, other) ||
		newest(&s->tables[table].chains[other]).version == 0) {
		row_update(s, tx, table, key, spare);
		return;
	}
	row_update(s, tx, table, key, spare); /* the two swap keys, through a third */
	row_update(s, tx, table, other, key);
	row_update(s, tx, table, spare, other);
}

static bool can_truncate(const struct source *s, const struct src_tx *tx, int table)
{
	const struct src_table *t = &s->tables[table];

	if (t->readers || (t->truncating && t->truncating != tx)) return false;
	for (int k = 0; k < t->nkeys; k++)
		if (t->chains[k].lock && t->chains[k].lock != tx) return false;
	return true;
}

static void table_truncate(struct source *s, struct src_tx *tx, int table)
{
	struct src_table *t = &s->tables[table];

	t->truncating = tx;
	for (int k = 0; k < t->nkeys; k++)
		if (newest(&t->chains[k]).version) chain_push(&t->chains[k], tx, tx->nops, (struct src_row){0});
	tx->nops++;
	tx_event(s, tx, SRC_TRUNCATE, table, -1);
	trace(s->trace, "xid %lu truncates t%d", tx->xid.v, table);
}

static void tx_truncate(struct source *s, struct src_tx *tx, int table)
{
	if (!can_truncate(s, tx, table)) return;
	tx_need_xid(s, tx);
	table_truncate(s, tx, table);
	if (!rng_chance(s->rng, 30)) return;
	for (int t = 0; t < s->ntables; t++) /* TRUNCATE of several tables */
		if (t != table && can_truncate(s, tx, t)) table_truncate(s, tx, t);
}

static void tx_change(struct source *s, struct src_tx *tx)
{
	int table = (int)rng_below(s->rng, (unsigned)s->ntables);
	int key = (int)rng_below(s->rng, (unsigned)s->tables[table].nkeys);

	if (rng_chance(s->rng, s->shape.truncate_percent)) {
		tx_truncate(s, tx, table);
		return;
	}
	if (!lock_row(s, tx, table, key)) return;
	tx_need_xid(s, tx);
	if (newest(&s->tables[table].chains[key]).version == 0)
		row_insert(s, tx, table, key);
	else if (rng_chance(s->rng, 25))
		row_delete(s, tx, table, key);
	else if (rng_chance(s->rng, s->shape.move_percent))
		row_move(s, tx, table, key);
	else
		row_update(s, tx, table, key, key);
}

/* ---- steps ---- */

static unsigned writers(const struct source *s)
{
	unsigned n = 0;

	for (size_t i = 0; i < s->nactive; i++)
		n += s->active[i]->state == TX_ACTIVE;
	return n;
}

static void tx_step(struct source *s, struct src_tx *tx)
{
	unsigned a = rng_below(s->rng, 100);

	if (tx->state == TX_COMMITTED) {
		if (!tx->hung && a < 30) tx_show(s, tx);
	} else if (tx->state == TX_PREPARED) {
		if (a < 15) tx_end(s, tx);
	} else if (a < 6) {
		if (tx->savepoint)
			savepoint_end(s, tx);
		else
			savepoint_begin(s, tx);
	} else if (a < (tx->lazy ? 95U : 65U)) {
		tx_change(s, tx);
	} else {
		tx_end(s, tx);
	}
}

static void outage_toggle(struct source *s)
{
	s->outage = !s->outage;
	trace(s->trace, "synchronous standby is %s", s->outage ? "gone" : "no longer required");
	if (s->outage) return;
	for (size_t i = 0; i < s->nactive; i++)
		s->active[i]->hung = false;
}

void source_step(struct source *s)
{
	if (rng_chance(s->rng, s->outage ? 1 : s->shape.outage_percent))
		outage_toggle(s);
	else if (writers(s) < WRITERS_MAX && s->nactive < SRC_ACTIVE_MAX && rng_chance(s->rng, 20))
		tx_begin(s);
	else if (s->nactive)
		tx_step(s, s->active[rng_below(s->rng, (unsigned)s->nactive)]);
}

bool source_settle(struct source *s)
{
	struct src_tx *tx;

	if (s->outage) outage_toggle(s);
	if (s->nactive == 0) return false;
	tx = s->active[0];
	if (tx->state == TX_COMMITTED)
		tx_show(s, tx);
	else
		tx_end(s, tx);
	return true;
}

void source_flush(struct source *s)
{
	s->flush = s->insert;
}

void source_replay(struct source *s)
{
	if (s->flush.v <= s->replay.v) return;
	s->replay.v += rng_next(s->rng) % (s->flush.v - s->replay.v + 1);
	if (rng_chance(s->rng, 30)) s->replay = s->flush;
}

void source_emit_message(struct source *s)
{
	struct src_tx *tx;

	if (s->nactive == SRC_ACTIVE_MAX) return;
	tx = tx_begin(s);
	tx_need_xid(s, tx);
	tx_record_commit(s, tx);
	source_flush(s);
	trace(s->trace, "xid %lu emits a message, commits at %lu", tx->xid.v, tx->commit_lsn.v);
	tx_show(s, tx);
}

/* ---- crash ---- */

/* Commits that were not flushed; they are the log's end. */
static void log_cut(struct source *s)
{
	while (s->nlog && s->log[s->nlog - 1]->end_lsn.v > s->flush.v) {
		struct src_tx *tx = s->log[--s->nlog];

		trace(s->trace, "xid %lu never happened", tx->xid.v);
		tx->state = TX_ABORTED;
		tx->commit_lsn = tx->end_lsn = LSN(0);
		tx->abort_lsn = s->flush;
	}
}

static void versions_cut(struct source *s)
{
	for (int t = 0; t < s->ntables; t++)
		for (int k = 0; k < s->tables[t].nkeys; k++) {
			struct src_chain *c = &s->tables[t].chains[k];

			while (c->n && c->v[c->n - 1].tx && c->v[c->n - 1].tx->state == TX_ABORTED)
				c->n--;
		}
}

/* Abort records that were not flushed: recovery knows all the same that those transactions are over. */
static void aborts_cut(struct source *s)
{
	for (size_t i = 0; i < s->nall; i++)
		if (s->all[i]->abort_lsn.v > s->flush.v) s->all[i]->abort_lsn = s->flush;
}

void source_crash(struct source *s)
{
	trace(s->trace, "the server crashes, recovers up to %lu", s->flush.v);
	log_cut(s);
	aborts_cut(s);
	s->insert = s->flush;
	write_wal(s);
	source_flush(s);
	for (size_t i = s->nactive; i-- > 0;) {
		struct src_tx *tx = s->active[i];

		tx->hung = false;
		if (tx->state == TX_ACTIVE)
			tx_abort(s, tx);
		else if (tx->state == TX_COMMITTED)
			tx_show(s, tx);
		else if (tx->state == TX_ABORTED) { /* its commit never happened */
			locks_release(s, tx);
			active_remove(s, tx);
		}
	}
	versions_cut(s);
	s->latest_completed = XID(s->next_xid.v - 1);
}

/* ---- life ---- */

static void table_init(struct source *s, struct src_table *t)
{
	t->nkeys = rng_range(s->rng, 2, s->shape.nkeys);
	t->nwide = rng_range(s->rng, 1, SRC_WIDE_MAX);
	t->filtered = rng_chance(s->rng, s->shape.filter_percent);
	for (int k = 0; k < t->nkeys; k++)
		if (rng_chance(s->rng, 70)) chain_push(&t->chains[k], NULL, 0, new_row(s, t));
}

void source_init(struct source *s, struct rng *rng, struct trace *trace, const struct source_shape *shape)
{
	memset(s, 0, sizeof *s);
	s->rng = rng;
	s->trace = trace;
	s->shape = *shape;
	s->ntables = shape->ntables;
	s->next_xid = XID(10);
	s->latest_completed = XID(9);
	s->insert = s->flush = s->replay = LSN(1000);
	s->next_version = 1;
	s->next_wide = 2;
	for (int t = 0; t < s->ntables; t++)
		table_init(s, &s->tables[t]);
}

void source_finish(struct source *s)
{
	for (size_t i = 0; i < s->nall; i++) {
		free(s->all[i]->events);
		free(s->all[i]);
	}
	for (int t = 0; t < s->ntables; t++)
		for (int k = 0; k < s->tables[t].nkeys; k++)
			free(s->tables[t].chains[k].v);
	free(s->all);
	free(s->log);
	memset(s, 0, sizeof *s);
}
