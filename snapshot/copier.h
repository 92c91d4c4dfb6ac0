/*
 * snapshot/copier.h - runs: which chunk to ask for next, the windows its rows
 * wait in, and what becomes of them. Sans-I/O: it is handed rows, stream
 * events, answers and the time, and says what to ask; the loop thread and the
 * simulator drive it alike. WINDOWS.md has the argument.
 *
 *     copier_next() -> [the caller queries] -> copier_chunk_snapshot, _row ..., _end
 *                                                   |
 *     copier_stream_begin/change/truncate/commit/position   events supersede buffered rows,
 *                                                   |        positions close windows
 *                                        sink->emit(batch)   survivors with cursor and B
 *
 * emit() is called only between source transactions; the caller must push the
 * stream operations it holds before the batch it is given. It must not call
 * back into the copier. One thread.
 *
 * now_us is microseconds since 1970, from one clock for all calls. It may be set
 * back: then whatever waits is tried at once. What has no clock of its own (the
 * stream) uses the time told last.
 *
 * A copier does not outlive its SQL connection or its timeline: a server that
 * crashed may have lost what an open window shows, and writes the same LSNs
 * again. Make a new one from the store. The stream alone may be cut and begin
 * again. A standby must have replayed the checkpoint that the store was opened
 * with before its first chunk is asked for (WINDOWS.md, "Two sources").
 */
#ifndef SNAPSHOT_COPIER_H
#define SNAPSHOT_COPIER_H

#include "apply/applier.h"
#include "apply/batch.h"
#include "snapshot/operand.h"
#include "snapshot/visibility.h"

struct copier;

struct copier_config {
	uint16_t epoch;
	uint32_t chunk_rows_max; /* --chunk-rows */
	int chunk_time_ms;       /* --chunk-time: aim for a chunk's time on the server */
	size_t chunk_bytes;      /* aim for no more than this in one chunk */
	size_t buffer_bytes;     /* no new chunk while open windows hold more */
	size_t windows_max;      /* open windows at once */
	size_t requests_max;     /* unanswered requests at once; 0 = 1 */
	uint64_t next_run_id;    /* lowest unused */
};

struct copier_sink {
	void *ctx;
	void (*emit)(void *ctx, struct batch *b); /* takes b */
};

struct copier *copier_create(const struct copier_config *config, struct copier_sink sink);
void copier_destroy(struct copier *c); /* accepts NULL; open windows are dropped */

/* ---- what is being copied ---- */
struct copier_table {
	const struct schema *schema;   /* copied */
	const char *from_sql;          /* quoted and qualified, with ONLY where needed: ONLY "public"."t" */
	const char *filter_sql;        /* publication row filter, or NULL */
	const char *const *collations; /* of each column: quoted and qualified, or NULL where it is the type's
									  own; NULL: all are. Needed to compare stored values as the table does */
	bool copied; /* its first run is finished; a run that ends in this session makes it so */
	const struct operand *operands; /* for each key column; NULL: each is compared as the type of its name */
};
/*
 * Adds a table, or replaces what is known of it: a new schema version, name or
 * filter drops its open windows and chunks asked for; they are asked for
 * again from the last page that closed, or from the start if the key is another one.
 */
void copier_set_table(struct copier *c, const struct copier_table *t);
/* An open run of it is stopped. Unknown: nothing happens. */
void copier_remove_table(struct copier *c, uint32_t table_id);

/* An open run of the store goes on. Before or after its table is set. A paused one does nothing. */
void copier_load_run(struct copier *c, const struct run_record *r);
/* The stored set, ascending. Call before the stream. */
void copier_load_unseen(struct copier *c, const struct unseen_entry *e, size_t n);
/*
 * Starts a run of the whole table and emits its record, in one batch with the
 * end of an open run of the table. Call between source transactions, and after
 * the first copier_stream_position(): a run over rows that are there already
 * (any but a RUN_INITIAL without sweep) waits for snapshots that see everything
 * streamed so far.
 *
 * as_of: when the source's rows have to be read again because of something that the stream has yet
 * to reach (a rewrite that the catalog shows), a position behind it: entries below are what the run
 * replaces, and nothing is inherited from them.
 *
 * gate: pg_snapshot text, NULL or "" for none. Besides the first attach it is
 * needed when the stream is behind what the run is to bring, such as a table
 * altered while we were away (WINDOWS.md, "Rows the log cannot replace"). A text that is no
 * snapshot holds the run for ever; copier_is_gated() shows it. What an open run of the table still waits
 * for, the new one waits for as well.
 */
