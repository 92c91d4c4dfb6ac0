/*
 * state/err.h - what went wrong, and what the caller should do about it.
 *
 * Functions that can fail return bool and take `struct err *err` last. On
 * false, err holds a kind (which decides: reconnect, exit, and with which
 * code) and one sentence. Callers add context on the way up with err_wrap()
 * ("relation public.t: short column"). Only reader/ prints errors.
 *
 * Plain data; any thread, one owner.
 */
#ifndef STATE_ERR_H
#define STATE_ERR_H

#include <stdbool.h>
#include <stddef.h>

enum err_kind {
	ERR_NONE = 0,
	ERR_RETRY,    /* the connection or server went away: reconnect with backoff */
	ERR_CONFIG,   /* the user must change something: exit 2 */
	ERR_PROTOCOL, /* bytes from the server that we cannot accept */
	ERR_CORRUPT,  /* the store is damaged, foreign or newer than us: exit 5 */
	ERR_BUSY,     /* the store is in use by another daemon: exit 5 */
	ERR_GAP,      /* history is gone or is not ours: exit 3 */
	ERR_DISK,     /* writing the store failed; previous state intact; retry can work */
	ERR_NOMEM,
	ERR_STOPPED, /* asked to stop (signal); not a fault */
	ERR_BUG      /* cannot happen */
};

struct err {
	enum err_kind kind;
	char msg[1024]; /* one sentence, no trailing newline, UTF-8 */
};

/*
 * Sets kind and message: trailing newlines are dropped, a text too long is cut
 * and ends in "...". Arguments may point into err->msg. Always returns false, so
 * `return err_set(...)` reads well.
 */
bool err_set(struct err *err, enum err_kind kind, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Prefixes "context: " to the message; keeps the kind. Always returns false. */
bool err_wrap(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
