#include "state/key_decimal.h"

#include <stdio.h>
#include <string.h>

enum { CLASS_MINUS_INFINITY = 1, CLASS_BELOW, CLASS_ZERO, CLASS_ABOVE, CLASS_INFINITY, CLASS_NAN };

#define EXPONENT_BIAS 0x800000

/* Limits of PostgreSQL's numeric: digits before and behind the point. */
#define NUMERIC_WHOLE_MAX 131072
#define NUMERIC_SCALE_MAX 16383

#define FLOAT_DIGITS_MAX 17
#define FLOAT_TEXT_MAX   32 /* longer than any text of a float */

/* What PostgreSQL writes floats with: the exponents of the first digit, and those written without "e". */
struct float_form {
	size_t digits_max;
	int lowest, highest, plain_lowest, plain_highest;
};

static const struct float_form real_form = {9, -45, 38, -4, 5}, double_form = {17, -324, 308, -4, 14};

struct decimal {
	bool negative;
	struct slice whole, fraction;
	bool has_point;
	int64_t shift; /* behind the "e" */
};

/* ---- parsing ---- */

static struct slice take_digits(struct cur *c)
{
	const uint8_t *start = c->p;

	while (c->p < c->end && *c->p >= '0' && *c->p <= '9')
		c->p++;
	return (struct slice){start, (size_t)(c->p - start)};
}

static bool take_byte(struct cur *c, uint8_t byte)
{
	if (c->p == c->end || *c->p != byte) return false;
	c->p++;
	return true;
}

/* "e+15", "e-05"; loosely, since a float is printed again and compared. */
static int64_t take_exponent(struct cur *c)
{
	bool negative = take_byte(c, '-');
	struct slice digits;
	int64_t v = 0;

	if (!negative && !take_byte(c, '+')) c->bad = true;
	digits = take_digits(c);
	if (digits.n == 0 || digits.n > 3) c->bad = true;
	for (size_t i = 0; i < digits.n && !c->bad; i++)
		v = v * 10 + (digits.p[i] - '0');
	return negative ? -v : v;
}

static bool parse(struct slice text, struct decimal *d)
{
	struct cur c = cur_of(text);

	*d = (struct decimal){.negative = take_byte(&c, '-')};
	d->whole = take_digits(&c);
	d->has_point = take_byte(&c, '.');
	if (d->has_point) d->fraction = take_digits(&c);
	if (take_byte(&c, 'e')) d->shift = take_exponent(&c);
	return cur_done(&c) && d->whole.n > 0;
}

/* ---- the digits, across the point ---- */

static size_t digit_count(const struct decimal *d)
{
	return d->whole.n + d->fraction.n;
}

static uint8_t digit_at(const struct decimal *d, size_t i)
{
	return (uint8_t)((i < d->whole.n ? d->whole.p[i] : d->fraction.p[i - d->whole.n]) - '0');
}

/* The digits that matter: [first, end). Empty for zero. */
static void significant(const struct decimal *d, size_t *first, size_t *end)
{
	*first = 0;
	*end = digit_count(d);
	while (*first < *end && digit_at(d, *first) == 0)
		++*first;
	while (*end > *first && digit_at(d, *end - 1) == 0)
		--*end;
}

/* ---- encoding ---- */

static void put_digits(const struct decimal *d, size_t first, size_t end, struct buf *out)
{
	int64_t exponent = (int64_t)d->whole.n - (int64_t)first + d->shift + EXPONENT_BIAS;
	size_t start;

	buf_put_u8(out, d->negative ? CLASS_BELOW : CLASS_ABOVE);
	start = out->n;
	buf_put_u8(out, (uint8_t)(exponent >> 16));
	buf_put_u16(out, (uint16_t)exponent);
	for (size_t i = first; i < end; i += 2)
		buf_put_u8(out, (uint8_t)(1 + 10 * digit_at(d, i) + (i + 1 < end ? digit_at(d, i + 1) : 0)));
	buf_put_u8(out, 0);
	for (size_t i = start; d->negative && i < out->n; i++)
		out->p[i] = (uint8_t)~out->p[i];
}

