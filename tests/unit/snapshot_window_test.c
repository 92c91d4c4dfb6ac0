/* The rows of one window: found by key, in whatever order they came. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "snapshot/window.h"

static struct window *open_window(void)
{
	struct window *w = window_create(CHUNK_PAGE, 1, 1);
	struct err err;

	assert_true(window_open(w, "10:10:", false, LSN(100), 1, &err));
	return w;
}

static bool add(struct window *w, const char *key)
{
	struct buf row = {(uint8_t[]){1}, 1, 1};

	return window_add_row(w, slice_of(key), (struct slice){0}, &row);
}

static void add_all(struct window *w, const char *keys)
{
	for (; *keys != '\0'; keys++)
		assert_true(add(w, (char[]){*keys, '\0'}));
}

/* Rows of the closed window as their keys; those superseded as a dot. */
static void assert_rows(struct window *w, const char *expected)
{
	char seen[64] = "";
	struct batch *b = window_close(w, POS_NONE);

	for (size_t i = 1; i < b->n; i++)
		seen[i - 1] = b->ops[i].flags & OP_F_SUPERSEDED ? '.' : (char)b->ops[i].key.p[0];
	assert_string_equal(seen, expected);
	batch_destroy(b);
	window_destroy(w);
}

static void supersede_all(struct window *w, const char *keys)
{
	for (; *keys != '\0'; keys++)
		window_supersede(w, slice_of((char[]){*keys, '\0'}));
}

static void rows_in_order_are_superseded(void **state)
{
	struct window *w = open_window();

	(void)state;
	supersede_all(w, "a");
	add_all(w, "bdfhj");
	supersede_all(w, "abcghjk");
	assert_rows(w, ".df..");
}

static void rows_out_of_order_are_superseded(void **state)
{
	struct window *w = open_window();

	(void)state;
	add_all(w, "bfdaz");
	supersede_all(w, "badxe");
	assert_rows(w, ".f..z");
}

/* What was superseded while the rows were in order stays so. */
static void rows_that_leave_the_order_are_superseded(void **state)
{
	struct window *w = open_window();

	(void)state;
	add_all(w, "bdf");
	supersede_all(w, "d");
	add_all(w, "caz");
	supersede_all(w, "fa");
	assert_rows(w, "b..c.z");
}

static void one_key_is_taken_once(void **state)
{
	struct window *w = open_window();

	(void)state;
	add_all(w, "bdf");
	assert_false(add(w, "f"));
	assert_false(add(w, "b"));
	add_all(w, "c");
	assert_false(add(w, "c"));
	assert_false(add(w, "d"));
	assert_true(window_has_row(w, slice_of("d")));
	assert_false(window_has_row(w, slice_of("e")));
	assert_rows(w, "bdfc");
}

static void a_shorter_key_comes_before_one_that_it_begins(void **state)
{
	struct window *w = open_window();

	(void)state;
	assert_true(add(w, "a"));
	assert_true(add(w, "ab"));
	assert_true(add(w, "b"));
	window_supersede(w, slice_of("ab"));
	window_supersede(w, slice_of("abc"));
	assert_rows(w, "a.b");
}

static void a_truncate_supersedes_all(void **state)
{
	struct window *w = open_window();

	(void)state;
	add_all(w, "bdca");
	window_truncate(w);
	add_all(w, "e");
	assert_rows(w, "....e");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_in_order_are_superseded),
		cmocka_unit_test(rows_out_of_order_are_superseded),
		cmocka_unit_test(rows_that_leave_the_order_are_superseded),
		cmocka_unit_test(one_key_is_taken_once),
		cmocka_unit_test(a_shorter_key_comes_before_one_that_it_begins),
		cmocka_unit_test(a_truncate_supersedes_all),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
