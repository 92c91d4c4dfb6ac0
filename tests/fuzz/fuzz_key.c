/*
 * Row keys. A text is accepted if and only if the C library prints its value
 * the same way; two keys are encoded alike if and only if they are alike, and are ordered
 * as their values are; a prefix of a key is a prefix of just the keys that begin with it.
 * Of numbers, times of day and addresses, which have no second reader here, only that two texts have two
 * keys; their order is the unit test's.
 */
#include <inttypes.h>
#include <time.h>

#include "state/key.h"
#include "tests/fuzz/fuzz.h"

#define COLUMNS_MAX 4

/* What a text stands for. */
struct value {
	int64_t number;
	struct buf bytes;
};

struct key {
	struct slice texts[COLUMNS_MAX];
	struct value values[COLUMNS_MAX];
	struct buf full;
	bool good;
};

/* ---- time, by the C library ---- */

#define DAYS_TO_2000 10957
#define US_PER_DAY   INT64_C(86400000000)

static void print_day(int64_t days, char *out, size_t size)
{
	time_t t = (time_t)(days + DAYS_TO_2000) * 86400;
	struct tm tm;
	int64_t year;

	CHECK_THAT(gmtime_r(&t, &tm), "day %" PRId64, days);
	year = (int64_t)tm.tm_year + 1900;
	snprintf(out, size, "%04" PRId64 "-%02d-%02d", year > 0 ? year : 1 - year, tm.tm_mon + 1, tm.tm_mday);
}

static bool is_bc(int64_t days)
{
	time_t t = (time_t)(days + DAYS_TO_2000) * 86400;
	struct tm tm;

	CHECK_THAT(gmtime_r(&t, &tm), "day %" PRId64, days);
	return tm.tm_year + 1900 <= 0;
}

static void print_date(int64_t days, char *out, size_t size)
{
	size_t n;

	print_day(days, out, size);
	n = strlen(out);
	snprintf(out + n, size - n, "%s", is_bc(days) ? " BC" : "");
}

static int64_t floor_div(int64_t a, int64_t b)
{
	return a / b - (a % b < 0);
}

static void print_stamp(int64_t us, bool zoned, char *out, size_t size)
{
	int64_t days = floor_div(us, US_PER_DAY), clock = us - days * US_PER_DAY, s = clock / 1000000;
	size_t n;

	print_day(days, out, size);
	n = strlen(out);
	n += (size_t)snprintf(out + n, size - n, " %02d:%02d:%02d", (int)(s / 3600), (int)(s / 60 % 60),
						  (int)(s % 60));
	if (clock % 1000000 != 0) {
		n += (size_t)snprintf(out + n, size - n, ".%06d", (int)(clock % 1000000));
		while (out[n - 1] == '0')
			n--;
	}
	snprintf(out + n, size - n, "%s%s", zoned ? "+00" : "", is_bc(days) ? " BC" : "");
}

#define DATE_FIRST  (-2451545)          /* 4714-11-24 BC */
#define DATE_LAST   INT64_C(2145031948) /* 5874897-12-31 */
#define STAMP_FIRST (DATE_FIRST * US_PER_DAY)
#define STAMP_LAST  (INT64_C(106751983) * US_PER_DAY - 1) /* 294276-12-31 */

/* ---- what a text stands for; false: PostgreSQL prints no value so ---- */

static bool is_infinite(const char *text, int64_t low, int64_t high, int64_t *out)
{
	*out = *text == '-' ? low : high;
	return strcmp(text, "infinity") == 0 || strcmp(text, "-infinity") == 0;
}

/* Loosely: what comes out is printed and compared. */
static bool read_day(const char *text, int64_t *out)
{
	int year, month, day;
	struct tm tm = {0};

	if (sscanf(text, "%9d-%2d-%2d", &year, &month, &day) != 3) return false;
	if (strstr(text, " BC")) year = 1 - year;
	tm.tm_year = year - 1900;
	tm.tm_mon = month - 1;
	tm.tm_mday = day;
	*out = floor_div((int64_t)timegm(&tm), 86400) - DAYS_TO_2000;
	return true;
}

static bool read_date(const char *text, int64_t *out)
{
	char again[64];

	if (is_infinite(text, INT32_MIN, INT32_MAX, out)) return true;
	if (!read_day(text, out) || *out < DATE_FIRST || *out > DATE_LAST) return false;
	print_date(*out, again, sizeof again);
	return strcmp(text, again) == 0;
}

