#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "state/store_impl.h"

/*
 * Flags.
 * NOMETASYNC  one fdatasync a commit instead of two writes to the disk: a power loss can
 *             undo the last commit and no more, and the reader of the stream
 *             acknowledges accordingly.
 * NOTLS       read transactions belong to no thread.
 * NORDAHEAD   for the writer: the guard reads rows in random order, and each miss would
 *             drag 128 KiB into memory. Readers keep it: scans profit, and for
 *             random misses the kernel stops by itself.
 */
#define READ_FLAGS  (MDB_RDONLY | MDB_NOTLS)
#define WRITE_FLAGS (MDB_NOMETASYNC | MDB_NOTLS | MDB_NORDAHEAD)

#define MAP_MIN (UINT64_C(1) << 20)

static int env_try(const char *path, unsigned flags, uint64_t map_size, MDB_env **out)
{
	MDB_env *env;
	int rc = mdb_env_create(&env);

	if (rc != 0) return rc;
	rc = mdb_env_set_maxreaders(env, STORE_READERS_MAX);
	if (rc == 0) rc = mdb_env_set_maxdbs(env, STORE_DBS_MAX);
	if (rc == 0) rc = mdb_env_set_mapsize(env, map_size);
	if (rc == 0) rc = mdb_env_open(env, path, flags, 0660);
	if (rc == 0)
		*out = env;
	else
		mdb_env_close(env); /* a failed open leaves nothing to try again with */
	return rc;
}

int env_open(const char *path, unsigned flags, uint64_t map_size, MDB_env **out)
{
	int rc = env_try(path, flags, map_size, out);

	/* Where address space is short, mmap says ENOMEM, or EINVAL (valgrind). */
	while ((rc == ENOMEM || rc == EINVAL) && map_size / 2 >= MAP_MIN) {
		map_size /= 2;
		rc = env_try(path, flags, map_size, out);
	}
	return rc;
}

/* ---- is it ours? ---- */

static bool is_foreign(const struct store *s, struct err *err)
{
	return err_set(err, ERR_CORRUPT,
				   "store %s: data.mdb is an LMDB file that Tidemark did not make: use an empty directory",
				   s->dir);
}

static bool check_format(struct store *s, MDB_txn *txn, struct err *err)
{
	MDB_val key = val_of_text(META_FORMAT), v;
	int rc = mdb_get(txn, s->meta, &key, &v);
	uint32_t format;

	if (rc == MDB_NOTFOUND || (rc == 0 && v.mv_size != 4)) return is_foreign(s, err);
	if (rc != 0) return store_fail(s, rc, err, "reading its format");
	format = be32_get(v.mv_data);
	if (format == STORE_FORMAT) return true;
	if (format == 0) return is_foreign(s, err);
	if (format < STORE_FORMAT)
		return err_set(
			err, ERR_CORRUPT,
			"store %s was written by an older version (format %u, this program reads %d): start over "
			"in an empty directory, or go on with that version",
			s->dir, format, STORE_FORMAT);
	s->why = WHY_NEWER;
	return err_set(err, ERR_CORRUPT,
				   "store %s was written by a newer version (format %u, this program reads %d): upgrade",
				   s->dir, format, STORE_FORMAT);
}

static bool read_id(struct store *s, MDB_txn *txn, struct err *err)
{
	MDB_val key = val_of_text(META_ID), v;
	int rc = mdb_get(txn, s->meta, &key, &v);

	if (rc == MDB_NOTFOUND || (rc == 0 && v.mv_size != STORE_ID_SIZE)) return is_foreign(s, err);
	if (rc != 0) return store_fail(s, rc, err, "reading its id");
	memcpy(s->id, v.mv_data, STORE_ID_SIZE);
	return true;
}

static bool open_one(struct store *s, MDB_txn *txn, const char *name, MDB_dbi *out, struct err *err)
{
	int rc = mdb_dbi_open(txn, name, 0, out);

	if (rc == MDB_NOTFOUND || rc == MDB_INCOMPATIBLE) return is_foreign(s, err);
	return rc == 0 || store_fail(s, rc, err, "opening its database %s", name ? name : "of databases");
}

/* The format first: of a newer one nothing else is known. */
static bool open_fixed(struct store *s, MDB_txn *txn, struct err *err)
{
	return open_one(s, txn, NULL, &s->main, err) && open_one(s, txn, "meta", &s->meta, err) &&
		   check_format(s, txn, err) && read_id(s, txn, err) && open_one(s, txn, "tables", &s->tables, err) &&
		   open_one(s, txn, "schemas", &s->schemas, err) && open_one(s, txn, "runs", &s->runs, err) &&
		   open_one(s, txn, "runkeys", &s->run_keys, err) && open_one(s, txn, "unseen", &s->unseen, err);
}

