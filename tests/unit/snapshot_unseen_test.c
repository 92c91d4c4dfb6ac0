#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "snapshot/unseen.h"

struct gone {
	size_t n;
	uint64_t first, last;
};

static void note(void *ctx, lsn_t commit_lsn)
{
	struct gone *g = ctx;

	if (g->n++ == 0) g->first = commit_lsn.v;
	g->last = commit_lsn.v;
}

static struct snap snap_of(const char *text)
{
	struct snap s;
	struct err err;

	assert_true(snap_parse(text, false, &s, &err));
	return s;
}

static uint64_t bound(const struct unseen *u, const char *text, uint64_t high)
{
	struct snap s = snap_of(text);
	lsn_t b = unseen_bound(u, &s, LSN(high));

	snap_finish(&s);
	return b.v;
}

static struct gone prune(struct unseen *u, const char *text, const char *other)
{
	struct snap a = snap_of(text), b = snap_of(other ? other : text);
	const struct snap *both[] = {&a, &b};
	struct gone g = {0};

	unseen_prune(u, both, 2, note, &g);
	snap_finish(&a);
	snap_finish(&b);
	return g;
}

static void the_bound_is_the_lowest_unseen_commit(void **state)
{
	struct unseen *u = unseen_create();

	(void)state;
	assert_int_equal(bound(u, "10:20:", 500), 500);
	unseen_add(u, XID(15), LSN(100));
	unseen_add(u, XID(12), LSN(200));
	unseen_add(u, XID(25), LSN(300));
	assert_int_equal(bound(u, "10:20:", 500), 300); /* 25 began after S */
	assert_int_equal(bound(u, "10:30:", 500), 500); /* all seen */
	assert_int_equal(bound(u, "10:30:12", 500), 200);
	assert_int_equal(bound(u, "10:30:12,15", 500), 100);
	assert_int_equal(bound(u, "10:20:", 300), 300); /* at H: above the bound anyway */
	assert_int_equal(bound(u, "10:20:", 250), 250);
	unseen_destroy(u);
	unseen_destroy(NULL);
}

static void pruning_asks_all_snapshots(void **state)
{
	struct unseen *u = unseen_create();
	struct gone g;

	(void)state;
	unseen_add(u, XID(11), LSN(100));
	unseen_add(u, XID(12), LSN(200));
	unseen_add(u, XID(13), LSN(300));
	g = prune(u, "10:20:13", "10:20:11");
	assert_int_equal(g.n, 1);
	assert_int_equal(g.first, 200);
	assert_int_equal(unseen_count(u), 2);
	assert_int_equal(bound(u, "10:20:11", 500), 100);
	assert_int_equal(bound(u, "10:20:12", 500), 500);
	g = prune(u, "20:20:", NULL);
	assert_int_equal(g.n, 2);
	assert_int_equal(unseen_count(u), 0);
	unseen_destroy(u);
}

/* After a reconnect the stream may deliver transactions a second time. */
static void transactions_may_be_added_again(void **state)
{
	struct unseen *u = unseen_create();

	(void)state;
	unseen_add(u, XID(11), LSN(100));
	unseen_add(u, XID(12), LSN(200));
	unseen_add(u, XID(13), LSN(300));
	prune(u, "10:20:11,13", NULL);
	unseen_add(u, XID(11), LSN(100));
	unseen_add(u, XID(12), LSN(200));
	unseen_add(u, XID(13), LSN(300));
	assert_int_equal(unseen_count(u), 3);
	assert_int_equal(bound(u, "10:20:12,13", 500), 200);
	unseen_destroy(u);
}

/* Entry i has xid and commit LSN i * 10; everything else about the fold follows. */
static struct unseen *filled(size_t n)
{
	struct unseen *u = unseen_create();

	for (size_t i = 1; i <= n; i++)
		unseen_add(u, XID(i * 10), LSN(i * 10));
	return u;
}

