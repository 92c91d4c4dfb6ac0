#include "apply_fixture.h"

/* Runs over a part of a table or over listed keys, their states, and the questions they ask. */

#define T   text_cell
#define NUL text_cell(NULL)
#define U   absent_cell()

static struct run_record a_run(uint64_t id)
{
	return (struct run_record){.id = id,
							   .table_id = 1,
							   .kind = RUN_RESNAPSHOT,
							   .state = RUN_COPYING,
							   .requester = "test",
							   .gate = "",
							   .first_snapshot = "",
							   .last_snapshot = ""};
}

static void assert_state(struct fixture *f, uint64_t id, enum run_state state, uint8_t resumes_as,
						 const char *why)
{
	struct run_record r = run_now(f, id);

	assert_int_equal(r.state, state);
	assert_int_equal(r.resumes_as, resumes_as);
	assert_string_equal(r.error, why);
	run_record_free(&r);
}

static void take_state(struct fixture *f, uint64_t id, enum run_state state, const char *why)
{
	struct batch *b = batch_create();

	batch_add_run_end(b, 1, id, state, 7, why);
	apply_commit_take(f, b);
}

/* ---- states ---- */

static void a_paused_run_knows_what_it_was(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();

	add_run(b, 1, 1);
	apply_commit_take(f, b);
	take_state(f, 1, RUN_SWEEPING, "");
	take_state(f, 1, RUN_PAUSED, "asked to");
	assert_state(f, 1, RUN_PAUSED, RUN_SWEEPING, "asked to");
	take_state(f, 1, RUN_PAUSED, ""); /* twice: it still was sweeping */
	assert_state(f, 1, RUN_PAUSED, RUN_SWEEPING, "asked to");
	take_state(f, 1, RUN_SWEEPING, "");
	assert_state(f, 1, RUN_SWEEPING, 0, "asked to");
}

static void a_reason_outlives_a_restart(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();
	struct err err;

	add_run(b, 1, 1);
	apply_commit_take(f, b);
	take_state(f, 1, RUN_PAUSED, "a first reason, longer than the next");
	applier_destroy(f->applier);
	CHECK(applier_create(f->store, &f->applier, &err));
	take_state(f, 1, RUN_STOPPED, "no longer wanted");
	assert_state(f, 1, RUN_STOPPED, 0, "no longer wanted");
	take_state(f, 1, RUN_COPYING, "too late"); /* ended is ended */
	assert_state(f, 1, RUN_STOPPED, 0, "no longer wanted");
}

static enum table_state table_state_after(struct fixture *f, const struct run_record *r)
{
	struct batch *b = batch_create();
	struct table_record t;
	enum table_state state;

	batch_add_run(b, r);
	batch_add_run_state(b, 1, r->id, RUN_DONE, 9);
	apply_commit_take(f, b);
	t = table_now(f, 1);
	state = t.state;
	table_record_free(&t);
	return state;
}

static void only_a_run_over_the_whole_table_copies_it(void **state)
{
	struct fixture *f = *state;
	struct run_record r = a_run(1);

	r.where_sql = "a > 'x'";
	assert_int_equal(table_state_after(f, &r), TABLE_COPYING);
	r = a_run(2);
	r.from = slice_of("\1"
					  "1");
	assert_int_equal(table_state_after(f, &r), TABLE_COPYING);
	r = a_run(3);
	r.to = slice_of("\1"
					"9");
	assert_int_equal(table_state_after(f, &r), TABLE_COPYING);
	r = a_run(4);
	r.listed = 1;
	assert_int_equal(table_state_after(f, &r), TABLE_COPYING);
	r = a_run(5);
	assert_int_equal(table_state_after(f, &r), TABLE_COPIED);
}

/* ---- keys that a run lists ---- */

static void add_keys(struct batch *b, uint64_t run, int from, int n)
{
	struct op *op = batch_add(b, OP_RUN_KEYS);
	struct buf keys = {0};
	struct slice text;

	op->table_id = 1;
	op->u.run.run_id = run;
	for (int k = from; k < from + n; k++) {
		text = int_text(&b->arena, k);
		buf_put_blob(&keys, text.p, text.n);
	}
	op->body = arena_copy(&b->arena, keys.p, keys.n);
	op->body_len = keys.n;
	buf_finish(&keys);
}

