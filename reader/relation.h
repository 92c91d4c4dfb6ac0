/*
 * reader/relation.h - from what the stream calls a relation to a table of the
 * store: which wire column is which stored column, where the key is, and a
 * change's tuples as encoded key and row.
 *
 * Loop thread; a relation's scratch makes results live until the next call.
 */
#ifndef READER_RELATION_H
#define READER_RELATION_H

#include "apply/batch.h"
#include "reader/pgoutput.h"
#include "state/schema.h"

struct relation {
	uint32_t oid;
	uint32_t table_id;     /* 0: not ours, its changes are passed over */
	char *display;         /* for messages */
	struct schema *schema; /* rows are written under */
	uint16_t wire_columns; /* columns of a tuple on the wire; 0: no Relation message yet */
	bool unmapped;         /* the wire lacks a key column: its changes cannot be followed */
	int16_t *wire_of;      /* stored column -> wire column; -1: the wire does not carry it now */
	bool wire_is_prefix;   /* the wire's columns are the first ones stored, by name and type */

	/* Of rows older than the catalog: columns from `added` on are not to be found by name (shape.h). */
	bool older;
	uint16_t added;  /* as many as there are columns: none */
	bool added_null; /* the wire is a prefix that lacks it: it is NULL */
};

void relation_finish(struct relation *r);

/* Takes schema over and forgets the wire. */
void relation_set_schema(struct relation *r, struct schema *schema);

/* The wire's columns and the stored ones are the same, in the same order, by name, type and typmod. */
bool relation_wire_is_schema(const struct relation *r, const struct pgo_msg *m);
/* Nothing can be told of columns that were added, nor be inherited from rows before. */
bool relation_is_blind(const struct relation *r);
/* Follows a Relation message: columns are found by name, of the same type. Sets `unmapped` if the key is not
 * among them. */
void relation_set_wire(struct relation *r, const struct pgo_msg *m);

struct encoded_key {
	uint8_t bytes[KEY_MAX];
	size_t n;
	bool is_long;
	struct buf full; /* the whole key, when long; owned: buf_finish */
};

/*
 * The key that a tuple has; cells it does not carry are looked up in `other`
 * (may be NULL). Those are the unchanged ones, and with null_is_unsent (a 'K' tuple) the NULL ones: otherwise
 * NULL in a key is ERR_PROTOCOL.
 */
bool relation_key(const struct relation *r, const struct pgo_tuple *tuple, bool null_is_unsent,
				  const struct pgo_tuple *other, struct encoded_key *out, struct err *err);

/*
 * Appends an encoded row: values of `tuple`, unchanged ones from `old` (may
 * be NULL) when it has them, else absent, in doubt since `born`. *partial tells whether any is absent.
 */
bool relation_row(const struct relation *r, const struct pgo_tuple *tuple, const struct pgo_tuple *old,
				  struct pos pos, xid_t born, const struct encoded_key *key, struct buf *out, bool *partial,
				  struct err *err);

#endif
