#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "reader/loop.h"

static void never(void *ctx)
{
	(void)ctx;
	fail();
}

static void init(struct loop *l)
{
	struct err err = {0};

	if (!loop_init(l, &err)) fail_msg("%s", err.msg);
}

static void handles_are_closed_at_the_end(void **state)
{
	struct loop l;
	struct loop_timer *t;

	(void)state;
	init(&l);
	t = loop_timer_create(&l, never, NULL);
	loop_timer_set(t, INT64_C(3600000000));
	loop_timer_free(t);
	loop_finish(&l);
}

/* As when a session fails before the loop has taken a turn in it. */
static void a_stop_while_nothing_runs_does_not_spoil_the_end(void **state)
{
	struct loop l;
	struct loop_timer *t;

	(void)state;
	init(&l);
	t = loop_timer_create(&l, never, NULL);
	uv_stop(&l.uv);
	loop_timer_free(t);
	loop_finish(&l);
}

static void a_wait_ends_at_its_deadline(void **state)
{
	struct loop l;
	struct err err = {0};
	bool done = false;

	(void)state;
	init(&l);
	uv_stop(&l.uv);
	assert_false(loop_wait(&l, &done, 5, &err));
	assert_int_equal(err.kind, ERR_RETRY);
	done = true;
	assert_true(loop_wait(&l, &done, 5, &err));
	loop_finish(&l);
}

#define TEST(name) cmocka_unit_test(name)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(handles_are_closed_at_the_end),
		TEST(a_stop_while_nothing_runs_does_not_spoil_the_end),
		TEST(a_wait_ends_at_its_deadline),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
