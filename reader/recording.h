/*
 * reader/recording.h - a request written straight into the store, for when no
 * session streams: the source is away, or the daemon is down. The next session
 * finds the runs and goes on with them; it also asks the server whether their conditions are good SQL.
 *
 * The caller is the store's writer and has no transaction open in it.
 */
#ifndef READER_RECORDING_H
#define READER_RECORDING_H

#include "reader/outcome.h"
#include "reader/resolve.h"

/* True: it is durable. ERR_CONFIG: refused, nothing was written. */
bool recording_make(struct store *s, const struct request *r, struct outcome *out, struct err *err);

/* What a run becomes by a request; what it is, when there is nothing to do. */
enum run_state recording_state(enum request_verb verb, const struct found_run *f);
/* Why a run was stopped by a request, for its record. */
void recording_reason(const struct request *r, char *out, size_t size);

#endif
