/*
 * state/record.h - the small records beside the rows: tables, runs, the
 * checkpoint and the lineage.
 *
 * Plain data with encode/decode; strings of a decoded record point into one
 * malloc block owned by the record and are freed with its _free function.
 * Decoding damage gives ERR_CORRUPT. Any thread, one owner each.
 */
#ifndef STATE_RECORD_H
#define STATE_RECORD_H

#include "state/bytes.h"
#include "state/err.h"
#include "state/pos.h"

/* ---- tables ---- */

/* Stored: never renumber. What readers call the table's state derives from this and `doubt`. */
enum table_state {
	TABLE_COPYING = 1, /* its first run is not finished */
	TABLE_COPIED = 2,  /* finished: live when nothing is in doubt */
	TABLE_LEFT = 3     /* no longer replicated; rows are kept as they were */
};

struct table_record {
	uint32_t id;             /* ours, never reused; names the databases rows.<id> and doubt.<id> */
	uint32_t oid;            /* the source's */
	const char *schema_name; /* unquoted */
	const char *table_name;
	const char
		*shape; /* reader/shape.h: what the source's catalog said of its columns and storage; "" = nothing */
	uint8_t state;           /* enum table_state */
	uint32_t schema_version; /* current */
	struct pos floor;        /* position of every absent key: the last TRUNCATE */
	struct pos high;         /* highest position ever applied to it */
	struct pos trust;        /* while a run is active: entries below were there before it was accepted */
	uint64_t live;           /* visible rows */
	uint64_t hidden;         /* rows never complete yet */
	uint64_t doubt;          /* rows in doubt, hidden or not */
	uint64_t markers;        /* delete markers */
	void *memory;            /* owned block, NULL for a caller-built record */
};

void table_record_encode(const struct table_record *t, struct buf *out);
bool table_record_decode(struct slice bytes, struct table_record *out, struct err *err);
void table_record_free(struct table_record *t);
/* First run finished and nothing in doubt. */
bool table_record_is_live(const struct table_record *t);

/* ---- runs ---- */

enum run_state {
	RUN_COPYING = 1,
	RUN_SWEEPING = 2,
	RUN_DONE = 3,
	RUN_FAILED = 4,
	RUN_STOPPED = 5,
	RUN_PAUSED = 6
};
enum run_kind { RUN_INITIAL = 1, RUN_RESNAPSHOT = 2, RUN_SCHEMA = 3, RUN_RESYNC = 4, RUN_REQUESTED = 5 };
enum sweep_mode {
	SWEEP_OFF = 0,
	SWEEP_ON = 1,   /* after the last chunk: rows that the source does not have become delete markers */
	SWEEP_COUNT = 2 /* they are counted only */
};

struct run_record {
	uint64_t id; /* 1, 2, 3 ... */
	uint32_t table_id;
	uint8_t kind;          /* enum run_kind */
	uint8_t state;         /* enum run_state */
	uint8_t sweep;         /* enum sweep_mode */
	const char *requester; /* "run", "schema change", ... */
	const char *gate;    /* pg_snapshot text a chunk's snapshot must cover, or "" (DESIGN 5, first attach) */
	struct slice cursor; /* key texts of the last row read: blobs, one per key column; empty = start. Of a run
							over listed keys: how many were asked for, 8 bytes big-endian */
	struct slice sweep_cursor; /* encoded row key up to which suspects were checked; empty = start */
	const char *first_snapshot, *last_snapshot; /* pg_snapshot text, "" = none yet */
	struct pos lowest_bound;                    /* lowest B so far; POS_NONE = none yet */
	lsn_t last_high;                            /* H of the last closed chunk */
	struct pos accepted;                        /* position when accepted */
	uint64_t rows_read, rows_written, rows_same, rows_superseded, rows_newer, rows_filled, rows_swept, chunks;
	int64_t started_us, ended_us; /* microseconds since 1970, 0 = not yet */
	const char *name;             /* the requester's id for it, or "": one name on one table is one run */
	const char *error;            /* why it failed or was stopped, or "" */
	uint8_t resumes_as;           /* of a paused run: what it was, RUN_COPYING or RUN_SWEEPING; else 0 */
	/* The scope: the whole table unless one of these says less. Bounds as in cursor, both inclusive. */
	const char *where_sql; /* an SQL condition, or "" */
	struct slice from, to;
	uint64_t listed; /* keys listed (store_put_run_key); 0 = it reads pages */
	/* Its pace; 0 = the daemon's own. */
	uint32_t chunk_time_ms, rows_per_second;
	uint64_t rows_suspect;   /* entries that the sweep asked the source about */
	uint64_t rows_refetched; /* rows in doubt that were asked for by key while it was open */
	void *memory;
};

void run_record_encode(const struct run_record *r, struct buf *out);
bool run_record_decode(struct slice bytes, struct run_record *out, struct err *err);
void run_record_free(struct run_record *r);
const char *run_state_name(uint8_t state); /* as people read it: "copying" */
/* COPYING, SWEEPING or PAUSED. */
bool run_record_is_open(const struct run_record *r);
/* It is about some rows of its table only. */
bool run_record_is_scoped(const struct run_record *r);

/* ---- checkpoint, lineage, not-yet-visible transactions ---- */

struct checkpoint {
	uint16_t epoch;
	lsn_t lsn;              /* where streaming resumes: Commit.end_lsn, or an idle walEnd */
	lsn_t commit_lsn;       /* commit LSN of the last transaction applied; 0 = none */
	int64_t commit_time_us; /* its commit time, microseconds since 1970 UTC; 0 = none */
	int64_t written_us;     /* our clock when committed */
};

void checkpoint_encode(const struct checkpoint *c, struct buf *out);
bool checkpoint_decode(struct slice bytes, struct checkpoint *out, struct err *err);

struct lineage {
	uint64_t system_id;
	uint32_t timeline;
	const char *slot, *publication;
	const char *source;      /* host, port and database as shown to people; no secret */
	uint32_t source_version; /* server_version_num */
	void *memory;
};

void lineage_encode(const struct lineage *l, struct buf *out);
bool lineage_decode(struct slice bytes, struct lineage *out, struct err *err);
void lineage_free(struct lineage *l);

struct unseen_entry {
	lsn_t commit_lsn;
	xid_t xid;
};

#endif
