#include "apply_fixture.h"

/*
 * Transactions that are staged: readers see all of one or nothing, whatever is
 * committed on the way and wherever it ends.
 */

#define T   text_cell
#define NUL text_cell(NULL)
#define U   absent_cell()

/* What a kill leaves: the last commit of LMDB. */
static void restart(struct fixture *f)
{
	struct err err;

	applier_destroy(f->applier);
	CHECK(applier_create(f->store, &f->applier, &err));
}

static void stage_commit(struct fixture *f)
{
	struct err err;

	CHECK(applier_stage_commit(f->applier, &err));
}

static void move(struct fixture *f, size_t bytes)
{
	struct err err;

	CHECK(applier_move(f->applier, bytes, &err));
	commit_now(f);
}

static void move_all(struct fixture *f)
{
	while (applier_has_overlay(f->applier))
		move(f, 1);
}

/* Everything that a reader can see of a table: entries by scan and by key, and its record. */
static void dump(struct fixture *f, uint32_t table, struct buf *out)
{
	struct err err;
	struct store_txn *txn;
	struct store_scan *scan;
	struct slice key, entry, again;
	struct table_record r;
	bool found;

	CHECK(store_begin_read(f->store, &txn, &err));
	CHECK(store_get_table(txn, table, &r, &found, &err));
	table_record_encode(&r, out);
	table_record_free(&r);
	CHECK(store_scan_open(txn, table, SPACE_ROWS, (struct slice){0}, &scan, &err));
	for (;;) {
		CHECK(store_scan_next(scan, &key, &entry, &found, &err));
		if (!found) break;
		buf_put_blob(out, key.p, key.n);
		buf_put_blob(out, entry.p, entry.n);
		CHECK(store_row_get(txn, table, key, &again, &found, &err));
		assert_true(found && slice_eq(again, entry));
	}
	store_scan_close(scan);
	store_abort(txn);
}

static void assert_same_buf(struct buf *a, struct buf *b)
{
	assert_int_equal(a->n, b->n);
	assert_memory_equal(a->p, b->p, a->n);
	buf_finish(a);
	buf_finish(b);
}

/* ---- one at a time ---- */

static void add_some(struct batch *b, uint64_t lsn, int first, int last)
{
	for (int k = first; k <= last; k++)
		add_upsert(b, 1, at(lsn, (uint64_t)(k - first + 1)), k, T("new"), NUL, 0, -1);
}

/* Rows 1 .. 4 are there at 10; rows 3 .. 6 of a transaction at 20 are staged in two parts. */
static void stage_some(struct fixture *f)
{
	struct batch *b = batch_create();

	for (int k = 1; k <= 4; k++)
		add_upsert(b, 1, at(10, (uint64_t)k), k, T("old"), NUL, 0, -1);
	add_commit(b, 10, 11, 5);
	apply_commit_take(f, b);
	applier_stage(f->applier);
	b = batch_create();
	add_some(b, 20, 3, 4);
	apply_take(f, b);
	stage_commit(f);
	b = batch_create();
	for (int k = 5; k <= 6; k++)
		add_upsert(b, 1, at(20, (uint64_t)k), k, T("new"), NUL, 0, -1);
	apply_take(f, b);
	stage_commit(f);
}

static void end_stage(struct fixture *f)
{
	struct batch *b = batch_create();

	add_commit(b, 20, 21, 6);
	apply_commit_take(f, b);
}

static void nothing_is_seen_before_its_end_and_all_after(void **state)
{
	struct fixture *f = *state;

	stage_some(f);
	assert_true(applier_is_staging(f->applier));
	assert_false(applier_at_boundary(f->applier));
	assert_entry(f, 1, 3, "10.3 old NULL");
	assert_entry(f, 1, 5, "absent");
	assert_counters(f, 1, 4, 0, 0, 0);
	assert_int_equal(applier_committed(f->applier).lsn.v, 11);
	end_stage(f);
	assert_false(applier_is_staging(f->applier));
	assert_true(applier_has_overlay(f->applier));
	assert_int_equal(applier_committed(f->applier).lsn.v, 21);
	assert_entry(f, 1, 2, "10.2 old NULL");
	assert_entry(f, 1, 3, "20.1 new NULL");
	assert_entry(f, 1, 6, "20.6 new NULL");
	assert_counters(f, 1, 6, 0, 0, 0);
	for (int i = 0; applier_has_overlay(f->applier); i++) {
		move(f, 1);
		assert_counters(f, 1, 6, 0, 0, 0);
		assert_entry(f, 1, 3, "20.1 new NULL");
		assert_true(i < 10);
	}
	assert_entry(f, 1, 3, "20.1 new NULL");
	assert_counters(f, 1, 6, 0, 0, 0);
}

