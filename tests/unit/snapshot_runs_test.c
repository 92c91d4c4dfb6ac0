#include "tests/unit/snapshot_copier_fixture.h"

#include "snapshot/copier_impl.h"

/* ==== pages ==== */

static void pages_go_on_behind_the_last_row(void **state)
{
	struct fixture *f = *state;

	set_table(f, 1, 1, key_is_both, NULL);
	start_run(f, 1, false, NULL);
	take(f);
	ask(f, CHUNK_PAGE);
	assert_int_equal(f->r->nparams, 1);
	assert_string_equal(f->r->params[0], "200");
	snapshot(f, "10:10:", 500);
	rows(f, 1, 200);
	end(f);
	ask(f, CHUNK_PAGE); /* before the first window has closed */
	assert_int_equal(f->r->nparams, 3);
	assert_string_equal(f->r->params[0], "x");
	assert_string_equal(f->r->params[1], "200");
	assert_non_null(strstr(f->r->select_sql, "(\"note\", \"id\") > ($1::text, $2::integer)"));
	nothing_emitted(f);
}

static void a_short_page_is_the_last(void **state)
{
	struct fixture *f = *state;
	struct batch *b;
	struct copier_progress p;

	copying(f, 1);
	full_page(f, "10:10:", 500, 1);
	last_page(f, "10:10:", 600, 201, 10);
	ask_nothing(f);
	position(f, 500);
	b = take_chunk(f, 500, 200);
	assert_int_equal(count_ops(b, OP_RUN_STATE), 0);
	assert_false(copier_table_is_live(f->c, 1));
	position(f, 600);
	b = take_chunk(f, 600, 10);
	run_moved(b, RUN_DONE);
	assert_int_equal(op_of(b, OP_RUN_STATE, 0)->u.run.run_id, 5);
	assert_int_equal(op_of(b, OP_RUN_STATE, 0)->u.run.time_us, f->now);
	assert_true(copier_table_is_live(f->c, 1));
	assert_true(copier_all_live(f->c));
	assert_true(copier_get_progress(f->c, 1, &p));
	assert_int_equal(p.rows_read, 210);
	assert_int_equal(p.state, RUN_DONE);
}

static void an_empty_table_is_one_page(void **state)
{
	struct fixture *f = *state;
	struct batch *b;

	copying(f, 1);
	last_page(f, "10:10:", 500, 1, 0);
	position(f, 500);
	b = take_chunk(f, 500, 0);
	assert_true(b->ops[0].u.run.chunk->moves_cursor); /* it also makes the bound durable */
	assert_int_equal(b->ops[0].u.run.chunk->cursor.n, 0);
	run_moved(b, RUN_DONE);
}

/* H of a later page may be lower, with two connections or a standby; the cursor may not skip the page before.
 */
static void pages_of_a_run_close_in_order(void **state)
{
	struct fixture *f = *state;

	copying(f, 1);
	copying(f, 2);
	full_page(f, "10:10:", 500, 1);
	full_page(f, "10:10:", 410, 1);
	full_page(f, "10:10:", 400, 201);
	position(f, 410);
	assert_int_equal(take_chunk(f, 410, 200)->ops[0].table_id, 2); /* the other table does not wait */
	nothing_emitted(f);
	position(f, 500);
	is_key(op_of(take_chunk(f, 500, 200), OP_CHUNK_ROW, 0)->key, 1);
	is_key(op_of(take_chunk(f, 400, 200), OP_CHUNK_ROW, 0)->key, 201);
}

static void a_restart_goes_on_from_the_stored_cursor(void **state)
{
	struct fixture *f = *state;
	struct run_record r = {
		.id = 9, .table_id = 1, .kind = RUN_INITIAL, .state = RUN_COPYING, .requester = "run"};
	struct copier_progress p;

	r.gate = r.first_snapshot = r.last_snapshot = "";
	r.cursor = slice_of("\00242");
	r.rows_read = 42;
	copier_load_run(f->c, &r);
	ask_nothing(f); /* the table is not known yet */
	set_table(f, 1, 1, key_is_id, NULL);
	ask(f, CHUNK_PAGE);
	assert_int_equal(f->r->run_id, 9);
	assert_string_equal(f->r->params[0], "42");
	assert_true(copier_get_progress(f->c, 1, &p));
	assert_int_equal(p.rows_read, 42);
	failed(f, CHUNK_LOST);
	assert_int_equal(start_run(f, 2, false, NULL), 10);
}

