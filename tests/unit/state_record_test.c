#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "state/history.h"
#include "state/record.h"
#include "tests/unit/state_property.h"

static struct slice slice_of_buf(const struct buf *b)
{
	return (struct slice){b->p, b->n};
}

/* Every field has a value of its own, so that two swapped ones show. */
static const struct table_record table = {
	.id = 1,
	.oid = 2,
	.schema_name = "public",
	.table_name = "orders \xE2\x82\xAC",
	.shape = "1/2/3:4/d/public.orders",
	.state = TABLE_COPIED,
	.schema_version = 3,
	.floor = {4, {5}, 6},
	.high = {7, {8}, 9},
	.trust = {10, {11}, 12},
	.live = 13,
	.hidden = 14,
	.doubt = 15,
	.markers = 16,
};

static const struct run_record run = {
	.id = 1,
	.table_id = 2,
	.kind = RUN_SCHEMA,
	.state = RUN_SWEEPING,
	.sweep = true,
	.requester = "who",
	.gate = "10:20:15",
	.cursor = {(const uint8_t *)"\1a\0", 3},
	.sweep_cursor = {(const uint8_t *)"\0b", 2},
	.first_snapshot = "1:1:",
	.last_snapshot = "2:2:",
	.lowest_bound = {3, {4}, 0},
	.last_high = {5},
	.accepted = {6, {7}, 8},
	.rows_read = 9,
	.rows_written = 10,
	.rows_same = 11,
	.rows_superseded = 12,
	.rows_newer = 13,
	.rows_filled = 14,
	.rows_swept = 15,
	.chunks = 16,
	.started_us = 17,
	.ended_us = -18,
	.name = "mine",
	.error = "why",
	.resumes_as = RUN_COPYING,
	.where_sql = "a > 1",
	.from = {(const uint8_t *)"\1f", 2},
	.to = {(const uint8_t *)"\1t\0", 3},
	.listed = 19,
	.chunk_time_ms = 20,
	.rows_per_second = 21,
	.rows_suspect = 22,
	.rows_refetched = 23,
};

static const struct checkpoint checkpoint = {1, {2}, {3}, -4, 5};

static const struct purge_history history = {5, 6, 2, {{1, 2, {3}}, {4, 5, {6}}}};

static const struct lineage lineage = {
	.system_id = UINT64_MAX,
	.timeline = 2,
	.slot = "slot",
	.publication = "",
	.source = "host:5432/db",
	.source_version = 150004,
};

/* ---- decode, encode again, compare: also what the damage tests run ---- */

static bool same_bytes(struct buf *b, struct slice bytes)
{
	bool same = slice_eq(slice_of_buf(b), bytes);

	buf_finish(b);
	return same;
}

static bool refused(const struct err *err)
{
	assert_int_equal(err->kind, ERR_CORRUPT);
	return false;
}

static bool decode_table(struct slice bytes)
{
	struct table_record r;
	struct err err = {0};
	struct buf b = {0};

	if (!table_record_decode(bytes, &r, &err)) {
		assert_null(r.memory);
		return refused(&err);
	}
	table_record_encode(&r, &b);
	table_record_free(&r);
	table_record_free(&r);
	return same_bytes(&b, bytes);
}

static bool decode_run(struct slice bytes)
{
	struct run_record r;
	struct err err = {0};
	struct buf b = {0};

	if (!run_record_decode(bytes, &r, &err)) {
		assert_null(r.memory);
		return refused(&err);
	}
	run_record_encode(&r, &b);
	run_record_free(&r);
	run_record_free(&r);
	return same_bytes(&b, bytes);
}

static bool decode_checkpoint(struct slice bytes)
{
	struct checkpoint c;
	struct err err = {0};
	struct buf b = {0};

	if (!checkpoint_decode(bytes, &c, &err)) return refused(&err);
	checkpoint_encode(&c, &b);
	return same_bytes(&b, bytes);
}

static bool decode_history(struct slice bytes)
{
	struct purge_history h;
	struct err err = {0};
	struct buf b = {0};

	if (!history_decode(bytes, &h, &err)) return refused(&err);
	history_encode(&h, &b);
	return same_bytes(&b, bytes);
}

static bool decode_lineage(struct slice bytes)
{
	struct lineage l;
	struct err err = {0};
	struct buf b = {0};

	if (!lineage_decode(bytes, &l, &err)) {
		assert_null(l.memory);
		return refused(&err);
	}
	lineage_encode(&l, &b);
	lineage_free(&l);
	lineage_free(&l);
	return same_bytes(&b, bytes);
}

static void assert_robust(decode_fn decode, struct buf *b)
{
	uint64_t seed = 6;

	assert_true(only_whole_is_accepted(decode, slice_of_buf(b)));
	for (int i = 0; i < 20000; i++)
		decode_flipped(decode, slice_of_buf(b), &seed, 1);
	buf_finish(b);
}

