/* reader/keyarg.c - see keyarg.h. */
#include "reader/keyarg.h"

#include <stdlib.h>
#include <string.h>

/* Moves the value that begins at *p to `to`, unquoted and with a NUL; *p ends at a comma or the end. NULL:
 * broken. */
static char *take_quoted(const char **p, char *to)
{
	const char *s = *p + 1;

	for (; *s; s++) {
		if (*s == '"' && *++s != '"') {
			*p = s;
			*to++ = '\0';
			return *s == ',' || *s == '\0' ? to : NULL;
		}
		*to++ = *s;
	}
	return NULL;
}

static char *take_plain(const char **p, char *to)
{
	size_t n = strcspn(*p, ",");

	memcpy(to, *p, n);
	to[n] = '\0';
	*p += n;
	return to + n + 1;
}

static bool split(const char *word, size_t ncolumns, struct keyarg *out, struct err *err)
{
	const char *p = word;
	char *to = out->memory;

	for (;; p++) {
		if (out->n == ncolumns)
			return err_set(err, ERR_CONFIG,
						   "more than %zu values in %s; put quotes around a value with a comma", ncolumns,
						   word);
		out->values[out->n++] = to;
		to = *p == '"' ? take_quoted(&p, to) : take_plain(&p, to);
		if (!to)
			return err_set(err, ERR_CONFIG,
						   "the quotes in %s do not end at a comma or the end; write a quote "
						   "inside quotes twice",
						   word);
		if (*p == '\0') return true;
	}
}

bool keyarg_parse(const char *word, size_t ncolumns, struct keyarg *out, struct err *err)
{
	*out = (struct keyarg){0};
	out->values = calloc(ncolumns, sizeof *out->values);
	out->memory = malloc(strlen(word) + ncolumns + 1);
	if (!out->values || !out->memory) {
		keyarg_finish(out);
		return err_set(err, ERR_NOMEM, "out of memory");
	}
	if (ncolumns == 1) {
		out->values[out->n++] = strcpy(out->memory, word);
		return true;
	}
	if (split(word, ncolumns, out, err)) return true;
	keyarg_finish(out);
	return false;
}

void keyarg_finish(struct keyarg *k)
{
	free(k->values);
	free(k->memory);
	*k = (struct keyarg){0};
}
