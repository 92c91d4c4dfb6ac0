#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "snapshot/chunk_sql.h"

static struct column columns[] = {
	{.name = "note", .type_oid = 25, .type_name = "text"},
	{.name = "id", .type_oid = 23, .type_name = "integer"},
	{.name = "Odd \"name\"", .type_oid = 16400, .type_name = "\"S\".\"Mood\""},
	{.name = "code", .type_oid = 1042, .type_name = "character"},
	{.name = "bits", .type_oid = 1560, .type_name = "bit"},
};
static uint16_t pair_key[] = {2, 1}, code_key[] = {3, 4}, id_key[] = {1};
static uint8_t kinds[] = {KEY_TEXT, KEY_TEXT};

#define SCHEMA(key)                                                                                          \
	&(struct schema)                                                                                         \
	{                                                                                                        \
		.table_id = 7, .version = 1, .ncolumns = 5, .nkeys = sizeof(key) / sizeof *(key),                    \
		.columns = columns, .key_columns = (key), .key_kinds = kinds                                         \
	}

#define FROM "ONLY \"public\".\"t\""
#define SOURCE(key, filter)                                                                                  \
	&(struct chunk_source)                                                                                   \
	{                                                                                                        \
		.schema = SCHEMA(key), .from_sql = FROM, .filter_sql = (filter)                                      \
	}

static int setup(void **state)
{
	static struct arena arena;

	arena_init(&arena);
	*state = &arena;
	return 0;
}

static int teardown(void **state)
{
	arena_finish(*state);
	return 0;
}

#define ALL "\"note\", \"id\", \"Odd \"\"name\"\"\", \"code\", \"bits\""

static void a_chunk_locks_its_table(void **state)
{
	assert_string_equal(chunk_sql_lock(*state, FROM), "LOCK TABLE " FROM " IN ACCESS SHARE MODE");
}

static void a_page_goes_on_behind_a_key(void **state)
{
	assert_string_equal(chunk_sql_page(*state, SOURCE(id_key, NULL), true),
						"SELECT " ALL " FROM " FROM " ORDER BY \"id\" LIMIT $1::bigint");
	assert_string_equal(chunk_sql_page(*state, SOURCE(id_key, NULL), false),
						"SELECT " ALL " FROM " FROM
						" WHERE \"id\" > $1::integer ORDER BY \"id\" LIMIT $2::bigint");
	assert_string_equal(chunk_sql_page(*state, SOURCE(pair_key, NULL), false),
						"SELECT " ALL " FROM " FROM
						" WHERE (\"Odd \"\"name\"\"\", \"id\") > ($1::\"S\".\"Mood\", $2::integer)"
						" ORDER BY \"Odd \"\"name\"\"\", \"id\" LIMIT $3::bigint");
}

static void the_filter_is_one_condition(void **state)
{
	assert_string_equal(chunk_sql_page(*state, SOURCE(id_key, "id > 5 OR id < 2"), true),
						"SELECT " ALL " FROM " FROM
						" WHERE (id > 5 OR id < 2) ORDER BY \"id\" LIMIT $1::bigint");
	assert_string_equal(
		chunk_sql_page(*state, SOURCE(id_key, "id > 5 OR id < 2"), false),
		"SELECT " ALL " FROM " FROM
		" WHERE \"id\" > $1::integer AND (id > 5 OR id < 2) ORDER BY \"id\" LIMIT $2::bigint");
	assert_string_equal(
		chunk_sql_keys(*state, SOURCE(id_key, "true"), false),
		"SELECT \"id\" FROM " FROM
		" WHERE \"id\" IN (SELECT u.c1::integer FROM unnest($1::text[]) AS u(c1)) AND (true)");
}

static void keys_are_a_list_of_rows(void **state)
{
	assert_string_equal(
		chunk_sql_keys(*state, SOURCE(pair_key, NULL), true),
		"SELECT " ALL " FROM " FROM " WHERE (\"Odd \"\"name\"\"\", \"id\") IN"
		" (SELECT u.c1::\"S\".\"Mood\", u.c2::integer FROM unnest($1::text[], $2::text[]) AS u(c1, c2))");
}

/* `character` and `bit` mean a length of 1: the cursor would be cut and the same page come for ever. */
static void no_cast_cuts_a_key(void **state)
{
	assert_string_equal(chunk_sql_page(*state, SOURCE(code_key, NULL), false),
						"SELECT " ALL " FROM " FROM " WHERE (\"code\", \"bits\") > ($1::bpchar, $2::\"bit\")"
						" ORDER BY \"code\", \"bits\" LIMIT $3::bigint");
}

static const struct operand one_own[] = {{"public.citext", "OPERATOR(public.>)", "OPERATOR(public.=)"},
										 {"integer", NULL, NULL}};

