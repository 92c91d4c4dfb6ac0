/*
 * reader/log.h - one line for each event, on stderr, as key=value or JSON.
 *
 *     log_info("copy finished", KV_S("table", name), KV_U("rows", n), KV_END);
 *     -> ts=2026-11-29T16:30:00.123Z level=info msg="copy finished" table=public.t rows=12
 *
 * Only reader/ logs. Any thread. A line is one write(2), however long.
 *
 * A text value is quoted when it is empty or has a space, '=', a quote, a
 * backslash, or bytes that do not print; inside quotes those are \n \t \r \"
 * \\ or \xNN. JSON replaces bytes that are not UTF-8 by U+FFFD. Nothing here
 * knows a secret when it sees one: never pass a connection string, use
 * conninfo_display().
 */
#ifndef READER_LOG_H
#define READER_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "state/bytes.h"
#include "state/pos.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };
enum log_format { LOG_TEXT, LOG_JSON };

struct log_field {
	const char *key; /* NULL ends the list */
	enum { KV_STRING, KV_UNSIGNED, KV_SIGNED, KV_LSN } kind;
	union {
		const char *s; /* NULL: the field is left out */
		uint64_t u;
		int64_t i;
	} v;
};

/* clang-format off */
#define KV_S(k, x) {(k), KV_STRING, {.s = (x)}}
#define KV_U(k, x) {(k), KV_UNSIGNED, {.u = (uint64_t)(x)}}
#define KV_I(k, x) {(k), KV_SIGNED, {.i = (int64_t)(x)}}
#define KV_L(k, x) {(k), KV_LSN, {.u = (x).v}} /* lsn_t */
#define KV_END {0}
/* clang-format on */

/* Before log_setup(): text, LOG_INFO. */
void log_setup(enum log_format format, enum log_level lowest);
bool log_is_json(void);
void log_write(enum log_level level, const char *msg, const struct log_field *fields);

/*
 * Called before and after each line is written, on the writing thread, one
 * line at a time: lets a progress bar step aside. NULL = none. A hook must not log.
 */
void log_set_hooks(void (*before)(void), void (*after)(void));

/* The line itself, with its newline, at the end of out. Pure. now_us: microseconds since 1970 UTC. */
void log_line(struct buf *out, enum log_format format, int64_t now_us, enum log_level level, const char *msg,
			  const struct log_field *fields);

#define log_debug(msg, ...) log_write(LOG_DEBUG, (msg), (const struct log_field[]){__VA_ARGS__})
#define log_info(msg, ...)  log_write(LOG_INFO, (msg), (const struct log_field[]){__VA_ARGS__})
#define log_warn(msg, ...)  log_write(LOG_WARN, (msg), (const struct log_field[]){__VA_ARGS__})
#define log_error(msg, ...) log_write(LOG_ERROR, (msg), (const struct log_field[]){__VA_ARGS__})

#endif