static void a_transaction_that_never_ended_is_forgotten(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();

	stage_some(f);
	restart(f);
	assert_entry(f, 1, 3, "10.3 old NULL");
	add_upsert(b, 2, at(15, 1), 1, T("a"), NUL, 0, -1);
	add_commit(b, 15, 16, 7);
	apply_commit_take(f, b);
	assert_false(applier_has_overlay(f->applier));
	assert_counters(f, 1, 4, 0, 0, 0);

	/* It comes again, without rows that the first one had. */
	applier_stage(f->applier);
	b = batch_create();
	add_some(b, 20, 3, 3);
	apply_take(f, b);
	stage_commit(f);
	end_stage(f);
	move_all(f);
	assert_entry(f, 1, 3, "20.1 new NULL");
	assert_entry(f, 1, 5, "absent");
	assert_counters(f, 1, 4, 0, 0, 0);
}

static void one_that_is_staged_right_after_it_does_not_inherit_the_stage(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();

	stage_some(f);
	restart(f);
	applier_stage(f->applier);
	add_some(b, 20, 3, 3);
	apply_take(f, b);
	end_stage(f);
	assert_entry(f, 1, 5, "absent");
	assert_counters(f, 1, 4, 0, 0, 0);
}

static void later_changes_meet_the_overlay(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();

	stage_some(f);
	end_stage(f);
	move(f, 1);
	add_upsert(b, 1, at(30, 1), 3, T("newer"), NUL, 0, -1);
	add_delete(b, 1, at(30, 2), 4);
	add_upsert(b, 1, at(30, 3), 5, T("x"), U, 9, 5); /* takes NULL from the overlay's row */
	add_upsert(b, 1, at(15, 1), 6, T("older"), NUL, 0, -1);
	add_commit(b, 30, 31, 9);
	apply_commit_take(f, b);
	for (int i = 0; i < 10; i++) {
		assert_entry(f, 1, 3, "30.1 newer NULL");
		assert_entry(f, 1, 4, "30.2 deleted");
		assert_entry(f, 1, 5, "30.3 x NULL");
		assert_entry(f, 1, 6, "20.6 new NULL");
		assert_counters(f, 1, 5, 0, 0, 1);
		move(f, 1);
	}
	assert_false(applier_has_overlay(f->applier));
}

static void what_follows_in_the_same_batch_meets_it_too(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();

	stage_some(f);
	add_commit(b, 20, 21, 6);
	add_upsert(b, 1, at(30, 1), 5, T("newer"), NUL, 0, -1);
	add_commit(b, 30, 31, 9);
	add_chunk(b, 1, 0, 31, "9:9:");
	add_chunk_row(b, 1, 6, T("copy"), NUL);
	add_gone(b, 1, 3);
	apply_commit_take(f, b);
	assert_entry(f, 1, 5, "30.1 newer NULL");
	assert_entry(f, 1, 6, "31.0 copy NULL");
	assert_entry(f, 1, 3, "31.0 deleted");
	move_all(f);
	assert_entry(f, 1, 5, "30.1 newer NULL");
	assert_entry(f, 1, 3, "31.0 deleted");
	assert_counters(f, 1, 5, 0, 0, 1);
}

