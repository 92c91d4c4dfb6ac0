/*
 * state/schema.h - what a table looks like: names, types, key; and its
 * versions. Rows name the version they were written under.
 *
 * Plain data. A schema made by schema_decode() or schema_copy() is one malloc
 * block, freed with schema_free().
 */
#ifndef STATE_SCHEMA_H
#define STATE_SCHEMA_H

#include "state/bytes.h"
#include "state/err.h"
#include "state/key.h"

/* How a column's text is shown as JSON. Stored: never renumber. */
enum type_class {
	TYPE_OTHER = 0,
	TYPE_INT = 1,     /* int2/4/8, oid */
	TYPE_FLOAT = 2,   /* float4/8: NaN and Infinity as strings */
	TYPE_NUMERIC = 3, /* the same */
	TYPE_BOOL = 4,
	TYPE_JSON = 5 /* json, jsonb: embedded */
};
enum type_class type_class_of(uint32_t base_type_oid);

struct column {
	const char *name;  /* unquoted */
	uint32_t type_oid; /* as on the wire (a domain's own OID) */
	int32_t typmod;
	const char *type_name; /* castable, quoted and schema-qualified as needed; no typmod */
	uint8_t type_class;    /* enum type_class, of the base type */
};

struct schema {
	uint32_t table_id;
	uint32_t version; /* 1, 2, 3 ... per table */
	uint16_t ncolumns;
	uint16_t nkeys;         /* 1 to KEY_COLUMNS_MAX */
	struct column *columns; /* in the order of the wire and of rows */
	uint16_t *key_columns;  /* indexes into columns, in index order */
	uint8_t *key_kinds;     /* enum key_kind, parallel to key_columns */
};

void schema_encode(const struct schema *s, struct buf *out);
bool schema_decode(struct slice bytes, struct schema **out, struct err *err); /* ERR_CORRUPT */
struct schema *schema_copy(const struct schema *s);
void schema_free(struct schema *s);
/* Same columns (name, type, typmod) and same key, whatever the version number. */
bool schema_same(const struct schema *a, const struct schema *b);
/* The same columns, by name and type, encoded alike and in the same order. */
bool schema_same_key(const struct schema *a, const struct schema *b);
/* Index of the column called name, or -1. */
int schema_find(const struct schema *s, const char *name);
/* key_kinds in the type that key_encode takes; fills the first nkeys. */
void schema_key_kinds(const struct schema *s, enum key_kind out[KEY_COLUMNS_MAX]);

#endif
