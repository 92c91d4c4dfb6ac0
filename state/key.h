/*
 * state/key.h - the order-preserving encoding of row keys.
 *
 * A key is one or more columns in the order of the source's index. Each is
 * encoded from its PostgreSQL text form (the pinned output settings of DESIGN
 * section 10) so that memcmp order of the encoding is the type's own order
 * where FORMAT.md says so, and so that two different texts always have
 * different encodings. A text that does not parse as its type is refused.
 *
 * Pure. Any thread.
 */
#ifndef STATE_KEY_H
#define STATE_KEY_H

#include "state/bytes.h"
#include "state/err.h"

/* Stored in schema records: never renumber. */
enum key_kind {
	KEY_TEXT = 1,    /* any type without an encoding of its own: its text, bytewise */
	KEY_INT2 = 2,
	KEY_INT4 = 3,
	KEY_INT8 = 4,
	KEY_UUID = 5,
	KEY_DATE = 6,
	KEY_TIMESTAMP = 7,   /* timestamp without time zone */
	KEY_TIMESTAMPTZ = 8, /* text form is UTC, "+00" */
	KEY_BOOL = 9,
	KEY_BYTEA = 10,      /* text form is hex */
	KEY_OID = 11
};

/* The encoding for a type (base type of a domain). Unknown types: KEY_TEXT. */
enum key_kind key_kind_of_type(uint32_t type_oid);

#define KEY_MAX 511      /* LMDB's limit */
#define KEY_COLUMNS_MAX 32

/*
 * Encodes n columns into out. A key longer than KEY_MAX is cut to a prefix and
 * a SHA-256 half at exactly KEY_MAX bytes: then *is_long is set and `full`
 * receives the whole encoding, which the row must carry (row.h) and which is
 * compared on every hit.
 * `full` is scratch in any case. Fails with ERR_PROTOCOL on a text that is not of its type.
 */
bool key_encode(const enum key_kind *kinds, const struct slice *texts, size_t n,
                uint8_t out[KEY_MAX], size_t *out_len, struct buf *full, bool *is_long, struct err *err);

#endif
