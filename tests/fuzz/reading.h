/*
 * tests/fuzz/reading.h - everything that tidemark.h can say of a store, asked
 * in one transaction.
 */
#ifndef TESTS_FUZZ_READING_H
#define TESTS_FUZZ_READING_H

#include <stdbool.h>

#include "state/tidemark.h"

/*
 * Reads all of it. exact: nothing may fail, rows come in number and in order
 * as the table says, and each is found by its key. Otherwise a part that fails
 * must be CORRUPT with a sentence, and the rest is read all the same.
 */
void reading_all(tidemark *tm, bool exact);

#endif
