#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "state/err.h"
#include "tests/unit/state_property.h"

static struct slice slice_of_buf(const struct buf *b)
{
	return (struct slice){b->p, b->n};
}

/* ---- arena ---- */

static void arena_memory_is_aligned_and_apart(void **state)
{
	enum { N = 3000 };
	static uint8_t *at[N];
	static size_t size[N];
	struct arena a = {0};
	uint64_t seed = 1;

	(void)state;
	for (size_t i = 0; i < N; i++) {
		size[i] = random_below(&seed, i % 500 == 0 ? 2000000 : 300);
		at[i] = arena_alloc(&a, size[i]);
		assert_non_null(at[i]);
		assert_int_equal((uintptr_t)at[i] % 8, 0);
		memset(at[i], (int)(i & 0xFF), size[i]);
	}
	for (size_t i = 0; i < N; i++)
		for (size_t j = 0; j < size[i]; j++)
			assert_int_equal(at[i][j], i & 0xFF);
	assert_true(a.used <= a.reserved);
	arena_finish(&a);
	assert_int_equal(a.reserved, 0);
}

static void arena_reset_keeps_one_block(void **state)
{
	struct arena a;
	size_t kept;

	(void)state;
	arena_init(&a);
	arena_reset(&a);
	assert_int_equal(a.reserved, 0);
	for (int i = 0; i < 5000; i++)
		arena_alloc(&a, 1000);
	arena_alloc(&a, 3 << 20);
	assert_true(a.reserved > 8000000);
	arena_reset(&a);
	assert_int_equal(a.used, 0);
	assert_true(a.reserved > 0 && a.reserved <= 1 << 20);
	kept = a.reserved;
	arena_alloc(&a, 100000);
	assert_int_equal(a.reserved, kept);
	arena_finish(&a);
}

static void arena_reset_drops_a_lone_huge_block(void **state)
{
	struct arena a = {0};

	(void)state;
	memset(arena_alloc(&a, 2 << 20), 1, 2 << 20);
	arena_reset(&a);
	assert_int_equal(a.reserved, 0);
	arena_finish(&a);
	arena_finish(&a);
}

static void arena_copies_live_on_their_own(void **state)
{
	struct arena a = {0};
	char text[] = "abc";
	char *s = arena_strdup(&a, text);
	uint8_t *p = arena_copy(&a, text, 2);

	(void)state;
	memset(text, 'x', 3);
	assert_string_equal(s, "abc");
	assert_memory_equal(p, "ab", 2);
	assert_non_null(arena_copy(&a, NULL, 0));
	arena_finish(&a);
}

/* ---- buffer and cursor ---- */

static void what_is_put_is_got(void **state)
{
	struct buf b = {0};
	struct cur c;

	(void)state;
	buf_put_u8(&b, 0xAB);
	buf_put_u16(&b, 0x0102);
	buf_put_u32(&b, 0x03040506);
	buf_put_u64(&b, UINT64_C(0x0708090A0B0C0D0E));
	assert_memory_equal(b.p, "\xAB\1\2\3\4\5\6\7\10\11\12\13\14\15\16", 15);
	buf_put_varint(&b, 300);
	buf_put_str(&b, "hello");
	buf_put_blob(&b, NULL, 0);
	buf_put(&b, "end", 4);
	c = cur_of(slice_of_buf(&b));
	assert_int_equal(cur_u8(&c), 0xAB);
	assert_int_equal(cur_u16(&c), 0x0102);
	assert_int_equal(cur_u32(&c), 0x03040506);
	assert_int_equal(cur_u64(&c), UINT64_C(0x0708090A0B0C0D0E));
	assert_int_equal(cur_varint(&c), 300);
	assert_true(slice_eq(cur_blob(&c), slice_of("hello")));
	assert_int_equal(cur_blob(&c).n, 0);
	assert_false(cur_done(&c));
	assert_string_equal(cur_cstr(&c), "end");
	assert_true(cur_done(&c));
	buf_finish(&b);
	buf_finish(&b);
}

