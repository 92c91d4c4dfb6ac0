#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "state/store_impl.h"

const char *store_dir(const struct store *s)
{
	return s->dir;
}

const uint8_t *store_id(const struct store *s)
{
	return s->id;
}

/* ---- begin ---- */

/* Counted in s->active by the caller already. */
static struct store_txn *txn_new(struct store *s, MDB_txn *mdb, bool write)
{
	struct store_txn *t = mem_alloc(sizeof *t);

	*t = (struct store_txn){.store = s, .mdb = mdb, .write = write};
	return t;
}

static int begin_or_renew(struct store *s, MDB_txn **out)
{
	int rc;

	*out = s->idle;
	if (!s->idle) return mdb_txn_begin(s->env, NULL, MDB_RDONLY, out);
	rc = mdb_txn_renew(s->idle);
	if (rc != 0) mdb_txn_abort(s->idle);
	s->idle = NULL;
	return rc;
}

/*
 * After an I/O error, and when another process has made the map larger than ours.
 * Other transactions would lose the map under their feet.
 */
static bool open_again(struct store *s, struct err *err)
{
	if (atomic_load(&s->active) == 0) return store_reopen(s, err);
	return err_set(err, ERR_DISK,
				   "store %s has to be opened again: end the other transactions of this process first",
				   s->dir);
}

static bool begin_read_locked(struct store *s, MDB_txn **out, struct err *err)
{
	int rc;

	if (!s->env && !open_again(s, err)) return false;
	rc = begin_or_renew(s, out);
	if (rc == MDB_MAP_RESIZED || rc == MDB_PANIC) {
		if (!open_again(s, err)) return false;
		rc = begin_or_renew(s, out);
	}
	while (rc == 0 && !handles_cover(s, *out)) {
		mdb_txn_abort(*out);
		rc = handles_open_all(s);
		if (rc == 0) rc = begin_or_renew(s, out);
	}
	return rc == 0 || store_fail(s, rc, err, "beginning to read");
}

bool store_begin_read(struct store *s, struct store_txn **out, struct err *err)
{
	MDB_txn *mdb;
	bool ok;

	*out = NULL;
	pthread_mutex_lock(&s->lock);
	ok = begin_read_locked(s, &mdb, err);
	if (ok) atomic_fetch_add(&s->active, 1);
	pthread_mutex_unlock(&s->lock);
	if (ok) *out = txn_new(s, mdb, false);
	return ok;
}

/*
 * The environment is open and what it shows is durable. Counts as a transaction,
 * so that nobody else opens it again; LMDB's write lock is never waited for under ours.
 */
static bool writer_enter(struct store *s, struct err *err)
{
	bool ok;

	if (!dir_is_unchanged(s, err)) return false;
	pthread_mutex_lock(&s->lock);
	ok = (s->env && !atomic_load(&s->must_reopen)) || open_again(s, err);
	if (ok) atomic_fetch_add(&s->active, 1);
	pthread_mutex_unlock(&s->lock);
	if (!ok || !atomic_load(&s->undurable) || store_make_durable(s, err)) return ok;
	atomic_store(&s->must_reopen, true);
	atomic_fetch_sub(&s->active, 1);
	return false;
}

static void writer_leave(struct store *s)
{
	atomic_fetch_sub(&s->active, 1);
}

/* Entered and not left when it succeeds: that is the transaction's count. */
static bool begin_write(struct store *s, MDB_txn **out, struct err *err)
{
	int rc = MDB_PANIC;

	for (int attempt = 0; rc == MDB_PANIC && attempt < 2; attempt++) {
		if (!writer_enter(s, err)) return false;
		rc = mdb_txn_begin(s->env, NULL, 0, out);
		if (rc == 0) return true;
		writer_leave(s);
		if (rc == MDB_PANIC) atomic_store(&s->must_reopen, true);
	}
	return store_fail(s, rc, err, "beginning to write");
}

