#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "snapshot/scope.h"
#include "state/key.h"

static struct column columns[] = {
	{.name = "k", .type_oid = 23, .type_name = "integer"},
	{.name = "n", .type_oid = 25, .type_name = "text"},
};
static uint16_t key_k[] = {0}, key_both[] = {1, 0};
static uint8_t kind_int[] = {KEY_INT4}, kinds_both[] = {KEY_UUID, KEY_INT4},
			   kinds_text[] = {KEY_TEXT, KEY_INT4};
static const struct schema single = {.table_id = 1,
									 .version = 1,
									 .ncolumns = 2,
									 .nkeys = 1,
									 .columns = columns,
									 .key_columns = key_k,
									 .key_kinds = kind_int};
static const struct schema pair = {.table_id = 1,
								   .version = 1,
								   .ncolumns = 2,
								   .nkeys = 2,
								   .columns = columns,
								   .key_columns = key_both,
								   .key_kinds = kinds_both};

#define FROM "ONLY \"s\".\"t \"\"x\"\"\""

static const char *const collations[] = {NULL, "\"pg_catalog\".\"C\""};

static struct chunk_source source(const struct schema *s)
{
	return (struct chunk_source){
		.schema = s, .from_sql = FROM, .filter_sql = "n <> ''", .collations = collations};
}

struct fixture {
	struct scope scope;
	struct arena arena;
	struct buf from, to;
};

static int setup(void **state)
{
	static struct fixture f;

	f = (struct fixture){.scope = {.listed = 0}};
	arena_init(&f.arena);
	*state = &f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	scope_finish(&f->scope);
	arena_finish(&f->arena);
	buf_finish(&f->from);
	buf_finish(&f->to);
	return 0;
}

static void put(struct buf *b, const char *text)
{
	struct slice s = slice_of(text);

	buf_put_blob(b, s.p, s.n);
}

static void set(struct fixture *f, const char *where_sql)
{
	scope_set(&f->scope, where_sql, (struct slice){f->from.p, f->from.n}, (struct slice){f->to.p, f->to.n},
			  0);
}

static void the_whole_table_has_no_condition(void **state)
{
	struct fixture *f = *state;
	struct chunk_source from = source(&single);

	set(f, "");
	assert_true(scope_is_whole(&f->scope));
	assert_false(scope_has_text(&f->scope));
	assert_null(scope_sql_condition(&f->arena, &f->scope, &from));
	scope_set(&f->scope, NULL, (struct slice){0}, (struct slice){0}, 3);
	assert_false(scope_is_whole(&f->scope));
	assert_false(scope_has_text(&f->scope));
}

static void a_condition_stands_on_lines_of_its_own(void **state)
{
	struct fixture *f = *state;
	struct chunk_source from = source(&single);

	set(f, "k = 5 -- five");
	assert_string_equal(scope_sql_condition(&f->arena, &f->scope, &from),
						"(n <> '') AND (\nk = 5 -- five\n)");
	from.filter_sql = NULL;
	assert_string_equal(scope_sql_condition(&f->arena, &f->scope, &from), "(\nk = 5 -- five\n)");
}

static void bounds_are_inclusive_literals(void **state)
{
	struct fixture *f = *state;
	struct chunk_source from = source(&pair);

	from.filter_sql = NULL;
	put(&f->from, "it's \\ 1");
	put(&f->from, "2");
	put(&f->to, "x"); /* the first column only */
	set(f, NULL);
	assert_string_equal(
		scope_sql_condition(&f->arena, &f->scope, &from),
		"(\"n\", \"k\") >= (E'it''s \\\\ 1'::text, E'2'::integer) AND (\"n\") <= (E'x'::text)");
}

static void operators_of_their_own_are_spelled_out(void **state)
{
	static const struct operand own[] = {{"\"e\".\"citext\"", "OPERATOR(\"e\".>)", "OPERATOR(\"e\".=)"},
										 {"integer", NULL, NULL}};
	struct fixture *f = *state;
	struct chunk_source from = source(&pair);

	from.filter_sql = NULL;
	from.operands = own;
	put(&f->from, "a");
	put(&f->from, "2");
	set(f, NULL);
	assert_string_equal(scope_sql_condition(&f->arena, &f->scope, &from),
						"(((\"n\" OPERATOR(\"e\".>) E'a'::\"e\".\"citext\") OR "
						"(\"n\" OPERATOR(\"e\".=) E'a'::\"e\".\"citext\" AND \"k\" > E'2'::integer)) OR "
						"(\"n\" OPERATOR(\"e\".=) E'a'::\"e\".\"citext\" AND \"k\" = E'2'::integer))");
	f->to = f->from;
	f->from = (struct buf){0};
	set(f, NULL);
	assert_string_equal(scope_sql_condition(&f->arena, &f->scope, &from),
						"NOT ((\"n\" OPERATOR(\"e\".>) E'a'::\"e\".\"citext\") OR "
						"(\"n\" OPERATOR(\"e\".=) E'a'::\"e\".\"citext\" AND \"k\" > E'2'::integer))");
}

/* The number's name is one that no column has, the table's is its own. */
static void suspects_are_looked_at_as_rows_of_the_table(void **state)
{
	struct fixture *f = *state;
	struct chunk_source from = source(&single);

	set(f, "n = 'x'");
	assert_string_equal(scope_sql_suspects(&f->arena, &f->scope, &from, true),
						"SELECT s.\"nn\", t.\"k\", t.\"n\" FROM (SELECT * FROM (SELECT u.n AS \"nn\", "
						"u.c1::integer AS \"k\", "
						"u.c2::text COLLATE \"pg_catalog\".\"C\" AS \"n\" FROM unnest($1::text[], "
						"$2::text[]) WITH ORDINALITY AS "
						"u(c1, c2, n)) AS \"t \"\"x\"\"\" WHERE (\nn = 'x'\n)) AS s LEFT JOIN LATERAL "
						"(SELECT \"k\", \"n\" FROM " FROM
						" WHERE \"k\" = s.\"k\" AND (n <> '')) AS t ON true");
}

