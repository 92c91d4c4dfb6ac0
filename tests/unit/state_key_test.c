#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "state/key.h"
#include "state/key_time.h"
#include "state/sha256.h"
#include "tests/unit/state_property.h"

/* A stored key, with what key_encode said of it. */
struct encoded {
	bool ok, is_long;
	uint8_t bytes[KEY_MAX];
	size_t n;
	struct buf full;
	struct err err;
};

static void encode(struct encoded *e, const enum key_kind *kinds, const struct slice *texts, size_t n)
{
	memset(e->bytes, 0xEE, sizeof e->bytes);
	e->ok = key_encode(kinds, texts, n, e->bytes, &e->n, &e->full, &e->is_long, &e->err);
}

static struct slice stored(const struct encoded *e)
{
	return (struct slice){e->bytes, e->n};
}

static bool encodes_to(enum key_kind kind, const char *text, const char *bytes, size_t n)
{
	struct slice s = slice_of(text);
	struct encoded e = {0};
	bool same;

	encode(&e, &kind, &s, 1);
	same = e.ok && !e.is_long && slice_eq(stored(&e), (struct slice){(const uint8_t *)bytes, n});
	buf_finish(&e.full);
	return same;
}

#define ENCODES_TO(kind, text, bytes) encodes_to(kind, text, bytes, sizeof(bytes) - 1)

static bool refuses_slice(enum key_kind kind, struct slice text)
{
	struct encoded e = {0};

	encode(&e, &kind, &text, 1);
	buf_finish(&e.full);
	return !e.ok && e.err.kind == ERR_PROTOCOL;
}

static bool refuses(enum key_kind kind, const char *text)
{
	return refuses_slice(kind, slice_of(text));
}

/* ---- bytes, where FORMAT.md promises them ---- */

static void values_have_the_documented_bytes(void **state)
{
	(void)state;
	assert_true(ENCODES_TO(KEY_INT2, "-32768", "\0\0"));
	assert_true(ENCODES_TO(KEY_INT2, "32767", "\xFF\xFF"));
	assert_true(ENCODES_TO(KEY_INT4, "0", "\x80\0\0\0"));
	assert_true(ENCODES_TO(KEY_INT4, "-2147483648", "\0\0\0\0"));
	assert_true(ENCODES_TO(KEY_INT4, "2147483647", "\xFF\xFF\xFF\xFF"));
	assert_true(ENCODES_TO(KEY_INT8, "-1", "\x7F\xFF\xFF\xFF\xFF\xFF\xFF\xFF"));
	assert_true(ENCODES_TO(KEY_INT8, "-9223372036854775808", "\0\0\0\0\0\0\0\0"));
	assert_true(ENCODES_TO(KEY_INT8, "9223372036854775807", "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF"));
	assert_true(ENCODES_TO(KEY_OID, "4294967295", "\xFF\xFF\xFF\xFF"));
	assert_true(ENCODES_TO(KEY_OID, "0", "\0\0\0\0"));
	assert_true(ENCODES_TO(KEY_BOOL, "f", "\0"));
	assert_true(ENCODES_TO(KEY_BOOL, "t", "\1"));
	assert_true(ENCODES_TO(KEY_UUID, "00112233-4455-6677-8899-aabbccddeeff",
						   "\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xAA\xBB\xCC\xDD\xEE\xFF"));
	assert_true(ENCODES_TO(KEY_BYTEA, "\\x01ff", "\1\xFF"));
	assert_true(ENCODES_TO(KEY_BYTEA, "\\x010002", "\1\0\xFF\2"));
	assert_true(ENCODES_TO(KEY_BYTEA, "\\x", "\0"));
	assert_true(ENCODES_TO(KEY_TEXT, "a\xC3\xA4", "a\xC3\xA4"));
	assert_true(ENCODES_TO(KEY_TEXT, "", "\0"));
	assert_true(ENCODES_TO(KEY_DATE, "2000-01-01", "\x80\0\0\0"));
	assert_true(ENCODES_TO(KEY_DATE, "infinity", "\xFF\xFF\xFF\xFF"));
	assert_true(ENCODES_TO(KEY_TIMESTAMP, "2000-01-01 00:00:00", "\x80\0\0\0\0\0\0\0"));
	assert_true(
		ENCODES_TO(KEY_TIMESTAMPTZ, "1999-12-31 23:59:59.999999+00", "\x7F\xFF\xFF\xFF\xFF\xFF\xFF\xFF"));
	assert_true(ENCODES_TO(KEY_TIMESTAMPTZ, "-infinity", "\0\0\0\0\0\0\0\0"));
}

