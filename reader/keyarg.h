/*
 * reader/keyarg.h - the key columns in one word of the command line.
 *
 * A key of one column is the word as it is. A key of several is values with
 * commas between them, each quoted as in CSV when it holds a comma or a quote:
 * 3,"a,b". Fewer values than key columns are a prefix of the key.
 */
#ifndef READER_KEYARG_H
#define READER_KEYARG_H

#include <stdbool.h>
#include <stddef.h>

#include "state/err.h"

struct keyarg {
	const char **values;
	size_t n;
	char *memory; /* of the values */
};

/* ncolumns: of the key. ERR_CONFIG: more values than that, or broken quotes; then *out is zeroed. */
bool keyarg_parse(const char *word, size_t ncolumns, struct keyarg *out, struct err *err);
void keyarg_finish(struct keyarg *k); /* accepts zeroed memory */

#endif
