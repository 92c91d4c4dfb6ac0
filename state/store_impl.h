/*
 * state/store_impl.h - what the store_*.c files share; nobody else includes it.
 *
 *   store_file.c     data.mdb before LMDB maps it: is it ours, is it whole
 *   store_dir.c      the directory: permissions, lock file, marker of unsynced writes
 *   store_create.c   making a store, all or nothing
 *   store_open.c     the environment: open, check, open again, close
 *   store_handles.c  table id -> LMDB handles
 *   store_txn.c      begin, commit, abort, sync, figures
 *   store_records.c  the small records
 *   store_backends.c the writer's processes at the server
 *   store_rows.c     rows and scans
 *   store_overlay.c  the changes of a large transaction, beside the rows
 *   store_fail.c     LMDB's codes -> struct err
 *
 * Threads. `lock` is held while transactions begin, while the environment or
 * the handles change, and while a transaction that made tables commits. So whoever
 * begins sees either none or all of a table's handles.
 */
#ifndef STATE_STORE_IMPL_H
#define STATE_STORE_IMPL_H

#include <lmdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "state/store.h"

#define STORE_DATA      "data.mdb"
#define STORE_DATA_NEW  "data.mdb.new" /* a store being made; renamed when it is complete */
#define STORE_LOCK      "tidemark.lock"
#define STORE_UNSYNCED  "tidemark.unsynced" /* boot id of the machine that writes without syncing */
#define STORE_LMDB_LOCK "lock.mdb"

/* Keys of the database meta. */
#define META_FORMAT     "format"
#define META_ID         "id"
#define META_OPENED     "opened"
#define META_CHECKPOINT "checkpoint"
#define META_LINEAGE    "lineage"
#define META_BACKENDS   "backends"
#define META_HISTORY    "history"
#define META_OVERLAY    "overlay"

/* Each table costs three handles, and 10 ns in every begin. */
#define STORE_TABLES_MAX  4096
#define STORE_READERS_MAX 1024
#define STORE_DBS_MAX     (3 * STORE_TABLES_MAX + 8)
#define STORE_DBI_MAX     (STORE_DBS_MAX + 2) /* handles are below it: two are LMDB's own */

/* Finer than err.kind, for the codes of tidemark.h. */
enum store_why { WHY_OTHER, WHY_NO_STORE, WHY_PERMISSION, WHY_NEWER, WHY_READERS };

/* As store_open(); *why is set on failure. */
bool store_open_why(const char *dir, enum store_mode mode, struct store **out, enum store_why *why,
					struct err *err);

/* ---- handles ---- */

struct table_dbis {
	MDB_dbi rows, doubt, stage;
};

/*
 * Open addressing, insert only: a slot is filled once, its id last, so that
 * readers need no lock. Twice as many slots as tables.
 */
#define HANDLE_SLOTS (2 * STORE_TABLES_MAX)

struct handles {
	struct handle {
		_Atomic uint32_t id; /* 0: free */
		struct table_dbis dbis;
	} * slots;
	size_t names; /* databases in the environment when all were opened last */
};

/* Which file a name stood for when the environment was opened. */
struct file_id {
	dev_t dev;
	ino_t ino;
};

enum { FILE_DATA, FILE_LMDB_LOCK, FILE_LOCK, FILES };

struct store {
	char *dir;
	struct file_id files[FILES]; /* of a writer */
	enum store_mode mode;
	uint8_t id[STORE_ID_SIZE];
	int lock_fd;        /* of STORE_LOCK; -1 when reading */
	bool unsynced;      /* MDB_NOSYNC is in force */
	enum store_why why; /* of the failure to open */
	pthread_mutex_t lock;
	MDB_env *env; /* NULL when opening it again failed */
	MDB_dbi main, meta, tables, schemas, runs, run_keys, unseen;
	struct handles handles;
	MDB_txn *idle;           /* a read transaction to renew: begin costs 10 us, renew 0.1 */
	atomic_uint active;      /* open transactions */
	atomic_bool writing;     /* one of them writes */
	atomic_bool must_reopen; /* an I/O error: what LMDB and the kernel hold may differ from the disk */
	atomic_bool undurable;   /* opened again after it; store_make_durable() ends it */
	_Atomic uint64_t plain;  /* number of a state that is known to have no overlay; 0: none */
	MDB_cursor **cursors;    /* by handle, of the write transaction; NULL when reading */
	MDB_dbi *cursors_open;   /* handles with a cursor */
	size_t ncursors_open;
};

struct table_made {
	uint32_t id;
	struct table_dbis dbis;
};

struct overlay_table {
	uint32_t id;
	bool cleared; /* what rows.N has counts no more */
};

struct overlay {
	enum store_overlay state;
	struct overlay_table *tables;
	size_t n;
	struct buf moved; /* of the first table: entries up to this key are in rows.N too */
};

struct store_txn {
	struct store *store;
	MDB_txn *mdb;
	bool write;
	bool staging; /* rows written go to stage.N, and are read from there */
	bool overlay_known;
	struct overlay overlay;
	struct table_made *made; /* tables made in it: their handles are its own until it commits */
	size_t nmade;
};

