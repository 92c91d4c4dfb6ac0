#include "reader/signal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct signal message(const char *content)
{
	return (struct signal){.commit_lsn = LSN(0x16B3748), .number = 2, .content = slice_of(content)};
}

static struct slice cell(const char *text)
{
	return text != NULL ? slice_of(text) : (struct slice){NULL, 0};
}

static struct signal row(const char *id, const char *type, const char *data)
{
	return (struct signal){.commit_lsn = LSN(0x16B3748),
						   .number = 1,
						   .is_row = true,
						   .id = cell(id),
						   .type = cell(type),
						   .data = cell(data)};
}

static struct signal_meaning meaning(struct signal s)
{
	struct signal_meaning m;
	struct err err;
	if (!signal_read(&s, &m, &err)) fail_msg("%s", err.msg);
	return m;
}

static void done(struct signal_meaning *m)
{
	request_finish(&m->request);
	free(m->log);
}

static void refused(struct signal s, const char *because)
{
	struct signal_meaning m;
	struct err err;
	assert_false(signal_read(&s, &m, &err));
	assert_int_equal(err.kind, ERR_CONFIG);
	if (strstr(err.msg, because) == NULL) fail_msg("\"%s\" is not in: %s", because, err.msg);
}

static void a_request_may_be_a_message(void **state)
{
	(void)state;
	struct signal_meaning m =
		meaning(message("{\"command\":\"start\",\"tables\":[\"t\"],\"where\":\"n = 1\"}"));
	assert_true(m.is_request);
	assert_int_equal(m.request.verb, REQUEST_START);
	assert_string_equal(m.request.id, "signal-0/16B3748-2");
	assert_string_equal(m.request.requester, "signal");
	done(&m);
	m = meaning(message("{\"command\":\"start\",\"tables\":[\"t\"],\"id\":\"mine\",\"requester\":\"me\"}"));
	assert_string_equal(m.request.id, "mine");
	assert_string_equal(m.request.requester, "me");
	done(&m);
	m = meaning(message("{\"command\":\"pause\",\"all\":true}"));
	assert_int_equal(m.request.verb, REQUEST_PAUSE);
	done(&m);
}

static void debezium_rows_are_understood(void **state)
{
	(void)state;
	struct signal_meaning m =
		meaning(row("ad-hoc-1", "execute-snapshot",
					"{\"data-collections\":[\"public.Orders\",\"shop.inventory.items\",\"lone\"],"
					"\"type\":\"INCREMENTAL\",\"additional-conditions\":"
					"[{\"data-collection\":\"public.Orders\",\"filter\":\"color='blue'\"}]}"));
	assert_int_equal(m.request.ntables, 3);
	assert_string_equal(m.request.tables[0].name, "\"public\".\"Orders\"");
	assert_string_equal(m.request.tables[0].where, "color='blue'");
	assert_string_equal(m.request.tables[1].name, "\"inventory\".\"items\"");
	assert_string_equal(m.request.tables[1].where, "");
	assert_string_equal(m.request.tables[2].name, "\"lone\"");
	assert_string_equal(m.request.id, "ad-hoc-1");
	assert_string_equal(m.request.requester, "signal table");
	assert_false(m.request.has_sweep);
	assert_null(m.log);
	done(&m);
	m = meaning(row("17", "execute-snapshot",
					"{\"data-collections\":[\"public.\\\"a.b\\\"\"],\"type\":\"blocking\","
					"\"additional-condition\":\"x > 1\"}"));
	assert_string_equal(m.request.tables[0].name, "public.\"a.b\"");
	assert_string_equal(m.request.tables[0].where, "x > 1");
	assert_string_equal(m.request.id, "signal-17");
	assert_non_null(m.log);
	done(&m);
	m = meaning(row(NULL, "execute-snapshot", "{\"data-collections\":[\"a\"]}"));
	assert_string_equal(m.request.id, "signal-0/16B3748-1");
	done(&m);
}

static void the_other_types_are_understood(void **state)
{
	(void)state;
	struct signal_meaning m = meaning(row("1", "stop-snapshot", NULL));
	assert_int_equal(m.request.verb, REQUEST_STOP);
	assert_true(m.request.all);
	done(&m);
	m = meaning(row("1", "pause-snapshot", "{\"data-collections\":[\"public.a\"],\"type\":\"incremental\"}"));
	assert_int_equal(m.request.verb, REQUEST_PAUSE);
	assert_false(m.request.all);
	assert_int_equal(m.request.ntargets, 1);
	assert_string_equal(m.request.targets[0], "\"public\".\"a\"");
	done(&m);
	m = meaning(message("{\"id\":\"x\",\"type\":\"resume-snapshot\",\"data\":{}}"));
	assert_int_equal(m.request.verb, REQUEST_RESUME);
	assert_true(m.request.all);
	done(&m);
	m = meaning(message("{\"type\":\"log\",\"data\":{\"message\":\"hello\"}}"));
	assert_false(m.is_request);
	assert_string_equal(m.log, "hello");
	done(&m);
}

static void what_makes_no_sense_is_refused(void **state)
{
	(void)state;
	refused(message(""), "not JSON");
	refused(message("{\"type\""), "not JSON");
	refused(message("[]"), "has a \"type\"");
	refused(message("{\"command\":\"explode\"}"), "unknown command");
	refused(message("{\"type\":7}"), "has a \"type\"");
	refused(message("{\"type\":\"x\"}"), "unknown type");
	refused(message("{\"type\":\"log\",\"data\":[]}"), "object");
	refused(message("{\"type\":\"log\"}"), "message");
	refused(row("1", NULL, NULL), "has a \"type\"");
	refused(row("1", "log", "{"), "not JSON");
	refused(row("1", "execute-snapshot", NULL), "data-collections");
	refused(row("1", "execute-snapshot", "{\"data-collections\":\"a\"}"), "list of tables");
	refused(row("1", "execute-snapshot", "{\"data-collections\":[1]}"), "list of strings");
	refused(row("1", "stop-snapshot", "{\"data-collections\":{}}"), "list of tables");
	refused(row("1", "execute-snapshot", "{\"data-collections\":[\"a\"],\"type\":\"x\"}"), "incremental");
	refused(row("1", "execute-snapshot", "{\"data-collections\":[\"a\"],\"type\":1}"), "incremental");
	refused(row("1", "execute-snapshot", "{\"data-collections\":[\"a\"],\"additional-condition\":1}"),
			"string");
	refused(row("1", "execute-snapshot", "{\"data-collections\":[\"a\"],\"additional-conditions\":{}}"),
			"list");
	refused(row("1", "execute-snapshot", "{\"data-collections\":[\"a\"],\"additional-conditions\":[1]}"),
			"both strings");
	refused(row("1", "execute-snapshot",
				"{\"data-collections\":[\"a\"],\"additional-conditions\":"
				"[{\"data-collection\":\"b\",\"filter\":\"x\"}]}"),
			"not in");
	refused(
		row("1", "execute-snapshot",
			"{\"data-collections\":[\"a\"],\"additional-conditions\":"
			"[{\"data-collection\":\"a\",\"filter\":\"x\"},{\"data-collection\":\"a\",\"filter\":\"y\"}]}"),
		"two conditions");
	refused(row("a\tb", "execute-snapshot", "{\"data-collections\":[\"a\"]}"), "control");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_may_be_a_message),
		cmocka_unit_test(debezium_rows_are_understood),
		cmocka_unit_test(the_other_types_are_understood),
		cmocka_unit_test(what_makes_no_sense_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
