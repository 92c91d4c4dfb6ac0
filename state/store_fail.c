#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

#include "state/store_impl.h"

/* What the caller should do about a code, and what the user should. */
static const struct advice {
	int code;
	enum err_kind kind;
	const char *text; /* NULL: LMDB's own sentence is enough */
} advices[] = {
	{EDQUOT, ERR_DISK,
	 "the disk quota is used up: raise it or free some space; everything committed so far is intact"},
	{EFBIG, ERR_DISK,
	 "the limit of the file's size is reached: raise it (ulimit -f); everything committed so far is intact"},
	{EIO, ERR_DISK, "the disk reports an input/output error: check the disk; the store will be opened again"},
	{MDB_MAP_FULL, ERR_DISK,
	 "the store has filled the address space it could get: raise the limit of virtual memory (ulimit -v) and "
	 "restart"},
	{MDB_PANIC, ERR_DISK, "an earlier write of a meta page failed: the store has to be opened again"},
	{EROFS, ERR_CONFIG, "the file system is read-only: mount it for writing"},
	{EACCES, ERR_CONFIG, "permission denied"},
	{EPERM, ERR_CONFIG, "permission denied"},
	{MDB_DBS_FULL, ERR_CONFIG, "a store holds at most 4096 tables"},
	{ENOMEM, ERR_NOMEM, "not enough memory or address space (ulimit -v)"},
	{EMFILE, ERR_CONFIG, "too many open files in this process: raise the limit (ulimit -n)"},
	{ENFILE, ERR_CONFIG, "too many open files on this machine"},
	{MDB_READERS_FULL, ERR_BUSY,
	 "all reader slots are taken: end some of the processes that read this store"},
	{MDB_CORRUPTED, ERR_CORRUPT,
	 "data.mdb is damaged: restore from a copy or start over with an empty directory"},
	{MDB_PAGE_NOTFOUND, ERR_CORRUPT,
	 "data.mdb is damaged: restore from a copy or start over with an empty directory"},
	{MDB_INVALID, ERR_CORRUPT, "data.mdb or lock.mdb is not a file of LMDB 0.9"},
	{MDB_VERSION_MISMATCH, ERR_CORRUPT, "data.mdb or lock.mdb was written by another version of LMDB"},
	{MDB_INCOMPATIBLE, ERR_CORRUPT, "data.mdb is an LMDB file that Tidemark did not make"},
	{MDB_KEYEXIST, ERR_BUG, NULL},
	{MDB_BAD_RSLOT, ERR_BUG, NULL},
	{MDB_BAD_TXN, ERR_BUG, NULL},
	{MDB_BAD_VALSIZE, ERR_BUG, NULL},
	{MDB_BAD_DBI, ERR_BUG, NULL},
	{MDB_TXN_FULL, ERR_BUG, NULL},
	{EINVAL, ERR_BUG, NULL},
};

/* Little space left is not none: what was to be written may have needed more. */
static bool disk_full(const char *dir, struct err *err, const char *doing)
{
	struct statvfs fs;
	unsigned long long left = 0;

	if (statvfs(dir, &fs) == 0) left = (unsigned long long)fs.f_bavail * fs.f_frsize / 1024;
	return err_set(
		err, ERR_DISK,
		"store %s: %s: the disk is full: free some space (%llu KiB are left); everything committed so "
		"far is intact",
		dir, doing, left);
}

static bool fail(const char *dir, int rc, struct err *err, const char *doing)
{
	if (rc == ENOSPC) return disk_full(dir, err, doing);
	for (size_t i = 0; i < sizeof advices / sizeof *advices; i++)
		if (advices[i].code == rc)
			return err_set(err, advices[i].kind, "store %s: %s: %s", dir, doing,
						   advices[i].text ? advices[i].text : mdb_strerror(rc));
	return err_set(err, rc < 0 ? ERR_BUG : ERR_DISK, "store %s: %s: %s", dir, doing, mdb_strerror(rc));
}

bool dir_fail(const char *dir, int rc, struct err *err, const char *doing)
{
	return fail(dir, rc, err, doing);
}

bool store_fail(const struct store *s, int rc, struct err *err, const char *doing, ...)
{
	char what[160];
	va_list ap;

	va_start(ap, doing);
	vsnprintf(what, sizeof what, doing, ap);
	va_end(ap);
	return fail(s->dir, rc, err, what);
}
