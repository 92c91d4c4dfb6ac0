#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "state/store_impl.h"

/*
 * A store is made under another name, synced, and then renamed: data.mdb is
 * never half made, so anything odd about it later is damage and is said to be.
 */

static int put_header(MDB_txn *txn, MDB_dbi meta)
{
	uint8_t format[4], id[STORE_ID_SIZE];
	MDB_val v = {sizeof format, format}, key = val_of_text(META_FORMAT);
	int rc;

	be32_put(format, STORE_FORMAT);
	if (getrandom(id, sizeof id, 0) != sizeof id) return EIO;
	rc = mdb_put(txn, meta, &key, &v, 0);
	if (rc != 0) return rc;
	key = val_of_text(META_ID);
	v = (MDB_val){sizeof id, id};
	return mdb_put(txn, meta, &key, &v, 0);
}

static int put_all(MDB_env *env)
{
	static const char *const names[] = {"tables", "schemas", "runs", "runkeys", "unseen", "meta"};
	MDB_txn *txn;
	MDB_dbi dbi = 0;
	int rc = mdb_txn_begin(env, NULL, 0, &txn);

	if (rc != 0) return rc;
	for (size_t i = 0; i < sizeof names / sizeof *names && rc == 0; i++)
		rc = mdb_dbi_open(txn, names[i], MDB_CREATE, &dbi);
	if (rc == 0) rc = put_header(txn, dbi);
	if (rc == 0) return store_commit_txn(txn);
	mdb_txn_abort(txn);
	return rc;
}

static void unlink_in(const char *dir, const char *file)
{
	char *path = dir_path(dir, file);

	unlink(path); /* usually not there */
	free(path);
}

/* Nobody else knows of it, so it needs no lock file, which would be a SIGBUS on a full disk. */
static int make_new(const char *path)
{
	MDB_env *env;
	int rc = env_open(path, MDB_NOSUBDIR | MDB_NOTLS | MDB_NOLOCK, STORE_MAP_SIZE, &env);

	if (rc != 0) return rc;
	rc = put_all(env);
	mdb_env_close(env);
	return rc;
}

bool store_create(struct store *s, struct err *err)
{
	char *from = dir_path(s->dir, STORE_DATA_NEW), *to = dir_path(s->dir, STORE_DATA);
	int rc;

	unlink_in(s->dir, STORE_DATA_NEW); /* of a creation that was killed */
	rc = make_new(from);
	/* What a removed store's readers still hold open must not be taken for this one's. */
	unlink_in(s->dir, STORE_LMDB_LOCK);
	unlink_in(s->dir, STORE_UNSYNCED);
	if (rc == 0 && rename(from, to) != 0) rc = errno;
	if (rc != 0) unlink_in(s->dir, STORE_DATA_NEW);
	free(from);
	free(to);
	return rc == 0 ? dir_sync(s->dir, err) : dir_fail(s->dir, rc, err, "creating the store");
}