static int64_t read_fraction(const char *text)
{
	const char *dot = strchr(text, '.');
	int64_t us = 0;

	for (int i = 1; dot && i <= 6; i++) {
		us *= 10;
		if (dot[i] >= '0' && dot[i] <= '9')
			us += dot[i] - '0';
		else
			while (i++ < 6)
				us *= 10;
	}
	return us;
}

static bool read_stamp(const char *text, bool zoned, int64_t *out)
{
	const char *clock = strchr(text, ' ');
	char again[64];
	int64_t days;
	int h, m, s;

	if (is_infinite(text, INT64_MIN, INT64_MAX, out)) return true;
	if (!clock || !read_day(text, &days) || sscanf(clock, " %2d:%2d:%2d", &h, &m, &s) != 3) return false;
	if (days < DATE_FIRST || days > STAMP_LAST / US_PER_DAY || h < 0 || m < 0 || s < 0 || h > 23)
		return false;
	*out = days * US_PER_DAY + ((h * 60 + m) * INT64_C(60) + s) * 1000000 + read_fraction(clock);
	if (*out > STAMP_LAST) return false;
	print_stamp(*out, zoned, again, sizeof again);
	return strcmp(text, again) == 0;
}

static bool read_int(const char *text, int64_t low, int64_t high, int64_t *out)
{
	char again[32];

	*out = strtoll(text, NULL, 10);
	snprintf(again, sizeof again, "%" PRId64, *out);
	return strcmp(text, again) == 0 && *out >= low && *out <= high;
}

/* Lower-case digits, in pairs. */
static bool read_hex(const char *text, size_t n, struct buf *out)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < n; i += 2) {
		const char *high = memchr(digits, text[i], 16), *low = memchr(digits, text[i + 1], 16);

		if (!high || !low) return false;
		buf_put_u8(out, (uint8_t)((high - digits) << 4 | (low - digits)));
	}
	return true;
}

static bool read_uuid(const char *text, struct buf *out)
{
	static const size_t groups[] = {8, 4, 4, 4, 12};

	if (strlen(text) != 36) return false;
	for (size_t i = 0; i < 5; i++) {
		if (i > 0 && *text++ != '-') return false;
		if (!read_hex(text, groups[i], out)) return false;
		text += groups[i];
	}
	return true;
}

static bool read_bytea(const char *text, struct buf *out)
{
	return strncmp(text, "\\x", 2) == 0 && strlen(text) % 2 == 0 && read_hex(text + 2, strlen(text) - 2, out);
}

static bool read_value(enum key_kind kind, const char *text, struct value *v)
{
	switch (kind) {
	case KEY_TEXT: buf_put(&v->bytes, text, strlen(text)); return true;
	case KEY_INT2: return read_int(text, INT16_MIN, INT16_MAX, &v->number);
	case KEY_INT4: return read_int(text, INT32_MIN, INT32_MAX, &v->number);
	case KEY_INT8: return read_int(text, INT64_MIN, INT64_MAX, &v->number);
	case KEY_UUID: return read_uuid(text, &v->bytes);
	case KEY_DATE: return read_date(text, &v->number);
	case KEY_TIMESTAMP: return read_stamp(text, false, &v->number);
	case KEY_TIMESTAMPTZ: return read_stamp(text, true, &v->number);
	case KEY_BOOL: v->number = *text == 't'; return strcmp(text, "t") == 0 || strcmp(text, "f") == 0;
	case KEY_BYTEA: return read_bytea(text, &v->bytes);
	case KEY_OID: return read_int(text, 0, UINT32_MAX, &v->number);
	default: CHECK_THAT(false, "kind %d", kind);
	}
}

/* A text with a NUL is none of PostgreSQL's. */
static bool read_text(enum key_kind kind, struct slice text, struct value *v)
{
	char *s = text_alone(text);
	bool ok = strlen(s) == text.n && read_value(kind, s, v);

	free(s);
	return ok;
}

static int compare_values(const struct value *a, const struct value *b)
{
	if (a->number != b->number) return a->number < b->number ? -1 : 1;
	return compare_bytes((struct slice){a->bytes.p, a->bytes.n}, (struct slice){b->bytes.p, b->bytes.n});
}

/* ---- making texts: of any bytes, or of any value ---- */

