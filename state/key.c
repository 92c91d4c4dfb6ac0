#include "state/key.h"

#include <assert.h>
#include <string.h>

#include "state/hex.h"
#include "state/key_decimal.h"
#include "state/key_net.h"
#include "state/key_time.h"
#include "state/sha256.h"

/* The types with an encoding of their own, from pg_type.dat. */
enum {
	OID_BOOL = 16,
	OID_BYTEA = 17,
	OID_INT8 = 20,
	OID_INT2 = 21,
	OID_INT4 = 23,
	OID_OID = 26,
	OID_CIDR = 650,
	OID_FLOAT4 = 700,
	OID_FLOAT8 = 701,
	OID_MACADDR8 = 774,
	OID_MACADDR = 829,
	OID_INET = 869,
	OID_DATE = 1082,
	OID_TIME = 1083,
	OID_TIMESTAMP = 1114,
	OID_TIMESTAMPTZ = 1184,
	OID_TIMETZ = 1266,
	OID_NUMERIC = 1700,
	OID_UUID = 2950
};

enum key_kind key_kind_of_type(uint32_t type_oid)
{
	switch (type_oid) {
	case OID_BOOL: return KEY_BOOL;
	case OID_BYTEA: return KEY_BYTEA;
	case OID_INT2: return KEY_INT2;
	case OID_INT4: return KEY_INT4;
	case OID_INT8: return KEY_INT8;
	case OID_OID: return KEY_OID;
	case OID_DATE: return KEY_DATE;
	case OID_TIMESTAMP: return KEY_TIMESTAMP;
	case OID_TIMESTAMPTZ: return KEY_TIMESTAMPTZ;
	case OID_UUID: return KEY_UUID;
	case OID_NUMERIC: return KEY_NUMERIC;
	case OID_FLOAT4: return KEY_FLOAT4;
	case OID_FLOAT8: return KEY_FLOAT8;
	case OID_TIME: return KEY_TIME;
	case OID_TIMETZ: return KEY_TIMETZ;
	case OID_INET: return KEY_INET;
	case OID_CIDR: return KEY_CIDR;
	case OID_MACADDR: return KEY_MACADDR;
	case OID_MACADDR8: return KEY_MACADDR8;
	default: return KEY_TEXT;
	}
}

bool key_kind_is_ordered(unsigned kind)
{
	return key_kind_is_known(kind) && kind != KEY_TEXT;
}

bool key_kind_is_known(unsigned kind)
{
	return kind >= KEY_TEXT && kind <= KEY_KIND_LAST;
}

static const char *kind_name(enum key_kind kind)
{
	switch (kind) {
	case KEY_TEXT: return "text";
	case KEY_INT2: return "int2";
	case KEY_INT4: return "int4";
	case KEY_INT8: return "int8";
	case KEY_UUID: return "uuid";
	case KEY_DATE: return "date";
	case KEY_TIMESTAMP: return "timestamp";
	case KEY_TIMESTAMPTZ: return "timestamptz";
	case KEY_BOOL: return "bool";
	case KEY_BYTEA: return "bytea";
	case KEY_OID: return "oid";
	case KEY_NUMERIC: return "numeric";
	case KEY_FLOAT4: return "float4";
	case KEY_FLOAT8: return "float8";
	case KEY_TIME: return "time";
	case KEY_TIMETZ: return "timetz";
	case KEY_INET: return "inet";
	case KEY_CIDR: return "cidr";
	case KEY_MACADDR: return "macaddr";
	case KEY_MACADDR8: return "macaddr8";
	}
	return "unknown";
}

/* ---- numbers ---- */

/* An integer in the form PostgreSQL prints: no leading zero, no plus, no -0. */
static bool parse_int(struct slice text, int64_t min, int64_t max, int64_t *out)
{
	bool negative = text.n > 0 && text.p[0] == '-';
	size_t i = negative;
	int64_t v = 0; /* kept negative: that side reaches further */

	if (i == text.n || (text.p[i] == '0' && text.n > 1)) return false;
	for (; i < text.n; i++) {
		unsigned digit = (unsigned)text.p[i] - '0';

		if (digit > 9 || __builtin_mul_overflow(v, 10, &v) || __builtin_sub_overflow(v, (int64_t)digit, &v))
			return false;
	}
	if (!negative && v == INT64_MIN) return false;
	*out = negative ? v : -v;
	return *out >= min && *out <= max;
}

