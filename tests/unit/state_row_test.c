#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "state/row.h"
#include "tests/unit/state_property.h"

#define TEXT(s)                                                                                              \
	{                                                                                                        \
		CELL_TEXT, false,                                                                                    \
		{                                                                                                    \
			(const uint8_t *)(s), sizeof(s) - 1                                                              \
		}                                                                                                    \
	}
#define STALE(s)                                                                                             \
	{                                                                                                        \
		CELL_TEXT, true,                                                                                     \
		{                                                                                                    \
			(const uint8_t *)(s), sizeof(s) - 1                                                              \
		}                                                                                                    \
	}
#define NOTHING                                                                                              \
	{                                                                                                        \
		CELL_NULL, false,                                                                                    \
		{                                                                                                    \
			NULL, 0                                                                                          \
		}                                                                                                    \
	}
#define UNKNOWN                                                                                              \
	{                                                                                                        \
		CELL_ABSENT, true,                                                                                   \
		{                                                                                                    \
			NULL, 0                                                                                          \
		}                                                                                                    \
	}
#define CELLS_MAX 40

static const struct pos somewhere = {3, {UINT64_C(0x1122334455)}, 77};
static const struct slice no_key = {NULL, 0};

static struct slice slice_of_buf(const struct buf *b)
{
	return (struct slice){b->p, b->n};
}

static bool cell_same(const struct cell *a, const struct cell *b)
{
	return a->kind == b->kind && a->doubt == b->doubt && slice_eq(a->text, b->text);
}

static void a_row_has_the_documented_bytes(void **state)
{
	static const struct cell plain[] = {TEXT("ab"), NOTHING, TEXT("")};
	static const struct cell doubtful[] = {TEXT("k"), UNKNOWN, STALE("v")};
	struct buf b = {0};

	(void)state;
	row_encode(&b, somewhere, 300, XID(9), no_key, plain, 3);
	assert_int_equal(b.n, 24);
	assert_memory_equal(b.p,
						"\x00"
						"\0\3\0\0\0\x11\x22\x33\x44\x55\0\0\0\0\0\x4D"
						"\xAC\x02"
						"\4ab"
						"\0"
						"\2",
						24);
	buf_reset(&b);
	row_encode(&b, somewhere, 1, XID(9), slice_of("KEY"), doubtful, 3);
	assert_int_equal(b.n, 36);
	assert_memory_equal(b.p,
						"\x0E"
						"\0\3\0\0\0\x11\x22\x33\x44\x55\0\0\0\0\0\x4D"
						"\1"
						"\0\0\0\0\0\0\0\x09"
						"\x06"
						"\3KEY"
						"\3k"
						"\1"
						"\3v",
						36);
	buf_reset(&b);
	row_encode_marker(&b, somewhere, slice_of("KEY"));
	assert_int_equal(b.n, 21);
	assert_memory_equal(b.p,
						"\x05"
						"\0\3\0\0\0\x11\x22\x33\x44\x55\0\0\0\0\0\x4D"
						"\3KEY",
						21);
	buf_finish(&b);
}

static size_t random_cells(uint64_t *seed, struct cell *cells)
{
	static uint8_t bytes[70000];
	size_t n = random_below(seed, CELLS_MAX);
	bool may_doubt = random_below(seed, 2);

	for (size_t i = 0; i < n; i++) {
		cells[i] = (struct cell){.kind = (enum cell_kind)random_below(seed, may_doubt ? 3 : 2)};
		if (!may_doubt && cells[i].kind == CELL_ABSENT) cells[i].kind = CELL_TEXT;
		cells[i].doubt = cells[i].kind == CELL_ABSENT || (may_doubt && random_below(seed, 4) == 0);
		if (cells[i].kind == CELL_TEXT)
			cells[i].text = (struct slice){bytes + i, random_magnitude(seed) % (sizeof bytes - CELLS_MAX)};
	}
	return n;
}

/* The two ways to read an entry agree: on whether it is whole, and on the texts. */
static void check_index(struct slice entry, size_t n, bool good, const struct cell *cells)
{
	uint32_t at[CELLS_MAX + 1];
	struct row_head head;
	struct err err;

	assert_int_equal(row_begin(entry, &head, &err) && row_index(entry, n, &head, at, &err), good);
	if (!good || head.flags & ROW_DELETED) return;
	assert_int_equal(at[n], entry.n);
	for (size_t i = 0; i < n; i++) {
		struct slice text = row_column(entry, at[i]);

		assert_int_equal(text.p != NULL, cells[i].kind == CELL_TEXT);
		if (!text.p) continue;
		assert_ptr_equal(text.p, cells[i].text.p);
		assert_int_equal(text.n, cells[i].text.n);
		assert_ptr_equal(text.p + text.n, entry.p + at[i + 1]);
	}
}