static void a_paused_run_waits(void **state)
{
	struct fixture *f = *state;
	struct run_record r = {
		.id = 9, .table_id = 1, .kind = RUN_INITIAL, .state = RUN_PAUSED, .requester = "run"};

	r.gate = r.first_snapshot = r.last_snapshot = "";
	set_table(f, 1, 1, key_is_id, NULL);
	copier_load_run(f->c, &r);
	ask_nothing(f);
	assert_int_equal(copier_next_at(f->c), INT64_MAX);
	assert_false(copier_all_live(f->c));
}

static void a_failed_page_is_asked_again_from_the_last_received(void **state)
{
	struct fixture *f = *state;
	uint64_t id;

	copying(f, 1);
	full_page(f, "10:10:", 500, 1);
	ask(f, CHUNK_PAGE);
	snapshot(f, "10:10:", 510);
	rows(f, 201, 5);
	id = f->r->id;
	failed(f, CHUNK_LOST);
	copier_chunk_failed(f->c, id, CHUNK_LOST, f->now); /* it is over already */
	ask_nothing(f);
	assert_int_equal(copier_next_at(f->c), f->now + SEC / 10);
	f->now = copier_next_at(f->c);
	ask(f, CHUNK_PAGE);
	assert_true(f->r->id > id);
	assert_string_equal(f->r->params[0], "200");
	failed(f, CHUNK_LOST);
	assert_int_equal(copier_next_at(f->c), f->now + SEC / 5);
	position(f, 500);
	take_chunk(f, 500, 200);
}

static void a_timeout_asks_for_less(void **state)
{
	struct fixture *f = *state;

	copying(f, 1);
	ask(f, CHUNK_PAGE);
	failed(f, CHUNK_TIMEOUT);
	f->now += SEC;
	ask(f, CHUNK_PAGE);
	assert_string_equal(f->r->params[0], "100");
}

static void a_missing_column_waits_for_the_new_schema(void **state)
{
	struct fixture *f = *state;

	copying(f, 1);
	ask(f, CHUNK_PAGE);
	failed(f, CHUNK_SCHEMA);
	assert_int_equal(copier_next_at(f->c), f->now + SEC);
	ask_nothing(f);
	set_table(f, 1, 2, key_is_id, NULL);
	ask(f, CHUNK_PAGE);
}

static void the_pace_follows_what_is_measured(void **state)
{
	struct fixture *f = *state;

	copying(f, 1);
	ask(f, CHUNK_PAGE);
	snapshot(f, "10:10:", 500);
	rows(f, 1, 200);
	end_after(f, 1000);
	ask(f, CHUNK_PAGE);
	assert_string_equal(f->r->params[1], "400");
}

/* A page of large rows ends early; the next one begins behind the last row that was kept. */
static void a_page_that_is_too_large_is_cut(void **state)
{
	struct fixture *f = *state;
	struct copier_config config = fixture_config;
	char large[1001];
	struct batch *b;

	config.chunk_bytes = 2000;
	fixture_restart(f, &config);
	copying(f, 1);
	memset(large, 'x', 1000);
	large[1000] = '\0';
	ask(f, CHUNK_PAGE);
	snapshot(f, "10:10:", 500);
	for (int i = 1; i <= 9; i++)
		row(f, (char[]){(char)('0' + i), 0}, large);
	end(f);
	position(f, 500);
	b = take_chunk(f, 500, 3);
	assert_int_equal(b->ops[0].u.run.chunk->rows_read, 3);
	assert_int_equal(count_ops(b, OP_RUN_STATE), 0); /* short, but not the last */
	ask(f, CHUNK_PAGE);
	assert_string_equal(f->r->params[0], "3");
	assert_string_equal(f->r->params[1], "1"); /* and slower from here */
}

