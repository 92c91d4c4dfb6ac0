#include "apply_fixture.h"

#define T   text_cell
#define NUL text_cell(NULL)

#define SECOND INT64_C(1000000)
#define HOUR   (3600 * SECOND)
#define START  (1000000 * SECOND)

static void purge_within(struct fixture *f, int64_t now_us, int64_t retention_us, uint32_t limit,
						 uint32_t scan)
{
	struct batch *b = batch_create();

	batch_add(b, OP_PURGE)->u.purge = (struct op_purge){now_us, retention_us, limit, scan};
	apply_commit_take(f, b);
}

static void purge(struct fixture *f, int64_t now_us, int64_t retention_us)
{
	purge_within(f, now_us, retention_us, 1000, 1000);
}

/* Deletes keys first .. last of table 1 at lsn; unseen: the transaction is remembered. */
static void delete_keys(struct fixture *f, uint64_t lsn, int first, int last, bool unseen)
{
	struct batch *b = batch_create();

	for (int k = first; k <= last; k++)
		add_delete(b, 1, at(lsn, (uint64_t)(k - first + 1)), k);
	add_commit(b, lsn, lsn + 1, lsn)->flags = unseen ? OP_F_CHANGES : 0;
	apply_commit_take(f, b);
}

static void insert_keys(struct fixture *f, uint64_t lsn, int first, int last)
{
	struct batch *b = batch_create();

	for (int k = first; k <= last; k++)
		add_upsert(b, 1, at(lsn, (uint64_t)(k - first + 1)), k, T("a"), NUL, 0, -1);
	add_commit(b, lsn, lsn + 1, lsn);
	apply_commit_take(f, b);
}

static void restart(struct fixture *f)
{
	struct err err;

	applier_destroy(f->applier);
	CHECK(applier_create(f->store, &f->applier, &err));
}

static struct purge_history history_now(struct fixture *f)
{
	struct store_txn *txn;
	struct purge_history h;
	struct err err;
	bool found;

	CHECK(store_begin_read(f->store, &txn, &err));
	CHECK(store_get_history(txn, &h, &found, &err));
	store_abort(txn);
	return h;
}

/* ---- what may go ---- */

static void markers_go_and_rows_stay(void **state)
{
	struct fixture *f = *state;

	insert_keys(f, 10, 1, 3);
	delete_keys(f, 20, 2, 5, false);
	assert_counters(f, 1, 1, 0, 0, 4);
	purge(f, START, 0);
	assert_entry(f, 1, 1, "10.1 a NULL");
	assert_entry(f, 1, 2, "absent");
	assert_counters(f, 1, 1, 0, 0, 0);
	assert_int_equal(history_now(f).purged, 4);
}

static void a_transaction_that_may_not_be_visible_keeps_what_is_not_older(void **state)
{
	struct fixture *f = *state;
	struct batch *b;

	delete_keys(f, 10, 1, 1, false);
	delete_keys(f, 20, 2, 2, true);
	delete_keys(f, 30, 3, 3, true);
	purge(f, START, 0);
	assert_entry(f, 1, 1, "absent");
	assert_entry(f, 1, 2, "20.1 deleted");
	assert_entry(f, 1, 3, "30.1 deleted");
	b = batch_create();
	batch_add(b, OP_UNSEEN_DROP)->u.commit.lsn = LSN(20);
	apply_commit_take(f, b);
	purge(f, START + 1, 0);
	assert_entry(f, 1, 2, "absent");
	assert_entry(f, 1, 3, "30.1 deleted");
	assert_counters(f, 1, 0, 0, 0, 1);
}

/* A marker that a chunk wrote at its bound, where a transaction that hangs lies. */
static void a_marker_at_the_very_position_of_the_oldest_one_stays(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();

	insert_keys(f, 10, 1, 1);
	add_commit(b, 20, 21, 5)->flags = OP_F_CHANGES;
	add_chunk(b, 1, 0, 20, "5:6:5");
	add_gone(b, 1, 1);
	apply_commit_take(f, b);
	assert_entry(f, 1, 1, "20.0 deleted");
	purge(f, START, 0);
	assert_entry(f, 1, 1, "20.0 deleted");
}

/* A window can close at H before the stream's next transaction, at H or above, is applied. */
static void a_marker_above_the_checkpoint_stays(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();

	insert_keys(f, 10, 1, 1);
	add_chunk(b, 1, 0, 50, "5:6:");
	add_gone(b, 1, 1);
	apply_commit_take(f, b);
	purge(f, START, 0);
	assert_entry(f, 1, 1, "50.0 deleted");
	insert_keys(f, 60, 2, 2);
	purge(f, START + 1, 0);
	assert_entry(f, 1, 1, "absent");
}

static void markers_of_an_earlier_epoch_go(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();

	delete_keys(f, 1000, 1, 1, false);
	add_commit(b, 10, 11, 5)->pos.epoch = 2;
	apply_commit_take(f, b);
	purge(f, START, 0);
	assert_entry(f, 1, 1, "absent");
}

