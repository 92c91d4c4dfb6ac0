/*
 * reader/asking.h - the other end of a request: asks the daemon of a store
 * over its control.sock, or where none runs, records the request in the store itself.
 */
#ifndef READER_ASKING_H
#define READER_ASKING_H

#include "reader/outcome.h"

/*
 * line: a request as JSON, with an id if it starts something, without a newline. True: it is durable, and
 * answer gets the line that says what became of it. ERR_RETRY: nobody knows; asked again it does not happen
 * twice.
 */
bool asking_make(const char *dir, struct slice line, struct buf *answer, struct err *err);
/* What such a line says. */
bool asking_read(struct slice answer, struct outcome *out, struct err *err);

#endif