static void a_row_larger_than_the_budget_passes(void **state)
{
	struct fixture *f = *state;
	struct copier_config config = fixture_config;

	config.chunk_bytes = 4;
	fixture_restart(f, &config);
	copying(f, 1);
	ask(f, CHUNK_PAGE);
	snapshot(f, "10:10:", 500);
	row(f, "1", "much more than four bytes");
	row(f, "2", "b");
	end(f);
	position(f, 500);
	take_chunk(f, 500, 1);
}

/* ==== sweep ==== */

static const struct op *sweep_begins(struct fixture *f)
{
	set_table(f, 1, 1, key_is_id, NULL);
	start_run(f, 1, true, NULL);
	take(f);
	writes(f, 11, 300, 90);
	full_page(f, "10:12:11", 500, 1);
	last_page(f, "20:20:", 600, 201, 1);
	position(f, 600);
	take_chunk(f, 300, 200);
	run_moved(take_chunk(f, 600, 1), RUN_SWEEPING);
	ask_nothing(f);
	return take_listing(f, OP_LIST_SUSPECTS);
}

static void a_sweep_asks_for_suspects_below_the_lowest_bound(void **state)
{
	struct fixture *f = *state;
	const struct op *listing = sweep_begins(f);

	assert_int_equal(listing->pos.epoch, EPOCH);
	assert_int_equal(listing->pos.lsn.v, 300);
	assert_int_equal(listing->pos.ordinal, 0);
	assert_int_equal(listing->key.n, 0);
	assert_int_equal(listing->u.list.limit, 200);
	assert_int_equal(listing->u.list.scan_limit, 50000);
	ask_nothing(f); /* until the answer comes */
}

static void suspects_that_the_source_does_not_have_are_gone(void **state)
{
	struct fixture *f = *state;
	const struct op *listing = sweep_begins(f);
	struct batch *b;

	answer_listing(f, listing, 1, (struct listed[]){{3, NULL}, {5, NULL}, {8, NULL}}, 3, 9, false);
	ask(f, CHUNK_EXISTS);
	assert_int_equal(f->r->ncolumns, 1);
	assert_int_equal(f->r->run_id, 5);
	assert_string_equal(f->r->params[0], "{\"3\",\"5\",\"8\"}");
	assert_int_equal(strncmp(f->r->select_sql, "SELECT \"id\" FROM", 16), 0);
	snapshot(f, "20:20:", 700);
	key_row(f, "5");
	end(f);
	nothing_emitted(f);
	position(f, 700);
	b = take_chunk(f, 700, 0);
	assert_int_equal(count_ops(b, OP_CHUNK_GONE), 2);
	is_key(op_of(b, OP_CHUNK_GONE, 0)->key, 3);
	is_key(op_of(b, OP_CHUNK_GONE, 1)->key, 8);
	assert_false(b->ops[0].u.run.chunk->moves_cursor);
	assert_true(b->ops[0].u.run.chunk->moves_sweep);
	is_key(b->ops[0].u.run.chunk->sweep_cursor, 9);
	assert_int_equal(b->ops[0].u.run.chunk->rows_read, 0);
	assert_int_equal(count_ops(b, OP_RUN_STATE), 0);
	assert_false(copier_table_is_live(f->c, 1));

	ask_nothing(f);
	listing = take_listing(f, OP_LIST_SUSPECTS);
	is_key(listing->key, 9);
	answer_listing(f, listing, 1, (struct listed[]){{11, NULL}}, 1, 12, true);
	ask(f, CHUNK_EXISTS);
	snapshot(f, "20:20:", 800);
	end(f);
	position(f, 800);
	b = take_chunk(f, 800, 0);
	is_key(op_of(b, OP_CHUNK_GONE, 0)->key, 11);
	run_moved(b, RUN_DONE);
	assert_true(copier_table_is_live(f->c, 1));
}

static void a_stretch_without_suspects_is_skipped(void **state)
{
	struct fixture *f = *state;
	const struct op *listing = sweep_begins(f);

	answer_listing(f, listing, 1, NULL, 0, 9, false);
	ask_nothing(f);
	listing = take_listing(f, OP_LIST_SUSPECTS);
	is_key(listing->key, 9);
	begin(f, 40, 900);
	answer_listing(f, listing, 1, NULL, 0, 20, true);
	nothing_emitted(f); /* inside a transaction */
	commit(f, 905);
	run_moved(take(f), RUN_DONE);
	assert_true(copier_table_is_live(f->c, 1));
}

