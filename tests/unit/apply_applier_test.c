#include "apply_fixture.h"

#include <signal.h>
#include <sys/resource.h>

#define T   text_cell
#define NUL text_cell(NULL)
#define U   absent_cell() /* the log did not send it */

/* ---- whole rows ---- */

static void applies_a_transaction(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();
	struct checkpoint c;

	add_upsert(b, 1, at(10, 1), 1, T("one"), NUL, 0, -1);
	add_upsert(b, 1, at(10, 2), 2, T("two"), T(""), 0, -1);
	add_upsert(b, 2, at(10, 3), 1, T("other table"), NUL, 0, -1);
	add_delete(b, 1, at(10, 4), 2);
	apply_take(f, b);
	assert_true(applier_is_open(f->applier));
	assert_true(applier_has_writes(f->applier));
	assert_false(applier_at_boundary(f->applier));
	assert_true(applier_dirty_bytes(f->applier) >= 2 * 4096); /* of the two tables */

	b = batch_create();
	add_commit(b, 10, 12, 77)->flags = OP_F_CHANGES;
	apply_take(f, b);
	assert_true(applier_at_boundary(f->applier));
	assert_int_equal(applier_committed(f->applier).lsn.v, 0);
	commit_now(f);
	assert_false(applier_is_open(f->applier));
	assert_int_equal(applier_dirty_bytes(f->applier), 0);

	assert_entry(f, 1, 1, "10.1 one NULL");
	assert_entry(f, 1, 2, "10.4 deleted");
	assert_entry(f, 2, 1, "10.3 other table NULL");
	assert_entry(f, 2, 2, "absent");
	assert_counters(f, 1, 1, 0, 0, 1);
	assert_counters(f, 2, 1, 0, 0, 0);
	c = applier_committed(f->applier);
	assert_int_equal(c.epoch, 1);
	assert_int_equal(c.lsn.v, 12);
	assert_int_equal(c.commit_lsn.v, 10);
	assert_int_equal(c.commit_time_us, 100);
	assert_int_equal(c.written_us, 1);
}

static void remembers_the_highest_position(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();
	struct table_record t;

	add_upsert(b, 1, at(30, 1), 1, NUL, NUL, 0, -1);
	add_upsert(b, 1, at(20, 1), 2, NUL, NUL, 0, -1);
	add_commit(b, 30, 31, 1);
	apply_commit_take(f, b);
	t = table_now(f, 1);
	assert_int_equal(pos_cmp(t.high, at(30, 1)), 0);
	table_record_free(&t);
}

static void a_delete_of_an_unknown_key_leaves_a_marker(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();

	add_delete(b, 1, at(10, 1), 5);
	add_commit(b, 10, 11, 1);
	apply_commit_take(f, b);
	assert_entry(f, 1, 5, "10.1 deleted");
	assert_counters(f, 1, 0, 0, 0, 1);
}

static void refuses_what_it_does_not_know(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();
	struct cell cell = {.kind = CELL_NULL};

	add_delete(b, 9, at(10, 1), 1);
	apply_fails(f, b, ERR_BUG, "table 9");

	b = batch_create();
	add_upsert(b, 1, at(10, 1), 1, NUL, NUL, 0, -1)->body_len = 9;
	apply_fails(f, b, ERR_CORRUPT, "table \"public.t1\"");

	b = batch_create();
	set_row(b, add_upsert(b, 1, at(10, 1), 1, NUL, NUL, 0, -1), at(10, 1), 7, 0, (struct slice){0}, &cell, 1);
	apply_fails(f, b, ERR_CORRUPT, "schema version 7");

	b = batch_create();
	batch_add(b, (enum op_kind)99);
	apply_fails(f, b, ERR_BUG, "no operation 99");

	b = batch_create();
	add_upsert(b, 1, at(10, 1), 1, NUL, NUL, 0, -1);
	add_chunk(b, 1, 0, 10, "1:1:");
	apply_fails(f, b, ERR_BUG, "inside a source transaction");

	b = batch_create();
	add_gone(b, 1, 1);
	apply_fails(f, b, ERR_BUG, "without its chunk");
}

/* ---- truncate ---- */

