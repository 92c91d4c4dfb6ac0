#include <stdlib.h>
#include <string.h>

#include "state/store_impl.h"

/* ---- one record by its key ---- */

static bool fetch(struct store_txn *t, MDB_dbi dbi, struct slice key, struct slice *out, bool *found,
				  const char *what, struct err *err)
{
	MDB_val k = val_of(key), v;
	int rc = mdb_get(t->mdb, dbi, &k, &v);

	*found = rc == 0;
	if (rc == 0) *out = slice_of_val(v);
	return rc == 0 || rc == MDB_NOTFOUND || store_fail(t->store, rc, err, "reading a %s record", what);
}

static bool store(struct store_txn *t, MDB_dbi dbi, struct slice key, struct slice value, const char *what,
				  struct err *err)
{
	MDB_val k = val_of(key), v = val_of(value);
	int rc = mdb_put(t->mdb, dbi, &k, &v, 0);

	return rc == 0 || store_fail(t->store, rc, err, "writing a %s record", what);
}

static bool store_buf(struct store_txn *t, MDB_dbi dbi, struct slice key, struct buf *value, const char *what,
					  struct err *err)
{
	bool ok = store(t, dbi, key, (struct slice){value->p, value->n}, what, err);

	buf_finish(value);
	return ok;
}

static bool in_store(const struct store_txn *t, bool decoded, struct err *err)
{
	return decoded || err_wrap(err, "store %s", t->store->dir);
}

/* ---- meta ---- */

bool store_get_checkpoint(struct store_txn *t, struct checkpoint *out, bool *found, struct err *err)
{
	struct slice v;

	*out = (struct checkpoint){0};
	if (!fetch(t, t->store->meta, slice_of(META_CHECKPOINT), &v, found, "checkpoint", err)) return false;
	return !*found || in_store(t, checkpoint_decode(v, out, err), err);
}

bool store_put_checkpoint(struct store_txn *t, const struct checkpoint *c, struct err *err)
{
	struct buf b = {0};

	checkpoint_encode(c, &b);
	return store_buf(t, t->store->meta, slice_of(META_CHECKPOINT), &b, "checkpoint", err);
}

bool store_get_lineage(struct store_txn *t, struct lineage *out, bool *found, struct err *err)
{
	struct slice v;

	*out = (struct lineage){0};
	if (!fetch(t, t->store->meta, slice_of(META_LINEAGE), &v, found, "lineage", err)) return false;
	return !*found || in_store(t, lineage_decode(v, out, err), err);
}

bool store_put_lineage(struct store_txn *t, const struct lineage *l, struct err *err)
{
	struct buf b = {0};

	lineage_encode(l, &b);
	return store_buf(t, t->store->meta, slice_of(META_LINEAGE), &b, "lineage", err);
}

bool store_get_history(struct store_txn *t, struct purge_history *out, bool *found, struct err *err)
{
	struct slice v;

	*out = HISTORY_NONE;
	if (!fetch(t, t->store->meta, slice_of(META_HISTORY), &v, found, "history", err)) return false;
	return !*found || in_store(t, history_decode(v, out, err), err);
}

bool store_put_history(struct store_txn *t, const struct purge_history *h, struct err *err)
{
	struct buf b = {0};

	history_encode(h, &b);
	return store_buf(t, t->store->meta, slice_of(META_HISTORY), &b, "history", err);
}

/* ---- tables, schemas, runs ---- */

struct id_key {
	uint8_t p[16];
	size_t n;
};

static struct id_key key32(uint32_t id)
{
	struct id_key k = {.n = 4};

	be32_put(k.p, id);
	return k;
}

static struct id_key key64(uint64_t id)
{
	struct id_key k = {.n = 8};

	be64_put(k.p, id);
	return k;
}

static struct id_key key_schema(uint32_t table_id, uint32_t version)
{
	return key64((uint64_t)table_id << 32 | version);
}

static struct slice slice_of_key(const struct id_key *k)
{
	return (struct slice){k->p, k->n};
}

bool store_get_table(struct store_txn *t, uint32_t id, struct table_record *out, bool *found, struct err *err)
{
	struct id_key k = key32(id);
	struct slice v;

	*out = (struct table_record){0};
	if (!fetch(t, t->store->tables, slice_of_key(&k), &v, found, "table", err)) return false;
	return !*found || in_store(t, table_record_decode(v, out, err), err);
}

