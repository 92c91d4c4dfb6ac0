#include "snapshot/operand.h"

#include <string.h>

#include "state/bytes.h"

static size_t text_size(const char *s)
{
	return s ? strlen(s) + 1 : 0;
}

static const char *put_text(char **at, const char *s)
{
	size_t n = text_size(s);
	char *to = *at;

	if (!s) return NULL;
	memcpy(to, s, n);
	*at += n;
	return to;
}

struct operand *operands_copy(const struct operand *o, size_t n)
{
	struct operand *to;
	size_t size = n * sizeof *o;
	char *at;

	if (!o) return NULL;
	for (size_t i = 0; i < n; i++)
		size += text_size(o[i].cast) + text_size(o[i].gt) + text_size(o[i].eq);
	to = mem_alloc(size);
	at = (char *)(to + n);
	for (size_t i = 0; i < n; i++)
		to[i] = (struct operand){put_text(&at, o[i].cast), put_text(&at, o[i].gt), put_text(&at, o[i].eq)};
	return to;
}

static bool same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

bool operands_same(const struct operand *a, const struct operand *b, size_t n)
{
	if (!a || !b) return a == b;
	for (size_t i = 0; i < n; i++)
		if (!same_text(a[i].cast, b[i].cast) || !same_text(a[i].gt, b[i].gt) || !same_text(a[i].eq, b[i].eq))
			return false;
	return true;
}
