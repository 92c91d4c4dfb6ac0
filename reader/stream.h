/*
 * reader/stream.h - the replication connection while it streams: takes
 * messages off the socket, sends status, watches for silence.
 *
 * Status carries only durable positions and is sent on a timer of its own, so
 * that it goes on while reading is paused (the server counts our messages, not
 * our reading). Loop thread.
 */
#ifndef READER_STREAM_H
#define READER_STREAM_H

#include "reader/pgconn.h"
#include "reader/pgoutput.h"

struct stream;

struct stream_events {
	void *ctx;
	/* One pgoutput message; bytes die on return. False: refused, err says why; the stream stops. */
	bool (*message)(void *ctx, struct slice payload, struct err *err);
	/* Every commit below wal_end was delivered before. */
	void (*position)(void *ctx, lsn_t wal_end);
	/* Nothing more is at hand right now. */
	void (*dry)(void *ctx);
	/* The stream is over; nothing is called afterwards. */
	void (*lost)(void *ctx, const struct err *err);
};

/* START_REPLICATION from `from`. The connection stays the caller's; it and the slot's name must outlive the
 * stream. */
bool stream_start(struct loop *l, struct pgconn *c, const char *slot, const char *publication, lsn_t from,
				  const struct stream_events *events, struct stream **out, struct err *err);
void stream_stop(struct stream *s); /* accepts NULL; not from a callback of its own */

/* It was lost to an error inside the server, which may meet it again at the same change. */
bool stream_was_undecodable(const struct stream *s);

void stream_acknowledge(struct stream *s, lsn_t durable); /* never moves back */
/* Sends status at once, and asks the server for its position. */
void stream_ask_position(struct stream *s);
/* A last status before the end; best effort. */
void stream_say_goodbye(struct stream *s);

void stream_pause(struct stream *s);
void stream_resume(struct stream *s);

#endif