#define OWN(key, filter)                                                                                     \
	&(struct chunk_source)                                                                                   \
	{                                                                                                        \
		.schema = SCHEMA(key), .operands = one_own, .from_sql = FROM, .filter_sql = (filter)                 \
	}

#define BRANCH "(SELECT " ALL " FROM " FROM " WHERE "
#define ODD    "\"Odd \"\"name\"\"\""
#define ORDER  " ORDER BY " ODD ", \"id\" LIMIT $3::bigint"

/* citext's `>` is not in pg_catalog, and with an empty search_path `>` would compare citext as text. */
static void operators_elsewhere_are_named(void **state)
{
	assert_string_equal(chunk_sql_page(*state, OWN(pair_key, "f"), false),
						"SELECT " ALL " FROM (" BRANCH ODD " OPERATOR(public.=) $1::public.citext"
						" AND \"id\" > $2::integer AND (f)" ORDER ") UNION ALL " BRANCH ODD
						" OPERATOR(public.>) $1::public.citext AND (f)" ORDER ")) AS branches" ORDER);
	assert_string_equal(chunk_sql_page(*state, OWN(pair_key, NULL), true),
						"SELECT " ALL " FROM " FROM " ORDER BY " ODD ", \"id\" LIMIT $1::bigint");
	assert_string_equal(chunk_sql_keys(*state, OWN(pair_key, "f"), false),
						"SELECT " ODD ", \"id\" FROM " FROM " WHERE EXISTS (SELECT FROM"
						" (SELECT u.c1::public.citext AS c1, u.c2::integer AS c2 FROM"
						" unnest($1::text[], $2::text[]) AS u(c1, c2)) AS w WHERE " ODD
						" OPERATOR(public.=) w.c1 AND \"id\" = w.c2) AND (f)");
}

static const struct operand of_domain[] = {{"text", NULL, NULL}};

static void operands_say_what_to_cast_to(void **state)
{
	const struct chunk_source from = {SCHEMA(id_key), of_domain, FROM, NULL, NULL};

	assert_string_equal(chunk_sql_page(*state, &from, false),
						"SELECT " ALL " FROM " FROM
						" WHERE \"id\" > $1::text ORDER BY \"id\" LIMIT $2::bigint");
}

/* "-" is what a regclass of 0 prints, and not what a cast from text reads. */
static void lists_of_regclass_are_of_regclass(void **state)
{
	static struct column relation[] = {{.name = "r", .type_oid = 2205, .type_name = "regclass"}};
	static uint16_t key[] = {0};
	const struct schema s = {
		.version = 1, .ncolumns = 1, .nkeys = 1, .columns = relation, .key_columns = key};
	const struct chunk_source from = {.schema = &s, .from_sql = FROM};

	assert_string_equal(chunk_sql_keys(*state, &from, true),
						"SELECT \"r\" FROM " FROM
						" WHERE \"r\" IN (SELECT u.c1::regclass FROM unnest($1::regclass[]) AS u(c1))");
}

static void copies_of_operands_are_the_same(void **state)
{
	struct operand *copy = operands_copy(one_own, 2), other[2];

	(void)state;
	assert_true(operands_same(copy, one_own, 2) && copy[0].gt != one_own[0].gt);
	memcpy(other, copy, sizeof other);
	other[1].eq = "=";
	assert_false(operands_same(copy, other, 2));
	other[1] = (struct operand){"bigint", NULL, NULL};
	assert_false(operands_same(copy, other, 2));
	assert_false(operands_same(copy, NULL, 2));
	assert_true(operands_same(NULL, operands_copy(NULL, 2), 2));
	free(copy);
}

static void array_elements_are_quoted(void **state)
{
	const char *texts[] = {"", "a b", "NULL", "q\"\\", "{,}", "\xc3\xa9"};
	struct slice s[6];

	for (size_t i = 0; i < 6; i++)
		s[i] = slice_of(texts[i]);
	assert_string_equal(chunk_sql_array(*state, s, 0), "{}");
	assert_string_equal(chunk_sql_array(*state, s, 6),
						"{\"\",\"a b\",\"NULL\",\"q\\\"\\\\\",\"{,}\",\"\xc3\xa9\"}");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_chunk_locks_its_table),
		cmocka_unit_test(a_page_goes_on_behind_a_key),
		cmocka_unit_test(the_filter_is_one_condition),
		cmocka_unit_test(keys_are_a_list_of_rows),
		cmocka_unit_test(no_cast_cuts_a_key),
		cmocka_unit_test(operators_elsewhere_are_named),
		cmocka_unit_test(operands_say_what_to_cast_to),
		cmocka_unit_test(copies_of_operands_are_the_same),
		cmocka_unit_test(lists_of_regclass_are_of_regclass),
		cmocka_unit_test(array_elements_are_quoted),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
