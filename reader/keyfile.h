/*
 * reader/keyfile.h - keys in a file, one a line in COPY text format: tabs
 * between the key columns, as `scan --format copy` prints them.
 */
#ifndef READER_KEYFILE_H
#define READER_KEYFILE_H

#include "reader/json.h"
#include "state/err.h"

#define KEYFILE_BYTES_MAX (4 * 1024 * 1024)

/* Reads all of FILE, or standard input for "-". ERR_CONFIG: it cannot be read, or has too much. */
bool keyfile_read(const char *path, struct buf *out, struct err *err);
/*
 * Adds an array of keys, each an array of texts, to j under "keys". ERR_CONFIG names the line: not `ncolumns`
 * columns, a NULL, an escape that is none.
 */
bool keyfile_put_json(struct slice text, size_t ncolumns, struct json *j, struct err *err);

#endif
