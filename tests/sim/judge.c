#include "tests/sim/judge.h"

#include <stdlib.h>
#include <string.h>

#include "tests/sim/trace.h"

void judge_init(struct judge *j)
{
	*j = (struct judge){0};
	for (int t = 0; t < SRC_TABLES_MAX; t++)
		for (int k = 0; k < JUDGE_KEYS; k++)
			j->tables[t].keys[k] = (struct judge_key){.index = -1, .known = true};
}

void judge_forget(struct judge *j, int table, int key)
{
	j->tables[table].keys[key] = (struct judge_key){.index = -1, .tainted = true};
}

void judge_forget_ghosts(struct judge *j, uint64_t run)
{
	j->runs[run].ghosts = UINT32_MAX;
	j->runs[run].sure = 0;
}

/* FNV-1a; never 0. */
uint64_t judge_digest(struct slice bytes)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < bytes.n; i++)
		h = (h ^ bytes.p[i]) * UINT64_C(0x100000001b3);
	return h ? h : 1;
}

struct src_row judge_truth(const struct judge *j, const struct judge_view *v, int table, int key)
{
	if (key >= v->source->tables[table].nkeys) return (struct src_row){0};
	return source_read_at(v->source, j->checkpoint, table, key);
}

static bool is_visible(const struct held *h, int key)
{
	return h->present[key] && !(h->entries[key].flags & (ROW_DELETED | ROW_HIDDEN));
}

/* ---- reading ---- */

static bool hold_entry(struct held *h, struct slice key, struct slice bytes, struct err *err)
{
	int k = layout_key_of(key);
	struct layout_entry *e;

	if (k < 0 || k >= JUDGE_KEYS) return err_set(err, ERR_CORRUPT, "a key that no table has");
	e = &h->entries[k];
	if (!layout_decode(h->layout, bytes, e, err)) return err_wrap(err, "%s[%d]", h->layout->name, k);
	h->present[k] = true;
	h->digests[k] = judge_digest(bytes);
	if (e->flags & ROW_DELETED)
		h->markers++;
	else if (e->flags & ROW_HIDDEN)
		h->hidden++;
	else
		h->live++;
	if (e->flags & ROW_DOUBT) h->doubt++;
	if (!(e->flags & ROW_DELETED) && e->key != k)
		return err_set(err, ERR_CORRUPT, "%s[%d] holds the row of key %d", h->layout->name, k, e->key);
	return true;
}

static bool hold_rows(struct held *h, struct store_txn *txn, struct err *err)
{
	struct store_scan *scan = NULL;
	struct slice key, bytes;
	bool found = true, ok;

	ok = store_scan_open(txn, h->rec->id, SPACE_ROWS, (struct slice){0}, &scan, err);
	while (ok && (ok = store_scan_next(scan, &key, &bytes, &found, err)) && found)
		ok = hold_entry(h, key, bytes, err);
	store_scan_close(scan);
	return ok;
}

/* The index of doubts names the entries in doubt, and others only when a stage may have left them. */
static bool check_doubts(const struct held *h, struct store_txn *txn, bool stages, struct err *err)
{
	struct store_scan *scan = NULL;
	struct slice key, bytes;
	bool found = true, ok;
	uint64_t n = 0;

	ok = store_scan_open(txn, h->rec->id, SPACE_DOUBT, (struct slice){0}, &scan, err);
	while (ok && (ok = store_scan_next(scan, &key, &bytes, &found, err)) && found) {
		int k = layout_key_of(key);
		bool doubt = k >= 0 && k < JUDGE_KEYS && h->present[k] && h->entries[k].flags & ROW_DOUBT;

		n += doubt;
		if (!doubt && !stages)
			ok = err_set(err, ERR_CORRUPT, "%s[%d] is indexed as in doubt and is not", h->layout->name, k);
	}
	store_scan_close(scan);
	if (ok && n != h->doubt)
		return err_set(err, ERR_CORRUPT, "%s: not every doubt is indexed", h->layout->name);
	return ok;
}

static bool check_counters(const struct held *h, struct err *err)
{
	const struct table_record *r = h->rec;

	if (r->live == h->live && r->hidden == h->hidden && r->doubt == h->doubt && r->markers == h->markers)
		return true;
	return err_set(
		err, ERR_CORRUPT, "%s counts %lu live %lu hidden %lu in doubt %lu markers, has %lu %lu %lu %lu",
		h->layout->name, r->live, r->hidden, r->doubt, r->markers, h->live, h->hidden, h->doubt, h->markers);
}

/* ---- judging ---- */

