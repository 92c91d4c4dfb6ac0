#include "tests/unit/snapshot_copier_fixture.h"

#include "snapshot/copier_impl.h"

/* ==== doubt ==== */

static void rows_in_doubt_are_asked_for_by_key(void **state)
{
	struct fixture *f = *state;
	const struct op *listing = doubt_begins(f, key_is_id);
	struct batch *b;

	assert_int_equal(listing->table_id, 1);
	assert_int_equal(listing->key.n, 0);
	assert_int_equal(listing->u.list.limit, 200);
	answer_listing(f, listing, 1, (struct listed[]){{3, NULL}, {5, NULL}}, 2, 5, false);
	ask(f, CHUNK_KEYED);
	assert_int_equal(f->r->run_id, 0);
	assert_int_equal(f->r->ncolumns, 2);
	assert_string_equal(f->r->params[0], "{\"3\",\"5\"}");
	snapshot(f, "10:10:", 700);
	row(f, "5", "five");
	end(f);
	nothing_emitted(f);
	position(f, 700);
	b = take_chunk(f, 700, 1);
	assert_int_equal(b->ops[0].u.run.run_id, 0);
	assert_false(b->ops[0].u.run.chunk->moves_cursor);
	assert_false(b->ops[0].u.run.chunk->moves_sweep);
	is_key(op_of(b, OP_CHUNK_ROW, 0)->key, 5);
	assert_int_equal(count_ops(b, OP_CHUNK_GONE), 1);
	is_key(op_of(b, OP_CHUNK_GONE, 0)->key, 3);
	doubt_is(f, 1, 0);
	assert_true(copier_table_is_live(f->c, 1));
	ask_nothing(f);
	nothing_emitted(f);
}

/* Its S may not see the transaction yet: wait, longer each time, and walk on so that others are not held up.
 */
static void doubt_that_does_not_shrink_waits(void **state)
{
	struct fixture *f = *state;
	const struct op *listing = doubt_begins(f, key_is_id);
	int64_t waits[] = {100000, 200000, 400000, 800000, 1600000, 2000000, 2000000};

	for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
		bool at_end = i % 2;

		assert_int_equal(listing->key.n, at_end ? 4 : 0);
		answer_listing(f, listing, 1, (struct listed[]){{3, NULL}}, 1, 5, at_end);
		ask(f, CHUNK_KEYED);
		snapshot(f, "10:10:", 700);
		row(f, "3", "x");
		end(f);
		position(f, 700);
		take(f);
		ask_nothing(f);
		nothing_emitted(f);
		assert_int_equal(copier_next_at(f->c), f->now + waits[i]);
		f->now += waits[i];
		ask_nothing(f);
		listing = take_listing(f, OP_LIST_DOUBT);
	}
	answer_listing(f, listing, 1, (struct listed[]){{3, NULL}}, 1, 5, true);
	ask(f, CHUNK_KEYED);
	snapshot(f, "10:10:", 700);
	end(f);
	take(f);
	doubt_is(f, 1, 2); /* it did shrink */
	ask_nothing(f);
	take_listing(f, OP_LIST_DOUBT);
}

/* numeric 1.0 and 1.00 are equal to the server and two keys here. */
static void a_row_returned_under_another_text_is_another_key(void **state)
{
	struct fixture *f = *state;
	const struct op *listing = doubt_begins(f, key_is_note);
	struct batch *b;

	answer_listing(f, listing, 1, (struct listed[]){{0, "1.0"}}, 1, 5, true);
	ask(f, CHUNK_KEYED);
	snapshot(f, "10:10:", 700);
	row(f, "5", "1.00");
	end(f);
	position(f, 700);
	b = take_chunk(f, 700, 1);
	assert_true(slice_eq(op_of(b, OP_CHUNK_ROW, 0)->key, slice_of("1.00")));
	assert_true(slice_eq(op_of(b, OP_CHUNK_GONE, 0)->key, slice_of("1.0")));
}