static void a_listing_made_under_another_schema_is_made_again(void **state)
{
	struct fixture *f = *state;
	const struct op *listing = sweep_begins(f);

	answer_listing(f, listing, 2, (struct listed[]){{3, NULL}}, 1, 9, false);
	ask_nothing(f);
	listing = take_listing(f, OP_LIST_SUSPECTS);
	assert_int_equal(listing->key.n, 0);
	answer_listing(f, listing, 1, (struct listed[]){{3, NULL}}, 1, 9, false);
	ask(f, CHUNK_EXISTS);
}

static void an_answer_to_another_question_is_ignored(void **state)
{
	struct fixture *f = *state;
	struct op listing = *sweep_begins(f);

	listing.u.list.token += 100;
	answer_listing(f, &listing, 1, (struct listed[]){{3, NULL}}, 1, 9, false);
	ask_nothing(f);
	nothing_emitted(f);
	listing.table_id = 77;
	answer_listing(f, &listing, 1, NULL, 0, 9, true);
	nothing_emitted(f);
}

static void a_failed_check_lists_again(void **state)
{
	struct fixture *f = *state;
	const struct op *listing = sweep_begins(f);

	answer_listing(f, listing, 1, (struct listed[]){{3, NULL}, {4, NULL}}, 2, 9, false);
	ask(f, CHUNK_EXISTS);
	failed(f, CHUNK_TIMEOUT);
	f->now += SEC;
	ask_nothing(f);
	listing = take_listing(f, OP_LIST_SUSPECTS);
	assert_int_equal(listing->key.n, 0);
	assert_int_equal(listing->u.list.limit, 100);
}

/* The lowest bound and the place of the sweep come from the record. */
static void a_restart_goes_on_with_the_sweep(void **state)
{
	struct fixture *f = *state;
	struct run_record r = {
		.id = 9, .table_id = 1, .kind = RUN_RESYNC, .state = RUN_SWEEPING, .requester = "run"};
	const struct op *listing;

	r.gate = r.first_snapshot = r.last_snapshot = "";
	r.sweep = true;
	r.sweep_cursor = key_of(6);
	r.lowest_bound = (struct pos){EPOCH, LSN(77), 0};
	set_table(f, 1, 1, key_is_id, NULL);
	copier_load_run(f->c, &r);
	ask_nothing(f);
	listing = take_listing(f, OP_LIST_SUSPECTS);
	assert_int_equal(listing->pos.lsn.v, 77);
	is_key(listing->key, 6);
}

/* ==== change of the table ==== */

static void a_new_schema_goes_back_to_the_last_closed_page(void **state)
{
	struct fixture *f = *state;

	copying(f, 1);
	full_page(f, "10:10:", 500, 1);
	position(f, 500);
	take_chunk(f, 500, 200);
	full_page(f, "10:10:", 600, 201);
	full_page(f, "10:10:", 700, 401);
	set_table(f, 1, 2, key_is_id, NULL);
	position(f, 1000);
	nothing_emitted(f);
	ask(f, CHUNK_PAGE);
	assert_string_equal(f->r->params[0], "200");
	snapshot(f, "10:10:", 800);
	rows(f, 201, 3);
	end(f);
	assert_int_equal(row_version((struct slice){op_of(take_chunk(f, 800, 3), OP_CHUNK_ROW, 0)->body, 64}), 2);
}

static void a_last_page_that_is_given_up_is_asked_again(void **state)
{
	struct fixture *f = *state;

	copying(f, 1);
	last_page(f, "10:10:", 500, 1, 3);
	set_table(f, 1, 2, key_is_id, NULL);
	ask(f, CHUNK_PAGE);
}