bool store_put_table(struct store_txn *t, const struct table_record *r, struct err *err)
{
	struct id_key k = key32(r->id);
	struct buf b = {0};

	if (!store_make_table(t, r->id, err)) return false;
	table_record_encode(r, &b);
	return store_buf(t, t->store->tables, slice_of_key(&k), &b, "table", err);
}

bool store_make_table(struct store_txn *t, uint32_t id, struct err *err)
{
	return handles_has(t, id) || handles_make(t, id, err);
}

bool store_get_schema(struct store_txn *t, uint32_t table_id, uint32_t version, struct schema **out,
					  bool *found, struct err *err)
{
	struct id_key k = key_schema(table_id, version);
	struct slice v;

	*out = NULL;
	if (!fetch(t, t->store->schemas, slice_of_key(&k), &v, found, "schema", err)) return false;
	return !*found || in_store(t, schema_decode(v, out, err), err);
}

bool store_put_schema(struct store_txn *t, const struct schema *s, struct err *err)
{
	struct id_key k = key_schema(s->table_id, s->version);
	struct buf b = {0};

	schema_encode(s, &b);
	return store_buf(t, t->store->schemas, slice_of_key(&k), &b, "schema", err);
}

bool store_get_run(struct store_txn *t, uint64_t id, struct run_record *out, bool *found, struct err *err)
{
	struct id_key k = key64(id);
	struct slice v;

	*out = (struct run_record){0};
	if (!fetch(t, t->store->runs, slice_of_key(&k), &v, found, "run", err)) return false;
	return !*found || in_store(t, run_record_decode(v, out, err), err);
}

bool store_put_run(struct store_txn *t, const struct run_record *r, struct err *err)
{
	struct id_key k = key64(r->id);
	struct buf b = {0};

	run_record_encode(r, &b);
	return store_buf(t, t->store->runs, slice_of_key(&k), &b, "run", err);
}

/* ---- keys that a run lists ---- */

static struct id_key key_run_key(uint64_t run_id, uint64_t number)
{
	struct id_key k = {.n = 16};

	be64_put(k.p, run_id);
	be64_put(k.p + 8, number);
	return k;
}

bool store_put_run_key(struct store_txn *t, uint64_t run_id, uint64_t number, struct slice texts,
					   struct err *err)
{
	struct id_key k = key_run_key(run_id, number);

	return store(t, t->store->run_keys, slice_of_key(&k), texts, "run key", err);
}

bool store_get_run_key(struct store_txn *t, uint64_t run_id, uint64_t number, struct slice *texts,
					   bool *found, struct err *err)
{
	struct id_key k = key_run_key(run_id, number);

	return fetch(t, t->store->run_keys, slice_of_key(&k), texts, found, "run key", err);
}

bool store_del_run_keys(struct store_txn *t, uint64_t run_id, uint64_t n, struct err *err)
{
	int rc = 0;

	for (uint64_t i = 0; i < n && rc == 0; i++) {
		struct id_key key = key_run_key(run_id, i);
		MDB_val k = val_of(slice_of_key(&key));

		rc = mdb_del(t->mdb, t->store->run_keys, &k, NULL);
		if (rc == MDB_NOTFOUND) rc = 0;
	}
	return rc == 0 || store_fail(t->store, rc, err, "removing the keys of a run");
}

/* ---- all records of a kind ---- */

/* How one kind of record is taken from the database into an array. */
struct list_kind {
	const char *what;
	size_t size;
	bool (*decode)(struct slice key, struct slice value, void *out, struct err *err);
	void (*free_one)(void *record); /* NULL: nothing to free */
};

struct list {
	uint8_t *p;
	size_t n, cap;
};

static void list_free(struct list *l, const struct list_kind *kind)
{
	for (size_t i = 0; kind->free_one && i < l->n; i++)
		kind->free_one(l->p + i * kind->size);
	free(l->p);
}

static void *list_room(struct list *l, size_t size)
{
	if (l->n == l->cap) {
		size_t cap = l->cap ? l->cap * 2 : 16;
		uint8_t *p = mem_alloc(cap * size);

		if (l->n > 0) memcpy(p, l->p, l->n * size);
		free(l->p);
		l->p = p;
		l->cap = cap;
	}
	return l->p + l->n * size;
}

static bool list_all(struct store_txn *t, MDB_dbi dbi, const struct list_kind *kind, struct list *l,
					 struct err *err)
{
	MDB_cursor *c;
	MDB_val k, v;
	bool decoded = true;
	int rc = mdb_cursor_open(t->mdb, dbi, &c);

