/*
 * state/key.h - the order-preserving encoding of row keys.
 *
 * A key is one or more columns in the order of the source's index. Each is
 * encoded from its PostgreSQL text form (the output settings that FACTS pins)
 * so that memcmp order of the encoding is the type's own order (for KEY_TEXT: the
 * order of its bytes, which need not be the source's), and so that two different texts always have different
 * encodings. A text that is not of its type, or not in the one form that
 * PostgreSQL prints, is refused.
 *
 *   int2 int4 int8   2, 4, 8 bytes big-endian, sign bit flipped
 *   oid              4 bytes big-endian
 *   bool             00 false, 01 true
 *   uuid             16 bytes
 *   date             days since 2000-01-01 as int4; -infinity lowest, infinity highest
 *   timestamp(tz)    microseconds since 2000-01-01 as int8; likewise
 *   numeric, floats  key_decimal.h
 *   time             microseconds since midnight, 8 bytes
 *   timetz           the same in UTC as int8, then seconds west of UTC as int4
 *   inet cidr macaddr(8)  key_net.h
 *   text             its bytes; 00 behind it unless it ends the key
 *   bytea            its bytes, each 00 as 00 FF; 00 01 behind it unless it ends the key
 *
 * Order holds across columns because the encoding of a column that is not the
 * last is never a prefix of another one's. A text has no 00 of its own, so its
 * terminator is below any byte that follows in a longer text. A longer bytea
 * has at the place of the 00 01 either 01..FF, above the 00, or 00 FF, above the
 * 00 01. In the last column the shorter of two is a prefix of the longer, which
 * memcmp order puts first.
 *
 * Ties. Numbers can be equal and still differ as texts: numeric 1.0 and 1.00,
 * float 0 and -0. The columns' encodings have the value alone; what tells such
 * texts apart stands at the end of the whole key, for each column of these types in turn:
 * a numeric's digits behind the point, 2 bytes; a float's 00 for -0 and 01 for all else. So columns
 * behind them sort as they do at the source. No text or bytea ends such a key.
 *
 * LMDB has no empty key. A key of no bytes (its only column an empty text or
 * bytea) is the single byte 00, which no other text or bytea encodes to and
 * which is below all others.
 *
 * Long keys. LMDB's limit is 511 bytes. A key of up to 510 is stored as it is,
 * a longer one as its first 479 bytes and the SHA-256 of the whole:
 *
 *   |<-------------- 479 -------------->|<-- 32 -->|
 *   | first bytes of the full encoding  | SHA-256  |
 *
 * So the length alone tells the two apart, and a short key never equals a long
 * one: that is why a key of 511 bytes is already a long one. A row under a long
 * key carries the full encoding (row.h). Two keys that differ within their
 * first 479 bytes are stored in order; of two that do not, and one of which is
 * long, only the full encodings tell the order.
 *
 * Pure. Any thread.
 */
#ifndef STATE_KEY_H
#define STATE_KEY_H

#include "state/bytes.h"
#include "state/err.h"

/* Stored in schema records: never renumber. */
enum key_kind {
	KEY_TEXT = 1, /* any type without an encoding of its own: its text, bytewise */
	KEY_INT2 = 2,
	KEY_INT4 = 3,
	KEY_INT8 = 4,
	KEY_UUID = 5,
	KEY_DATE = 6,
	KEY_TIMESTAMP = 7,   /* timestamp without time zone */
	KEY_TIMESTAMPTZ = 8, /* text form is UTC, "+00" */
	KEY_BOOL = 9,
	KEY_BYTEA = 10, /* text form is hex */
	KEY_OID = 11,
	KEY_NUMERIC = 12,
	KEY_FLOAT4 = 13,
	KEY_FLOAT8 = 14,
	KEY_TIME = 15,
	KEY_TIMETZ = 16,
	KEY_INET = 17,
	KEY_CIDR = 18,
	KEY_MACADDR = 19,
	KEY_MACADDR8 = 20
};
#define KEY_KIND_LAST KEY_MACADDR8

/* The encoding for a type (base type of a domain). Unknown types: KEY_TEXT. */
enum key_kind key_kind_of_type(uint32_t type_oid);
bool key_kind_is_ordered(unsigned kind); /* encodings sort as the source does; of a text by its bytes */
bool key_kind_is_known(unsigned kind);   /* a number of the enum above */

#define KEY_MAX         511 /* LMDB's limit; every key of this length is a long one */
#define KEY_PREFIX      479 /* bytes of the full encoding in a long key */
#define KEY_COLUMNS_MAX 32

/*
 * Encodes n columns (1 to KEY_COLUMNS_MAX), the whole key, into out. For a long
 * key *is_long is set and `full` receives the whole encoding, which the row must
 * carry and which is compared on every hit. `full` is scratch in any case; *out_len is at
 * least 1. Fails with ERR_PROTOCOL on a text that is not of its type.
 */
bool key_encode(const enum key_kind *kinds, const struct slice *texts, size_t n, uint8_t out[KEY_MAX],
				size_t *out_len, struct buf *full, bool *is_long, struct err *err);

/*
 * Appends the full encoding, never shortened, of the first n of the nkinds
 * columns of a key, with its ties if n is nkinds. With n < nkinds, exactly the keys whose first n
 * columns equal these have a full encoding that starts with it; with n = 0 it is empty: all do.
 */
bool key_encode_prefix(const enum key_kind *kinds, size_t nkinds, const struct slice *texts, size_t n,
					   struct buf *out, struct err *err);

/* Keys of these columns can be equal in order and yet be different ones. */
bool key_has_ties(const enum key_kind *kinds, size_t n);
/*
 * The same without ties, whatever n: a bound to scan from and to. For a key that
 * has ties it is a prefix of all keys that equal it; for any other it is the key, if n is nkinds.
 */
bool key_encode_bound(const enum key_kind *kinds, size_t nkinds, const struct slice *texts, size_t n,
					  struct buf *out, struct err *err);

/* The stored form of a full encoding; returns its length. *is_long may be NULL. */
size_t key_store(struct slice full, uint8_t out[KEY_MAX], bool *is_long);

#endif
