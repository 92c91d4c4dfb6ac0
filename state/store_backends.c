#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "state/store_impl.h"

/*
 * Which server processes belong to the writer of this file. The file is named with them by what a copy
 * of it does not have in common: whoever starts on a copy must not end the original's.
 */

#define BTIME_UNKNOWN 0 /* of a file system that does not keep it */

static bool put_file_id(const struct store *s, struct buf *out, struct err *err)
{
	struct statx st;
	int fd;
	int rc = mdb_env_get_fd(s->env, &fd);

	if (rc == 0 && statx(fd, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &st) != 0) rc = errno;
	if (rc != 0) return store_fail(s, rc, err, "looking at data.mdb");
	buf_put_u64(out, st.stx_ino);
	buf_put_u64(out, st.stx_mask & STATX_BTIME
						 ? (uint64_t)st.stx_btime.tv_sec * 1000000000 + st.stx_btime.tv_nsec
						 : BTIME_UNKNOWN);
	return true;
}

static char *decode(struct slice value, const struct buf *file_id)
{
	struct cur c = cur_of(value);
	struct slice id = cur_bytes(&c, file_id->n), text = cur_blob(&c);
	char *out;

	if (!cur_done(&c) || !slice_eq(id, (struct slice){file_id->p, file_id->n})) return NULL;
	out = mem_alloc(text.n + 1);
	memcpy(out, text.p, text.n);
	out[text.n] = '\0';
	return out;
}

bool store_get_backends(struct store_txn *t, char **out, struct err *err)
{
	MDB_val key = val_of_text(META_BACKENDS), v;
	struct buf id = {0};
	int rc = mdb_get(t->mdb, t->store->meta, &key, &v);
	bool ok;

	*out = NULL;
	if (rc == MDB_NOTFOUND) return true;
	if (rc != 0) return store_fail(t->store, rc, err, "reading which server processes are ours");
	ok = put_file_id(t->store, &id, err);
	if (ok) *out = decode(slice_of_val(v), &id);
	buf_finish(&id);
	return ok;
}

static bool put(struct store_txn *t, const struct buf *b, struct err *err)
{
	MDB_val key = val_of_text(META_BACKENDS), v = {b->n, b->p};
	int rc = mdb_put(t->mdb, t->store->meta, &key, &v, 0);

	return rc == 0 || store_fail(t->store, rc, err, "writing which server processes are ours");
}

bool store_put_backends(struct store_txn *t, const char *backends, struct err *err)
{
	struct buf b = {0};
	bool ok = put_file_id(t->store, &b, err);

	buf_put_str(&b, backends);
	ok = ok && put(t, &b, err);
	buf_finish(&b);
	return ok;
}