static void nothing_goes_before_there_is_a_checkpoint(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();

	add_chunk(b, 1, 0, 5, "1:1:");
	add_gone(b, 1, 1);
	apply_commit_take(f, b);
	purge(f, START, 0);
	purge(f, START, HOUR);
	assert_int_equal(history_now(f).n, 0);
}

/* ---- retention ---- */

static void a_marker_is_kept_for_the_retention(void **state)
{
	struct fixture *f = *state;

	delete_keys(f, 10, 1, 1, false);
	purge(f, START, HOUR);
	delete_keys(f, 20, 2, 2, false);
	purge(f, START + HOUR / 2, HOUR);
	purge(f, START + HOUR - SECOND, HOUR);
	assert_entry(f, 1, 1, "10.1 deleted");
	restart(f); /* which does not begin the wait anew */
	purge(f, START + HOUR, HOUR);
	assert_entry(f, 1, 1, "absent");
	assert_entry(f, 1, 2, "20.1 deleted");
	purge(f, START + HOUR + HOUR / 2 - SECOND, HOUR);
	assert_entry(f, 1, 2, "20.1 deleted");
	purge(f, START + HOUR + HOUR / 2, HOUR);
	assert_entry(f, 1, 2, "absent");
}

static void the_history_resolves_the_retention_to_a_thirty_second(void **state)
{
	struct fixture *f = *state;
	struct purge_history h;

	for (int64_t s = 0; s < 3 * 3600; s += 10) {
		delete_keys(f, 10 + (uint64_t)s, 1, 1, false);
		purge(f, START + s * SECOND, HOUR);
	}
	h = history_now(f);
	assert_true(h.n >= 30 && h.n <= 33);
	assert_int_equal(h.retention_us, HOUR);
	for (size_t i = 1; i < h.n; i++)
		assert_in_range(h.samples[i].time_us - h.samples[i - 1].time_us, HOUR / 32, HOUR / 32 + 10 * SECOND);
	assert_true(h.samples[1].time_us > START + 2 * HOUR - 10 * SECOND); /* one that is old enough does */
}

static void a_stream_that_stands_still_needs_no_samples(void **state)
{
	struct fixture *f = *state;

	delete_keys(f, 10, 1, 1, false);
	for (int i = 0; i < 100; i++)
		purge(f, START + i * (HOUR / 2), 100 * HOUR);
	assert_int_equal(history_now(f).n, 1);
}

static void a_longer_retention_waits_longer(void **state)
{
	struct purge_history h = HISTORY_NONE;
	struct checkpoint c = {.epoch = 1};
	enum purge_bound bound;
	int64_t now = START;

	(void)state;
	for (int i = 0; i < 1000; i++, now += SECOND) {
		c.lsn.v += 10;
		history_note(&h, now, 40 * SECOND, &c);
	}
	for (int i = 0; i < 5000; i++, now += SECOND) {
		c.lsn.v += 10;
		history_note(&h, now, HOUR, &c);
		assert_true(h.n <= HISTORY_MAX);
		/* 10 a second: what is ripe is an hour old, and not much older once there is history enough. */
		uint64_t ripe = purge_limit(&h, &c, LSN(0), now, HOUR, &bound).lsn.v;
		assert_true(ripe <= (c.lsn.v > 36000 ? c.lsn.v - 36000 : 0));
		if (i > 3700) assert_true(ripe >= c.lsn.v - 36000 - 36000 / 8);
	}
	assert_int_equal(bound, PURGE_TO_RETENTION);
}

static void a_clock_that_is_set_back_starts_anew(void **state)
{
	struct fixture *f = *state;

	delete_keys(f, 10, 1, 1, false);
	purge(f, START + 1000 * HOUR, HOUR);
	purge(f, START, HOUR);
	purge(f, START + HOUR - 1, HOUR);
	assert_entry(f, 1, 1, "10.1 deleted");
	purge(f, START + HOUR, HOUR);
	assert_entry(f, 1, 1, "absent");
}

/* ---- how much at a time ---- */

static void a_step_is_bounded_and_the_walk_goes_on(void **state)
{
	struct fixture *f = *state;

	delete_keys(f, 10, 1, 100, false);
	purge_within(f, START, 0, 7, 1000);
	assert_counters(f, 1, 0, 0, 0, 93);
	purge_within(f, START, 0, 1000, 10); /* looks at so many */
	assert_counters(f, 1, 0, 0, 0, 83);
	assert_entry(f, 1, 17, "absent");
	assert_entry(f, 1, 18, "10.18 deleted");
	purge_within(f, START, 0, 1000, 84);
	assert_counters(f, 1, 0, 0, 0, 0);
}

