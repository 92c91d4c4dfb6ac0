/*
 * tests/unit/apply_worker_fixture.h - a worker on a store that has one table, and waiting for what it does.
 */
#ifndef TESTS_UNIT_APPLY_WORKER_FIXTURE_H
#define TESTS_UNIT_APPLY_WORKER_FIXTURE_H

#include "apply_fixture.h"

#include <stdatomic.h>
#include <time.h>

#include "apply/worker.h"

#define PATIENCE_MS 20000 /* for what must happen; a slow machine is not a failure */
#define NEVER_MS    600000

struct rig {
	struct fixture f;
	struct worker_config config;
	struct worker *w;
	atomic_uint wakes;
};

static inline void on_wake(void *ctx)
{
	atomic_fetch_add(&((struct rig *)ctx)->wakes, 1);
}

/* Table 1 is there, at checkpoint 1; commits when the queue runs dry, syncs never. */
static inline int setup(void **state)
{
	struct rig *r = calloc(1, sizeof *r);
	struct batch *b = batch_create();

	fixture_open_store(&r->f, STORE_WRITE);
	r->config = (struct worker_config){
		.store = r->f.store,
		.queue_bytes = 1 << 20,
		.dirty_bytes = 16 << 20,
		.commit_ms = NEVER_MS,
		.sync_idle_ms = NEVER_MS,
		.wake = on_wake,
		.wake_ctx = r,
	};
	add_table(b, 1, TABLE_COPYING);
	add_schema(b, 1, 1, "kab", 23);
	add_commit(b, 1, 1, 1);
	struct err err = {0};
	CHECK(applier_create(r->f.store, &r->f.applier, &err));
	apply_commit_take(&r->f, b);
	applier_destroy(r->f.applier);
	r->f.applier = NULL;
	*state = r;
	return 0;
}

static inline int teardown(void **state)
{
	struct rig *r = *state;

	worker_stop(r->w, false, NULL, &(struct err){0});
	fixture_close(&r->f);
	free(r);
	return 0;
}

static inline void start(struct rig *r)
{
	struct err err = {0};

	CHECK(worker_start(&r->config, &r->w, &err));
}

static inline void stop(struct rig *r, bool finish, struct worker_status *last)
{
	struct err err = {0};
	struct worker *w = r->w;

	r->w = NULL;
	CHECK(worker_stop(w, finish, last, &err));
}

static inline struct worker_status status_of(struct rig *r)
{
	struct worker_status s;

	worker_get_status(r->w, &s);
	return s;
}

static inline void nap(void)
{
	nanosleep(&(struct timespec){0, 1000000}, NULL);
}

static inline void wait_committed(struct rig *r, uint64_t lsn)
{
	for (int i = 0; i < PATIENCE_MS; i++, nap())
		if (status_of(r).committed.lsn.v >= lsn) return;
	fail_msg("%llu was not committed", (unsigned long long)lsn);
}

static inline void wait_durable(struct rig *r, uint64_t lsn)
{
	for (int i = 0; i < PATIENCE_MS; i++, nap())
		if (status_of(r).durable.v >= lsn) return;
	fail_msg("%llu was not made durable", (unsigned long long)lsn);
}

/* It wakes us after what it has to say can be read. */
static inline void wait_woken(struct rig *r, unsigned times)
{
	for (int i = 0; i < PATIENCE_MS; i++, nap())
		if (atomic_load(&r->wakes) >= times) return;
	fail_msg("it woke us %u times, not %u", atomic_load(&r->wakes), times);
}

static inline void wait_failed(struct rig *r)
{
	for (int i = 0; i < PATIENCE_MS; i++, nap())
		if (status_of(r).failed) return;
	fail_msg("the worker did not fail");
}

/* One transaction that puts row k, at lsn, ending at lsn + 1. */
static inline struct batch *one_row(uint64_t lsn, int32_t k)
{
	struct batch *b = batch_create();

	add_upsert(b, 1, at(lsn, 1), k, text_cell("a"), text_cell(NULL), 0, -1);
	add_commit(b, lsn, lsn + 1, lsn);
	return b;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
