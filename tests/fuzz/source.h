/*
 * tests/fuzz/source.h - the tables of a source, each in a few shapes that
 * ALTER TABLE could give it, and pgoutput messages about them.
 *
 * The first shapes of the first four are those of tests/golden/pgoutput.txt,
 * so its messages fit. Keys and values are picked by number.
 */
#ifndef TESTS_FUZZ_SOURCE_H
#define TESTS_FUZZ_SOURCE_H

#include "state/schema.h"

#define SOURCE_TABLES 5
#define SOURCE_SHAPES 3
#define SOURCE_KEYS   16
#define SOURCE_VALUES 8 /* of a cell, of which... */
enum { VALUE_NULL, VALUE_UNCHANGED };

struct source_shape {
	const char *schema_name, *table_name;
	struct schema schema; /* version 0, table 0 */
};

uint32_t source_oid(unsigned table);
const struct source_shape *source_shape(unsigned table, unsigned shape);

/* The text of the i-th key column of key number `key`. */
struct slice source_key_text(const struct source_shape *s, unsigned i, unsigned key);
/* p == NULL is NULL. VALUE_UNCHANGED has no text of its own. */
struct slice source_value_text(unsigned value);
/* Which key column a column is; -1: none. */
int source_key_index(const struct source_shape *s, unsigned column);

/* How the columns of the key are sent. No server sends NULL. */
enum source_key { KEY_SENT, KEY_UNCHANGED, KEY_NULL };

/* values: what the other columns hold, three bits for each, from the lowest on. */
struct source_tuple {
	unsigned key;
	enum source_key key_is;
	uint32_t values;
};

/* How an UPDATE or DELETE names the row that was. */
enum source_old { OLD_NONE, OLD_KEY, OLD_FULL };

void source_put_begin(struct buf *out, uint64_t commit_lsn, uint32_t xid);
void source_put_commit(struct buf *out, uint64_t commit_lsn, uint64_t end_lsn);
void source_put_relation(struct buf *out, unsigned table, unsigned shape);
void source_put_insert(struct buf *out, unsigned table, unsigned shape, struct source_tuple new);
void source_put_update(struct buf *out, unsigned table, unsigned shape, enum source_old how,
					   struct source_tuple old, struct source_tuple new);
void source_put_delete(struct buf *out, unsigned table, unsigned shape, enum source_old how,
					   struct source_tuple old);
void source_put_truncate(struct buf *out, uint8_t tables); /* a bit for each */

#endif
