/* Durations, sizes, times; and the grid they are printed in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "reader/human.h"
#include "reader/textgrid.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])
#define S        INT64_C(1000000)

static const struct {
	int64_t us;
	const char *text;
} durations[] = {
	{0, "0.0 s"},
	{-5 * S, "0.0 s"},
	{99999, "0.0 s"},
	{3250000, "3.2 s"},
	{60 * S - 1, "59.9 s"},
	{60 * S, "1 min 0 s"},
	{3600 * S - 1, "59 min 59 s"},
	{3600 * S, "1 h 0 min"},
	{86400 * S, "1 d 0 h"},
	{INT64_MAX, "106751991 d 4 h"},
};

static const struct {
	uint64_t bytes;
	const char *text;
} sizes[] = {
	{0, "0 B"},           {1023, "1023 B"},       {1024, "1.0 KiB"},        {1536, "1.5 KiB"},
	{1048575, "1.0 MiB"}, {12897485, "12.3 MiB"}, {UINT64_MAX, "16.0 EiB"},
};

static const struct {
	int64_t us;
	const char *text;
} times[] = {
	{0, "1970-01-01T00:00:00.000000Z"},
	{INT64_C(1700000000123456), "2023-11-14T22:13:20.123456Z"},
	{-1, "1969-12-31T23:59:59.999999Z"},
	{951782400 * S, "2000-02-29T00:00:00.000000Z"},
};

static void test_human(void **state)
{
	char out[HUMAN_SIZE];

	(void)state;
	for (size_t i = 0; i < COUNT(durations); i++)
		assert_string_equal(human_duration(durations[i].us, out), durations[i].text);
	for (size_t i = 0; i < COUNT(sizes); i++)
		assert_string_equal(human_bytes(sizes[i].bytes, out), sizes[i].text);
	for (size_t i = 0; i < COUNT(times); i++)
		assert_string_equal(human_time(times[i].us, out), times[i].text);
	assert_string_equal(human_version(150004, out), "15.4");
	assert_string_equal(human_version(UINT32_MAX, out), "429496.7295");
	human_time(INT64_MAX, out); /* damage must not overrun */
	human_time(INT64_MIN, out);
}

static void check_grid(struct textgrid *g, const char *want)
{
	struct buf b = {0};

	textgrid_print(g, &b);
	buf_put_u8(&b, '\0');
	assert_string_equal(b.p, want);
	buf_finish(&b);
	textgrid_finish(g);
}

static void test_grid(void **state)
{
	static const struct textgrid_column columns[] = {{"NAME", false}, {"ROWS", true}, {"AT", false}};
	struct textgrid empty = textgrid_of(columns, 3), g = textgrid_of(columns, 3);

	(void)state;
	check_grid(&empty, "NAME  ROWS  AT\n");
	textgrid_put(&g, "public.\xc3\xa9\xc3\xa9");
	textgrid_put_uint(&g, 12345678);
	textgrid_put(&g, "0/1");
	textgrid_put(&g, "a");
	textgrid_put_uint(&g, 0);
	textgrid_put(&g, "");
	check_grid(&g, "NAME           ROWS  AT\n"
				   "public.\xc3\xa9\xc3\xa9  12345678  0/1\n"
				   "a                 0  \n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_human), cmocka_unit_test(test_grid)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