static void rows_round_trip(void **state)
{
	struct cell cells[CELLS_MAX], got[CELLS_MAX];
	struct row_head head;
	struct buf b = {0};
	struct err err;
	uint64_t seed = 1;

	(void)state;
	for (int round = 0; round < 3000; round++) {
		size_t n = random_cells(&seed, cells), at = random_below(&seed, 9);
		struct slice key = random_below(&seed, 4) ? no_key : slice_of("a key too long for LMDB");
		uint32_t version = 1 + (uint32_t)random_magnitude(&seed) % UINT32_MAX;
		bool doubt = false, absent = false;
		struct slice entry;

		buf_reset(&b);
		buf_extend(&b, at);
		row_encode(&b, somewhere, version, XID(random_u64(&seed)), key, cells, n);
		entry = (struct slice){b.p + at, b.n - at};
		assert_true(entry.n <= row_encoded_max(key, cells, n));
		assert_int_equal(row_version(entry), version);
		assert_true(row_decode(entry, n, &head, got, &err));
		check_index(entry, n, true, got);
		for (size_t i = 0; i < n; i++) {
			assert_true(cell_same(&cells[i], &got[i]));
			doubt |= cells[i].doubt;
			absent |= cells[i].kind == CELL_ABSENT;
		}
		assert_int_equal(head.flags,
						 (doubt ? ROW_DOUBT : 0) | (absent ? ROW_HIDDEN : 0) | (key.n ? ROW_LONG_KEY : 0));
		assert_int_equal(head.version, version);
		assert_int_equal(pos_cmp(head.pos, somewhere), 0);
		assert_true(slice_eq(head.full_key, key));
		assert_true(doubt || head.born.v == 0);
		assert_int_equal(head.doubt.n, doubt ? (n + 7) / 8 : 0);
	}
	buf_finish(&b);
}

static void markers_round_trip(void **state)
{
	struct row_head head;
	struct buf b = {0};
	struct err err;

	(void)state;
	for (int with_key = 0; with_key < 2; with_key++) {
		struct slice key = with_key ? slice_of("full") : no_key;

		buf_reset(&b);
		row_encode_marker(&b, somewhere, key);
		assert_int_equal(row_version(slice_of_buf(&b)), 0);
		assert_true(row_decode(slice_of_buf(&b), 999, &head, NULL, &err));
		assert_int_equal(head.flags, ROW_DELETED | (with_key ? ROW_LONG_KEY : 0));
		assert_int_equal(pos_cmp(head.pos, somewhere), 0);
		assert_true(slice_eq(head.full_key, key));
		assert_int_equal(head.version, 0);
	}
	buf_finish(&b);
}

static void a_stamp_changes_the_position_alone(void **state)
{
	static const struct cell cells[] = {TEXT("1"), UNKNOWN};
	static const struct pos later = {9, {UINT64_MAX}, POS_ORDINAL_MAX};
	struct buf a = {0}, b = {0};
	struct pos pos;
	uint8_t flags;

	(void)state;
	row_encode(&a, POS_NONE, 5, XID(6), no_key, cells, 2);
	row_encode(&b, later, 5, XID(6), no_key, cells, 2);
	row_stamp(a.p, later);
	assert_true(slice_eq(slice_of_buf(&a), slice_of_buf(&b)));
	assert_true(row_peek(slice_of_buf(&a), &flags, &pos));
	assert_int_equal(flags, ROW_DOUBT | ROW_HIDDEN);
	assert_int_equal(pos_cmp(pos, later), 0);
	assert_false(row_peek((struct slice){a.p, POS_SIZE}, &flags, &pos));
	assert_false(row_peek((struct slice){NULL, 0}, &flags, &pos));
	buf_finish(&a);
	buf_finish(&b);
}

/* ---- damage ---- */

static bool accepts(const char *bytes, size_t n, size_t ncolumns)
{
	struct cell cells[CELLS_MAX];
	struct row_head head;
	struct buf b = {0};
	struct err err = {0};
	bool ok;

	buf_put_u8(&b, (uint8_t)bytes[0]);
	pos_encode(somewhere, buf_extend(&b, POS_SIZE));
	buf_put(&b, bytes + 1, n - 1);
	ok = row_decode(slice_of_buf(&b), ncolumns, &head, cells, &err);
	if (!ok) assert_int_equal(err.kind, ERR_CORRUPT);
	check_index(slice_of_buf(&b), ncolumns, ok, cells);
	buf_finish(&b);
	return ok;
}

