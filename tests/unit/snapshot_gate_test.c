#include "tests/unit/snapshot_copier_fixture.h"

#include "snapshot/copier_impl.h"

/* ==== the gate ==== */

static void a_run_waits_for_its_gate(void **state)
{
	struct fixture *f = *state;
	const char *gate = NULL;
	int64_t waits[] = {200000, 400000, 800000, 1600000, 3200000, 5000000, 5000000};

	set_table(f, 1, 1, key_is_id, NULL);
	start_run(f, 1, false, "20:20:");
	take(f);
	assert_false(copier_is_gated(f->c, &gate));
	for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
		last_page(f, "19:25:19", 500, 1, 2);
		assert_true(copier_is_gated(f->c, &gate));
		assert_string_equal(gate, "20:20:");
		ask_nothing(f);
		assert_int_equal(copier_next_at(f->c), f->now + waits[i]);
		f->now += waits[i];
	}
	position(f, 500);
	nothing_emitted(f);
	full_page(f, "21:25:21", 600, 1);
	assert_false(copier_is_gated(f->c, &gate));
	position(f, 600);
	take_chunk(f, 600, 200);
	last_page(f, "19:25:19", 700, 201, 2); /* covered once is enough */
	position(f, 700);
	take_chunk(f, 700, 2);
}

static void a_gate_holds_its_own_table_only(void **state)
{
	struct fixture *f = *state;

	set_table(f, 1, 1, key_is_id, NULL);
	start_run(f, 1, false, "20:20:");
	take(f);
	copying(f, 2);
	ask(f, CHUNK_PAGE);
	assert_int_equal(f->asked_table, 1);
	snapshot(f, "19:25:19", 500);
	end(f);
	for (uint32_t i = 0; i < 2; i++) {
		full_page(f, "19:25:19", 500, 1 + i * 200);
		assert_int_equal(f->asked_table, 2);
	}
	f->now += SEC / 5;
	last_page(f, "19:25:19", 500, 1, 2);
	assert_int_equal(f->asked_table, 1);
	ask(f, CHUNK_PAGE); /* of table 2; the gate's wait has grown all the same */
	assert_int_equal(f->asked_table, 2);
	failed(f, CHUNK_SCHEMA);
	assert_int_equal(copier_next_at(f->c), f->now + 2 * SEC / 5);
}

static void keyed_chunks_wait_for_the_gate_too(void **state)
{
	struct fixture *f = *state;
	const struct op *listing;

	set_table(f, 1, 1, key_is_id, NULL);
	start_run(f, 1, false, "20:20:");
	take(f);
	last_page(f, "19:25:19", 500, 1, 2);
	doubt_is(f, 1, 1);
	ask_nothing(f);
	nothing_emitted(f);
	f->now += SEC / 5;
	last_page(f, "20:25:", 500, 1, 2);
	ask_nothing(f);
	listing = take_listing(f, OP_LIST_DOUBT);
	answer_listing(f, listing, 1, (struct listed[]){{7, NULL}}, 1, 7, true);
	ask(f, CHUNK_KEYED);
}

static void a_keyed_chunk_is_checked_against_the_gate(void **state)
{
	struct fixture *f = *state;
	struct run_record r = {
		.id = 9, .table_id = 1, .kind = RUN_RESNAPSHOT, .state = RUN_PAUSED, .requester = "run"};
	const struct op *listing;
	const char *gate;

	r.gate = "20:20:";
	r.first_snapshot = r.last_snapshot = "";
	set_table(f, 1, 1, key_is_id, NULL);
	copier_load_run(f->c, &r);
	doubt_is(f, 1, 1);
	ask_nothing(f);
	listing = take_listing(f, OP_LIST_DOUBT);
	answer_listing(f, listing, 1, (struct listed[]){{7, NULL}}, 1, 7, true);
	ask(f, CHUNK_KEYED);
	snapshot(f, "19:25:19", 500);
	row(f, "7", "x");
	end(f);
	position(f, 500);
	nothing_emitted(f);
	assert_true(copier_is_gated(f->c, &gate));
	ask_nothing(f);
	nothing_emitted(f);
	f->now += SEC / 5;
	ask_nothing(f);
	take_listing(f, OP_LIST_DOUBT);
}