static void buffer_grows_and_keeps_its_bytes(void **state)
{
	struct buf b = {0};
	const uint8_t *memory;

	(void)state;
	assert_non_null(buf_extend(&b, 0));
	for (size_t i = 0; i < 100000; i++)
		buf_put_u8(&b, (uint8_t)i);
	memset(buf_extend(&b, 500000), 7, 500000);
	for (size_t i = 0; i < 100000; i++)
		assert_int_equal(b.p[i], (uint8_t)i);
	assert_int_equal(b.n, 600000);
	memory = b.p;
	buf_reset(&b);
	buf_put(&b, "x", 1);
	assert_ptr_equal(b.p, memory);
	buf_finish(&b);
}

static void varints_round_trip(void **state)
{
	uint64_t seed = 3;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		uint64_t v = i == 0 ? 0 : i == 1 ? UINT64_MAX : random_magnitude(&seed);
		uint8_t bytes[10];
		size_t n = varint_put(bytes, v);
		struct cur c = cur_of((struct slice){bytes, n});

		assert_int_equal(n, varint_size(v));
		assert_true(n >= 1 && n <= 10);
		assert_int_equal(cur_varint(&c), v);
		assert_true(cur_done(&c));
		c = cur_of((struct slice){bytes, n - 1});
		assert_int_equal(cur_varint(&c), 0);
		assert_true(c.bad);
	}
}

static bool is_varint(const char *bytes, size_t n)
{
	struct cur c = cur_of((struct slice){(const uint8_t *)bytes, n});

	cur_varint(&c);
	return cur_done(&c);
}

static void a_number_has_one_varint(void **state)
{
	(void)state;
	assert_true(is_varint("\x7F", 1));
	assert_true(is_varint("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01", 10));
	assert_false(is_varint("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x02", 10));
	assert_false(is_varint("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x81\x01", 11));
	assert_false(is_varint("\x80\x00", 2));
	assert_false(is_varint("\xFF\x80\x00", 3));
	assert_false(is_varint("\x80", 1));
}

static void a_failed_get_fails_all_later_ones(void **state)
{
	struct cur c = cur_of(slice_of("abc"));
	char memory[8], *at = memory;

	(void)state;
	assert_int_equal(cur_u32(&c), 0);
	assert_true(c.bad);
	assert_int_equal(cur_u8(&c), 0);
	assert_int_equal(cur_u16(&c), 0);
	assert_int_equal(cur_u64(&c), 0);
	assert_int_equal(cur_varint(&c), 0);
	assert_int_equal(cur_bytes(&c, 0).n, 0);
	assert_int_equal(cur_blob(&c).n, 0);
	assert_null(cur_cstr(&c));
	assert_string_equal(cur_str_copy(&c, &at), "");
	assert_int_equal(cur_blob_copy(&c, &at).n, 0);
	assert_ptr_equal(at, memory);
	assert_false(cur_done(&c));
}

static void lengths_beyond_the_end_are_refused(void **state)
{
	static const uint64_t lengths[] = {4, 100, UINT32_MAX, INT64_MAX, UINT64_MAX - 3, UINT64_MAX};
	struct buf b = {0};

	(void)state;
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		struct cur c;

		buf_reset(&b);
		buf_put_varint(&b, lengths[i]);
		buf_put(&b, "abc", 3);
		c = cur_of(slice_of_buf(&b));
		assert_int_equal(cur_blob(&c).n, 0);
		assert_true(c.bad);
		c = cur_of(slice_of("abc"));
		assert_int_equal(cur_bytes(&c, (size_t)lengths[i]).n, 0);
		assert_true(c.bad);
	}
	buf_finish(&b);
}

static void a_string_needs_its_nul(void **state)
{
	struct cur c = cur_of(slice_of("abc"));

	(void)state;
	assert_null(cur_cstr(&c));
	c = cur_of((struct slice){NULL, 0});
	assert_true(cur_done(&c));
	assert_null(cur_cstr(&c));
	assert_true(c.bad);
}