static void a_long_key_that_is_gone_is_named_whole(void **state)
{
	struct fixture *f = *state;
	const struct op *listing = doubt_begins(f, key_is_note), *op;
	struct slice text, stored;
	struct answer_key k = {.texts = &text};
	struct answer a = {
		.kind = ANSWER_KEYS, .table_id = 1, .token = listing->u.list.token, .schema_version = 1};
	uint8_t bytes[KEY_MAX];
	char long_text[601];

	memset(long_text, 'k', 600);
	long_text[600] = '\0';
	text = slice_of(long_text);
	stored = (struct slice){bytes, key_store(text, bytes, NULL)};
	k.key = stored;
	a.keys = &k;
	a.nkeys = 1;
	a.end = true;
	copier_answer(f->c, &a, f->now);
	ask(f, CHUNK_KEYED);
	snapshot(f, "10:10:", 700);
	end(f);
	position(f, 700);
	op = op_of(take_chunk(f, 700, 0), OP_CHUNK_GONE, 0);
	assert_true(slice_eq(op->key, stored));
	assert_true(op->flags & OP_F_LONG_KEY);
	assert_true(slice_eq((struct slice){op->body, op->body_len}, text));
}

/* What was left out for its size is not gone. */
static void a_keyed_chunk_that_is_cut_says_nothing_of_the_rest(void **state)
{
	struct fixture *f = *state;
	struct copier_config config = fixture_config;
	const struct op *listing;

	config.chunk_bytes = 4;
	fixture_restart(f, &config);
	listing = doubt_begins(f, key_is_id);
	answer_listing(f, listing, 1, (struct listed[]){{1, NULL}, {2, NULL}, {3, NULL}}, 3, 3, false);
	ask(f, CHUNK_KEYED);
	snapshot(f, "10:10:", 700);
	row(f, "1", "more than four bytes");
	row(f, "2", "more than four bytes");
	end(f);
	position(f, 700);
	assert_int_equal(count_ops(take_chunk(f, 700, 1), OP_CHUNK_GONE), 0);
	f->now += SEC;
	ask_nothing(f);
	listing = take_listing(f, OP_LIST_DOUBT);
	assert_int_equal(listing->key.n, 0); /* from the same place */
	assert_int_equal(listing->u.list.limit, 1);
}

static void keyed_chunks_have_a_share_during_a_run(void **state)
{
	struct fixture *f = *state;
	const struct op *listing;

	copying(f, 1);
	doubt_is(f, 1, 1);
	position(f, 10000);
	for (uint32_t i = 0; i < 4; i++) {
		full_page(f, "10:10:", 500, 1 + i * 200);
		take_chunk(f, 500, 200);
	}
	ask(f, CHUNK_PAGE); /* the listing goes out, pages go on until it is answered */
	listing = take_listing(f, OP_LIST_DOUBT);
	snapshot(f, "10:10:", 500);
	rows(f, 801, 200);
	end(f);
	take_chunk(f, 500, 200);
	answer_listing(f, listing, 1, (struct listed[]){{3, NULL}}, 1, 5, true);
	ask(f, CHUNK_KEYED);
	snapshot(f, "10:10:", 500);
	end(f);
	take_chunk(f, 500, 0);
	f->now += SEC;
	full_page(f, "10:10:", 500, 1001);
	take_chunk(f, 500, 200);
	nothing_emitted(f);
}

/* Before the run is finished and after: a table with rows in doubt is not live. */
static void doubt_keeps_a_copied_table_from_being_live(void **state)
{
	struct fixture *f = *state;

	copying(f, 1);
	doubt_is(f, 1, 1);
	last_page(f, "10:10:", 500, 1, 2);
	position(f, 500);
	run_moved(take_chunk(f, 500, 2), RUN_DONE);
	assert_false(copier_table_is_live(f->c, 1));
	doubt_is(f, 1, 0);
	assert_true(copier_table_is_live(f->c, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(rows_in_doubt_are_asked_for_by_key),
		TEST(doubt_that_does_not_shrink_waits),
		TEST(a_row_returned_under_another_text_is_another_key),
		TEST(a_long_key_that_is_gone_is_named_whole),
		TEST(a_keyed_chunk_that_is_cut_says_nothing_of_the_rest),
		TEST(keyed_chunks_have_a_share_during_a_run),
		TEST(doubt_keeps_a_copied_table_from_being_live),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
