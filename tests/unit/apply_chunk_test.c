#include "apply_fixture.h"

#include "apply/xid_snapshot.h"

#define T   text_cell
#define NUL text_cell(NULL)
#define U   absent_cell() /* the log did not send it */

/* ---- what a snapshot sees ---- */

static bool sees(const char *text, bool standby, uint64_t xid)
{
	struct err err = {0};
	bool out;

	CHECK(xid_snapshot_sees(text, standby, XID(xid), &out, &err));
	return out;
}

static void a_snapshot_sees_what_was_over(void **state)
{
	(void)state;
	assert_true(sees("10:20:12,15", false, 9));
	assert_true(sees("10:20:12,15", false, 10));
	assert_false(sees("10:20:12,15", false, 12));
	assert_true(sees("10:20:12,15", false, 13));
	assert_false(sees("10:20:12,15", false, 15));
	assert_true(sees("10:20:12,15", false, 19));
	assert_false(sees("10:20:12,15", false, 20));
	assert_false(sees("10:20:12,15", false, 21));
	assert_true(sees("10:10:", false, 9));
	assert_false(sees("10:10:", false, 10));
	assert_true(sees("18446744073709551614:18446744073709551615:", false, 5));
}

static void on_a_standby_the_list_says_nothing(void **state)
{
	(void)state;
	assert_true(sees("10:20:", true, 9));
	assert_false(sees("10:20:", true, 10));
	assert_false(sees("10:20:", true, 19));
}

static void other_texts_are_no_snapshots(void **state)
{
	static const char *const bad[] = {"",
									  "10",
									  "10:",
									  "10:20",
									  ":20:",
									  "10::",
									  "10:20:,",
									  "10:20:1,",
									  "10:20:1;",
									  "10:20:1,,2",
									  "a:b:c",
									  "10:20:x",
									  "18446744073709551616:20:"};
	struct err err;
	bool out;

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		if (xid_snapshot_sees(bad[i], false, XID(1), &out, &err))
			fail_msg("\"%s\" was taken for a snapshot", bad[i]);
		assert_int_equal(err.kind, ERR_PROTOCOL);
	}
}

/* ---- rows ---- */

static struct op_chunk *add_page(struct batch *b, uint64_t run, uint64_t bound, const char *cursor,
								 uint32_t rows)
{
	struct op_chunk *c = add_chunk(b, 1, run, bound, "50:60:55");

	c->moves_cursor = true;
	c->cursor = (struct slice){arena_copy(&b->arena, cursor, strlen(cursor)), strlen(cursor)};
	c->rows_read = rows;
	return c;
}

static void a_page_goes_through_the_guard_and_into_the_record(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();
	struct run_record r;

	add_run(b, 1, 1);
	add_upsert(b, 1, at(10, 1), 1, T("older"), NUL, 0, -1);
	add_upsert(b, 1, at(10, 2), 2, T("same"), T(""), 0, -1);
	add_upsert(b, 1, at(40, 1), 3, T("newer"), NUL, 0, -1);
	add_delete(b, 1, at(10, 3), 4);
	add_delete(b, 1, at(40, 2), 5);
	add_upsert(b, 1, at(10, 4), 7, T("old"), U, 5, -1);
	add_commit(b, 40, 41, 5);
	add_page(b, 1, 20, "c1", 8)->high = LSN(45);
	for (int k = 1; k <= 8; k++)
		add_chunk_row(b, 1, k, T(k == 2 ? "same" : "copy"), k == 2 ? T("") : NUL)->flags =
			k == 6 ? OP_F_SUPERSEDED : 0;
	apply_commit_take(f, b);
	assert_entry(f, 1, 1, "20.0 copy NULL");
	assert_entry(f, 1, 2, "20.0 same ");
	assert_entry(f, 1, 3, "40.1 newer NULL");
	assert_entry(f, 1, 4, "20.0 copy NULL");
	assert_entry(f, 1, 5, "40.2 deleted");
	assert_entry(f, 1, 6, "absent");
	assert_entry(f, 1, 7, "20.0 copy NULL");
	assert_entry(f, 1, 8, "20.0 copy NULL");
	assert_counters(f, 1, 6, 0, 0, 1);
	r = run_now(f, 1);
	assert_int_equal(r.rows_read, 8);
	assert_int_equal(r.rows_written, 4); /* 1, 4, 7, 8 */
	assert_int_equal(r.rows_same, 1);    /* 2 */
	assert_int_equal(r.rows_newer, 2);   /* 3, 5 */
	assert_int_equal(r.rows_superseded, 1);
	assert_int_equal(r.chunks, 1);
	assert_true(slice_eq(r.cursor, slice_of("c1")));
	assert_string_equal(r.first_snapshot, "50:60:55");
	assert_int_equal(pos_cmp(r.lowest_bound, at(20, 0)), 0);
	assert_int_equal(r.last_high.v, 45);
	run_record_free(&r);
}

