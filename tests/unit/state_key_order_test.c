#include "tests/unit/state_key_fixture.h"

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

/* ---- order, by the server ---- */

/* As PostgreSQL 15 sorts them; in one string, with a blank between: those that it calls equal. */
static const struct {
	enum key_kind kind;
	const char *values[48];
} sorted[] = {
	{KEY_NUMERIC,
	 {"-Infinity",
	  "-10",
	  "-1.5",
	  "-1.05",
	  "-1 -1.0",
	  "-0.1",
	  "-0.01",
	  "0 0.0 0.00",
	  "0.0009",
	  "0.001",
	  "0.01",
	  "0.1 0.10",
	  "1 1.0 1.00",
	  "1.2",
	  "1.21",
	  "1.25",
	  "9",
	  "9.9",
	  "10 10.0",
	  "12",
	  "12.5",
	  "99",
	  "100",
	  "100.5",
	  "120",
	  "9999",
	  "9999.9999",
	  "10000",
	  "10001",
	  "99999999999999999999",
	  "99999999999999999999.9",
	  "100000000000000000000",
	  "123456789012345678901234567890.123456789",
	  "1234567890123456789012345678901",
	  "Infinity",
	  "NaN"}},
	{KEY_FLOAT8,
	 {"-Infinity",
	  "-1.7976931348623157e+308",
	  "-10",
	  "-1.5",
	  "-1",
	  "-0.0001",
	  "-1e-05",
	  "-5e-324",
	  "-0 0",
	  "5e-324",
	  "2.2250738585072014e-308",
	  "1e-05",
	  "9.9e-05",
	  "0.0001",
	  "0.1",
	  "0.3",
	  "0.30000000000000004",
	  "1",
	  "1.5",
	  "3.14",
	  "10",
	  "123456",
	  "100000000000000",
	  "123456789012345",
	  "999999999999999",
	  "1e+15",
	  "9.007199254740992e+15",
	  "1e+22",
	  "9.999999999999999e+22",
	  "1.7976931348623157e+308",
	  "Infinity",
	  "NaN"}},
	{KEY_FLOAT4,
	 {"-Infinity",
	  "-3.4028235e+38",
	  "-1",
	  "-0.1",
	  "-0 0",
	  "1e-45",
	  "1.1754944e-38",
	  "1e-05",
	  "0.0001",
	  "0.1",
	  "1",
	  "1.5",
	  "100000",
	  "123456",
	  "999999",
	  "1e+06",
	  "1.234567e+06",
	  "1.6777216e+07",
	  "3.3554432e+07",
	  "3.4028235e+38",
	  "Infinity",
	  "NaN"}},
	{KEY_TIME,
	 {"00:00:00", "01:00:00", "12:34:56", "12:34:56.000001", "12:34:56.05", "12:34:56.5", "23:59:59.999999",
	  "24:00:00"}},
	{KEY_TIMETZ,
	 {"00:00:00+15:59:59", "00:00:00+00", "12:00:00+05:30", "06:30:00+00", "06:30:00.000001+00",
	  "23:59:59.999999+15:59", "10:00:00+00:00:01", "12:00:00+02", "11:00:00+01", "10:00:00+00",
	  "10:00:00.5+00", "15:30:00+00", "12:00:00-03:30", "24:00:00+00", "24:00:00-15:59:59"}},
	{KEY_INET,
	 {"0.0.0.0/0",
	  "255.255.255.255/0",
	  "9.255.0.0/16",
	  "11.0.0.0/7",
	  "10.0.0.0/8",
	  "10.0.0.1/8",
	  "10.0.0.0/9",
	  "10.0.0.0/16",
	  "10.0.0.0",
	  "10.0.0.1",
	  "10.1.0.0/16",
	  "10.128.0.0/9",
	  "10.255.255.255",
	  "::/0",
	  "::1/64",
	  "::",
	  "::1",
	  "::1.2.3.4",
	  "::ffff:1.2.3.4",
	  "2001:db8::/32",
	  "2001:db8::1/32",
	  "2001:db8:0:0:1::",
	  "fe80::/10",
	  "fe80::1/10"}},
	{KEY_CIDR,
	 {"0.0.0.0/0", "9.255.0.0/16", "10.0.0.0/8", "10.0.0.0/16", "10.0.0.0/32", "10.1.0.0/16", "128.0.0.0/1",
	  "::/0", "::1/128", "2001:db8::/32", "2001:db8::/48", "fe80::/10"}},
	{KEY_MACADDR,
	 {"00:00:00:00:00:00", "08:00:2b:01:02:03", "08:00:2b:01:02:04", "7f:ff:ff:ff:ff:ff", "80:00:00:00:00:00",
	  "ff:ff:ff:ff:ff:ff"}},
	{KEY_MACADDR8,
	 {"00:00:00:00:00:00:00:00", "08:00:2b:01:02:03:04:05", "08:00:2b:ff:fe:01:02:03",
	  "80:00:00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff:ff:ff"}},
};