bool store_begin_write(struct store *s, struct store_txn **out, struct err *err)
{
	MDB_txn *mdb;

	*out = NULL;
	if (s->mode == STORE_READ) return err_set(err, ERR_BUG, "store %s is open for reading only", s->dir);
	if (atomic_exchange(&s->writing, true)) /* LMDB would wait for it, in the same thread forever */
		return err_set(err, ERR_BUG, "store %s: a write transaction is open", s->dir);
	if (begin_write(s, &mdb, err)) {
		*out = txn_new(s, mdb, true);
		return true;
	}
	atomic_store(&s->writing, false);
	return false;
}

uint64_t store_txn_id(const struct store_txn *t)
{
	return mdb_txn_id(t->mdb);
}

/* ---- end ---- */

static void txn_free(struct store_txn *t)
{
	struct store *s = t->store;

	if (t->write) {
		for (size_t i = 0; i < s->ncursors_open; i++)
			s->cursors[s->cursors_open[i]] = NULL; /* LMDB freed them with the transaction */
		s->ncursors_open = 0;
		atomic_store(&s->writing, false);
	}
	free(t->made);
	overlay_finish(&t->overlay);
	free(t);
	atomic_fetch_sub(&s->active, 1);
}

/* Kept for the next one. Never waits: the lock may be held for as long as a commit takes. */
static void end_read(struct store_txn *t)
{
	struct store *s = t->store;

	if (pthread_mutex_trylock(&s->lock) != 0) {
		mdb_txn_abort(t->mdb);
		return;
	}
	if (s->idle) {
		mdb_txn_abort(t->mdb);
	} else {
		mdb_txn_reset(t->mdb);
		s->idle = t->mdb;
	}
	pthread_mutex_unlock(&s->lock);
}

static bool is_at_limit(MDB_env *env)
{
	struct rlimit limit;
	struct stat st;
	int fd;

	return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
		   mdb_env_get_fd(env, &fd) == 0 && fstat(fd, &st) == 0 && (rlim_t)st.st_size >= limit.rlim_cur;
}

/*
 * A write that a full disk cuts short is how it shows itself first. LMDB calls
 * that EIO too, but there was no error then for errno to tell.
 */
int store_commit_txn(MDB_txn *txn)
{
	MDB_env *env = mdb_txn_env(txn);
	int rc;

	errno = 0;
	rc = mdb_txn_commit(txn);
	if (rc != EIO || errno != 0) return rc;
	return is_at_limit(env) ? EFBIG : ENOSPC;
}

/*
 * A sync that failed may have lost the previous commit's meta page without a
 * trace: the kernel reports it once and forgets. Opening again makes what is there durable.
 */
static bool commit_failed(struct store *s, int rc, struct err *err)
{
	if (rc == EIO) atomic_store(&s->must_reopen, true);
	return store_fail(s, rc, err, "committing");
}

static int commit_with_tables(struct store_txn *t)
{
	struct store *s = t->store;
	int rc;

	pthread_mutex_lock(&s->lock);
	rc = store_commit_txn(t->mdb);
	if (rc == 0) handles_publish(s, t->made, t->nmade);
	pthread_mutex_unlock(&s->lock);
	return rc;
}

bool store_commit(struct store_txn *t, struct err *err)
{
	struct store *s = t->store;
	int rc;

	if (!t->write) {
		store_abort(t);
		return true;
	}
	rc = t->nmade > 0 ? commit_with_tables(t) : store_commit_txn(t->mdb);
	txn_free(t);
	return rc == 0 || commit_failed(s, rc, err);
}

void store_abort(struct store_txn *t)
{
	if (!t) return;
	if (t->write)
		mdb_txn_abort(t->mdb);
	else
		end_read(t);
	txn_free(t);
}

/* ---- sync ---- */