/* The version is one that was committed below the checkpoint, and not older than what was shown before. */
static bool check_version(struct judge *j, const struct source *s, const struct held *h, int key)
{
	int t = h->layout->table;
	const struct layout_entry *e = &h->entries[key];
	struct judge_key *seen = &j->tables[t].keys[key];
	const struct src_chain *chain = &s->tables[t].chains[key];
	int index = key < s->tables[t].nkeys ? source_find_version(s, t, key, e->row.version) : -1;
	const struct src_tx *tx;

	if (index < 0)
		return trace_fail(s->trace, "%s[%d] shows v%u, which that key never had", h->layout->name, key,
						  e->row.version);
	tx = chain->v[index].tx;
	if (tx && (tx->commit_lsn.v == 0 || tx->commit_lsn.v >= j->checkpoint.v))
		return trace_fail(s->trace, "%s[%d] shows v%u, committed at %lu, at checkpoint %lu", h->layout->name,
						  key, e->row.version, tx->commit_lsn.v, j->checkpoint.v);
	if (index < seen->index)
		return trace_fail(s->trace, "%s[%d] goes back to v%u after v%u", h->layout->name, key, e->row.version,
						  chain->v[seen->index].row.version);
	if (index == seen->index && seen->gone)
		return trace_fail(s->trace, "%s[%d] v%u comes back after it was gone", h->layout->name, key,
						  e->row.version);
	if (e->pos.ordinal && (tx == NULL || tx->commit_lsn.v != e->pos.lsn.v))
		return trace_fail(s->trace, "%s[%d] v%u has position %lu of another transaction", h->layout->name,
						  key, e->row.version, e->pos.lsn.v);
	seen->index = index;
	seen->gone = false;
	return true;
}

static bool check_values(const struct judge *j, const struct source *s, const struct held *h, int key)
{
	int t = h->layout->table;
	const struct layout_entry *e = &h->entries[key];
	int index = source_find_version(s, t, key, e->row.version);
	struct src_row truth = s->tables[t].chains[key].v[index].row;

	if (e->row.tenant != truth.tenant)
		return trace_fail(s->trace, "%s[%d] v%u shows tenant %u, it is %u", h->layout->name, key,
						  e->row.version, e->row.tenant, truth.tenant);
	if (e->other_doubt)
		return trace_fail(s->trace, "%s[%d] doubts a column that is always sent", h->layout->name, key);
	for (int i = 0; i < h->layout->nwide; i++)
		if (!e->doubt[i] && e->row.wide[i] != truth.wide[i] && !j->tables[t].keys[key].tainted)
			return trace_fail(s->trace, "%s[%d] v%u shows wide value %u as certain, it is %u",
							  h->layout->name, key, e->row.version, e->row.wide[i], truth.wide[i]);
	return true;
}

/* A row that was visible and has only been updated since stays visible. */
static bool check_hidden(const struct judge *j, const struct source *s, const struct held *h, int key)
{
	int t = h->layout->table;
	const struct judge_key *seen = &j->tables[t].keys[key];
	const struct src_chain *chain = &s->tables[t].chains[key];
	int index = source_find_version(s, t, key, h->entries[key].row.version);

	if (seen->index < 0 || seen->gone) return true;
	for (int i = seen->index; i <= index; i++)
		if (!source_publishes(&s->tables[t], chain->v[i].row)) return true;
	return trace_fail(s->trace, "%s[%d] was visible as v%u and is hidden as v%u", h->layout->name, key,
					  chain->v[seen->index].row.version, h->entries[key].row.version);
}

static bool check_key(struct judge *j, const struct source *s, const struct held *h, int key)
{
	int t = h->layout->table;
	const struct layout_entry *e = &h->entries[key];
	bool row = h->present[key] && !(e->flags & ROW_DELETED);

	if (row && e->row.version >= GHOST_VERSION && j->tables[t].keys[key].tainted) return true;
	if (row && (e->flags & ROW_HIDDEN) && key < s->tables[t].nkeys && !check_hidden(j, s, h, key))
		return false;
	if (is_visible(h, key)) return check_version(j, s, h, key) && check_values(j, s, h, key);
	j->tables[t].keys[key].gone = true;
	return true;
}

bool judge_agrees(const struct layout *l, struct src_row truth, const struct layout_entry *e)
{
	if (truth.version != e->row.version || truth.tenant != e->row.tenant) return false;
	for (int i = 0; i < l->nwide; i++)
		if (!e->doubt[i] && truth.wide[i] != e->row.wide[i]) return false;
	return true;
}

static bool check_exact(const struct judge *j, const struct judge_view *v, const struct held *h)
{
	int t = h->layout->table;

	for (int k = 0; k < JUDGE_KEYS; k++) {
		const struct layout_entry none = {0}, *e = is_visible(h, k) ? &h->entries[k] : &none;
		struct src_row want = judge_truth(j, v, t, k);

		if (!j->tables[t].keys[k].tainted && !judge_agrees(h->layout, want, e))
			return trace_fail(v->source->trace,
							  "%s is live at %lu, [%d] has v%u w%u,%u, the source v%u w%u,%u",
							  h->layout->name, j->checkpoint.v, k, e->row.version, e->row.wide[0],
							  e->row.wide[1], want.version, want.wide[0], want.wide[1]);
	}
	return true;
}