/*
 * T0 (12) hangs in its commit; row 1, at 950, is from before the run, which is there to replace it. With a
 * bound of 900 the guard would keep it.
 */
static void a_run_over_old_rows_waits_for_what_was_streamed_before(void **state)
{
	struct fixture *f = *state;
	const char *gate;

	set_table(f, 1, 1, key_is_id, NULL);
	writes(f, 12, 900, 77);
	writes(f, 13, 950, 1);
	copier_start_run(f->c, 1, RUN_SCHEMA, true, NULL, "schema change", f->now);
	take(f);
	writes(f, 14, 1100, 78);
	last_page(f, "12:15:12", 1200, 1, 2);
	assert_true(copier_is_gated(f->c, &gate));
	assert_non_null(strstr(gate, "streamed"));
	f->now += SEC / 5;
	last_page(f, "14:15:14", 1300, 1, 2); /* 14 came later */
	assert_false(copier_is_gated(f->c, &gate));
	position(f, 1300);
	take_chunk(f, 1100, 2);
}

/* A replica that lags: it sees all that was streamed and is not seen by everyone, but its H is what it has
 * replayed. */
static void a_run_over_old_rows_waits_for_a_replica_behind_it(void **state)
{
	struct fixture *f = *state;
	const char *gate;

	set_table(f, 1, 1, key_is_id, NULL);
	position(f, 1000);
	copier_start_run(f->c, 1, RUN_RESNAPSHOT, true, NULL, "run", f->now);
	take(f);
	ask(f, CHUNK_PAGE);
	snapshot_on(f, "12:12:", true, 999);
	end(f);
	nothing_emitted(f);
	assert_true(copier_is_gated(f->c, &gate));
	f->now += SEC / 5;
	ask(f, CHUNK_PAGE);
	snapshot_on(f, "12:12:", true, 1000);
	end(f);
	assert_false(copier_is_gated(f->c, &gate));
	take_chunk(f, 1000, 0);
}

/* The table was altered at 1000, and the stream is behind that. T (12) hangs, and is streamed only later. */
static void a_run_ahead_of_the_stream_is_judged_when_it_closes(void **state)
{
	struct fixture *f = *state;
	const char *gate;

	set_table(f, 1, 1, key_is_id, NULL);
	position(f, 900);
	copier_start_run_as_of(f->c, 1, RUN_SCHEMA, true, NULL, "run", LSN(1000), f->now);
	take(f);
	full_page(f, "12:15:12", 1020, 1);
	full_page(f, "12:15:12", 1021, 201);
	ask(f, CHUNK_PAGE);
	writes(f, 12, 955, 77);
	writes(f, 13, 960, 1);
	assert_false(copier_is_gated(f->c, &gate));
	position(f, 1030);
	nothing_emitted(f);
	assert_true(copier_is_gated(f->c, &gate));
	end(f); /* it was given up too */
	ask(f, CHUNK_PROBE);
	failed(f, CHUNK_LOST);
	ask_nothing(f);
	f->now += SEC / 5;
	ask(f, CHUNK_PAGE);
	assert_int_equal(f->r->nparams, 1);
	snapshot(f, "15:15:", 1030);
	rows(f, 1, 1);
	end(f);
	take_chunk(f, 1030, 1);
}

/* What was committed before the slot and hangs is in no stream: whichever run reads the table has to see it.
 */
