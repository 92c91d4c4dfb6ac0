#include "reader/names.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void tables_parse(void **state)
{
	static const struct {
		const char *text, *schema_name, *table_name, *printed;
	} cases[] = {
		{"orders", "public", "orders", "public.orders"},
		{"Orders", "public", "orders", "public.orders"},
		{"shop.orders", "shop", "orders", "shop.orders"},
		{"SHOP.\"Orders\"", "shop", "Orders", "shop.\"Orders\""},
		{"\"a.b\".\"C\"\"d\"", "a.b", "C\"d", "\"a.b\".\"C\"\"d\""},
		{"\"plain\".\"_x9$\"", "plain", "_x9$", "plain._x9$"},
		{"\" \".\"9\"", " ", "9", "\" \".\"9\""},
		{"\"\"\"\"", "public", "\"", "public.\"\"\"\""},
		{"select.table", "select", "table", "select.table"},
		{"sch\xc3\x96ma.\xe6\x97\xa5\xe6\x9c\xac", "sch\xc3\x96ma", "\xe6\x97\xa5\xe6\x9c\xac",
		 "sch\xc3\x96ma.\xe6\x97\xa5\xe6\x9c\xac"},
		{"\"*\".\"?\"", "*", "?", "\"*\".\"?\""},
		{"\"a,b\".\"#/\"", "a,b", "#/", "\"a,b\".\"#/\""},
		{"\"\x1b*\"", "public", "\x1b*", "public.\"\x1b*\""},
		{"abcdefghijklmnopqrstuvwxyz_abcdefghijklmnopqrstuvwxyz_abcdefghijklmnopqrstuvwxyz", "public",
		 "abcdefghijklmnopqrstuvwxyz_abcdefghijklmnopqrstuvwxyz_abcdefghijklmnopqrstuvwxyz",
		 "public.abcdefghijklmnopqrstuvwxyz_abcdefghijklmnopqrstuvwxyz_abcdefghijklmnopqrstuvwxyz"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct table_name name, again;
		struct buf printed = {0};
		struct err err = {0};

		if (!names_parse(cases[i].text, &name, &err)) fail_msg("%s", err.msg);
		assert_string_equal(name.schema_name, cases[i].schema_name);
		assert_string_equal(name.table_name, cases[i].table_name);
		names_put(&printed, name.schema_name, name.table_name);
		buf_put_u8(&printed, 0);
		assert_string_equal((const char *)printed.p, cases[i].printed);
		assert_true(names_parse((const char *)printed.p, &again, &err));
		assert_string_equal(again.schema_name, name.schema_name);
		assert_string_equal(again.table_name, name.table_name);
		buf_finish(&printed);
		names_finish(&name);
		names_finish(&again);
		names_finish(&again);
	}
}

static void bad_tables_are_refused(void **state)
{
	static const struct {
		const char *text, *message;
	} cases[] = {
		{"", "\"\": a name is missing at byte 1"},
		{".t", "\".t\": a name is missing at byte 1"},
		{"s.", "\"s.\": a name is missing at byte 3"},
		{"a.b.c", "\"a.b.c\": a third part at byte 4: a table is schema.table"},
		{"my-table",
		 "\"my-table\": unexpected '-' at byte 3: a name that needs it is written in double quotes"},
		{"9lives", "\"9lives\": unexpected '9' at byte 1: a name that needs it is written in double quotes"},
		{"a b", "\"a b\": unexpected ' ' at byte 2: a name that needs it is written in double quotes"},
		{"a,b", "\"a,b\": unexpected ',' at byte 2: a name that needs it is written in double quotes"},
		{"a\"b\"", "\"a\"b\"\": unexpected '\"' at byte 2: a name that needs it is written in double quotes"},
		{"\"a\"b", "\"\"a\"b\": unexpected 'b' at byte 4: a quoted name ends at its closing quote"},
		{"\"a\"\xc3\xa9",
		 "\"\"a\"\xc3\xa9\": unexpected '\xc3\xa9' at byte 4: a quoted name ends at its closing quote"},
		{"s.\"a", "\"s.\"a\": the quote at byte 3 is not closed"},
		{"\"a\"\"", "\"\"a\"\"\": the quote at byte 1 is not closed"},
		{"s.\"\"", "\"s.\"\"\": the quoted name at byte 3 is empty"},
		{"s.*", "\"s.*\": unexpected '*' at byte 3: one table is wanted here, not a pattern"},
		{"s.a?", "\"s.a?\": unexpected '?' at byte 4: one table is wanted here, not a pattern"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct table_name name;
		struct err err = {0};

		assert_false(names_parse(cases[i].text, &name, &err));
		assert_string_equal(err.msg, cases[i].message);
		assert_int_equal(err.kind, ERR_CONFIG);
		names_finish(&name);
	}
}

static void patterns_match(void **state)
{
	static const struct {
		const char *patterns, *schema_name, *table_name;
		bool matches;
	} cases[] = {
		{"orders", "public", "orders", true},
		{"orders", "shop", "orders", false},
		{"ORDERS", "public", "orders", true},
		{"\"ORDERS\"", "public", "orders", false},
		{"\"ORDERS\"", "public", "ORDERS", true},
		{"*", "public", "anything", true},
		{"*", "shop", "anything", false},
		{"*.*", "shop", "anything", true},
		{"*.*", "Sch\xc3\xb6ma x", "T.\"q", true},
		{"shop.*", "shop", "", true},
		{"shop.*", "shops", "a", false},
		{"shop*.a", "shops", "a", true},
		{"s*p.o*r*", "shop", "orders", true},
		{"s*p.o*r*x", "shop", "orders", false},
		{"s.*a*b", "s", "aabab", true},
		{"s.*a*b", "s", "aabaa", false},
		{"s.**", "s", "x", true},
		{"s.*?", "s", "", false},
		{"s.*?", "s", "x", true},
		{"s.??", "s", "ab", true},
		{"s.??", "s", "abc", false},
		{"s.?", "s", "\xc3\xa9", true},
		{"s.?", "s", "\xf0\x9f\x98\x80", true},
		{"s.??", "s", "\xc3\xa9", false},
		{"s.?", "s", "\xff", true},
		{"s.?9", "s", "x9", true},
		{"s.*\xc3\xa9", "s", "abc\xc3\xa9", true},
		{"s.\"*\"", "s", "x", false},
		{"s.\"*\"", "s", "*", true},
		{"s.\"?\"", "s", "x", false},
		{"s.\"\x1b*\"", "s", "\x1b*", true},
		{"s.\"\x1b*\"", "s", "\x1bx", false},
		{"s.\"\x1b*\"", "s", "*", false},
		{"s.\"a.b\"", "s", "a.b", true},
		{"s.\"a,b\"", "s", "a,b", true},
		{"\"a\"\"b\".*", "a\"b", "t", true},
		{"a,b,c", "public", "b", true},
		{"a,b,c", "public", "d", false},
		{" a ,\tb , s.* ", "s", "t", true},
		{" a ,\nb", "public", "b", true},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct name_patterns *p;
		struct err err = {0};

		if (!names_parse_patterns(cases[i].patterns, &p, &err)) fail_msg("%s", err.msg);
		if (names_match(p, cases[i].schema_name, cases[i].table_name) != cases[i].matches)
			fail_msg("%s, %s, %s", cases[i].patterns, cases[i].schema_name, cases[i].table_name);
		names_free_patterns(p);
	}
}

static void patterns_are_told_apart(void **state)
{
	struct name_patterns *p;
	struct err err = {0};

	(void)state;
	assert_true(names_parse_patterns("A , \"x y\".* ,s.t?", &p, &err));
	assert_int_equal(names_pattern_count(p), 3);
	assert_string_equal(names_pattern_text(p, 0), "A");
	assert_string_equal(names_pattern_text(p, 1), "\"x y\".*");
	assert_string_equal(names_pattern_text(p, 2), "s.t?");
	assert_false(names_match_one(p, 0, "s", "t1"));
	assert_true(names_match_one(p, 1, "x y", "t1"));
	assert_true(names_match_one(p, 2, "s", "t1"));
	names_free_patterns(p);
	names_free_patterns(NULL);
}

static void bad_patterns_are_refused(void **state)
{
	static const struct {
		const char *text, *message;
	} cases[] = {
		{"", "\"\": a name is missing at byte 1"},
		{"  ", "\"  \": a name is missing at byte 3"},
		{"a,,b", "\"a,,b\": a name is missing at byte 3"},
		{"a,", "\"a,\": a name is missing at byte 3"},
		{"a, s.", "\"a, s.\": a name is missing at byte 6"},
		{"a b", "\"a b\": unexpected 'b' at byte 3: patterns are separated by commas"},
		{"a;b", "\"a;b\": unexpected ';' at byte 2: a name that needs it is written in double quotes"},
		{"s.t[12]",
		 "\"s.t[12]\": unexpected '[' at byte 4: a name that needs it is written in double quotes"},
		{"\"a\"*", "\"\"a\"*\": unexpected '*' at byte 4: a quoted name ends at its closing quote"},
		{"a,b.c.d", "\"a,b.c.d\": a third part at byte 6: a table is schema.table"},
		{"a,\"b", "\"a,\"b\": the quote at byte 3 is not closed"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct name_patterns *p;
		struct err err = {0};

		assert_false(names_parse_patterns(cases[i].text, &p, &err));
		assert_string_equal(err.msg, cases[i].message);
		assert_int_equal(err.kind, ERR_CONFIG);
		assert_null(p);
	}
}

/* A pattern of many stars must not take exponential time. */
static void stars_are_cheap(void **state)
{
	struct name_patterns *p;
	struct err err = {0};
	char name[4001];

	(void)state;
	memset(name, 'a', sizeof name - 1);
	name[sizeof name - 1] = '\0';
	assert_true(names_parse_patterns("*a*a*a*a*a*a*a*a*a*a*a*a*b", &p, &err));
	assert_false(names_match(p, "public", name));
	names_free_patterns(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tables_parse),
		cmocka_unit_test(bad_tables_are_refused),
		cmocka_unit_test(patterns_match),
		cmocka_unit_test(patterns_are_told_apart),
		cmocka_unit_test(bad_patterns_are_refused),
		cmocka_unit_test(stars_are_cheap),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