static void a_chunk_asked_for_under_the_old_schema_means_nothing(void **state)
{
	struct fixture *f = *state;
	struct slice odd[3] = {{0}};

	copying(f, 1);
	position(f, 1000);
	ask(f, CHUNK_PAGE);
	snapshot(f, "10:10:", 500);
	rows(f, 1, 2);
	set_table(f, 1, 2, key_is_id, NULL);
	ask_nothing(f); /* it is still unanswered */
	assert_true(copier_chunk_row(f->c, f->c->requests->pub.id, odd, 3, &f->err));
	assert_true(copier_chunk_end(f->c, f->c->requests->pub.id, 10, f->now, &f->err));
	nothing_emitted(f);
	ask(f, CHUNK_PAGE);
	assert_int_equal(f->r->nparams, 1);

	set_table(f, 1, 3, key_is_id, NULL);
	failed(f, CHUNK_SCHEMA);
	ask(f, CHUNK_PAGE); /* at once: it was the old text that failed */
}

static void another_filter_is_another_text(void **state)
{
	struct fixture *f = *state;
	char name[64];

	copying(f, 1);
	ask(f, CHUNK_PAGE);
	snprintf(name, sizeof name, "%s", f->r->statement);
	failed(f, CHUNK_LOST);
	set_table(f, 1, 1, key_is_id, "id > 5");
	ask(f, CHUNK_PAGE);
	assert_string_not_equal(f->r->statement, name);
	assert_non_null(strstr(f->r->select_sql, "WHERE (id > 5)"));
}

static void the_same_again_changes_nothing(void **state)
{
	struct fixture *f = *state;

	copying(f, 1);
	full_page(f, "10:10:", 500, 1);
	set_table(f, 1, 1, key_is_id, NULL);
	position(f, 500);
	take_chunk(f, 500, 200);
}

static void another_key_starts_from_the_start(void **state)
{
	struct fixture *f = *state;

	copying(f, 1);
	full_page(f, "10:10:", 500, 1);
	position(f, 500);
	take_chunk(f, 500, 200);
	set_table(f, 1, 2, key_is_note, NULL);
	ask(f, CHUNK_PAGE);
	assert_int_equal(f->r->nparams, 1);
}

static void a_sweep_lists_again_under_a_new_schema(void **state)
{
	struct fixture *f = *state;
	const struct op *listing = sweep_begins(f);

	answer_listing(f, listing, 1, (struct listed[]){{3, NULL}}, 1, 9, false);
	ask(f, CHUNK_EXISTS);
	snapshot(f, "20:20:", 700);
	end(f);
	set_table(f, 1, 2, key_is_id, NULL);
	position(f, 700);
	nothing_emitted(f);
	ask_nothing(f);
	listing = take_listing(f, OP_LIST_SUSPECTS);
	assert_int_equal(listing->key.n, 0);
}

static void a_removed_table_leaves_nothing_behind(void **state)
{
	struct fixture *f = *state;
	struct batch *b;

	copying(f, 1);
	copying(f, 2);
	full_page(f, "10:10:", 500, 1);
	full_page(f, "10:10:", 500, 1);
	ask(f, CHUNK_PAGE);
	assert_int_equal(f->asked_table, 1);
	copier_remove_table(f->c, 1);
	copier_remove_table(f->c, 1);
	b = take(f);
	run_moved(b, RUN_STOPPED);
	assert_int_equal(b->ops[0].table_id, 1);
	end(f);
	position(f, 500);
	assert_int_equal(take_chunk(f, 500, 200)->ops[0].table_id, 2);
	nothing_emitted(f);
	ask(f, CHUNK_PAGE);
	assert_int_equal(f->asked_table, 2);
}

/* ==== runs ==== */

static void a_run_begins_with_its_record(void **state)
{
	struct fixture *f = *state;
	struct run_record r;
	struct batch *b;

	set_table(f, 1, 1, key_is_id, NULL);
	assert_int_equal(copier_start_run(f->c, 1, RUN_SCHEMA, true, "7:7:", "schema change", f->now), 5);
	b = take(f);
	assert_int_equal(b->n, 1);
	assert_int_equal(b->ops[0].kind, OP_RUN);
	assert_int_equal(b->ops[0].table_id, 1);
	assert_true(run_record_decode((struct slice){b->ops[0].body, b->ops[0].body_len}, &r, &f->err));
	assert_int_equal(r.id, 5);
	assert_int_equal(r.kind, RUN_SCHEMA);
	assert_int_equal(r.state, RUN_COPYING);
	assert_true(r.sweep);
	assert_string_equal(r.gate, "7:7:");
	assert_string_equal(r.requester, "schema change");
	assert_int_equal(r.started_us, f->now);
	assert_int_equal(r.cursor.n, 0);
	run_record_free(&r);
	assert_int_equal(start_run(f, 2, false, NULL), 6);
}