static void fixture_keys(struct fixture *f, uint64_t run, int from, int n)
{
	struct batch *b = batch_create();
	struct run_record r = a_run(run);

	r.listed = (uint64_t)n;
	add_keys(b, run, from, n);
	batch_add_run(b, &r);
	apply_commit_take(f, b);
	answers_destroy(applier_take_answers(f->applier));
}

static struct op *add_question(struct batch *b, enum op_kind kind, uint64_t run, uint32_t limit,
							   struct slice key)
{
	struct op *op = batch_add(b, kind);

	op->table_id = 1;
	op->u.list.run_id = run;
	op->u.list.token = 7;
	op->u.list.limit = limit;
	op->u.list.scan_limit = 100;
	op->key = (struct slice){arena_copy(&b->arena, key.p, key.n), key.n};
	return op;
}

static struct answer *ask(struct fixture *f, struct batch *b)
{
	struct answer *list;

	apply_take(f, b);
	assert_null(applier_take_answers(f->applier)); /* not before the commit */
	commit_now(f);
	list = applier_take_answers(f->applier);
	assert_non_null(list);
	assert_null(list->next);
	assert_int_equal(list->token, 7);
	return list;
}

static struct answer *list_run_keys(struct fixture *f, uint64_t run, uint32_t limit, struct slice from)
{
	struct batch *b = batch_create();

	add_question(b, OP_LIST_RUN_KEYS, run, limit, from);
	return ask(f, b);
}

static void assert_texts(const struct answer *x, size_t columns, const char *wanted, bool end)
{
	char text[256] = "";
	size_t n = 0;

	for (size_t i = 0; i < x->nkeys; i++)
		for (size_t j = 0; j < columns; j++)
			n += (size_t)snprintf(text + n, sizeof text - n, "%s%.*s", n ? " " : "",
								  x->keys[i].texts[j].p ? (int)x->keys[i].texts[j].n : 1,
								  x->keys[i].texts[j].p ? (const char *)x->keys[i].texts[j].p : "-");
	assert_string_equal(text, wanted);
	assert_int_equal(x->end, end);
	assert_int_equal(x->kind, ANSWER_KEYS);
	assert_int_equal(x->table_id, 1);
	assert_int_equal(x->schema_version, 1);
}

static void listed_keys_come_back_page_by_page(void **state)
{
	struct fixture *f = *state;
	struct arena arena = {0};
	struct answer *x, *y;

	fixture_keys(f, 1, 8, 5);
	fixture_keys(f, 2, 100, 3); /* of another run */
	x = list_run_keys(f, 1, 2, (struct slice){0});
	assert_texts(x, 1, "8 9", false);
	assert_true(slice_eq(x->keys[1].key, int_key(&arena, 9)));
	assert_int_equal(be64_get(x->resume.p), 2);
	y = list_run_keys(f, 1, 3, x->resume);
	assert_texts(y, 1, "10 11 12", true); /* it looked: there is none behind */
	answer_destroy(x);
	x = list_run_keys(f, 1, 3, y->resume);
	assert_texts(x, 1, "", true);
	assert_int_equal(be64_get(x->resume.p), 5);
	answer_destroy(x);
	answer_destroy(y);
	arena_finish(&arena);
}

static void a_run_that_ends_takes_its_keys_with_it(void **state)
{
	struct fixture *f = *state;
	struct answer *x;

	fixture_keys(f, 1, 1, 5);
	fixture_keys(f, 2, 100, 3);
	take_state(f, 1, RUN_PAUSED, "");
	x = list_run_keys(f, 1, 10, (struct slice){0});
	assert_texts(x, 1, "1 2 3 4 5", true);
	answer_destroy(x);
	take_state(f, 1, RUN_STOPPED, "");
	x = list_run_keys(f, 1, 10, (struct slice){0});
	assert_texts(x, 1, "", true);
	answer_destroy(x);
	x = list_run_keys(f, 2, 10, (struct slice){0});
	assert_texts(x, 1, "100 101 102", true);
	answer_destroy(x);
}

static void keys_that_do_not_fit_the_table_are_refused(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();

	add_keys(b, 1, 8, 2);
	b->ops[0].body_len--;
	apply_fails(f, b, ERR_BUG, "keys of a run");
}

