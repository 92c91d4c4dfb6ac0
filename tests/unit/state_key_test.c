#include "tests/unit/state_key_fixture.h"

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

static void newer_kinds_have_the_documented_bytes(void **state)
{
	(void)state;
	assert_true(ENCODES_TO(KEY_NUMERIC, "12345.670", "\4\x80\0\5\x0D\x23\x39\x47\0\0\3"));
	assert_true(ENCODES_TO(KEY_NUMERIC, "-0.05", "\2\x80\0\0\xCC\xFF\0\2"));
	assert_true(ENCODES_TO(KEY_NUMERIC, "0.00", "\3\0\2"));
	assert_true(ENCODES_TO(KEY_NUMERIC, "NaN", "\6\0\0"));
	assert_true(ENCODES_TO(KEY_FLOAT8, "1e+15", "\4\x80\0\x10\x0B\0\1"));
	assert_true(ENCODES_TO(KEY_FLOAT8, "-0", "\3\0"));
	assert_true(ENCODES_TO(KEY_FLOAT4, "0", "\3\1"));
	assert_true(ENCODES_TO(KEY_FLOAT4, "-Infinity", "\1\1"));
	assert_true(ENCODES_TO(KEY_TIME, "00:00:01", "\0\0\0\0\0\x0F\x42\x40"));
	assert_true(ENCODES_TO(KEY_TIMETZ, "00:00:00+01", "\x7F\xFF\xFF\xFF\x29\x6C\x5C\0\x7F\xFF\xF1\xF0"));
	assert_true(ENCODES_TO(KEY_INET, "10.1.2.3/8", "\4\x0A\0\0\0\x08\x0A\1\2\3"));
	assert_true(ENCODES_TO(KEY_CIDR, "10.0.0.0/8", "\4\x0A\0\0\0\x08"));
	assert_true(ENCODES_TO(KEY_INET, "::1",
						   "\6\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\x80"
						   "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1"));
	assert_true(ENCODES_TO(KEY_MACADDR, "08:00:2b:01:02:03", "\x08\0\x2B\1\2\3"));
	assert_true(ENCODES_TO(KEY_MACADDR8, "08:00:2b:01:02:03:04:05", "\x08\0\x2B\1\2\3\4\5"));
}

static void ties_stand_behind_all_columns(void **state)
{
	static const enum key_kind kinds[] = {KEY_NUMERIC, KEY_FLOAT8, KEY_TEXT};
	const struct slice texts[] = {slice_of("1.00"), slice_of("-0"), slice_of("z")};
	static const char want[] = "\4\x80\0\1\x0B\0"
							   "\3"
							   "z\0"
							   "\0\2"
							   "\0";
	struct buf bound = {0};
	struct encoded e = {0};

	(void)state;
	encode(&e, kinds, texts, 3);
	assert_true(e.ok && !e.is_long);
	assert_true(slice_eq(stored(&e), (struct slice){(const uint8_t *)want, sizeof want - 1}));
	assert_true(key_has_ties(kinds, 3) && !key_has_ties(kinds + 2, 1));
	assert_true(key_encode_bound(kinds, 3, texts, 3, &bound, &e.err));
	assert_true(
		slice_eq((struct slice){bound.p, bound.n}, (struct slice){(const uint8_t *)want, sizeof want - 4}));
	buf_finish(&bound);
	buf_finish(&e.full);
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

static void other_forms_of_a_number_are_refused(void **state)
{
	static const char *const numbers[] = {
		"",    "-",   ".",  ".5", "5.",  "+1",  "01",    "-01", "00", "1e",        "1e5x",      "nan", "-NaN",
		"inf", "0x1", " 1", "1 ", "1,5", "--1", "1.2.3", "1-",  "e5", "Infinity ", "-infinity", "1_0"};
	static const char *const numerics[] = {"-0", "-0.00", "1e5", "1e+15"};
	static const char *const floats[] = {"1.0",
										 "1.50",
										 "0.10",
										 "0.0",
										 "-0.0",
										 "1e5",
										 "1e+5",
										 "1e15",
										 "1e+05",
										 "1.0e+20",
										 "10e+20",
										 "0.00001",
										 "1e-04",
										 "1e+015",
										 "0e+20",
										 "0.1e+20",
										 "1000000000000000",
										 "1e+400",
										 "1e-400",
										 "1.2e+-5",
										 "123456789012345678"};

	(void)state;
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
		assert_true(refuses(KEY_NUMERIC, numbers[i]));
		assert_true(refuses(KEY_FLOAT4, numbers[i]));
		assert_true(refuses(KEY_FLOAT8, numbers[i]));
	}
	for (size_t i = 0; i < sizeof numerics / sizeof *numerics; i++)
		assert_true(refuses(KEY_NUMERIC, numerics[i]));
	for (size_t i = 0; i < sizeof floats / sizeof *floats; i++) {
		if (!refuses(KEY_FLOAT4, floats[i]) || !refuses(KEY_FLOAT8, floats[i])) fail_msg("%s", floats[i]);
	}
	assert_true(refuses(KEY_FLOAT4, "1000000") && refuses(KEY_FLOAT4, "1e+39") &&
				refuses(KEY_FLOAT4, "0.1234567891"));
	assert_true(refuses(KEY_FLOAT8, "1e+06") && refuses(KEY_FLOAT8, "1e+309"));
	assert_true(refuses_slice(KEY_NUMERIC, (struct slice){(const uint8_t *)"1\0", 2}));
}

