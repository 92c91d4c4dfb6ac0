#include "apply_worker_fixture.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>

/* ---- committing ---- */

static void commits_when_the_queue_runs_dry(void **state)
{
	struct rig *r = *state;
	struct worker_status s;

	start(r);
	s = status_of(r);
	assert_int_equal(s.committed.lsn.v, 1);
	assert_int_equal(s.durable.v, 1); /* it synced */
	assert_int_equal(s.durable_epoch, 1);
	worker_push(r->w, one_row(10, 1));
	wait_committed(r, 11);
	s = status_of(r);
	assert_int_equal(s.committed.commit_lsn.v, 10);
	assert_true(s.committed.written_us > INT64_C(1500000000000000));
	assert_int_equal(s.commits, 1);
	wait_woken(r, 1);
	assert_entry(&r->f, 1, 1, "10.1 a NULL");
}

static void durable_runs_one_commit_behind(void **state)
{
	struct rig *r = *state;
	struct worker_status s;

	start(r);
	for (uint64_t i = 1; i <= 5; i++) {
		worker_push(r->w, one_row(i * 10, 1));
		wait_committed(r, i * 10 + 1);
		s = status_of(r);
		assert_int_equal(s.durable.v, i == 1 ? 1 : (i - 1) * 10 + 1);
		assert_int_equal(s.durable_epoch, 1);
		assert_int_equal(s.commits, i);
		assert_int_equal(s.durable_commits, i - 1);
	}
}

static void durable_catches_up_when_idle(void **state)
{
	struct rig *r = *state;
	unsigned wakes;

	r->config.sync_idle_ms = 5;
	start(r);
	worker_push(r->w, one_row(10, 1));
	wait_durable(r, 11);
	assert_int_equal(status_of(r).committed.lsn.v, 11);
	assert_int_equal(status_of(r).durable_commits, 1);
	/* Once, and then it is quiet. */
	wakes = atomic_load(&r->wakes);
	for (int i = 0; i < 30; i++)
		nap();
	assert_true(atomic_load(&r->wakes) <= wakes + 1);
	assert_int_equal(status_of(r).commits, 1);
}

/* A commit that writes nothing syncs nothing: what was written before it is no more durable than it was. */
static void a_question_makes_nothing_durable(void **state)
{
	struct rig *r = *state;
	struct answer *list = NULL;
	struct batch *b = batch_create();

	start(r);
	answers_destroy(worker_take_answers(r->w));
	worker_push(r->w, one_row(10, 1));
	wait_committed(r, 11);
	batch_add(b, OP_LIST_SUSPECTS)->table_id = 1;
	b->ops[0].u.list.limit = b->ops[0].u.list.scan_limit = 10;
	b->ops[0].u.list.token = 42;
	b->ops[0].pos = at(99, 0);
	worker_push(r->w, b);
	for (int i = 0; i < PATIENCE_MS && !list; i++, nap())
		list = worker_take_answers(r->w);
	assert_non_null(list);
	assert_int_equal(list->token, 42);
	assert_int_equal(list->nkeys, 1);
	answers_destroy(list);
	assert_int_equal(status_of(r).durable.v, 1);
	assert_int_equal(status_of(r).commits, 1);
}

static void the_first_answers_announce_the_tables(void **state)
{
	struct rig *r = *state;
	struct answer *list;

	start(r);
	list = worker_take_answers(r->w);
	assert_non_null(list);
	assert_int_equal(list->kind, ANSWER_DOUBT);
	assert_int_equal(list->table_id, 1);
	assert_null(list->next);
	answers_destroy(list);
	assert_null(worker_take_answers(r->w));
}

/* ---- transactions in pieces ---- */

static void a_transaction_in_pieces_is_committed_at_its_end(void **state)
{
	struct rig *r = *state;
	struct batch *b;

	r->config.dirty_bytes = 1; /* every boundary is a commit, and nothing else is */
	r->config.commit_ms = 0;
	start(r);
	for (int i = 1; i <= 10; i++) {
		b = batch_create();
		add_upsert(b, 1, at(10, (uint64_t)i), i, text_cell("a"), text_cell(NULL), 0, -1);
		worker_push(r->w, b);
	}
	for (int i = 0; i < PATIENCE_MS && status_of(r).queued_bytes > 0; i++)
		nap();
	assert_int_equal(status_of(r).commits, 0);
	assert_entry(&r->f, 1, 1, "absent");
	b = batch_create();
	add_commit(b, 10, 11, 7);
	worker_push(r->w, b);
	wait_committed(r, 11);
	assert_entry(&r->f, 1, 10, "10.10 a NULL");
	assert_counters(&r->f, 1, 10, 0, 0, 0);
}