static void a_new_run_inherits_a_gate_that_is_closed(void **state)
{
	struct fixture *f = *state;
	static const char *const own[] = {NULL, "30:30:", "rubbish"}, *const shown[] = {
																	  "20:20:", "30:30:", "rubbish"};
	const char *gate;

	for (size_t i = 0; i < 3; i++) {
		fixture_restart(f, &fixture_config);
		set_table(f, 1, 1, key_is_id, NULL);
		start_run(f, 1, false, "20:20:");
		copier_start_run(f->c, 1, RUN_RESNAPSHOT, false, own[i], "user", f->now);
		if (i < 2) last_page(f, "19:25:19", 500, 1, 2);
		assert_true(copier_is_gated(f->c, &gate));
		assert_string_equal(gate, shown[i]);
	}
	copier_start_run(f->c, 1, RUN_RESNAPSHOT, false, "30:30:", "user", f->now);
	assert_true(copier_is_gated(f->c, &gate));
	assert_string_equal(gate, "rubbish"); /* what it was to see is not known */

	fixture_restart(f, &fixture_config);
	set_table(f, 1, 1, key_is_id, NULL);
	start_run(f, 1, false, "20:20:");
	full_page(f, "20:25:", 500, 1);
	copier_start_run(f->c, 1, RUN_RESNAPSHOT, false, NULL, "user", f->now);
	last_page(f, "20:25:", 500, 1, 2); /* the open gate is not asked for again */
	assert_false(copier_is_gated(f->c, &gate));
}

static void a_new_run_inherits_what_the_open_one_replaces(void **state)
{
	struct fixture *f = *state;
	const char *gate;

	set_table(f, 1, 1, key_is_id, NULL);
	position(f, 900);
	copier_start_run_as_of(f->c, 1, RUN_SCHEMA, true, NULL, "run", LSN(1000), f->now);
	copier_start_run(f->c, 1, RUN_RESNAPSHOT, true, NULL, "user", f->now);
	last_page(f, "12:12:", 950, 1, 2);
	assert_true(copier_is_gated(f->c, &gate));
}

static void a_first_copy_does_not_wait_for_what_was_streamed_before(void **state)
{
	struct fixture *f = *state;

	set_table(f, 1, 1, key_is_id, NULL);
	writes(f, 12, 900, 77);
	start_run(f, 1, false, NULL);
	take(f);
	last_page(f, "12:15:12", 1200, 1, 2);
	position(f, 1200);
	take_chunk(f, 900, 2);
}

static void a_stored_run_waits_for_what_was_streamed_before_it(void **state)
{
	struct fixture *f = *state;
	struct run_record r = {
		.id = 9, .table_id = 1, .kind = RUN_RESNAPSHOT, .state = RUN_COPYING, .requester = "run"};
	struct unseen_entry stored = {LSN(900), XID(12)};
	const char *gate;

	r.gate = r.first_snapshot = r.last_snapshot = "";
	r.accepted = (struct pos){EPOCH, LSN(1000), 0};
	copier_load_unseen(f->c, &stored, 1);
	set_table(f, 1, 1, key_is_id, NULL);
	copier_load_run(f->c, &r);
	last_page(f, "12:15:12", 1200, 1, 2);
	assert_true(copier_is_gated(f->c, &gate));

	f->now += SEC;
	r.id = 10;
	r.accepted.epoch = EPOCH - 1; /* all that is there is lower anyway */
	copier_load_run(f->c, &r);
	last_page(f, "12:15:12", 1200, 1, 2);
	assert_false(copier_is_gated(f->c, &gate));
}

static void a_gate_that_is_no_snapshot_is_shown(void **state)
{
	struct fixture *f = *state;
	const char *gate;

	set_table(f, 1, 1, key_is_id, NULL);
	start_run(f, 1, false, "rubbish");
	take(f);
	ask_nothing(f);
	assert_int_equal(copier_next_at(f->c), INT64_MAX);
	assert_true(copier_is_gated(f->c, &gate));
	assert_string_equal(gate, "rubbish");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_run_waits_for_its_gate),
		TEST(a_gate_holds_its_own_table_only),
		TEST(keyed_chunks_wait_for_the_gate_too),
		TEST(a_keyed_chunk_is_checked_against_the_gate),
		TEST(a_run_over_old_rows_waits_for_what_was_streamed_before),
		TEST(a_run_over_old_rows_waits_for_a_replica_behind_it),
		TEST(a_run_ahead_of_the_stream_is_judged_when_it_closes),
		TEST(a_new_run_inherits_a_gate_that_is_closed),
		TEST(a_new_run_inherits_what_the_open_one_replaces),
		TEST(a_first_copy_does_not_wait_for_what_was_streamed_before),
		TEST(a_stored_run_waits_for_what_was_streamed_before_it),
		TEST(a_gate_that_is_no_snapshot_is_shown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
