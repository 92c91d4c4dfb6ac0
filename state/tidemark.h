/*
 * tidemark.h - read a Tidemark store from any process on the machine.
 *
 *     tidemark *tm;
 *     tidemark_table *t;
 *     tidemark_row row;
 *     const char *key[] = {"42"};
 *     int rc = tidemark_open("/var/lib/tidemark", &tm);
 *     if (rc == 0) rc = tidemark_begin(tm);
 *     if (rc == 0) rc = tidemark_table_find(tm, "public", "orders", &t);
 *     if (rc == 0) rc = tidemark_get(t, key, 1, &row);
 *     if (rc == 0) printf("%s\n", tidemark_row_value(&row, 1));
 *     tidemark_end(tm);
 *     tidemark_close(tm);
 *
 * Every function that returns int returns 0 or a negative TIDEMARK_E code;
 * tidemark_errmsg() has the sentence.
 *
 * Caveats
 * - Between tidemark_begin() and tidemark_end() everything read is one
 *   consistent state. Keep it short: the store cannot reuse pages while a
 *   reader stays on an old state, and its file grows. To stay current, end and begin again.
 * - Values are PostgreSQL's text output, NUL-terminated for convenience, and live
 *   until the next tidemark_get() on the same table, tidemark_next() on the same
 *   cursor, or tidemark_end().
 * - A row is shown in the columns of today, by name: one written before a column was
 *   added has NULL there until it is read again from the source.
 * - One handle belongs to one thread at a time. Open a directory once in a
 *   process. Do not use a handle across fork(). Not on network file systems.
 * - The process needs read permission on data.mdb and write permission on
 *   lock.mdb.
 */
#ifndef TIDEMARK_H
#define TIDEMARK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tidemark tidemark;
typedef struct tidemark_table tidemark_table;
typedef struct tidemark_cursor tidemark_cursor;

enum {
	TIDEMARK_OK = 0,
	TIDEMARK_E_NOTFOUND = -1, /* no such table, key, or no more rows */
	TIDEMARK_E_ARGUMENT = -2, /* wrong number of key columns, a key that is not of its type, no transaction */
	TIDEMARK_E_NOSTORE = -3,  /* the directory has no store */
	TIDEMARK_E_PERMISSION = -4,
	TIDEMARK_E_CORRUPT = -5, /* damaged, truncated or foreign file */
	TIDEMARK_E_NEWER = -6,   /* written by a newer format: upgrade this program */
	TIDEMARK_E_READERS = -7, /* all reader slots are taken */
	TIDEMARK_E_NOMEM = -8,
	TIDEMARK_E_IO = -9
};

const char *tidemark_strerror(int code);
/* The last failure on this handle in one sentence; tm == NULL: of the last tidemark_open() in this thread. */
const char *tidemark_errmsg(const tidemark *tm);

int tidemark_open(const char *dir, tidemark **out);
void tidemark_close(tidemark *tm); /* ends an open transaction; accepts NULL */

/* A consistent state to read from. begin fails with ARGUMENT if one is open. */
int tidemark_begin(tidemark *tm);
void tidemark_end(tidemark *tm); /* harmless when none is open */

typedef struct {
	uint32_t epoch;
	uint64_t lsn;           /* every source commit below it is in this state */
	uint64_t commit_lsn;    /* of the last transaction applied; 0 = none yet */
	int64_t commit_time_us; /* its commit time, microseconds since 1970 UTC; 0 = none */
	int64_t written_us;     /* when the store was last written, our clock */
} tidemark_position;

int tidemark_get_position(tidemark *tm, tidemark_position *out); /* NOTFOUND before the first checkpoint */

/* ---- tables ---- */
enum { TIDEMARK_COPYING = 1, TIDEMARK_DOUBT = 2, TIDEMARK_LIVE = 3, TIDEMARK_LEFT = 4 };

typedef struct {
	uint32_t id, oid;
	const char *schema_name, *table_name; /* unquoted */
	int state; /* one of the above: copying, copied but rows in doubt, live, no longer replicated */
	uint64_t rows, hidden, doubt, markers;
	uint64_t high_lsn; /* commit LSN of the last change applied to it */
	uint32_t schema_version;
} tidemark_table_info;

const char *tidemark_state_name(int state); /* "copying", "in doubt", "live", "left" */
/*
 * Tables of the open transaction, 0 .. count-1, by schema and name. The pointers
 * live until tidemark_end(). A table dropped and made again at the source is there twice: the one
 * that is replicated comes first and is the one found, the one that is not has the state LEFT.
 */
int tidemark_table_count(tidemark *tm, size_t *out);
int tidemark_table_at(tidemark *tm, size_t i, tidemark_table **out);
int tidemark_table_find(tidemark *tm, const char *schema_name, const char *table_name, tidemark_table **out);
const tidemark_table_info *tidemark_table_get_info(const tidemark_table *t);

/* Columns as they are now, in source order. */
size_t tidemark_column_count(const tidemark_table *t);
const char *tidemark_column_name(const tidemark_table *t, size_t column);
const char *tidemark_column_type(const tidemark_table *t, size_t column); /* PostgreSQL's name of it */
uint32_t tidemark_column_type_oid(const tidemark_table *t, size_t column);
int tidemark_column_class(
	const tidemark_table *t,
	size_t column); /* enum type_class of schema.h: 0 other, 1 int, 2 float, 3 numeric, 4 bool, 5 json */
size_t tidemark_key_count(const tidemark_table *t);
size_t tidemark_key_column(const tidemark_table *t,
						   size_t i); /* index of the i-th key column; SIZE_MAX: none */