/* ---- large transactions ---- */

static void wait_applied(struct rig *r)
{
	for (int i = 0; i < PATIENCE_MS && status_of(r).queued_bytes > 0; i++)
		nap();
	assert_int_equal(status_of(r).queued_bytes, 0);
}

static enum store_overlay overlay_of(struct rig *r)
{
	enum store_overlay overlay;
	struct store_txn *txn;
	struct err err;

	CHECK(store_begin_read(r->f.store, &txn, &err));
	CHECK(store_get_overlay(txn, &overlay, &err));
	store_abort(txn);
	return overlay;
}

static void wait_moved(struct rig *r)
{
	for (int i = 0; i < PATIENCE_MS; i++, nap())
		if (overlay_of(r) == OVERLAY_NONE) return;
	fail_msg("the overlay was not moved");
}

/* Rows first .. last of the transaction at lsn, each at the ordinal of its number. */
static struct batch *rows_of(uint64_t lsn, int first, int last)
{
	struct batch *b = batch_create();

	for (int k = first; k <= last; k++)
		add_upsert(b, 1, at(lsn, (uint64_t)k), k, text_cell("large"), text_cell(NULL), 0, -1);
	return b;
}

/* Sixteen pages and more: staged from its second or third batch on. */
static void push_large(struct rig *r, uint64_t lsn, bool whole)
{
	struct batch *b;

	for (int i = 0; i < 10; i++)
		worker_push(r->w, rows_of(lsn, i * 100 + 1, i * 100 + 100));
	if (!whole) return;
	b = batch_create();
	add_commit(b, lsn, lsn + 1, lsn);
	worker_push(r->w, b);
}

static void a_large_transaction_is_seen_at_its_end(void **state)
{
	struct rig *r = *state;
	struct batch *b = batch_create();

	r->config.dirty_bytes = 16 * 4096;
	start(r);
	push_large(r, 10, false);
	wait_applied(r);
	assert_int_equal(overlay_of(r), OVERLAY_STAGED);
	assert_int_equal(status_of(r).commits, 0);
	assert_int_equal(status_of(r).durable.v, 1);
	assert_entry(&r->f, 1, 1, "absent");
	assert_counters(&r->f, 1, 0, 0, 0, 0);
	add_commit(b, 10, 11, 7);
	worker_push(r->w, b);
	wait_committed(r, 11);
	assert_counters(&r->f, 1, 1000, 0, 0, 0);
	wait_moved(r);
	assert_entry(&r->f, 1, 1000, "10.1000 large NULL");
	assert_counters(&r->f, 1, 1000, 0, 0, 0);
}

/* What is complete is not lost when LMDB's transaction is given up for what follows it. */
static void what_precedes_a_large_transaction_is_kept(void **state)
{
	struct rig *r = *state;
	struct worker_status last;
	struct batch *b;

	r->config.dirty_bytes = 16 * 4096;
	start(r);
	for (uint64_t i = 1; i <= 30; i++) {
		b = rows_of(i * 100, (int)i, (int)i);
		add_commit(b, i * 100, i * 100 + 1, i);
		add_upsert(b, 1, at(i * 100 + 50, 1), 40, text_cell("first"), text_cell(NULL), 0, -1);
		worker_push(r->w, b);
		push_large(r, i * 100 + 50, true);
	}
	stop(r, true, &last);
	assert_int_equal(last.committed.lsn.v, 3051);
	assert_int_equal(last.durable.v, 3051);
	assert_entry(&r->f, 1, 30, "3050.30 large NULL");
	assert_entry(&r->f, 1, 1000, "3050.1000 large NULL");
	assert_counters(&r->f, 1, 1000, 0, 0, 0);
	start(r); /* and what was left to be moved is */
	wait_moved(r);
	assert_counters(&r->f, 1, 1000, 0, 0, 0);
}

