#include "reader/log.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define FIELDS(...)                                                                                          \
	(const struct log_field[])                                                                               \
	{                                                                                                        \
		__VA_ARGS__, KV_END                                                                                  \
	}

static void put(struct buf *out, const char *s)
{
	buf_put(out, s, strlen(s));
}

static void values_are_quoted(void **state)
{
	static const struct {
		const char *value, *text, *json;
	} cases[] = {
		{"plain", "plain", "\"plain\""},
		{"public.t", "public.t", "\"public.t\""},
		{"", "\"\"", "\"\""},
		{"two words", "\"two words\"", "\"two words\""},
		{"a=b", "\"a=b\"", "\"a=b\""},
		{"say \"x\"", "\"say \\\"x\\\"\"", "\"say \\\"x\\\"\""},
		{"\"", "\"\\\"\"", "\"\\\"\""},
		{"back\\slash", "\"back\\\\slash\"", "\"back\\\\slash\""},
		{"a\nb\tc\rd", "\"a\\nb\\tc\\rd\"", "\"a\\nb\\tc\\rd\""},
		{"\x1b[31m\x7f", "\"\\x1b[31m\\x7f\"", "\"\\u001b[31m\x7f\""},
		{"\x01", "\"\\x01\"", "\"\\u0001\""},
		{"\xc3\xa9\xe6\x97\xa5\xf0\x9f\x98\x80", "\xc3\xa9\xe6\x97\xa5\xf0\x9f\x98\x80",
		 "\"\xc3\xa9\xe6\x97\xa5\xf0\x9f\x98\x80\""},
		{"bad\xff", "\"bad\\xff\"", "\"bad\xef\xbf\xbd\""},
		{"cut\xe6\x97", "\"cut\\xe6\\x97\"", "\"cut\xef\xbf\xbd\xef\xbf\xbd\""},
		{"\xc0\x80", "\"\\xc0\\x80\"", "\"\xef\xbf\xbd\xef\xbf\xbd\""},
		{"\xc2\x9b"
		 "31m",
		 "\"\\xc2\\x9b31m\"",
		 "\"\xc2\x9b"
		 "31m\""},
		{"\xc2\xa0", "\xc2\xa0", "\"\xc2\xa0\""},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct buf line = {0}, wanted = {0};

		log_line(&line, LOG_TEXT, 0, LOG_INFO, "m", FIELDS(KV_S("k", cases[i].value)));
		log_line(&line, LOG_JSON, 0, LOG_INFO, "m", FIELDS(KV_S("k", cases[i].value)));
		buf_put_u8(&line, 0);
		put(&wanted, "ts=1970-01-01T00:00:00.000Z level=info msg=m k=");
		put(&wanted, cases[i].text);
		put(&wanted, "\n{\"ts\":\"1970-01-01T00:00:00.000Z\",\"level\":\"info\",\"msg\":\"m\",\"k\":");
		put(&wanted, cases[i].json);
		put(&wanted, "}\n");
		buf_put_u8(&wanted, 0);
		assert_string_equal((const char *)line.p, (const char *)wanted.p);
		buf_finish(&line);
		buf_finish(&wanted);
	}
}

static void fields_have_their_kinds(void **state)
{
	struct buf line = {0};
	const struct log_field fields[] = {
		KV_S("table", "public.t"), KV_S("left_out", NULL),      KV_U("rows", UINT64_MAX),
		KV_I("lag", INT64_MIN),    KV_L("lsn", LSN(0x16B3748)), KV_END,
	};

	(void)state;
	log_line(&line, LOG_TEXT, INT64_C(1796056200123999), LOG_WARN, "copy finished", fields);
	log_line(&line, LOG_JSON, INT64_C(1796056200123999), LOG_ERROR, "copy finished", fields);
	log_line(&line, LOG_TEXT, 0, LOG_DEBUG, "", (const struct log_field[]){KV_END});
	buf_put_u8(&line, 0);
	assert_string_equal((const char *)line.p,
						"ts=2026-11-30T16:30:00.123Z level=warn msg=\"copy finished\" table=public.t "
						"rows=18446744073709551615 lag=-9223372036854775808 lsn=0/16B3748\n"
						"{\"ts\":\"2026-11-30T16:30:00.123Z\",\"level\":\"error\",\"msg\":\"copy finished\","
						"\"table\":\"public.t\",\"rows\":18446744073709551615,\"lag\":-9223372036854775808,"
						"\"lsn\":\"0/16B3748\"}\n"
						"ts=1970-01-01T00:00:00.000Z level=debug msg=\"\"\n");
	buf_finish(&line);
}

/* ---- what arrives on stderr ---- */

static int saved_stderr, pipe_end;

static void capture_begin(void)
{
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	fcntl(fds[0], F_SETPIPE_SZ, 1 << 20);
	saved_stderr = dup(STDERR_FILENO);
	dup2(fds[1], STDERR_FILENO);
	close(fds[1]);
	pipe_end = fds[0];
}

