#include "snapshot/sql_text.h"

#include <stdio.h>

void sql_put(struct buf *out, const char *s)
{
	struct slice text = slice_of(s);

	buf_put(out, text.p, text.n);
}

void sql_put_number(struct buf *out, const char *before, size_t n)
{
	char digits[24];

	snprintf(digits, sizeof digits, "%zu", n);
	sql_put(out, before);
	sql_put(out, digits);
}

const char *sql_finish(struct arena *a, struct buf *text)
{
	const char *s;

	buf_put_u8(text, 0);
	s = arena_copy(a, text->p, text->n);
	buf_finish(text);
	return s;
}