static void damaged_records_are_refused_or_survived(void **state)
{
	struct buf b = {0};

	(void)state;
	table_record_encode(&table, &b);
	assert_robust(decode_table, &b);
	run_record_encode(&run, &b);
	assert_robust(decode_run, &b);
	checkpoint_encode(&checkpoint, &b);
	assert_robust(decode_checkpoint, &b);
	lineage_encode(&lineage, &b);
	assert_robust(decode_lineage, &b);
	history_encode(&history, &b);
	assert_robust(decode_history, &b);
}

/* ---- fields ---- */

static void table_records_round_trip(void **state)
{
	struct table_record got;
	struct buf b = {0};
	struct err err;

	(void)state;
	table_record_encode(&table, &b);
	assert_true(table_record_decode(slice_of_buf(&b), &got, &err));
	buf_finish(&b); /* strings are the record's own */
	assert_int_equal(got.id, 1);
	assert_int_equal(got.oid, 2);
	assert_string_equal(got.schema_name, "public");
	assert_string_equal(got.table_name, table.table_name);
	assert_int_equal(got.state, TABLE_COPIED);
	assert_string_equal(got.shape, table.shape);
	assert_int_equal(got.schema_version, 3);
	assert_int_equal(pos_cmp(got.floor, table.floor), 0);
	assert_int_equal(pos_cmp(got.high, table.high), 0);
	assert_int_equal(pos_cmp(got.trust, table.trust), 0);
	assert_int_equal(got.live, 13);
	assert_int_equal(got.hidden, 14);
	assert_int_equal(got.doubt, 15);
	assert_int_equal(got.markers, 16);
	table_record_free(&got);
}

static void no_run_has_the_number_that_stands_for_none(void **state)
{
	struct run_record none = run, got;
	struct buf b = {0};
	struct err err = {0};

	(void)state;
	none.id = 0;
	run_record_encode(&none, &b);
	assert_false(run_record_decode((struct slice){b.p, b.n}, &got, &err));
	assert_int_equal(err.kind, ERR_CORRUPT);
	buf_finish(&b);
}

static void run_records_round_trip(void **state)
{
	struct run_record got;
	struct buf b = {0};
	struct err err;

	(void)state;
	run_record_encode(&run, &b);
	assert_true(run_record_decode(slice_of_buf(&b), &got, &err));
	buf_finish(&b);
	assert_int_equal(got.id, 1);
	assert_int_equal(got.table_id, 2);
	assert_int_equal(got.kind, RUN_SCHEMA);
	assert_int_equal(got.state, RUN_SWEEPING);
	assert_true(got.sweep);
	assert_string_equal(got.requester, "who");
	assert_string_equal(got.gate, "10:20:15");
	assert_true(slice_eq(got.cursor, run.cursor));
	assert_true(slice_eq(got.sweep_cursor, run.sweep_cursor));
	assert_string_equal(got.first_snapshot, "1:1:");
	assert_string_equal(got.last_snapshot, "2:2:");
	assert_int_equal(pos_cmp(got.lowest_bound, run.lowest_bound), 0);
	assert_int_equal(got.last_high.v, 5);
	assert_int_equal(pos_cmp(got.accepted, run.accepted), 0);
	assert_int_equal(got.rows_read, 9);
	assert_int_equal(got.rows_written, 10);
	assert_int_equal(got.rows_same, 11);
	assert_int_equal(got.rows_superseded, 12);
	assert_int_equal(got.rows_newer, 13);
	assert_int_equal(got.rows_filled, 14);
	assert_int_equal(got.rows_swept, 15);
	assert_int_equal(got.chunks, 16);
	assert_int_equal(got.started_us, 17);
	assert_int_equal(got.ended_us, -18);
	assert_string_equal(got.name, "mine");
	assert_string_equal(got.error, "why");
	assert_int_equal(got.resumes_as, RUN_COPYING);
	assert_string_equal(got.where_sql, "a > 1");
	assert_true(slice_eq(got.from, run.from));
	assert_true(slice_eq(got.to, run.to));
	assert_int_equal(got.listed, 19);
	assert_int_equal(got.chunk_time_ms, 20);
	assert_int_equal(got.rows_per_second, 21);
	assert_int_equal(got.rows_suspect, 22);
	assert_int_equal(got.rows_refetched, 23);
	run_record_free(&got);
}

static void checkpoint_and_lineage_round_trip(void **state)
{
	struct checkpoint c;
	struct lineage l;
	struct buf b = {0};
	struct err err;

	(void)state;
	checkpoint_encode(&checkpoint, &b);
	assert_true(checkpoint_decode(slice_of_buf(&b), &c, &err));
	assert_true(c.epoch == 1 && c.lsn.v == 2 && c.commit_lsn.v == 3);
	assert_true(c.commit_time_us == -4 && c.written_us == 5);
	buf_reset(&b);
	lineage_encode(&lineage, &b);
	assert_true(lineage_decode(slice_of_buf(&b), &l, &err));
	buf_finish(&b);
	assert_true(l.system_id == UINT64_MAX && l.timeline == 2 && l.source_version == 150004);
	assert_string_equal(l.slot, "slot");
	assert_string_equal(l.publication, "");
	assert_string_equal(l.source, "host:5432/db");
	lineage_free(&l);
}

