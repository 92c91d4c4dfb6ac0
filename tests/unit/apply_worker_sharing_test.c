/* What shares a commit, what waits for more to share it, and what forces one. */
#include "apply_worker_fixture.h"

#define MANY 500

/* A long queue takes few commits, unless a limit cuts it. */
static uint64_t commits_of_a_queue(struct rig *r, int batches)
{
	struct worker_status last;

	start(r);
	for (int i = 1; i <= batches; i++)
		worker_push(r->w, one_row((uint64_t)i * 10, i));
	stop(r, true, &last);
	assert_int_equal(last.committed.lsn.v, (uint64_t)batches * 10 + 1);
	return last.commits;
}

static void what_is_queued_shares_commits(void **state)
{
	struct rig *r = *state;

	assert_true(commits_of_a_queue(r, MANY) < MANY);
}

/* Each for itself as long as they are few; then together, until there are no more. */
static void a_flood_shares_commits(void **state)
{
	struct rig *r = *state;
	struct worker_status last;

	r->config.flood_us = r->config.gather_us = INT64_C(1000000) * PATIENCE_MS;
	start(r);
	for (uint64_t i = 1; i < WORKER_FLOOD; i++) {
		worker_push(r->w, one_row(i * 10, (int32_t)i));
		wait_committed(r, i * 10 + 1);
	}
	for (uint64_t i = WORKER_FLOOD; i <= 40; i++, nap())
		worker_push(r->w, one_row(i * 10, (int32_t)i));
	stop(r, true, &last);
	assert_int_equal(last.committed.lsn.v, 401);
	assert_int_equal(last.commits, WORKER_FLOOD);
}

/* However many of them a batch has. */
static void transactions_of_a_batch_are_a_flood(void **state)
{
	struct rig *r = *state;
	struct batch *b = batch_create();
	struct worker_status last;

	r->config.flood_us = r->config.gather_us = INT64_C(1000000) * PATIENCE_MS;
	start(r);
	for (uint64_t i = 1; i <= WORKER_FLOOD; i++)
		batch_append(b, one_row(i * 10, (int32_t)i));
	worker_push(r->w, b);
	for (int i = 0; i < 50; i++)
		nap();
	worker_push(r->w, one_row(500, 50));
	stop(r, true, &last);
	assert_int_equal(last.committed.lsn.v, 501);
	assert_int_equal(last.commits, 1);
}

/* Nobody waits for transactions that no longer come. */
static void a_gathering_ends_with_the_flood(void **state)
{
	struct rig *r = *state;

	r->config.flood_us = 20000;
	r->config.gather_us = INT64_C(1000000) * PATIENCE_MS;
	start(r);
	for (uint64_t i = 1; i <= WORKER_FLOOD; i++)
		worker_push(r->w, one_row(i * 10, (int32_t)i));
	wait_committed(r, WORKER_FLOOD * 10 + 1);
}

static void what_begins_ends_a_gathering(void **state)
{
	struct rig *r = *state;
	struct batch *b = batch_create();

	r->config.flood_us = r->config.gather_us = INT64_C(1000000) * PATIENCE_MS;
	start(r);
	for (uint64_t i = 1; i < WORKER_FLOOD; i++) {
		worker_push(r->w, one_row(i * 10, (int32_t)i));
		wait_committed(r, i * 10 + 1);
	}
	worker_push(r->w, one_row(200, 20));
	add_upsert(b, 1, at(300, 1), 30, text_cell("a"), text_cell(NULL), 0, -1);
	worker_push(r->w, b);
	wait_committed(r, 201); /* the other's end may be far */
}

static void push_chunk(struct rig *r, uint64_t run, uint64_t bound, int32_t k, bool ends)
{
	struct batch *b = batch_create();

	add_chunk(b, 1, run, bound, "1:1:");
	add_chunk_row(b, 1, k, text_cell("chunk"), text_cell(NULL));
	if (ends) batch_add_run_state(b, 1, run, RUN_DONE, 1000);
	batch_add(b, OP_UNSEEN_DROP)->u.commit.lsn = LSN(1);
	worker_push(r->w, b);
}

static void chunks_share_a_commit(void **state)
{
	struct rig *r = *state;
	struct worker_status last;

	r->config.chunks_us = INT64_C(1000000) * PATIENCE_MS;
	start(r);
	for (int32_t i = 1; i <= 5; i++, nap())
		push_chunk(r, 0, 100, i, false);
	worker_push(r->w, one_row(200, 20)); /* somebody may wait for this one */
	wait_committed(r, 201);
	stop(r, true, &last);
	assert_int_equal(last.commits, 1);
	assert_counters(&r->f, 1, 6, 0, 0, 0);
}

static void a_chunk_that_ends_its_run_does_not_wait(void **state)
{
	struct rig *r = *state;
	struct batch *b = batch_create();

	r->config.chunks_us = INT64_C(1000000) * PATIENCE_MS;
	start(r);
	add_run(b, 7, 1);
	worker_push(r->w, b);
	while (status_of(r).commits == 0)
		nap();
	push_chunk(r, 7, 100, 1, false);
	push_chunk(r, 7, 100, 2, true);
	for (int i = 0; i < PATIENCE_MS; i++, nap()) {
		struct run_record run = run_now(&r->f, 7);
		bool done = run.state == RUN_DONE;

		run_record_free(&run);
		if (done) return;
	}
	fail_msg("the run has not ended");
}

static void dirty_pages_force_a_commit(void **state)
{
	struct rig *r = *state;

	r->config.dirty_bytes = 1;
	assert_int_equal(commits_of_a_queue(r, MANY), MANY);
}

static void time_forces_a_commit(void **state)
{
	struct rig *r = *state;

	r->config.commit_ms = 0;
	assert_int_equal(commits_of_a_queue(r, MANY), MANY);
}

static void a_full_queue_says_so_until_half_is_free(void **state)
{
	struct rig *r = *state;
	struct batch *b;

	r->config.queue_bytes = 200000;
	start(r);
	assert_false(worker_is_full(r->w));
	b = one_row(10, 1);
	arena_alloc(&b->arena, 300000); /* more than the bound, alone: it is taken all the same */
	worker_push(r->w, b);
	for (int i = 0; i < PATIENCE_MS && worker_is_full(r->w); i++)
		nap();
	assert_false(worker_is_full(r->w));
	wait_committed(r, 11);
	wait_woken(r, 2); /* room, and the commit */
	assert_int_equal(status_of(r).queued_bytes, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_is_queued_shares_commits),
		TEST(a_flood_shares_commits),
		TEST(transactions_of_a_batch_are_a_flood),
		TEST(a_gathering_ends_with_the_flood),
		TEST(what_begins_ends_a_gathering),
		TEST(chunks_share_a_commit),
		TEST(a_chunk_that_ends_its_run_does_not_wait),
		TEST(dirty_pages_force_a_commit),
		TEST(time_forces_a_commit),
		TEST(a_full_queue_says_so_until_half_is_free),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
