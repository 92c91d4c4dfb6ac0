/* Pages that are asked for before the rows of the page before have been handed over. */
#include "tests/unit/snapshot_copier_fixture.h"

static uint32_t limit_of(const struct chunk_request *r)
{
	return (uint32_t)atoi(r->params[r->nparams - 1]);
}

static bool is_whole(struct fixture *f, uint32_t last, size_t nrows, size_t bytes)
{
	struct slice texts[2] = {{0}, slice_of("x")};
	char id[16];
	bool ahead;

	snprintf(id, sizeof id, "%u", last);
	texts[0] = slice_of(id);
	assert_true(copier_chunk_is_whole(f->c, f->r->id, texts, 2, nrows, bytes, &ahead, &f->err));
	return ahead;
}

/* Asks for a page that begins with `first`, whose rows have all come. */
static void whole_page(struct fixture *f, const char *snap, uint64_t high, uint32_t first)
{
	uint32_t n;

	ask(f, CHUNK_PAGE);
	snapshot(f, snap, high);
	n = limit_of(f->r);
	assert_true(is_whole(f, first + n - 1, n, 1000));
}

/* And the next one, asked for before its rows are handed over. */
static void two_pages(struct fixture *f, const struct chunk_request **first,
					  const struct chunk_request **second)
{
	copying(f, 1);
	whole_page(f, "10:10:", 500, 1);
	*first = f->r;
	ask(f, CHUNK_PAGE);
	*second = f->r;
}

/* Its rows and its end. */
static void hand_over(struct fixture *f, const struct chunk_request *r, uint32_t first)
{
	uint32_t n = limit_of(r);

	f->r = r;
	rows(f, first, n);
	end(f);
}

static void the_next_page_is_asked_for_behind_the_last_row(void **state)
{
	struct fixture *f = *state;
	const struct chunk_request *first, *second;

	two_pages(f, &first, &second);
	assert_string_equal(second->params[0], "200");
	ask_nothing(f); /* one connection, one question */
	hand_over(f, first, 1);
	ask_nothing(f);
	f->r = second;
	snapshot(f, "10:10:", 510);
	rows(f, 201, 5);
	end(f);
	position(f, 520);
	assert_int_equal(take_chunk(f, 500, 200)->ops[0].u.run.chunk->cursor.n, 4);
	take_chunk(f, 510, 5);
	ask_nothing(f);
}

static void pages_close_in_order_also_when_they_end_in_another(void **state)
{
	struct fixture *f = *state;
	const struct chunk_request *first;

	copying(f, 1);
	whole_page(f, "10:10:", 500, 1);
	first = f->r;
	full_page(f, "10:10:", 510, 201); /* on another connection */
	position(f, 600);
	nothing_emitted(f);
	hand_over(f, first, 1);
	take_chunk(f, 500, 200);
	take_chunk(f, 510, 200);
}

static void a_page_is_asked_for_alone_where_the_run_may_have_to_rest(void **state)
{
	struct fixture *f = *state;

	copying(f, 1);
	ask(f, CHUNK_PAGE);
	snapshot(f, "10:10:", 500);
	assert_false(is_whole(f, 199, 199, 1000));    /* the last one */
	assert_false(is_whole(f, 200, 200, 3 << 20)); /* it may have to be cut */
	copier_set_load(f->c, (struct copier_load){.changes_rate = 100});
	assert_false(is_whole(f, 200, 200, 1000));
	copier_set_load(f->c, (struct copier_load){.lag_us = 10 * SEC});
	assert_false(is_whole(f, 200, 200, 1000));
	assert_null(copier_next(f->c, f->now));
	copier_set_load(f->c, (struct copier_load){0});
	assert_true(is_whole(f, 200, 200, 1000));
	ask(f, CHUNK_PAGE);
}

static void a_page_that_does_not_count_is_not_gone_behind(void **state)
{
	struct fixture *f = *state;

	set_table(f, 1, 1, key_is_id, NULL);
	start_run(f, 1, false, "20:20:");
	ask(f, CHUNK_PAGE);
	snapshot(f, "10:10:", 500); /* it does not see what the gate does */
	assert_false(is_whole(f, 200, 200, 1000));
	copier_remove_table(f->c, 1);
	assert_false(is_whole(f, 200, 200, 1000));
}

