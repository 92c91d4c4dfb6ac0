/*
 * One scanner reads names and patterns. A scanned part is its bytes with every
 * wildcard as an escape pair, so that a quoted '*' stays a letter:
 *
 *     "a*"   ->  a *            b*c?  ->  b ESC * c ESC ?
 *
 * A literal ESC is the pair ESC ESC. Names have no wildcards and are stored plain.
 */
#include "reader/names.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "reader/json.h"

#define ESC '\x1b'

struct scan {
	const char *start, *p;
	bool patterns; /* wildcards and lists are allowed */
	struct err *err;
};

static bool is_start(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (unsigned char)c >= 0x80;
}

static bool is_part(char c)
{
	return is_start(c) || (c >= '0' && c <= '9') || c == '$';
}

/* PostgreSQL folds ASCII only in UTF-8. */
static uint8_t fold(char c)
{
	return (uint8_t)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

static size_t at(const struct scan *s)
{
	return (size_t)(s->p - s->start) + 1;
}

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool ends_part(const struct scan *s)
{
	char c = *s->p;

	return c == '\0' || c == '.' || (s->patterns && (c == ',' || is_space(c)));
}

/* Bytes of the first character of s; a byte that is not UTF-8 counts as one. */
static size_t char_length(const char *s)
{
	size_t n = utf8_length((const uint8_t *)s, (const uint8_t *)s + strnlen(s, 4));

	return n > 0 ? n : 1;
}

static bool refuse(const struct scan *s, const char *why)
{
	return err_set(s->err, ERR_CONFIG, "\"%s\": unexpected '%.*s' at byte %zu: %s", s->start,
				   (int)char_length(s->p), s->p, at(s), why);
}

static void put_literal(const struct scan *s, struct buf *out, uint8_t c)
{
	if (s->patterns && c == ESC) buf_put_u8(out, ESC);
	buf_put_u8(out, c);
}

static bool scan_quoted(struct scan *s, struct buf *out)
{
	size_t opened = at(s);
	size_t before = out->n;

	for (s->p++; s->p[0] != '"' || s->p[1] == '"'; s->p++) {
		if (*s->p == '\0')
			return err_set(s->err, ERR_CONFIG, "\"%s\": the quote at byte %zu is not closed", s->start,
						   opened);
		if (*s->p == '"') s->p++;
		put_literal(s, out, (uint8_t)*s->p);
	}
	if (out->n == before)
		return err_set(s->err, ERR_CONFIG, "\"%s\": the quoted name at byte %zu is empty", s->start, opened);
	s->p++;
	return ends_part(s) || refuse(s, "a quoted name ends at its closing quote");
}

static bool refuse_unquoted(const struct scan *s)
{
	if (*s->p == '*' || *s->p == '?') return refuse(s, "one table is wanted here, not a pattern");
	return refuse(s, "a name that needs it is written in double quotes");
}

static bool scan_unquoted(struct scan *s, struct buf *out)
{
	const char *first = s->p;

	if (ends_part(s))
		return err_set(s->err, ERR_CONFIG, "\"%s\": a name is missing at byte %zu", s->start, at(s));
	for (; !ends_part(s); s->p++) {
		if (s->patterns && (*s->p == '*' || *s->p == '?'))
			buf_put_u8(out, ESC);
		else if (!(s->p == first ? is_start(*s->p) : is_part(*s->p)))
			return refuse_unquoted(s);
		buf_put_u8(out, fold(*s->p));
	}
	return true;
}

/* One part and a NUL at the end of out. */
static bool scan_part(struct scan *s, struct buf *out)
{
	bool ok = *s->p == '"' ? scan_quoted(s, out) : scan_unquoted(s, out);

	if (ok) buf_put_u8(out, 0);
	return ok;
}

/* "schema\0table\0" at the end of out. */
static bool scan_name(struct scan *s, struct buf *out)
{
	size_t before = out->n;

	if (!scan_part(s, out)) return false;
	if (*s->p == '.') {
		s->p++;
		if (!scan_part(s, out)) return false;
	} else {
		size_t n = out->n - before;

		buf_put(out, "public", sizeof "public"); /* makes room; then the two change places */
		memmove(out->p + before + sizeof "public", out->p + before, n);
		memcpy(out->p + before, "public", sizeof "public");
	}
	if (*s->p == '.')
		return err_set(s->err, ERR_CONFIG, "\"%s\": a third part at byte %zu: a table is schema.table",
					   s->start, at(s));
	return true;
}

static const char *table_part(const char *schema_part)
{
	return schema_part + strlen(schema_part) + 1;
}

/* ---- one table ---- */

bool names_parse(const char *text, struct table_name *out, struct err *err)
{
	struct scan s = {text, text, false, err};
	struct buf b = {0};

	*out = (struct table_name){0};
	if (!scan_name(&s, &b)) {
		buf_finish(&b);
		return false;
	}
	out->schema_name = (char *)b.p;
	out->table_name = out->schema_name + strlen(out->schema_name) + 1;
	return true;
}

void names_finish(struct table_name *name)
{
	free(name->schema_name);
	*name = (struct table_name){0};
}

static bool is_plain(const char *part)
{
	if (!is_start(*part)) return false;
	for (; *part != '\0'; part++)
		if (!is_part(*part) || fold(*part) != (uint8_t)*part) return false;
	return true;
}

static void put_part(struct buf *out, const char *part)
{
	if (is_plain(part)) {
		buf_put(out, part, strlen(part));
		return;
	}
	buf_put_u8(out, '"');
	for (; *part != '\0'; part++) {
		if (*part == '"') buf_put_u8(out, '"');
		buf_put_u8(out, (uint8_t)*part);
	}
	buf_put_u8(out, '"');
}

void names_put(struct buf *out, const char *schema_name, const char *table_name)
{
	put_part(out, schema_name);
	buf_put_u8(out, '.');
	put_part(out, table_name);
}

/* ---- patterns ---- */

struct pattern {
	size_t parts; /* offset in bytes: "schema\0table\0" with escapes */
	size_t text;  /* offset in bytes: as written */
};

struct name_patterns {
	struct buf bytes;
	struct pattern *list;
	size_t n;
};

static void skip_spaces(struct scan *s)
{
	while (is_space(*s->p))
		s->p++;
}

static void add_pattern(struct name_patterns *p, size_t parts, const char *text, size_t n)
{
	p->list = realloc(p->list, (p->n + 1) * sizeof *p->list);
	if (p->list == NULL) abort();
	p->list[p->n++] = (struct pattern){parts, p->bytes.n};
	buf_put(&p->bytes, text, n);
	buf_put_u8(&p->bytes, 0);
}

static bool scan_pattern(struct scan *s, struct name_patterns *p)
{
	size_t parts = p->bytes.n;
	const char *text;

	skip_spaces(s);
	text = s->p;
	if (!scan_name(s, &p->bytes)) return false;
	add_pattern(p, parts, text, (size_t)(s->p - text));
	skip_spaces(s);
	return *s->p == '\0' || *s->p == ',' || refuse(s, "patterns are separated by commas");
}

bool names_parse_patterns(const char *text, struct name_patterns **out, struct err *err)
{
	struct scan s = {text, text, true, err};
	struct name_patterns *p = calloc(1, sizeof *p);
	bool ok;

	*out = NULL;
	if (p == NULL) return err_set(err, ERR_NOMEM, "out of memory");
	while ((ok = scan_pattern(&s, p)) && *s.p == ',')
		s.p++;
	if (!ok) {
		names_free_patterns(p);
		return false;
	}
	*out = p;
	return true;
}

void names_free_patterns(struct name_patterns *p)
{
	if (p == NULL) return;
	buf_finish(&p->bytes);
	free(p->list);
	free(p);
}

size_t names_pattern_count(const struct name_patterns *p)
{
	return p->n;
}

const char *names_pattern_text(const struct name_patterns *p, size_t i)
{
	assert(i < p->n);
	return (const char *)p->bytes.p + p->list[i].text;
}

static bool is_wildcard(const char *pattern, char which)
{
	return pattern[0] == ESC && pattern[1] == which;
}

/* Bytes of pattern that stand for the byte c; 0: it does not match. */
static size_t match_literal(const char *pattern, char c)
{
	if (pattern[0] == ESC) return c == ESC && pattern[1] == ESC ? 2 : 0;
	return c == pattern[0] && c != '\0' ? 1 : 0;
}

/*
 * Greedy with one way back: after a mismatch the last '*' takes one character
 * more. Only the last one matters, so time is bounded by the product of the lengths.
 */
static bool match_part(const char *pattern, const char *s)
{
	const char *after_star = NULL, *resume = NULL;
	size_t n;

	while (*s != '\0' || *pattern != '\0') {
		if (is_wildcard(pattern, '*')) {
			after_star = pattern += 2;
			resume = s;
		} else if (is_wildcard(pattern, '?') && *s != '\0') {
			pattern += 2;
			s += char_length(s);
		} else if ((n = match_literal(pattern, *s)) > 0) {
			pattern += n;
			s++;
		} else if (after_star != NULL && *resume != '\0') {
			pattern = after_star;
			s = resume += char_length(resume);
		} else {
			return false;
		}
	}
	return true;
}

bool names_match_one(const struct name_patterns *p, size_t i, const char *schema_name, const char *table_name)
{
	const char *schema_part;

	assert(i < p->n);
	schema_part = (const char *)p->bytes.p + p->list[i].parts;
	return match_part(schema_part, schema_name) && match_part(table_part(schema_part), table_name);
}

bool names_match(const struct name_patterns *p, const char *schema_name, const char *table_name)
{
	for (size_t i = 0; i < p->n; i++)
		if (names_match_one(p, i, schema_name, table_name)) return true;
	return false;
}
