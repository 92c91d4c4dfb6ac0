/*
 * reader/log.h - one line for each event, on stderr, as key=value or JSON.
 *
 *     log_info("copy finished", KV_S("table", name), KV_U("rows", n), KV_END);
 *     -> ts=2026-11-29T16:30:00.123Z level=info msg="copy finished" table=public.t rows=12
 *
 * Only reader/ logs. Any thread. A line is one write(2).
 */
#ifndef READER_LOG_H
#define READER_LOG_H

#include <stdint.h>

#include "state/pos.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };
enum log_format { LOG_TEXT, LOG_JSON };

struct log_field {
	const char *key; /* NULL ends the list */
	enum { KV_STRING, KV_UNSIGNED, KV_SIGNED, KV_LSN } kind;
	union { const char *s; uint64_t u; int64_t i; } v; /* string NULL: the field is left out */
};

#define KV_S(k, x) {(k), KV_STRING, {.s = (x)}}
#define KV_U(k, x) {(k), KV_UNSIGNED, {.u = (uint64_t)(x)}}
#define KV_I(k, x) {(k), KV_SIGNED, {.i = (int64_t)(x)}}
#define KV_L(k, x) {(k), KV_LSN, {.u = (x).v}} /* lsn_t */
#define KV_END {0}

void log_setup(enum log_format format, enum log_level lowest);
void log_write(enum log_level level, const char *msg, const struct log_field *fields);

/* Called before and after each line is written, on the writing thread: lets a progress bar step aside. NULL = none. */
void log_set_hooks(void (*before)(void), void (*after)(void));

#define log_debug(msg, ...) log_write(LOG_DEBUG, (msg), (const struct log_field[]){__VA_ARGS__})
#define log_info(msg, ...) log_write(LOG_INFO, (msg), (const struct log_field[]){__VA_ARGS__})
#define log_warn(msg, ...) log_write(LOG_WARN, (msg), (const struct log_field[]){__VA_ARGS__})
#define log_error(msg, ...) log_write(LOG_ERROR, (msg), (const struct log_field[]){__VA_ARGS__})

#endif