static void so_are_chunks_before_it(void **state)
{
	struct rig *r = *state;
	struct batch *b;

	r->config.dirty_bytes = 16 * 4096;
	start(r);
	for (uint64_t i = 1; i <= 10; i++) {
		worker_push(r->w, one_row(i * 100, 1500));
		b = batch_create();
		add_chunk(b, 1, 0, i * 100 + 1, "1:1:");
		add_chunk_row(b, 1, 2000 + (int)i, text_cell("chunk"), text_cell(NULL));
		worker_push(r->w, b);
		b = batch_create();
		add_chunk(b, 1, 0, i * 100 + 1, "1:1:");
		add_chunk_row(b, 1, 3000 + (int)i, text_cell("chunk"), text_cell(NULL));
		add_upsert(b, 1, at(i * 100 + 50, 1), 40, text_cell("first"), text_cell(NULL), 0, -1);
		worker_push(r->w, b);
		push_large(r, i * 100 + 50, true);
	}
	wait_committed(r, 1051);
	assert_entry(&r->f, 1, 1500, "1000.1 a NULL");
	assert_entry(&r->f, 1, 2010, "1001.0 chunk NULL");
	assert_entry(&r->f, 1, 3001, "101.0 chunk NULL");
	assert_counters(&r->f, 1, 1021, 0, 0, 0);
}

static void a_large_transaction_that_is_cut_comes_again(void **state)
{
	struct rig *r = *state;
	struct worker_status last;

	r->config.dirty_bytes = 16 * 4096;
	start(r);
	worker_push(r->w, one_row(5, 2000));
	push_large(r, 10, false);
	wait_applied(r);
	stop(r, true, &last);
	assert_int_equal(last.committed.lsn.v, 6);
	assert_int_equal(overlay_of(r), OVERLAY_STAGED);
	assert_counters(&r->f, 1, 1, 0, 0, 0);
	start(r);
	worker_push(r->w, one_row(7, 2001));
	wait_committed(r, 8);
	assert_int_equal(overlay_of(r), OVERLAY_NONE);
	push_large(r, 10, true);
	wait_committed(r, 11);
	assert_counters(&r->f, 1, 1002, 0, 0, 0);
}

static void others_go_on_while_it_is_moved(void **state)
{
	struct rig *r = *state;

	r->config.dirty_bytes = 16 * 4096;
	start(r);
	push_large(r, 10, true);
	for (uint64_t i = 1; i <= 100; i++)
		worker_push(r->w, one_row(10 + i * 10, (int32_t)i));
	wait_committed(r, 1011);
	wait_moved(r);
	assert_entry(&r->f, 1, 100, "1010.1 a NULL");
	assert_entry(&r->f, 1, 101, "10.101 large NULL");
	assert_counters(&r->f, 1, 1000, 0, 0, 0);
}

/* A transaction, and the start of one whose end has not come. */
static struct batch *one_and_a_half(uint64_t lsn)
{
	struct batch *b = one_row(lsn, 1);

	add_upsert(b, 1, at(lsn + 10, 1), 2, text_cell("half"), text_cell(NULL), 0, -1);
	return b;
}

static void a_half_transaction_holds_nothing_back(void **state)
{
	struct rig *r = *state;
	struct batch *b = batch_create();

	start(r);
	worker_push(r->w, one_and_a_half(10));
	wait_committed(r, 11);
	assert_entry(&r->f, 1, 1, "10.1 a NULL");
	assert_entry(&r->f, 1, 2, "absent");
	add_commit(b, 20, 21, 7);
	worker_push(r->w, b);
	wait_committed(r, 21);
	assert_entry(&r->f, 1, 2, "20.1 half NULL");
	assert_int_equal(status_of(r).commits, 2);
}

static void finishing_leaves_out_a_half_transaction_alone(void **state)
{
	struct rig *r = *state;
	struct worker_status last;

	start(r);
	for (uint64_t i = 1; i <= 50; i++)
		worker_push(r->w, one_row(i * 10, (int32_t)i));
	worker_push(r->w, one_and_a_half(1000));
	stop(r, true, &last);
	assert_int_equal(last.committed.lsn.v, 1001);
	assert_int_equal(last.durable.v, 1001);
	assert_int_equal(last.queued_bytes, 0);
	assert_false(last.failed);
	assert_entry(&r->f, 1, 50, "500.1 a NULL");
	assert_entry(&r->f, 1, 1, "1000.1 a NULL");
	assert_entry(&r->f, 1, 2, "20.1 a NULL");
	assert_counters(&r->f, 1, 50, 0, 0, 0);
}

