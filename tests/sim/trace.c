#include "tests/sim/trace.h"

#include <stdarg.h>
#include <stdio.h>

void trace_print(struct trace *t, const char *fmt, ...)
{
	va_list ap;

	printf("%4u  ", t->step);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
}

bool trace_fail(struct trace *t, const char *fmt, ...)
{
	va_list ap;

	if (t->failed) return false;
	t->failed = true;
	va_start(ap, fmt);
	vsnprintf(t->fault, sizeof t->fault, fmt, ap);
	va_end(ap);
	trace(t, "FAULT %s", t->fault);
	return false;
}
