#include "tests/unit/snapshot_copier_fixture.h"

#include "snapshot/copier_impl.h"

/* ==== when a window closes ==== */

static void closes_when_the_stream_reaches_high(void **state)
{
	struct fixture *f = *state;
	lsn_t high;

	copying(f, 1);
	copying(f, 2);
	assert_false(copier_waits_for(f->c, &high));
	last_page(f, "10:10:", 600, 1, 2);
	last_page(f, "10:10:", 500, 1, 2);
	assert_true(copier_waits_for(f->c, &high));
	assert_int_equal(high.v, 600);
	position(f, 499);
	nothing_emitted(f);
	position(f, 500);
	take_chunk(f, 500, 2);
	position(f, 600);
	take_chunk(f, 600, 2);
	assert_false(copier_waits_for(f->c, &high));
}

/* Before that transaction counts, and before any of its operations. */
static void closes_at_the_begin_of_a_later_transaction(void **state)
{
	struct fixture *f = *state;

	copying(f, 1);
	last_page(f, "10:10:", 500, 1, 2);
	begin(f, 12, 499);
	nothing_emitted(f);
	change(f, 1, 7);
	commit(f, 500);
	take_chunk(f, 499, 2);

	start_run(f, 1, false, NULL);
	take(f);
	last_page(f, "14:14:", 600, 1, 2);
	begin(f, 14, 600);
	take_chunk(f, 600, 2);
}

static void does_not_close_inside_a_transaction(void **state)
{
	struct fixture *f = *state;

	copying(f, 1);
	last_page(f, "10:10:", 500, 1, 2);
	begin(f, 12, 400);
	change(f, 1, 1);
	position(f, 900); /* kept until the commit */
	nothing_emitted(f);
	commit(f, 410);
	take_chunk(f, 400, 2);
}

static void closes_at_once_when_the_stream_is_past_high(void **state)
{
	struct fixture *f = *state;

	copying(f, 1);
	position(f, 800);
	last_page(f, "10:10:", 500, 1, 2);
	take_chunk(f, 500, 2);
}

static void waits_for_the_transaction_that_is_past_high(void **state)
{
	struct fixture *f = *state;

	copying(f, 1);
	begin(f, 12, 800);
	change(f, 1, 2);
	last_page(f, "10:10:", 500, 1, 2);
	nothing_emitted(f);
	commit(f, 805);
	take_chunk(f, 500, 2);
}

static void positions_never_go_back(void **state)
{
	struct fixture *f = *state;

	copying(f, 1);
	position(f, 800);
	position(f, 300);
	last_page(f, "10:10:", 500, 1, 2);
	take_chunk(f, 500, 2);
}

/* ==== the bound ==== */

static void bound_is_the_lowest_commit_that_s_does_not_see(void **state)
{
	struct fixture *f = *state;

	copying(f, 1);
	writes(f, 11, 100, 50); /* before the chunk: visible */
	writes(f, 12, 200, 51); /* before the chunk, not visible */
	ask(f, CHUNK_PAGE);
	writes(f, 13, 300, 52);
	snapshot(f, "12:14:12", 500);
	writes(f, 14, 400, 53); /* began later */
	rows(f, 1, 2);
	end(f);
	position(f, 500);
	take_chunk(f, 200, 2);
}

static void transactions_without_a_change_do_not_count(void **state)
{
	struct fixture *f = *state;

	copying(f, 1);
	last_page(f, "10:10:", 500, 1, 2);
	begin(f, 12, 100);
	commit(f, 105);
	position(f, 500);
	take_chunk(f, 500, 2);
}

static void the_stored_set_counts(void **state)
{
	struct fixture *f = *state;
	struct unseen_entry stored[] = {{LSN(70), XID(8)}, {LSN(90), XID(9)}};

	copier_load_unseen(f->c, stored, 2);
	copying(f, 1);
	last_page(f, "9:12:9", 500, 1, 2);
	position(f, 500);
	take_chunk(f, 90, 2);
}