static void a_truncate_drops_everything_at_once(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();
	struct table_record t;

	add_upsert(b, 1, at(10, 1), 1, T("x"), NUL, 0, -1);
	add_upsert(b, 1, at(10, 2), 2, T("x"), U, 9, -1);
	add_delete(b, 1, at(10, 3), 3);
	add_upsert(b, 2, at(10, 4), 1, T("x"), NUL, 0, -1);
	add_truncate(b, 1, at(10, 5));
	add_upsert(b, 1, at(10, 6), 4, T("after"), NUL, 0, -1);
	add_commit(b, 10, 11, 1);
	apply_commit_take(f, b);
	for (int32_t k = 1; k <= 3; k++)
		assert_entry(f, 1, k, "absent");
	assert_entry(f, 1, 4, "10.6 after NULL");
	assert_entry(f, 2, 1, "10.4 x NULL");
	assert_counters(f, 1, 1, 0, 0, 0);
	t = table_now(f, 1);
	assert_int_equal(pos_cmp(t.floor, at(10, 5)), 0);
	assert_int_equal(pos_cmp(t.high, at(10, 6)), 0);
	table_record_free(&t);
}

/* Many more than it takes in one go, old and new ones mixed, some in doubt. */
static void an_old_truncate_spares_newer_entries(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();
	const int n = 5000;

	for (int k = 0; k < n; k++)
		add_upsert(b, 1, at(k % 3 ? 10 : 30, (uint64_t)k + 1), k, T("x"), k % 5 ? NUL : U, 9, -1);
	add_commit(b, 30, 31, 1);
	apply_commit_take(f, b);
	b = batch_create();
	add_truncate(b, 1, at(20, 1));
	add_commit(b, 30, 31, 1);
	apply_commit_take(f, b);
	assert_counters(f, 1, 1667 - 334, 334, 334, 0);
	assert_entry(f, 1, 1, "absent");
	assert_entry(f, 1, 3, "30.4 x NULL");
	assert_entry(f, 1, 0, "30.1 x -? born 9 hidden");
	assert_entry(f, 1, 5, "absent");

	/* A lower one changes nothing; a row from before it does not come back. */
	b = batch_create();
	add_truncate(b, 1, at(15, 1));
	add_upsert(b, 1, at(16, 1), 1, T("before"), NUL, 0, -1);
	add_commit(b, 30, 31, 1);
	apply_commit_take(f, b);
	assert_entry(f, 1, 1, "absent");
	assert_counters(f, 1, 1667 - 334, 334, 334, 0);
}

/* ---- long keys ---- */

struct long_key {
	uint8_t key[KEY_MAX];
	size_t n;
	struct buf full;
	bool is_long;
};

static void long_key(const char *text, struct long_key *out)
{
	enum key_kind kind = KEY_TEXT;
	struct slice s = slice_of(text);
	struct err err = {0};

	CHECK(key_encode(&kind, &s, 1, out->key, &out->n, &out->full, &out->is_long, &err));
}

static struct op *add_long(struct batch *b, enum op_kind kind, struct pos pos, const char *key_text,
						   const char *value)
{
	struct op *op = batch_add(b, kind);
	struct cell cells[2] = {T(key_text), T(value ? value : "")};
	struct long_key k = {0};

	long_key(key_text, &k);
	op->table_id = 3;
	op->pos = pos;
	op->key = (struct slice){arena_copy(&b->arena, k.key, k.n), k.n};
	op->flags = k.is_long ? OP_F_LONG_KEY : 0;
	if (value) {
		op->src_key = op->key;
		set_row(b, op, pos, 1, 0, (struct slice){k.full.p, k.is_long ? k.full.n : 0}, cells, 2);
	} else if (k.is_long) {
		op->body = arena_copy(&b->arena, k.full.p, k.full.n);
		op->body_len = k.full.n;
	}
	buf_finish(&k.full);
	return op;
}

static char *repeat(char c, size_t n)
{
	char *s = malloc(n + 1);

	memset(s, c, n);
	s[n] = '\0';
	return s;
}

static void text_table(struct fixture *f)
{
	struct batch *b = batch_create();

	add_table(b, 3, TABLE_COPYING);
	add_schema(b, 3, 1, "kv", 25);
	apply_commit_take(f, b);
}

