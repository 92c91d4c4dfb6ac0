/* The lineage gate: each refusal, in order, and what passes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "reader/lineage.h"

static const struct lineage ours = {
	.system_id = 77, .timeline = 3, .slot = "tidemark", .publication = "tidemark", .source = ""};
static const struct checkpoint at = {.epoch = 1, .lsn = {0x2000}};

static struct server_state server(void)
{
	return (struct server_state){
		.system_id = 77,
		.timeline = 3,
		.position = LSN(0x3000),
		.slot = "tidemark",
		.slot_state = {.exists = true, .logical = true, .ours_to_use = true, .confirmed_flush = LSN(0x1f00)}};
}

static void passes(const struct server_state *s)
{
	struct err err = {.kind = ERR_NONE};
	assert_true(lineage_gate(&ours, &at, s, &err));
}

static void refuses(const struct server_state *s, const char *because)
{
	struct err err = {.kind = ERR_NONE};
	assert_false(lineage_gate(&ours, &at, s, &err));
	assert_int_equal(err.kind, ERR_GAP);
	if (strstr(err.msg, because) == NULL) fail_msg("\"%s\" does not say \"%s\"", err.msg, because);
}

static void same_server(void **state)
{
	(void)state;
	struct server_state s = server();
	passes(&s);
	s.slot_state.confirmed_flush = at.lsn;
	s.position = at.lsn;
	passes(&s);
}

static void another_cluster(void **state)
{
	(void)state;
	struct server_state s = server();
	s.system_id = 78;
	refuses(&s, "another database cluster");
}

static void promotion_after_checkpoint(void **state)
{
	(void)state;
	struct server_state s = server();
	s.timeline = 5;
	s.history =
		"1\t0/500\tno recovery target\n2\t0/900\tx\n3\t0/2000\tno recovery target specified\n4\t0/2800\tx\n";
	passes(&s);
}

static void promotion_before_checkpoint(void **state)
{
	(void)state;
	struct server_state s = server();
	s.timeline = 4;
	s.history = "1\t0/500\tx\n2\t0/900\tx\n3\t0/1FFF\tx\n";
	refuses(&s, "promoted at 0/1FFF");
}

static void timeline_that_is_no_ancestor(void **state)
{
	(void)state;
	struct server_state s = server();
	s.timeline = 4;
	s.history = "1\t0/500\tx\n2\t0/900\tx\n";
	refuses(&s, "does not descend");
	s.history = NULL;
	refuses(&s, "does not descend");
	s.history = "garbage\n\n\t\n3\n3\t\n3\tnonsense\tx\n";
	refuses(&s, "does not descend");
}

static void older_timeline(void **state)
{
	(void)state;
	struct server_state s = server();
	s.timeline = 2;
	refuses(&s, "behind timeline 3");
}

static void slot_gone_lost_or_ahead(void **state)
{
	(void)state;
	struct server_state s = server();
	s.slot_state.exists = false;
	refuses(&s, "does not exist any more");
	s = server();
	s.slot_state.lost = true;
	strcpy(s.slot_state.why_lost, "wal_removed");
	refuses(&s, "invalidated (wal_removed)");
	s = server();
	s.slot_state.confirmed_flush = LSN(at.lsn.v + 1);
	refuses(&s, "ahead of this store's checkpoint 0/2000");
}

static void server_behind_checkpoint(void **state)
{
	(void)state;
	struct server_state s = server();
	s.position = LSN(at.lsn.v - 1);
	refuses(&s, "restored to an earlier state");
}

static void order_of_checks(void **state)
{
	(void)state;
	struct server_state s = {.system_id = 1, .timeline = 1, .slot = "tidemark"};
	refuses(&s, "another database cluster");
	s.system_id = 77;
	refuses(&s, "behind timeline");
	s.timeline = 3;
	refuses(&s, "does not exist any more");
	s.slot_state = server().slot_state;
	refuses(&s, "restored to an earlier state");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(same_server),
		cmocka_unit_test(another_cluster),
		cmocka_unit_test(promotion_after_checkpoint),
		cmocka_unit_test(promotion_before_checkpoint),
		cmocka_unit_test(timeline_that_is_no_ancestor),
		cmocka_unit_test(older_timeline),
		cmocka_unit_test(slot_gone_lost_or_ahead),
		cmocka_unit_test(server_behind_checkpoint),
		cmocka_unit_test(order_of_checks),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
