#include "state/schema.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/*
 * Encoded: table id 4, version 4, columns 2, keys 2; for each column: name, type
 * OID 4, typmod 4, type name, class 1; for each key column: its index 2, kind 1.
 * Integers are big-endian, strings are blobs (varint length, bytes).
 */

/* The base types we treat by name, from pg_type.dat. */
enum {
	OID_BOOL = 16,
	OID_INT8 = 20,
	OID_INT2 = 21,
	OID_INT4 = 23,
	OID_OID = 26,
	OID_JSON = 114,
	OID_FLOAT4 = 700,
	OID_FLOAT8 = 701,
	OID_NUMERIC = 1700,
	OID_JSONB = 3802
};

enum type_class type_class_of(uint32_t base_type_oid)
{
	switch (base_type_oid) {
	case OID_INT2:
	case OID_INT4:
	case OID_INT8:
	case OID_OID: return TYPE_INT;
	case OID_FLOAT4:
	case OID_FLOAT8: return TYPE_FLOAT;
	case OID_NUMERIC: return TYPE_NUMERIC;
	case OID_BOOL: return TYPE_BOOL;
	case OID_JSON:
	case OID_JSONB: return TYPE_JSON;
	default: return TYPE_OTHER;
	}
}

void schema_encode(const struct schema *s, struct buf *out)
{
	assert(s->version > 0 && s->nkeys > 0 && s->nkeys <= KEY_COLUMNS_MAX);
	buf_put_u32(out, s->table_id);
	buf_put_u32(out, s->version);
	buf_put_u16(out, s->ncolumns);
	buf_put_u16(out, s->nkeys);
	for (size_t i = 0; i < s->ncolumns; i++) {
		const struct column *c = &s->columns[i];

		buf_put_str(out, c->name);
		buf_put_u32(out, c->type_oid);
		buf_put_u32(out, (uint32_t)c->typmod);
		buf_put_str(out, c->type_name);
		buf_put_u8(out, c->type_class);
	}
	for (size_t i = 0; i < s->nkeys; i++) {
		assert(s->key_columns[i] < s->ncolumns);
		buf_put_u16(out, s->key_columns[i]);
		buf_put_u8(out, s->key_kinds[i]);
	}
}

/* One block: the struct, its arrays from the most to the least aligned, then `text` bytes of strings. */
static struct schema *schema_alloc(uint16_t ncolumns, uint16_t nkeys, size_t text, char **text_at)
{
	size_t columns = ncolumns * sizeof(struct column);
	size_t keys = nkeys * (sizeof(uint16_t) + sizeof(uint8_t));
	struct schema *s = mem_alloc(sizeof *s + columns + keys + text);

	*s = (struct schema){.ncolumns = ncolumns, .nkeys = nkeys};
	s->columns = (struct column *)(s + 1);
	s->key_columns = (uint16_t *)(s->columns + ncolumns);
	s->key_kinds = (uint8_t *)(s->key_columns + nkeys);
	*text_at = (char *)(s->key_kinds + nkeys);
	return s;
}

static void decode_columns(struct schema *s, struct cur *c, char **text)
{
	for (size_t i = 0; i < s->ncolumns && !c->bad; i++) {
		struct column *col = &s->columns[i];

		col->name = cur_str_copy(c, text);
		col->type_oid = cur_u32(c);
		col->typmod = (int32_t)cur_u32(c);
		col->type_name = cur_str_copy(c, text);
		col->type_class = cur_u8(c);
		if (col->type_class > TYPE_JSON) c->bad = true;
	}
}

static void decode_keys(struct schema *s, struct cur *c)
{
	for (size_t i = 0; i < s->nkeys && !c->bad; i++) {
		s->key_columns[i] = cur_u16(c);
		s->key_kinds[i] = cur_u8(c);
		if (s->key_columns[i] >= s->ncolumns || !key_kind_is_known(s->key_kinds[i])) c->bad = true;
		for (size_t j = 0; j < i; j++)
			if (s->key_columns[j] == s->key_columns[i]) c->bad = true;
	}
}