static void a_new_run_ends_the_open_one(void **state)
{
	struct fixture *f = *state;
	struct batch *b;

	copying(f, 1);
	full_page(f, "10:10:", 500, 1);
	ask(f, CHUNK_PAGE);
	assert_int_equal(start_run(f, 1, false, NULL), 6);
	b = take(f);
	assert_int_equal(b->ops[0].kind, OP_RUN_STATE);
	assert_int_equal(b->ops[0].state, RUN_STOPPED);
	assert_int_equal(b->ops[0].u.run.run_id, 5);
	assert_int_equal(b->ops[1].kind, OP_RUN);
	end(f);
	position(f, 500);
	nothing_emitted(f);
	ask(f, CHUNK_PAGE);
	assert_int_equal(f->r->run_id, 6);
	assert_int_equal(f->r->nparams, 1);
}

/* A store with two open runs of a table: the newer one goes on. */
static void of_two_stored_runs_the_newer_goes_on(void **state)
{
	struct fixture *f = *state;
	struct run_record r = {.table_id = 1, .kind = RUN_RESYNC, .state = RUN_COPYING, .requester = "run"};

	r.gate = r.first_snapshot = r.last_snapshot = "";
	set_table(f, 1, 1, key_is_id, NULL);
	for (uint64_t id = 2; id <= 4; id++) {
		r.id = id == 2 ? 3 : id == 3 ? 2 : 4;
		copier_load_run(f->c, &r);
	}
	assert_int_equal(op_of(take(f), OP_RUN_STATE, 0)->u.run.run_id, 2);
	assert_int_equal(op_of(take(f), OP_RUN_STATE, 0)->u.run.run_id, 3);
	nothing_emitted(f);
	ask(f, CHUNK_PAGE);
	assert_int_equal(f->r->run_id, 4);
}

static void the_caller_says_whether_a_table_is_copied(void **state)
{
	struct fixture *f = *state;
	struct schema s = schema_of(1, 1, key_is_id);
	struct copier_table t = {.schema = &s, .from_sql = "\"t\"", .copied = true};

	copier_set_table(f->c, &t);
	assert_true(copier_table_is_live(f->c, 1));
	copier_start_run(f->c, 1, RUN_RESNAPSHOT, false, NULL, "user", f->now);
	assert_true(copier_table_is_live(f->c, 1));
	t.copied = false;
	copier_set_table(f->c, &t);
	assert_false(copier_table_is_live(f->c, 1));
	assert_false(copier_table_is_live(f->c, 9));
}

static void tables_take_turns(void **state)
{
	struct fixture *f = *state;

	copying(f, 1);
	copying(f, 2);
	position(f, 10000);
	for (uint32_t i = 0; i < 3; i++) {
		full_page(f, "10:10:", 500, 1 + i * 200);
		assert_int_equal(f->asked_table, 1);
		full_page(f, "10:10:", 500, 1 + i * 200);
		assert_int_equal(f->asked_table, 2);
	}
}

/* Every statement name stands for one text. */
static void statements_are_named_by_their_text(void **state)
{
	struct fixture *f = *state;
	char name[64];

	copying(f, 1);
	ask(f, CHUNK_PAGE);
	snprintf(name, sizeof name, "%s", f->r->statement);
	snapshot(f, "10:10:", 500);
	rows(f, 1, 200);
	end(f);
	ask(f, CHUNK_PAGE);
	assert_string_not_equal(f->r->statement, name);
	assert_string_equal(f->r->lock_sql, "LOCK TABLE ONLY \"public\".\"t\" IN ACCESS SHARE MODE");
	snprintf(name, sizeof name, "%s", f->r->statement);
	snapshot(f, "10:10:", 500);
	rows(f, 201, 200);
	end(f);
	ask(f, CHUNK_PAGE);
	assert_string_equal(f->r->statement, name);
	assert_true(strlen(name) < 63);
}