static void a_truncate_inside_clears_what_was_there(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();

	stage_some(f);
	add_truncate(b, 1, at(20, 7));
	add_upsert(b, 1, at(20, 8), 1, T("after"), NUL, 0, -1);
	apply_take(f, b);
	stage_commit(f);
	assert_counters(f, 1, 4, 0, 0, 0);
	end_stage(f);
	assert_counters(f, 1, 1, 0, 0, 0);
	assert_entry(f, 1, 2, "absent");
	b = batch_create(); /* before the rows of before are gone */
	add_upsert(b, 1, at(30, 1), 2, T("newer"), NUL, 0, -1);
	add_commit(b, 30, 31, 9);
	apply_commit_take(f, b);
	assert_counters(f, 1, 2, 0, 0, 0);
	move_all(f);
	assert_entry(f, 1, 1, "20.8 after NULL");
	assert_entry(f, 1, 2, "30.1 newer NULL");
	assert_entry(f, 1, 3, "absent");
	assert_counters(f, 1, 2, 0, 0, 0);
}

/* A chunk's bound can be above it only in a replay: the guard must hold then, too. */
static void a_truncate_inside_spares_what_is_newer(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();

	add_upsert(b, 1, at(10, 1), 1, T("old"), NUL, 0, -1);
	add_delete(b, 1, at(10, 2), 2);
	add_commit(b, 10, 11, 5);
	add_chunk(b, 1, 0, 30, "9:9:");
	add_chunk_row(b, 1, 3, T("newer"), NUL);
	apply_commit_take(f, b);
	applier_stage(f->applier);
	b = batch_create();
	add_upsert(b, 1, at(20, 1), 4, T("before"), NUL, 0, -1);
	add_truncate(b, 1, at(20, 2));
	add_upsert(b, 1, at(20, 3), 5, T("after"), NUL, 0, -1);
	apply_take(f, b);
	stage_commit(f);
	end_stage(f);
	for (int i = 0; i < 10; i++) {
		assert_entry(f, 1, 1, "20.2 deleted"); /* which is as good as absent */
		assert_entry(f, 1, 3, "30.0 newer NULL");
		assert_entry(f, 1, 4, "20.2 deleted");
		assert_entry(f, 1, 5, "20.3 after NULL");
		assert_counters(f, 1, 2, 0, 0, 3);
		move(f, 1);
	}
	assert_false(applier_has_overlay(f->applier));
}

static void a_table_made_inside_comes_with_the_rest(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();
	struct table_record r;
	struct store_txn *txn;
	struct err err;
	bool found;

	stage_some(f);
	add_table(b, 3, TABLE_COPYING);
	add_schema(b, 3, 1, "kab", 23);
	add_upsert(b, 3, at(20, 9), 1, T("a"), NUL, 0, -1);
	apply_take(f, b);
	stage_commit(f);
	CHECK(store_begin_read(f->store, &txn, &err));
	CHECK(store_get_table(txn, 3, &r, &found, &err));
	assert_false(found);
	store_abort(txn);
	restart(f); /* and it is made once more */
	stage_some(f);
	b = batch_create();
	add_table(b, 3, TABLE_COPYING);
	add_schema(b, 3, 1, "kab", 23);
	add_upsert(b, 3, at(20, 9), 1, T("a"), NUL, 0, -1);
	apply_take(f, b);
	stage_commit(f);
	end_stage(f);
	assert_entry(f, 3, 1, "20.9 a NULL");
	assert_counters(f, 3, 1, 0, 0, 0);
	move_all(f);
	assert_counters(f, 3, 1, 0, 0, 0);
}

static void only_its_own_changes_go_to_the_stage(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();

	applier_stage(f->applier);
	add_chunk(b, 1, 0, 31, "9:9:");
	apply_fails(f, b, ERR_BUG, "inside a source transaction");
}

static void an_empty_one_leaves_nothing(void **state)
{
	struct fixture *f = *state;

	applier_stage(f->applier);
	end_stage(f);
	assert_false(applier_has_overlay(f->applier));
	assert_int_equal(applier_committed(f->applier).lsn.v, 21);
}

/* ---- rows in doubt ---- */

static void assert_doubt_listed(struct fixture *f, const char *wanted)
{
	struct batch *b = batch_create();
	struct op *op = batch_add(b, OP_LIST_DOUBT);
	struct answer *list;
	char text[128] = "";
	size_t n = 0;

	answers_destroy(applier_take_answers(f->applier));
	op->table_id = 1;
	op->u.list.limit = 100;
	apply_commit_take(f, b);
	list = applier_take_answers(f->applier);
	assert_non_null(list);
	for (size_t i = 0; i < list->nkeys; i++)
		n += (size_t)snprintf(text + n, sizeof text - n, "%s%.*s", i ? " " : "",
							  (int)list->keys[i].texts[0].n, (const char *)list->keys[i].texts[0].p);
	assert_string_equal(text, wanted);
	answers_destroy(list);
}