static void rows_from_before_a_truncate_stay_out(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();

	add_truncate(b, 1, at(30, 1));
	add_commit(b, 30, 31, 5);
	add_chunk(b, 1, 0, 20, "50:60:");
	add_chunk_row(b, 1, 1, T("from before"), NUL);
	add_chunk(b, 1, 0, 31, "70:70:");
	add_chunk_row(b, 1, 2, T("from after"), NUL);
	apply_commit_take(f, b);
	assert_entry(f, 1, 1, "absent");
	assert_entry(f, 1, 2, "31.0 from after NULL");
}

static void the_record_adds_up_over_chunks_and_restarts(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();
	struct err err = {0};
	struct run_record r;

	add_run(b, 1, 1);
	add_page(b, 1, 30, "first", 1);
	add_chunk_row(b, 1, 1, T("a"), NUL);
	apply_commit_take(f, b);
	applier_destroy(f->applier);
	CHECK(applier_create(f->store, &f->applier, &err));
	b = batch_create();
	add_page(b, 1, 20, "a longer second cursor", 2)->snapshot = "70:80:";
	add_chunk_row(b, 1, 2, T("a"), NUL);
	add_chunk_row(b, 1, 3, T("a"), NUL);
	add_page(b, 1, 25, "3", 0)->snapshot = "90:90:";
	apply_commit_take(f, b);
	r = run_now(f, 1);
	assert_int_equal(r.rows_read, 3);
	assert_int_equal(r.rows_written, 3);
	assert_int_equal(r.chunks, 3);
	assert_true(slice_eq(r.cursor, slice_of("3")));
	assert_string_equal(r.first_snapshot, "50:60:55");
	assert_string_equal(r.last_snapshot, "90:90:");
	assert_int_equal(pos_cmp(r.lowest_bound, at(20, 0)), 0);
	run_record_free(&r);
}

static void a_chunk_of_a_stopped_run_is_skipped_whole(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();
	struct run_record r;

	add_run(b, 1, 1);
	add_upsert(b, 1, at(10, 1), 2, T("stays"), NUL, 0, -1);
	add_commit(b, 10, 11, 5);
	batch_add_run_state(b, 1, 1, RUN_STOPPED, 77);
	add_page(b, 1, 20, "cursor", 1);
	add_chunk_row(b, 1, 1, T("too late"), NUL);
	add_gone(b, 1, 2);
	batch_add_run_state(b, 1, 1, RUN_DONE, 88); /* it has ended already */
	apply_commit_take(f, b);
	b = batch_create();
	add_page(b, 1, 20, "cursor", 1);
	add_chunk_row(b, 1, 1, T("later still"), NUL);
	apply_commit_take(f, b);
	assert_entry(f, 1, 1, "absent");
	assert_entry(f, 1, 2, "10.1 stays NULL");
	r = run_now(f, 1);
	assert_int_equal(r.state, RUN_STOPPED);
	assert_int_equal(r.ended_us, 77);
	assert_int_equal(r.chunks, 0);
	assert_int_equal(r.cursor.n, 0);
	run_record_free(&r);
	b = batch_create();
	add_page(b, 99, 20, "cursor", 1);
	apply_fails(f, b, ERR_BUG, "run 99");
}

/* A commit between them would store the cursor before the rows. */
static void a_chunk_does_not_go_on_in_another_batch(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();

	add_chunk(b, 1, 0, 20, "50:60:");
	add_chunk_row(b, 1, 1, T("a"), NUL);
	apply_take(f, b);
	b = batch_create();
	add_chunk_row(b, 1, 2, T("a"), NUL);
	apply_fails(f, b, ERR_BUG, "without its chunk");
}

