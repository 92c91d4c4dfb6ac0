#include "reader/recording.h"

#include "apply_fixture.h"

/* A table (k integer, v text) with the key k, or (k, v) when it is not an int4. */
static void make_table(struct fixture *f, uint32_t id, const char *name, enum key_kind kind, uint8_t state)
{
	struct err err = {0};
	struct batch *b = batch_create();
	struct column columns[] = {{.name = "k", .type_oid = 23, .typmod = -1, .type_name = "integer"},
							   {.name = "v", .type_oid = 25, .typmod = -1, .type_name = "text"}};
	uint16_t key_columns[] = {0, 1};
	uint8_t kinds[] = {(uint8_t)kind, KEY_TEXT};
	struct schema s = {.table_id = id,
					   .version = 1,
					   .ncolumns = 2,
					   .nkeys = kind == KEY_INT4 ? 1 : 2,
					   .columns = columns,
					   .key_columns = key_columns,
					   .key_kinds = kinds};
	struct table_record t = {.id = id,
							 .oid = 100 + id,
							 .schema_name = "public",
							 .table_name = name,
							 .state = state,
							 .schema_version = 1};
	batch_add_table(b, &t);
	batch_add_schema(b, &s);
	CHECK(applier_apply(f->applier, b, &err));
	CHECK(applier_commit(f->applier, 1, &err));
	batch_destroy(b);
}

static int open_all(void **state)
{
	struct fixture *f = calloc(1, sizeof *f);
	fixture_open(f);
	make_table(f, 1, "one", KEY_INT4, TABLE_COPIED);
	make_table(f, 2, "two", KEY_INT8, TABLE_COPIED);
	make_table(f, 3, "gone", KEY_INT4, TABLE_LEFT);
	make_table(f, 4, "amounts", KEY_NUMERIC, TABLE_COPIED);
	*state = f;
	return 0;
}

static int close_all(void **state)
{
	fixture_close(*state);
	free(*state);
	return 0;
}

static struct outcome made(struct fixture *f, const char *text)
{
	struct request r;
	struct outcome o;
	struct err err = {0};
	CHECK(request_parse(slice_of(text), &r, &err));
	if (!recording_make(f->store, &r, &o, &err)) fail_msg("%s: %s", text, err.msg);
	request_finish(&r);
	return o;
}

static uint64_t made_one(struct fixture *f, const char *text, const char *state, bool is_new)
{
	struct outcome o = made(f, text);
	assert_int_equal(o.nruns, 1);
	assert_string_equal(o.runs[0].state, state);
	assert_int_equal(o.runs[0].is_new, is_new);
	uint64_t id = o.runs[0].id;
	outcome_finish(&o);
	return id;
}

static void refused(struct fixture *f, const char *text, const char *because)
{
	struct request r;
	struct outcome o;
	struct err err = {0};
	CHECK(request_parse(slice_of(text), &r, &err));
	if (recording_make(f->store, &r, &o, &err)) fail_msg("%s was not refused", text);
	if (err.kind != ERR_CONFIG || strstr(err.msg, because) == NULL)
		fail_msg("%s: \"%s\" is not in: %s", text, because, err.msg);
	request_finish(&r);
}

static struct run_record read_run(struct fixture *f, uint64_t id)
{
	struct store_txn *t;
	struct run_record r;
	struct err err = {0};
	bool found;
	CHECK(store_begin_read(f->store, &t, &err));
	CHECK(store_get_run(t, id, &r, &found, &err));
	assert_true(found);
	store_abort(t);
	return r;
}

#define START(rest) "{\"command\":\"start\",\"tables\":[" rest "}"

static void a_start_is_recorded(void **state)
{
	struct fixture *f = *state;
	uint64_t id = made_one(f,
						   START("\"one\"],\"id\":\"fix\",\"where\":\"v = 'x'\",\"from\":[-3],\"to\":[10],"
								 "\"sweep\":\"count\",\"requester\":\"me\",\"max_rows_per_second\":7"),
						   "copying", true);
	struct run_record r = read_run(f, id);
	struct cur from = cur_of(r.from);
	assert_int_equal(r.table_id, 1);
	assert_int_equal(r.kind, RUN_REQUESTED);
	assert_int_equal(r.state, RUN_COPYING);
	assert_int_equal(r.sweep, SWEEP_COUNT);
	assert_string_equal(r.name, "fix");
	assert_string_equal(r.requester, "me");
	assert_string_equal(r.where_sql, "v = 'x'");
	assert_true(slice_eq(cur_blob(&from), slice_of("-3")));
	assert_true(cur_done(&from));
	assert_int_equal(r.rows_per_second, 7);
	assert_true(r.started_us > 0);
	run_record_free(&r);
}

static void listed_keys_are_recorded(void **state)
{
	struct fixture *f = *state;
	struct store_txn *t;
	struct slice texts;
	struct err err = {0};
	bool found;
	uint64_t id = made_one(f, START("\"two\"],\"keys\":[[1,\"a\"],[2,\"b,c\"]]"), "copying", true);
	struct run_record r = read_run(f, id);
	assert_int_equal(r.listed, 2);
	assert_int_equal(r.sweep, SWEEP_OFF);
	run_record_free(&r);
	CHECK(store_begin_read(f->store, &t, &err));
	CHECK(store_get_run_key(t, id, 1, &texts, &found, &err));
	assert_true(found);
	struct cur c = cur_of(texts);
	assert_true(slice_eq(cur_blob(&c), slice_of("2")));
	assert_true(slice_eq(cur_blob(&c), slice_of("b,c")));
	store_abort(t);
}