static void copied_strings_fit_in_as_much_as_the_input(void **state)
{
	struct buf b = {0};
	char *memory, *at;
	struct cur c;

	(void)state;
	buf_put_str(&b, "ab");
	buf_put_blob(&b, "c\0d", 3);
	buf_put_str(&b, "");
	buf_put_blob(&b, "e\0f", 3);
	at = memory = malloc(b.n);
	c = cur_of(slice_of_buf(&b));
	assert_string_equal(cur_str_copy(&c, &at), "ab");
	assert_int_equal(cur_blob_copy(&c, &at).n, 3);
	assert_string_equal(cur_str_copy(&c, &at), "");
	assert_false(c.bad);
	assert_string_equal(cur_str_copy(&c, &at), ""); /* a NUL inside */
	assert_true(c.bad);
	free(memory);
	buf_finish(&b);
}

static void slices_compare_by_content(void **state)
{
	(void)state;
	assert_true(slice_eq(slice_of("ab"), (struct slice){(const uint8_t *)"abc", 2}));
	assert_false(slice_eq(slice_of("ab"), slice_of("ac")));
	assert_false(slice_eq(slice_of("ab"), slice_of("abc")));
	assert_true(slice_eq((struct slice){NULL, 0}, slice_of("")));
}

/* ---- errors ---- */

static void errors_gain_context_on_the_way_up(void **state)
{
	struct err err = {0};

	(void)state;
	assert_false(err_set(&err, ERR_PROTOCOL, "short column %d", 3));
	assert_false(err_wrap(&err, "relation %s", "public.t"));
	assert_int_equal(err.kind, ERR_PROTOCOL);
	assert_string_equal(err.msg, "relation public.t: short column 3");
	err_set(&err, ERR_RETRY, "again: %s\n", err.msg);
	assert_int_equal(err.kind, ERR_RETRY);
	assert_string_equal(err.msg, "again: relation public.t: short column 3");
}

static void long_errors_are_cut_between_characters(void **state)
{
	char text[3001];
	struct err err;

	(void)state;
	for (size_t shift = 0; shift < 3; shift++) {
		size_t n;

		memset(text, 'x', shift);
		for (n = shift; n + 3 < sizeof text; n += 3)
			memcpy(text + n, "\xE2\x82\xAC", 3);
		text[n] = '\0';
		err_set(&err, ERR_CONFIG, "%s", text);
		n = strlen(err.msg);
		assert_true(n > 1000 && n < sizeof err.msg);
		assert_string_equal(err.msg + n - 3, "...");
		assert_int_equal((n - 3 - shift) % 3, 0);
		err_wrap(&err, "%s", "context");
		assert_memory_equal(err.msg, "context: ", 9);
		assert_string_equal(err.msg + strlen(err.msg) - 3, "...");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(arena_memory_is_aligned_and_apart),
		cmocka_unit_test(arena_reset_keeps_one_block),
		cmocka_unit_test(arena_reset_drops_a_lone_huge_block),
		cmocka_unit_test(arena_copies_live_on_their_own),
		cmocka_unit_test(what_is_put_is_got),
		cmocka_unit_test(buffer_grows_and_keeps_its_bytes),
		cmocka_unit_test(varints_round_trip),
		cmocka_unit_test(a_number_has_one_varint),
		cmocka_unit_test(a_failed_get_fails_all_later_ones),
		cmocka_unit_test(lengths_beyond_the_end_are_refused),
		cmocka_unit_test(a_string_needs_its_nul),
		cmocka_unit_test(copied_strings_fit_in_as_much_as_the_input),
		cmocka_unit_test(slices_compare_by_content),
		cmocka_unit_test(errors_gain_context_on_the_way_up),
		cmocka_unit_test(long_errors_are_cut_between_characters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