static void columns_before_the_last_are_terminated(void **state)
{
	static const enum key_kind kinds[] = {KEY_TEXT, KEY_BYTEA, KEY_INT2, KEY_TEXT};
	const struct slice texts[] = {slice_of("ab"), slice_of("\\x0041"), slice_of("1"), slice_of("z")};
	static const char want[] = "ab\0"
							   "\0\xFF"
							   "A\0\1"
							   "\x80\1"
							   "z";
	struct encoded e = {0};

	(void)state;
	encode(&e, kinds, texts, 4);
	assert_true(e.ok && !e.is_long);
	assert_true(slice_eq(stored(&e), (struct slice){(const uint8_t *)want, sizeof want - 1}));
	buf_finish(&e.full);
}

/* ---- refusals ---- */

static void integers_have_one_text(void **state)
{
	static const char *const texts[] = {"",   "-",   "+1",  " 1",    "1 ",  "01", "-01", "-0",      "00",
										"1.", "1e3", "0x1", "1_000", "--1", "a",  "1a",  "\xD9\xA1"};

	(void)state;
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		assert_true(refuses(KEY_INT2, texts[i]));
		assert_true(refuses(KEY_INT4, texts[i]));
		assert_true(refuses(KEY_INT8, texts[i]));
		assert_true(refuses(KEY_OID, texts[i]));
	}
	assert_true(refuses_slice(KEY_INT4, (struct slice){(const uint8_t *)"1\0", 2}));
}

static void integers_out_of_range_are_refused(void **state)
{
	(void)state;
	assert_true(refuses(KEY_INT2, "32768"));
	assert_true(refuses(KEY_INT2, "-32769"));
	assert_true(refuses(KEY_INT4, "2147483648"));
	assert_true(refuses(KEY_INT4, "-2147483649"));
	assert_true(refuses(KEY_INT8, "9223372036854775808"));
	assert_true(refuses(KEY_INT8, "-9223372036854775809"));
	assert_true(refuses(KEY_INT8, "18446744073709551616"));
	assert_true(refuses(KEY_INT8, "100000000000000000000000000000000"));
	assert_true(refuses(KEY_OID, "4294967296"));
	assert_true(refuses(KEY_OID, "-1"));
}

static void other_forms_of_a_value_are_refused(void **state)
{
	(void)state;
	assert_true(refuses(KEY_BOOL, "true"));
	assert_true(refuses(KEY_BOOL, "T"));
	assert_true(refuses(KEY_BOOL, ""));
	assert_true(refuses(KEY_UUID, "00112233-4455-6677-8899-AABBCCDDEEFF"));
	assert_true(refuses(KEY_UUID, "00112233445566778899aabbccddeeff"));
	assert_true(refuses(KEY_UUID, "00112233-4455-6677-8899-aabbccddeef"));
	assert_true(refuses(KEY_UUID, "00112233-4455-6677-8899-aabbccddeefff"));
	assert_true(refuses(KEY_UUID, "00112233-4455-6677-8899aabbccddeeff--"));
	assert_true(refuses(KEY_UUID, "001122334-455-6677-8899-aabbccddeeff"));
	assert_true(refuses(KEY_UUID, "{0112233-4455-6677-8899-aabbccddeef}"));
	assert_true(refuses(KEY_BYTEA, ""));
	assert_true(refuses(KEY_BYTEA, "\\"));
	assert_true(refuses(KEY_BYTEA, "\\x0"));
	assert_true(refuses(KEY_BYTEA, "\\xAA"));
	assert_true(refuses(KEY_BYTEA, "\\X00"));
	assert_true(refuses(KEY_BYTEA, "\\x0g"));
	assert_true(refuses(KEY_BYTEA, "abcd"));
	assert_true(refuses_slice(KEY_TEXT, (struct slice){(const uint8_t *)"a\0b", 3}));
	assert_true(refuses_slice(KEY_TEXT, (struct slice){(const uint8_t *)"", 1}));
}