/*
 * LMDB takes the number of the last transaction from lock.mdb while any process
 * has that open. If data.mdb was replaced meanwhile, the two belong to different stores. It
 * can be behind a commit under way, or one that failed in its meta page.
 */
static bool check_lock_file(const struct store *s, MDB_txn *txn, uint64_t newest, struct err *err)
{
	uint64_t seen = mdb_txn_id(txn);

	if (seen <= newest && (s->mode == STORE_READ || newest - seen <= 1)) return true;
	return err_set(
		err, ERR_CORRUPT,
		"store %s: lock.mdb belongs to another data.mdb, which was replaced while it was being read: "
		"end the processes that read it",
		s->dir);
}

/* Nothing but the meta pages is read through the map before file_is_whole(). */
static bool check_all(struct store *s, MDB_txn *txn, struct err *err)
{
	struct file_head head;
	int fd;
	int rc = mdb_env_get_fd(s->env, &fd);

	if (rc != 0) return store_fail(s, rc, err, "opening it");
	return file_head_read(fd, s->dir, &head, err) && check_lock_file(s, txn, head.txn, err) &&
		   file_is_whole(fd, s->dir, &head, err) && open_fixed(s, txn, err);
}

static bool open_handles(struct store *s, struct err *err)
{
	MDB_txn *txn;
	int rc = mdb_txn_begin(s->env, NULL, MDB_RDONLY, &txn);

	if (rc != 0) return store_fail(s, rc, err, "opening it");
	if (!check_all(s, txn, err)) {
		mdb_txn_abort(txn);
		return false;
	}
	rc = mdb_txn_commit(txn);
	if (rc == 0) rc = handles_open_all(s);
	return rc == 0 || store_fail(s, rc, err, "opening its tables");
}

/* ---- the environment ---- */

/* LMDB makes an empty file into an environment, and has few words for one that it cannot read. */
static bool look_first(const struct store *s, struct file_head *head, struct err *err)
{
	char *path = dir_path(s->dir, STORE_DATA);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	bool ok;

	free(path);
	if (fd < 0) return dir_fail(s->dir, errno, err, "opening data.mdb");
	ok = file_head_read(fd, s->dir, head, err);
	close(fd);
	return ok;
}

static uint64_t map_size_for(const struct store *s, const struct file_head *head)
{
	uint64_t size = STORE_MAP_SIZE;

	if (s->mode == STORE_READ) return head->map_size;
	while (size / 2 < head->size)
		size *= 2;
	return size;
}

static void env_close(struct store *s)
{
	mdb_txn_abort(s->idle);
	s->idle = NULL;
	mdb_env_close(s->env);
	s->env = NULL;
	handles_clear(&s->handles);
}

static bool map_env(struct store *s, struct err *err)
{
	struct file_head head;
	int rc;

	if (!look_first(s, &head, err) || !dir_reserve_readers(s, err)) return false;
	rc = env_open(s->dir, s->mode == STORE_READ ? READ_FLAGS : WRITE_FLAGS, map_size_for(s, &head), &s->env);
	if (rc == 0) return true;
	s->env = NULL;
	return store_fail(s, rc, err, "opening it");
}

static bool open_env(struct store *s, struct err *err)
{
	if (!map_env(s, err)) return false;
	if (open_handles(s, err)) return true;
	env_close(s);
	return false;
}

/*
 * A writer that was killed in a commit may have left the number in lock.mdb
 * behind. LMDB corrects it when the dead writer's lock is next taken, which has to be before
 * anything is read. In memory only: nothing is written.
 */
static bool take_over(struct store *s, struct err *err)
{
	MDB_txn *txn;
	int rc = mdb_txn_begin(s->env, NULL, 0, &txn);

	if (rc != 0) return store_fail(s, rc, err, "opening it");
	mdb_txn_abort(txn);
	return true;
}

bool store_reopen(struct store *s, struct err *err)
{
	uint8_t id[STORE_ID_SIZE];

	memcpy(id, s->id, sizeof id);
	env_close(s);
	if (!open_env(s, err)) return false;
	if (memcmp(id, s->id, sizeof id) != 0) { /* whoever holds this handle knows the other one */
		memcpy(s->id, id, sizeof id);
		env_close(s);
		return err_set(err, ERR_CORRUPT, "store %s was replaced by another one: open it anew", s->dir);
	}
	if (s->unsynced) mdb_env_set_flags(s->env, MDB_NOSYNC, 1);
	atomic_store(&s->must_reopen, false);
	atomic_store(&s->undurable, s->mode != STORE_READ);
	return true;
}

/* ---- durability ---- */