static void other_forms_of_a_time_of_day_are_refused(void **state)
{
	static const char *const times[] = {"",          "24:00:00.000001", "24:00:01",    "25:00:00",
										"1:00:00",   "12:60:00",        "23:59:60",    "12:00",
										"12:00:00.", "12:00:00.0",      "12:00:00.10", "12:00:00.1234567",
										"12:00:00 ", "-12:00:00",       "12:00:00 BC"};
	static const char *const zones[] = {"",     "+",      "+1",        "-00",         "+00:00", "+01:00",
										"+16",  "+15:60", "+15:59:60", "+01:30:00",   "+01:",   "Z",
										" +00", "+00 ",   "+0130",     "+01:30:15:00"};
	char text[64];

	(void)state;
	for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
		assert_true(refuses(KEY_TIME, times[i]));
		snprintf(text, sizeof text, "%s+00", times[i]);
		assert_true(refuses(KEY_TIMETZ, text));
	}
	for (size_t i = 0; i < sizeof zones / sizeof *zones; i++) {
		snprintf(text, sizeof text, "12:00:00%s", zones[i]);
		assert_true(refuses(KEY_TIMETZ, text));
	}
	assert_true(refuses(KEY_TIME, "12:00:00+00"));
}

static void other_forms_of_an_address_are_refused(void **state)
{
	static const char *const both[] = {"",
									   "10.0.0",
									   "10.0.0.256/8",
									   "010.0.0.0/8",
									   "10.0.0.0/33",
									   "10.0.0.0/",
									   "10.0.0.0/08",
									   "10.0.0.0/-1",
									   "10.0.0.0/8 ",
									   " 10.0.0.0/8",
									   "10/8",
									   "::/129",
									   "::0/64",
									   "0:0::/64",
									   "FE80::/10",
									   "::1.2.3.4.5/128",
									   "10.0.0.0/8/8",
									   "fe80::%1/64",
									   "1:2:3:4:5:6:7:8:9/64"};
	static const char *const macs[] = {"",
									   "08:00:2b:01:02",
									   "08:00:2B:01:02:03",
									   "08-00-2b-01-02-03",
									   "08002b010203",
									   "08:00:2b:01:02:03:",
									   "08:00:2b:01:02:0g"};

	(void)state;
	for (size_t i = 0; i < sizeof both / sizeof *both; i++) {
		assert_true(refuses(KEY_INET, both[i]));
		assert_true(refuses(KEY_CIDR, both[i]));
	}
	assert_true(refuses(KEY_INET, "10.0.0.1/32") && refuses(KEY_INET, "::1/128"));
	assert_true(refuses(KEY_CIDR, "10.0.0.1") && refuses(KEY_CIDR, "10.0.0.1/8"));
	assert_true(refuses_slice(KEY_INET, (struct slice){(const uint8_t *)"::1\0", 4}));
	for (size_t i = 0; i < sizeof macs / sizeof *macs; i++) {
		assert_true(refuses(KEY_MACADDR, macs[i]));
		assert_true(refuses(KEY_MACADDR8, macs[i]));
	}
	assert_true(refuses(KEY_MACADDR8, "08:00:2b:01:02:03") &&
				refuses(KEY_MACADDR, "08:00:2b:01:02:03:04:05"));
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
		{16, KEY_BOOL},          {17, KEY_BYTEA},    {20, KEY_INT8},      {21, KEY_INT2},
		{23, KEY_INT4},          {26, KEY_OID},      {1082, KEY_DATE},    {1114, KEY_TIMESTAMP},
		{1184, KEY_TIMESTAMPTZ}, {2950, KEY_UUID},   {25, KEY_TEXT},      {1700, KEY_NUMERIC},
		{701, KEY_FLOAT8},       {1043, KEY_TEXT},   {0, KEY_TEXT},       {99999, KEY_TEXT},
		{700, KEY_FLOAT4},       {1083, KEY_TIME},   {1266, KEY_TIMETZ},  {869, KEY_INET},
		{650, KEY_CIDR},         {829, KEY_MACADDR}, {774, KEY_MACADDR8}, {1042, KEY_TEXT},
		{18, KEY_TEXT},          {19, KEY_TEXT},     {1186, KEY_TEXT},    {790, KEY_TEXT},
	};

	(void)state;
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		assert_int_equal(key_kind_of_type(types[i].oid), types[i].kind);
	assert_false(key_kind_is_known(0));
	assert_false(key_kind_is_known(KEY_KIND_LAST + 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_have_the_documented_bytes),
		cmocka_unit_test(newer_kinds_have_the_documented_bytes),
		cmocka_unit_test(ties_stand_behind_all_columns),
		cmocka_unit_test(columns_before_the_last_are_terminated),
		cmocka_unit_test(integers_have_one_text),
		cmocka_unit_test(integers_out_of_range_are_refused),
		cmocka_unit_test(other_forms_of_a_value_are_refused),
		cmocka_unit_test(other_forms_of_a_date_are_refused),
		cmocka_unit_test(other_forms_of_a_timestamp_are_refused),
		cmocka_unit_test(other_forms_of_a_number_are_refused),
		cmocka_unit_test(other_forms_of_a_time_of_day_are_refused),
		cmocka_unit_test(other_forms_of_an_address_are_refused),
		cmocka_unit_test(a_refusal_names_column_type_and_value),
		cmocka_unit_test(keys_of_511_bytes_and_more_are_long),
		cmocka_unit_test(a_long_key_cannot_be_forged),
		cmocka_unit_test(long_keys_are_ordered_by_their_prefix),
		cmocka_unit_test(types_have_their_encoding),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