static void a_listed_key_that_is_none_is_told(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();
	struct run_record r = a_run(1);

	r.listed = 1;
	add_keys(b, 1, 8, 1);
	b->ops[0].body[1] = 'x';
	batch_add_run(b, &r);
	apply_commit_take(f, b);
	b = batch_create();
	add_question(b, OP_LIST_RUN_KEYS, 1, 10, (struct slice){0});
	apply_fails(f, b, ERR_PROTOCOL, "a key that a run lists");
}

/* ---- barriers ---- */

static void a_barrier_is_answered_by_the_commit_of_what_is_before_it(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();
	struct answer *x;

	add_upsert(b, 1, at(10, 1), 1, T("a"), NUL, 0, -1);
	add_commit(b, 10, 11, 5);
	batch_add(b, OP_BARRIER)->u.list.token = 7;
	x = ask(f, b);
	assert_int_equal(x->kind, ANSWER_DONE);
	answer_destroy(x);
	assert_entry(f, 1, 1, "10.1 a NULL");

	b = batch_create();
	batch_add(b, OP_BARRIER);
	apply_take(f, b);
	assert_false(applier_has_writes(f->applier)); /* it costs no commit to disk */
	applier_abort(f->applier);
	commit_now(f);
	assert_null(applier_take_answers(f->applier));
}

static void a_barrier_waits_for_the_end_of_a_transaction(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();

	add_upsert(b, 1, at(10, 1), 1, T("a"), NUL, 0, -1);
	batch_add(b, OP_BARRIER);
	apply_fails(f, b, ERR_BUG, "inside a source transaction");
}

/* ---- suspects ---- */

static void some_rows(struct fixture *f)
{
	struct batch *b = batch_create();

	for (int k = 1; k <= 6; k++)
		add_upsert(b, 1, at(10, (uint64_t)k), k, T("a"), k == 2 ? T("b") : NUL, 0, -1);
	add_upsert(b, 1, at(10, 7), 7, T("a"), U, 5, -1);
	add_commit(b, 10, 11, 5);
	apply_commit_take(f, b);
	answers_destroy(applier_take_answers(f->applier));
}

/* A bound is as in the operation: -1 none. */
static struct answer *list_suspects(struct fixture *f, int after, int bound, uint8_t flags)
{
	struct batch *b = batch_create();
	struct slice none = {0}, to = bound < 0 ? none : int_key(&b->arena, bound);
	struct op *op = add_question(b, OP_LIST_SUSPECTS, 0, 100, after < 0 ? none : int_key(&b->arena, after));

	op->pos = at(20, 0);
	op->flags = flags;
	op->body = arena_copy(&b->arena, to.p, to.n);
	op->body_len = to.n;
	return ask(f, b);
}

static void suspects_are_walked_between_bounds(void **state)
{
	struct fixture *f = *state;
	struct answer *x;

	some_rows(f);
	x = list_suspects(f, 2, 5, 0);
	assert_texts(x, 1, "3 4 5", true); /* the end of the bounds is the end of the walk */
	answer_destroy(x);
	x = list_suspects(f, 2, 5, OP_F_INCLUSIVE);
	assert_texts(x, 1, "2 3 4 5", true);
	answer_destroy(x);
	x = list_suspects(f, -1, 0, OP_F_INCLUSIVE);
	assert_texts(x, 1, "", true);
	answer_destroy(x);
	x = list_suspects(f, 6, -1, 0);
	assert_texts(x, 1, "7", true);
	answer_destroy(x);
}

static void a_bound_of_fewer_columns_takes_all_that_begin_with_it(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();
	struct answer *x;

	add_upsert(b, 1, at(10, 1), 0x0100, T("a"), NUL, 0, -1);
	add_upsert(b, 1, at(10, 2), 0x01ff, T("a"), NUL, 0, -1);
	add_upsert(b, 1, at(10, 3), 0x0200, T("a"), NUL, 0, -1);
	add_commit(b, 10, 11, 5);
	apply_commit_take(f, b);
	answers_destroy(applier_take_answers(f->applier));
	b = batch_create();
	add_question(b, OP_LIST_SUSPECTS, 0, 100, (struct slice){0})->pos = at(20, 0);
	b->ops[0].body = arena_copy(&b->arena, "\x80\0\1", 3);
	b->ops[0].body_len = 3;
	x = ask(f, b);
	assert_texts(x, 1, "256 511", true);
	answer_destroy(x);
}