static void a_standby_is_trusted_below_xmin_only(void **state)
{
	struct fixture *f = *state;

	copying(f, 1);
	writes(f, 11, 100, 50);
	ask(f, CHUNK_PAGE);
	snapshot_on(f, "11:14:", true, 500);
	rows(f, 1, 2);
	end(f);
	writes(f, 10, 200, 1); /* seen */
	writes(f, 12, 300, 2); /* not known to be */
	position(f, 500);
	struct batch *b = take_chunk(f, 100, 2);
	assert_true(b->ops[0].u.run.chunk->standby);
	assert_false(is_superseded(b, 0));
	assert_true(is_superseded(b, 1));
}

/* ==== superseding ==== */

static void a_change_that_s_does_not_see_supersedes(void **state)
{
	struct fixture *f = *state;
	struct batch *b;

	copying(f, 1);
	last_page(f, "10:14:12", 500, 1, 4);
	begin(f, 12, 100);
	change(f, 1, 2);
	change(f, 2, 3); /* another table's key */
	change(f, 1, 9); /* not in the chunk */
	commit(f, 105);
	writes(f, 13, 200, 1); /* S sees it: the row has it, and may be needed to fill one in doubt */
	position(f, 500);
	b = take_chunk(f, 100, 4);
	assert_false(is_superseded(b, 0));
	assert_true(is_superseded(b, 1));
	assert_false(is_superseded(b, 2));
	assert_int_equal(b->ops[0].u.run.chunk->rows_read, 4);
}

static void rows_that_are_still_arriving_are_superseded_too(void **state)
{
	struct fixture *f = *state;
	struct batch *b;

	copying(f, 1);
	ask(f, CHUNK_PAGE);
	snapshot(f, "10:10:", 500);
	row(f, "1", "a");
	writes(f, 12, 100, 1);
	row(f, "2", "b");
	end(f);
	position(f, 500);
	b = take_chunk(f, 100, 2);
	assert_true(is_superseded(b, 0));
	assert_false(is_superseded(b, 1));
}

static void a_truncate_supersedes_every_row(void **state)
{
	struct fixture *f = *state;
	struct batch *b;

	copying(f, 1);
	last_page(f, "10:14:12", 500, 1, 3);
	begin(f, 13, 100);
	copier_stream_truncate(f->c, 1); /* seen: LOCK TABLE made the read come after it */
	commit(f, 105);
	begin(f, 12, 200);
	copier_stream_truncate(f->c, 2);
	commit(f, 205);
	begin(f, 14, 300);
	copier_stream_truncate(f->c, 1);
	commit(f, 305);
	position(f, 500);
	b = take_chunk(f, 200, 3);
	for (size_t i = 0; i < 3; i++)
		assert_true(is_superseded(b, i));

	start_run(f, 1, false, NULL);
	take(f);
	last_page(f, "20:20:", 900, 1, 1);
	begin(f, 13, 600);
	copier_stream_truncate(f->c, 1);
	commit(f, 605);
	position(f, 900);
	assert_false(is_superseded(take_chunk(f, 900, 1), 0));
}

/* The same row, cut off and delivered again: it counts once. */
static void a_transaction_cut_off_comes_again(void **state)
{
	struct fixture *f = *state;

	copying(f, 1);
	copying(f, 2);
	last_page(f, "10:10:", 500, 1, 2);
	begin(f, 12, 100);
	change(f, 1, 1);
	position(f, 900); /* belongs to the lost connection's transaction */
	last_page(f, "10:10:", 100, 1, 1);
	nothing_emitted(f);
	begin(f, 12, 100);
	take_chunk(f, 100, 1); /* between the two is outside of a transaction */
	nothing_emitted(f);
	change(f, 1, 1);
	commit(f, 105);
	nothing_emitted(f);
	position(f, 500);
	take_chunk(f, 100, 2);
}

/* ==== rows ==== */