static int64_t within(struct feed *f, int64_t low, int64_t high)
{
	uint64_t range = (uint64_t)high - (uint64_t)low + 1;

	return (int64_t)((uint64_t)low + feed_uint(f, 8) % range);
}

static void print_hex(struct slice bytes, char *out)
{
	for (size_t i = 0; i < bytes.n; i++)
		sprintf(out + 2 * i, "%02x", bytes.p[i]);
	out[2 * bytes.n] = '\0';
}

static void print_uuid(struct feed *f, char *out)
{
	uint64_t a = feed_uint(f, 8), b = feed_uint(f, 8);

	sprintf(out, "%08x-%04x-%04x-%04x-%012" PRIx64, (unsigned)(a >> 32), (unsigned)(a >> 16 & 0xFFFF),
			(unsigned)(a & 0xFFFF), (unsigned)(b >> 48), b & UINT64_C(0xFFFFFFFFFFFF));
}

#define BYTES_MAX 600
#define TEXT_ROOM (2 * BYTES_MAX + 64)

static void print_any(enum key_kind kind, struct feed *f, char *out)
{
	size_t n;

	strcpy(out, "");
	switch (kind) {
	case KEY_TEXT: break;
	case KEY_INT2: sprintf(out, "%d", (int16_t)feed_uint(f, 2)); break;
	case KEY_INT4: sprintf(out, "%d", (int32_t)feed_uint(f, 4)); break;
	case KEY_INT8: sprintf(out, "%" PRId64, (int64_t)feed_uint(f, 8)); break;
	case KEY_UUID: print_uuid(f, out); break;
	case KEY_DATE: print_date(within(f, DATE_FIRST, DATE_LAST), out, TEXT_ROOM); break;
	case KEY_TIMESTAMP:
	case KEY_TIMESTAMPTZ:
		print_stamp(within(f, STAMP_FIRST, STAMP_LAST), kind == KEY_TIMESTAMPTZ, out, TEXT_ROOM);
		break;
	case KEY_BOOL: strcpy(out, feed_bool(f) ? "t" : "f"); break;
	case KEY_BYTEA:
		n = feed_below(f, BYTES_MAX);
		print_hex(feed_bytes(f, n), strcpy(out, "\\x") + 2);
		break;
	case KEY_OID: sprintf(out, "%u", (uint32_t)feed_uint(f, 4)); break;
	default: CHECK_THAT(false, "kind %d", kind);
	}
}

static struct slice take_text(enum key_kind kind, struct feed *f)
{
	char text[TEXT_ROOM];

	if (kind == KEY_TEXT || feed_bool(f)) return alone(feed_slice(f));
	print_any(kind, f, text);
	return alone(slice_of(text));
}

/* ---- keys ---- */

static void check_stored(const struct key *k, const enum key_kind *kinds, size_t n)
{
	struct slice full = {k->full.p, k->full.n};
	uint8_t stored[KEY_MAX];
	struct buf scratch = {0};
	struct err err = {0};
	bool is_long;
	size_t len = 0;

	CHECK_THAT(key_encode(kinds, k->texts, n, stored, &len, &scratch, &is_long, &err), "%s", err.msg);
	CHECK_THAT(same_bytes(&scratch, full) && is_long == (full.n >= KEY_MAX), "full encoding");
	CHECK_THAT(len >= 1 && len == (is_long ? KEY_MAX : full.n), "%zu bytes", len);
	CHECK_THAT(memcmp(stored, full.p, is_long ? KEY_PREFIX : len) == 0, "%zu bytes", len);
	buf_finish(&scratch);
}

static void take_key(struct key *k, const enum key_kind *kinds, size_t n, struct feed *f)
{
	struct err err = {0};
	bool good = true;

	*k = (struct key){0};
	for (size_t i = 0; i < n; i++) {
		k->texts[i] = take_text(kinds[i], f);
		good = read_text(kinds[i], k->texts[i], &k->values[i]) && good;
	}
	k->good = key_encode_prefix(kinds, n, k->texts, n, &k->full, &err);
	CHECK_THAT(k->good == good, "kind %d \"%.*s\" ...: %d, %s", kinds[0], (int)k->texts[0].n,
			   (const char *)k->texts[0].p, k->good, err.msg);
	CHECK_THAT(k->good || k->full.n == 0, "a refused key leaves %zu bytes", k->full.n);
	if (k->good)
		check_stored(k, kinds, n);
	else
		check_refusal(&err);
}

