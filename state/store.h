/*
 * state/store.h - the LMDB environment: its databases, and reads and writes of
 * what they hold inside one transaction.
 *
 *   meta       format, store id, checkpoint, lineage, history
 *   tables     table id (4)              -> table record
 *   schemas    table id (4) version (4)  -> schema
 *   runs       run id (8)                -> run record
 *   runkeys    run id (8) number (8)     -> texts of a key that the run is about
 *   unseen     commit LSN (8)            -> xid (8)     streamed, not yet known to be visible
 *   rows.N     encoded key               -> entry (row.h)
 *   doubt.N    encoded key               -> nothing     keys of entries in doubt, and some that were
 *   stage.N    encoded key               -> entry       of a large transaction, see below
 *
 * A process opens a directory at most once (an LMDB rule). The writing handle
 * takes an flock on DIR/tidemark.lock: one daemon a store. One write transaction at a time;
 * it belongs to the thread that began it. Any number of read transactions, from any
 * threads; one may move between threads (MDB_NOTLS) but not be used by two at once.
 *
 * A table's handles are there as soon as a transaction sees its record. Rows of a
 * table that the transaction does not have are ERR_BUG.
 *
 * Error kinds: ERR_BUSY another daemon, or all reader slots taken; ERR_CORRUPT
 * damaged, truncated, foreign or newer; ERR_CONFIG missing or not permitted; ERR_DISK a
 * write failed: the previous state is intact, abort and try again later. After an I/O error the
 * next store_begin_*() opens the environment again by itself, for which no other
 * transaction of this process may be open (ERR_DISK until then).
 */
#ifndef STATE_STORE_H
#define STATE_STORE_H

#include "state/history.h"
#include "state/pos.h"
#include "state/record.h"
#include "state/row.h"
#include "state/schema.h"

struct store;
struct store_txn;

#define STORE_FORMAT  3
#define STORE_ID_SIZE 16

enum store_mode {
	STORE_READ,  /* other processes and the read commands */
	STORE_WRITE, /* the daemon: creates DIR and the store when absent */
	/*
	 * As STORE_WRITE, and syncs nothing until store_sync(), from which on it is STORE_WRITE. Only a
	 * new store, or one that was never synced since, takes it; others stay with STORE_WRITE. A power loss
	 * before store_sync() is found at the next opening: ERR_CORRUPT, start over.
	 */
	STORE_WRITE_FAST
};

/*
 * A writer first makes one small synced commit, so that all it then shows, the
 * checkpoint above all, is durable.
 */
bool store_open(const char *dir, enum store_mode mode, struct store **out, struct err *err);
void store_close(struct store *s);
const char *store_dir(const struct store *s);
const uint8_t *store_id(const struct store *s); /* STORE_ID_SIZE random bytes made at creation */

/* Flushes all that is committed, meta page included. For the writing thread, between transactions. */
bool store_sync(struct store *s, struct err *err);

struct store_info {
	uint64_t file_bytes;           /* size of data.mdb */
	uint64_t used_bytes;           /* pages in use, free ones excluded */
	uint64_t last_txn;             /* LMDB transaction number */
	unsigned readers, readers_max; /* reader slots: taken, all */
	int oldest_reader_pid;         /* of other processes' open transactions; 0 = none */
	uint64_t oldest_reader_lag;    /* in LMDB transactions */
};
bool store_info(struct store *s, struct store_info *out, struct err *err);
/* Frees slots of readers that died (mdb_reader_check); returns how many. */
int store_reap_readers(struct store *s);

/* ---- transactions ---- */
bool store_begin_read(struct store *s, struct store_txn **out, struct err *err);
bool store_begin_write(struct store *s, struct store_txn **out, struct err *err);
bool store_commit(struct store_txn *t, struct err *err); /* frees t, also on failure */
void store_abort(struct store_txn *t);                   /* accepts NULL */
/* LMDB's number of it. Two read transactions of one number see the same state. */
uint64_t store_txn_id(const struct store_txn *t);

/* ---- records. Absent: *found = false and true is returned. ---- */
bool store_get_checkpoint(struct store_txn *t, struct checkpoint *out, bool *found, struct err *err);
bool store_put_checkpoint(struct store_txn *t, const struct checkpoint *c, struct err *err);
bool store_get_lineage(struct store_txn *t, struct lineage *out, bool *found, struct err *err);
bool store_put_lineage(struct store_txn *t, const struct lineage *l, struct err *err);
bool store_get_history(struct store_txn *t, struct purge_history *out, bool *found, struct err *err);
bool store_put_history(struct store_txn *t, const struct purge_history *h, struct err *err);

/*
 * What the writer last said its processes at the server are, for whoever comes after a writer that was
 * killed. *out: NULL if it said nothing, or if this is a copy of the store, else malloc'd.
 */
bool store_get_backends(struct store_txn *t, char **out, struct err *err);
bool store_put_backends(struct store_txn *t, const char *backends, struct err *err);

bool store_get_table(struct store_txn *t, uint32_t id, struct table_record *out, bool *found,
					 struct err *err);