static void a_chunk_carries_rows_snapshot_and_cursor(void **state)
{
	struct fixture *f = *state;
	struct batch *b;
	const struct op_chunk *chunk;
	struct cell cells[2];
	struct row_head head;
	const struct op *op;

	copying(f, 1);
	ask(f, CHUNK_PAGE);
	assert_int_equal(f->asked_table, 1);
	assert_int_equal(f->r->run_id, 5);
	assert_int_equal(f->r->ncolumns, 2);
	snapshot(f, "10:14:12", 500);
	row(f, "7", "seven");
	row(f, "8", NULL);
	end(f);
	position(f, 500);
	b = take_chunk(f, 500, 2);
	chunk = b->ops[0].u.run.chunk;
	assert_int_equal(b->ops[0].table_id, 1);
	assert_int_equal(b->ops[0].u.run.run_id, 5);
	assert_string_equal(chunk->snapshot, "10:14:12");
	assert_int_equal(chunk->high.v, 500);
	assert_false(chunk->standby);
	assert_true(chunk->moves_cursor);
	assert_false(chunk->moves_sweep);
	assert_true(slice_eq(chunk->cursor, (struct slice){(const uint8_t *)"\0018", 2}));
	op = op_of(b, OP_CHUNK_ROW, 1);
	is_key(op->key, 8);
	assert_true(row_decode((struct slice){op->body, op->body_len}, 2, &head, cells, &f->err));
	assert_int_equal(head.version, 1);
	assert_int_equal(cells[0].text.n, 1);
	assert_int_equal(cells[1].kind, CELL_NULL);
}

static void a_long_key_is_carried_whole(void **state)
{
	struct fixture *f = *state;
	const struct op *op;
	struct row_head head;
	char text[701];

	memset(text, 'k', 700);
	text[700] = '\0';
	set_table(f, 1, 1, key_is_note, NULL);
	start_run(f, 1, false, NULL);
	take(f);
	ask(f, CHUNK_PAGE);
	snapshot(f, "10:10:", 500);
	row(f, "1", text);
	end(f);
	position(f, 500);
	op = op_of(take_chunk(f, 500, 1), OP_CHUNK_ROW, 0);
	assert_int_equal(op->key.n, KEY_MAX);
	assert_true(op->flags & OP_F_LONG_KEY);
	assert_true(row_head((struct slice){op->body, op->body_len}, 2, &head, &f->err));
	assert_int_equal(head.full_key.n, 700);
}

/* ==== how much is held ==== */

static void open_windows_are_bounded(void **state)
{
	struct fixture *f = *state;

	copying(f, 1);
	for (uint32_t i = 0; i < 4; i++)
		full_page(f, "10:10:", 500 + i, 1 + 200 * i);
	ask_nothing(f);
	assert_int_equal(copier_next_at(f->c), INT64_MAX);
	position(f, 500);
	take_chunk(f, 500, 200);
	ask(f, CHUNK_PAGE);
	ask_nothing(f); /* one at a time */
}

static void memory_of_open_windows_is_bounded(void **state)
{
	struct fixture *f = *state;
	struct copier_config config = fixture_config;

	config.buffer_bytes = 1000;
	fixture_restart(f, &config);
	copying(f, 1);
	full_page(f, "10:10:", 500, 1);
	ask_nothing(f);
	position(f, 500);
	ask(f, CHUNK_PAGE);
}

/* ==== the unseen set ==== */

static void pruning_follows_the_rows(void **state)
{
	struct fixture *f = *state;
	struct batch *b;

	copying(f, 1);
	writes(f, 11, 100, 50);
	writes(f, 12, 200, 51);
	last_page(f, "10:20:12", 500, 1, 2);
	position(f, 500);
	b = take_chunk(f, 200, 2);
	assert_int_equal(count_ops(b, OP_UNSEEN_DROP), 1);
	assert_int_equal(op_of(b, OP_UNSEEN_DROP, 0)->u.commit.lsn.v, 100);
	assert_true(op_of(b, OP_UNSEEN_DROP, 0) > op_of(b, OP_CHUNK_ROW, 1));
}

static void an_open_window_keeps_what_it_does_not_see(void **state)
{
	struct fixture *f = *state;

	copying(f, 1);
	copying(f, 2);
	writes(f, 11, 100, 50);
	last_page(f, "10:20:11", 900, 1, 1); /* the older snapshot waits longer */
	last_page(f, "20:20:", 500, 1, 1);
	position(f, 500);
	assert_int_equal(count_ops(take_chunk(f, 500, 1), OP_UNSEEN_DROP), 0);
	position(f, 900);
	assert_int_equal(count_ops(take_chunk(f, 100, 1), OP_UNSEEN_DROP), 0);
}