static void bounds_need_the_key_alone(void **state)
{
	struct fixture *f = *state;
	struct chunk_source from = source(&pair);

	put(&f->to, "x");
	set(f, NULL);
	from.filter_sql = NULL;
	assert_string_equal(
		scope_sql_suspects(&f->arena, &f->scope, &from, false),
		"SELECT s.\"nn\", t.\"n\", t.\"k\" FROM (SELECT * FROM (SELECT u.n AS \"nn\", u.c1::text COLLATE "
		"\"pg_catalog\".\"C\" AS \"n\", u.c2::integer AS \"k\" FROM unnest($1::text[], $2::text[]) WITH "
		"ORDINALITY AS "
		"u(c1, c2, n)) AS \"t \"\"x\"\"\" WHERE (\"n\") <= (E'x'::text)) AS s LEFT JOIN LATERAL (SELECT "
		"\"n\", \"k\" "
		"FROM " FROM " WHERE \"n\" = s.\"n\" AND \"k\" = s.\"k\") AS t ON true");
}

static void a_check_reads_nothing(void **state)
{
	struct fixture *f = *state;
	struct chunk_source from = source(&single);

	put(&f->from, "3");
	put(&f->to, "9");
	set(f, "n = 'x'");
	assert_string_equal(
		scope_sql_check(&f->arena, &f->scope, &from),
		"SELECT true FROM (SELECT E'3'::integer AS \"k\") AS low WHERE (\"k\") > (E'9'::integer)"
		" UNION ALL SELECT true FROM " FROM
		" WHERE false AND (\nn = 'x'\n) AND (\"k\") >= (E'3'::integer) AND (\"k\") <= (E'9'::integer)"
		" UNION ALL SELECT true FROM (SELECT NULL::integer AS \"k\", NULL::text COLLATE \"pg_catalog\".\"C\" "
		"AS \"n\")"
		" AS \"t \"\"x\"\"\" WHERE false AND (\nn = 'x'\n) AND (\"k\") >= (E'3'::integer) AND (\"k\") <= "
		"(E'9'::integer)"
		" UNION ALL SELECT true FROM " FROM " WHERE false AND (ARRAY[\nn = 'x'\n]) IS NOT NULL");
}

static void bounds_are_encoded_where_the_order_is_the_servers(void **state)
{
	static const uint8_t uuid[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
	struct fixture *f = *state;
	struct schema text = pair;
	struct buf low = {0}, high = {0};

	put(&f->from, "00010203-0405-0607-0809-0a0b0c0d0e0f");
	put(&f->from, "1");
	put(&f->to, "00010203-0405-0607-0809-0a0b0c0d0e0f");
	set(f, NULL);
	scope_encode(&f->scope, &pair, &low, &high);
	assert_int_equal(low.n, 20);
	assert_memory_equal(low.p, uuid, 16);
	assert_memory_equal(low.p + 16, "\x80\0\0\1", 4);
	assert_int_equal(high.n, 16);
	assert_memory_equal(high.p, uuid, 16);
	text.key_kinds = kinds_text;
	scope_encode(&f->scope, &text, &low, &high);
	assert_int_equal(low.n, 0);
	assert_int_equal(high.n, 0);
	buf_finish(&low);
	buf_finish(&high);
}

/* 1 and 1.00 are equal for the server: a bound of one has to let the other in. */
static void a_bound_lets_in_what_equals_it(void **state)
{
	static uint8_t kind_numeric[] = {KEY_NUMERIC};
	static const enum key_kind kind = KEY_NUMERIC;
	static const char *const equal[] = {"1", "1.0", "1.00"};
	struct fixture *f = *state;
	struct schema numeric = single;
	struct buf low = {0}, high = {0}, full = {0};

	numeric.key_kinds = kind_numeric;
	for (size_t i = 0; i < 9; i++) {
		struct slice text = slice_of(equal[i % 3]);
		uint8_t key[KEY_MAX];
		size_t n;
		bool is_long;
		struct err err;

		buf_reset(&f->from);
		put(&f->from, equal[i / 3]);
		scope_set(&f->scope, NULL, (struct slice){f->from.p, f->from.n}, (struct slice){f->from.p, f->from.n},
				  0);
		scope_encode(&f->scope, &numeric, &low, &high);
		assert_true(key_encode(&kind, &text, 1, key, &n, &full, &is_long, &err));
		assert_true(low.n > 0 && low.n <= n && high.n <= n);
		assert_true(memcmp(low.p, key, low.n) <= 0);
		assert_memory_equal(high.p, key, high.n);
	}
	buf_finish(&low);
	buf_finish(&high);
	buf_finish(&full);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_whole_table_has_no_condition, setup, teardown),
		cmocka_unit_test_setup_teardown(a_condition_stands_on_lines_of_its_own, setup, teardown),
		cmocka_unit_test_setup_teardown(bounds_are_inclusive_literals, setup, teardown),
		cmocka_unit_test_setup_teardown(operators_of_their_own_are_spelled_out, setup, teardown),
		cmocka_unit_test_setup_teardown(suspects_are_looked_at_as_rows_of_the_table, setup, teardown),
		cmocka_unit_test_setup_teardown(bounds_need_the_key_alone, setup, teardown),
		cmocka_unit_test_setup_teardown(a_check_reads_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(bounds_are_encoded_where_the_order_is_the_servers, setup, teardown),
		cmocka_unit_test_setup_teardown(a_bound_lets_in_what_equals_it, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