static void long_keys_are_told_apart_by_the_whole(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();
	char *one = repeat('x', 700), *two = repeat('x', 701), *edge = repeat('x', KEY_MAX);

	text_table(f);
	add_long(b, OP_UPSERT, at(10, 1), one, "one");
	add_long(b, OP_UPSERT, at(10, 2), two, "two");
	add_long(b, OP_UPSERT, at(10, 3), edge, "edge");
	add_long(b, OP_UPSERT, at(10, 4), one, "one again");
	add_long(b, OP_DELETE, at(10, 5), two, NULL);
	add_long(b, OP_UPSERT, at(10, 6), two, "two again");
	add_long(b, OP_DELETE, at(10, 7), one, NULL);
	add_long(b, OP_DELETE, at(10, 8), edge, NULL);
	add_commit(b, 10, 11, 5);
	apply_commit_take(f, b);
	assert_counters(f, 3, 1, 0, 0, 2);
	free(one);
	free(two);
	free(edge);
}

static void a_hash_collision_is_refused(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();
	char *one = repeat('x', 700), *two = repeat('x', 701);
	struct op *op;

	text_table(f);
	add_long(b, OP_UPSERT, at(10, 1), one, "one");
	add_commit(b, 10, 11, 5);
	apply_commit_take(f, b);

	/* The other key, but put where the first one is. */
	for (int kind = 0; kind < 3; kind++) {
		b = batch_create();
		if (kind == 2) add_chunk(b, 3, 0, 20, "1:1:")->rows_read = 1;
		add_long(b, OP_UPSERT, at(5, 1), one, "older, but it has the key");
		op = add_long(b,
					  kind == 0   ? OP_UPSERT
					  : kind == 1 ? OP_DELETE
								  : OP_CHUNK_GONE,
					  at(20, 1), two, kind == 0 ? "two" : NULL);
		op->key = b->ops[b->n - 2].key;
		b->ops[b->n - 2] = b->ops[b->n - 1];
		b->n--;
		apply_fails(f, b, ERR_CORRUPT, "two different keys");
	}
	/* A short key of the same bytes is another key too. */
	b = batch_create();
	op = add_long(b, OP_DELETE, at(20, 1), one, NULL);
	op->flags = 0;
	apply_fails(f, b, ERR_CORRUPT, "two different keys");
	free(one);
	free(two);
}

/* ---- checkpoint ---- */

static struct op *add_position(struct batch *b, uint16_t epoch, uint64_t lsn)
{
	struct op *op = batch_add(b, OP_POSITION);

	op->pos.epoch = epoch;
	op->u.commit.lsn = LSN(lsn);
	return op;
}

static void the_checkpoint_never_moves_back(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();
	struct checkpoint c;

	add_commit(b, 10, 20, 1);
	add_position(b, 1, 30);
	add_position(b, 1, 25);
	add_position(b, 0, 90);
	apply_commit_take(f, b);
	c = applier_committed(f->applier);
	assert_int_equal(c.lsn.v, 30);
	assert_int_equal(c.commit_lsn.v, 10);

	b = batch_create();
	add_commit(b, 28, 29, 1);
	apply_fails(f, b, ERR_BUG, "after the checkpoint");
	b = batch_create();
	add_commit(b, 28, 30, 1); /* as far as it is */
	apply_commit_take(f, b);

	/* A new epoch counts from anew. */
	b = batch_create();
	add_position(b, 2, 5);
	apply_commit_take(f, b);
	c = applier_committed(f->applier);
	assert_int_equal(c.epoch, 2);
	assert_int_equal(c.lsn.v, 5);
	assert_int_equal(c.commit_lsn.v, 0);
	b = batch_create();
	add_commit(b, 100, 110, 1);
	apply_fails(f, b, ERR_BUG, "after the checkpoint");
}

static size_t unseen_now(struct fixture *f, struct unseen_entry *first)
{
	struct err err = {0};
	struct store_txn *txn;
	struct unseen_entry *list;
	size_t n;

	CHECK(store_begin_read(f->store, &txn, &err));
	CHECK(store_list_unseen(txn, &list, &n, &err));
	if (n > 0) *first = list[0];
	free(list);
	store_abort(txn);
	return n;
}

static void transactions_with_changes_are_remembered_as_unseen(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();
	struct unseen_entry e = {0};

	add_commit(b, 10, 11, 100)->flags = OP_F_CHANGES;
	add_commit(b, 20, 21, 101);
	add_commit(b, 30, 31, 102)->flags = OP_F_CHANGES;
	apply_commit_take(f, b);
	assert_int_equal(unseen_now(f, &e), 2);
	assert_int_equal(e.commit_lsn.v, 10);
	assert_int_equal(e.xid.v, 100);
	b = batch_create();
	batch_add(b, OP_UNSEEN_DROP)->u.commit.lsn = LSN(10);
	batch_add(b, OP_UNSEEN_DROP)->u.commit.lsn = LSN(20); /* was none */
	apply_commit_take(f, b);
	assert_int_equal(unseen_now(f, &e), 1);
	assert_int_equal(e.xid.v, 102);
}