static void an_incomplete_row_of_a_chunk_is_refused(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();

	add_chunk(b, 1, 0, 20, "50:60:");
	add_chunk_row(b, 1, 1, T("a"), U);
	apply_fails(f, b, ERR_BUG, "lacks values");
}

/* ---- rows in doubt ---- */

static struct batch *doubtful(struct fixture *f)
{
	struct batch *b = batch_create();

	add_upsert(b, 1, at(30, 1), 1, T("streamed"), U, 55, -1);
	add_commit(b, 30, 31, 55);
	apply_commit_take(f, b);
	return batch_create();
}

static void a_chunk_that_saw_the_transaction_fills_its_row(void **state)
{
	struct fixture *f = *state;
	struct batch *b = doubtful(f);

	add_chunk(b, 1, 0, 20, "56:60:");
	add_chunk_row(b, 1, 1, T("not taken: it was sent"), T("large"));
	apply_commit_take(f, b);
	assert_entry(f, 1, 1, "30.1 streamed large");
	assert_counters(f, 1, 1, 0, 0, 0);
}

static void a_chunk_that_did_not_see_it_leaves_the_row(void **state)
{
	struct fixture *f = *state;
	struct batch *b = doubtful(f);

	add_chunk(b, 1, 0, 20, "50:60:55");
	add_chunk_row(b, 1, 1, T("x"), T("large"));
	add_chunk(b, 1, 0, 20, "55:55:");
	add_chunk_row(b, 1, 1, T("x"), T("large"));
	add_chunk(b, 1, 0, 20, "50:60:")->standby = true;
	add_chunk_row(b, 1, 1, T("x"), T("large"));
	add_chunk(b, 1, 0, 20, "60:60:");
	add_chunk_row(b, 1, 1, T("x"), T("large"))->flags = OP_F_SUPERSEDED;
	apply_commit_take(f, b);
	assert_entry(f, 1, 1, "30.1 streamed -? born 55 hidden");
	assert_counters(f, 1, 0, 1, 1, 0);
}

static void a_chunk_with_a_higher_bound_replaces_it(void **state)
{
	struct fixture *f = *state;
	struct batch *b = doubtful(f);

	add_chunk(b, 1, 0, 40, "50:60:55");
	add_chunk_row(b, 1, 1, T("whole"), T("large"));
	apply_commit_take(f, b);
	assert_entry(f, 1, 1, "40.0 whole large");
	assert_counters(f, 1, 1, 0, 0, 0);
}

static void fills_and_kept_rows_are_counted(void **state)
{
	struct fixture *f = *state;
	struct batch *b = doubtful(f);
	struct run_record r;

	add_run(b, 1, 1);
	add_page(b, 1, 20, "c", 1);
	add_chunk_row(b, 1, 1, T("x"), T("not seen"));
	add_page(b, 1, 20, "c", 1)->snapshot = "60:60:";
	add_chunk_row(b, 1, 1, T("x"), T("seen"));
	apply_commit_take(f, b);
	r = run_now(f, 1);
	assert_int_equal(r.rows_newer, 1);
	assert_int_equal(r.rows_filled, 1);
	assert_int_equal(r.rows_written, 0);
	run_record_free(&r);
	assert_entry(f, 1, 1, "30.1 streamed seen");
}

/* The visible value that nobody vouches for is replaced by the source's. */
static void a_best_known_value_is_filled_too(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();

	add_upsert(b, 1, at(10, 1), 1, T("a"), T("ghost"), 0, -1);
	add_upsert(b, 1, at(30, 1), 1, T("a2"), U, 55, -1);
	add_commit(b, 30, 31, 55);
	add_chunk(b, 1, 0, 20, "60:60:");
	add_chunk_row(b, 1, 1, T("x"), NUL);
	apply_commit_take(f, b);
	assert_entry(f, 1, 1, "30.1 a2 NULL");
}