static void other_forms_of_a_date_are_refused(void **state)
{
	static const char *const dates[] = {
		"",
		"2024-2-29",
		"2024-02-30",
		"2023-02-29",
		"1900-02-29",
		"2024-00-01",
		"2024-13-01",
		"2024-01-00",
		"2024-01-32",
		"0000-01-01",
		"0000-01-01 BC",
		"24-01-01",
		"02024-01-01",
		"2024-01-01 ",
		" 2024-01-01",
		"2024/01/01",
		"2024-01-01 bc",
		"2024-01-01 BCE",
		"-2024-01-01",
		"2024-01-01BC",
		"2024-01-01 AD",
		"Infinity",
		"infinity ",
		"infinit",
		"20240101",
		"5874898-01-01",
		"9999999-12-31",
		"99999999-01-01",
		"4714-11-23 BC",
		"9999999-01-01 BC",
		"01-31-2024",
		"epoch",
		"2024-01-01 00:00:00",
	};

	(void)state;
	for (size_t i = 0; i < sizeof dates / sizeof *dates; i++)
		assert_true(refuses(KEY_DATE, dates[i]));
}

static void other_forms_of_a_timestamp_are_refused(void **state)
{
	static const char *const stamps[] = {
		"2024-01-01",
		"2024-01-01T00:00:00",
		"2024-01-01 24:00:00",
		"2024-01-01 23:60:00",
		"2024-01-01 23:59:60",
		"2024-01-01 99:99:99",
		"2024-01-01 1:00:00",
		"2024-01-01 00:00",
		"2024-01-01 00:00:00.",
		"2024-01-01 00:00:00.0",
		"2024-01-01 00:00:00.10",
		"2024-01-01 00:00:00.1234567",
		"2024-01-01 00:00:00 ",
		"2024-01-01  00:00:00",
		"2024-01-01 00:00:00.1 bc",
		"2024-01-01 BC 00:00:00",
		"294277-01-01 00:00:00",
		"4714-11-23 23:59:59 BC",
		"2024-02-30 00:00:00",
		"0000-01-01 00:00:00",
	};
	static const char *const zones[] = {"",      "+01", "-00",  "+00:00", "+0",
										"+0000", "Z",   " UTC", "+00 ",   "+05:30"};
	char text[64];

	(void)state;
	for (size_t i = 0; i < sizeof stamps / sizeof *stamps; i++) {
		assert_true(refuses(KEY_TIMESTAMP, stamps[i]));
		snprintf(text, sizeof text, "%s+00", stamps[i]);
		assert_true(refuses(KEY_TIMESTAMPTZ, text));
	}
	assert_true(refuses(KEY_TIMESTAMP, "2024-01-01 00:00:00+00"));
	for (size_t i = 0; i < sizeof zones / sizeof *zones; i++) {
		snprintf(text, sizeof text, "2024-01-01 00:00:00%s", zones[i]);
		assert_true(refuses(KEY_TIMESTAMPTZ, text));
	}
	assert_true(refuses(KEY_TIMESTAMPTZ, "0044-03-15 12:00:00 BC+00"));
}