static int put_opened(struct store *s)
{
	MDB_val key = val_of_text(META_OPENED), v;
	struct timespec now;
	uint8_t us[8];
	MDB_txn *txn;
	int rc = mdb_txn_begin(s->env, NULL, 0, &txn);

	if (rc != 0) return rc;
	clock_gettime(CLOCK_REALTIME, &now);
	be64_put(us, (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000);
	v = (MDB_val){sizeof us, us};
	rc = mdb_put(txn, s->meta, &key, &v, 0);
	if (rc == 0) return store_commit_txn(txn);
	mdb_txn_abort(txn);
	return rc;
}

/* In a store of unsynced writes nothing is promised yet. */
bool store_make_durable(struct store *s, struct err *err)
{
	int rc = s->unsynced ? 0 : mdb_env_sync(s->env, 1);

	if (rc == 0 && !s->unsynced) {
		mdb_env_set_flags(s->env, MDB_NOMETASYNC, 0);
		rc = put_opened(s);
		mdb_env_set_flags(s->env, MDB_NOMETASYNC, 1);
	}
	if (rc == 0) atomic_store(&s->undurable, false);
	return rc == 0 || store_fail(s, rc, err, "writing to it");
}

bool store_end_unsynced(struct store *s, struct err *err)
{
	int rc = mdb_env_sync(s->env, 1);

	if (rc != 0) { /* and which pages were lost nobody can tell, now or later */
		dir_condemn_unsynced(s);
		return err_set(
			err, ERR_CORRUPT,
			"store %s: its first copy could not be written to the disk (%s): start over with an empty "
			"directory",
			s->dir, mdb_strerror(rc));
	}
	mdb_env_set_flags(s->env, MDB_NOSYNC, 0);
	s->unsynced = !dir_unmark_unsynced(s, err);
	return !s->unsynced;
}

/*
 * What a writer does before anything else. Unsynced writes are allowed in a store
 * that is new, or that nobody has synced since it was.
 */
static bool begin_writing(struct store *s, bool created, bool unsynced_before, struct err *err)
{
	bool fast = s->mode == STORE_WRITE_FAST && (created || unsynced_before);

	if (unsynced_before && !fast && !store_end_unsynced(s, err)) return false;
	if (fast && !dir_mark_unsynced(s, &fast, err)) return false;
	s->unsynced = fast;
	if (fast) mdb_env_set_flags(s->env, MDB_NOSYNC, 1); /* cannot fail */
	return store_make_durable(s, err);
}

/* ---- open and close ---- */

static struct store *store_new(const char *dir, enum store_mode mode)
{
	struct store *s = mem_alloc(sizeof *s);
	size_t n = strlen(dir);

	*s = (struct store){.mode = mode, .lock_fd = -1};
	while (n > 1 && dir[n - 1] == '/')
		n--;
	s->dir = mem_alloc(n + 1);
	memcpy(s->dir, dir, n);
	s->dir[n] = '\0';
	pthread_mutex_init(&s->lock, NULL);
	atomic_init(&s->active, 0);
	atomic_init(&s->writing, false);
	atomic_init(&s->must_reopen, false);
	atomic_init(&s->undurable, false);
	handles_init(&s->handles);
	return s;
}

static void cursors_init(struct store *s)
{
	s->cursors = mem_alloc(STORE_DBI_MAX * sizeof *s->cursors);
	s->cursors_open = mem_alloc(STORE_DBI_MAX * sizeof *s->cursors_open);
	for (size_t i = 0; i < STORE_DBI_MAX; i++)
		s->cursors[i] = NULL;
}

static bool open_read(struct store *s, struct err *err)
{
	bool exists, unsynced;

	return dir_check(s, &exists, err) && dir_check_unsynced(s, &unsynced, err) && open_env(s, err);
}

static bool open_write(struct store *s, struct err *err)
{
	bool exists, unsynced = false;

	if (!dir_lock(s, err) || !dir_check(s, &exists, err)) return false;
	if (exists ? !dir_check_unsynced(s, &unsynced, err) : !store_create(s, err)) return false;
	cursors_init(s);
	if (!map_env(s, err)) return false;
	dir_identify(s);
	return take_over(s, err) && open_handles(s, err) && begin_writing(s, !exists, unsynced, err);
}

bool store_open_why(const char *dir, enum store_mode mode, struct store **out, enum store_why *why,
					struct err *err)
{
	struct store *s = store_new(dir, mode);

	*out = NULL;
	if (mode == STORE_READ ? open_read(s, err) : open_write(s, err)) {
		*out = s;
		return true;
	}
	*why = err->kind == ERR_BUSY ? WHY_READERS : s->why;
	store_close(s);
	return false;
}

bool store_open(const char *dir, enum store_mode mode, struct store **out, struct err *err)
{
	enum store_why why;

	return store_open_why(dir, mode, out, &why, err);
}

void store_close(struct store *s)
{
	if (!s) return;
	if (s->env) env_close(s);
	if (s->lock_fd >= 0) close(s->lock_fd);
	handles_finish(&s->handles);
	pthread_mutex_destroy(&s->lock);
	free(s->cursors);
	free(s->cursors_open);
	free(s->dir);
	free(s);
}
