/*
 * reader/signal.h - a signal of the source as a request. Two forms are
 * understood:
 *
 * - a request as CONTROL.md has it, as the content of a message;
 * - what people send to Debezium: a row (id, type, data) of the signal table, or a message
 *   {"id": ..., "type": ..., "data": {...}}. Types: execute-snapshot, stop-snapshot, pause-snapshot,
 *   resume-snapshot, log.
 *
 * Pure. The same signal always has the same id, so that one that is delivered again is the same run.
 */
#ifndef READER_SIGNAL_H
#define READER_SIGNAL_H

#include "reader/request.h"
#include "reader/signals.h"

struct signal_meaning {
	bool is_request;
	struct request request; /* to be finished by the caller */
	char *log;              /* malloc'd; text of a log signal, or a remark on the request; NULL = none */
};

/* ERR_CONFIG: it makes no sense; says why. */
bool signal_read(const struct signal *s, struct signal_meaning *out, struct err *err);

#endif