/* Creates rows.N, doubt.N and stage.N when new. */
bool store_put_table(struct store_txn *t, const struct table_record *r, struct err *err);
/* Creates them alone, ahead of the record, so that nobody sees the table yet. */
bool store_make_table(struct store_txn *t, uint32_t id, struct err *err);
/* All tables in id order: malloc'd array, each freed with table_record_free, then free(array). */
bool store_list_tables(struct store_txn *t, struct table_record **out, size_t *n, struct err *err);

bool store_get_schema(struct store_txn *t, uint32_t table_id, uint32_t version, struct schema **out,
					  bool *found, struct err *err);
bool store_put_schema(struct store_txn *t, const struct schema *s, struct err *err);

bool store_get_run(struct store_txn *t, uint64_t id, struct run_record *out, bool *found, struct err *err);
bool store_put_run(struct store_txn *t, const struct run_record *r, struct err *err);
bool store_list_runs(struct store_txn *t, struct run_record **out, size_t *n, struct err *err);

/*
 * Keys that a run lists, numbered from 0: texts of the key columns, as blobs in the order of the key. The
 * slice lives until the next write in t or its end.
 */
bool store_put_run_key(struct store_txn *t, uint64_t run_id, uint64_t number, struct slice texts,
					   struct err *err);
bool store_get_run_key(struct store_txn *t, uint64_t run_id, uint64_t number, struct slice *texts,
					   bool *found, struct err *err);
/* Removes the first `n` of them. */
bool store_del_run_keys(struct store_txn *t, uint64_t run_id, uint64_t n, struct err *err);

bool store_put_unseen(struct store_txn *t, struct unseen_entry e, struct err *err);
bool store_del_unseen(struct store_txn *t, lsn_t commit_lsn, struct err *err); /* absent is fine */
/* The lowest commit LSN among them; 0: there are none. */
bool store_oldest_unseen(struct store_txn *t, lsn_t *out, struct err *err);
/* free(*out). */
bool store_list_unseen(struct store_txn *t, struct unseen_entry **out, size_t *n, struct err *err);

/* ---- rows. Results point into the map and live until the next write in t or its end. ---- */
bool store_row_get(struct store_txn *t, uint32_t table_id, struct slice key, struct slice *entry, bool *found,
				   struct err *err);
bool store_row_put(struct store_txn *t, uint32_t table_id, struct slice key, struct slice entry,
				   struct err *err);
/* Absent is fine. */
bool store_row_del(struct store_txn *t, uint32_t table_id, struct slice key, struct err *err);
/*
 * Drops every row and doubt of the table by whole pages: rows are looked at only if some are large. While
 * staging, doubt.N stays.
 */
bool store_rows_drop(struct store_txn *t, uint32_t table_id, struct err *err);

bool store_doubt_put(struct store_txn *t, uint32_t table_id, struct slice key, struct err *err);
bool store_doubt_del(struct store_txn *t, uint32_t table_id, struct slice key, struct err *err);

/*
 * How row puts in one transaction lie: true if the entry before `key`, which was just put, is `last`. Then
 * they share a page, as a rule.
 */
bool store_row_follows(struct store_txn *t, uint32_t table_id, struct slice last);

/*
 * ---- large transactions ----
 *
 * A transaction of the source that is too large for one of LMDB's is staged: its entries
 * go to stage.N in several commits. Readers ignore them until one small commit shows them
 * all at once, as an overlay: from then on an entry in stage.N stands for that in rows.N. Then bounded
 * commits move them to rows.N. store_row_*() and scans do what is right in every phase; whoever reads the
 * databases by himself finds the rules in FORMAT.md. There is one stage or overlay at a time.
 */
enum store_overlay {
	OVERLAY_NONE = 0,
	OVERLAY_STAGED = 1, /* to be ignored */
	OVERLAY_SHOWN = 2
};
bool store_get_overlay(struct store_txn *t, enum store_overlay *out, struct err *err);
/* How many entries the stage has, or the overlay: all until its last table is moved. */
bool store_count_staged(struct store_txn *t, uint64_t *out, struct err *err);
/*
 * In this write transaction rows are written to the stage, and read from there first. Each transaction that
 * goes on with it says so anew. doubt.N is written as it is told: before the stage is shown, nothing may be
 * removed from it. ERR_BUG while there is an overlay.
 */
bool store_stage(struct store_txn *t, struct err *err);
bool store_stage_show(struct store_txn *t, struct err *err);
/* Forgets a stage, of a transaction that will be sent again. Nothing there: harmless. */
bool store_stage_drop(struct store_txn *t, struct err *err);
/*
 * Moves entries of the overlay to rows.N until `bytes` of pages, by estimate, have been written, and puts
 * doubt.N right for them. store_get_overlay() says when nothing is left.
 */
bool store_overlay_move(struct store_txn *t, size_t bytes, struct err *err);

/* ---- scans in key order ---- */
enum store_space { SPACE_ROWS, SPACE_DOUBT };
struct store_scan;
/* from: first key wanted (inclusive; n = 0: the start). Entries are empty in SPACE_DOUBT. */
bool store_scan_open(struct store_txn *t, uint32_t table_id, enum store_space space, struct slice from,
					 struct store_scan **out, struct err *err);
/* *found = false at the end. */
bool store_scan_next(struct store_scan *s, struct slice *key, struct slice *entry, bool *found,
					 struct err *err);
void store_scan_close(struct store_scan *s); /* before the transaction ends; accepts NULL */

#endif
