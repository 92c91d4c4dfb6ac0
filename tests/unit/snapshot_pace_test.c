#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "snapshot/copier.h"
#include "snapshot/pace.h"

#define MS 1000

static struct pace start(uint32_t rows_max)
{
	struct pace p;

	pace_init(&p, rows_max, 100 * MS, 1000000);
	return p;
}

static void it_starts_small(void **state)
{
	struct pace p = start(10000);

	(void)state;
	assert_int_equal(p.rows, PACE_ROWS_FIRST);
	p = start(50);
	assert_int_equal(p.rows, 50);
	p = start(0);
	assert_int_equal(p.rows, 1);
}

static void it_doubles_at_most(void **state)
{
	struct pace p = start(700);

	(void)state;
	pace_measured(&p, 200, 2000, 1 * MS);
	assert_int_equal(p.rows, 400);
	pace_measured(&p, 400, 4000, 0); /* too fast to measure */
	assert_int_equal(p.rows, 700);
}

static void it_aims_at_a_time(void **state)
{
	struct pace p = start(10000);

	(void)state;
	pace_measured(&p, 200, 2000, 80 * MS);
	assert_int_equal(p.rows, 250);
	pace_measured(&p, 250, 2500, 1000 * MS);
	assert_int_equal(p.rows, 25);
}

static void it_aims_at_bytes(void **state)
{
	struct pace p = start(10000);

	(void)state;
	pace_measured(&p, 200, 4000000, 1 * MS);
	assert_int_equal(p.rows, 50);
	pace_measured(&p, 50, 2000000000, 1 * MS);
	assert_int_equal(p.rows, 1);
	pace_measured(&p, 1, 500, 1 * MS);
	assert_int_equal(p.rows, 2);
}

/* The end of a table: its fixed cost looks like slow rows. */
static void few_rows_say_nothing_of_many(void **state)
{
	struct pace p = start(10000);

	(void)state;
	pace_measured(&p, 3, 30, 2 * MS);
	assert_int_equal(p.rows, 200);
	pace_measured(&p, 0, 0, 2000 * MS);
	assert_int_equal(p.rows, 200);
	pace_measured(&p, 3, 30, 300 * MS); /* but these were slow */
	assert_int_equal(p.rows, 1);
}

/* Chunks of a table where each costs fixed_us, and each row row_us. */
static uint32_t settle(int64_t fixed_us, int64_t row_us)
{
	struct pace p = start(20000);

	for (int i = 0; i < 50; i++)
		pace_measured(&p, p.rows, 100, fixed_us + row_us * p.rows);
	return p.rows;
}

/* A table of a thousand partitions: no chunk is as short as it should be, and small ones are the worst. */
static void a_fixed_cost_is_not_paid_for_a_row(void **state)
{
	(void)state;
	assert_true(settle(200 * MS, 10) >= 18000);
	assert_true(settle(90 * MS, 10) >= 900);
	assert_true(settle(0, 10) == 10000);
	/* slow rows: at most twice the time */
	assert_true(settle(1 * MS, 5 * MS) <= 40);
	assert_true(settle(0, 500 * MS) <= 2);
}

static void a_timeout_halves(void **state)
{
	struct pace p = start(10000);

	(void)state;
	pace_timed_out(&p);
	assert_int_equal(p.rows, 100);
	for (int i = 0; i < 10; i++)
		pace_timed_out(&p);
	assert_int_equal(p.rows, 1);
}

static void waits_double(void **state)
{
	struct backoff b = {.first_us = 100, .max_us = 500};

	(void)state;
	assert_int_equal(backoff_next(&b), 100);
	assert_int_equal(backoff_next(&b), 200);
	assert_int_equal(backoff_next(&b), 400);
	assert_int_equal(backoff_next(&b), 500);
	assert_int_equal(backoff_next(&b), 500);
	backoff_reset(&b);
	assert_int_equal(backoff_next(&b), 100);
}