#define ACCEPTS(bytes, ncolumns) accepts(bytes, sizeof(bytes) - 1, ncolumns)

static void entries_that_no_encoder_makes_are_refused(void **state)
{
	(void)state;
	assert_true(ACCEPTS("\0\1\3a\0", 2));
	assert_false(ACCEPTS("\0\1\3a\0", 1));                   /* more columns than the version has */
	assert_false(ACCEPTS("\0\1\3a\0", 3));                   /* fewer */
	assert_false(ACCEPTS("\0\0\3a\0", 2));                   /* version 0 */
	assert_false(ACCEPTS("\0\x80\x80\x80\x80\x10\3a\0", 2)); /* a version of 2^32 */
	assert_false(ACCEPTS("\0\1\3a\1", 2));                   /* absent without doubt */
	assert_false(ACCEPTS("\x10\1\3a\0", 2));                 /* unknown flag */
	assert_false(ACCEPTS("\0\1\4a", 1));                     /* text beyond the end */
	assert_false(ACCEPTS("\0\1\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\1", 1));
	assert_false(ACCEPTS("\4\1\0\3a\0", 2)); /* long key of no bytes */

	assert_true(ACCEPTS("\x02\1\0\0\0\0\0\0\0\1\1\3a\0", 2));
	assert_true(ACCEPTS("\x0A\1\0\0\0\0\0\0\0\1\2\3a\1", 2));
	assert_false(ACCEPTS("\x02\1\0\0\0\0\0\0\0\1\2\3a\1", 2)); /* absent, but not hidden */
	assert_false(ACCEPTS("\x0A\1\0\0\0\0\0\0\0\1\1\3a\1", 2)); /* absent, but another column is in doubt */
	assert_false(ACCEPTS("\x0A\1\0\0\0\0\0\0\0\1\2\3a\0", 2)); /* hidden, but nothing absent */
	assert_false(ACCEPTS("\x02\1\0\0\0\0\0\0\0\1\0\3a\0", 2)); /* in doubt, but no column is */
	assert_false(ACCEPTS("\x02\1\0\0\0\0\0\0\0\1\5\3a\0", 2)); /* a bit behind the last column */
	assert_false(ACCEPTS("\x08\1\3a\0", 2));                   /* hidden without doubt */

	assert_true(ACCEPTS("\1", 2));
	assert_false(ACCEPTS("\1\1\3a\0", 2)); /* a marker with columns */
	assert_false(ACCEPTS("\3", 2));        /* a marker in doubt */
}

static bool decode(struct slice bytes)
{
	struct cell cells[3];
	struct row_head head;
	struct err err;
	size_t sum = 0;
	bool good = row_decode(bytes, 3, &head, cells, &err);

	row_version(bytes);
	check_index(bytes, 3, good, cells);
	if (!good) return false;
	if (head.flags & ROW_DELETED) return true;
	for (size_t i = 0; i < 3; i++)
		for (size_t j = 0; j < cells[i].text.n; j++)
			sum += cells[i].text.p[j];
	return sum < SIZE_MAX;
}

static void damaged_entries_are_survived(void **state)
{
	static const struct cell samples[][3] = {
		{TEXT("1"), NOTHING, TEXT("some text")},
		{TEXT("2"), UNKNOWN, STALE("old")},
	};
	struct buf b = {0};
	uint64_t seed = 4;

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		buf_reset(&b);
		row_encode(&b, somewhere, 7, XID(8), i & 1 ? slice_of("longkey") : no_key, samples[i / 2], 3);
		assert_true(only_whole_is_accepted(decode, slice_of_buf(&b)));
		decode_flipped(decode, slice_of_buf(&b), &seed, 20000);
	}
	buf_reset(&b);
	row_encode_marker(&b, somewhere, slice_of("longkey"));
	assert_true(only_whole_is_accepted(decode, slice_of_buf(&b)));
	decode_flipped(decode, slice_of_buf(&b), &seed, 20000);
	buf_finish(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_row_has_the_documented_bytes),
		cmocka_unit_test(rows_round_trip),
		cmocka_unit_test(markers_round_trip),
		cmocka_unit_test(a_stamp_changes_the_position_alone),
		cmocka_unit_test(entries_that_no_encoder_makes_are_refused),
		cmocka_unit_test(damaged_entries_are_survived),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