static void an_id_twice_is_one_run(void **state)
{
	struct fixture *f = *state;
	uint64_t id = made_one(f, START("\"one\"],\"id\":\"a\""), "copying", true);
	assert_int_equal(made_one(f, START("\"one\"],\"id\":\"a\",\"where\":\"other\""), "copying", false), id);
	assert_int_not_equal(made_one(f, START("\"two\"],\"id\":\"a\""), "copying", true), id);
	made_one(f, "{\"command\":\"stop\",\"targets\":[\"one\"]}", "stopped", false);
	/* Ended ones included. */
	assert_int_equal(made_one(f, START("\"one\"],\"id\":\"a\""), "stopped", false), id);
	/* A table named twice is one as well. */
	made_one(f, START("\"one\",\"public.one\"],\"id\":\"b\""), "copying", true);
}

static void runs_are_paused_resumed_and_stopped(void **state)
{
	struct fixture *f = *state;
	uint64_t id = made_one(f, START("\"one\"],\"id\":\"a\""), "copying", true);
	char by_number[80];
	snprintf(by_number, sizeof by_number, "{\"command\":\"pause\",\"targets\":[\"%llu\"]}",
			 (unsigned long long)id);
	made_one(f, by_number, "paused", false);
	made_one(f, by_number, "paused", false);
	struct run_record r = read_run(f, id);
	assert_int_equal(r.resumes_as, RUN_COPYING);
	run_record_free(&r);
	made_one(f, "{\"command\":\"resume\",\"targets\":[\"public.one\"]}", "copying", false);
	made_one(f, "{\"command\":\"stop\",\"targets\":[\"a\"],\"requester\":\"me\"}", "stopped", false);
	r = read_run(f, id);
	assert_int_equal(r.state, RUN_STOPPED);
	assert_string_equal(r.error, "stopped on request of me");
	assert_true(r.ended_us > 0);
	run_record_free(&r);
	refused(f, "{\"command\":\"resume\",\"targets\":[\"a\"]}", "was stopped already");
	refused(f, "{\"command\":\"stop\",\"targets\":[\"one\"]}", "no open run");
	refused(f, "{\"command\":\"stop\",\"targets\":[\"77\"]}", "no run 77");
	refused(f, "{\"command\":\"stop\",\"targets\":[\"nobody\"]}", "there is no run nobody");
	struct outcome none = made(f, "{\"command\":\"pause\",\"all\":true}");
	assert_int_equal(none.nruns, 0);
	outcome_finish(&none);
}

static void a_tables_own_copy_cannot_be_stopped(void **state)
{
	struct fixture *f = *state;
	struct err err = {0};
	struct batch *b = batch_create();
	struct run_record own = {.id = 40,
							 .table_id = 1,
							 .kind = RUN_INITIAL,
							 .state = RUN_COPYING,
							 .requester = "run",
							 .gate = "",
							 .first_snapshot = "",
							 .last_snapshot = ""};
	batch_add_run(b, &own);
	CHECK(applier_apply(f->applier, b, &err));
	CHECK(applier_commit(f->applier, 1, &err));
	batch_destroy(b);
	refused(f, "{\"command\":\"stop\",\"targets\":[\"40\"]}", "not stopped");
	made_one(f, "{\"command\":\"pause\",\"targets\":[\"one\"]}", "paused", false);
	/* Numbers go on behind it. */
	assert_int_equal(made_one(f, START("\"one\"]"), "copying", true), 41);
}

static void what_cannot_be_is_refused(void **state)
{
	struct fixture *f = *state;
	refused(f, START("\"onee\"]"), "did you mean one");
	refused(f, START("\"other.one\"]"), "no table other.one");
	refused(f, START("\"a.b.c\"]"), "");
	refused(f, START("\"gone\"]"), "no longer replicated");
	refused(f, START("\"one\"],\"from\":[1,2]"), "1 column");
	refused(f, START("\"one\"],\"from\":[\"x\"]"), "column k (integer)");
	refused(f, START("\"one\"],\"keys\":[[1],[\"1.5\"]]"), "key number 2");
	refused(f, START("\"one\"],\"from\":[10],\"to\":[9]"), "behind");
	refused(f, START("\"two\"],\"from\":[10,\"a\"],\"to\":[9,\"b\"]"), "behind");
	/* Which of two texts comes first only the server knows. */
	made_one(f, START("\"two\"],\"from\":[9,\"b\"],\"to\":[9,\"a\"]"), "copying", true);
	refused(f, START("\"amounts\"],\"from\":[\"10.5\",\"a\"],\"to\":[\"9\",\"a\"]"), "behind");
	made_one(f, START("\"amounts\"],\"from\":[\"1.00\",\"a\"],\"to\":[\"1\",\"a\"]"), "copying",
			 true); /* equal */
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, open_all, close_all)
	const struct CMUnitTest tests[] = {
		TEST(a_start_is_recorded),
		TEST(listed_keys_are_recorded),
		TEST(an_id_twice_is_one_run),
		TEST(runs_are_paused_resumed_and_stopped),
		TEST(a_tables_own_copy_cannot_be_stopped),
		TEST(what_cannot_be_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
