/* The list of publications as people write it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "reader/publication.h"

static const struct {
	const char *text, *identifiers, *array;
	size_t n;
} lists[] = {
	{"tidemark", "\"tidemark\"", "{\"tidemark\"}", 1},
	{"a,b", "\"a\",\"b\"", "{\"a\",\"b\"}", 2},
	{" a b ,  C ", "\"a b\",\"C\"", "{\"a b\",\"C\"}", 2},
	{"\"a, b\",c", "\"a, b\",\"c\"", "{\"a, b\",\"c\"}", 2},
	{"\"say \"\"x\"\"\"", "\"say \"\"x\"\"\"", "{\"say \\\"x\\\"\"}", 1},
	{"it's\\", "\"it's\\\"", "{\"it's\\\\\"}", 1},
	{"a\"b", "\"a\"\"b\"", "{\"a\\\"b\"}", 1},
};

static void lists_are_read(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
		struct err err;
		if (!publication_check_names(lists[i].text, &err)) fail_msg("%s", err.msg);
		char *identifiers = publication_identifiers(lists[i].text), *array = publication_array(lists[i].text);
		assert_string_equal(identifiers, lists[i].identifiers);
		assert_string_equal(array, lists[i].array);
		assert_int_equal(publication_count(lists[i].text), lists[i].n);
		free(identifiers);
		free(array);
	}
}

static void what_is_no_list(void **state)
{
	static const char *const bad[] = {"",     " ",   ",",    "a,",     "a, ",     ",a",
									  "a,,b", "\"a", "\"\"", "\"a\"b", "\"a\"\"", "\""};
	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct err err = {.kind = ERR_NONE};
		if (publication_check_names(bad[i], &err)) fail_msg("%s was taken for a list", bad[i]);
		assert_int_equal(err.kind, ERR_CONFIG);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists_are_read),
		cmocka_unit_test(what_is_no_list),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