static void suspects_come_as_whole_rows_if_asked(void **state)
{
	struct fixture *f = *state;
	struct batch *b;
	struct answer *x;

	some_rows(f);
	x = list_suspects(f, 1, 2, OP_F_WHOLE_ROWS);
	assert_texts(x, 3, "2 a b", true);
	answer_destroy(x);
	x = list_suspects(f, 6, 7, OP_F_WHOLE_ROWS); /* NULL and not known are the same here */
	assert_texts(x, 3, "7 a -", true);
	answer_destroy(x);

	/* The columns of today: one has gone, one came. */
	b = batch_create();
	add_schema(b, 1, 2, "kbc", 23);
	apply_commit_take(f, b);
	x = list_suspects(f, 1, 2, OP_F_WHOLE_ROWS);
	assert_int_equal(x->schema_version, 2);
	assert_int_equal(x->nkeys, 1);
	assert_true(slice_eq(x->keys[0].texts[1], slice_of("b")));
	assert_null(x->keys[0].texts[2].p);
	answer_destroy(x);
}

/* ---- chunks ---- */

static void a_key_that_is_only_counted_stays(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();
	struct op_chunk *c;
	struct run_record r;

	some_rows(f);
	add_run(b, 1, 1);
	c = add_chunk(b, 1, 1, 20, "60:60:");
	c->suspects = 4;
	for (int k = 1; k <= 3; k++)
		add_gone(b, 1, k)->flags = k < 3 ? OP_F_COUNT : 0;
	add_gone(b, 1, 99)->flags = OP_F_COUNT; /* nothing there */
	apply_commit_take(f, b);
	assert_entry(f, 1, 1, "10.1 a NULL");
	assert_entry(f, 1, 2, "10.2 a b");
	assert_entry(f, 1, 3, "20.0 deleted");
	r = run_now(f, 1);
	assert_int_equal(r.rows_swept, 3);
	assert_int_equal(r.rows_suspect, 4);
	run_record_free(&r);
}

static void refetched_rows_are_counted_apart(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();
	struct op_chunk *c;
	struct run_record r;

	some_rows(f);
	add_run(b, 1, 1);
	c = add_chunk(b, 1, 1, 20, "60:60:");
	c->refetch = true;
	c->rows_read = 1;
	add_chunk_row(b, 1, 7, T("a"), T("whole"));
	apply_commit_take(f, b);
	assert_entry(f, 1, 7, "20.0 a whole");
	r = run_now(f, 1);
	assert_int_equal(r.rows_refetched, 1);
	assert_int_equal(r.rows_read, 0);
	run_record_free(&r);
}

static void rows_in_doubt_are_filled_after_the_run_has_ended(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();
	struct run_record r;

	some_rows(f);
	add_run(b, 1, 1);
	batch_add_run_state(b, 1, 1, RUN_STOPPED, 9);
	add_chunk(b, 1, 1, 20, "60:60:")->refetch = true;
	add_chunk_row(b, 1, 7, T("a"), T("whole"));
	add_chunk(b, 1, 1, 20, "60:60:"); /* not a refetch: the run is over */
	add_chunk_row(b, 1, 1, T("late"), NUL);
	apply_commit_take(f, b);
	assert_entry(f, 1, 7, "20.0 a whole");
	assert_entry(f, 1, 1, "10.1 a NULL");
	r = run_now(f, 1);
	assert_int_equal(r.rows_refetched, 0);
	assert_int_equal(r.chunks, 0);
	run_record_free(&r);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_paused_run_knows_what_it_was),
		TEST(a_reason_outlives_a_restart),
		TEST(only_a_run_over_the_whole_table_copies_it),
		TEST(listed_keys_come_back_page_by_page),
		TEST(a_run_that_ends_takes_its_keys_with_it),
		TEST(keys_that_do_not_fit_the_table_are_refused),
		TEST(a_listed_key_that_is_none_is_told),
		TEST(a_barrier_is_answered_by_the_commit_of_what_is_before_it),
		TEST(a_barrier_waits_for_the_end_of_a_transaction),
		TEST(suspects_are_walked_between_bounds),
		TEST(a_bound_of_fewer_columns_takes_all_that_begin_with_it),
		TEST(suspects_come_as_whole_rows_if_asked),
		TEST(a_key_that_is_only_counted_stays),
		TEST(refetched_rows_are_counted_apart),
		TEST(rows_in_doubt_are_filled_after_the_run_has_ended),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