static void put_decimal(const struct decimal *d, struct buf *out)
{
	size_t first, end;

	significant(d, &first, &end);
	if (first == end)
		buf_put_u8(out, CLASS_ZERO);
	else
		put_digits(d, first, end, out);
}

static bool put_special(struct slice text, struct buf *out)
{
	if (slice_eq(text, slice_of("NaN")))
		buf_put_u8(out, CLASS_NAN);
	else if (slice_eq(text, slice_of("Infinity")))
		buf_put_u8(out, CLASS_INFINITY);
	else if (slice_eq(text, slice_of("-Infinity")))
		buf_put_u8(out, CLASS_MINUS_INFINITY);
	else
		return false;
	return true;
}

/* ---- numeric ---- */

/* No "e", no leading zeros, a digit behind a point, no -0. */
static bool is_numeric_form(const struct decimal *d, struct slice text)
{
	size_t first, end;

	significant(d, &first, &end);
	return !memchr(text.p, 'e', text.n) && (d->whole.p[0] != '0' || d->whole.n == 1) &&
		   d->has_point == (d->fraction.n > 0) && !(d->negative && first == end) &&
		   d->whole.n <= NUMERIC_WHOLE_MAX && d->fraction.n <= NUMERIC_SCALE_MAX;
}

bool key_decimal_numeric(struct slice text, struct buf *out, uint16_t *tie)
{
	struct decimal d;

	*tie = 0;
	if (put_special(text, out)) return true;
	if (!parse(text, &d) || !is_numeric_form(&d, text)) return false;
	*tie = (uint16_t)d.fraction.n;
	put_decimal(&d, out);
	return true;
}

/* ---- floats ---- */

/* The first digit stands at 10^exponent. */
static size_t print_plain(const char *digits, size_t n, int exponent, char *out)
{
	size_t whole = exponent < 0 ? 0 : (size_t)exponent + 1, at = 0;

	if (exponent < 0) at = (size_t)sprintf(out, "0.%.*s", -exponent - 1, "000");
	for (size_t i = 0; i < n || i < whole; i++) {
		if (i == whole && whole > 0) out[at++] = '.';
		out[at++] = i < n ? digits[i] : '0';
	}
	return at;
}

static size_t print_scientific(const char *digits, size_t n, int exponent, char *out)
{
	size_t at = 0;

	out[at++] = digits[0];
	if (n > 1) out[at++] = '.';
	memcpy(out + at, digits + 1, n - 1);
	at += n - 1;
	return at + (size_t)sprintf(out + at, "e%+03d", exponent);
}

/* As float8out() would: shortest digits, plain or with "e" by the exponent. */
static bool prints_as_float(const struct decimal *d, struct slice text, const struct float_form *form)
{
	char digits[FLOAT_DIGITS_MAX], out[FLOAT_TEXT_MAX];
	size_t first, end, at = 0;
	int64_t exponent;

	significant(d, &first, &end);
	exponent = (int64_t)d->whole.n - (int64_t)first - 1 + d->shift;
	if (first == end || end - first > form->digits_max || exponent < form->lowest || exponent > form->highest)
		return false;
	for (size_t i = first; i < end; i++)
		digits[i - first] = (char)('0' + digit_at(d, i));
	if (d->negative) out[at++] = '-';
	if (exponent >= form->plain_lowest && exponent <= form->plain_highest)
		at += print_plain(digits, end - first, (int)exponent, out + at);
	else
		at += print_scientific(digits, end - first, (int)exponent, out + at);
	return slice_eq(text, (struct slice){(uint8_t *)out, at});
}

bool key_decimal_float(struct slice text, int bits, struct buf *out, uint16_t *tie)
{
	struct decimal d;

	*tie = !slice_eq(text, slice_of("-0"));
	if (put_special(text, out)) return true;
	if (slice_eq(text, slice_of("0")) || *tie == 0) {
		buf_put_u8(out, CLASS_ZERO);
		return true;
	}
	if (!parse(text, &d) || !prints_as_float(&d, text, bits == 32 ? &real_form : &double_form)) return false;
	put_decimal(&d, out);
	return true;
}
