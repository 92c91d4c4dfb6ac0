#include "reader/request.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void refuses(const char *text, const char *because)
{
	struct request r;
	struct err err;
	assert_false(request_parse(slice_of(text), &r, &err));
	assert_int_equal(err.kind, ERR_CONFIG);
	if (strstr(err.msg, because) == NULL) fail_msg("%s: \"%s\" is not in: %s", text, because, err.msg);
}

static struct request parsed(const char *text)
{
	struct request r;
	struct err err;
	if (!request_parse(slice_of(text), &r, &err)) fail_msg("%s: %s", text, err.msg);
	return r;
}

static void a_start_has_tables_and_a_scope(void **state)
{
	(void)state;
	struct request r =
		parsed("{\"command\": \"start\", \"where\": \"n = 1\", \"tables\": [\"public.a\", \"b\"],"
			   " \"sweep\": \"count\", \"id\": \"fix-1\", \"chunk_time_ms\": 20,"
			   " \"max_rows_per_second\": 1000, \"requester\": \"me\"}");
	assert_int_equal(r.verb, REQUEST_START);
	assert_int_equal(r.ntables, 2);
	assert_string_equal(r.tables[1].name, "b");
	assert_string_equal(r.tables[0].where, "n = 1");
	assert_string_equal(r.tables[1].where, "n = 1");
	assert_true(r.has_sweep);
	assert_int_equal(r.sweep, SWEEP_COUNT);
	assert_string_equal(r.id, "fix-1");
	assert_int_equal(r.chunk_time_ms, 20);
	assert_int_equal(r.rows_per_second, 1000);
	assert_string_equal(r.requester, "me");
	request_finish(&r);
}

static void keys_are_lists_of_texts_or_numbers(void **state)
{
	(void)state;
	struct request r =
		parsed("{\"command\":\"start\",\"tables\":[\"t\"],\"from\":[\"a\",-5],\"to\":[\"b\",\"\"]}");
	assert_int_equal(r.from.n, 2);
	assert_string_equal(r.from.values[1], "-5");
	assert_string_equal(r.to.values[1], "");
	request_finish(&r);
	r = parsed("{\"command\":\"start\",\"tables\":[\"t\"],\"keys\":[[1],[\"2\"]]}");
	assert_int_equal(r.nkeys, 2);
	assert_string_equal(r.keys[1].values[0], "2");
	assert_false(r.has_sweep);
	request_finish(&r);
}

static void the_others_have_targets(void **state)
{
	(void)state;
	struct request r = parsed("{\"command\":\"pause\",\"targets\":[\"fix-1\",\"7\"]}");
	assert_int_equal(r.verb, REQUEST_PAUSE);
	assert_int_equal(r.ntargets, 2);
	request_finish(&r);
	r = parsed("{\"command\":\"stop\",\"all\":true}");
	assert_int_equal(r.verb, REQUEST_STOP);
	assert_true(r.all);
	request_finish(&r);
}

static void what_is_no_request_is_refused(void **state)
{
	(void)state;
	refuses("", "not JSON");
	refuses("{", "not JSON");
	refuses("{} {}", "not JSON");
	refuses("{\"command\":\"stop\",\"command\":\"start\"}", "not JSON");
	refuses("[1]", "object");
	refuses("7", "not JSON");
	refuses("{\"command\":7}", "string");
	refuses("{\"command\":\"begin\"}", "unknown command");
	refuses("{\"command\":\"start\"}", "tables");
	refuses("{\"command\":\"start\",\"tables\":[]}", "at least one");
	refuses("{\"command\":\"start\",\"tables\":\"t\"}", "list");
	refuses("{\"command\":\"start\",\"tables\":[1]}", "strings");
	refuses("{\"command\":\"start\",\"tables\":[\"t\"],\"were\":\"x\"}", "did you mean \"where\"");
	refuses("{\"command\":\"start\",\"tables\":[\"t\"],\"targets\":[\"x\"]}", "no field");
	refuses("{\"command\":\"start\",\"tables\":[\"t\"],\"where\":null}", "string");
	refuses("{\"command\":\"start\",\"tables\":[\"t\"],\"where\":\"a\\u0000b\"}", "not JSON");
	refuses("{\"command\":\"start\",\"tables\":[\"t\"],\"sweep\":true}", "\"on\"");
	refuses("{\"command\":\"start\",\"tables\":[\"t\"],\"from\":[]}", "key");
	refuses("{\"command\":\"start\",\"tables\":[\"t\"],\"from\":[1.5]}", "whole numbers");
	refuses("{\"command\":\"start\",\"tables\":[\"t\"],\"keys\":[]}", "at least one key");
	refuses("{\"command\":\"start\",\"tables\":[\"t\"],\"keys\":[1]}", "list");
	refuses("{\"command\":\"start\",\"tables\":[\"t\"],\"keys\":[[1]],\"from\":[1]}", "exclude");
	refuses("{\"command\":\"start\",\"tables\":[\"t\"],\"keys\":[[1]],\"where\":\"x\"}", "exclude");
	refuses("{\"command\":\"start\",\"tables\":[\"t\"],\"keys\":[[1]],\"sweep\":\"on\"}", "sweep");
	refuses("{\"command\":\"start\",\"tables\":[\"t\",\"u\"],\"from\":[1]}", "one table");
	refuses("{\"command\":\"start\",\"tables\":[\"t\"],\"chunk_time_ms\":0}", "from 1");
	refuses("{\"command\":\"start\",\"tables\":[\"t\"],\"max_rows_per_second\":\"9\"}", "whole number");
	refuses("{\"command\":\"start\",\"tables\":[\"t\"],\"id\":\"17\"}", "number of a run");
	refuses("{\"command\":\"start\",\"tables\":[\"t\"],\"id\":\"\"}", "1 to");
	refuses("{\"command\":\"start\",\"tables\":[\"t\"],\"id\":\"a\\nb\"}", "control");
	refuses("{\"command\":\"pause\"}", "targets");
	refuses("{\"command\":\"pause\",\"all\":false}", "targets");
	refuses("{\"command\":\"pause\",\"all\":true,\"targets\":[\"x\"]}", "targets");
}

static void too_many_keys_are_refused(void **state)
{
	(void)state;
	struct buf text = {0};
	static const char head[] = "{\"command\":\"start\",\"tables\":[\"t\"],\"keys\":[[1]";
	buf_put(&text, head, sizeof head - 1);
	for (int i = 0; i < REQUEST_KEYS_MAX; i++)
		buf_put(&text, ",[1]", 4);
	buf_put(&text, "]}", 3);
	refuses((const char *)text.p, "100001 keys");
	buf_finish(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_start_has_tables_and_a_scope),
		cmocka_unit_test(keys_are_lists_of_texts_or_numbers),
		cmocka_unit_test(the_others_have_targets),
		cmocka_unit_test(what_is_no_request_is_refused),
		cmocka_unit_test(too_many_keys_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