	*l = (struct list){0};
	if (rc != 0) return store_fail(t->store, rc, err, "reading the %s records", kind->what);
	while (decoded && (rc = mdb_cursor_get(c, &k, &v, MDB_NEXT)) == 0) {
		decoded = kind->decode(slice_of_val(k), slice_of_val(v), list_room(l, kind->size), err);
		if (decoded) l->n++;
	}
	mdb_cursor_close(c);
	if (decoded && rc == MDB_NOTFOUND) return true;
	if (decoded)
		store_fail(t->store, rc, err, "reading the %s records", kind->what);
	else
		err_wrap(err, "store %s", t->store->dir);
	list_free(l, kind);
	*l = (struct list){0};
	return false;
}

static bool decode_table(struct slice key, struct slice value, void *out, struct err *err)
{
	(void)key;
	return table_record_decode(value, out, err);
}

static void free_table(void *record)
{
	table_record_free(record);
}

bool store_list_tables(struct store_txn *t, struct table_record **out, size_t *n, struct err *err)
{
	static const struct list_kind kind = {"table", sizeof **out, decode_table, free_table};
	struct list l;
	bool ok = list_all(t, t->store->tables, &kind, &l, err);

	*out = (struct table_record *)(void *)l.p;
	*n = l.n;
	return ok;
}

static bool decode_run(struct slice key, struct slice value, void *out, struct err *err)
{
	(void)key;
	return run_record_decode(value, out, err);
}

static void free_run(void *record)
{
	run_record_free(record);
}

bool store_list_runs(struct store_txn *t, struct run_record **out, size_t *n, struct err *err)
{
	static const struct list_kind kind = {"run", sizeof **out, decode_run, free_run};
	struct list l;
	bool ok = list_all(t, t->store->runs, &kind, &l, err);

	*out = (struct run_record *)(void *)l.p;
	*n = l.n;
	return ok;
}

/* ---- not-yet-visible transactions ---- */

static bool decode_unseen(struct slice key, struct slice value, void *out, struct err *err)
{
	struct unseen_entry *e = out;

	if (key.n != 8 || value.n != 8)
		return err_set(err, ERR_CORRUPT, "the record of a transaction not yet visible is damaged");
	*e = (struct unseen_entry){LSN(be64_get(key.p)), XID(be64_get(value.p))};
	return true;
}

bool store_put_unseen(struct store_txn *t, struct unseen_entry e, struct err *err)
{
	struct id_key k = key64(e.commit_lsn.v), v = key64(e.xid.v);

	return store(t, t->store->unseen, slice_of_key(&k), slice_of_key(&v), "transaction", err);
}

bool store_del_unseen(struct store_txn *t, lsn_t commit_lsn, struct err *err)
{
	struct id_key key = key64(commit_lsn.v);
	MDB_val k = val_of(slice_of_key(&key));
	int rc = mdb_del(t->mdb, t->store->unseen, &k, NULL);

	return rc == 0 || rc == MDB_NOTFOUND || store_fail(t->store, rc, err, "removing a transaction record");
}

bool store_oldest_unseen(struct store_txn *t, lsn_t *out, struct err *err)
{
	struct unseen_entry e = {{0}, {0}};
	MDB_cursor *c;
	MDB_val k, v;
	bool ok = true;
	int rc = mdb_cursor_open(t->mdb, t->store->unseen, &c);

	if (rc != 0) return store_fail(t->store, rc, err, "reading the transaction records");
	rc = mdb_cursor_get(c, &k, &v, MDB_FIRST);
	if (rc == 0) ok = in_store(t, decode_unseen(slice_of_val(k), slice_of_val(v), &e, err), err);
	mdb_cursor_close(c);
	*out = e.commit_lsn;
	if (rc != 0 && rc != MDB_NOTFOUND)
		return store_fail(t->store, rc, err, "reading the transaction records");
	return ok;
}

bool store_list_unseen(struct store_txn *t, struct unseen_entry **out, size_t *n, struct err *err)
{
	static const struct list_kind kind = {"transaction", sizeof **out, decode_unseen, NULL};
	struct list l;
	bool ok = list_all(t, t->store->unseen, &kind, &l, err);

	*out = (struct unseen_entry *)(void *)l.p;
	*n = l.n;
	return ok;
}
