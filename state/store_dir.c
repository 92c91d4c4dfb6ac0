#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "state/store_impl.h"

char *dir_path(const char *dir, const char *file)
{
	size_t n = strlen(dir) + 1 + strlen(file) + 1;
	char *path = mem_alloc(n);

	snprintf(path, n, "%s/%s", dir, file);
	return path;
}

/* A new name in a directory survives a power loss once the directory is synced. */
bool dir_sync(const char *dir, struct err *err)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int rc;

	if (fd < 0) return dir_fail(dir, errno, err, "opening the directory");
	rc = fsync(fd) == 0 || errno == EINVAL ? 0 : errno; /* EINVAL: this file system cannot and need not */
	close(fd);
	return rc == 0 || dir_fail(dir, rc, err, "syncing the directory");
}

static bool permission(struct store *s, struct err *err, const char *what)
{
	s->why = WHY_PERMISSION;
	return err_set(err, ERR_CONFIG, "store %s: %s (this process runs as user %u, group %u)", s->dir, what,
				   (unsigned)geteuid(), (unsigned)getegid());
}

/* ---- the writer's lock ---- */

static bool dir_make(struct store *s, struct err *err)
{
	char *parent;
	bool ok;

	if (mkdir(s->dir, 0770) == 0) {
		parent = dir_path(s->dir, "..");
		ok = dir_sync(parent, err);
		free(parent);
		return ok;
	}
	if (errno == EEXIST) return true;
	if (errno == ENOENT)
		return err_set(err, ERR_CONFIG, "store %s: its parent directory does not exist: create it first",
					   s->dir);
	if (errno == EACCES || errno == EROFS)
		return permission(s, err, "cannot be created: write permission on its parent directory is missing");
	return dir_fail(s->dir, errno, err, "creating the directory");
}

/* The holder's process id, for the message; 0: it has not written it yet. */
static long lock_holder(int fd)
{
	char text[24] = "";

	return pread(fd, text, sizeof text - 1, 0) > 0 ? strtol(text, NULL, 10) : 0;
}

static bool lock_is_taken(const struct store *s, struct err *err)
{
	long pid = lock_holder(s->lock_fd);

	if (pid > 0)
		return err_set(err, ERR_BUSY, "store %s is in use by process %ld: stop it first", s->dir, pid);
	return err_set(err, ERR_BUSY, "store %s is in use by another process: stop it first", s->dir);
}

static void lock_sign(int fd)
{
	char text[24];
	int n = snprintf(text, sizeof text, "%ld\n", (long)getpid());

	/* Only messages need it, so a full disk is no reason to fail here. */
	if (ftruncate(fd, 0) != 0 || pwrite(fd, text, (size_t)n, 0) != n) return;
}

bool dir_lock(struct store *s, struct err *err)
{
	char *path;

	if (!dir_make(s, err)) return false;
	path = dir_path(s->dir, STORE_LOCK);
	s->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0660);
	free(path);
	if (s->lock_fd < 0) {
		if (errno == EACCES)
			return permission(s, err, "read and write permission on the directory and its files is missing");
		if (errno == EROFS) return permission(s, err, "the file system is read-only: mount it for writing");
		if (errno == ENOTDIR) return err_set(err, ERR_CONFIG, "store %s: not a directory", s->dir);
		return dir_fail(s->dir, errno, err, "opening " STORE_LOCK);
	}
	if (flock(s->lock_fd, LOCK_EX | LOCK_NB) != 0)
		return errno == EWOULDBLOCK ? lock_is_taken(s, err)
									: dir_fail(s->dir, errno, err, "locking " STORE_LOCK);
	lock_sign(s->lock_fd);
	return true;
}

/* ---- permissions ---- */

/* errno of accessing dir/file as the effective user; 0: allowed. */
static int access_to(const char *dir, const char *file, int how)
{
	char *path = dir_path(dir, file);
	int rc = faccessat(AT_FDCWD, path, how, AT_EACCESS) == 0 ? 0 : errno;

	free(path);
	return rc;
}

/* Even readers write to lock.mdb: that is how the writer knows what they still look at. */
static bool check_lmdb_lock(struct store *s, struct err *err)
{
	int rc = access_to(s->dir, STORE_LMDB_LOCK, R_OK | W_OK);

	if (rc == 0 || (rc == ENOENT && access_to(s->dir, ".", W_OK) == 0)) return true;
	if (rc == EROFS || (rc == ENOENT && access_to(s->dir, ".", W_OK) == EROFS))
		return permission(s, err,
						  "the file system is read-only, and even reading writes to lock.mdb: mount it for "
						  "writing or copy the store");
	return permission(
		s, err,
		"write permission on lock.mdb is missing, which reading needs too: join the group of the "
		"store, or chmod g+rw lock.mdb");
}

bool dir_check(struct store *s, bool *exists, struct err *err)
{
	int rc = access_to(s->dir, STORE_DATA, s->mode == STORE_READ ? R_OK : R_OK | W_OK);

	*exists = rc == 0;
	if (rc == 0) return check_lmdb_lock(s, err);
	if (rc == ENOENT || rc == ENOTDIR) {
		s->why = WHY_NO_STORE;
		if (s->mode != STORE_READ) return true;
		return err_set(err, ERR_CONFIG, "%s has no store", s->dir);
	}
	if (rc == EROFS) return permission(s, err, "the file system is read-only: mount it for writing");
	if (rc == EACCES)
		return permission(s, err,
						  s->mode == STORE_READ ? "read permission on data.mdb or its directory is missing"
												: "read and write permission on data.mdb is missing");
	return dir_fail(s->dir, rc, err, "opening data.mdb");
}

