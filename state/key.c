#include "state/key.h"

#include <assert.h>
#include <string.h>

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
	OID_DATE = 1082,
	OID_TIMESTAMP = 1114,
	OID_TIMESTAMPTZ = 1184,
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
	default: return KEY_TEXT;
	}
}

bool key_kind_is_known(unsigned kind)
{
	return kind >= KEY_TEXT && kind <= KEY_OID;
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

static bool encode_bool(struct slice text, struct buf *out)
{
	if (text.n != 1 || (text.p[0] != 't' && text.p[0] != 'f')) return false;
	buf_put_u8(out, text.p[0] == 't');
	return true;
}

/* ---- bytes ---- */

/* Lower case only: two texts, two encodings. */
static int hex_digit(uint8_t c)
{
	if (c >= '0' && c <= '9') return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte that two hex digits spell, or -1. */
static int hex_byte(const uint8_t *p)
{
	int high = hex_digit(p[0]), low = hex_digit(p[1]);

	return high < 0 || low < 0 ? -1 : high << 4 | low;
}

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

static bool encode_column(enum key_kind kind, struct slice text, bool last, struct buf *out)
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

bool key_encode_prefix(const enum key_kind *kinds, size_t nkinds, const struct slice *texts, size_t n,
					   struct buf *out, struct err *err)
{
	size_t start = out->n;

	assert(nkinds > 0 && nkinds <= KEY_COLUMNS_MAX && n <= nkinds);
	for (size_t i = 0; i < n; i++) {
		if (!encode_column(kinds[i], texts[i], i + 1 == nkinds, out)) {
			out->n = start;
			return refuse(err, i + 1, kinds[i], texts[i]);
		}
	}
	if (n == nkinds && out->n == start) buf_put_u8(out, 0);
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
