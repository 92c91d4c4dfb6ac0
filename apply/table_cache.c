#include <stdlib.h>

#include "apply/applier_impl.h"

/* A number this high is damage, not a schema that changed so often. */
#define VERSION_MAX (UINT32_C(1) << 20)

/* ---- tables ---- */

struct table *table_find(struct applier *a, uint32_t id)
{
	struct table *t = a->last_table;

	if (t && t->rec.id == id) return t;
	HASH_FIND(hh, a->tables, &id, sizeof id, t);
	if (t) a->last_table = t;
	return t;
}

struct table *table_of(struct applier *a, uint32_t id, struct err *err)
{
	struct table *t = table_find(a, id);

	if (!t) err_set(err, ERR_BUG, "an operation names table %u, which the store does not have", id);
	return t;
}

void table_add(struct applier *a, struct table_record *rec)
{
	struct table *t = mem_alloc(sizeof *t);

	*t = (struct table){.rec = *rec, .doubt_posted = rec->doubt};
	HASH_ADD(hh, a->tables, rec.id, sizeof t->rec.id, t);
}

static void table_destroy(struct table *t)
{
	for (size_t i = 0; i < t->nversions; i++)
		schema_free(t->versions[i]);
	free(t->versions);
	buf_finish(&t->put);
	table_record_free(&t->rec);
	free(t);
}

/* ---- schemas ---- */

void table_set_schema(struct table *t, struct schema *s)
{
	size_t n = (size_t)s->version + 1;

	if (n > t->nversions) {
		struct schema **v = mem_alloc(n * sizeof *v);

		for (size_t i = 0; i < n; i++)
			v[i] = i < t->nversions ? t->versions[i] : NULL;
		free(t->versions);
		t->versions = v;
		t->nversions = n;
	}
	schema_free(t->versions[s->version]);
	t->versions[s->version] = s;
}

static const struct schema *schema_load(struct applier *a, struct table *t, uint32_t version, struct err *err)
{
	struct schema *s;
	bool found = false;

	if (version > 0 && version < VERSION_MAX &&
		!store_get_schema(a->txn, t->rec.id, version, &s, &found, err))
		return NULL;
	if (!found) {
		err_set(err, ERR_CORRUPT, "a row names schema version %u, which the store does not have", version);
		return NULL;
	}
	if (s->table_id != t->rec.id || s->version != version) {
		schema_free(s);
		err_set(err, ERR_CORRUPT, "schema version %u is stored under a wrong key", version);
		return NULL;
	}
	table_set_schema(t, s);
	return s;
}

const struct schema *table_schema(struct applier *a, struct table *t, uint32_t version, struct err *err)
{
	if (version < t->nversions && t->versions[version]) return t->versions[version];
	return schema_load(a, t, version, err);
}

/* ---- runs ---- */

bool run_find(struct applier *a, uint64_t id, struct run **out, struct err *err)
{
	struct run_record ended;
	bool found;

	HASH_FIND(hh, a->runs, &id, sizeof id, *out);
	if (*out) {
		if (!run_record_is_open(&(*out)->rec)) *out = NULL;
		return true;
	}
	if (!store_get_run(a->txn, id, &ended, &found, err)) return false;
	if (!found)
		return err_set(err, ERR_BUG, "an operation names run %llu, which the store does not have",
					   (unsigned long long)id);
	run_record_free(&ended);
	return true;
}

struct run *run_add(struct applier *a, struct run_record *rec)
{
	struct run *r = mem_alloc(sizeof *r);

	*r = (struct run){.rec = *rec};
	HASH_ADD(hh, a->runs, rec.id, sizeof r->rec.id, r);
	return r;
}

static void run_destroy(struct run *r)
{
	buf_finish(&r->cursor);
	buf_finish(&r->sweep_cursor);
	buf_finish(&r->first_snapshot);
	buf_finish(&r->last_snapshot);
	buf_finish(&r->error);
	run_record_free(&r->rec);
	free(r);
}

/* ---- the whole ---- */

static bool load_tables(struct applier *a, struct store_txn *txn, struct err *err)
{
	struct table_record *list;
	size_t n;

	if (!store_list_tables(txn, &list, &n, err)) return false;
	for (size_t i = 0; i < n; i++)
		table_add(a, &list[i]);
	free(list);
	return true;
}

/* Only open runs: those that have ended grow in number and are rarely asked for. */
static bool load_runs(struct applier *a, struct store_txn *txn, struct err *err)
{
	struct run_record *list;
	size_t n;

	if (!store_list_runs(txn, &list, &n, err)) return false;
	for (size_t i = 0; i < n; i++) {
		if (run_record_is_open(&list[i]))
			run_add(a, &list[i]);
		else
			run_record_free(&list[i]);
	}
	free(list);
	return true;
}

static bool load_checkpoint(struct applier *a, struct store_txn *txn, struct err *err)
{
	bool found;

	if (!store_get_checkpoint(txn, &a->committed, &found, err)) return false;
	if (!found) a->committed = (struct checkpoint){0};
	a->checkpoint = a->committed;
	return true;
}

static bool load_history(struct applier *a, struct store_txn *txn, struct err *err)
{
	bool found;

	if (!store_get_history(txn, &a->history, &found, err)) return false;
	if (!found) a->history = HISTORY_NONE;
	return true;
}

bool cache_load(struct applier *a, struct err *err)
{
	struct store_txn *txn;

	if (!store_begin_read(a->store, &txn, err)) return false;
	a->loaded = load_tables(a, txn, err) && load_runs(a, txn, err) && load_checkpoint(a, txn, err) &&
				load_history(a, txn, err) && store_get_overlay(txn, &a->overlay, err);
	store_abort(txn);
	a->overlay_committed = a->overlay;
	if (!a->loaded) cache_drop(a);
	return a->loaded;
}

void cache_drop(struct applier *a)
{
	struct table *t, *next_t;
	struct run *r, *next_r;

	HASH_ITER (hh, a->tables, t, next_t) {
		HASH_DEL(a->tables, t);
		table_destroy(t);
	}
	HASH_ITER (hh, a->runs, r, next_r) {
		HASH_DEL(a->runs, r);
		run_destroy(r);
	}
	a->last_table = a->walk.table = NULL;
	a->history_dirty = false;
	a->loaded = false;
}

static bool write_tables(struct applier *a, struct err *err)
{
	for (struct table *t = a->tables; t; t = t->hh.next) {
		if (t->dirty && !store_put_table(a->txn, &t->rec, err)) return false;
		t->dirty = false;
	}
	return true;
}

static bool write_runs(struct applier *a, struct err *err)
{
	struct run *r, *next;

	HASH_ITER (hh, a->runs, r, next) {
		if (r->dirty && !store_put_run(a->txn, &r->rec, err)) return false;
		r->dirty = false;
		if (!run_record_is_open(&r->rec)) {
			HASH_DEL(a->runs, r);
			run_destroy(r);
		}
	}
	return true;
}

static bool write_history(struct applier *a, struct err *err)
{
	if (!a->history_dirty) return true;
	a->history_dirty = false;
	return store_put_history(a->txn, &a->history, err);
}

bool cache_write(struct applier *a, struct err *err)
{
	return write_tables(a, err) && write_runs(a, err) && write_history(a, err);
}