/* Columns go by name; one that the chunk does not have stays in doubt. */
static void other_schema_versions_fill_what_they_share(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();
	struct cell cells[2];
	struct op *op;

	add_upsert(b, 1, at(30, 1), 1, U, U, 55, -1);
	add_upsert(b, 1, at(30, 2), 2, U, T("b"), 55, -1);
	add_commit(b, 30, 31, 55);
	add_schema(b, 1, 2, "kb", 23);
	add_chunk(b, 1, 0, 20, "60:60:");
	for (int k = 1; k <= 2; k++) {
		cells[0] = (struct cell){.kind = CELL_TEXT, .text = int_text(&b->arena, k)};
		cells[1] = T("from the chunk");
		op = add_chunk_row(b, 1, k, NUL, NUL);
		set_row(b, op, POS_NONE, 2, 0, (struct slice){0}, cells, 2);
	}
	apply_commit_take(f, b);
	assert_entry(f, 1, 1, "30.1 -? from the chunk born 55 hidden");
	assert_entry(f, 1, 2, "30.2 -? b born 55 hidden");
	assert_counters(f, 1, 0, 2, 2, 0);
}

/* The same name, but another type: its text is no text of the row's column. */
static void another_type_fills_nothing(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();
	struct column columns[] = {{"k", 23, -1, "int4", 0}, {"a", 25, -1, "text", 0}, {"b", 17, -1, "bytea", 0}};
	uint16_t key_column = 0;
	uint8_t key_kind = KEY_INT4;
	struct schema s = {1, 2, 3, 1, columns, &key_column, &key_kind};
	struct cell cells[3] = {T("1"), T("x"), T("\\x00")};
	struct op *op;

	add_upsert(b, 1, at(30, 1), 1, T("a"), U, 55, -1);
	add_commit(b, 30, 31, 55);
	batch_add_schema(b, &s);
	add_chunk(b, 1, 0, 20, "60:60:");
	op = add_chunk_row(b, 1, 1, NUL, NUL);
	set_row(b, op, POS_NONE, 2, 0, (struct slice){0}, cells, 3);
	apply_commit_take(f, b);
	assert_entry(f, 1, 1, "30.1 a -? born 55 hidden");
}

/* ---- keys that the source does not have ---- */

static void gone_keys_become_markers(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();
	struct op_chunk *c;
	struct run_record r;

	add_run(b, 1, 1);
	add_upsert(b, 1, at(10, 1), 1, T("ghost"), NUL, 0, -1);
	add_upsert(b, 1, at(30, 1), 2, T("newer"), NUL, 0, -1);
	add_delete(b, 1, at(10, 2), 3);
	add_upsert(b, 1, at(10, 3), 5, T("ghost in doubt"), U, 7, -1);
	add_commit(b, 30, 31, 5);
	c = add_chunk(b, 1, 1, 20, "60:60:");
	c->moves_sweep = true;
	c->sweep_cursor = slice_of("sweep");
	for (int k = 1; k <= 5; k++)
		add_gone(b, 1, k);
	apply_commit_take(f, b);
	assert_entry(f, 1, 1, "20.0 deleted");
	assert_entry(f, 1, 2, "30.1 newer NULL");
	assert_entry(f, 1, 3, "20.0 deleted");
	assert_entry(f, 1, 4, "absent");
	assert_entry(f, 1, 5, "20.0 deleted");
	assert_counters(f, 1, 1, 0, 0, 3);
	r = run_now(f, 1);
	assert_int_equal(r.rows_swept, 2);
	assert_true(slice_eq(r.sweep_cursor, slice_of("sweep")));
	assert_int_equal(r.cursor.n, 0);
	/* Only pages lower it: suspects are what no page has reached. */
	assert_int_equal(pos_cmp(r.lowest_bound, POS_NONE), 0);
	run_record_free(&r);
}

/* ---- runs ---- */

static void assert_trust(struct fixture *f, uint64_t lsn, enum table_state state)
{
	struct table_record t = table_now(f, 1);

	assert_int_equal(t.trust.lsn.v, lsn);
	assert_int_equal(t.state, state);
	table_record_free(&t);
}

static void a_run_is_accepted_at_the_checkpoint(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();
	struct run_record r;

	add_commit(b, 10, 15, 5);
	add_run(b, 1, 1);
	add_commit(b, 20, 25, 6);
	apply_commit_take(f, b);
	r = run_now(f, 1);
	assert_int_equal(pos_cmp(r.accepted, at(15, 0)), 0);
	run_record_free(&r);
	assert_trust(f, 15, TABLE_COPYING);

	b = batch_create();
	add_run(b, 1, 1);
	apply_fails(f, b, ERR_BUG, "run 1 exists");
}

