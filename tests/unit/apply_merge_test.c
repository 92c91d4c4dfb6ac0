#include "apply_fixture.h"

#define T   text_cell
#define NUL text_cell(NULL)
#define U   absent_cell() /* the log did not send it */

/* ---- unchanged values ---- */

static void an_unchanged_value_comes_from_the_stored_row(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();

	add_upsert(b, 1, at(10, 1), 1, T("a"), T("large"), 0, -1);
	add_upsert(b, 1, at(10, 2), 2, T("a"), NUL, 0, -1);
	add_upsert(b, 1, at(10, 3), 1, T("a2"), U, 5, 1);
	add_upsert(b, 1, at(10, 4), 2, T("a2"), U, 5, 2);
	add_commit(b, 10, 11, 5);
	apply_commit_take(f, b);
	assert_entry(f, 1, 1, "10.3 a2 large");
	assert_entry(f, 1, 2, "10.4 a2 NULL");
	assert_counters(f, 1, 2, 0, 0, 0);
}

static void a_key_change_takes_values_along(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();

	add_upsert(b, 1, at(10, 1), 1, T("a"), T("large"), 0, -1);
	add_upsert(b, 1, at(10, 2), 2, U, U, 5, 1);
	add_delete(b, 1, at(10, 3), 1);
	add_commit(b, 10, 11, 5);
	apply_commit_take(f, b);
	assert_entry(f, 1, 1, "10.3 deleted");
	assert_entry(f, 1, 2, "10.2 a large");

	/* Two rows swap keys by way of a third. */
	b = batch_create();
	add_upsert(b, 1, at(20, 1), 1, T("b"), T("other"), 6, -1);
	add_upsert(b, 1, at(20, 2), 9, U, U, 6, 1);
	add_delete(b, 1, at(20, 3), 1);
	add_upsert(b, 1, at(20, 4), 1, U, U, 6, 2);
	add_delete(b, 1, at(20, 5), 2);
	add_upsert(b, 1, at(20, 6), 2, U, U, 6, 9);
	add_delete(b, 1, at(20, 7), 9);
	add_commit(b, 20, 21, 6);
	apply_commit_take(f, b);
	assert_entry(f, 1, 1, "20.4 a large");
	assert_entry(f, 1, 2, "20.6 b other");
	assert_entry(f, 1, 9, "20.7 deleted");
	assert_counters(f, 1, 2, 0, 0, 1);
}

static void a_row_nobody_vouches_for_is_hidden(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();

	add_upsert(b, 1, at(10, 1), 1, T("a"), U, 5, -1); /* an insert: entered a row filter */
	add_upsert(b, 1, at(10, 2), 2, T("a"), U, 5, 2);  /* an update of a row not stored */
	add_upsert(b, 1, at(10, 3), 3, T("a"), U, 5, 4);  /* a key change of one not stored */
	add_delete(b, 1, at(10, 4), 4);
	add_upsert(b, 1, at(10, 5), 5, T("a"), U, 5, 4); /* of one that is deleted */
	add_commit(b, 10, 11, 5);
	apply_commit_take(f, b);
	assert_entry(f, 1, 1, "10.1 a -? born 5 hidden");
	assert_entry(f, 1, 2, "10.2 a -? born 5 hidden");
	assert_entry(f, 1, 3, "10.3 a -? born 5 hidden");
	assert_entry(f, 1, 5, "10.5 a -? born 5 hidden");
	assert_counters(f, 1, 0, 4, 4, 1);
}

static void a_doubt_stays_with_its_transaction_until_the_key_changes(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();

	add_upsert(b, 1, at(10, 1), 1, T("a"), U, 5, -1);
	add_commit(b, 10, 11, 5);
	add_upsert(b, 1, at(20, 1), 1, T("a2"), U, 6, 1);
	add_commit(b, 20, 21, 6);
	apply_commit_take(f, b);
	assert_entry(f, 1, 1, "20.1 a2 -? born 5 hidden");

	b = batch_create();
	add_upsert(b, 1, at(30, 1), 2, T("a3"), U, 7, 1);
	add_delete(b, 1, at(30, 2), 1);
	add_commit(b, 30, 31, 7);
	apply_commit_take(f, b);
	assert_entry(f, 1, 1, "30.2 deleted");
	assert_entry(f, 1, 2, "30.1 a3 -? born 7 hidden");
	assert_counters(f, 1, 0, 1, 1, 1);

	/* A whole row ends it. */
	b = batch_create();
	add_upsert(b, 1, at(40, 1), 2, T("a4"), T("large"), 0, 2);
	add_commit(b, 40, 41, 8);
	apply_commit_take(f, b);
	assert_entry(f, 1, 2, "40.1 a4 large");
	assert_counters(f, 1, 1, 0, 0, 1);
}