static void doubt_is_listed_as_it_shows(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();

	add_upsert(b, 1, at(10, 1), 1, T("a"), U, 5, -1);
	add_upsert(b, 1, at(10, 2), 2, T("a"), U, 5, -1);
	add_commit(b, 10, 11, 5);
	apply_commit_take(f, b);
	applier_stage(f->applier);
	b = batch_create();
	add_upsert(b, 1, at(20, 1), 2, T("whole"), T("whole"), 0, -1);
	add_upsert(b, 1, at(20, 2), 3, T("a"), U, 6, -1);
	apply_take(f, b);
	stage_commit(f);
	restart(f);
	assert_doubt_listed(f, "1 2"); /* it came to nothing */
	assert_counters(f, 1, 0, 2, 2, 0);
	applier_stage(f->applier);
	b = batch_create();
	add_upsert(b, 1, at(20, 1), 2, T("whole"), T("whole"), 0, -1);
	add_upsert(b, 1, at(20, 2), 3, T("a"), U, 6, -1);
	apply_take(f, b);
	stage_commit(f);
	end_stage(f);
	assert_doubt_listed(f, "1 3");
	assert_counters(f, 1, 1, 2, 2, 0);
	move_all(f);
	assert_doubt_listed(f, "1 3");
	assert_counters(f, 1, 1, 2, 2, 0);
}

/* Not listed in between, which would put the index right. */
static void moving_puts_the_index_of_doubt_right(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();

	for (int k = 1; k <= 3; k++)
		add_upsert(b, 1, at(10, (uint64_t)k), k, T("a"), U, 5, -1);
	add_commit(b, 10, 11, 5);
	apply_commit_take(f, b);
	applier_stage(f->applier);
	b = batch_create();
	add_upsert(b, 1, at(20, 1), 1, T("whole"), T("whole"), 0, -1);
	add_upsert(b, 1, at(20, 2), 2, T("whole"), T("whole"), 0, -1);
	add_upsert(b, 1, at(20, 3), 4, T("a"), U, 6, -1);
	apply_take(f, b);
	stage_commit(f);
	end_stage(f);
	b = batch_create();
	add_upsert(b, 1, at(30, 1), 2, T("once more"), T("whole"), 0, -1);
	add_commit(b, 30, 31, 9);
	apply_commit_take(f, b);
	move_all(f);
	assert_counters(f, 1, 2, 2, 2, 0);
}

/* ---- what else meets an overlay ---- */

static void purge(struct fixture *f)
{
	struct batch *b = batch_create();

	batch_add(b, OP_PURGE)->u.purge = (struct op_purge){1000, 0, 100, 100};
	apply_commit_take(f, b);
}

/* Under a marker of the overlay there is a row still. */
static void a_marker_that_is_purged_takes_what_is_under_it_along(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();

	stage_some(f);
	add_delete(b, 1, at(20, 7), 1);
	add_delete(b, 1, at(20, 8), 2);
	apply_take(f, b);
	end_stage(f);
	assert_counters(f, 1, 4, 0, 0, 2);
	purge(f);
	assert_entry(f, 1, 1, "absent");
	assert_counters(f, 1, 4, 0, 0, 0);
	move_all(f);
	assert_entry(f, 1, 1, "absent");
	assert_counters(f, 1, 4, 0, 0, 0);
}

static void a_truncate_drops_the_overlay_too(void **state)
{
	struct fixture *f = *state;
	struct batch *b = batch_create();

	stage_some(f);
	add_truncate(b, 1, at(20, 7));
	add_upsert(b, 1, at(20, 8), 1, T("after"), NUL, 0, -1);
	apply_take(f, b);
	end_stage(f);
	b = batch_create();
	add_truncate(b, 1, at(30, 1));
	add_upsert(b, 1, at(30, 2), 2, T("last"), NUL, 0, -1);
	add_commit(b, 30, 31, 9);
	apply_commit_take(f, b);
	assert_counters(f, 1, 1, 0, 0, 0);
	move_all(f);
	assert_entry(f, 1, 2, "30.2 last NULL");
	assert_counters(f, 1, 1, 0, 0, 0);
}

