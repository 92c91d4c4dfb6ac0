#include "tests/sim/damage.h"

#include <stdlib.h>

struct work {
	struct world *w;
	struct store_txn *txn;
	const struct layout *layout;
	struct table_record rec;
	lsn_t limit; /* positions below are old */
	int damaged;
};

static uint64_t *counter_of(struct table_record *r, uint8_t flags)
{
	return flags & ROW_DELETED ? &r->markers : flags & ROW_HIDDEN ? &r->hidden : &r->live;
}

static bool put(struct work *d, int key, struct slice bytes, struct err *err)
{
	uint8_t k[LAYOUT_KEY_SIZE];
	size_t n = layout_key(key, k);

	++*counter_of(&d->rec, bytes.p[0]);
	return store_row_put(d->txn, d->layout->table_id, (struct slice){k, n}, bytes, err);
}

static bool put_ghost(struct work *d, int key, struct pos pos, struct err *err)
{
	struct source *s = &d->w->source;
	struct src_row row = {.version = GHOST_VERSION + s->next_version++};
	struct buf b = {0};
	bool ok;

	row.tenant = rng_below(s->rng, SRC_TENANTS);
	for (int i = 0; i < d->layout->nwide; i++)
		row.wide[i] = GHOST_VERSION + rng_below(s->rng, 100);
	layout_encode(d->layout, &b, pos, XID(0), key, row, 0);
	trace(s->trace, "damage: %s[%d] is ghost v%u at %lu", d->layout->name, key, row.version, pos.lsn.v);
	ok = put(d, key, (struct slice){b.p, b.n}, err);
	buf_finish(&b);
	return ok;
}

static bool put_marker(struct work *d, int key, struct pos pos, struct err *err)
{
	struct buf b = {0};
	bool ok;

	row_encode_marker(&b, pos, (struct slice){0});
	trace(d->w->source.trace, "damage: %s[%d] is deleted at %lu", d->layout->name, key, pos.lsn.v);
	ok = put(d, key, (struct slice){b.p, b.n}, err);
	buf_finish(&b);
	return ok;
}

static bool damage_entry(struct work *d, int key, bool present, uint8_t flags, struct pos pos,
						 struct err *err)
{
	uint8_t k[LAYOUT_KEY_SIZE];
	size_t n = layout_key(key, k);
	unsigned a = rng_below(&d->w->rng, 3);

	if (present && (pos.lsn.v >= d->limit.v || flags & ROW_DOUBT)) return true;
	d->damaged++;
	judge_forget(&d->w->judge, d->layout->table, key);
	if (!present)
		pos = (struct pos){SESSION_EPOCH, LSN(1 + rng_next(&d->w->rng) % (d->limit.v - 1)), 1};
	else
		--*counter_of(&d->rec, flags);
	if (a == 0) return put_ghost(d, key, pos, err);
	if (a == 1) return put_marker(d, key, pos, err);
	trace(d->w->source.trace, "damage: %s[%d] is not there", d->layout->name, key);
	return store_row_del(d->txn, d->layout->table_id, (struct slice){k, n}, err);
}

static bool damage_key(struct work *d, int key, struct err *err)
{
	uint8_t k[LAYOUT_KEY_SIZE], flags = 0;
	size_t n = layout_key(key, k);
	struct pos pos = POS_NONE;
	struct slice bytes;
	bool found;

	if (!store_row_get(d->txn, d->layout->table_id, (struct slice){k, n}, &bytes, &found, err)) return false;
	if (found && !row_peek(bytes, &flags, &pos)) return err_set(err, ERR_CORRUPT, "a short entry");
	return damage_entry(d, key, found, flags, pos, err);
}

static bool find_limit(struct work *d, struct err *err)
{
	struct checkpoint ck;
	bool found;

	if (!store_get_checkpoint(d->txn, &ck, &found, err)) return false;
	d->limit = found ? ck.lsn : LSN(0);
	return true;
}

static bool next_run(struct work *d, uint64_t *id, struct err *err)
{
	struct run_record *runs;
	size_t n;

	if (!store_list_runs(d->txn, &runs, &n, err)) return false;
	*id = n ? runs[n - 1].id + 1 : 1;
	for (size_t i = 0; i < n; i++)
		run_record_free(&runs[i]);
	free(runs);
	return true;
}

/* Some of it waits until the writers stop, and is put right by parts before. */
static void is_damaged(struct work *d, uint64_t next_run)
{
	int t = d->layout->table;

	d->w->judge.tables[t].mended_by = next_run;
	d->w->mend_later[t] = rng_chance(&d->w->rng, 60);
	for (uint64_t id = 1; id < next_run; id++)
		if (d->w->asks[id].table == t) judge_forget_ghosts(&d->w->judge, id);
}

static bool damage_table(struct work *d, struct err *err)
{
	uint64_t run = 0;
	bool found, ok = true;

	if (!find_limit(d, err) || !next_run(d, &run, err)) return false;
	if (!store_get_table(d->txn, d->layout->table_id, &d->rec, &found, err)) return false;
	if (!found) return true;
	if (d->rec.state == TABLE_COPIED && d->limit.v > 1) {
		for (int key = 0; ok && key < JUDGE_KEYS; key++)
			if (rng_chance(&d->w->rng, 40)) ok = damage_key(d, key, err);
		ok = ok && store_put_table(d->txn, &d->rec, err);
		if (d->damaged) is_damaged(d, run);
	}
	table_record_free(&d->rec);
	return ok;
}

bool damage_store(struct world *w, struct store *store, int table)
{
	struct work d = {.w = w, .layout = &w->layouts[table]};
	struct err err;
	bool ok;

	if (!store_begin_write(store, &d.txn, &err)) return trace_fail(&w->trace, "%s", err.msg);
	ok = damage_table(&d, &err);
	if (!ok)
		store_abort(d.txn);
	else
		ok = store_commit(d.txn, &err);
	if (!ok) return trace_fail(&w->trace, "%s", err.msg);
	return d.damaged > 0;
}