/* store_handles.c */
void handles_init(struct handles *h);
void handles_finish(struct handles *h);
void handles_clear(struct handles *h);
/* Opens every database there is, in a transaction of its own. Returns an LMDB code. */
int handles_open_all(struct store *s);
/* False: txn sees a database whose handle is not open. */
bool handles_cover(const struct store *s, MDB_txn *txn);
void handles_publish(struct store *s, const struct table_made *made, size_t n);
/* ERR_BUG when the transaction has no such table. */
bool handles_find(const struct store_txn *t, uint32_t table_id, struct table_dbis *out, struct err *err);
bool handles_has(const struct store_txn *t, uint32_t table_id);
/* Makes rows.N, doubt.N and stage.N in a write transaction. */
bool handles_make(struct store_txn *t, uint32_t table_id, struct err *err);

/* store_overlay.c */

/* Where a table's rows are to be looked for. */
enum view {
	VIEW_ROWS,   /* in rows.N alone */
	VIEW_BOTH,   /* in stage.N, then in rows.N */
	VIEW_STAGED, /* in stage.N alone */
	VIEW_FAILED
};
enum view overlay_view(struct store_txn *t, uint32_t table_id, struct err *err);
/* While staging: the table has entries there. cleared: rows.N counts no more. */
bool overlay_add(struct store_txn *t, uint32_t table_id, bool cleared, struct err *err);
void overlay_finish(struct overlay *o);

/* store_rows.c */
int row_cursor(struct store_txn *t, MDB_dbi dbi, MDB_cursor **out);

/* store_dir.c */
char *dir_path(const char *dir, const char *file); /* malloc'd */
bool dir_sync(const char *dir, struct err *err);
/* Makes the directory if need be, and takes the writer's lock. */
bool dir_lock(struct store *s, struct err *err);
/* What the mode needs: *exists = false when there is no data.mdb. Sets s->why. */
bool dir_check(struct store *s, bool *exists, struct err *err);
/* Remembers which files the directory has. */
void dir_identify(struct store *s);
/*
 * ERR_CORRUPT when one of them is gone or another is in its place: what is written then is lost, readers
 * and a second daemon do not know of us.
 */
bool dir_is_unchanged(const struct store *s, struct err *err);
/* Gives lock.mdb all the space it may need. Before LMDB opens it. */
bool dir_reserve_readers(const struct store *s, struct err *err);
/* ERR_CORRUPT if unsynced writes were cut by a power loss. *mine: there are some, of this boot. */
bool dir_check_unsynced(struct store *s, bool *mine, struct err *err);
/* *done = false: this machine cannot say which boot it is, so do not write unsynced. */
bool dir_mark_unsynced(struct store *s, bool *done, struct err *err);
bool dir_unmark_unsynced(struct store *s, struct err *err);
void dir_condemn_unsynced(struct store *s); /* syncing failed: what was written may be lost, forever */

/* store_create.c */
bool store_create(struct store *s, struct err *err);

/* store_txn.c */
/* mdb_txn_commit(), with a write cut short told from an error of the disk: ENOSPC or EFBIG. */
int store_commit_txn(MDB_txn *txn);

/* store_open.c */
/*
 * Opens an environment, with as much address space as can be had: first, else a half,
 * and so on. Returns an LMDB code.
 */
int env_open(const char *path, unsigned flags, uint64_t map_size, MDB_env **out);
#define STORE_MAP_SIZE (UINT64_C(1) << 40) /* address space, not disk */
/* Closes the environment and opens it again. Lock held, no transaction open. */
bool store_reopen(struct store *s, struct err *err);
/*
 * One small fully synced commit. What the store showed before it is durable
 * after it, even if the kernel lost an earlier meta page to an I/O error.
 */
bool store_make_durable(struct store *s, struct err *err);
/* Ends MDB_NOSYNC once everything is synced. */
bool store_end_unsynced(struct store *s, struct err *err);

/* store_fail.c */
/* rc: an LMDB code or errno. doing: "writing a row of table 3". Always returns false. */
bool store_fail(const struct store *s, int rc, struct err *err, const char *doing, ...)
	__attribute__((format(printf, 4, 5)));
bool dir_fail(const char *dir, int rc, struct err *err, const char *doing);

/* store_file.c */
/* What the newest meta page says. */
struct file_head {
	uint32_t page_size;
	uint64_t size;      /* of the file, by fstat */
	uint64_t last_page; /* the file may end before it, if all pages behind its end are free */
	uint64_t map_size;
	uint64_t txn;
	uint64_t free_root; /* root page of the tree of free pages; UINT64_MAX: none */
	uint16_t free_depth;
};

/* Reads the meta pages: ERR_CORRUPT when it is not a file that this LMDB writes. */
bool file_head_read(int fd, const char *dir, struct file_head *out, struct err *err);
/*
 * ERR_CORRUPT when pages in use lie behind the end of the file, which would
 * be a SIGBUS when LMDB reads them. Reads the file, never the map. A read transaction
 * begun before file_head_read() keeps the writer from reusing what it looks at.
 */
bool file_is_whole(int fd, const char *dir, const struct file_head *head, struct err *err);

/* ---- small helpers ---- */
static inline MDB_val val_of(struct slice s)
{
	return (MDB_val){s.n, (void *)(uintptr_t)s.p}; /* LMDB's interface has no const; it does not write */
}

static inline MDB_val val_of_text(const char *s)
{
	return val_of(slice_of(s));
}

static inline struct slice slice_of_val(MDB_val v)
{
	return (struct slice){v.mv_data, v.mv_size};
}

#endif