static void a_value_sent_ends_the_doubt_of_its_column_only(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();

	add_upsert(b, 1, at(10, 1), 1, U, U, 5, -1);
	add_upsert(b, 1, at(10, 2), 1, T("a"), U, 6, 1);
	add_commit(b, 10, 11, 6);
	apply_commit_take(f, b);
	assert_entry(f, 1, 1, "10.2 a -? born 5 hidden");
	assert_counters(f, 1, 0, 1, 1, 0);
}

/* An insert over a row that is there: what is visible stays so, but nobody vouches for it. */
static void a_visible_row_stays_visible_in_doubt(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();

	add_upsert(b, 1, at(10, 1), 1, T("a"), T("large"), 0, -1);
	add_upsert(b, 1, at(10, 2), 1, T("a2"), U, 5, -1);
	add_upsert(b, 1, at(10, 3), 2, T("b"), T("other"), 0, -1);
	add_upsert(b, 1, at(10, 4), 2, T("b2"), U, 5, 8); /* moved here from a key that is not stored */
	add_commit(b, 10, 11, 5);
	apply_commit_take(f, b);
	assert_entry(f, 1, 1, "10.2 a2 large? born 5");
	assert_entry(f, 1, 2, "10.4 b2 other? born 5");
	assert_counters(f, 1, 2, 0, 2, 0);
}

static void open_run(struct fixture *f, uint64_t id)
{
	struct batch *b = batch_create();

	add_run(b, id, 1);
	apply_commit_take(f, b);
}

static void end_run(struct fixture *f, uint64_t id, enum run_state how)
{
	struct batch *b = batch_create();

	batch_add_run_state(b, 1, id, how, 1000);
	apply_commit_take(f, b);
}

static void rows_from_before_a_run_are_not_trusted(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();

	add_upsert(b, 1, at(10, 1), 1, T("a"), T("ghost"), 0, -1);
	add_upsert(b, 1, at(10, 2), 2, T("a"), T("ghost"), 0, -1);
	add_upsert(b, 1, at(10, 3), 3, T("a"), U, 4, -1);
	add_commit(b, 10, 15, 5);
	apply_commit_take(f, b);
	open_run(f, 1);

	b = batch_create();
	add_upsert(b, 1, at(20, 1), 1, T("a2"), U, 6, 1);
	add_upsert(b, 1, at(20, 2), 9, T("moved"), U, 6, 2);
	add_delete(b, 1, at(20, 3), 2);
	add_upsert(b, 1, at(20, 4), 3, T("a2"), U, 6, 3);
	add_upsert(b, 1, at(20, 5), 4, T("new"), T("large"), 0, -1);
	add_commit(b, 20, 25, 6);
	add_upsert(b, 1, at(30, 1), 1, T("a3"), U, 7, 1); /* from a row of after the run was accepted */
	add_upsert(b, 1, at(30, 2), 4, T("new2"), U, 7, 4);
	add_commit(b, 30, 35, 7);
	apply_commit_take(f, b);
	assert_entry(f, 1, 1, "30.1 a3 ghost? born 6");
	assert_entry(f, 1, 9, "20.2 moved ghost? born 6");
	assert_entry(f, 1, 3, "20.4 a2 -? born 6 hidden");
	assert_entry(f, 1, 4, "30.2 new2 large");
	assert_counters(f, 1, 3, 1, 3, 1);

	/* The run over, what is stored is the copy. */
	end_run(f, 1, RUN_DONE);
	b = batch_create();
	add_upsert(b, 1, at(40, 1), 4, T("new3"), U, 8, 4);
	add_commit(b, 40, 45, 8);
	apply_commit_take(f, b);
	assert_entry(f, 1, 4, "40.1 new3 large");
}

/* ---- schema versions ---- */

static void new_schema(struct fixture *f, uint32_t version, const char *names)
{
	struct batch *b = batch_create();

	add_schema(b, 1, version, names, 23);
	apply_commit_take(f, b);
}

/* A row of any version of table 1: k and the other cells. */
static void add_versioned(struct batch *b, struct pos pos, uint32_t version, int32_t k,
						  const struct cell *cells, size_t n, uint64_t xid)
{
	struct op *op = batch_add(b, OP_UPSERT);
	struct cell all[8] = {{.kind = CELL_TEXT, .text = int_text(&b->arena, k)}};

	memcpy(&all[1], cells, n * sizeof *cells);
	op->table_id = 1;
	op->key = op->src_key = int_key(&b->arena, k);
	set_row(b, op, pos, version, xid, (struct slice){0}, all, n + 1);
}

static void decode_now(struct fixture *f, int32_t k, size_t ncolumns, struct row_head *h, struct cell *cells)
{
	struct err err = {0};
	struct store_txn *txn;
	struct arena arena = {0};
	struct slice entry;
	static uint8_t copy[4096];
	bool found;

	CHECK(store_begin_read(f->store, &txn, &err));
	CHECK(store_row_get(txn, 1, int_key(&arena, k), &entry, &found, &err));
	assert_true(found && entry.n <= sizeof copy);
	memcpy(copy, entry.p, entry.n);
	CHECK(row_decode((struct slice){copy, entry.n}, ncolumns, h, cells, &err));
	store_abort(txn);
	arena_finish(&arena);
}