static void the_end_of_the_last_run_clears_trust(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();
	struct run_record r;

	add_commit(b, 10, 15, 5);
	add_run(b, 1, 1);
	add_commit(b, 20, 25, 6);
	add_run(b, 2, 1);
	add_run(b, 3, 2); /* of another table */
	batch_add_run_state(b, 1, 2, RUN_PAUSED, 0);
	apply_commit_take(f, b);
	assert_trust(f, 25, TABLE_COPYING);
	b = batch_create();
	batch_add_run_state(b, 1, 1, RUN_STOPPED, 5);
	apply_commit_take(f, b);
	assert_trust(f, 25, TABLE_COPYING);
	b = batch_create();
	batch_add_run_state(b, 1, 2, RUN_SWEEPING, 6);
	batch_add_run_state(b, 1, 2, RUN_DONE, 7);
	apply_commit_take(f, b);
	assert_trust(f, 0, TABLE_COPIED);
	r = run_now(f, 2);
	assert_int_equal(r.state, RUN_DONE);
	assert_int_equal(r.ended_us, 7);
	run_record_free(&r);
}

static void a_stopped_first_run_copies_nothing(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();

	add_run(b, 1, 1);
	batch_add_run_state(b, 1, 1, RUN_FAILED, 5);
	apply_commit_take(f, b);
	assert_trust(f, 0, TABLE_COPYING);
}

/* ---- questions ---- */

static struct op *add_list(struct batch *b, enum op_kind kind, uint64_t token, uint32_t limit,
						   struct slice after)
{
	struct op *op = batch_add(b, kind);

	op->table_id = 1;
	op->u.list.token = token;
	op->u.list.limit = limit;
	op->u.list.scan_limit = 100;
	if (after.n > 0) op->key = (struct slice){arena_copy(&b->arena, after.p, after.n), after.n};
	return op;
}

/* The one answer with keys of what b asks. */
static struct answer *ask(struct fixture *f, struct batch *b)
{
	struct answer *list, *next, *found = NULL;

	apply_take(f, b);
	assert_null(applier_take_answers(f->applier)); /* not before the commit */
	commit_now(f);
	for (list = applier_take_answers(f->applier); list; list = next) {
		next = list->next;
		list->next = NULL;
		if (list->kind == ANSWER_KEYS && !found)
			found = list;
		else
			answer_destroy(list);
	}
	assert_non_null(found);
	return found;
}

static void assert_keys(const struct answer *x, const char *keys, bool end)
{
	char text[256] = "";

	for (size_t i = 0, n = 0; i < x->nkeys; i++)
		n += (size_t)snprintf(text + n, sizeof text - n, "%s%.*s", i ? " " : "", (int)x->keys[i].texts[0].n,
							  (const char *)x->keys[i].texts[0].p);
	assert_string_equal(text, keys);
	assert_int_equal(x->end, end);
	assert_int_equal(x->table_id, 1);
}

static void some_rows(struct fixture *f)
{
	struct batch *b = batch_create();

	for (int k = 1; k <= 6; k++)
		add_upsert(b, 1, at(k % 2 ? 10 : 30, (uint64_t)k), k, T("a"), k > 2 ? U : NUL, 5, -1);
	add_delete(b, 1, at(30, 9), 4);
	add_commit(b, 30, 31, 5);
	apply_commit_take(f, b);
	answers_destroy(applier_take_answers(f->applier));
}

static void rows_in_doubt_are_listed_page_by_page(void **state)
{
	struct fixture *f = *state;
	struct batch *b;
	struct answer *x, *y;

	some_rows(f);
	b = batch_create();
	add_list(b, OP_LIST_DOUBT, 7, 2, (struct slice){0});
	x = ask(f, b);
	assert_keys(x, "3 5", false);
	assert_int_equal(x->token, 7);
	assert_int_equal(x->schema_version, 1);
	assert_true(slice_eq(x->resume, x->keys[1].key));
	b = batch_create();
	add_list(b, OP_LIST_DOUBT, 8, 2, x->resume);
	y = ask(f, b);
	assert_keys(y, "6", true);
	answer_destroy(x);
	b = batch_create();
	add_list(b, OP_LIST_DOUBT, 9, 2, y->resume);
	x = ask(f, b);
	assert_keys(x, "", true);
	assert_true(slice_eq(x->resume, y->resume));
	answer_destroy(x);
	answer_destroy(y);
}