static void a_run_waits_as_the_rest_is_busy(void **state)
{
	struct copier_load idle = {0}, busy = {.changes_rate = 27.5}, full = {.changes_rate = 200},
					   many = {.changes_rate = 600}, lag = {.lag_us = 1125000}, late = {.lag_us = 100000000},
					   queue = {.queue_fill = 1},
					   some = {.queue_fill = 0.8, .lag_us = 200000, .changes_rate = 4};
	struct pace p = start(10000);

	(void)state;
	assert_int_equal(pace_pause(&p, &idle, 1, 100000), 0);
	assert_int_equal(pace_pause(&p, &some, 1, 100000), 0);
	assert_false(pace_rests(&some));
	assert_true(pace_rests(&busy));
	assert_true(pace_rests(&late));
	assert_int_equal(pace_pause(&p, &busy, 1, 100000), 200000);
	assert_int_equal(pace_pause(&p, &full, 1, 100000), 400000);
	assert_int_equal(pace_pause(&p, &many, 1, 100000), 200000);
	assert_int_equal(pace_pause(&p, &lag, 1, 100000), 450000);
	assert_int_equal(pace_pause(&p, &queue, 1, 100000), 900000);
	assert_int_equal(pace_pause(&p, &late, 1, 100000), 900000);
	assert_int_equal(pace_pause(&p, &late, 1, 10000000), 1000000);
	assert_int_equal(pace_pause(&p, &late, 1, -5), 0);
	p.row_us = 10; /* where the work is known, that is what it rests for */
	assert_int_equal(pace_pause(&p, &full, 1000, 100000), 40000);
	assert_int_equal(pace_pause(&p, &full, 1000, 5000), 20000);
	assert_int_equal(pace_pause(&p, &late, 1000, 100000), 900000);
}

static void chunks_are_small_while_the_source_is_busy(void **state)
{
	struct copier_load idle = {.way_us = 500}, busy = {.changes_rate = 27.5, .way_us = 500},
					   full = {.changes_rate = 200, .way_us = 500},
					   many = {.changes_rate = 3000, .way_us = 500},
					   far = {.changes_rate = 200, .way_us = 30000},
					   farther = {.changes_rate = 200, .way_us = 300000};

	(void)state;
	assert_int_equal(pace_work(&idle, 100 * MS), 100 * MS);
	assert_int_equal(pace_work(&busy, 100 * MS), 50500);
	assert_int_equal(pace_work(&full, 100 * MS), 1 * MS);
	assert_int_equal(pace_work(&many, 100 * MS), 10 * MS);
	assert_int_equal(pace_work(&far, 100 * MS), 30 * MS);
	assert_int_equal(pace_work(&farther, 100 * MS), 100 * MS);
	assert_int_equal(pace_work(&full, 1 * MS), 500); /* of a time that someone chose too */
}

/* Of 2 us a row; of ten chunks nine take three times as long, since others use the server too. */
static void a_row_is_no_more_work_where_others_work_too(void **state)
{
	struct pace p = start(10000);

	(void)state;
	p.work_us = 1 * MS;
	for (uint32_t i = 0; i < 500; i++) {
		pace_measured(&p, p.rows, p.rows * 10, p.rows * (i % 10 == 0 ? 2 : 6));
		if (i > 100) assert_in_range(p.rows, 350, 500);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(chunks_are_small_while_the_source_is_busy),
		cmocka_unit_test(a_row_is_no_more_work_where_others_work_too),
		cmocka_unit_test(it_starts_small),
		cmocka_unit_test(it_doubles_at_most),
		cmocka_unit_test(it_aims_at_a_time),
		cmocka_unit_test(it_aims_at_bytes),
		cmocka_unit_test(few_rows_say_nothing_of_many),
		cmocka_unit_test(a_fixed_cost_is_not_paid_for_a_row),
		cmocka_unit_test(a_timeout_halves),
		cmocka_unit_test(waits_double),
		cmocka_unit_test(a_run_waits_as_the_rest_is_busy),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