static void finish_key(struct key *k, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		alone_free(k->texts[i]);
		buf_finish(&k->values[i].bytes);
	}
	buf_finish(&k->full);
}

static int compare_keys(const struct key *a, const struct key *b, size_t n)
{
	int d = 0;

	for (size_t i = 0; i < n && d == 0; i++)
		d = compare_values(&a->values[i], &b->values[i]);
	return d;
}

static bool starts_with(const struct buf *whole, const struct buf *part)
{
	return whole->n >= part->n && (part->n == 0 || memcmp(whole->p, part->p, part->n) == 0);
}

static void check_prefixes(const struct key *a, const struct key *b, const enum key_kind *kinds, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct buf part = {0};
		struct err err = {0};

		CHECK_THAT(key_encode_prefix(kinds, n, a->texts, i, &part, &err), "%s", err.msg);
		CHECK_THAT(starts_with(&a->full, &part), "of itself, %zu columns", i);
		CHECK_THAT(starts_with(&b->full, &part) == (compare_keys(a, b, i) == 0), "%zu columns", i);
		buf_finish(&part);
	}
}

static void check_two(const struct key *a, const struct key *b, const enum key_kind *kinds, size_t n)
{
	int wanted = compare_keys(a, b, n);
	int got = compare_bytes((struct slice){a->full.p, a->full.n}, (struct slice){b->full.p, b->full.n});

	CHECK_THAT(wanted == got, "order %d, of the encodings %d", wanted, got);
	check_prefixes(a, b, kinds, n);
}

/* ---- kinds without a model ---- */

static bool has_model(const enum key_kind *kinds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (kinds[i] > KEY_OID) return false;
	return true;
}

/* Texts near those that the server prints: any bytes are hardly ever a number. */
static struct slice take_near_text(struct feed *f)
{
	static const char alphabet[] = "0123456789.-+eNaInfity:/abcdef";
	char text[64];
	size_t n = feed_below(f, sizeof text);

	if (feed_bool(f)) return alone(feed_slice(f));
	for (size_t i = 0; i < n; i++)
		text[i] = alphabet[feed_below(f, sizeof alphabet - 1)];
	return alone((struct slice){(const uint8_t *)text, n});
}

static void take_near_key(struct key *k, const enum key_kind *kinds, size_t n, struct feed *f)
{
	struct buf bound = {0};
	struct err err = {0};

	*k = (struct key){0};
	for (size_t i = 0; i < n; i++)
		k->texts[i] = take_near_text(f);
	k->good = key_encode_prefix(kinds, n, k->texts, n, &k->full, &err);
	CHECK_THAT(k->good || k->full.n == 0, "a refused key leaves %zu bytes", k->full.n);
	CHECK_THAT(k->good == key_encode_bound(kinds, n, k->texts, n, &bound, &err), "the bound differs");
	CHECK_THAT(!k->good || starts_with(&k->full, &bound), "the bound is no prefix");
	if (k->good)
		check_stored(k, kinds, n);
	else
		check_refusal(&err);
	buf_finish(&bound);
}

static void check_near(const struct key *a, const struct key *b, size_t n)
{
	bool same_texts = true;

	for (size_t i = 0; i < n; i++)
		same_texts &= slice_eq(a->texts[i], b->texts[i]);
	CHECK_THAT(same_texts == (a->full.n == b->full.n && starts_with(&a->full, &b->full)), "%zu columns", n);
}

static void one_pair(const enum key_kind *kinds, size_t n, struct feed *f)
{
	bool model = has_model(kinds, n);
	struct key a, b;

	if (model) {
		take_key(&a, kinds, n, f);
		take_key(&b, kinds, n, f);
	} else {
		take_near_key(&a, kinds, n, f);
		take_near_key(&b, kinds, n, f);
	}
	if (a.good && b.good && model) check_two(&a, &b, kinds, n);
	if (a.good && b.good && !model) check_near(&a, &b, n);
	finish_key(&a, n);
	finish_key(&b, n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = feed_of(data, size);
	enum key_kind kinds[COLUMNS_MAX];
	size_t n = 1 + feed_below(&f, COLUMNS_MAX);

	for (size_t i = 0; i < n; i++)
		kinds[i] = (enum key_kind)(KEY_TEXT + feed_below(&f, KEY_KIND_LAST));
	one_pair(kinds, n, &f);
	return 0;
}