static void a_chunk_that_is_arriving_keeps_what_it_does_not_see(void **state)
{
	struct fixture *f = *state;

	copying(f, 1);
	copying(f, 2);
	writes(f, 11, 100, 50);
	last_page(f, "20:20:", 500, 1, 1);
	ask(f, CHUNK_PAGE);
	snapshot(f, "10:20:11", 510);
	position(f, 500);
	assert_int_equal(count_ops(take_chunk(f, 500, 1), OP_UNSEEN_DROP), 0);
	rows(f, 1, 1);
	end(f);
	position(f, 510);
	take_chunk(f, 100, 1);
}

/* As if it had gone to a second connection before the snapshot of the window came. */
static void a_chunk_asked_for_before_may_have_an_older_snapshot(void **state)
{
	struct fixture *f = *state;

	copying(f, 1);
	copying(f, 2);
	writes(f, 11, 100, 50);
	last_page(f, "20:20:", 500, 1, 1);
	ask(f, CHUNK_PAGE);
	f->c->requests->window->asked_seq = 0;
	position(f, 500);
	assert_int_equal(count_ops(take_chunk(f, 500, 1), OP_UNSEEN_DROP), 0);
	snapshot(f, "10:20:11", 510);
	rows(f, 1, 1);
	end(f);
	position(f, 510);
	take_chunk(f, 100, 1);
}

static void a_chunk_asked_for_later_has_a_newer_snapshot(void **state)
{
	struct fixture *f = *state;

	copying(f, 1);
	copying(f, 2);
	writes(f, 11, 100, 50);
	last_page(f, "20:20:", 500, 1, 1);
	ask(f, CHUNK_PAGE);
	position(f, 500);
	assert_int_equal(count_ops(take_chunk(f, 500, 1), OP_UNSEEN_DROP), 1);
}

/* A replica that lags, reached after another server: what was dropped as visible is not visible there. */
static void a_snapshot_that_sees_less_than_a_prune_is_refused(void **state)
{
	struct fixture *f = *state;
	const char *text = NULL;

	copying(f, 1);
	writes(f, 11, 100, 50);
	full_page(f, "20:20:", 500, 1);
	position(f, 500);
	assert_int_equal(count_ops(take_chunk(f, 500, 200), OP_UNSEEN_DROP), 1);
	ask(f, CHUNK_PAGE);
	snapshot_on(f, "11:20:", true, 510);
	rows(f, 201, 3);
	end(f);
	position(f, 510);
	nothing_emitted(f);
	assert_true(copier_is_gated(f->c, &text));
	assert_string_equal(text, "20:20:");
	ask_nothing(f);
	assert_int_equal(copier_next_at(f->c), f->now + SEC / 5);
	f->now += SEC / 5;
	ask(f, CHUNK_PAGE);
	assert_string_equal(f->r->params[0], "200");
	snapshot_on(f, "20:25:", true, 520);
	rows(f, 201, 3);
	end(f);
	assert_false(copier_is_gated(f->c, &text));
	position(f, 520);
	take_chunk(f, 520, 3);
}

/* The window with the older snapshot closes last: it must not lower what later ones have to see. */
static void the_floor_does_not_sink(void **state)
{
	struct fixture *f = *state;
	const char *text;

	copying(f, 1);
	copying(f, 2);
	writes(f, 11, 100, 50);
	writes(f, 12, 110, 51);
	full_page(f, "13:13:", 900, 1); /* sees both */
	full_page(f, "30:30:", 500, 1);
	position(f, 500);
	assert_int_equal(count_ops(take_chunk(f, 500, 200), OP_UNSEEN_DROP), 2);
	writes(f, 10, 600, 52);
	position(f, 900);
	assert_int_equal(count_ops(take_chunk(f, 900, 200), OP_UNSEEN_DROP), 1);
	ask(f, CHUNK_PAGE);
	snapshot(f, "29:29:", 910);
	end(f);
	assert_true(copier_is_gated(f->c, &text));
	assert_string_equal(text, "30:30:");
}