/* Its end did not come, so its rows do not count: neither do those behind them. */
static void a_page_that_fails_takes_those_behind_it_along(void **state)
{
	struct fixture *f = *state;
	const struct chunk_request *first, *second;

	two_pages(f, &first, &second);
	f->r = first;
	rows(f, 1, 200);
	failed(f, CHUNK_LOST);
	f->r = second;
	snapshot(f, "10:10:", 510);
	rows(f, 201, 200);
	end(f);
	position(f, 600);
	nothing_emitted(f);
	f->now += 10 * SEC;
	ask(f, CHUNK_PAGE);
	assert_int_equal(f->r->nparams, 1); /* from the start */
}

static void a_page_asked_ahead_may_fail_alone(void **state)
{
	struct fixture *f = *state;
	const struct chunk_request *first;

	copying(f, 1);
	whole_page(f, "10:10:", 500, 1);
	first = f->r;
	ask(f, CHUNK_PAGE);
	failed(f, CHUNK_TIMEOUT);
	hand_over(f, first, 1);
	position(f, 600);
	take_chunk(f, 500, 200);
	f->now += 10 * SEC;
	ask(f, CHUNK_PAGE);
	assert_string_equal(f->r->params[0], "200");
}

static void it_is_told_once_and_truly(void **state)
{
	struct fixture *f = *state;
	struct slice texts[2] = {slice_of("200"), slice_of("x")};
	bool ahead;

	copying(f, 1);
	whole_page(f, "10:10:", 500, 1);
	assert_false(copier_chunk_is_whole(f->c, f->r->id, texts, 2, 200, 1000, &ahead, &f->err));
	assert_int_equal(f->err.kind, ERR_PROTOCOL); /* a server's doing */
	rows(f, 1, 199);
	assert_false(copier_chunk_end(f->c, f->r->id, 1000, f->now, &f->err));
	assert_int_equal(f->err.kind, ERR_PROTOCOL);
}

static void a_page_that_stands_still_is_noticed(void **state)
{
	struct fixture *f = *state;
	struct slice texts[2] = {slice_of("200"), slice_of("x")};
	bool ahead;

	copying(f, 1);
	full_page(f, "10:10:", 500, 1);
	ask(f, CHUNK_PAGE);
	snapshot(f, "10:10:", 510);
	assert_false(copier_chunk_is_whole(f->c, f->r->id, texts, 2, limit_of(f->r), 1000, &ahead, &f->err));
	assert_int_equal(f->err.kind, ERR_PROTOCOL);
}

static void a_page_gone_behind_is_not_cut(void **state)
{
	struct fixture *f = *state;
	struct copier_config config = fixture_config;
	char large[201];

	config.chunk_bytes = 10000;
	fixture_restart(f, &config);
	copying(f, 1);
	memset(large, 'x', 200);
	large[200] = '\0';
	ask(f, CHUNK_PAGE);
	snapshot(f, "10:10:", 500);
	assert_true(is_whole(f, 200, 200, 20000));
	for (int i = 1; i <= 200; i++) {
		char id[16];

		snprintf(id, sizeof id, "%d", i);
		row(f, id, large);
	}
	end(f);
	position(f, 600);
	take_chunk(f, 500, 200);
}

static void a_pause_gives_up_both(void **state)
{
	struct fixture *f = *state;
	const struct chunk_request *first, *second;

	two_pages(f, &first, &second);
	assert_true(copier_pause_run(f->c, 5, f->now));
	hand_over(f, first, 1);
	f->r = second;
	snapshot(f, "10:10:", 510);
	rows(f, 201, 5);
	end(f);
	position(f, 600);
	assert_true(copier_resume_run(f->c, 5, f->now));
	ask(f, CHUNK_PAGE);
	assert_int_equal(f->r->nparams, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_next_page_is_asked_for_behind_the_last_row),
		TEST(pages_close_in_order_also_when_they_end_in_another),
		TEST(a_page_is_asked_for_alone_where_the_run_may_have_to_rest),
		TEST(a_page_that_does_not_count_is_not_gone_behind),
		TEST(a_page_that_fails_takes_those_behind_it_along),
		TEST(a_page_asked_ahead_may_fail_alone),
		TEST(it_is_told_once_and_truly),
		TEST(a_page_that_stands_still_is_noticed),
		TEST(a_page_gone_behind_is_not_cut),
		TEST(a_pause_gives_up_both),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