static void a_history_round_trips(void **state)
{
	struct purge_history h = HISTORY_NONE, got;
	struct buf b = {0};
	struct err err;

	(void)state;
	h.purged = 7;
	h.n = HISTORY_MAX;
	for (size_t i = 0; i < h.n; i++)
		h.samples[i] = (struct sample){(int64_t)i - 5, (uint16_t)i, LSN(i + 100)};
	history_encode(&h, &b);
	assert_true(history_decode(slice_of_buf(&b), &got, &err));
	assert_true(got.purged == 7 && got.retention_us == -1 && got.n == h.n);
	for (size_t i = 0; i < h.n; i++)
		assert_true(got.samples[i].time_us == h.samples[i].time_us &&
					got.samples[i].epoch == h.samples[i].epoch && got.samples[i].lsn.v == i + 100);
	b.p[17] = HISTORY_MAX + 1;
	assert_false(history_decode(slice_of_buf(&b), &got, &err));
	assert_int_equal(err.kind, ERR_CORRUPT);
	assert_int_equal(got.n, 0);
	buf_finish(&b);
}

static void strings_with_a_nul_are_refused(void **state)
{
	struct table_record got;
	struct buf b = {0};
	struct err err;
	uint8_t *o;

	(void)state;
	table_record_encode(&table, &b);
	o = memchr(b.p, 'o', b.n); /* of "orders": the first o there is */
	*o = '\0';
	assert_false(table_record_decode(slice_of_buf(&b), &got, &err));
	assert_int_equal(err.kind, ERR_CORRUPT);
	buf_finish(&b);
}

static void unknown_states_are_refused(void **state)
{
	struct table_record t = table;
	struct run_record r = run;
	struct buf b = {0};

	(void)state;
	t.state = TABLE_LEFT + 1;
	table_record_encode(&t, &b);
	assert_false(decode_table(slice_of_buf(&b)));
	buf_reset(&b);
	r.state = 0;
	run_record_encode(&r, &b);
	assert_false(decode_run(slice_of_buf(&b)));
	buf_reset(&b);
	r.state = RUN_DONE;
	r.kind = RUN_REQUESTED + 1;
	run_record_encode(&r, &b);
	assert_false(decode_run(slice_of_buf(&b)));
	buf_finish(&b);
}

static void a_table_is_live_when_copied_and_free_of_doubt(void **state)
{
	struct table_record t = table;

	(void)state;
	assert_false(table_record_is_live(&t));
	t.doubt = 0;
	assert_true(table_record_is_live(&t));
	t.state = TABLE_COPYING;
	assert_false(table_record_is_live(&t));
	t.state = TABLE_LEFT;
	assert_false(table_record_is_live(&t));
}

static void a_paused_run_is_open_a_finished_one_is_not(void **state)
{
	static const bool open[] = {
		[RUN_COPYING] = true,
		[RUN_SWEEPING] = true,
		[RUN_PAUSED] = true,
		[RUN_DONE] = false,
	};
	struct run_record r = run;

	(void)state;
	for (uint8_t s = RUN_COPYING; s <= RUN_PAUSED; s++) {
		r.state = s;
		assert_int_equal(run_record_is_open(&r), open[s]);
	}
}

static void a_run_is_scoped_when_it_is_about_some_rows(void **state)
{
	struct run_record r = {.where_sql = "true"};

	(void)state;
	assert_true(run_record_is_scoped(&r));
	r = (struct run_record){.where_sql = "", .from = run.from};
	assert_true(run_record_is_scoped(&r));
	r = (struct run_record){.to = run.to};
	assert_true(run_record_is_scoped(&r));
	r = (struct run_record){.listed = 1};
	assert_true(run_record_is_scoped(&r));
	r = (struct run_record){.where_sql = "", .chunk_time_ms = 5};
	assert_false(run_record_is_scoped(&r));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(table_records_round_trip),
		cmocka_unit_test(no_run_has_the_number_that_stands_for_none),
		cmocka_unit_test(run_records_round_trip),
		cmocka_unit_test(checkpoint_and_lineage_round_trip),
		cmocka_unit_test(a_history_round_trips),
		cmocka_unit_test(strings_with_a_nul_are_refused),
		cmocka_unit_test(unknown_states_are_refused),
		cmocka_unit_test(a_table_is_live_when_copied_and_free_of_doubt),
		cmocka_unit_test(a_paused_run_is_open_a_finished_one_is_not),
		cmocka_unit_test(a_run_is_scoped_when_it_is_about_some_rows),
		cmocka_unit_test(damaged_records_are_refused_or_survived),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