static void a_refusal_names_column_type_and_value(void **state)
{
	static const enum key_kind kinds[] = {KEY_TEXT, KEY_INT4};
	struct slice texts[] = {slice_of("fine"), slice_of("ab\ncd")};
	struct encoded e = {0};
	char huge[201];

	(void)state;
	encode(&e, kinds, texts, 2);
	assert_false(e.ok);
	assert_string_equal(e.err.msg,
						"key column 2: \"ab?cd\" is not in the form that PostgreSQL prints int4 in");
	memset(huge, 'x', 200);
	huge[200] = '\0';
	memcpy(huge + 61, "\xE2\x82\xAC", 3); /* the cut would fall into this character */
	texts[1] = slice_of(huge);
	encode(&e, kinds, texts, 2);
	assert_false(e.ok);
	assert_non_null(strstr(e.err.msg, "xxx\"... is not in the form"));
	assert_int_equal(e.full.n, 0);
	buf_finish(&e.full);
}

/* ---- the calendar ---- */

static bool is_leap(int year)
{
	return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

static int days_in(int year, int month)
{
	static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

	return days[month - 1] + (month == 2 && is_leap(year));
}

/* Year 0 is 1 BC. */
static size_t print_date(char *out, size_t size, int year, int month, int day, const char *clock)
{
	return (size_t)snprintf(out, size, "%04d-%02d-%02d%s%s", year > 0 ? year : 1 - year, month, day, clock,
							year > 0 ? "" : " BC");
}

static void every_day_of_eight_thousand_years_counts_one(void **state)
{
	int year = -4713, month = 11, day = 24;
	char text[32];

	(void)state;
	for (int32_t want = -2451545; year < 3300; want++) {
		struct slice s = {(const uint8_t *)text, print_date(text, sizeof text, year, month, day, "")};
		int32_t days;

		if (!key_time_date(s, &days) || days != want) fail_msg("%s is not %d", text, want);
		if (++day <= days_in(year, month)) continue;
		day = 1;
		if (++month <= 12) continue;
		month = 1;
		year++;
	}
}

/* As PostgreSQL 15 counts them. */
static void far_dates_and_stamps_are_postgresqls(void **state)
{
	static const struct {
		const char *text;
		int64_t us;
	} stamps[] = {
		{"4714-11-24 00:00:00 BC", INT64_C(-211813488000000000)},
		{"0044-03-15 12:30:00.5 BC", INT64_C(-64464463799500000)},
		{"0001-12-31 23:59:59.999999 BC", INT64_C(-63082281600000001)},
		{"0001-01-01 00:00:00", INT64_C(-63082281600000000)},
		{"1999-12-31 23:57:40.26577", INT64_C(-139734230)},
		{"294276-12-31 23:59:59.999999", INT64_C(9223371331199999999)},
		{"infinity", INT64_MAX},
		{"-infinity", INT64_MIN},
	};
	int64_t us;
	int32_t days;

	(void)state;
	for (size_t i = 0; i < sizeof stamps / sizeof *stamps; i++) {
		assert_true(key_time_stamp(slice_of(stamps[i].text), false, &us));
		assert_true(us == stamps[i].us);
	}
	assert_true(key_time_stamp(slice_of("0044-03-15 12:30:00.5+00 BC"), true, &us));
	assert_true(us == INT64_C(-64464463799500000));
	assert_true(key_time_date(slice_of("5874897-12-31"), &days) && days == 2145031948);
	assert_true(key_time_date(slice_of("4714-11-24 BC"), &days) && days == -2451545);
	assert_true(key_time_date(slice_of("10000-01-01"), &days) && days == 2921940);
}

/* ---- order, by values made beside their texts ---- */

struct value {
	char text[256];
	size_t ntext;
	int64_t rank[3];   /* compared first */
	uint8_t bytes[64]; /* then these */
	size_t nbytes;
};

static int value_cmp(const struct value *a, const struct value *b)
{
	for (int i = 0; i < 3; i++)
		if (a->rank[i] != b->rank[i]) return a->rank[i] < b->rank[i] ? -1 : 1;
	return slice_cmp((struct slice){a->bytes, a->nbytes}, (struct slice){b->bytes, b->nbytes});
}

static void make_int(struct value *v, uint64_t *seed, int bits)
{
	int64_t n = (int64_t)(random_magnitude(seed) >> (64 - bits));

	if (random_u64(seed) & 1) n = -n - 1;
	if (bits == 32) n = (int64_t)(random_magnitude(seed) >> 32); /* oid */
	v->rank[0] = n;
	v->ntext = (size_t)snprintf(v->text, sizeof v->text, "%lld", (long long)n);
}

static void make_hex(struct value *v, const char *prefix)
{
	v->ntext = (size_t)snprintf(v->text, sizeof v->text, "%s", prefix);
	for (size_t i = 0; i < v->nbytes; i++)
		v->ntext += (size_t)snprintf(v->text + v->ntext, sizeof v->text - v->ntext, "%02x", v->bytes[i]);
}

static void make_uuid(struct value *v, uint64_t *seed)
{
	static const size_t dashes[] = {23, 18, 13, 8}; /* from the end, as each shifts the rest */

	v->nbytes = 16;
	for (size_t i = 0; i < 16; i++)
		v->bytes[i] = random_below(seed, 3) ? 0x7F : (uint8_t)random_u64(seed);
	make_hex(v, "");
	for (size_t i = 4; i-- > 0;) {
		memmove(v->text + dashes[i] + 1, v->text + dashes[i], v->ntext - dashes[i]);
		v->text[dashes[i]] = '-';
		v->ntext++;
	}
}

/* Few different bytes, among them those that the encoding treats specially. */
static void make_bytes(struct value *v, uint64_t *seed, const char *alphabet, size_t n)
{
	v->nbytes = random_below(seed, 7);
	for (size_t i = 0; i < v->nbytes; i++)
		v->bytes[i] = (uint8_t)alphabet[random_below(seed, n)];
}

static void make_text(struct value *v, uint64_t *seed)
{
	make_bytes(v, seed, "\1ab\xFF\x7F\x80", 6);
	memcpy(v->text, v->bytes, v->nbytes);
	v->ntext = v->nbytes;
}

static size_t make_clock(char *out, size_t size, uint64_t *seed, int64_t *us)
{
	size_t n;

	*us = (int64_t)(random_magnitude(seed) % UINT64_C(86400000000));
	if (random_below(seed, 3) == 0) *us -= *us % 1000000;
	n = (size_t)snprintf(out, size, " %02d:%02d:%02d.%06d", (int)(*us / 3600000000),
						 (int)(*us / 60000000 % 60), (int)(*us / 1000000 % 60), (int)(*us % 1000000));
	while (out[n - 1] == '0' && *us % 1000000 != 0)
		out[--n] = '\0';
	if (*us % 1000000 == 0) out[n -= 7] = '\0';
	return n;
}

static void make_time(struct value *v, uint64_t *seed, enum key_kind kind)
{
	int limit = kind == KEY_DATE ? 5874896 : 294275;
	int year = (int)(random_magnitude(seed) >> 41) % limit, month = 1 + (int)random_below(seed, 12), day;
	char clock[32] = "";

	if (random_below(seed, 20) == 0) {
		v->rank[0] = random_u64(seed) & 1 ? INT64_MAX : INT64_MIN;
		v->ntext = (size_t)snprintf(v->text, sizeof v->text, "%sinfinity", v->rank[0] < 0 ? "-" : "");
		return;
	}
	if (random_below(seed, 3) == 0) year = -(year % 4712);
	day = 1 + (int)random_below(seed, (size_t)days_in(year, month));
	if (kind != KEY_DATE) make_clock(clock, sizeof clock - 3, seed, &v->rank[2]);
	if (kind == KEY_TIMESTAMPTZ) memcpy(clock + strlen(clock), "+00", 4);
	v->rank[0] = year;
	v->rank[1] = month * 100 + day;
	v->ntext = print_date(v->text, sizeof v->text, year, month, day, clock);
}

static void make_value(struct value *v, enum key_kind kind, uint64_t *seed)
{
	*v = (struct value){0};
	switch (kind) {
	case KEY_INT2: make_int(v, seed, 15); break;
	case KEY_INT4: make_int(v, seed, 31); break;
	case KEY_INT8: make_int(v, seed, 63); break;
	case KEY_OID: make_int(v, seed, 32); break;
	case KEY_UUID: make_uuid(v, seed); break;
	case KEY_TEXT: make_text(v, seed); break;
	case KEY_DATE:
	case KEY_TIMESTAMP:
	case KEY_TIMESTAMPTZ: make_time(v, seed, kind); break;
	case KEY_BOOL:
		v->rank[0] = random_u64(seed) & 1;
		v->text[0] = v->rank[0] ? 't' : 'f';
		v->ntext = 1;
		break;
	case KEY_BYTEA:
		make_bytes(v, seed, "\0\1\2\xFE\xFF", 5);
		make_hex(v, "\\x");
		break;
	}
}

/* Two keys that are often alike in their first columns, and their order as values. */
struct pair {
	enum key_kind kinds[4];
	struct value a[4], b[4];
	struct slice ta[4], tb[4];
	size_t n;
	int order;
	size_t alike; /* columns in front with equal texts */
};

static void make_pair(struct pair *p, uint64_t *seed, size_t n)
{
	p->n = n;
	p->order = 0;
	p->alike = 0;
	for (size_t i = 0; i < n; i++) {
		p->kinds[i] = (enum key_kind)(KEY_TEXT + random_below(seed, KEY_OID));
		make_value(&p->a[i], p->kinds[i], seed);
		p->b[i] = p->a[i];
		if (random_u64(seed) & 1) make_value(&p->b[i], p->kinds[i], seed);
		p->ta[i] = (struct slice){(uint8_t *)p->a[i].text, p->a[i].ntext};
		p->tb[i] = (struct slice){(uint8_t *)p->b[i].text, p->b[i].ntext};
		if (p->order == 0) p->order = value_cmp(&p->a[i], &p->b[i]);
		if (p->alike == i && slice_eq(p->ta[i], p->tb[i])) p->alike++;
	}
}

static void order_of_keys_is_order_of_values(void **state)
{
	static struct pair p;
	struct encoded a = {0}, b = {0};
	uint64_t seed = 7;

	(void)state;
	for (int round = 0; round < 200000; round++) {
		make_pair(&p, &seed, 1 + random_below(&seed, 4));
		encode(&a, p.kinds, p.ta, p.n);
		encode(&b, p.kinds, p.tb, p.n);
		if (!a.ok) fail_msg("%s", a.err.msg);
		if (!b.ok) fail_msg("%s", b.err.msg);
		assert_int_equal(slice_cmp(stored(&a), stored(&b)), p.order);
		/* Equal keys have equal texts: nothing is lost. */
		assert_int_equal(slice_eq(stored(&a), stored(&b)), p.alike == p.n);
	}
	buf_finish(&a.full);
	buf_finish(&b.full);
}

static void a_prefix_covers_exactly_the_keys_with_its_columns(void **state)
{
	static struct pair p;
	struct buf prefix = {0}, full = {0};
	uint64_t seed = 8;
	struct err err;

	(void)state;
	for (int round = 0; round < 100000; round++) {
		size_t n;

		make_pair(&p, &seed, 2 + random_below(&seed, 3));
		n = random_below(&seed, p.n);
		buf_reset(&prefix);
		buf_reset(&full);
		assert_true(key_encode_prefix(p.kinds, p.n, p.ta, n, &prefix, &err));
		assert_true(key_encode_prefix(p.kinds, p.n, p.tb, p.n, &full, &err));
		assert_int_equal(full.n >= prefix.n && (prefix.n == 0 || memcmp(full.p, prefix.p, prefix.n) == 0),
						 p.alike >= n);
	}
	buf_finish(&prefix);
	buf_finish(&full);
}

/* Whatever text is accepted: another text has another key. */
static void changed_texts_are_refused_or_have_other_keys(void **state)
{
	static const char alphabet[] = "0123456789-+.: BCtfinyx\\\0ae";
	struct encoded a = {0}, b = {0};
	uint64_t seed = 9;
	struct value v;
	int accepted = 0;

	(void)state;
	for (int round = 0; round < 200000; round++) {
		enum key_kind kind = (enum key_kind)(KEY_TEXT + random_below(&seed, KEY_OID));
		struct slice original, changed;
		char text[sizeof v.text + 1];
		size_t at;

		make_value(&v, kind, &seed);
		original = (struct slice){(uint8_t *)v.text, v.ntext};
		at = random_below(&seed, v.ntext + 1);
		memcpy(text, v.text, at);
		text[at] = alphabet[random_below(&seed, sizeof alphabet)];
		memcpy(text + at + 1, v.text + at, v.ntext - at); /* inserted */
		changed = (struct slice){(uint8_t *)text, v.ntext + 1};
		if (random_u64(&seed) & 1 && at < v.ntext) { /* replaced */
			memmove(text + at + 1, text + at + 2, v.ntext - at - 1);
			changed.n--;
		}
		encode(&a, &kind, &original, 1);
		encode(&b, &kind, &changed, 1);
		assert_true(a.ok);
		if (!b.ok) continue;
		accepted++;
		assert_int_equal(slice_eq(stored(&a), stored(&b)), slice_eq(original, changed));
	}
	assert_true(accepted > 1000);
	buf_finish(&a.full);
	buf_finish(&b.full);
}

/* ---- long keys ---- */

static void keys_of_511_bytes_and_more_are_long(void **state)
{
	static const size_t lengths[] = {1, 479, 480, 509, 510, 511, 512, 5000, 200000};
	const enum key_kind kind = KEY_TEXT;
	uint8_t *text = malloc(200000), digest[SHA256_SIZE];
	struct encoded e = {0};

	(void)state;
	for (size_t i = 0; i < 200000; i++)
		text[i] = (uint8_t)(1 + i % 255);
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		struct slice s = {text, lengths[i]};

		encode(&e, &kind, &s, 1);
		assert_true(e.ok);
		assert_int_equal(e.is_long, lengths[i] >= KEY_MAX);
		assert_true(slice_eq((struct slice){e.full.p, e.full.n}, s));
		if (!e.is_long) {
			assert_true(slice_eq(stored(&e), s));
			continue;
		}
		sha256(s, digest);
		assert_int_equal(e.n, KEY_MAX);
		assert_memory_equal(e.bytes, text, KEY_PREFIX);
		assert_memory_equal(e.bytes + KEY_PREFIX, digest, SHA256_SIZE);
	}
	buf_finish(&e.full);
	free(text);
}

