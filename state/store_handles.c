#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "state/store_impl.h"

/*
 * LMDB's handles of rows.N, doubt.N and stage.N.
 *
 * A transaction can use the handles that were open when it began, and those it
 * opens itself; and only one transaction of a process may open handles at a time. So all
 * handles are opened ahead, in a short transaction, and a transaction that sees a table
 * made since then by another process is begun again after another such round (store_txn.c).
 * Databases are never removed and table ids never reused, so handles stay good, and the
 * number of names tells whether something is new.
 */

void handles_init(struct handles *h)
{
	h->slots = mem_alloc(HANDLE_SLOTS * sizeof *h->slots);
	handles_clear(h);
}

void handles_finish(struct handles *h)
{
	free(h->slots);
	h->slots = NULL;
}

void handles_clear(struct handles *h)
{
	for (size_t i = 0; i < HANDLE_SLOTS; i++) {
		atomic_init(&h->slots[i].id, 0);
		h->slots[i].dbis = (struct table_dbis){0};
	}
	h->names = 0;
}

/* The slot of id, or the free one where it would go. Ids are 1, 2, 3 ...: they are their own hash. */
static struct handle *slot_of(const struct store *s, uint32_t id)
{
	for (size_t i = 0; i < HANDLE_SLOTS; i++) {
		struct handle *h = &s->handles.slots[(id + i) % HANDLE_SLOTS];
		uint32_t there = atomic_load_explicit(&h->id, memory_order_acquire);

		if (there == id || there == 0) return h;
	}
	assert(!"more tables than handles");
	return NULL;
}

void handles_publish(struct store *s, const struct table_made *made, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct handle *h = slot_of(s, made[i].id);

		h->dbis = made[i].dbis;
		atomic_store_explicit(&h->id, made[i].id, memory_order_release);
	}
}

/* ---- looking up ---- */

static bool look_up(const struct store_txn *t, uint32_t id, struct table_dbis *out)
{
	const struct handle *h;

	for (size_t i = 0; i < t->nmade; i++) {
		if (t->made[i].id == id) {
			*out = t->made[i].dbis;
			return true;
		}
	}
	h = slot_of(t->store, id);
	if (atomic_load_explicit(&h->id, memory_order_acquire) != id || id == 0) return false;
	*out = h->dbis;
	return true;
}

bool handles_find(const struct store_txn *t, uint32_t table_id, struct table_dbis *out, struct err *err)
{
	if (look_up(t, table_id, out)) return true;
	return err_set(err, ERR_BUG, "store %s: there is no table %u", t->store->dir, table_id);
}

bool handles_has(const struct store_txn *t, uint32_t table_id)
{
	struct table_dbis dbis;

	return look_up(t, table_id, &dbis);
}

/* ---- opening ---- */

static int open_named(MDB_txn *txn, uint32_t id, unsigned flags, struct table_dbis *out)
{
	char name[24];
	int rc;

	snprintf(name, sizeof name, "rows.%u", id);
	rc = mdb_dbi_open(txn, name, flags, &out->rows);
	if (rc != 0) return rc;
	snprintf(name, sizeof name, "doubt.%u", id);
	rc = mdb_dbi_open(txn, name, flags, &out->doubt);
	if (rc != 0) return rc;
	snprintf(name, sizeof name, "stage.%u", id);
	return mdb_dbi_open(txn, name, flags, &out->stage);
}

bool handles_make(struct store_txn *t, uint32_t table_id, struct err *err)
{
	struct table_made *made;
	int rc;

	if (table_id == 0) return err_set(err, ERR_BUG, "store %s: table ids start at 1", t->store->dir);
	made = realloc(t->made, (t->nmade + 1) * sizeof *made);
	if (!made) return err_set(err, ERR_NOMEM, "out of memory");
	t->made = made;
	made[t->nmade].id = table_id;
	rc = open_named(t->mdb, table_id, MDB_CREATE, &made[t->nmade].dbis);
	if (rc != 0) return store_fail(t->store, rc, err, "making table %u", table_id);
	t->nmade++;
	return true;
}

/* N of "rows.N"; 0: another name. */
static uint32_t id_of_name(MDB_val name)
{
	static const char prefix[] = "rows.";
	const char *p = name.mv_data;
	uint64_t id = 0;
	size_t i = sizeof prefix - 1;

	if (name.mv_size <= i || name.mv_size > i + 10 || memcmp(p, prefix, i) != 0) return 0;
	for (; i < name.mv_size; i++) {
		if (p[i] < '0' || p[i] > '9') return 0;
		id = id * 10 + (uint64_t)(p[i] - '0');
	}
	return id <= UINT32_MAX ? (uint32_t)id : 0;
}

struct found {
	struct table_made *tables;
	size_t n, cap;
};

static int found_add(struct found *f, MDB_txn *txn, uint32_t id)
{
	int rc;

	if (f->n == f->cap) {
		size_t cap = f->cap ? f->cap * 2 : 16;
		struct table_made *grown = realloc(f->tables, cap * sizeof *grown);

		if (!grown) return ENOMEM;
		f->tables = grown;
		f->cap = cap;
	}
	f->tables[f->n].id = id;
	rc = open_named(txn, id, 0, &f->tables[f->n].dbis);
	if (rc == 0) f->n++;
	return rc == MDB_NOTFOUND ? MDB_CORRUPTED : rc; /* one without the others */
}

static int open_names(const struct store *s, MDB_txn *txn, struct found *f, size_t *names)
{
	MDB_cursor *c;
	MDB_val name, ignored;
	int rc = mdb_cursor_open(txn, s->main, &c);

	*names = 0;
	if (rc != 0) return rc;
	while ((rc = mdb_cursor_get(c, &name, &ignored, MDB_NEXT)) == 0) {
		uint32_t id = id_of_name(name);

		++*names;
		if (id == 0 || atomic_load(&slot_of(s, id)->id) == id) continue;
		rc = found_add(f, txn, id);
		if (rc != 0) break;
	}
	mdb_cursor_close(c);
	return rc == MDB_NOTFOUND ? 0 : rc;
}

int handles_open_all(struct store *s)
{
	struct found f = {0};
	MDB_txn *txn;
	size_t names;
	int rc = mdb_txn_begin(s->env, NULL, MDB_RDONLY, &txn);

	if (rc != 0) return rc;
	rc = open_names(s, txn, &f, &names);
	if (rc != 0) {
		mdb_txn_abort(txn);
		goto out;
	}
	rc = mdb_txn_commit(txn); /* keeps the handles */
	if (rc == 0) {
		handles_publish(s, f.tables, f.n);
		s->handles.names = names;
	}
out:
	free(f.tables);
	return rc;
}

bool handles_cover(const struct store *s, MDB_txn *txn)
{
	MDB_stat st;

	if (s->mode != STORE_READ) /* then it makes them all itself */
		return true;
	return mdb_stat(txn, s->main, &st) == 0 && st.ms_entries <= s->handles.names;
}