bool schema_decode(struct slice bytes, struct schema **out, struct err *err)
{
	struct cur c = cur_of(bytes);
	uint32_t table_id = cur_u32(&c), version = cur_u32(&c);
	uint16_t ncolumns = cur_u16(&c), nkeys = cur_u16(&c);
	struct schema *s;
	char *text;

	*out = NULL;
	if (c.bad || version == 0 || nkeys == 0 || nkeys > KEY_COLUMNS_MAX) goto damaged;
	s = schema_alloc(ncolumns, nkeys, bytes.n, &text);
	s->table_id = table_id;
	s->version = version;
	decode_columns(s, &c, &text);
	decode_keys(s, &c);
	if (cur_done(&c)) {
		*out = s;
		return true;
	}
	schema_free(s);
damaged:
	return err_set(err, ERR_CORRUPT, "a schema record of %zu bytes is damaged", bytes.n);
}

static const char *copy_string(const char *s, char **text)
{
	char *to = *text;
	size_t n = strlen(s) + 1;

	memcpy(to, s, n);
	*text += n;
	return to;
}

struct schema *schema_copy(const struct schema *s)
{
	size_t n = 0;
	struct schema *to;
	char *text;

	for (size_t i = 0; i < s->ncolumns; i++)
		n += strlen(s->columns[i].name) + strlen(s->columns[i].type_name) + 2;
	to = schema_alloc(s->ncolumns, s->nkeys, n, &text);
	to->table_id = s->table_id;
	to->version = s->version;
	for (size_t i = 0; i < s->ncolumns; i++) {
		to->columns[i] = s->columns[i];
		to->columns[i].name = copy_string(s->columns[i].name, &text);
		to->columns[i].type_name = copy_string(s->columns[i].type_name, &text);
	}
	for (size_t i = 0; i < s->nkeys; i++) {
		to->key_columns[i] = s->key_columns[i];
		to->key_kinds[i] = s->key_kinds[i];
	}
	return to;
}

void schema_free(struct schema *s)
{
	free(s);
}

static bool column_same(const struct column *a, const struct column *b)
{
	return strcmp(a->name, b->name) == 0 && a->type_oid == b->type_oid && a->typmod == b->typmod;
}

bool schema_same_key(const struct schema *a, const struct schema *b)
{
	if (a->nkeys != b->nkeys) return false;
	for (size_t k = 0; k < a->nkeys; k++) {
		const struct column *x = &a->columns[a->key_columns[k]], *y = &b->columns[b->key_columns[k]];

		if (a->key_kinds[k] != b->key_kinds[k] || x->type_oid != y->type_oid || strcmp(x->name, y->name) != 0)
			return false;
	}
	return true;
}

bool schema_same(const struct schema *a, const struct schema *b)
{
	if (a->ncolumns != b->ncolumns || a->nkeys != b->nkeys) return false;
	for (size_t i = 0; i < a->ncolumns; i++)
		if (!column_same(&a->columns[i], &b->columns[i])) return false;
	for (size_t i = 0; i < a->nkeys; i++)
		if (a->key_columns[i] != b->key_columns[i] || a->key_kinds[i] != b->key_kinds[i]) return false;
	return true;
}

int schema_find(const struct schema *s, const char *name)
{
	for (size_t i = 0; i < s->ncolumns; i++)
		if (strcmp(s->columns[i].name, name) == 0) return (int)i;
	return -1;
}

void schema_key_kinds(const struct schema *s, enum key_kind out[KEY_COLUMNS_MAX])
{
	assert(s->nkeys <= KEY_COLUMNS_MAX);
	for (size_t i = 0; i < s->nkeys; i++)
		out[i] = (enum key_kind)s->key_kinds[i];
}
