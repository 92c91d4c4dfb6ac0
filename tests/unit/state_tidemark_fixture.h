/* Stores with tables and rows, for the tests of state/tidemark.h. */
#ifndef TESTS_UNIT_STATE_TIDEMARK_FIXTURE_H
#define TESTS_UNIT_STATE_TIDEMARK_FIXTURE_H

#include "tests/unit/state_store_fixture.h"

#include <lmdb.h>

#include "state/tidemark.h"
#include "tests/unit/state_property.h"

/* ---- making stores ---- */

#define COLUMNS_MAX 8

struct shape {
	const char *columns[COLUMNS_MAX]; /* names */
	size_t ncolumns;
	enum key_kind kinds[4]; /* the key is the first columns */
	size_t nkeys;
};

static inline void put_schema(struct store_txn *t, uint32_t table, uint32_t version,
							  const struct shape *shape)
{
	struct column columns[COLUMNS_MAX];
	uint16_t key_columns[4];
	uint8_t kinds[4];
	struct schema s = {.table_id = table,
					   .version = version,
					   .ncolumns = (uint16_t)shape->ncolumns,
					   .nkeys = (uint16_t)shape->nkeys,
					   .columns = columns,
					   .key_columns = key_columns,
					   .key_kinds = kinds};
	struct err err;

	for (size_t i = 0; i < shape->ncolumns; i++)
		columns[i] = (struct column){.name = shape->columns[i],
									 .type_oid = 25,
									 .typmod = -1,
									 .type_name = "text",
									 .type_class = TYPE_OTHER};
	for (size_t i = 0; i < shape->nkeys; i++) {
		key_columns[i] = (uint16_t)i;
		kinds[i] = (uint8_t)shape->kinds[i];
	}
	CHECK(store_put_schema(t, &s, &err));
}

static inline void put_table(struct store_txn *t, uint32_t id, const char *name, uint8_t state,
							 uint32_t version, const struct shape *shape)
{
	struct table_record r = table_of(id, name);
	struct err err;

	r.state = state;
	r.schema_version = version;
	r.live = 7;
	r.high = (struct pos){2, LSN(0x500), 1};
	CHECK(store_put_table(t, &r, &err));
	put_schema(t, id, version, shape);
}

/* "?" is a text in doubt, "?-" an absent one, NULL a NULL. */
static inline struct cell cell_of(const char *text)
{
	if (!text) return (struct cell){.kind = CELL_NULL};
	if (strcmp(text, "?-") == 0) return (struct cell){.kind = CELL_ABSENT, .doubt = true};
	return (struct cell){.kind = CELL_TEXT, .doubt = text[0] == '?', .text = slice_of(text)};
}

static inline void put_entry(struct store_txn *t, uint32_t table, uint32_t version, const struct shape *shape,
							 const char *const *values, bool deleted)
{
	struct cell cells[COLUMNS_MAX];
	struct slice texts[4], full = {0};
	struct buf scratch = {0}, entry = {0};
	struct pos pos = {3, LSN(0x1234), 5};
	uint8_t key[KEY_MAX];
	struct err err;
	bool is_long;
	size_t n;

	for (size_t i = 0; i < shape->ncolumns; i++)
		cells[i] = cell_of(values[i]);
	for (size_t i = 0; i < shape->nkeys; i++)
		texts[i] = cells[i].text;
	CHECK(key_encode(shape->kinds, texts, shape->nkeys, key, &n, &scratch, &is_long, &err));
	if (is_long) full = (struct slice){scratch.p, scratch.n};
	if (deleted)
		row_encode_marker(&entry, pos, full);
	else
		row_encode(&entry, pos, version, XID(9), full, cells, shape->ncolumns);
	CHECK(store_row_put(t, table, (struct slice){key, n}, (struct slice){entry.p, entry.n}, &err));
	buf_finish(&scratch);
	buf_finish(&entry);
}

#define ROW(t, table, shape, ...) put_entry(t, table, 1, shape, (const char *const[]){__VA_ARGS__}, false)

static const struct shape orders = {{"id", "name", "note"}, 3, {KEY_INT4}, 1};
static const struct shape pairs = {{"city", "number", "v"}, 3, {KEY_TEXT, KEY_INT4}, 2};
static const struct shape words = {{"word", "v"}, 2, {KEY_TEXT}, 1};

static inline struct store *open_writer(struct place *p, struct store_txn **t)
{
	struct store *s;
	struct err err;

	CHECK(store_open(p->dir, STORE_WRITE, &s, &err));
	CHECK(store_begin_write(s, t, &err));
	return s;
}

static inline void close_writer(struct store *s, struct store_txn *t)
{
	struct err err;

	CHECK(store_commit(t, &err));
	store_close(s);
}

/* Opens, begins, finds. */
static inline tidemark *open_at(struct place *p, const char *name, tidemark_table **table)
{
	tidemark *tm;

	assert_int_equal(tidemark_open(p->dir, &tm), 0);
	assert_int_equal(tidemark_begin(tm), 0);
	if (name && tidemark_table_find(tm, "public", name, table) != 0) fail_msg("%s", tidemark_errmsg(tm));
	return tm;
}

#define KEY(...)                                                                                             \
	(const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)

static inline void check_value(const tidemark_row *row, size_t column, const char *expected)
{
	const char *value = tidemark_row_value(row, column);

	if (!expected) {
		assert_null(value);
		assert_int_equal(tidemark_row_length(row, column), 0);
		return;
	}
	assert_non_null(value);
	assert_string_equal(value, expected);
	assert_int_equal(tidemark_row_length(row, column), strlen(expected));
}

static inline void check_message(const tidemark *tm, const char *part)
{
	if (!strstr(tidemark_errmsg(tm), part)) fail_msg("\"%s\" lacks \"%s\"", tidemark_errmsg(tm), part);
}

#endif