/* ==== probes ==== */

static void an_idle_copier_probes(void **state)
{
	struct fixture *f = *state;
	lsn_t high;
	struct batch *b;

	set_table(f, 1, 1, key_is_id, NULL);
	ask_nothing(f);
	assert_int_equal(copier_next_at(f->c), INT64_MAX);
	writes(f, 11, 100, 50);
	ask(f, CHUNK_PROBE);
	assert_null(f->r->lock_sql);
	assert_null(f->r->select_sql);
	assert_int_equal(f->asked_table, 0);
	snapshot(f, "10:20:11", 500);
	end(f);
	assert_false(copier_waits_for(f->c, &high)); /* no watermark message for a probe */
	nothing_emitted(f);
	ask_nothing(f);
	assert_int_equal(copier_next_at(f->c), f->now + 5 * SEC);
	f->now += 5 * SEC;
	ask(f, CHUNK_PROBE);
	snapshot(f, "20:20:", 500);
	begin(f, 30, 600);
	end(f);
	nothing_emitted(f); /* inside a transaction */
	commit(f, 605);
	b = take(f);
	assert_int_equal(b->n, 1);
	assert_int_equal(b->ops[0].kind, OP_UNSEEN_DROP);
	f->now += 5 * SEC;
	ask_nothing(f);
	assert_int_equal(copier_next_at(f->c), INT64_MAX);
}

static void many_unseen_are_probed_for_at_once(void **state)
{
	struct fixture *f = *state;

	set_table(f, 1, 1, key_is_id, NULL);
	writes(f, 11, 10, 50);
	ask(f, CHUNK_PROBE);
	snapshot(f, "10:20:11", 500);
	end(f);
	for (uint32_t i = 0; i < 4095; i++)
		writes(f, 20 + i, 100 + 10 * i, i);
	ask_nothing(f);
	writes(f, 9000, 90000, 1);
	ask(f, CHUNK_PROBE);
	snapshot(f, "10:9001:11", 95000);
	end(f);
	assert_int_equal(take(f)->n, 4096);
	ask_nothing(f); /* the one left is not worth another yet */
}

static void a_failed_probe_waits(void **state)
{
	struct fixture *f = *state;

	set_table(f, 1, 1, key_is_id, NULL);
	writes(f, 11, 100, 50);
	ask(f, CHUNK_PROBE);
	failed(f, CHUNK_LOST);
	ask_nothing(f);
	assert_int_equal(copier_next_at(f->c), f->now + SEC);
}

static void a_window_that_is_open_will_prune(void **state)
{
	struct fixture *f = *state;

	copying(f, 1);
	writes(f, 11, 100, 50);
	last_page(f, "20:20:", 500, 1, 1);
	ask_nothing(f);
	position(f, 500);
	assert_int_equal(count_ops(take_chunk(f, 500, 1), OP_UNSEEN_DROP), 1);
}

/* ==== replies that do not fit ==== */

static void refused(struct fixture *f, bool ok)
{
	assert_false(ok);
	assert_int_equal(f->err.kind, ERR_PROTOCOL);
}

static void replies_out_of_order_are_refused(void **state)
{
	struct fixture *f = *state;

	copying(f, 1);
	ask(f, CHUNK_PAGE);
	refused(f, try_row(f, "1", "a"));
	refused(f, copier_chunk_end(f->c, f->r->id, 10, f->now, &f->err));
	refused(f, copier_chunk_snapshot(f->c, f->r->id, "rubbish", false, LSN(500), &f->err));
	refused(f, copier_chunk_snapshot(f->c, f->r->id, "10:10:", false, LSN(0), &f->err));
	refused(f, copier_chunk_snapshot(f->c, f->r->id + 1, "10:10:", false, LSN(500), &f->err));
	snapshot(f, "10:10:", 500);
	refused(f, copier_chunk_snapshot(f->c, f->r->id, "10:10:", false, LSN(500), &f->err));
	refused(f, copier_chunk_end(f->c, f->r->id + 1, 10, f->now, &f->err));
	failed(f, CHUNK_LOST);
	f->now += SEC;
	last_page(f, "10:10:", 500, 1, 2);
	position(f, 500);
	take_chunk(f, 500, 2);
}