static void dropping_leaves_the_last_commit(void **state)
{
	struct rig *r = *state;
	struct worker_status last;
	struct batch *b = batch_create();

	start(r);
	worker_push(r->w, one_row(10, 1));
	wait_committed(r, 11);
	add_upsert(b, 1, at(20, 1), 2, text_cell("half"), text_cell(NULL), 0, -1);
	worker_push(r->w, b);
	stop(r, false, &last);
	assert_int_equal(last.committed.lsn.v, 11);
	assert_entry(&r->f, 1, 2, "absent");
}

static void a_stopped_worker_is_replaced_by_another(void **state)
{
	struct rig *r = *state;
	struct worker_status last;

	for (uint64_t i = 1; i <= 3; i++) {
		start(r);
		worker_push(r->w, one_row(i * 10, (int32_t)i));
		stop(r, true, &last);
		assert_int_equal(last.durable.v, i * 10 + 1);
	}
	assert_counters(&r->f, 1, 3, 0, 0, 0);
}

static void stopping_nothing_is_harmless(void **state)
{
	(void)state;
	assert_true(worker_stop(NULL, true, NULL, NULL));
}

/* ---- failing ---- */

static void fail_and_push_on(struct rig *r)
{
	struct batch *b = batch_create();

	add_delete(b, 77, at(20, 1), 1);
	worker_push(r->w, b);
	for (int i = 0; i < 20; i++)
		worker_push(r->w, one_row(100 + (uint64_t)i * 10, i));
	wait_failed(r);
	worker_push(r->w, one_row(900, 1)); /* freed */
}

static void a_failure_stops_it_and_says_why(void **state)
{
	struct rig *r = *state;
	struct worker_status s;
	struct err err = {0};
	struct worker *w;

	start(r);
	worker_push(r->w, one_row(10, 1));
	wait_committed(r, 11);
	fail_and_push_on(r);
	s = status_of(r);
	assert_int_equal(s.err.kind, ERR_BUG);
	assert_non_null(strstr(s.err.msg, "table 77"));
	assert_int_equal(s.committed.lsn.v, 11);
	assert_int_equal(s.queued_bytes, 0);
	assert_false(worker_is_full(r->w));
	w = r->w;
	r->w = NULL;
	assert_false(worker_stop(w, true, &s, &err));
	assert_int_equal(err.kind, ERR_BUG);
	assert_true(s.failed);
	assert_counters(&r->f, 1, 1, 0, 0, 0);
}

