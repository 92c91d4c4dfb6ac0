/* The key columns in one word of the command line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "reader/keyarg.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static const struct {
	size_t ncolumns;
	const char *word;
	size_t n; /* 0: refused */
	const char *values[4];
} cases[] = {
	/* one column: the word as it is */
	{1, "42", 1, {"42"}},
	{1, "", 1, {""}},
	{1, "a,b", 1, {"a,b"}},
	{1, "\"a\"", 1, {"\"a\""}},

	/* several */
	{2, "3,7", 2, {"3", "7"}},
	{2, "3", 1, {"3"}},
	{2, "", 1, {""}},
	{2, ",", 2, {"", ""}},
	{3, "a,,c", 3, {"a", "", "c"}},
	{2, "3,\"a,b\"", 2, {"3", "a,b"}},
	{2, "\"a,b\",3", 2, {"a,b", "3"}},
	{2, "\"\",x", 2, {"", "x"}},
	{2, "\"\"\"\",x", 2, {"\"", "x"}},
	{2, "\"say \"\"hi\"\"\"", 1, {"say \"hi\""}},
	{2, "a\"b,c", 2, {"a\"b", "c"}},
	{2, " a, b", 2, {" a", " b"}},
	{2, "\"\xc3\xa9\n\",\t", 2, {"\xc3\xa9\n", "\t"}},

	/* refused */
	{2, "1,2,3", 0, {0}},
	{2, "1,2,", 0, {0}},
	{2, "\"a", 0, {0}},
	{2, "\"", 0, {0}},
	{2, "\"a\"b,c", 0, {0}},
	{2, "\"a\"\"", 0, {0}},
};

static void test_parse(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct keyarg k;
		struct err err = {0};
		bool ok = keyarg_parse(cases[i].word, cases[i].ncolumns, &k, &err);

		if (ok != (cases[i].n > 0) || k.n != cases[i].n)
			fail_msg("[%s] gives %zu values, want %zu", cases[i].word, k.n, cases[i].n);
		for (size_t j = 0; j < k.n; j++)
			assert_string_equal(k.values[j], cases[i].values[j]);
		if (!ok) assert_int_equal(err.kind, ERR_CONFIG);
		keyarg_finish(&k);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_parse)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