/* ---- removed or replaced ---- */

static const char *const file_names[FILES] = {
	[FILE_DATA] = STORE_DATA, [FILE_LMDB_LOCK] = STORE_LMDB_LOCK, [FILE_LOCK] = STORE_LOCK};

/* 0 or an errno. */
static int identify(const struct store *s, const char *file, struct file_id *out)
{
	char *path = dir_path(s->dir, file);
	struct stat st;
	int rc = stat(path, &st) == 0 ? 0 : errno;

	free(path);
	if (rc == 0) *out = (struct file_id){st.st_dev, st.st_ino};
	return rc;
}

void dir_identify(struct store *s)
{
	for (size_t i = 0; i < FILES; i++)
		if (identify(s, file_names[i], &s->files[i]) != 0) s->files[i] = (struct file_id){0};
}

/* Whoever may not look any more has no reason to complain. */
bool dir_is_unchanged(const struct store *s, struct err *err)
{
	for (size_t i = 0; i < FILES; i++) {
		struct file_id now = {0};
		int rc = identify(s, file_names[i], &now);

		if (rc != 0 && rc != ENOENT && rc != ENOTDIR) continue;
		if (now.dev != s->files[i].dev || now.ino != s->files[i].ino)
			return err_set(
				err, ERR_CORRUPT,
				"store %s: %s was %s while it was in use, so nothing more is written: start again, "
				"with the old directory in its place if it was moved; in an empty one everything is "
				"copied anew",
				s->dir, file_names[i], rc != 0 ? "removed" : "replaced");
	}
	return true;
}

/* ---- room for readers ---- */

/* LMDB's table of readers: a header, then a cache line for each. */
#define LMDB_LOCK_SIZE (4096 + STORE_READERS_MAX * 64)

/*
 * LMDB makes lock.mdb with holes and maps it: on a full disk, the first reader to
 * write into one would be killed by SIGBUS. No other descriptor of it may be open in
 * this process, since closing one ends all of the process's locks on the file.
 */
bool dir_reserve_readers(const struct store *s, struct err *err)
{
	char *path = dir_path(s->dir, STORE_LMDB_LOCK);
	struct stat st;
	int fd = -1, rc = 0;

	if (stat(path, &st) != 0 || st.st_blocks * INT64_C(512) < LMDB_LOCK_SIZE) {
		fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0660);
		if (fd < 0 || fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, LMDB_LOCK_SIZE) != 0) rc = errno;
		if (fd >= 0) close(fd);
	}
	free(path);
	/* Where space cannot be reserved there is nothing to be done; what else is wrong, LMDB will find. */
	return rc != ENOSPC || dir_fail(s->dir, rc, err, "making room for readers in lock.mdb");
}

/* ---- unsynced writes ---- */

#define BOOT_ID_SIZE 40

/* Changes when the machine restarts, which is when unsynced pages are lost. */
static bool boot_id(char out[BOOT_ID_SIZE])
{
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, out, BOOT_ID_SIZE - 1);

	if (fd >= 0) close(fd);
	if (n < 36) return false;
	out[36] = '\0';
	return true;
}

/* 0, or an errno. */
static int marker_write(const char *dir, const char *text)
{
	char *path = dir_path(dir, STORE_UNSYNCED);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0660);
	size_t n = strlen(text);
	int rc = 0;

	free(path);
	if (fd < 0) return errno;
	errno = EIO; /* of a short write */
	if (write(fd, text, n) != (ssize_t)n || fsync(fd) != 0) rc = errno;
	close(fd);
	return rc;
}

bool dir_check_unsynced(struct store *s, bool *mine, struct err *err)
{
	char *path = dir_path(s->dir, STORE_UNSYNCED);
	int fd = open(path, O_RDONLY | O_CLOEXEC), e = errno;
	char there[BOOT_ID_SIZE] = "", now[BOOT_ID_SIZE];

	*mine = false;
	free(path);
	if (fd < 0) return e == ENOENT || dir_fail(s->dir, e, err, "opening " STORE_UNSYNCED);
	if (read(fd, there, 36) < 0) there[0] = '\0';
	close(fd);
	*mine = boot_id(now) && strcmp(there, now) == 0;
	if (*mine) return true;
	return err_set(
		err, ERR_CORRUPT,
		"store %s: its first copy was cut by a power loss or a disk error before it was on disk: start over "
		"with an empty directory",
		s->dir);
}

bool dir_mark_unsynced(struct store *s, bool *done, struct err *err)
{
	char id[BOOT_ID_SIZE];
	int rc;

	*done = false;
	if (!boot_id(id)) return true;
	rc = marker_write(s->dir, id);
	if (rc != 0) return dir_fail(s->dir, rc, err, "writing " STORE_UNSYNCED);
	*done = true;
	return dir_sync(s->dir, err);
}

bool dir_unmark_unsynced(struct store *s, struct err *err)
{
	char *path = dir_path(s->dir, STORE_UNSYNCED);
	int rc = unlink(path) == 0 || errno == ENOENT ? 0 : errno;

	free(path);
	return rc == 0 ? dir_sync(s->dir, err) : dir_fail(s->dir, rc, err, "removing " STORE_UNSYNCED);
}

void dir_condemn_unsynced(struct store *s)
{
	/* Should this fail too, the old text still condemns the store after the next boot. */
	(void)marker_write(s->dir, "failed");
}