static void one_operation_walks_several_tables(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();

	add_delete(b, 1, at(10, 1), 1);
	add_delete(b, 2, at(10, 2), 1);
	add_commit(b, 10, 11, 5);
	apply_commit_take(f, b);
	purge(f, START, 0);
	assert_counters(f, 1, 0, 0, 0, 0);
	assert_counters(f, 2, 0, 0, 0, 0);
}

static void an_abort_begins_the_walk_again(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();

	delete_keys(f, 10, 1, 20, false);
	batch_add(b, OP_PURGE)->u.purge = (struct op_purge){START, 0, 5, 1000};
	apply_take(f, b);
	applier_abort(f->applier);
	assert_counters(f, 1, 0, 0, 0, 20);
	assert_int_equal(history_now(f).purged, 0);
	purge(f, START, 0);
	assert_counters(f, 1, 0, 0, 0, 0);
	assert_int_equal(history_now(f).purged, 20);
}

/* ---- when it is worth it ---- */

static void a_few_markers_wait_for_an_hour(void **state)
{
	struct fixture *f = *state;

	insert_keys(f, 10, 1, 100);
	delete_keys(f, 20, 50, 50, false);
	purge(f, START, 0);
	purge(f, START + HOUR - 1, 0);
	assert_counters(f, 1, 99, 0, 0, 1);
	purge(f, START + HOUR, 0);
	assert_counters(f, 1, 99, 0, 0, 0);
}

static bool purge_writes(struct fixture *f, int64_t now_us, int64_t retention_us)
{
	struct batch *b = batch_create();
	bool wrote;

	batch_add(b, OP_PURGE)->u.purge = (struct op_purge){now_us, retention_us, 1000, 1000};
	apply_take(f, b);
	wrote = applier_has_writes(f->applier);
	commit_now(f);
	return wrote;
}

static void nothing_to_do_writes_nothing(void **state)
{
	struct fixture *f = *state;

	insert_keys(f, 10, 1, 10);
	assert_false(purge_writes(f, START, HOUR)); /* no markers */
	delete_keys(f, 20, 1, 5, true);
	assert_true(purge_writes(f, START, HOUR)); /* a sample */
	assert_false(purge_writes(f, START + HOUR / 2, HOUR));
	assert_true(purge_writes(f, START + HOUR, 0)); /* another retention */
	assert_false(purge_writes(f, START + 2 * HOUR, 0));
	assert_counters(f, 1, 5, 0, 0, 5);
}

/* ---- what a purged marker leaves behind ---- */

static void a_purged_key_can_come_back(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();

	insert_keys(f, 10, 1, 1);
	delete_keys(f, 20, 1, 1, false);
	purge(f, START, 0);
	insert_keys(f, 30, 1, 1);
	assert_entry(f, 1, 1, "30.1 a NULL");
	add_chunk(b, 1, 0, 40, "50:60:");
	add_chunk_row(b, 1, 1, T("copy"), NUL);
	apply_commit_take(f, b);
	assert_entry(f, 1, 1, "40.0 copy NULL");
}

static void a_truncate_still_holds(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();

	delete_keys(f, 10, 1, 1, false);
	add_truncate(b, 1, at(20, 1));
	add_commit(b, 20, 21, 5);
	apply_commit_take(f, b);
	delete_keys(f, 30, 2, 2, false);
	purge(f, START, 0);
	b = batch_create();
	add_chunk(b, 1, 0, 15, "50:60:");
	add_chunk_row(b, 1, 1, T("from before"), NUL);
	apply_commit_take(f, b);
	assert_entry(f, 1, 1, "absent");
}

static void it_does_not_come_inside_a_transaction(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();

	add_delete(b, 1, at(10, 1), 1);
	batch_add(b, OP_PURGE)->u.purge = (struct op_purge){START, 0, 1000, 1000};
	apply_fails(f, b, ERR_BUG, "inside a source transaction");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
	const struct CMUnitTest tests[] = {
		TEST(markers_go_and_rows_stay),
		TEST(a_transaction_that_may_not_be_visible_keeps_what_is_not_older),
		TEST(a_marker_at_the_very_position_of_the_oldest_one_stays),
		TEST(a_marker_above_the_checkpoint_stays),
		TEST(markers_of_an_earlier_epoch_go),
		TEST(nothing_goes_before_there_is_a_checkpoint),
		TEST(a_marker_is_kept_for_the_retention),
		TEST(the_history_resolves_the_retention_to_a_thirty_second),
		TEST(a_stream_that_stands_still_needs_no_samples),
		cmocka_unit_test(a_longer_retention_waits_longer),
		TEST(a_clock_that_is_set_back_starts_anew),
		TEST(a_step_is_bounded_and_the_walk_goes_on),
		TEST(one_operation_walks_several_tables),
		TEST(an_abort_begins_the_walk_again),
		TEST(a_few_markers_wait_for_an_hour),
		TEST(nothing_to_do_writes_nothing),
		TEST(a_purged_key_can_come_back),
		TEST(a_truncate_still_holds),
		TEST(it_does_not_come_inside_a_transaction),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