/* ---- tables, lineage ---- */

static void a_known_table_keeps_its_counters(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();
	struct table_record t = {.id = 1,
							 .oid = 5,
							 .schema_name = "s",
							 .table_name = "renamed",
							 .state = TABLE_LEFT,
							 .live = 99,
							 .floor = at(99, 9),
							 .schema_version = 9};
	struct table_record now;

	add_upsert(b, 1, at(10, 1), 1, T("a"), NUL, 0, -1);
	add_commit(b, 10, 11, 5);
	batch_add_table(b, &t);
	apply_commit_take(f, b);
	now = table_now(f, 1);
	assert_string_equal(now.schema_name, "s");
	assert_string_equal(now.table_name, "renamed");
	assert_int_equal(now.oid, 5);
	assert_int_equal(now.state, TABLE_LEFT);
	assert_int_equal(now.live, 1);
	assert_int_equal(now.schema_version, 1);
	assert_int_equal(pos_cmp(now.floor, POS_NONE), 0);
	table_record_free(&now);
}

static void the_lineage_is_stored(void **state)
{
	struct fixture *f = *state;
	struct lineage l = {.system_id = 42, .timeline = 3, .slot = "s", .publication = "p", .source = "h"}, back;
	struct batch *b = batch_create();
	struct store_txn *txn;
	struct err err = {0};
	bool found;

	batch_add_lineage(b, &l);
	apply_commit_take(f, b);
	CHECK(store_begin_read(f->store, &txn, &err));
	CHECK(store_get_lineage(txn, &back, &found, &err));
	assert_true(found);
	assert_int_equal(back.system_id, 42);
	assert_string_equal(back.publication, "p");
	lineage_free(&back);
	store_abort(txn);
}

/* ---- aborting ---- */

static void an_abort_forgets_everything_since_the_commit(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();

	add_upsert(b, 1, at(10, 1), 1, T("kept"), NUL, 0, -1);
	add_commit(b, 10, 11, 5);
	apply_commit_take(f, b);

	b = batch_create();
	add_truncate(b, 1, at(20, 1));
	add_upsert(b, 1, at(20, 2), 2, T("lost"), U, 6, -1);
	add_commit(b, 20, 21, 6);
	add_table(b, 7, TABLE_COPYING);
	add_schema(b, 7, 1, "kab", 23);
	add_schema(b, 1, 2, "kb", 23);
	add_run(b, 1, 1);
	add_upsert(b, 7, at(30, 1), 1, T("lost"), NUL, 0, -1);
	apply_take(f, b);
	applier_abort(f->applier);
	assert_false(applier_is_open(f->applier));
	assert_true(applier_at_boundary(f->applier));
	assert_null(applier_take_answers(f->applier));

	/* The source sends it again; table 7 and run 1 are new once more. */
	b = batch_create();
	add_upsert(b, 1, at(20, 1), 2, T("again"), U, 6, 1);
	add_commit(b, 20, 21, 6);
	add_table(b, 7, TABLE_COPYING);
	add_schema(b, 7, 1, "kab", 23);
	add_run(b, 1, 7);
	apply_commit_take(f, b);
	assert_entry(f, 1, 1, "10.1 kept NULL");
	assert_entry(f, 1, 2, "20.1 again NULL");
	assert_counters(f, 1, 2, 0, 0, 0);
	assert_counters(f, 7, 0, 0, 0, 0);
}

static void an_applier_goes_on_where_another_ended(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();
	struct err err = {0};
	struct answer *x;

	add_run(b, 4, 1);
	add_upsert(b, 1, at(10, 1), 1, T("a"), U, 5, -1);
	add_commit(b, 10, 11, 5);
	apply_commit_take(f, b);
	applier_destroy(f->applier);
	CHECK(applier_create(f->store, &f->applier, &err));
	assert_int_equal(applier_committed(f->applier).lsn.v, 11);
	x = applier_take_answers(f->applier); /* both tables are announced */
	assert_int_equal(x->kind, ANSWER_DOUBT);
	assert_int_equal(x->count + x->next->count, 1);
	assert_null(x->next->next);
	answer_destroy(x->next);
	answer_destroy(x);
	b = batch_create();
	add_upsert(b, 1, at(20, 1), 1, T("a2"), U, 6, 1);
	add_commit(b, 20, 21, 6);
	batch_add_run_state(b, 1, 4, RUN_DONE, 9);
	apply_commit_take(f, b);
	assert_entry(f, 1, 1, "20.1 a2 -? born 5 hidden");
	assert_counters(f, 1, 0, 1, 1, 0);
}