static void rows_that_do_not_fit_are_refused(void **state)
{
	struct fixture *f = *state;
	struct slice texts[3] = {slice_of("1"), slice_of("a"), slice_of("b")};

	copying(f, 1);
	ask(f, CHUNK_PAGE);
	snapshot(f, "10:10:", 500);
	refused(f, copier_chunk_row(f->c, f->r->id, texts, 1, &f->err));
	refused(f, copier_chunk_row(f->c, f->r->id, texts, 3, &f->err));
	refused(f, copier_chunk_row(f->c, f->r->id + 1, texts, 2, &f->err));
	refused(f, try_row(f, NULL, "a"));
	assert_non_null(strstr(f->err.msg, "\"id\""));
	refused(f, try_row(f, "not a number", "a"));
	row(f, "1", "a");
	refused(f, try_row(f, "1", "b"));
	failed(f, CHUNK_LOST);
	nothing_emitted(f);
}

static void more_rows_than_asked_for_are_refused(void **state)
{
	struct fixture *f = *state;

	copying(f, 1);
	ask(f, CHUNK_PAGE);
	snapshot(f, "10:10:", 500);
	rows(f, 1, 200);
	refused(f, try_row(f, "201", "a"));
}

static void a_probe_has_no_rows(void **state)
{
	struct fixture *f = *state;

	writes(f, 11, 100, 50);
	ask(f, CHUNK_PROBE);
	snapshot(f, "20:20:", 500);
	refused(f, try_row(f, "1", "a"));
}

/* As with a cursor that lost its end in a cast to a shorter type. */
static void a_page_that_stands_still_is_refused(void **state)
{
	struct fixture *f = *state;

	copying(f, 1);
	full_page(f, "10:10:", 500, 1);
	ask(f, CHUNK_PAGE);
	snapshot(f, "10:10:", 500);
	row(f, "200", "x");
	refused(f, copier_chunk_end(f->c, f->r->id, 10, f->now, &f->err));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(closes_when_the_stream_reaches_high),
		TEST(closes_at_the_begin_of_a_later_transaction),
		TEST(does_not_close_inside_a_transaction),
		TEST(closes_at_once_when_the_stream_is_past_high),
		TEST(waits_for_the_transaction_that_is_past_high),
		TEST(positions_never_go_back),
		TEST(bound_is_the_lowest_commit_that_s_does_not_see),
		TEST(transactions_without_a_change_do_not_count),
		TEST(the_stored_set_counts),
		TEST(a_standby_is_trusted_below_xmin_only),
		TEST(a_change_that_s_does_not_see_supersedes),
		TEST(rows_that_are_still_arriving_are_superseded_too),
		TEST(a_truncate_supersedes_every_row),
		TEST(a_transaction_cut_off_comes_again),
		TEST(a_chunk_carries_rows_snapshot_and_cursor),
		TEST(a_long_key_is_carried_whole),
		TEST(open_windows_are_bounded),
		TEST(memory_of_open_windows_is_bounded),
		TEST(pruning_follows_the_rows),
		TEST(an_open_window_keeps_what_it_does_not_see),
		TEST(a_chunk_that_is_arriving_keeps_what_it_does_not_see),
		TEST(a_chunk_asked_for_before_may_have_an_older_snapshot),
		TEST(a_chunk_asked_for_later_has_a_newer_snapshot),
		TEST(a_snapshot_that_sees_less_than_a_prune_is_refused),
		TEST(the_floor_does_not_sink),
		TEST(an_idle_copier_probes),
		TEST(many_unseen_are_probed_for_at_once),
		TEST(a_failed_probe_waits),
		TEST(a_window_that_is_open_will_prune),
		TEST(replies_out_of_order_are_refused),
		TEST(rows_that_do_not_fit_are_refused),
		TEST(more_rows_than_asked_for_are_refused),
		TEST(a_probe_has_no_rows),
		TEST(a_page_that_stands_still_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
