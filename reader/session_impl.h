/*
 * reader/session_impl.h - the session's own state, shared by its files:
 *
 *   session.c         beginning and ending: the program's main path
 *   session_stream.c  messages of the stream, and signals in it
 *   session_ask.c     which chunk to ask for, windows that wait, --until
 *   session_tick.c    what the apply thread says; progress, load, delete markers
 *   session_look.c    the catalog, for what the stream does not tell
 *
 * While it streams all of it runs in callbacks of the loop thread. Nobody else includes it.
 */
#ifndef READER_SESSION_IMPL_H
#define READER_SESSION_IMPL_H

#include "apply/worker.h"
#include "reader/changes.h"
#include "reader/chunk_lines.h"
#include "reader/query.h"
#include "reader/readers.h"
#include "reader/session.h"
#include "reader/stream.h"

enum {
	TICK_US = 200000,
	LOOK_EVERY_US = 5000000 /* at the catalog */
};

/* A table of this session, for progress and for telling when it becomes live. */
struct watched {
	uint32_t table_id;
	const struct source_table *source;
	char *shape; /* as seen last */
	bool live;
};

struct session {
	struct loop *loop;
	const struct session_config *config;
	struct stored stored;
	struct attachment a;
	struct worker *worker;
	struct copier *copier;
	struct changes *changes;
	struct query *query;      /* the first connection; it also takes questions */
	struct chunk_lines lines; /* further ones, for chunks alone */
	struct stream *stream;
	uv_async_t *wake; /* from the worker */
	struct loop_timer *tick, *ask_timer, *nudge_timer, *look_timer;

	struct watched *watched;
	size_t nwatched;
	bool all_live;

	struct worker_status status;
	uint64_t counted;    /* changes, when the load was told last */
	double changes_rate; /* a second, as told last */
	int64_t counted_us, purged_us;
	lsn_t mark; /* received then; apply_lag_us() */
	int64_t marked_us;
	int64_t timed_us, quickest_us; /* stream_lag_us(): commit time looked at last, and the least delay */
	bool has_quickest;
	bool paused;
	lsn_t nudged; /* highest H a watermark message was sent for */
	bool nudge_is_late;
	int64_t idle_stored_us;
	struct readers readers;
	bool gate_logged;
	int64_t looked_us; /* at the catalog; 0 = no look is under way */

	bool target_asked, target_known;
	lsn_t target; /* until: the position to reach */
	bool done, reached, stream_over, undecodable;
	bool wants_line; /* one more connection for chunks */
	bool turn;       /* done, or something for the main path to do */
	bool reattach;   /* the end is only for another look at the catalog */
	struct err err;
};

/* ---- session.c ---- */
/* err NULL: what was to be reached is. */
void session_end(struct session *s, const struct err *err);
size_t session_queue_bytes(const struct session *s);

/* ---- session_stream.c ---- */
void session_push(void *ctx, struct batch *b); /* takes b, as does: */
void session_emit(void *ctx, struct batch *b);
bool session_on_message(void *ctx, struct slice payload, struct err *err);
void session_on_position(void *ctx, lsn_t wal_end);
void session_on_dry(void *ctx);
void session_on_stream_lost(void *ctx, const struct err *err);
bool session_is_between(void *ctx); /* two source transactions */
bool session_replicates(void *ctx, uint32_t table_id);
void session_store_idle(struct session *s); /* the position of a slot that has nothing for us */
void session_on_signals(void *ctx, const struct signals *signals);
void session_refuse_signal(void *ctx, const char *why);
void session_find_signal_table(struct session *s);

/* ---- session_ask.c ---- */
void session_ask(struct session *s);
void session_on_ask_timer(void *ctx);
void session_on_chunk_done(void *ctx);
void session_on_chunk_whole(void *ctx);
void session_on_query_lost(void *ctx, const struct err *err);
void session_on_nudge(void *ctx);
void session_check_until(struct session *s);

/* ---- session_tick.c ---- */
void session_wake(void *ctx); /* from the apply thread */
void session_on_wake(uv_async_t *handle);
void session_on_tick(void *ctx);

/* ---- session_look.c ---- */
void session_look(void *ctx);
void session_on_described(void *ctx);

#endif
