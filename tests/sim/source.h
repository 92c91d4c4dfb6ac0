/*
 * tests/sim/source.h - the simulated database: a small multi-version store of
 * tables with integer keys, whose commits reach the WAL, the log stream and
 * other sessions' snapshots at different times, as PostgreSQL's do.
 *
 *     write -> commit record in WAL (commit_lsn) -> flushed (streamed from here on) -> visible
 *                              \-> asynchronous commit: visible before it is flushed
 *
 * A row lock is held until its transaction is visible, so that for each key the
 * order of versions, of commits and of visibility agree. A row version is known
 * by its content: no two versions share column "a".
 *
 * Everything random is drawn from the history's generator. One thread.
 */
#ifndef SIM_SOURCE_H
#define SIM_SOURCE_H

#include "state/pos.h"
#include "tests/sim/rng.h"
#include "tests/sim/trace.h"

#define SRC_TABLES_MAX 3
#define SRC_KEYS_MAX   8
#define SRC_WIDE_MAX   2
#define SRC_TENANTS    4 /* NULL is one */
#define SRC_SUBS_MAX   8
#define SRC_ACTIVE_MAX 16 /* open, prepared and hung transactions */

/* One row version. version 0: no row. A wide value is known by its number; 0 is NULL, odd ones are stored out
 * of line. */
struct src_row {
	uint32_t version;
	uint32_t tenant; /* what conditions are about: 1 to 3, 0 is NULL */
	uint32_t wide[SRC_WIDE_MAX];
};

enum src_event_kind { SRC_INSERT, SRC_UPDATE, SRC_DELETE, SRC_TRUNCATE };

/* A change as the publication shows it. */
struct src_event {
	enum src_event_kind kind;
	int table, key;
	int old_key;     /* SRC_UPDATE that changes the key: where the row was; else -1 */
	unsigned unsent; /* bit i: wide value i is not sent */
	struct src_row row;
	lsn_t lsn;
};

enum src_tx_state { TX_ACTIVE, TX_PREPARED, TX_COMMITTED, TX_VISIBLE, TX_ABORTED };

struct src_tx {
	xid_t xid; /* 0 until the first write */
	enum src_tx_state state;
	bool hung;      /* waits for a synchronous standby */
	bool lazy;      /* a long writer */
	bool savepoint; /* inside a subtransaction */
	unsigned save_op;
	size_t save_event;
	int nsubs;
	xid_t subs[SRC_SUBS_MAX];
	bool sub_aborted[SRC_SUBS_MAX];
	lsn_t commit_lsn, end_lsn; /* the commit record; 0 until then */
	lsn_t abort_lsn;
	unsigned nops;
	struct src_event *events;
	size_t nevents, cap;
};

struct src_version {
	struct src_tx *tx; /* NULL: was there before everything */
	unsigned op;
	struct src_row row; /* version 0: deleted */
};

struct src_chain {
	struct src_version *v; /* oldest first */
	size_t n, cap;
	struct src_tx *lock;
};

struct src_table {
	int nkeys;
	int nwide;
	bool filtered;   /* the publication shows only rows with version % 3 != 0 */
	lsn_t published; /* changes below are not streamed; UINT64_MAX: not published */
	struct src_tx *truncating;
	int readers; /* chunks that hold ACCESS SHARE */
	struct src_chain chains[SRC_KEYS_MAX];
};

struct source_shape {
	int ntables;
	int nkeys;
	unsigned filter_percent; /* tables with a row filter */
	unsigned outage_percent; /* how often the synchronous standby goes away */
	unsigned delay_percent;  /* commits whose visibility comes later than their flush */
	unsigned async_percent;
	unsigned lazy_percent;
	unsigned truncate_percent;
	unsigned move_percent; /* updates that change the key */
};

struct source {
	struct rng *rng;
	struct trace *trace;
	struct source_shape shape;
	int ntables;
	struct src_table tables[SRC_TABLES_MAX];
	struct src_tx *active[SRC_ACTIVE_MAX];
	size_t nactive;
	struct src_tx **all; /* every transaction ever, for freeing and for snapshots */
	size_t nall, capall;
	struct src_tx **log; /* committed, in commit order */
	size_t nlog, caplog;
	bool outage; /* the synchronous standby is gone: commits hang */
	xid_t next_xid, latest_completed;
	lsn_t insert, flush, replay; /* replay: of a physical replica that chunks may be read from */
	uint32_t next_version, next_wide;
};

void source_init(struct source *s, struct rng *rng, struct trace *trace, const struct source_shape *shape);
void source_finish(struct source *s); /* accepts zeroed memory */

/* One step of one writer, or the beginning of a new one. */
void source_step(struct source *s);
/* The end of a history: one open transaction ends. False: none is left. */
bool source_settle(struct source *s);
void source_flush(struct source *s);
/* The replica replays up to somewhere in what is flushed. */
void source_replay(struct source *s);
/* A transaction without changes, flushed and visible at once: the high watermark's message. */
void source_emit_message(struct source *s);
/* Immediate shutdown and recovery: what was not flushed never happened; open transactions are rolled back,
 * hung commits are visible. */
void source_crash(struct source *s);

/* What a session sees: the primary's visible transactions, or the replica's replayed ones. */
struct src_view {
	bool replica;
};

#define SRC_SNAPSHOT_SIZE 4096
/* pg_current_snapshot() as the view's server prints it. */
void source_snapshot(const struct source *s, struct src_view view, char out[SRC_SNAPSHOT_SIZE]);
/* The snapshot that CREATE_REPLICATION_SLOT exports: sees exactly what is committed in the WAL. */
void source_slot_snapshot(const struct source *s, char out[SRC_SNAPSHOT_SIZE]);
/* False: ACCESS SHARE would wait for a TRUNCATE. */
bool source_can_lock(const struct source *s, struct src_view view, int table);
/* The published row of a key in a view, version 0: none. */
struct src_row source_read(const struct source *s, struct src_view view, int table, int key);
/* The published row as of a position: every commit below `end` counts. */
struct src_row source_read_at(const struct source *s, lsn_t end, int table, int key);

/* Finds a committed or uncommitted version by its content; -1: no such version of that key. */
int source_find_version(const struct source *s, int table, int key, uint32_t version);
bool source_publishes(const struct src_table *t, struct src_row row);

#endif
