#include "tests/fuzz/memstore.h"

#include <stdlib.h>
#include <unistd.h>

#include "state/store_impl.h"
#include "tests/fuzz/fuzz.h"

static struct store *store;
static struct tidemark reader;
static char dir[256];

static void remove_store(void)
{
	static const char *const names[] = {"data.mdb", "lock.mdb", "tidemark.lock", "tidemark.unsynced"};
	char path[300];

	memstore_reader_reset();
	store_close(store);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		snprintf(path, sizeof path, "%s/%s", dir, names[i]);
		unlink(path);
	}
	rmdir(dir);
}

static const char *root(void)
{
	const char *given = getenv("TIDEMARK_FUZZ_TMP");

	if (given && *given) return given;
	return access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
}

struct store *memstore(void)
{
	struct err err = {0};

	if (store) return store;
	snprintf(dir, sizeof dir, "%s/tidemark-fuzz-XXXXXX", root());
	CHECK_THAT(mkdtemp(dir), "%s", dir);
	CHECK_THAT(store_open(dir, STORE_WRITE_FAST, &store, &err), "%s", err.msg);
	reader.store = store;
	atexit(remove_store);
	return store;
}

static void ok(int rc, const char *what)
{
	CHECK_THAT(rc == 0 || rc == MDB_NOTFOUND, "%s: %s", what, mdb_strerror(rc));
}

static void forget(struct store_txn *t, const char *key)
{
	MDB_val k = val_of_text(key);

	ok(mdb_del(t->mdb, t->store->meta, &k, NULL), key);
}

/* Ids are given from 1 on, and databases stay, so those there are have no gaps. */
static void drop_rows(struct store_txn *t)
{
	struct err err = {0};

	for (uint32_t id = 1; handles_has(t, id); id++)
		CHECK_THAT(store_rows_drop(t, id, &err), "%s", err.msg);
}

void memstore_empty(void)
{
	struct store *s = memstore();
	struct store_txn *t;
	struct err err = {0};

	memstore_reader_reset();
	CHECK_THAT(store_begin_write(s, &t, &err), "%s", err.msg);
	drop_rows(t);
	ok(mdb_drop(t->mdb, s->tables, 0), "tables");
	ok(mdb_drop(t->mdb, s->schemas, 0), "schemas");
	ok(mdb_drop(t->mdb, s->runs, 0), "runs");
	ok(mdb_drop(t->mdb, s->unseen, 0), "unseen");
	forget(t, META_CHECKPOINT);
	forget(t, META_LINEAGE);
	CHECK_THAT(store_commit(t, &err), "%s", err.msg);
}

struct tidemark *memstore_reader(void)
{
	memstore();
	return &reader;
}

void memstore_reader_reset(void)
{
	tidemark_end(&reader);
	tables_forget(&reader);
	status_forget(&reader);
}