static bool sync_entered(struct store *s, struct err *err)
{
	int rc;

	if (s->unsynced) return store_end_unsynced(s, err);
	rc = mdb_env_sync(s->env, 1);
	if (rc == 0) return true;
	atomic_store(&s->must_reopen, true);
	return store_fail(s, rc, err, "syncing");
}

bool store_sync(struct store *s, struct err *err)
{
	bool ok;

	if (s->mode == STORE_READ) return err_set(err, ERR_BUG, "store %s is open for reading only", s->dir);
	if (!writer_enter(s, err)) return false;
	ok = sync_entered(s, err);
	writer_leave(s);
	return ok;
}

/* ---- figures ---- */

struct reader_scan {
	struct store_info *out;
	uint64_t oldest;
};

/* One line of mdb_reader_list(): process, thread, transaction or "-". The first line is a heading. */
static int take_reader(const char *line, void *ctx)
{
	struct reader_scan *scan = ctx;
	char txn[24];
	int pid;

	if (sscanf(line, "%d %*x %23s", &pid, txn) != 2) return 0;
	scan->out->readers++;
	if (txn[0] == '-' || pid == getpid()) return 0;
	if (scan->out->oldest_reader_pid == 0 || strtoull(txn, NULL, 10) < scan->oldest) {
		scan->out->oldest_reader_pid = pid;
		scan->oldest = strtoull(txn, NULL, 10);
	}
	return 0;
}

static void info_readers(struct store *s, const MDB_envinfo *env, struct store_info *out)
{
	struct reader_scan scan = {.out = out};

	mdb_reader_list(s->env, take_reader, &scan);
	out->readers_max = env->me_maxreaders;
	if (out->oldest_reader_pid != 0 && scan.oldest < out->last_txn)
		out->oldest_reader_lag = out->last_txn - scan.oldest;
}

/* Free pages: the first word of each list in LMDB's database 0. */
static int count_free(MDB_txn *txn, uint64_t *out)
{
	MDB_cursor *c;
	MDB_val key, list;
	int rc = mdb_cursor_open(txn, 0, &c);

	*out = 0;
	if (rc != 0) return rc;
	while ((rc = mdb_cursor_get(c, &key, &list, MDB_NEXT)) == 0) {
		size_t n = 0;

		if (list.mv_size >= sizeof n) memcpy(&n, list.mv_data, sizeof n);
		*out += n;
	}
	mdb_cursor_close(c);
	return rc == MDB_NOTFOUND ? 0 : rc;
}

static bool info_pages(struct store_txn *t, const MDB_envinfo *env, struct store_info *out, struct err *err)
{
	uint64_t pages = env->me_last_pgno + 1, unused;
	MDB_stat st;
	int rc = count_free(t->mdb, &unused);

	if (rc == 0) rc = mdb_stat(t->mdb, t->store->main, &st);
	if (rc != 0) return store_fail(t->store, rc, err, "counting its pages");
	out->used_bytes = (pages > unused ? pages - unused : 0) * st.ms_psize;
	return true;
}

bool store_info(struct store *s, struct store_info *out, struct err *err)
{
	struct store_txn *t;
	struct stat st;
	MDB_envinfo env;
	bool ok;
	int fd;

	*out = (struct store_info){0};
	if (!store_begin_read(s, &t, err)) return false;
	mdb_env_info(s->env, &env);
	out->last_txn = env.me_last_txnid;
	info_readers(s, &env, out);
	ok = info_pages(t, &env, out, err);
	store_abort(t);
	if (!ok) return false;
	if (mdb_env_get_fd(s->env, &fd) != 0 || fstat(fd, &st) != 0)
		return store_fail(s, errno, err, "measuring data.mdb");
	out->file_bytes = (uint64_t)st.st_size;
	return true;
}

int store_reap_readers(struct store *s)
{
	int dead = 0;

	pthread_mutex_lock(&s->lock);
	if (s->env) mdb_reader_check(s->env, &dead);
	pthread_mutex_unlock(&s->lock);
	return dead;
}
