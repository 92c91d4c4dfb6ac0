/*
 * reader/loop.h - the event loop, the request to stop, and waiting.
 *
 * The program's main path is straight-line code: it connects, checks, asks,
 * one step after the other, and waits for each with loop_wait(), which keeps
 * timers and signals going. Once streaming, everything happens in callbacks
 * and loop_wait() waits for the end of it. loop_wait() is never called from a callback.
 */
#ifndef READER_LOOP_H
#define READER_LOOP_H

#include <uv.h>

#include "state/err.h"

struct loop {
	uv_loop_t uv;
	uv_signal_t sigint, sigterm;
	bool stopping; /* a signal asked us to stop */
};

bool loop_init(struct loop *l,
			   struct err *err); /* catches SIGINT and SIGTERM; a second one ends the process */
void loop_finish(struct loop *l);

int64_t loop_now_us(void);  /* monotonic, microseconds */
int64_t clock_now_us(void); /* wall clock, microseconds since 1970 */

/*
 * Runs the loop until *done, or timeout_ms passed (negative: no limit), or a
 * stop was asked for. True only when *done; otherwise ERR_STOPPED, or
 * ERR_RETRY "timed out".
 */
bool loop_wait(struct loop *l, const bool *done, int timeout_ms, struct err *err);

/* Sleeps in the loop; false with ERR_STOPPED when asked to stop meanwhile. */
bool loop_sleep(struct loop *l, int ms, struct err *err);

/* A timer on the heap: freed by loop_timer_free() in its own time, so that it may be called from its
 * callback. */
typedef void (*loop_timer_fn)(void *ctx);
struct loop_timer;
struct loop_timer *loop_timer_create(struct loop *l, loop_timer_fn fn, void *ctx);
void loop_timer_set(struct loop_timer *t, int64_t in_us); /* one shot; replaces an earlier setting */
bool loop_timer_is_set(const struct loop_timer *t);
void loop_timer_clear(struct loop_timer *t);
void loop_timer_free(struct loop_timer *t); /* accepts NULL */

#endif