static bool encode_int(struct slice text, int64_t min, int64_t max, size_t size, struct buf *out)
{
	int64_t v;

	if (!parse_int(text, min, max, &v)) return false;
	switch (size) {
	case 2: buf_put_u16(out, (uint16_t)((uint16_t)v ^ 0x8000)); break;
	case 4: buf_put_u32(out, (uint32_t)v ^ UINT32_C(1) << 31); break;
	default: buf_put_u64(out, (uint64_t)v ^ UINT64_C(1) << 63); break;
	}
	return true;
}

static bool encode_oid(struct slice text, struct buf *out)
{
	int64_t v;

	if (!parse_int(text, 0, UINT32_MAX, &v)) return false;
	buf_put_u32(out, (uint32_t)v);
	return true;
}

static bool encode_date(struct slice text, struct buf *out)
{
	int32_t days;

	if (!key_time_date(text, &days)) return false;
	buf_put_u32(out, (uint32_t)days ^ UINT32_C(1) << 31);
	return true;
}

static bool encode_stamp(struct slice text, bool zoned, struct buf *out)
{
	int64_t us;

	if (!key_time_stamp(text, zoned, &us)) return false;
	buf_put_u64(out, (uint64_t)us ^ UINT64_C(1) << 63);
	return true;
}

static bool encode_time(struct slice text, struct buf *out)
{
	int64_t us;

	if (!key_time_of_day(text, &us)) return false;
	buf_put_u64(out, (uint64_t)us);
	return true;
}

static bool encode_timetz(struct slice text, struct buf *out)
{
	int64_t us;
	int32_t west_s;

	if (!key_time_of_day_zoned(text, &us, &west_s)) return false;
	buf_put_u64(out, (uint64_t)us ^ UINT64_C(1) << 63);
	buf_put_u32(out, (uint32_t)west_s ^ UINT32_C(1) << 31);
	return true;
}

static bool encode_bool(struct slice text, struct buf *out)
{
	if (text.n != 1 || (text.p[0] != 't' && text.p[0] != 'f')) return false;
	buf_put_u8(out, text.p[0] == 't');
	return true;
}

/* ---- bytes ---- */

/* 8-4-4-4-12 digits. Every group is whole bytes. */
static bool encode_uuid(struct slice text, struct buf *out)
{
	uint8_t *at = buf_extend(out, 16);
	size_t i = 0;

	if (text.n != 36) return false;
	while (i < text.n) {
		int byte;

		if ((i == 8 || i == 13 || i == 18 || i == 23) && text.p[i++] != '-') return false;
		byte = hex_byte(text.p + i);
		if (byte < 0) return false;
		*at++ = (uint8_t)byte;
		i += 2;
	}
	return true;
}

static bool encode_bytea(struct slice text, bool last, struct buf *out)
{
	if (text.n < 2 || text.n % 2 != 0 || text.p[0] != '\\' || text.p[1] != 'x') return false;
	for (size_t i = 2; i < text.n; i += 2) {
		int byte = hex_byte(text.p + i);

		if (byte < 0) return false;
		buf_put_u8(out, (uint8_t)byte);
		if (byte == 0) buf_put_u8(out, 0xFF);
	}
	if (!last) buf_put_u16(out, 0x0001);
	return true;
}

static bool encode_text(struct slice text, bool last, struct buf *out)
{
	if (text.n > 0 && memchr(text.p, 0, text.n)) return false;
	buf_put(out, text.p, text.n);
	if (!last) buf_put_u8(out, 0);
	return true;
}

/* ---- keys ---- */

/* What keeps apart in a key the texts that are equal in order. */
struct ties {
	uint8_t bytes[2 * KEY_COLUMNS_MAX];
	size_t n;
};

static bool has_ties(enum key_kind kind)
{
	return kind == KEY_NUMERIC || kind == KEY_FLOAT4 || kind == KEY_FLOAT8;
}

static bool encode_numeric(struct slice text, struct buf *out, struct ties *ties)
{
	uint16_t tie;

	if (!key_decimal_numeric(text, out, &tie)) return false;
	be16_put(ties->bytes + ties->n, tie);
	ties->n += 2;
	return true;
}

static bool encode_float(struct slice text, int bits, struct buf *out, struct ties *ties)
{
	uint16_t tie;

	if (!key_decimal_float(text, bits, out, &tie)) return false;
	ties->bytes[ties->n++] = (uint8_t)tie;
	return true;
}