static void a_fold_is_unseen_until_xmin_is_past_it(void **state)
{
	struct unseen *u = filled(UNSEEN_MAX + 1);
	uint64_t folded = UNSEEN_MAX / 2 * 10, all = (UNSEEN_MAX + 1) * 10;
	char text[64];

	(void)state;
	assert_int_equal(unseen_count(u), UNSEEN_MAX + 1);
	snprintf(text, sizeof text, "%llu:%llu:", (unsigned long long)folded, (unsigned long long)all + 1);
	assert_int_equal(bound(u, text, all + 5), 10);
	assert_int_equal(bound(u, text, 5), 5);
	assert_int_equal(prune(u, text, NULL).n, UNSEEN_MAX / 2 + 1); /* what is not folded is told apart */
	assert_int_equal(unseen_count(u), UNSEEN_MAX / 2);
	assert_int_equal(bound(u, text, all + 5), 10);
	snprintf(text, sizeof text, "%llu:%llu:", (unsigned long long)folded + 1, (unsigned long long)all + 1);
	assert_int_equal(bound(u, text, all + 5), all + 5);
	unseen_destroy(u);
}

/* The stored set is not folded: every commit LSN has to be named, a bounded number at a time. */
static void folded_ones_are_named_in_the_end(void **state)
{
	size_t n = UNSEEN_MAX * 3 + 7;
	struct unseen *u = filled(n);
	struct gone g, total = {0};
	char text[64];
	int calls = 0;

	(void)state;
	snprintf(text, sizeof text, "%zu:%zu:", n * 10 + 1, n * 10 + 1);
	while (unseen_count(u) > 0) {
		g = prune(u, text, NULL);
		assert_true(g.n > 0 && g.n <= 2 * UNSEEN_MAX);
		total.n += g.n;
		assert_int_equal(bound(u, text, n * 10 + 1), n * 10 + 1);
		calls++;
	}
	assert_int_equal(total.n, n);
	assert_int_equal(calls, 3);
	unseen_destroy(u);
}

/* What is settled already waits for its turn beside what is folded later, and does not lower a bound. */
static void a_fold_may_follow_a_fold(void **state)
{
	size_t n = UNSEEN_MAX * 4;
	struct unseen *u = filled(n);
	char text[64];

	(void)state;
	snprintf(text, sizeof text, "%zu:%zu:", n * 10 + 1, n * 10 + 1);
	prune(u, text, NULL);
	for (size_t i = n + 1; i <= n + UNSEEN_MAX + 1; i++)
		unseen_add(u, XID(i * 10), LSN(i * 10));
	assert_int_equal(bound(u, text, UINT64_MAX), (n + 1) * 10);
	snprintf(text, sizeof text, "%zu:%zu:", n * 100, n * 100);
	assert_int_equal(bound(u, text, UINT64_MAX), UINT64_MAX);
	unseen_destroy(u);
}

static void what_is_remembered_of_a_fold_is_bounded(void **state)
{
	size_t n = UNSEEN_FOLDED_MAX + UNSEEN_MAX * 2;
	struct unseen *u = filled(n);
	char text[64];

	(void)state;
	assert_true(unseen_count(u) <= UNSEEN_FOLDED_MAX + UNSEEN_MAX);
	snprintf(text, sizeof text, "%d:%zu:", 5, n * 10 + 1);
	assert_int_equal(bound(u, text, UINT64_MAX), 10); /* forgotten LSNs still count for the bound */
	unseen_destroy(u);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_bound_is_the_lowest_unseen_commit),
		cmocka_unit_test(pruning_asks_all_snapshots),
		cmocka_unit_test(transactions_may_be_added_again),
		cmocka_unit_test(a_fold_is_unseen_until_xmin_is_past_it),
		cmocka_unit_test(folded_ones_are_named_in_the_end),
		cmocka_unit_test(a_fold_may_follow_a_fold),
		cmocka_unit_test(what_is_remembered_of_a_fold_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