/* ---- rows ---- */
typedef struct {
	uint32_t epoch;
	uint64_t commit_lsn, ordinal; /* the change that wrote it; ordinal 0: a snapshot */
	uint32_t schema_version;      /* that it was written under */
	int doubt;                    /* 1: shows its best known value; the source is being asked */
	void *priv;
} tidemark_row;

/* Text of a column, NUL-terminated; NULL for SQL NULL. len may be NULL. */
const char *tidemark_row_value(const tidemark_row *row, size_t column);
size_t tidemark_row_length(const tidemark_row *row, size_t column);

/* One row by its whole key: texts as PostgreSQL prints them. NOTFOUND when absent, deleted or hidden. */
int tidemark_get(tidemark_table *t, const char *const *key, size_t nkey, tidemark_row *out);

/*
 * Rows in the order of their encoded keys (FORMAT.md): for numbers, bool, oid, dates and times, uuid, bytea
 * and network addresses that of PostgreSQL, for other types that of the bytes of the text. Bounds that are
 * equal for PostgreSQL are alike: 1 and 1.00. Keys of more than 510 bytes are in order by their first 479.
 * from and to (both inclusive, either may have n = 0) are prefixes of the key: the first n key columns. "to"
 * with fewer columns than the key includes all keys that start with it. Exact for keys of any length.
 */
int tidemark_scan(tidemark_table *t, const char *const *from, size_t nfrom, const char *const *to, size_t nto,
				  tidemark_cursor **out);
int tidemark_next(tidemark_cursor *c,
				  tidemark_row *out);           /* NOTFOUND at the end; ARGUMENT after tidemark_end() */
void tidemark_cursor_close(tidemark_cursor *c); /* accepts NULL */

/* ---- runs and lineage, for status displays ---- */
typedef struct {
	uint64_t id;
	uint32_t table_id;
	const char *kind, *state, *requester; /* words */
	const char *first_snapshot, *last_snapshot;
	uint64_t lowest_bound, last_high; /* LSNs */
	uint64_t rows_read, rows_written, rows_same, rows_superseded, rows_newer, rows_filled, rows_swept, chunks;
	int64_t started_us, ended_us;
	const char *name;       /* the requester's id for it, or "" */
	const char *error;      /* why it failed or was stopped, or "" */
	const char *sweep;      /* "off", "on", "count" */
	const char *resumes_as; /* of a paused run: the state it goes on in; else "" */
	/* The scope: the whole table, unless one of these says less. */
	const char *where_sql; /* SQL condition, or "" */
	const char *from, *to; /* bounds of the key, both inclusive; NULL = none. A key of several columns is its
							  values with commas between them, quoted as in CSV */
	uint64_t listed;       /* keys listed; 0 = it reads pages */
	uint32_t chunk_time_ms, rows_per_second; /* asked for; 0 = the daemon's own */
	uint64_t rows_suspect;                   /* entries that the sweep asked the source about */
	uint64_t rows_refetched;                 /* rows in doubt that were asked for by key while it was open */
} tidemark_run_info;

int tidemark_run_count(tidemark *tm, size_t *out);
int tidemark_run_at(tidemark *tm, size_t i,
					tidemark_run_info *out); /* oldest first; lives until tidemark_end() */

typedef struct {
	const char *store_id; /* 32 hex digits */
	uint64_t system_id;
	uint32_t timeline, source_version;
	const char *slot, *publication, *source;
	uint64_t unseen; /* streamed transactions not yet known to be visible at the source */
	uint64_t file_bytes, used_bytes;
	unsigned readers, readers_max;
	int oldest_reader_pid;      /* 0 = none but us */
	uint64_t oldest_reader_lag; /* LMDB transactions behind the newest */
} tidemark_store_info;

int tidemark_get_store_info(tidemark *tm, tidemark_store_info *out); /* strings live until tidemark_end() */

/*
 * A transaction too large to be written at once is staged, and not seen before its
 * end; then it is shown whole, and moved to its place bit by bit.
 */
enum { TIDEMARK_LARGE_NONE = 0, TIDEMARK_LARGE_STAGED = 1, TIDEMARK_LARGE_SHOWN = 2 };

typedef struct {
	int phase;
	uint64_t rows; /* changed by it: received so far, or in tables that are not moved yet */
} tidemark_large_info;

int tidemark_get_large_info(tidemark *tm, tidemark_large_info *out);

/*
 * Why delete markers are still there. Those of changes below `limit` (epoch, LSN)
 * go when the next walk over their table comes by; the others are kept because of `held_by`.
 */
enum {
	TIDEMARK_HELD_STREAM = 1, /* nothing but the stream not being further */
	TIDEMARK_HELD_UNSEEN = 2, /* the transaction at unseen_lsn is not known to be visible at the source yet */
	TIDEMARK_HELD_RETENTION = 3 /* they were received less than the retention ago */
};

typedef struct {
	uint64_t markers;     /* in all tables now */
	uint64_t purged;      /* removed so far */
	int64_t retention_us; /* as of the daemon that purged last; -1: none has so far, and nothing goes */
	uint32_t limit_epoch;
	uint64_t limit_lsn;
	int held_by;
	uint64_t unseen_lsn; /* commit LSN of the oldest transaction not known to be visible; 0: none */
} tidemark_marker_info;

/* now_us: microseconds since 1970 UTC, for the retention. */
int tidemark_get_marker_info(tidemark *tm, int64_t now_us, tidemark_marker_info *out);

#ifdef __cplusplus
}
#endif

#endif
