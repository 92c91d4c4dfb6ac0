/*
 * tests/sim/trace.h - a history as text, and its first fault.
 *
 * Only the first fault of a history counts: what follows is a consequence.
 */
#ifndef SIM_TRACE_H
#define SIM_TRACE_H

#include <stdbool.h>

struct trace {
	bool verbose;
	unsigned step;
	bool failed;
	char fault[1600];
};

#define trace(t, ...)                                                                                        \
	do {                                                                                                     \
		if ((t)->verbose) trace_print((t), __VA_ARGS__);                                                     \
	} while (0)

void trace_print(struct trace *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Records the fault, if it is the first. Always false. */
bool trace_fail(struct trace *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