/* A text that is, byte for byte, what a longer one is stored as. */
static void a_long_key_cannot_be_forged(void **state)
{
	const enum key_kind kind = KEY_TEXT;
	struct encoded a = {0}, b = {0};
	uint8_t text[600], forged[KEY_MAX];
	struct slice s = {text, sizeof text}, f = {forged, sizeof forged};

	(void)state;
	for (unsigned salt = 0;; salt++) {
		memset(text, 'x', sizeof text);
		snprintf((char *)text + 550, 20, "%u", salt);
		text[550 + strlen((char *)text + 550)] = 'x';
		encode(&a, &kind, &s, 1);
		if (!memchr(a.bytes, 0, KEY_MAX)) break; /* else the forgery would not be a text */
	}
	memcpy(forged, a.bytes, KEY_MAX);
	encode(&b, &kind, &f, 1);
	assert_true(b.ok && b.is_long);
	assert_false(slice_eq(stored(&a), stored(&b)));
	buf_finish(&a.full);
	buf_finish(&b.full);
}

static void long_keys_are_ordered_by_their_prefix(void **state)
{
	static const enum key_kind kinds[] = {KEY_TEXT, KEY_INT4};
	struct encoded a = {0}, b = {0};
	uint8_t ta[600], tb[600];
	uint64_t seed = 10;

	(void)state;
	for (int round = 0; round < 2000; round++) {
		struct slice sa[] = {{ta, 1 + random_below(&seed, 600)}, slice_of("1")};
		struct slice sb[] = {{tb, 1 + random_below(&seed, 600)}, slice_of("2")};
		size_t at = random_below(&seed, 600), shared;

		memset(ta, 'm', sizeof ta);
		memset(tb, 'm', sizeof tb);
		tb[at] = (uint8_t)(1 + random_below(&seed, 255));
		encode(&a, kinds, sa, 2);
		encode(&b, kinds, sb, 2);
		assert_true(a.ok && b.ok);
		for (shared = 0; shared < a.full.n && shared < b.full.n && a.full.p[shared] == b.full.p[shared];)
			shared++;
		if (shared >= KEY_PREFIX) continue;
		assert_int_equal(slice_cmp(stored(&a), stored(&b)),
						 slice_cmp((struct slice){a.full.p, a.full.n}, (struct slice){b.full.p, b.full.n}));
	}
	buf_finish(&a.full);
	buf_finish(&b.full);
}