static void limit_files(rlim_t bytes)
{
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = bytes;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static struct batch *many_rows(void)
{
	struct batch *b = batch_create();
	char *large = repeat('x', 9000);

	for (int k = 0; k < 200; k++)
		add_upsert(b, 1, at(20, (uint64_t)k + 1), k, T(large), NUL, 0, -1);
	add_commit(b, 20, 21, 6);
	free(large);
	return b;
}

/* The disk is full when it commits: nothing is lost, and later it works. */
static void a_failed_commit_leaves_the_state_before_it(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();
	struct err err = {0};
	struct stat st;
	char path[128];

	add_upsert(b, 1, at(10, 1), 1, T("kept"), NUL, 0, -1);
	add_commit(b, 10, 11, 5);
	apply_commit_take(f, b);
	snprintf(path, sizeof path, "%s/data.mdb", f->dir);
	assert_int_equal(stat(path, &st), 0);
	signal(SIGXFSZ, SIG_IGN);
	limit_files((rlim_t)st.st_size);
	apply_take(f, many_rows());
	assert_false(applier_commit(f->applier, 1, &err));
	limit_files(RLIM_INFINITY);
	assert_int_equal(err.kind, ERR_DISK);
	applier_abort(f->applier);
	assert_int_equal(applier_committed(f->applier).lsn.v, 11);
	assert_entry(f, 1, 1, "10.1 kept NULL");
	assert_counters(f, 1, 1, 0, 0, 0);
	apply_commit_take(f, many_rows());
	assert_counters(f, 1, 200, 0, 0, 0);
}

/* ---- damage ---- */

static void put_raw(struct fixture *f, struct slice key, struct slice entry)
{
	struct store_txn *txn;
	struct err err = {0};

	CHECK(store_begin_write(f->store, &txn, &err));
	CHECK(store_row_put(txn, 1, key, entry, &err));
	CHECK(store_commit(txn, &err));
}

static void damage_is_named_not_followed(void **state)
{
	struct fixture *f = *state;
	struct arena arena = {0};
	struct slice key = int_key(&arena, 1);
	struct buf row = {0};
	struct batch *b;
	struct cell one = {.kind = CELL_NULL};

	put_raw(f, key, (struct slice){(const uint8_t *)"short", 5});
	b = batch_create();
	add_delete(b, 1, at(10, 1), 1);
	apply_fails(f, b, ERR_CORRUPT, "cut short");

	/* An entry that no counter knows of. */
	row_encode_marker(&row, at(5, 1), (struct slice){0});
	put_raw(f, key, (struct slice){row.p, row.n});
	b = batch_create();
	add_delete(b, 1, at(10, 1), 1);
	apply_fails(f, b, ERR_CORRUPT, "counters");

	/* A row of a version with other columns, when values are wanted from it. */
	buf_reset(&row);
	row_encode(&row, at(5, 1), 1, XID(0), (struct slice){0}, &one, 1);
	put_raw(f, key, (struct slice){row.p, row.n});
	b = batch_create();
	add_upsert(b, 1, at(10, 1), 1, T("a"), U, 5, 1);
	apply_fails(f, b, ERR_CORRUPT, "damaged");
	buf_finish(&row);
	arena_finish(&arena);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
	const struct CMUnitTest tests[] = {
		TEST(applies_a_transaction),
		TEST(remembers_the_highest_position),
		TEST(a_delete_of_an_unknown_key_leaves_a_marker),
		TEST(refuses_what_it_does_not_know),
		TEST(a_truncate_drops_everything_at_once),
		TEST(an_old_truncate_spares_newer_entries),
		TEST(long_keys_are_told_apart_by_the_whole),
		TEST(a_hash_collision_is_refused),
		TEST(the_checkpoint_never_moves_back),
		TEST(transactions_with_changes_are_remembered_as_unseen),
		TEST(a_known_table_keeps_its_counters),
		TEST(the_lineage_is_stored),
		TEST(an_abort_forgets_everything_since_the_commit),
		TEST(an_applier_goes_on_where_another_ended),
		TEST(a_failed_commit_leaves_the_state_before_it),
		TEST(damage_is_named_not_followed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
