#include "state/key_time.h"

#include <string.h>

/* Limits of PostgreSQL's datatype/timestamp.h: 4714-11-24 BC to 5874897-12-31 and 294276-12-31. */
#define DAYS_MIN   (-2451545)
#define DATE_MAX   2145031948
#define STAMP_MAX  106751982
#define US_PER_DAY INT64_C(86400000000)

#define TEXT_MAX 64 /* longer than any of these texts */

struct civil {
	int64_t year; /* astronomical: 0 is 1 BC */
	unsigned month, day;
};

/* Days since 2000-01-01, proleptic Gregorian. Years are counted from March; an era is 400 years. */
static int64_t days_of(struct civil c)
{
	int64_t y = c.month <= 2 ? c.year - 1 : c.year;
	int64_t era = (y >= 0 ? y : y - 399) / 400;
	int64_t year_of_era = y - era * 400;
	int64_t day_of_year = (153 * ((int64_t)c.month + (c.month > 2 ? -3 : 9)) + 2) / 5 + (int64_t)c.day - 1;
	int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;

	return era * 146097 + day_of_era - 730425;
}

static struct civil civil_of(int64_t days)
{
	int64_t z = days + 730425;
	int64_t era = (z >= 0 ? z : z - 146096) / 146097;
	int64_t doe = z - era * 146097; /* day of era */
	int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
	int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
	int64_t mp = (5 * doy + 2) / 153; /* months since March */
	unsigned month = (unsigned)(mp < 10 ? mp + 3 : mp - 9);

	return (struct civil){
		.year = yoe + era * 400 + (month <= 2),
		.month = month,
		.day = (unsigned)(doy - (153 * mp + 2) / 5 + 1),
	};
}

/* ---- parsing: loose, because the result is printed and compared ---- */

static int64_t take_number(struct cur *c, int min_digits, int max_digits)
{
	int64_t v = 0;
	int n = 0;

	for (; c->p < c->end && *c->p >= '0' && *c->p <= '9' && n < max_digits; c->p++, n++)
		v = v * 10 + (*c->p - '0');
	if (n < min_digits) c->bad = true;
	return v;
}

static void take_literal(struct cur *c, const char *literal)
{
	struct slice want = slice_of(literal);

	if (!slice_eq(cur_bytes(c, want.n), want)) c->bad = true;
}

static struct civil take_civil(struct cur *c)
{
	struct civil v;

	v.year = take_number(c, 4, 7);
	take_literal(c, "-");
	v.month = (unsigned)take_number(c, 2, 2);
	take_literal(c, "-");
	v.day = (unsigned)take_number(c, 2, 2);
	return v;
}

static int64_t take_fraction(struct cur *c)
{
	const uint8_t *start;
	int64_t us;

	if (c->bad || c->p == c->end || *c->p != '.') return 0;
	start = ++c->p;
	us = take_number(c, 1, 6);
	for (ptrdiff_t n = c->p - start; n < 6; n++)
		us *= 10;
	return us;
}

/* Microseconds since midnight. */
static int64_t take_clock(struct cur *c)
{
	int64_t h, m, s;

	h = take_number(c, 2, 2);
	take_literal(c, ":");
	m = take_number(c, 2, 2);
	take_literal(c, ":");
	s = take_number(c, 2, 2);
	return ((h * 60 + m) * 60 + s) * 1000000 + take_fraction(c);
}

/* The optional " BC" that ends the text. Years before Christ have no zero: 1 BC is year 0. */
static void take_end(struct cur *c, struct civil *v)
{
	if (!c->bad && c->p < c->end) {
		take_literal(c, " BC");
		v->year = 1 - v->year;
	}
	if (!cur_done(c)) c->bad = true;
}

/* ---- printing, as EncodeDateOnly and EncodeDateTime do ---- */

/* At least `width` digits. */
static uint8_t *put_number(uint8_t *at, int64_t v, int width)
{
	uint8_t digits[20];
	int n = 0;

	for (; v > 0 || n < width; v /= 10)
		digits[n++] = (uint8_t)('0' + v % 10);
	while (n > 0)
		*at++ = digits[--n];
	return at;
}

static uint8_t *put_literal(uint8_t *at, const char *s)
{
	size_t n = strlen(s);

	memcpy(at, s, n);
	return at + n;
}

static uint8_t *put_civil(uint8_t *at, struct civil v)
{
	at = put_number(at, v.year > 0 ? v.year : 1 - v.year, 4);
	at = put_number(put_literal(at, "-"), v.month, 2);
	return put_number(put_literal(at, "-"), v.day, 2);
}