static void types_have_their_encoding(void **state)
{
	static const struct {
		uint32_t oid;
		enum key_kind kind;
	} types[] = {
		{16, KEY_BOOL},          {17, KEY_BYTEA},  {20, KEY_INT8},   {21, KEY_INT2},
		{23, KEY_INT4},          {26, KEY_OID},    {1082, KEY_DATE}, {1114, KEY_TIMESTAMP},
		{1184, KEY_TIMESTAMPTZ}, {2950, KEY_UUID}, {25, KEY_TEXT},   {1700, KEY_TEXT},
		{701, KEY_TEXT},         {1043, KEY_TEXT}, {0, KEY_TEXT},    {99999, KEY_TEXT},
	};

	(void)state;
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		assert_int_equal(key_kind_of_type(types[i].oid), types[i].kind);
	assert_false(key_kind_is_known(0));
	assert_false(key_kind_is_known(KEY_OID + 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_have_the_documented_bytes),
		cmocka_unit_test(columns_before_the_last_are_terminated),
		cmocka_unit_test(integers_have_one_text),
		cmocka_unit_test(integers_out_of_range_are_refused),
		cmocka_unit_test(other_forms_of_a_value_are_refused),
		cmocka_unit_test(other_forms_of_a_date_are_refused),
		cmocka_unit_test(other_forms_of_a_timestamp_are_refused),
		cmocka_unit_test(a_refusal_names_column_type_and_value),
		cmocka_unit_test(every_day_of_eight_thousand_years_counts_one),
		cmocka_unit_test(far_dates_and_stamps_are_postgresqls),
		cmocka_unit_test(order_of_keys_is_order_of_values),
		cmocka_unit_test(a_prefix_covers_exactly_the_keys_with_its_columns),
		cmocka_unit_test(changed_texts_are_refused_or_have_other_keys),
		cmocka_unit_test(keys_of_511_bytes_and_more_are_long),
		cmocka_unit_test(a_long_key_cannot_be_forged),
		cmocka_unit_test(long_keys_are_ordered_by_their_prefix),
		cmocka_unit_test(types_have_their_encoding),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