static void encode_word(struct encoded *e, enum key_kind kind, const char *word, size_t n)
{
	struct slice s = {(const uint8_t *)word, n};

	encode(e, &kind, &s, 1);
	if (!e->ok) fail_msg("%s", e->err.msg);
}

/* Each word of `values` sorts behind all of the group before it, and differs from the others of its own. */
static void check_group(enum key_kind kind, const char *before, const char *values)
{
	struct encoded low = {0}, word = {0};
	struct buf bound = {0}, first = {0};

	for (const char *p = values; *p; p += strspn(p, " ")) {
		size_t n = strcspn(p, " ");
		struct slice s = {(const uint8_t *)p, n};

		encode_word(&word, kind, p, n);
		if (before) encode_word(&low, kind, before, strcspn(before, " "));
		if (before && slice_cmp(stored(&low), stored(&word)) >= 0) fail_msg("%s is not below %s", before, p);
		buf_reset(&bound);
		assert_true(key_encode_bound(&kind, 1, &s, 1, &bound, &word.err));
		if (p == values) buf_put(&first, bound.p, bound.n);
		assert_true(slice_eq((struct slice){first.p, first.n}, (struct slice){bound.p, bound.n}));
		p += n;
	}
	buf_finish(&first);
	buf_finish(&bound);
	buf_finish(&low.full);
	buf_finish(&word.full);
}

static void keys_sort_as_the_server_does(void **state)
{
	(void)state;
	for (size_t k = 0; k < sizeof sorted / sizeof *sorted; k++)
		for (size_t i = 0; i < sizeof sorted->values / sizeof *sorted->values && sorted[k].values[i]; i++)
			check_group(sorted[k].kind, i ? sorted[k].values[i - 1] : NULL, sorted[k].values[i]);
}

/* ---- order, by values made beside their texts ---- */

struct value {
	enum key_kind kind;
	char text[256];
	size_t ntext;
	int64_t rank[3];   /* compared first */
	uint8_t bytes[64]; /* then these */
	size_t nbytes;
	int64_t tie; /* then this, behind all columns */
};

/* As network_cmp_internal() of PostgreSQL: rank is family and mask length, bytes the address. */
static int network_cmp(const struct value *a, const struct value *b)
{
	int64_t shared = a->rank[1] < b->rank[1] ? a->rank[1] : b->rank[1];

	if (a->rank[0] != b->rank[0]) return a->rank[0] < b->rank[0] ? -1 : 1;
	for (int64_t i = 0; i < shared; i++) {
		int x = a->bytes[i / 8] >> (7 - i % 8) & 1, y = b->bytes[i / 8] >> (7 - i % 8) & 1;

		if (x != y) return x - y;
	}
	if (a->rank[1] != b->rank[1]) return a->rank[1] < b->rank[1] ? -1 : 1;
	return slice_cmp((struct slice){a->bytes, a->nbytes}, (struct slice){b->bytes, b->nbytes});
}