static uint8_t *put_clock(uint8_t *at, int64_t us)
{
	int64_t s = us / 1000000, fraction = us % 1000000;

	at = put_number(at, s / 3600, 2);
	at = put_number(put_literal(at, ":"), s / 60 % 60, 2);
	at = put_number(put_literal(at, ":"), s % 60, 2);
	if (fraction == 0) return at;
	at = put_number(put_literal(at, "."), fraction, 6);
	while (at[-1] == '0')
		at--;
	return at;
}

static bool prints_as_date(struct slice text, int64_t days)
{
	struct civil v = civil_of(days);
	uint8_t out[TEXT_MAX], *at = put_civil(out, v);

	at = put_literal(at, v.year <= 0 ? " BC" : "");
	return slice_eq(text, (struct slice){out, (size_t)(at - out)});
}

static bool prints_as_stamp(struct slice text, int64_t days, int64_t clock, const char *zone)
{
	struct civil v = civil_of(days);
	uint8_t out[TEXT_MAX], *at = put_clock(put_literal(put_civil(out, v), " "), clock);

	at = put_literal(put_literal(at, zone), v.year <= 0 ? " BC" : "");
	return slice_eq(text, (struct slice){out, (size_t)(at - out)});
}

bool key_time_date(struct slice text, int32_t *days)
{
	struct cur c = cur_of(text);
	struct civil v;
	int64_t d;

	if (slice_eq(text, slice_of("infinity")) || slice_eq(text, slice_of("-infinity"))) {
		*days = text.p[0] == '-' ? INT32_MIN : INT32_MAX;
		return true;
	}
	v = take_civil(&c);
	take_end(&c, &v);
	d = c.bad ? INT64_MIN : days_of(v);
	if (d < DAYS_MIN || d > DATE_MAX || !prints_as_date(text, d)) return false;
	*days = (int32_t)d;
	return true;
}

bool key_time_stamp(struct slice text, bool zoned, int64_t *us)
{
	const char *zone = zoned ? "+00" : "";
	struct cur c = cur_of(text);
	struct civil v;
	int64_t clock, d;

	if (slice_eq(text, slice_of("infinity")) || slice_eq(text, slice_of("-infinity"))) {
		*us = text.p[0] == '-' ? INT64_MIN : INT64_MAX;
		return true;
	}
	v = take_civil(&c);
	take_literal(&c, " ");
	clock = take_clock(&c);
	take_literal(&c, zone);
	take_end(&c, &v);
	d = c.bad ? INT64_MIN : days_of(v);
	if (d < DAYS_MIN || d > STAMP_MAX || clock >= US_PER_DAY || !prints_as_stamp(text, d, clock, zone))
		return false;
	*us = d * US_PER_DAY + clock;
	return true;
}

/* ---- times of day ---- */

/* Seconds east of UTC; minutes and seconds only where there are any. */
static int32_t take_zone(struct cur *c)
{
	bool west = c->p < c->end && *c->p == '-';
	int64_t parts[3] = {0};

	take_literal(c, west ? "-" : "+");
	parts[0] = take_number(c, 2, 2);
	for (int i = 1; i < 3 && !c->bad && c->p < c->end; i++) {
		take_literal(c, ":");
		parts[i] = take_number(c, 2, 2);
	}
	parts[0] = (parts[0] * 60 + parts[1]) * 60 + parts[2];
	return (int32_t)(west ? -parts[0] : parts[0]);
}

static uint8_t *put_zone(uint8_t *at, int32_t east)
{
	int32_t s = east < 0 ? -east : east;

	at = put_number(put_literal(at, east < 0 ? "-" : "+"), s / 3600, 2);
	if (s % 3600 == 0) return at;
	at = put_number(put_literal(at, ":"), s / 60 % 60, 2);
	return s % 60 == 0 ? at : put_number(put_literal(at, ":"), s % 60, 2);
}

/* 15:59:59 */
#define ZONE_MAX 57599

bool key_time_of_day(struct slice text, int64_t *us)
{
	struct cur c = cur_of(text);
	uint8_t out[TEXT_MAX], *at;

	*us = take_clock(&c);
	if (!cur_done(&c) || *us > US_PER_DAY) return false;
	at = put_clock(out, *us);
	return slice_eq(text, (struct slice){out, (size_t)(at - out)});
}

bool key_time_of_day_zoned(struct slice text, int64_t *utc_us, int32_t *west_s)
{
	struct cur c = cur_of(text);
	uint8_t out[TEXT_MAX], *at;
	int64_t us = take_clock(&c);
	int32_t east = take_zone(&c);

	if (!cur_done(&c) || us > US_PER_DAY || east < -ZONE_MAX || east > ZONE_MAX) return false;
	*utc_us = us - (int64_t)east * 1000000;
	*west_s = -east;
	at = put_zone(put_clock(out, us), east);
	return slice_eq(text, (struct slice){out, (size_t)(at - out)});
}
