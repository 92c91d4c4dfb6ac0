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
	bool keyless;          /* the replica identity lacks one: no old row can be told by it */
	int16_t *wire_of;      /* stored column -> wire column; -1: the wire does not carry it now */
	bool wire_is_prefix;   /* the wire's columns are the first ones stored, by name and type */

	/* Of rows older than the catalog, where columns were added that are not to be found by name (shape.h). */
	bool older, marked;
	uint16_t added;  /* the first of them */
	bool added_null; /* the wire is a prefix that lacks it: it is NULL */
};

void relation_finish(struct relation *r);

/* Takes schema over and forgets the wire. */
void relation_set_schema(struct relation *r, struct schema *schema);

/* The wire's columns and the stored ones are the same, in the same order, by name, type and typmod. */
bool relation_wire_is_schema(const struct relation *r, const struct pgo_msg *m);
/* The wire's columns are the stored ones, or as good: what those lack of them is NULL, or left to be asked
 * for. */
bool relation_is_current(const struct relation *r);
/* Nothing can be told of columns that were added, nor be inherited from rows before. */
bool relation_is_blind(const struct relation *r);
bool relation_wire_has_key(const struct relation *r, const struct pgo_msg *m);
/* Follows a Relation message: columns are found by name, of the same type. Sets `unmapped` if the key is not
 * among them, `keyless` if it is not in the replica identity. */
void relation_set_wire(struct relation *r, const struct pgo_msg *m);

struct encoded_key {
	uint8_t bytes[KEY_MAX];
	size_t n;
	bool is_long;
	struct buf full; /* the whole key, when long; owned: buf_finish */
};

/*
 * The key that a tuple has; unchanged cells are looked up in `other` (may be NULL). ERR_RETRY: it has no key,
 * so the table's key must be another by now.
 */
bool relation_key(const struct relation *r, const struct pgo_tuple *tuple, const struct pgo_tuple *other,
				  struct encoded_key *out, struct err *err);

/*
 * Appends an encoded row: values of `tuple`, unchanged ones from `old` (may
 * be NULL) when it has them, else absent, in doubt since `born`. *partial tells whether any is absent.
 */
bool relation_row(const struct relation *r, const struct pgo_tuple *tuple, const struct pgo_tuple *old,
				  struct pos pos, xid_t born, const struct encoded_key *key, struct buf *out, bool *partial,
				  struct err *err);

#endif