static void limit_files(rlim_t bytes)
{
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = bytes;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static struct batch *large_rows(void)
{
	struct batch *b = batch_create();
	char *large = calloc(1, 9001);

	memset(large, 'x', 9000);
	for (int k = 0; k < 200; k++)
		add_upsert(b, 1, at(20, (uint64_t)k + 1), k, text_cell(large), text_cell(NULL), 0, -1);
	add_commit(b, 20, 21, 6);
	free(large);
	return b;
}

static void a_full_disk_is_a_failure_that_loses_nothing(void **state)
{
	struct rig *r = *state;
	struct worker_status last;
	struct stat st;
	char path[128];

	start(r);
	worker_push(r->w, one_row(10, 1));
	wait_committed(r, 11);
	snprintf(path, sizeof path, "%s/data.mdb", r->f.dir);
	assert_int_equal(stat(path, &st), 0);
	signal(SIGXFSZ, SIG_IGN);
	limit_files((rlim_t)st.st_size);
	worker_push(r->w, large_rows());
	wait_failed(r);
	limit_files(RLIM_INFINITY);
	assert_int_equal(status_of(r).err.kind, ERR_DISK);
	assert_int_equal(status_of(r).committed.lsn.v, 11);
	assert_false(worker_stop(r->w, true, NULL, &(struct err){0}));
	r->w = NULL;
	assert_counters(&r->f, 1, 1, 0, 0, 0);

	/* There is room again: the next worker takes the same. */
	start(r);
	worker_push(r->w, large_rows());
	stop(r, true, &last);
	assert_int_equal(last.committed.lsn.v, 21);
	assert_counters(&r->f, 1, 200, 0, 0, 0);
}

static void starting_can_fail(void **state)
{
	struct rig *r = *state;
	struct store *reading;
	struct worker *w;
	struct err err = {0};

	store_close(r->f.store); /* a process opens a directory once */
	r->f.store = NULL;
	CHECK(store_open(r->f.dir, STORE_READ, &reading, &err));
	r->config.store = reading;
	assert_false(worker_start(&r->config, &w, &err));
	assert_int_equal(err.kind, ERR_BUG);
	store_close(reading);
}

/* ---- two threads ---- */

#define STRESS_BATCHES 4000

struct stress {
	struct rig *rig;
	atomic_bool done;
	uint64_t answers;
};

/* What a batch may be: whole transactions, a half, the other half, with a question now and then. */
static struct batch *stress_batch(uint64_t i)
{
	struct batch *b = batch_create();
	uint64_t lsn = 10 + i / 2 * 10;
	int32_t k = (int32_t)(i % 100);

	add_upsert(b, 1, at(lsn, i % 2 + 1), k, text_cell("a"), i % 7 ? text_cell(NULL) : absent_cell(), lsn, k);
	if (i % 2 == 0) return b;
	add_commit(b, lsn, lsn + 1, lsn);
	if (i % 10 != 1) return b;
	batch_add(b, OP_LIST_DOUBT)->table_id = 1;
	b->ops[b->n - 1].u.list.limit = 5;
	return b;
}

static void *push_many(void *arg)
{
	struct stress *s = arg;

	for (uint64_t i = 0; i < STRESS_BATCHES; i++) {
		while (worker_is_full(s->rig->w))
			nap();
		worker_push(s->rig->w, stress_batch(i));
	}
	atomic_store(&s->done, true);
	return NULL;
}

static void look(struct stress *s, struct worker_status *before)
{
	struct worker_status now = status_of(s->rig);
	struct answer *list = worker_take_answers(s->rig->w);

	assert_true(now.committed.lsn.v >= before->committed.lsn.v);
	assert_true(now.durable.v >= before->durable.v);
	assert_true(now.durable.v <= now.committed.lsn.v);
	assert_true(now.commits >= before->commits);
	for (struct answer *x = list; x; x = x->next)
		s->answers += x->kind == ANSWER_KEYS;
	answers_destroy(list);
	*before = now;
}

static void two_threads_share_it(void **state)
{
	struct rig *r = *state;
	struct stress s = {.rig = r};
	struct worker_status last = {0};
	const uint64_t end = 10 + (STRESS_BATCHES - 1) / 2 * 10 + 1;
	pthread_t pusher;

	r->config.queue_bytes = 100000;
	r->config.dirty_bytes = 200 * 4096;
	r->config.commit_ms = 5;
	r->config.sync_idle_ms = 1;
	start(r);
	assert_int_equal(pthread_create(&pusher, NULL, push_many, &s), 0);
	while (!atomic_load(&s.done))
		look(&s, &last);
	pthread_join(pusher, NULL);
	wait_durable(r, end);
	look(&s, &last);
	assert_int_equal(s.answers, STRESS_BATCHES / 10);
	stop(r, true, &last);
	assert_int_equal(last.committed.lsn.v, end);
	assert_int_equal(last.durable.v, end);
	assert_int_equal(last.queued_bytes, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(commits_when_the_queue_runs_dry),
		TEST(durable_runs_one_commit_behind),
		TEST(durable_catches_up_when_idle),
		TEST(a_question_makes_nothing_durable),
		TEST(the_first_answers_announce_the_tables),
		TEST(a_transaction_in_pieces_is_committed_at_its_end),
		TEST(a_large_transaction_is_seen_at_its_end),
		TEST(what_precedes_a_large_transaction_is_kept),
		TEST(so_are_chunks_before_it),
		TEST(a_large_transaction_that_is_cut_comes_again),
		TEST(others_go_on_while_it_is_moved),
		TEST(a_half_transaction_holds_nothing_back),
		TEST(finishing_leaves_out_a_half_transaction_alone),
		TEST(dropping_leaves_the_last_commit),
		TEST(a_stopped_worker_is_replaced_by_another),
		cmocka_unit_test(stopping_nothing_is_harmless),
		TEST(a_failure_stops_it_and_says_why),
		TEST(a_full_disk_is_a_failure_that_loses_nothing),
		TEST(starting_can_fail),
		TEST(two_threads_share_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