/* last: nothing follows in the key. */
static bool encode_column(enum key_kind kind, struct slice text, bool last, struct buf *out,
						  struct ties *ties)
{
	switch (kind) {
	case KEY_TEXT: return encode_text(text, last, out);
	case KEY_INT2: return encode_int(text, INT16_MIN, INT16_MAX, 2, out);
	case KEY_INT4: return encode_int(text, INT32_MIN, INT32_MAX, 4, out);
	case KEY_INT8: return encode_int(text, INT64_MIN, INT64_MAX, 8, out);
	case KEY_UUID: return encode_uuid(text, out);
	case KEY_DATE: return encode_date(text, out);
	case KEY_TIMESTAMP: return encode_stamp(text, false, out);
	case KEY_TIMESTAMPTZ: return encode_stamp(text, true, out);
	case KEY_BOOL: return encode_bool(text, out);
	case KEY_BYTEA: return encode_bytea(text, last, out);
	case KEY_OID: return encode_oid(text, out);
	case KEY_NUMERIC: return encode_numeric(text, out, ties);
	case KEY_FLOAT4: return encode_float(text, 32, out, ties);
	case KEY_FLOAT8: return encode_float(text, 64, out, ties);
	case KEY_TIME: return encode_time(text, out);
	case KEY_TIMETZ: return encode_timetz(text, out);
	case KEY_INET: return key_net_inet(text, out);
	case KEY_CIDR: return key_net_cidr(text, out);
	case KEY_MACADDR: return key_net_mac(text, 6, out);
	case KEY_MACADDR8: return key_net_mac(text, 8, out);
	}
	assert(!"a key kind that does not exist");
	return false;
}

/* The text as people can read it in one line: printable, and not all of a megabyte. */
static bool refuse(struct err *err, size_t column, enum key_kind kind, struct slice text)
{
	char shown[64];
	size_t n = text.n < sizeof shown ? text.n : sizeof shown - 1;

	while (n < text.n && n > 0 && (text.p[n] & 0xC0) == 0x80)
		n--;
	for (size_t i = 0; i < n; i++)
		shown[i] = text.p[i] < ' ' || text.p[i] == 0x7F ? '?' : (char)text.p[i];
	shown[n] = '\0';
	return err_set(err, ERR_PROTOCOL,
				   "key column %zu: \"%s\"%s is not in the form that PostgreSQL prints %s in", column, shown,
				   n < text.n ? "..." : "", kind_name(kind));
}

bool key_has_ties(const enum key_kind *kinds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (has_ties(kinds[i])) return true;
	return false;
}

static bool encode_columns(const enum key_kind *kinds, size_t nkinds, const struct slice *texts, size_t n,
						   struct buf *out, struct ties *ties, struct err *err)
{
	size_t start = out->n;
	bool tied = key_has_ties(kinds, nkinds);

	assert(nkinds > 0 && nkinds <= KEY_COLUMNS_MAX && n <= nkinds);
	ties->n = 0;
	for (size_t i = 0; i < n; i++) {
		if (!encode_column(kinds[i], texts[i], i + 1 == nkinds && !tied, out, ties)) {
			out->n = start;
			return refuse(err, i + 1, kinds[i], texts[i]);
		}
	}
	if (n == nkinds && out->n == start) buf_put_u8(out, 0);
	return true;
}

bool key_encode_bound(const enum key_kind *kinds, size_t nkinds, const struct slice *texts, size_t n,
					  struct buf *out, struct err *err)
{
	struct ties ties;

	return encode_columns(kinds, nkinds, texts, n, out, &ties, err);
}

bool key_encode_prefix(const enum key_kind *kinds, size_t nkinds, const struct slice *texts, size_t n,
					   struct buf *out, struct err *err)
{
	struct ties ties;

	if (!encode_columns(kinds, nkinds, texts, n, out, &ties, err)) return false;
	if (n == nkinds) buf_put(out, ties.bytes, ties.n);
	return true;
}

size_t key_store(struct slice full, uint8_t out[KEY_MAX], bool *is_long)
{
	bool cut = full.n >= KEY_MAX;

	if (is_long) *is_long = cut;
	memcpy(out, full.p, cut ? KEY_PREFIX : full.n);
	if (!cut) return full.n;
	sha256(full, out + KEY_PREFIX);
	return KEY_MAX;
}

bool key_encode(const enum key_kind *kinds, const struct slice *texts, size_t n, uint8_t out[KEY_MAX],
				size_t *out_len, struct buf *full, bool *is_long, struct err *err)
{
	buf_reset(full);
	if (!key_encode_prefix(kinds, n, texts, n, full, err)) return false;
	*out_len = key_store((struct slice){full->p, full->n}, out, is_long);
	return true;
}