static void a_full_page_knows_that_nothing_is_left(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();
	struct answer *x;

	some_rows(f);
	add_list(b, OP_LIST_DOUBT, 7, 3, (struct slice){0});
	x = ask(f, b);
	assert_keys(x, "3 5 6", true);
	answer_destroy(x);
}

static void suspects_are_live_rows_below_a_position(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();
	struct answer *x;
	struct slice resume;
	struct arena arena = {0};

	some_rows(f);
	add_list(b, OP_LIST_SUSPECTS, 7, 100, (struct slice){0})->pos = at(30, 2);
	x = ask(f, b);
	assert_keys(x, "1 3 5", true); /* 2 is at the position itself */
	answer_destroy(x);

	/* Looks at so many entries and no more, and goes on behind them. */
	b = batch_create();
	add_list(b, OP_LIST_SUSPECTS, 7, 100, (struct slice){0})->pos = at(30, 2);
	b->ops[0].u.list.scan_limit = 2;
	x = ask(f, b);
	assert_keys(x, "1", false);
	resume = (struct slice){arena_copy(&arena, x->resume.p, x->resume.n), x->resume.n};
	answer_destroy(x);
	assert_true(slice_eq(resume, int_key(&arena, 2)));
	b = batch_create();
	add_list(b, OP_LIST_SUSPECTS, 7, 1, resume)->pos = at(30, 2);
	x = ask(f, b);
	assert_keys(x, "3", false);
	answer_destroy(x);
	arena_finish(&arena);
}

static void a_question_alone_writes_nothing(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();
	int64_t before = applier_committed(f->applier).written_us;
	struct err err = {0};

	some_rows(f);
	add_list(b, OP_LIST_DOUBT, 7, 100, (struct slice){0});
	apply_take(f, b);
	assert_true(applier_is_open(f->applier));
	assert_false(applier_has_writes(f->applier));
	before = applier_committed(f->applier).written_us;
	CHECK(applier_commit(f->applier, before + 1000, &err));
	assert_int_equal(applier_committed(f->applier).written_us, before);
}

static void answers_see_what_came_before_them_and_die_with_an_abort(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();
	struct answer *x;

	add_upsert(b, 1, at(10, 1), 1, T("a"), U, 5, -1);
	add_commit(b, 10, 11, 5);
	add_list(b, OP_LIST_DOUBT, 7, 100, (struct slice){0});
	add_upsert(b, 1, at(20, 1), 2, T("a"), U, 5, -1);
	add_commit(b, 20, 21, 5);
	x = ask(f, b);
	assert_keys(x, "1", true);
	answer_destroy(x);
	b = batch_create();
	add_list(b, OP_LIST_DOUBT, 7, 100, (struct slice){0});
	apply_take(f, b);
	applier_abort(f->applier);
	commit_now(f);
	assert_null(applier_take_answers(f->applier));
}

static void changes_of_doubt_are_announced(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();
	struct answer *x;

	add_upsert(b, 1, at(10, 1), 1, T("a"), U, 5, -1);
	add_upsert(b, 1, at(10, 2), 2, T("a"), U, 5, -1);
	add_upsert(b, 2, at(10, 3), 1, T("a"), NUL, 0, -1);
	add_commit(b, 10, 11, 5);
	apply_commit_take(f, b);
	x = applier_take_answers(f->applier);
	assert_int_equal(x->kind, ANSWER_DOUBT);
	assert_int_equal(x->table_id, 1);
	assert_int_equal(x->count, 2);
	assert_null(x->next);
	answer_destroy(x);

	b = batch_create();
	add_upsert(b, 1, at(20, 1), 3, T("a"), NUL, 0, -1);
	add_commit(b, 20, 21, 5);
	apply_commit_take(f, b);
	assert_null(applier_take_answers(f->applier));

	b = batch_create();
	add_truncate(b, 1, at(30, 1));
	add_commit(b, 30, 31, 5);
	apply_commit_take(f, b);
	x = applier_take_answers(f->applier);
	assert_int_equal(x->count, 0);
	assert_null(x->next);
	answer_destroy(x);
}

