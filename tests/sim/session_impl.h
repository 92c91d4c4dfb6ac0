/*
 * tests/sim/session_impl.h - what the files of a session share. Private.
 *
 *   session.c        starts, ends, the stream, chunks
 *   session_apply.c  the worker: batches, commits, large transactions, answers
 *   session_asks.c   what someone asks of the copier
 */
#ifndef SIM_SESSION_IMPL_H
#define SIM_SESSION_IMPL_H

#include "tests/sim/session.h"

static inline struct trace *trace_of(const struct session *s)
{
	return &s->w->trace;
}

static inline bool note(struct session *s, bool ok, const struct err *err)
{
	return ok || trace_fail(trace_of(s), "%s", err->msg);
}

/* ---- session_apply.c ---- */
struct batch *session_dequeue(struct session *s); /* NULL: the queue is empty */
void session_take_answers(struct session *s);

/* ---- session_asks.c ---- */
/* False: no room for one more run in this history. */
bool session_can_start(const struct session *s, unsigned reserved);
void session_run_is(struct session *s, uint64_t id, struct ask a);

#endif
