#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "state/schema.h"
#include "tests/unit/state_property.h"

static struct column columns[] = {
	{"id", 20, -1, "bigint", TYPE_INT},
	{"na\"me \xC3\xA4", 1043, 24, "character varying", TYPE_OTHER},
	{"price", 1700, 655366, "numeric", TYPE_NUMERIC},
	{"day", 1082, -1, "date", TYPE_OTHER},
};
static uint16_t key_columns[] = {3, 0};
static uint8_t key_kinds[] = {KEY_DATE, KEY_INT8};

static struct schema sample(void)
{
	return (struct schema){
		.table_id = 5,
		.version = 2,
		.ncolumns = 4,
		.nkeys = 2,
		.columns = columns,
		.key_columns = key_columns,
		.key_kinds = key_kinds,
	};
}

static struct slice slice_of_buf(const struct buf *b)
{
	return (struct slice){b->p, b->n};
}

static void assert_equal(const struct schema *a, const struct schema *b)
{
	assert_int_equal(a->table_id, b->table_id);
	assert_int_equal(a->version, b->version);
	assert_true(schema_same(a, b));
	for (size_t i = 0; i < a->ncolumns; i++) {
		assert_string_equal(a->columns[i].type_name, b->columns[i].type_name);
		assert_int_equal(a->columns[i].type_class, b->columns[i].type_class);
	}
}

static void schemas_round_trip(void **state)
{
	struct schema s = sample(), *got;
	struct buf b = {0}, again = {0};
	struct err err;

	(void)state;
	schema_encode(&s, &b);
	assert_true(schema_decode(slice_of_buf(&b), &got, &err));
	assert_equal(&s, got);
	schema_encode(got, &again);
	assert_true(slice_eq(slice_of_buf(&b), slice_of_buf(&again)));
	schema_free(got);
	buf_finish(&b);
	buf_finish(&again);
}

static void copies_share_nothing(void **state)
{
	struct schema s = sample(), *once = schema_copy(&s), *twice = schema_copy(once);

	(void)state;
	schema_free(once);
	assert_equal(&s, twice);
	assert_ptr_not_equal(twice->columns[0].name, columns[0].name);
	schema_free(twice);
	schema_free(NULL);
}

static void same_means_columns_and_key(void **state)
{
	struct schema a = sample(), *b = schema_copy(&a);

	(void)state;
	b->version = 9;
	assert_true(schema_same(&a, b));
	b->columns[1].typmod++;
	assert_false(schema_same(&a, b));
	b->columns[1].typmod--;
	b->columns[1].type_oid = 25;
	assert_false(schema_same(&a, b));
	b->columns[1].type_oid = 1043;
	b->columns[2].name = "cost";
	assert_false(schema_same(&a, b));
	b->columns[2].name = "price";
	b->key_columns[0] = 1;
	assert_false(schema_same(&a, b));
	b->key_columns[0] = 3;
	assert_true(schema_same(&a, b));
	b->nkeys = 1;
	assert_false(schema_same(&a, b));
	b->nkeys = 2;
	b->ncolumns = 3;
	assert_false(schema_same(&a, b));
	schema_free(b);
}

static void columns_are_found_by_name(void **state)
{
	struct schema s = sample();

	(void)state;
	assert_int_equal(schema_find(&s, "id"), 0);
	assert_int_equal(schema_find(&s, "day"), 3);
	assert_int_equal(schema_find(&s, "Day"), -1);
	assert_int_equal(schema_find(&s, ""), -1);
}

static void key_kinds_widen(void **state)
{
	struct schema s = sample();
	enum key_kind kinds[KEY_COLUMNS_MAX] = {0};

	(void)state;
	schema_key_kinds(&s, kinds);
	assert_int_equal(kinds[0], KEY_DATE);
	assert_int_equal(kinds[1], KEY_INT8);
	assert_int_equal(kinds[2], 0);
}

static void types_have_their_class(void **state)
{
	(void)state;
	assert_int_equal(type_class_of(21), TYPE_INT);
	assert_int_equal(type_class_of(23), TYPE_INT);
	assert_int_equal(type_class_of(20), TYPE_INT);
	assert_int_equal(type_class_of(26), TYPE_INT);
	assert_int_equal(type_class_of(700), TYPE_FLOAT);
	assert_int_equal(type_class_of(701), TYPE_FLOAT);
	assert_int_equal(type_class_of(1700), TYPE_NUMERIC);
	assert_int_equal(type_class_of(16), TYPE_BOOL);
	assert_int_equal(type_class_of(114), TYPE_JSON);
	assert_int_equal(type_class_of(3802), TYPE_JSON);
	assert_int_equal(type_class_of(25), TYPE_OTHER);
}