/* ---- memory ---- */

static size_t dirtied(struct fixture *f, struct batch *b)
{
	size_t n;

	apply_take(f, b);
	n = applier_dirty_bytes(f->applier);
	commit_now(f);
	return n;
}

/* A chunk of a thousand rows, every `skip`-th left out. */
static struct batch *page_of(uint32_t table, uint64_t bound, int skip)
{
	struct batch *b = batch_create();

	add_chunk(b, table, 0, bound, "60:60:");
	for (int k = 0; k < 1000; k++)
		add_chunk_row(b, table, k, T("a"), NUL)->flags = skip && k % skip == 0 ? OP_F_SUPERSEDED : 0;
	return b;
}

static void rows_of_a_page_in_key_order_share_pages(void **state)
{
	struct fixture *f = *state;
	size_t n = dirtied(f, page_of(1, 20, 0));

	assert_true(n >= 1000 * 30);
	assert_true(n < 1000 * 200);
	/* Rows that were left out may be many: the next one counts in full. */
	assert_true(dirtied(f, page_of(1, 40, 2)) >= 500 * 4096);
}

static void rows_kept_as_they_are_part_pages_too(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();

	for (int k = 0; k < 1000; k += 2)
		add_upsert(b, 1, at(50, (uint64_t)k + 1), k, T("newer"), NUL, 0, -1);
	add_commit(b, 50, 51, 5);
	apply_commit_take(f, b);
	assert_true(dirtied(f, page_of(1, 20, 0)) >= 500 * 4096);
}

static void scattered_rows_count_in_full(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();

	for (int k = 0; k < 1000; k++)
		add_upsert(b, 1, at(30, (uint64_t)k + 1), k * 7 % 1000, T("a"), NUL, 0, -1);
	add_commit(b, 30, 31, 5);
	assert_true(dirtied(f, b) >= 800 * 4096); /* the first ones lie side by side */
}

/* The source may sort text otherwise than its bytes: what counts is where the rows go. */
static void pages_by_a_text_key_in_order_share_pages_too(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();

	add_table(b, 3, TABLE_COPYING);
	add_schema(b, 3, 1, "kab", 25);
	apply_commit_take(f, b);
	assert_true(dirtied(f, page_of(3, 20, 0)) < 1000 * 200);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_snapshot_sees_what_was_over),
		cmocka_unit_test(on_a_standby_the_list_says_nothing),
		cmocka_unit_test(other_texts_are_no_snapshots),
		TEST(a_page_goes_through_the_guard_and_into_the_record),
		TEST(rows_from_before_a_truncate_stay_out),
		TEST(the_record_adds_up_over_chunks_and_restarts),
		TEST(a_chunk_of_a_stopped_run_is_skipped_whole),
		TEST(a_chunk_does_not_go_on_in_another_batch),
		TEST(an_incomplete_row_of_a_chunk_is_refused),
		TEST(a_chunk_that_saw_the_transaction_fills_its_row),
		TEST(a_chunk_that_did_not_see_it_leaves_the_row),
		TEST(a_chunk_with_a_higher_bound_replaces_it),
		TEST(fills_and_kept_rows_are_counted),
		TEST(a_best_known_value_is_filled_too),
		TEST(other_schema_versions_fill_what_they_share),
		TEST(another_type_fills_nothing),
		TEST(gone_keys_become_markers),
		TEST(a_run_is_accepted_at_the_checkpoint),
		TEST(the_end_of_the_last_run_clears_trust),
		TEST(a_stopped_first_run_copies_nothing),
		TEST(rows_in_doubt_are_listed_page_by_page),
		TEST(a_full_page_knows_that_nothing_is_left),
		TEST(suspects_are_live_rows_below_a_position),
		TEST(a_question_alone_writes_nothing),
		TEST(answers_see_what_came_before_them_and_die_with_an_abort),
		TEST(changes_of_doubt_are_announced),
		TEST(rows_of_a_page_in_key_order_share_pages),
		TEST(rows_kept_as_they_are_part_pages_too),
		TEST(scattered_rows_count_in_full),
		TEST(pages_by_a_text_key_in_order_share_pages_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