/* ==== between transactions ==== */

static void questions_wait_for_the_end_of_a_transaction(void **state)
{
	struct fixture *f = *state;

	doubt_begins(f, key_is_id);
	doubt_is(f, 2, 1);
	set_table(f, 2, 1, key_is_id, NULL);
	begin(f, 11, 100);
	ask_nothing(f);
	nothing_emitted(f);
	commit(f, 105);
	assert_int_equal(take_listing(f, OP_LIST_DOUBT)->table_id, 2);
}

static void a_clock_that_goes_back_a_little_stands_still(void **state)
{
	struct fixture *f = *state;

	copying(f, 1);
	ask(f, CHUNK_PAGE);
	copier_chunk_failed(f->c, f->r->id, CHUNK_LOST, f->now - SEC / 2);
	assert_int_equal(copier_next_at(f->c), f->now + SEC / 10);
	assert_null(copier_next(f->c, f->now - SEC / 2));
}

/* What was due in a moment must not be an hour away. */
static void a_clock_that_is_set_back_holds_nothing_up(void **state)
{
	struct fixture *f = *state;

	copying(f, 1);
	set_table(f, 2, 1, key_is_id, NULL);
	start_run(f, 2, false, "20:20:");
	take(f);
	ask(f, CHUNK_PAGE);
	failed(f, CHUNK_LOST);
	last_page(f, "19:25:19", 500, 1, 1); /* refused by the gate of table 2 */
	ask_nothing(f);
	f->now -= 3600 * (int64_t)SEC;
	ask(f, CHUNK_PAGE);
	assert_int_equal(f->asked_table, 1);
	failed(f, CHUNK_SCHEMA);
	ask(f, CHUNK_PAGE);
	assert_int_equal(f->asked_table, 2);
	failed(f, CHUNK_SCHEMA);
	assert_int_equal(copier_next_at(f->c), f->now + SEC);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(pages_go_on_behind_the_last_row),
		TEST(a_short_page_is_the_last),
		TEST(an_empty_table_is_one_page),
		TEST(pages_of_a_run_close_in_order),
		TEST(a_restart_goes_on_from_the_stored_cursor),
		TEST(a_paused_run_waits),
		TEST(a_failed_page_is_asked_again_from_the_last_received),
		TEST(a_timeout_asks_for_less),
		TEST(a_missing_column_waits_for_the_new_schema),
		TEST(the_pace_follows_what_is_measured),
		TEST(a_page_that_is_too_large_is_cut),
		TEST(a_row_larger_than_the_budget_passes),
		TEST(a_sweep_asks_for_suspects_below_the_lowest_bound),
		TEST(suspects_that_the_source_does_not_have_are_gone),
		TEST(a_stretch_without_suspects_is_skipped),
		TEST(a_listing_made_under_another_schema_is_made_again),
		TEST(an_answer_to_another_question_is_ignored),
		TEST(a_failed_check_lists_again),
		TEST(a_restart_goes_on_with_the_sweep),
		TEST(a_new_schema_goes_back_to_the_last_closed_page),
		TEST(a_last_page_that_is_given_up_is_asked_again),
		TEST(a_chunk_asked_for_under_the_old_schema_means_nothing),
		TEST(another_filter_is_another_text),
		TEST(the_same_again_changes_nothing),
		TEST(another_key_starts_from_the_start),
		TEST(a_sweep_lists_again_under_a_new_schema),
		TEST(a_removed_table_leaves_nothing_behind),
		TEST(a_run_begins_with_its_record),
		TEST(a_new_run_ends_the_open_one),
		TEST(of_two_stored_runs_the_newer_goes_on),
		TEST(the_caller_says_whether_a_table_is_copied),
		TEST(tables_take_turns),
		TEST(statements_are_named_by_their_text),
		TEST(questions_wait_for_the_end_of_a_transaction),
		TEST(a_clock_that_goes_back_a_little_stands_still),
		TEST(a_clock_that_is_set_back_holds_nothing_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