/* ---- damage ---- */

static bool decode(struct slice bytes)
{
	struct schema *s;
	struct err err = {0};
	struct buf b = {0};
	bool ok = schema_decode(bytes, &s, &err);

	if (!ok) {
		assert_null(s);
		assert_int_equal(err.kind, ERR_CORRUPT);
		return false;
	}
	schema_encode(s, &b); /* touches everything */
	assert_true(slice_eq(slice_of_buf(&b), bytes));
	buf_finish(&b);
	schema_free(s);
	return true;
}

static void damaged_schemas_are_survived(void **state)
{
	struct schema s = sample();
	struct buf b = {0};
	uint64_t seed = 5;

	(void)state;
	schema_encode(&s, &b);
	assert_true(only_whole_is_accepted(decode, slice_of_buf(&b)));
	decode_flipped(decode, slice_of_buf(&b), &seed, 50000);
	buf_finish(&b);
}

static bool refused_when(size_t from_end, uint8_t byte)
{
	struct schema s = sample();
	struct buf b = {0};
	bool ok;

	schema_encode(&s, &b);
	b.p[b.n - from_end] = byte;
	ok = decode(slice_of_buf(&b));
	buf_finish(&b);
	return !ok;
}

/* The encoding ends: class 1, index 2, kind 1, index 2, kind 1. */
static void keys_must_make_sense(void **state)
{
	(void)state;
	assert_true(refused_when(1, 0));                 /* no such kind */
	assert_true(refused_when(1, KEY_KIND_LAST + 1)); /* no such kind */
	assert_true(refused_when(2, 4));                 /* no such column */
	assert_true(refused_when(2, 3));                 /* a column twice */
	assert_true(refused_when(7, TYPE_JSON + 1));
	assert_false(refused_when(2, 1));
}

static bool refused_header(uint32_t version, uint16_t ncolumns, uint16_t nkeys)
{
	struct buf b = {0};
	bool ok;

	buf_put_u32(&b, 1);
	buf_put_u32(&b, version);
	buf_put_u16(&b, ncolumns);
	buf_put_u16(&b, nkeys);
	ok = decode(slice_of_buf(&b));
	buf_finish(&b);
	return !ok;
}

static void headers_must_make_sense(void **state)
{
	(void)state;
	assert_true(refused_header(1, 0, 0));
	assert_true(refused_header(1, 0, 1));
	assert_true(refused_header(1, 65535, 65535));
	assert_true(refused_header(1, 65535, 32));
	assert_true(refused_header(0, 0, 0));
}

/* A schema of n columns that are all key columns. */
static bool accepts_keys(uint16_t n)
{
	struct buf b = {0};
	bool ok;

	buf_put_u32(&b, 1);
	buf_put_u32(&b, 1);
	buf_put_u16(&b, n);
	buf_put_u16(&b, n);
	for (uint16_t i = 0; i < n; i++) {
		buf_put_str(&b, "c");
		buf_put_u32(&b, 23);
		buf_put_u32(&b, 0);
		buf_put_str(&b, "integer");
		buf_put_u8(&b, TYPE_INT);
	}
	for (uint16_t i = 0; i < n; i++) {
		buf_put_u16(&b, i);
		buf_put_u8(&b, KEY_INT4);
	}
	ok = decode(slice_of_buf(&b));
	buf_finish(&b);
	return ok;
}

static void keys_have_at_most_32_columns(void **state)
{
	(void)state;
	assert_true(accepts_keys(KEY_COLUMNS_MAX));
	assert_false(accepts_keys(KEY_COLUMNS_MAX + 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(schemas_round_trip),
		cmocka_unit_test(copies_share_nothing),
		cmocka_unit_test(same_means_columns_and_key),
		cmocka_unit_test(columns_are_found_by_name),
		cmocka_unit_test(key_kinds_widen),
		cmocka_unit_test(types_have_their_class),
		cmocka_unit_test(damaged_schemas_are_survived),
		cmocka_unit_test(keys_must_make_sense),
		cmocka_unit_test(headers_must_make_sense),
		cmocka_unit_test(keys_have_at_most_32_columns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