static void assert_cell(const struct cell *c, const char *text, bool doubt)
{
	assert_int_equal(c->kind, CELL_TEXT);
	assert_true(slice_eq(c->text, slice_of(text)));
	assert_int_equal(c->doubt, doubt);
}

static void values_are_found_by_name_in_older_versions(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();
	struct row_head h;
	struct cell c[4];

	add_upsert(b, 1, at(10, 1), 1, T("va"), T("vb"), 0, -1);
	add_commit(b, 10, 11, 5);
	apply_commit_take(f, b);
	new_schema(f, 2, "kbca");
	b = batch_create();
	add_versioned(b, at(20, 1), 2, 1, (struct cell[]){U, T("vc"), U}, 3, 6);
	add_commit(b, 20, 21, 6);
	apply_commit_take(f, b);
	decode_now(f, 1, 4, &h, c);
	assert_int_equal(h.version, 2);
	assert_int_equal(h.flags, 0);
	assert_cell(&c[1], "vb", false);
	assert_cell(&c[2], "vc", false);
	assert_cell(&c[3], "va", false);
	assert_counters(f, 1, 1, 0, 0, 0);
}

static void a_column_the_old_version_lacks_stays_absent(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();
	struct row_head h;
	struct cell c[4];

	add_upsert(b, 1, at(10, 1), 1, T("va"), T("vb"), 0, -1);
	add_commit(b, 10, 11, 5);
	apply_commit_take(f, b);
	new_schema(f, 2, "kbca");
	b = batch_create();
	add_versioned(b, at(20, 1), 2, 1, (struct cell[]){U, U, T("va2")}, 3, 6);
	add_commit(b, 20, 21, 6);
	apply_commit_take(f, b);
	decode_now(f, 1, 4, &h, c);
	assert_int_equal(h.flags, ROW_DOUBT | ROW_HIDDEN);
	assert_int_equal(h.born.v, 6);
	assert_cell(&c[1], "vb", false);
	assert_int_equal(c[2].kind, CELL_ABSENT);
	assert_counters(f, 1, 0, 1, 1, 0);
}

/* The text of another type is the best there is, no more. */
static void a_value_of_another_type_is_in_doubt(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();
	struct column columns[] = {{"k", 23, -1, "int4", 0}, {"a", 25, -1, "text", 0}, {"b", 17, -1, "bytea", 0}};
	uint16_t key_column = 0;
	uint8_t key_kind = KEY_INT4;
	struct schema s = {1, 2, 3, 1, columns, &key_column, &key_kind};
	struct row_head h;
	struct cell c[3];

	add_upsert(b, 1, at(10, 1), 1, T("va"), T("vb"), 0, -1);
	add_commit(b, 10, 11, 5);
	batch_add_schema(b, &s);
	add_versioned(b, at(20, 1), 2, 1, (struct cell[]){U, U}, 2, 6);
	add_commit(b, 20, 21, 6);
	apply_commit_take(f, b);
	decode_now(f, 1, 3, &h, c);
	assert_int_equal(h.flags, ROW_DOUBT);
	assert_cell(&c[1], "va", false);
	assert_cell(&c[2], "vb", true);
}

static void a_schema_may_change_inside_a_transaction(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();
	struct row_head h;
	struct cell c[2];

	add_upsert(b, 1, at(10, 1), 1, T("va"), T("vb"), 0, -1);
	add_schema(b, 1, 2, "kb", 23);
	add_versioned(b, at(10, 2), 2, 1, (struct cell[]){U}, 1, 6);
	assert_int_equal(batch_whole_ops(b), 0);
	apply_take(f, b);
	assert_false(applier_at_boundary(f->applier));
	b = batch_create();
	add_commit(b, 10, 11, 6);
	apply_commit_take(f, b);
	decode_now(f, 1, 2, &h, c);
	assert_int_equal(h.version, 2);
	assert_cell(&c[1], "vb", false);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
	const struct CMUnitTest tests[] = {
		TEST(an_unchanged_value_comes_from_the_stored_row),
		TEST(a_key_change_takes_values_along),
		TEST(a_row_nobody_vouches_for_is_hidden),
		TEST(a_doubt_stays_with_its_transaction_until_the_key_changes),
		TEST(a_value_sent_ends_the_doubt_of_its_column_only),
		TEST(a_visible_row_stays_visible_in_doubt),
		TEST(rows_from_before_a_run_are_not_trusted),
		TEST(values_are_found_by_name_in_older_versions),
		TEST(a_column_the_old_version_lacks_stays_absent),
		TEST(a_value_of_another_type_is_in_doubt),
		TEST(a_schema_may_change_inside_a_transaction),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
