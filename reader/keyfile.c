#include "reader/keyfile.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "reader/request.h"

static bool read_all(FILE *in, const char *path, struct buf *out, struct err *err)
{
	size_t n;
	do {
		n = fread(buf_extend(out, 65536), 1, 65536, in);
		out->n -= 65536 - n;
		if (out->n > KEYFILE_BYTES_MAX)
			return err_set(err, ERR_CONFIG, "%s has more than 4 MiB of keys: ask for a range or a condition",
						   path);
	} while (n > 0);
	return !ferror(in) || err_set(err, ERR_CONFIG, "cannot read %s: %s", path, strerror(errno));
}

bool keyfile_read(const char *path, struct buf *out, struct err *err)
{
	if (strcmp(path, "-") == 0) return read_all(stdin, "standard input", out, err);
	FILE *in = fopen(path, "re");
	if (in == NULL) return err_set(err, ERR_CONFIG, "cannot open %s: %s", path, strerror(errno));
	bool good = read_all(in, path, out, err);
	fclose(in);
	return good;
}

/* ---- COPY text ---- */

static int digit(uint8_t c, int base)
{
	int v = c >= '0' && c <= '9'   ? c - '0'
			: c >= 'a' && c <= 'f' ? c - 'a' + 10
			: c >= 'A' && c <= 'F' ? c - 'A' + 10
								   : 99;
	return v < base ? v : -1;
}

/* \ooo and \xhh, as COPY reads them. */
static const uint8_t *take_digits(const uint8_t *p, const uint8_t *end, int base, int most, struct buf *out)
{
	int v = 0;
	for (int n = 0; n < most && p < end && digit(*p, base) >= 0; n++)
		v = v * base + digit(*p++, base);
	buf_put_u8(out, (uint8_t)v);
	return p;
}

/* p: behind the backslash. */
static const uint8_t *take_escape(const uint8_t *p, const uint8_t *end, struct buf *out)
{
	static const char letters[] = "bfnrtv", values[] = "\b\f\n\r\t\v";
	const char *at = *p != 0 ? strchr(letters, *p) : NULL;
	if (digit(*p, 8) >= 0) return take_digits(p, end, 8, 3, out);
	if (*p == 'x' && p + 1 < end && digit(p[1], 16) >= 0) return take_digits(p + 1, end, 16, 2, out);
	buf_put_u8(out, at != NULL ? (uint8_t)values[at - letters] : *p);
	return p + 1;
}

static bool refuse(size_t line, const char *why, struct err *err)
{
	return err_set(err, ERR_CONFIG, "line %zu of the keys: %s", line, why);
}

static bool put_value(struct slice raw, size_t line, struct json *j, struct buf *text, struct err *err)
{
	const uint8_t *p = raw.p, *end = raw.p + raw.n;
	if (raw.n == 2 && memcmp(raw.p, "\\N", 2) == 0) return refuse(line, "a key has no NULL", err);
	buf_reset(text);
	while (p < end) {
		if (*p != '\\') {
			buf_put_u8(text, *p++);
			continue;
		}
		if (++p == end) return refuse(line, "a backslash at the end", err);
		p = take_escape(p, end, text);
	}
	if (text->n > 0 && memchr(text->p, 0, text->n) != NULL) return refuse(line, "a zero byte", err);
	for (size_t i = 0, n; i < text->n; i += n) {
		n = utf8_length(text->p + i, text->p + text->n);
		if (n == 0) return refuse(line, "a text that is not UTF-8", err);
	}
	buf_put_u8(text, 0);
	json_add_string(j, NULL, (const char *)text->p);
	return true;
}

static bool put_line(struct slice raw, size_t line, size_t ncolumns, struct json *j, struct buf *text,
					 struct err *err)
{
	const uint8_t *p = raw.p, *end = raw.p + raw.n;
	json_open(j, NULL, '[');
	for (size_t n = 1;; n++) {
		const uint8_t *tab = p < end ? memchr(p, '\t', (size_t)(end - p)) : NULL;
		if (!put_value((struct slice){p, (size_t)((tab != NULL ? tab : end) - p)}, line, j, text, err))
			return false;
		if ((tab == NULL) != (n == ncolumns))
			return err_set(err, ERR_CONFIG, "line %zu of the keys does not have %zu column%s", line, ncolumns,
						   ncolumns == 1 ? "" : "s");
		if (tab == NULL) break;
		p = tab + 1;
	}
	json_close(j, ']');
	return true;
}

static bool is_end_mark(struct slice line)
{
	return line.n == 2 && memcmp(line.p, "\\.", 2) == 0;
}

bool keyfile_put_json(struct slice text, size_t ncolumns, struct json *j, struct err *err)
{
	const uint8_t *p = text.p, *end = text.p + text.n;
	struct buf scratch = {0};
	size_t line = 0;
	bool good = true;
	json_open(j, "keys", '[');
	while (good && p < end) {
		const uint8_t *newline = memchr(p, '\n', (size_t)(end - p)), *stop = newline != NULL ? newline : end;
		struct slice raw = {p, (size_t)(stop - p)};
		p = stop + 1;
		if (is_end_mark(raw)) break;
		if (++line > REQUEST_KEYS_MAX)
			good = err_set(err, ERR_CONFIG, "there are more than %d keys: ask for a range or a condition",
						   REQUEST_KEYS_MAX);
		else
			good = put_line(raw, line, ncolumns, j, &scratch, err);
	}
	json_close(j, ']');
	buf_finish(&scratch);
	return good && (line > 0 || err_set(err, ERR_CONFIG, "there are no keys"));
}
