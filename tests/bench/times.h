/*
 * tests/bench/times.h - when each commit had returned: a file that one process
 * writes and another reads while it does. Zeroed: closed, where set does nothing.
 */
#ifndef BENCH_TIMES_H
#define BENCH_TIMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct times {
	int64_t *ns; /* 0: not yet */
	size_t count;
};

/* Makes the file as long as `count` numbers if it is shorter. False: said on stderr. */
bool times_open(struct times *t, const char *path, size_t count);
void times_close(struct times *t);
void times_set(struct times *t, size_t number, int64_t ns);
int64_t times_get(const struct times *t, size_t number);

#endif