uint64_t copier_start_run_as_of(struct copier *c, uint32_t table_id, enum run_kind kind, bool sweep,
								const char *gate, const char *requester, lsn_t as_of, int64_t now_us);
/* The same as of now. */
uint64_t copier_start_run(struct copier *c, uint32_t table_id, enum run_kind kind, bool sweep,
						  const char *gate, const char *requester, int64_t now_us);

/* ---- runs that someone asks for ---- */
struct run_request {
	uint32_t table_id;     /* of a table that is set */
	const char *name;      /* the requester's id, or "" */
	const char *requester; /* who, for people */
	enum sweep_mode sweep;
	const char *where_sql; /* the scope as in run_record; "" = no condition */
	struct slice from, to;
	struct slice keys; /* as in OP_RUN_KEYS */
	uint64_t listed;   /* how many they are */
	uint32_t chunk_time_ms, rows_per_second;
};
/* Its record, as of now_us; the texts are q's. */
struct run_record run_request_record(const struct run_request *q, uint64_t id, int64_t now_us);
/* Adds the record to b, and before it the keys that it lists. */
void run_request_add(struct batch *b, const struct run_request *q, const struct run_record *r);

/*
 * Queues a run behind the table's open ones and emits its record. Runs of one table go one after the other,
 * those of several take turns; a paused one is passed over. If the table has an open run of that name, its id
 * is returned and nothing happens: *is_new says which (may be NULL). Between source transactions, and after
 * the first copier_stream_position().
 */
uint64_t copier_request_run(struct copier *c, const struct run_request *r, bool *is_new, int64_t now_us);
/* False: there is no such open run. What was asked for it is given up; what has closed stays. A paused run is
 * paused again, and one that is not paused resumed, without effect. Between source transactions. */
bool copier_pause_run(struct copier *c, uint64_t run_id, int64_t now_us);
bool copier_resume_run(struct copier *c, uint64_t run_id, int64_t now_us);
/*
 * A first copy that has not begun waits for what was hanging when we attached, and what that was is in its
 * record only: it cannot be stopped then (it can be paused).
 */
enum run_stop { RUN_STOP_OK, RUN_STOP_UNKNOWN, RUN_STOP_GATED };
enum run_stop copier_stop_run(struct copier *c, uint64_t run_id, const char *why, int64_t now_us);

/*
 * The statement that finds fault with a condition or bounds before they are recorded: it returns no row, or
 * one where from is behind to, or fails with the server's message. It reads nothing. NULL when there is
 * nothing to check, or the table is not set. malloc'd.
 */
char *copier_check_sql(const struct copier *c, const struct run_request *r);

/* ---- asking ---- */
enum chunk_kind {
	CHUNK_PAGE,   /* the next rows in key order */
	CHUNK_KEYED,  /* these keys, whole rows */
	CHUNK_EXISTS, /* these keys, key columns only */
	CHUNK_SCOPED, /* of these stored rows those in the run's scope: their number from 1, then the source's
					 whole row, NULLs where it has none */
	CHUNK_PROBE,  /* only the snapshot: to learn what has become visible */
	CHUNK_CHECK   /* only whether the run's condition and bounds are good; no rows */
};

struct chunk_request {
	uint64_t id;
	enum chunk_kind kind;
	uint32_t table_id;      /* 0 for CHUNK_PROBE */
	uint64_t run_id;        /* 0: none */
	const char *lock_sql;   /* LOCK TABLE ... IN ACCESS SHARE MODE; NULL for CHUNK_PROBE */
	const char *select_sql; /* worth preparing: few texts a table; NULL for CHUNK_PROBE */
	const char *statement;  /* a name for it as a prepared statement, unique to the text */
	int nparams;
	const char *const *params; /* texts */
	size_t ncolumns;           /* of each row */
	bool of_user; /* select_sql or params hold what someone gave: CHUNK_REFUSED when the server says no */
};

/*
 * The next question, or NULL when there is nothing to ask now. At most config.requests_max are unanswered
 * at a time, one for each connection, not counting those of copier_chunk_is_whole(); ask again after that,
 * and after each _end or _failed. The request lives until these.
 */