static void an_aborted_move_is_to_be_done_again(void **state)
{
	struct fixture *f = *state;
	struct err err;

	stage_some(f);
	end_stage(f);
	CHECK(applier_move(f->applier, 1 << 20, &err));
	assert_false(applier_has_overlay(f->applier));
	applier_abort(f->applier);
	assert_true(applier_has_overlay(f->applier));
	move_all(f);
	assert_counters(f, 1, 6, 0, 0, 0);
}

/* ---- random histories, staged and not ---- */

static uint64_t next(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

static int pick(uint64_t *seed, int n)
{
	return (int)(next(seed) % (uint64_t)n);
}

#define KEYS 12

/* A change at ordinal *o. */
static void add_change(struct batch *b, uint64_t lsn, uint64_t *o, uint64_t *seed)
{
	uint32_t table = 1 + (uint32_t)pick(seed, 2);
	int k = pick(seed, KEYS), other = pick(seed, KEYS);
	char value[16];

	snprintf(value, sizeof value, "%llu.%llu", (unsigned long long)lsn, (unsigned long long)*o);
	switch (pick(seed, 20)) {
	case 0: add_truncate(b, table, at(lsn, ++*o)); break;
	case 1:
	case 2:
	case 3:
	case 4: add_delete(b, table, at(lsn, ++*o), k); break;
	case 5:
	case 6:
	case 7: add_upsert(b, table, at(lsn, ++*o), k, T(value), U, lsn, k); break;
	case 8:
	case 9: /* a key change */
		add_upsert(b, table, at(lsn, ++*o), k, T(value), U, lsn, other);
		if (k != other) add_delete(b, table, at(lsn, *o), other);
		break;
	case 10: add_upsert(b, table, at(lsn, ++*o), k, T(value), U, lsn, -1); break;
	default: add_upsert(b, table, at(lsn, ++*o), k, T(value), T("b"), 0, -1);
	}
}

static struct batch *random_transaction(uint64_t lsn, uint64_t seed)
{
	struct batch *b = batch_create();
	uint64_t o = 0;

	for (int n = pick(&seed, 25); n > 0; n--)
		add_change(b, lsn, &o, &seed);
	add_commit(b, lsn, lsn + 5, lsn)->flags = pick(&seed, 3) ? 0 : OP_F_CHANGES;
	return b;
}

/* What comes between transactions. */
static struct batch *random_interlude(uint64_t lsn, uint64_t seed)
{
	struct batch *b = batch_create();
	uint32_t table = 1 + (uint32_t)pick(&seed, 2);
	char snapshot[64];

	switch (pick(&seed, 3)) {
	case 0:
	case 1:
		snprintf(snapshot, sizeof snapshot, "%llu:%llu:", (unsigned long long)lsn, (unsigned long long)lsn);
		add_chunk(b, table, 0, lsn - 10 * (uint64_t)pick(&seed, 5), snapshot);
		for (int k = 0; k < KEYS; k++) {
			if (pick(&seed, 3) == 0) add_chunk_row(b, table, k, T("chunk"), T("c"));
			if (pick(&seed, 8) == 0) add_gone(b, table, k);
		}
		break;
	default: batch_add(b, OP_UNSEEN_DROP)->u.commit.lsn = LSN(lsn / 10 * 10);
	}
	return b;
}

/* The same history: `plain` applies it as it comes, `staged` in pieces, with kills on the way. */
struct pair {
	struct fixture plain, staged;
	uint64_t seed;
};

static void compare(struct pair *p)
{
	for (uint32_t table = 1; table <= 2; table++) {
		struct buf a = {0}, b = {0};

		dump(&p->plain, table, &a);
		dump(&p->staged, table, &b);
		assert_same_buf(&a, &b);
	}
}

/* Applies b to `staged`, with stage commits between pieces. False: it was killed in it. */
static bool apply_in_pieces(struct pair *p, struct batch *b, bool may_die)
{
	struct err err = {0};

	applier_stage(p->staged.applier);
	for (size_t from = 0, to; from < b->n; from = to) {
		to = from + 1 + (size_t)pick(&p->seed, 6);
		if (to > b->n) to = b->n;
		CHECK(applier_apply_part(p->staged.applier, b, from, to, &err));
		if (to < b->n && pick(&p->seed, 3)) {
			stage_commit(&p->staged);
			compare(p); /* nothing shows: `plain` is not told yet */
		}
		if (may_die && pick(&p->seed, 12) == 0) {
			restart(&p->staged);
			compare(p);
			return false;
		}
	}
	commit_now(&p->staged);
	return true;
}

static void transaction_both(struct pair *p, uint64_t lsn)
{
	uint64_t seed = next(&p->seed);
	bool done = false;

	for (int i = 0; !done; i++) {
		struct batch *b = random_transaction(lsn, seed);

		if (pick(&p->seed, 3) == 0 && !applier_is_open(p->staged.applier)) {
			apply_commit_take(&p->staged, b);
			break;
		}
		move_all(&p->staged);
		done = apply_in_pieces(p, b, i < 3);
		batch_destroy(b);
	}
	apply_commit_take(&p->plain, random_transaction(lsn, seed));
	compare(p);
}

static void interlude_both(struct pair *p, uint64_t lsn)
{
	uint64_t seed = next(&p->seed);

	apply_commit_take(&p->plain, random_interlude(lsn, seed));
	apply_commit_take(&p->staged, random_interlude(lsn, seed));
	compare(p);
}

static void step(struct pair *p, uint64_t lsn)
{
	transaction_both(p, lsn);
	for (int n = pick(&p->seed, 4); n > 0; n--) {
		switch (pick(&p->seed, 4)) {
		case 0: interlude_both(p, lsn + 5); break;
		case 1: restart(&p->staged); break;
		default: move(&p->staged, (size_t)pick(&p->seed, 400));
		}
		compare(p);
	}
}

/* Listing the rows in doubt removes what a stage that came to nothing left in their index. */
static void check_index(struct fixture *f, uint32_t table)
{
	struct batch *b = batch_create();
	struct op *op = batch_add(b, OP_LIST_DOUBT);
	struct table_record r;

	op->table_id = table;
	op->u.list.limit = 100;
	apply_commit_take(f, b);
	r = table_now(f, table);
	assert_counters(f, table, r.live, r.hidden, r.doubt, r.markers);
	table_record_free(&r);
}

static void random_histories_end_the_same_staged_or_not(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 60; seed++) {
		struct pair p = {.seed = seed * UINT64_C(0x9E3779B97F4A7C15)};

		fixture_open(&p.plain);
		fixture_open(&p.staged);
		fixture_tables(&p.plain, 2);
		fixture_tables(&p.staged, 2);
		for (uint64_t i = 1; i <= 25; i++)
			step(&p, 100 + i * 10);
		move_all(&p.staged);
		compare(&p);
		check_index(&p.staged, 1);
		check_index(&p.staged, 2);
		fixture_close(&p.plain);
		fixture_close(&p.staged);
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
	const struct CMUnitTest tests[] = {
		TEST(nothing_is_seen_before_its_end_and_all_after),
		TEST(a_transaction_that_never_ended_is_forgotten),
		TEST(one_that_is_staged_right_after_it_does_not_inherit_the_stage),
		TEST(later_changes_meet_the_overlay),
		TEST(what_follows_in_the_same_batch_meets_it_too),
		TEST(a_truncate_inside_clears_what_was_there),
		TEST(a_truncate_inside_spares_what_is_newer),
		TEST(a_table_made_inside_comes_with_the_rest),
		TEST(only_its_own_changes_go_to_the_stage),
		TEST(an_empty_one_leaves_nothing),
		TEST(doubt_is_listed_as_it_shows),
		TEST(moving_puts_the_index_of_doubt_right),
		TEST(a_marker_that_is_purged_takes_what_is_under_it_along),
		TEST(a_truncate_drops_the_overlay_too),
		TEST(an_aborted_move_is_to_be_done_again),
		cmocka_unit_test(random_histories_end_the_same_staged_or_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