static int value_cmp(const struct value *a, const struct value *b)
{
	if (a->kind == KEY_INET || a->kind == KEY_CIDR) return network_cmp(a, b);
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

#define SCALE_MAX 6

/* m / 10^scale; the rank is in millionths. */
static void make_numeric(struct value *v, uint64_t *seed)
{
	static const char *const special[] = {"-Infinity", "Infinity", "NaN"};
	static const int64_t ranks[] = {INT64_MIN, INT64_MAX - 1, INT64_MAX};
	int64_t scale = (int64_t)random_below(seed, SCALE_MAX + 1), m = (int64_t)(random_magnitude(seed) >> 24);
	bool negative = random_u64(seed) & 1;
	size_t pick = random_below(seed, 60);
	char digits[32];
	int n;

	if (pick < 3) {
		v->rank[0] = ranks[pick];
		v->ntext = (size_t)snprintf(v->text, sizeof v->text, "%s", special[pick]);
		return;
	}
	while (random_u64(seed) & 1 && m < 1000000000)
		m *= 10;
	n = snprintf(digits, sizeof digits, "%0*lld", (int)scale + 1, (long long)m);
	v->ntext = (size_t)snprintf(v->text, sizeof v->text, "%s%.*s%s%s", negative && m > 0 ? "-" : "",
								n - (int)scale, digits, scale ? "." : "", digits + n - scale);
	v->tie = scale;
	for (; scale < SCALE_MAX; scale++)
		m *= 10;
	v->rank[0] = negative ? -m : m;
}

/* "d.ddde+XX" as float8out() writes it. */
static size_t print_float(char *out, size_t size, const char *e_form, int plain_highest)
{
	char digits[32];
	const char *e = strchr(e_form, 'e');
	int exponent = atoi(e + 1), n = 0, zeros;
	bool negative = *e_form == '-';

	for (const char *p = e_form; p < e; p++)
		if (*p >= '0' && *p <= '9') digits[n++] = *p;
	while (n > 1 && digits[n - 1] == '0')
		n--;
	digits[n] = '\0';
	if (exponent < -4 || exponent > plain_highest)
		return (size_t)snprintf(out, size, "%s%c%s%se%+03d", negative ? "-" : "", digits[0], n > 1 ? "." : "",
								digits + 1, exponent);
	if (exponent < 0)
		return (size_t)snprintf(out, size, "%s0.%.*s%s", negative ? "-" : "", -exponent - 1, "000", digits);
	zeros = exponent + 1 > n ? exponent + 1 - n : 0;
	return (size_t)snprintf(out, size, "%s%.*s%.*s%s%s", negative ? "-" : "", exponent + 1, digits, zeros,
							"00000000000000", n > exponent + 1 ? "." : "",
							n > exponent + 1 ? digits + exponent + 1 : "");
}

/* Bits of a float in the order of the floats. */
static int64_t float_rank(int64_t magnitude, bool negative)
{
	return negative ? -magnitude : magnitude;
}

static void make_float8(struct value *v, uint64_t *seed)
{
	uint64_t bits = random_u64(seed);
	char text[64];
	double d, back;

	if (random_u64(seed) & 1) bits = (bits & UINT64_C(0x803FFFFFFFFFFFFF)) | UINT64_C(0x3FC0000000000000);
	if (random_below(seed, 9) == 0) bits &= UINT64_C(0x8000000000000000);
	memcpy(&d, &bits, sizeof d);
	if (bits << 1 > UINT64_C(0x7FF) << 53)
		bits = UINT64_C(0x7FF8000000000000); /* one NaN, and it is not negative */
	v->rank[0] = float_rank((int64_t)(bits & INT64_MAX), bits >> 63);
	v->tie = bits != UINT64_C(1) << 63;
	if (d != d || d - d != 0 || d == 0) {
		v->ntext = (size_t)snprintf(v->text, sizeof v->text, "%s%s", bits >> 63 ? "-" : "",
									d != d   ? "NaN"
									: d == 0 ? "0"
											 : "Infinity");
		return;
	}
	for (int digits = 0;; digits++) {
		snprintf(text, sizeof text, "%.*e", digits, d);
		back = strtod(text, NULL);
		if (memcmp(&back, &d, sizeof d) == 0) break;
	}
	v->ntext = print_float(v->text, sizeof v->text, text, 14);
}

static void make_float4(struct value *v, uint64_t *seed)
{
	uint32_t bits = (uint32_t)random_u64(seed);
	char text[64];
	float f, back;

	if (random_u64(seed) & 1) bits = (bits & UINT32_C(0x81FFFFFF)) | UINT32_C(0x3E000000);
	if (random_below(seed, 9) == 0) bits &= UINT32_C(0x80000000);
	memcpy(&f, &bits, sizeof f);
	if (bits << 1 > UINT32_C(0xFF) << 24) bits = UINT32_C(0x7FC00000);
	v->rank[0] = float_rank((int64_t)(bits & INT32_MAX), bits >> 31);
	v->tie = bits != UINT32_C(1) << 31;
	if (f != f || f - f != 0 || f == 0) {
		v->ntext = (size_t)snprintf(v->text, sizeof v->text, "%s%s", bits >> 31 ? "-" : "",
									f != f   ? "NaN"
									: f == 0 ? "0"
											 : "Infinity");
		return;
	}
	for (int digits = 0;; digits++) {
		snprintf(text, sizeof text, "%.*e", digits, (double)f);
		back = strtof(text, NULL);
		if (memcmp(&back, &f, sizeof f) == 0) break;
	}
	v->ntext = print_float(v->text, sizeof v->text, text, 5);
}

static void make_time_of_day(struct value *v, uint64_t *seed, bool zoned)
{
	char clock[32];
	int64_t us;
	int east = (int)random_below(seed, 57600), s;

	make_clock(clock, sizeof clock, seed, &us);
	v->rank[0] = us;
	v->ntext = (size_t)snprintf(v->text, sizeof v->text, "%s", clock + 1);
	if (!zoned) return;
	if (random_u64(seed) & 1) east -= east % 3600;
	if (random_u64(seed) & 1) east -= east % 60;
	s = east;
	if (random_u64(seed) & 1) east = -east;
	v->ntext += (size_t)snprintf(v->text + v->ntext, sizeof v->text - v->ntext, "%c%02d",
								 east < 0 ? '-' : '+', s / 3600);
	if (s % 3600)
		v->ntext += (size_t)snprintf(v->text + v->ntext, sizeof v->text - v->ntext, ":%02d", s / 60 % 60);
	if (s % 60) v->ntext += (size_t)snprintf(v->text + v->ntext, sizeof v->text - v->ntext, ":%02d", s % 60);
	v->rank[0] = us - (int64_t)east * 1000000;
	v->rank[1] = -east;
}

static void make_address(struct value *v, uint64_t *seed, bool is_cidr)
{
	bool v6 = random_u64(seed) & 1;
	size_t bits = v6 ? 128 : 32, mask = random_u64(seed) & 1 ? bits : random_below(seed, bits + 1);
	char out[INET6_ADDRSTRLEN];

	v->nbytes = bits / 8;
	for (size_t i = 0; i < v->nbytes; i++)
		v->bytes[i] = random_below(seed, 3) ? 0 : (uint8_t)random_u64(seed);
	for (size_t i = mask; is_cidr && i < bits; i++)
		v->bytes[i / 8] &= (uint8_t) ~(0x80 >> i % 8);
	v->rank[0] = v6;
	v->rank[1] = (int64_t)mask;
	inet_ntop(v6 ? AF_INET6 : AF_INET, v->bytes, out, sizeof out);
	v->ntext = (size_t)snprintf(v->text, sizeof v->text, "%s", out);
	if (is_cidr || mask < bits)
		v->ntext += (size_t)snprintf(v->text + v->ntext, sizeof v->text - v->ntext, "/%zu", mask);
}

static void make_mac(struct value *v, uint64_t *seed, size_t n)
{
	v->nbytes = n;
	for (size_t i = 0; i < n; i++) {
		v->bytes[i] = random_below(seed, 3) ? 0x7F : (uint8_t)random_u64(seed);
		v->ntext += (size_t)snprintf(v->text + v->ntext, sizeof v->text - v->ntext, "%s%02x", i ? ":" : "",
									 v->bytes[i]);
	}
}

static void make_value(struct value *v, enum key_kind kind, uint64_t *seed)
{
	*v = (struct value){.kind = kind};
	switch (kind) {
	case KEY_NUMERIC: make_numeric(v, seed); break;
	case KEY_FLOAT4: make_float4(v, seed); break;
	case KEY_FLOAT8: make_float8(v, seed); break;
	case KEY_TIME: make_time_of_day(v, seed, false); break;
	case KEY_TIMETZ: make_time_of_day(v, seed, true); break;
	case KEY_INET: make_address(v, seed, false); break;
	case KEY_CIDR: make_address(v, seed, true); break;
	case KEY_MACADDR: make_mac(v, seed, 6); break;
	case KEY_MACADDR8: make_mac(v, seed, 8); break;
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
	int order, tie;
	size_t alike; /* columns in front with equal values */
};

static void make_pair(struct pair *p, uint64_t *seed, size_t n)
{
	p->n = n;
	p->order = p->tie = 0;
	p->alike = 0;
	for (size_t i = 0; i < n; i++) {
		p->kinds[i] = (enum key_kind)(KEY_TEXT + random_below(seed, KEY_KIND_LAST));
		make_value(&p->a[i], p->kinds[i], seed);
		p->b[i] = p->a[i];
		if (random_u64(seed) & 1) make_value(&p->b[i], p->kinds[i], seed);
		p->ta[i] = (struct slice){(uint8_t *)p->a[i].text, p->a[i].ntext};
		p->tb[i] = (struct slice){(uint8_t *)p->b[i].text, p->b[i].ntext};
		if (p->order == 0) p->order = value_cmp(&p->a[i], &p->b[i]);
		if (p->alike == i && p->order == 0) p->alike++;
		if (p->tie == 0) p->tie = (p->a[i].tie > p->b[i].tie) - (p->a[i].tie < p->b[i].tie);
	}
}

static bool same_texts(const struct pair *p)
{
	size_t same = 0;

	while (same < p->n && slice_eq(p->ta[same], p->tb[same]))
		same++;
	return same == p->n;
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
		if (slice_cmp(stored(&a), stored(&b)) != (p.order ? p.order : p.tie))
			fail_msg("%.*s and %.*s", (int)p.ta[0].n, p.ta[0].p, (int)p.tb[0].n, p.tb[0].p);
		/* Equal keys have equal texts: nothing is lost. */
		assert_int_equal(slice_eq(stored(&a), stored(&b)), same_texts(&p));
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
		if (!key_has_ties(p.kinds, p.n)) continue;
		buf_reset(&prefix);
		assert_true(key_encode_bound(p.kinds, p.n, p.ta, p.n, &prefix, &err));
		assert_int_equal(full.n >= prefix.n && memcmp(full.p, prefix.p, prefix.n) == 0, p.alike == p.n);
	}
	buf_finish(&prefix);
	buf_finish(&full);
}

/* Whatever text is accepted: another text has another key. */
static void changed_texts_are_refused_or_have_other_keys(void **state)
{
	static const char alphabet[] = "0123456789-+.: BCtfinyxINa/\\\0ae";
	struct encoded a = {0}, b = {0};
	uint64_t seed = 9;
	struct value v;
	int accepted = 0;

	(void)state;
	for (int round = 0; round < 200000; round++) {
		enum key_kind kind = (enum key_kind)(KEY_TEXT + random_below(&seed, KEY_KIND_LAST));
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
		if (slice_eq(stored(&a), stored(&b)) != slice_eq(original, changed))
			fail_msg("kind %d: %.*s and %.*s", kind, (int)original.n, original.p, (int)changed.n, changed.p);
	}
	assert_true(accepted > 1000);
	buf_finish(&a.full);
	buf_finish(&b.full);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_day_of_eight_thousand_years_counts_one),
		cmocka_unit_test(far_dates_and_stamps_are_postgresqls),
		cmocka_unit_test(keys_sort_as_the_server_does),
		cmocka_unit_test(order_of_keys_is_order_of_values),
		cmocka_unit_test(a_prefix_covers_exactly_the_keys_with_its_columns),
		cmocka_unit_test(changed_texts_are_refused_or_have_other_keys),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
