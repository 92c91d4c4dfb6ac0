/* reader/json.c - see json.h. */
#include "reader/json.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "reader/bytescan.h"

/* Text is escaped in pieces, so that room for the worst case (six for one) stays small. */
#define PIECE 4096
#define WORST 6

/* ---- strings ---- */

static bool is_tail(uint8_t c)
{
	return (c & 0xc0) == 0x80;
}

size_t utf8_length(const uint8_t *p, const uint8_t *end)
{
	size_t left = (size_t)(end - p);
	uint8_t c = p[0];

	if (c < 0x80) return 1;
	if (c < 0xc2 || c > 0xf4 || left < 2 || !is_tail(p[1])) return 0;
	if (c < 0xe0) return 2;
	if (left < 3 || !is_tail(p[2])) return 0;
	if (c < 0xf0) {
		bool overlong = c == 0xe0 && p[1] < 0xa0;
		bool surrogate = c == 0xed && p[1] >= 0xa0;
		return overlong || surrogate ? 0 : 3;
	}
	if (left < 4 || !is_tail(p[3]) || (c == 0xf0 && p[1] < 0x90) || (c == 0xf4 && p[1] >= 0x90)) return 0;
	return 4;
}

static size_t smaller(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Room for n bytes at the end, not counted in yet. */
static uint8_t *room(struct buf *out, size_t n)
{
	uint8_t *q = buf_extend(out, n);
	out->n -= n;
	return q;
}

static uint8_t *put_escape(uint8_t *q, uint8_t c)
{
	static const char letters[32] = {['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r'};
	static const char hex[] = "0123456789abcdef";

	*q++ = '\\';
	if (c >= 0x20) {
		*q++ = c;
	} else if (letters[c]) {
		*q++ = (uint8_t)letters[c];
	} else {
		memcpy(q, "u00", 3);
		q[3] = (uint8_t)hex[c >> 4];
		q[4] = (uint8_t)hex[c & 15];
		q += 5;
	}
	return q;
}

/* One character that is not plain ASCII, at *p; moves *p behind it. */
static uint8_t *put_special(uint8_t *q, const uint8_t **p, const uint8_t *end)
{
	size_t n;

	if (**p < 0x80) return put_escape(q, *(*p)++);
	n = utf8_length(*p, end);
	if (n == 0) {
		memcpy(q, "\xef\xbf\xbd", 3); /* U+FFFD for each byte that does not fit */
		*p += 1;
		return q + 3;
	}
	memcpy(q, *p, n);
	*p += n;
	return q + n;
}

static bool word_is_plain(uint64_t w)
{
	return !(word_below(w, 0x20) | word_has(w, '"') | word_has(w, '\\') | word_high(w));
}

static bool is_special(uint8_t c)
{
	return c < 0x20 || c >= 0x80 || c == '"' || c == '\\';
}

/* Escapes from p until stop is reached; a character may reach across stop, up to end. */
static uint8_t *put_piece(uint8_t *q, const uint8_t **p, const uint8_t *stop, const uint8_t *end)
{
	while (*p < stop) {
		if (stop - *p >= 8 && word_is_plain(word_load(*p))) {
			memcpy(q, *p, 8);
			q += 8;
			*p += 8;
			continue;
		}
		if (is_special(**p))
			q = put_special(q, p, end);
		else
			*q++ = *(*p)++;
	}
	return q;
}

void json_put_string(struct buf *out, struct slice text)
{
	const uint8_t *p = text.p, *end = p + text.n;
	uint8_t *start = room(out, WORST * smaller(text.n, PIECE) + 2), *q = start;

	*q++ = '"';
	for (;;) {
		q = put_piece(q, &p, p + smaller((size_t)(end - p), PIECE), end);
		if (p == end) break;
		out->n += (size_t)(q - start);
		start = q = room(out, WORST * smaller((size_t)(end - p), PIECE) + 1);
	}
	*q++ = '"';
	out->n += (size_t)(q - start);
}

/* ---- numbers ---- */

void json_put_uint(struct buf *out, uint64_t v)
{
	uint8_t digits[20];
	size_t n = sizeof digits;

	do
		digits[--n] = (uint8_t)('0' + v % 10);
	while ((v /= 10) > 0);
	buf_put(out, digits + n, sizeof digits - n);
}

struct lexer {
	const uint8_t *p, *end;
};

static bool take(struct lexer *l, uint8_t c)
{
	if (l->p == l->end || *l->p != c) return false;
	l->p++;
	return true;
}

static bool take_either(struct lexer *l, uint8_t a, uint8_t b)
{
	return take(l, a) || take(l, b);
}

/* One digit or more. */
static bool take_digits(struct lexer *l)
{
	const uint8_t *start = l->p;

	while (l->p < l->end && *l->p >= '0' && *l->p <= '9')
		l->p++;
	return l->p > start;
}

static bool take_number(struct lexer *l)
{
	take(l, '-');
	if (!take(l, '0') && !take_digits(l)) return false;
	if (take(l, '.') && !take_digits(l)) return false;
	if (take_either(l, 'e', 'E')) {
		take_either(l, '+', '-');
		return take_digits(l);
	}
	return true;
}

bool json_is_number(struct slice text)
{
	struct lexer l = {text.p, text.p + text.n};

	return take_number(&l) && l.p == l.end;
}

/* ---- is it JSON? ---- */

static void skip_space(struct lexer *l)
{
	while (l->p < l->end && (*l->p == ' ' || *l->p == '\t' || *l->p == '\n' || *l->p == '\r'))
		l->p++;
}

static bool take_hex4(struct lexer *l)
{
	for (int i = 0; i < 4; i++, l->p++) {
		if (l->p == l->end || !*l->p || !strchr("0123456789abcdefABCDEF", *l->p)) return false;
	}
	return true;
}

/* What follows a backslash. */
static bool take_escape(struct lexer *l)
{
	if (take(l, 'u')) return take_hex4(l);
	if (l->p == l->end || !*l->p || !strchr("\"\\/bfnrt", *l->p)) return false;
	l->p++;
	return true;
}

static bool take_string(struct lexer *l)
{
	if (!take(l, '"')) return false;
	while (l->p < l->end) {
		size_t n;

		if (l->end - l->p >= 8 && word_is_plain(word_load(l->p))) {
			l->p += 8;
			continue;
		}
		if (take(l, '"')) return true;
		if (take(l, '\\')) {
			if (!take_escape(l)) return false;
			continue;
		}
		n = utf8_length(l->p, l->end);
		if (n == 0 || *l->p < 0x20) return false;
		l->p += n;
	}
	return false;
}

static bool take_word(struct lexer *l, const char *word)
{
	size_t n = strlen(word);

	if ((size_t)(l->end - l->p) < n || memcmp(l->p, word, n) != 0) return false;
	l->p += n;
	return true;
}

static bool take_scalar(struct lexer *l)
{
	if (l->p == l->end) return false;
	switch (*l->p) {
	case '"': return take_string(l);
	case 't': return take_word(l, "true");
	case 'f': return take_word(l, "false");
	case 'n': return take_word(l, "null");
	default: return take_number(l);
	}
}

/* White space is skipped before and behind the key and before the value. */
static bool take_key(struct lexer *l)
{
	skip_space(l);
	if (!take_string(l)) return false;
	skip_space(l);
	if (!take(l, ':')) return false;
	skip_space(l);
	return true;
}

static bool closes_top(struct lexer *l, const struct buf *stack)
{
	return stack->n > 0 && take(l, stack->p[stack->n - 1]);
}

/* Opens objects and arrays down to a scalar or an empty one: then *complete. The stack holds what closes
 * them. */
static bool take_value(struct lexer *l, struct buf *stack, bool *complete)
{
	bool object;

	*complete = true;
	skip_space(l);
	object = take(l, '{');
	if (!object && !take(l, '[')) return take_scalar(l);
	buf_put_u8(stack, object ? '}' : ']');
	skip_space(l);
	if (closes_top(l, stack)) {
		stack->n--;
		return true;
	}
	*complete = false;
	return object ? take_key(l) : true;
}

/* Behind a complete value: closes what ends here, up to a comma (*more) or the end of the outermost. */
static bool take_ends(struct lexer *l, struct buf *stack, bool *more)
{
	*more = false;
	while (stack->n > 0) {
		skip_space(l);
		if (take(l, ',')) {
			*more = true;
			return stack->p[stack->n - 1] == '}' ? take_key(l) : true;
		}
		if (!closes_top(l, stack)) return false;
		stack->n--;
	}
	return true;
}

bool json_is_valid(struct slice text, struct buf *stack)
{
	struct lexer l = {text.p, text.p + text.n};
	bool complete, more = true;

	buf_reset(stack);
	while (more) {
		if (!take_value(&l, stack, &complete)) return false;
		if (complete && !take_ends(&l, stack, &more)) return false;
	}
	skip_space(&l);
	return l.p == l.end;
}

/* ---- the writer ---- */

struct json json_to(struct buf *out)
{
	return (struct json){out, false};
}

/* The comma and the key in front of a value. */
static void put_member(struct json *j, const char *key)
{
	if (j->comma) buf_put_u8(j->out, ',');
	j->comma = true;
	if (key) {
		json_put_string(j->out, slice_of(key));
		buf_put_u8(j->out, ':');
	}
}

void json_open(struct json *j, const char *key, char bracket)
{
	assert(bracket == '{' || bracket == '[');
	put_member(j, key);
	buf_put_u8(j->out, (uint8_t)bracket);
	j->comma = false;
}

void json_close(struct json *j, char bracket)
{
	assert(bracket == '}' || bracket == ']');
	buf_put_u8(j->out, (uint8_t)bracket);
	j->comma = true;
}

void json_add_string(struct json *j, const char *key, const char *text)
{
	if (!text) {
		json_add_null(j, key);
		return;
	}
	put_member(j, key);
	json_put_string(j->out, slice_of(text));
}

void json_add_uint(struct json *j, const char *key, uint64_t v)
{
	put_member(j, key);
	json_put_uint(j->out, v);
}

void json_add_bool(struct json *j, const char *key, bool v)
{
	put_member(j, key);
	buf_put(j->out, v ? "true" : "false", v ? 4 : 5);
}

void json_add_real(struct json *j, const char *key, double v, int decimals)
{
	char digits[400];
	int n;

	assert(isfinite(v) && decimals >= 0 && decimals <= 17);
	n = snprintf(digits, sizeof digits, "%.*f", decimals, v);
	put_member(j, key);
	buf_put(j->out, digits, (size_t)n);
}

void json_add_null(struct json *j, const char *key)
{
	put_member(j, key);
	buf_put(j->out, "null", 4);
}