const struct chunk_request *copier_next(struct copier *c, int64_t now_us);
/* When copier_next() may have something although nothing else happens, microseconds; INT64_MAX = never. */
int64_t copier_next_at(const struct copier *c);

/*
 * ---- replies, in this order; all refuse bytes that do not fit with ERR_PROTOCOL ----
 *
 * Replies to a request whose table has changed meanwhile are accepted and mean
 * nothing. After an error the request is still unanswered: end it with copier_chunk_failed().
 */
/* high is ignored for CHUNK_PROBE. */
bool copier_chunk_snapshot(struct copier *c, uint64_t id, const char *snapshot, bool standby, lsn_t high,
						   struct err *err);
/*
 * All rows of a page are here, nrows with `last` the last of them, in so many bytes, but copier_chunk_row()
 * has not had them yet: it may be called now, and once. *ahead = true: the next page may be asked for before
 * they are handed over, on this connection or another; this one's rows and end must still follow. False while
 * the run has reasons to wait between pages.
 */
bool copier_chunk_is_whole(struct copier *c, uint64_t id, const struct slice *last, size_t n, size_t nrows,
						   size_t bytes, bool *ahead, struct err *err);
/* texts[i].p == NULL is NULL. */
bool copier_chunk_row(struct copier *c, uint64_t id, const struct slice *texts, size_t n, struct err *err);
bool copier_chunk_end(struct copier *c, uint64_t id, int64_t elapsed_us, int64_t now_us, struct err *err);

enum chunk_failure {
	CHUNK_LOST,    /* connection gone, deadlock, serialization, lock timeout: ask again */
	CHUNK_TIMEOUT, /* statement timeout: ask again for less */
	CHUNK_SCHEMA,  /* undefined table or column: wait for copier_set_table or a while, ask again */
	CHUNK_REFUSED  /* of_user only: the condition or a bound is bad. The run fails with message */
};
void copier_chunk_failed(struct copier *c, uint64_t id, enum chunk_failure why, int64_t now_us);
/* The same with the server's message (may be NULL), for the record of a run that ends by it. */
void copier_chunk_failed_saying(struct copier *c, uint64_t id, enum chunk_failure why, const char *message,
								int64_t now_us);

/* ---- the stream, in order ---- */
/*
 * Every commit below commit_lsn has been received; windows with H <= commit_lsn
 * close first. Inside a transaction: the stream was cut, and what it brought of that
 * transaction does not count; the caller must not have pushed any of it.
 */
void copier_stream_begin(struct copier *c, xid_t xid, lsn_t commit_lsn);
/* Each key written: both of a key change. */
void copier_stream_change(struct copier *c, uint32_t table_id, struct slice key);
void copier_stream_truncate(struct copier *c, uint32_t table_id);
void copier_stream_commit(struct copier *c, lsn_t end_lsn);
/* A keepalive. Inside a transaction it is kept until the commit. */
void copier_stream_position(struct copier *c, lsn_t wal_end);

/* ---- answers of the applier (not taken) ---- */
void copier_answer(struct copier *c, const struct answer *a, int64_t now_us);

/* ---- yielding ---- */
/*
 * How busy the rest is; chunks are asked for less often the busier. Tell it several times a second; what was
 * told last holds.
 */
struct copier_load {
	double queue_fill;   /* of the queue to the applier, 0 to 1 */
	int64_t lag_us;      /* commit to applied, as far as known */
	double changes_rate; /* changes a second in the stream; 0 = the source is idle */
	int64_t way_us;      /* to the source's answer to the smallest of questions */
};
void copier_set_load(struct copier *c, struct copier_load load);

/* ---- state ---- */
/* Highest H that an open window waits for; false: none waits. */
bool copier_waits_for(const struct copier *c, lsn_t *high);
/* Its first run is finished and its count of rows in doubt, as answered last, is 0 (as before any answer). */
bool copier_table_is_live(const struct copier *c, uint32_t table_id);
bool copier_all_live(const struct copier *c); /* of the tables set */
/* True while a chunk's snapshot did not see what it must, as a rule its run's gate: *gate then says what. */
bool copier_is_gated(const struct copier *c, const char **gate);

struct copier_progress {
	uint64_t run_id;
	uint64_t rows_read; /* by the open or last run in pages that have closed, earlier sessions included */
	enum run_state state;
};
bool copier_get_progress(const struct copier *c, uint32_t table_id, struct copier_progress *out);

#endif