/* ---- what nothing is about stays as it is ---- */

static bool may_change(const struct judge *j, const struct judge_key *k, const struct held *h, int key)
{
	bool purged = j->purged && k->flags & ROW_DELETED && !h->present[key];

	return !k->known || k->streamed || k->allowed || purged;
}

static bool check_change(struct judge *j, const struct judge_view *v, const struct held *h, int key)
{
	struct judge_key *k = &j->tables[h->layout->table].keys[key];
	bool same = k->digest == h->digests[key];

	if (!same && !may_change(j, k, h, key))
		return trace_fail(v->source->trace, "%s[%d] has changed, and no run is about it", h->layout->name,
						  key);
	k->known = true;
	k->digest = h->digests[key];
	k->flags = h->entries[key].flags;
	k->row = h->entries[key].row;
	return true;
}

/* ---- looking ---- */

static bool look_runs(struct judge *j, const struct judge_view *v, const struct held *h,
					  const struct run_record *runs, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (runs[i].table_id == h->rec->id && !judge_look_run(j, v, h, &runs[i])) return false;
	return true;
}

static void judge_held(struct judge *j, const struct judge_view *v, const struct held *h)
{
	const struct source *s = v->source;
	struct judge_table *seen = &j->tables[h->layout->table];
	bool live = table_record_is_live(h->rec);

	for (int k = 0; k < JUDGE_KEYS && !s->trace->failed; k++)
		if (check_change(j, v, h, k)) check_key(j, s, h, k);
	seen->live = live && !seen->mended_by;
	if (live && !s->trace->failed) check_exact(j, v, h);
}

static bool look_table(struct judge *j, const struct judge_view *v, struct table_record *rec,
					   const struct run_record *runs, size_t nruns, struct store_txn *txn, struct err *err)
{
	struct held *h = calloc(1, sizeof *h);
	bool ok;

	if (h == NULL) return err_set(err, ERR_NOMEM, "out of memory");
	h->layout = &v->layouts[rec->id - 1];
	h->rec = rec;
	ok = hold_rows(h, txn, err) && check_doubts(h, txn, v->stages, err) && check_counters(h, err);
	if (ok && look_runs(j, v, h, runs, nruns)) judge_held(j, v, h);
	free(h);
	return ok;
}

static bool look_tables(struct judge *j, const struct judge_view *v, const struct run_record *runs,
						size_t nruns, struct store_txn *txn, struct err *err)
{
	struct table_record *tables;
	bool ok = true;
	size_t n;

	if (!store_list_tables(txn, &tables, &n, err)) return false;
	for (size_t i = 0; i < n; i++) {
		if (ok && !v->source->trace->failed) ok = look_table(j, v, &tables[i], runs, nruns, txn, err);
		table_record_free(&tables[i]);
	}
	free(tables);
	return ok;
}

static bool check_names(const struct judge_view *v, const struct run_record *runs, size_t n)
{
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < i; k++)
			if (runs[i].name[0] && strcmp(runs[i].name, runs[k].name) == 0 &&
				runs[i].table_id == runs[k].table_id && run_record_is_open(&runs[i]) &&
				run_record_is_open(&runs[k]))
				return trace_fail(v->source->trace, "runs %lu and %lu have one name", runs[k].id, runs[i].id);
	return true;
}

static bool look(struct judge *j, const struct judge_view *v, struct store_txn *txn, struct err *err)
{
	struct run_record *runs;
	struct checkpoint ck;
	bool found, ok;
	size_t n;

	if (!store_get_checkpoint(txn, &ck, &found, err) || !store_list_runs(txn, &runs, &n, err)) return false;
	j->checkpoint = found ? ck.lsn : LSN(0);
	j->runs_open = false;
	for (size_t i = 0; i < n; i++)
		j->runs_open |= run_record_is_open(&runs[i]);
	ok = !check_names(v, runs, n) || look_tables(j, v, runs, n, txn, err);
	for (size_t i = 0; i < n; i++)
		run_record_free(&runs[i]);
	free(runs);
	return ok;
}

/* They are about what was applied since the last look. */
static void drop_notes(struct judge *j)
{
	j->purged = false;
	for (uint64_t id = 1; id <= j->last_run; id++)
		j->runs[id].moved = false;
	for (int t = 0; t < SRC_TABLES_MAX; t++) {
		j->tables[t].done = false;
		for (int k = 0; k < JUDGE_KEYS; k++)
			j->tables[t].keys[k].allowed = j->tables[t].keys[k].late = false;
	}
}

bool judge_look(struct judge *j, const struct judge_view *v, struct store *store)
{
	struct store_txn *txn = NULL;
	struct err err;
	bool ok = store_begin_read(store, &txn, &err) && look(j, v, txn, &err);

	store_abort(txn);
	if (!ok) trace_fail(v->source->trace, "%s", err.msg);
	drop_notes(j);
	return !v->source->trace->failed;
}