static void capture_end(struct buf *out)
{
	char chunk[4096];
	ssize_t n;

	dup2(saved_stderr, STDERR_FILENO);
	close(saved_stderr);
	while ((n = read(pipe_end, chunk, sizeof chunk)) > 0)
		buf_put(out, chunk, (size_t)n);
	buf_put_u8(out, 0);
	close(pipe_end);
}

static void levels_below_the_lowest_are_dropped(void **state)
{
	struct buf got = {0};
	const char *text;

	(void)state;
	capture_begin();
	log_setup(LOG_TEXT, LOG_WARN);
	log_debug("debug", KV_END);
	log_info("info", KV_END);
	log_warn("warn", KV_S("a", "b"), KV_END);
	log_setup(LOG_JSON, LOG_DEBUG);
	log_debug("debug", KV_END);
	capture_end(&got);
	text = (const char *)got.p;
	assert_string_equal(strstr(text, "level=warn"), strchr(text, ' ') + 1);
	assert_non_null(strstr(text, "level=warn msg=warn a=b\n{\"ts\":\""));
	assert_non_null(strstr(text, "\"level\":\"debug\",\"msg\":\"debug\"}\n"));
	assert_true(log_is_json());
	log_setup(LOG_TEXT, LOG_INFO);
	assert_false(log_is_json());
	buf_finish(&got);
}

static void put_mark(const char *mark)
{
	assert_int_equal(write(STDERR_FILENO, mark, 1), 1);
}

static void before(void)
{
	put_mark("<");
}

static void after(void)
{
	put_mark(">");
}

static void hooks_surround_each_line(void **state)
{
	struct buf got = {0};

	(void)state;
	capture_begin();
	log_set_hooks(before, after);
	log_info("one", KV_END);
	log_debug("dropped", KV_END);
	log_set_hooks(NULL, NULL);
	log_info("two", KV_END);
	capture_end(&got);
	assert_int_equal(got.p[0], '<');
	assert_non_null(strstr((const char *)got.p, "msg=one\n>ts="));
	assert_non_null(strstr((const char *)got.p, "msg=two\n"));
	buf_finish(&got);
}

#define LINES 200

static void *log_lines(void *value)
{
	for (int i = 0; i < LINES; i++)
		log_info("x", KV_S("v", (const char *)value), KV_END);
	return NULL;
}

/* Lines longer than a terminal and written by two threads stay whole. */
static void lines_do_not_mix(void **state)
{
	pthread_t threads[2];
	char values[2][1000];
	struct buf got = {0};
	int lines = 0;

	(void)state;
	capture_begin();
	for (int i = 0; i < 2; i++) {
		memset(values[i], 'a' + i, sizeof values[i]);
		values[i][sizeof values[i] - 1] = '\0';
		pthread_create(&threads[i], NULL, log_lines, values[i]);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	capture_end(&got);
	for (const char *line = (const char *)got.p; *line != '\0'; line = strchr(line, '\n') + 1) {
		const char *v = strstr(line, " v=") + 3;

		assert_int_equal(strspn(v, (char[]){*v, 0}), sizeof values[0] - 1);
		assert_int_equal(v[sizeof values[0] - 1], '\n');
		lines++;
	}
	assert_int_equal(lines, 2 * LINES);
	buf_finish(&got);
}

static void *drain_slowly(void *count)
{
	char chunk[4096];
	ssize_t n;

	usleep(20000);
	while ((n = read(pipe_end, chunk, sizeof chunk)) > 0)
		*(size_t *)count += (size_t)n;
	return NULL;
}

/* stderr may be a non-blocking pipe that someone else made so: a long line still arrives whole. */
static void a_full_pipe_is_waited_for(void **state)
{
	size_t size = 3 << 20, count = 0;
	char *value = malloc(size + 1);
	struct buf rest = {0};
	pthread_t reader;

	(void)state;
	memset(value, 'v', size);
	value[size] = '\0';
	capture_begin();
	fcntl(STDERR_FILENO, F_SETFL, O_NONBLOCK);
	pthread_create(&reader, NULL, drain_slowly, &count);
	log_info("long", KV_S("v", value), KV_END);
	dup2(saved_stderr, STDERR_FILENO);
	pthread_join(reader, NULL);
	capture_end(&rest);
	assert_in_range(count, size + 50, size + 70);
	buf_finish(&rest);
	free(value);
}

static void a_lost_stderr_is_no_fault(void **state)
{
	int saved = dup(STDERR_FILENO);

	(void)state;
	close(STDERR_FILENO);
	log_info("into the void", KV_END);
	dup2(saved, STDERR_FILENO);
	close(saved);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_are_quoted),
		cmocka_unit_test(fields_have_their_kinds),
		cmocka_unit_test(levels_below_the_lowest_are_dropped),
		cmocka_unit_test(hooks_surround_each_line),
		cmocka_unit_test(lines_do_not_mix),
		cmocka_unit_test(a_full_pipe_is_waited_for),
		cmocka_unit_test(a_lost_stderr_is_no_fault),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
