/* Rows as JSON, CSV and COPY text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "reader/format.h"
#include "state/schema.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])
#define BYTES(s) ((struct slice){(const uint8_t *)(s), sizeof(s) - 1})
#define SQL_NULL ((struct slice){NULL, 0})

static const struct format_meta meta = {LSN(0x1600000028), 281474976710655, 3, 2, true};

static struct format *create(enum format_kind kind, const struct format_column *columns, size_t n,
							 bool with_meta)
{
	struct format *f;
	struct err err = {0};

	if (!format_create(kind, columns, n, with_meta, &f, &err)) fail_msg("%s", err.msg);
	return f;
}

static void check_text(struct slice got, struct slice want)
{
	if (!slice_eq(got, want))
		fail_msg("wrote [%.*s], want [%.*s]", (int)got.n, (const char *)got.p, (int)want.n,
				 (const char *)want.p);
}

struct value {
	uint8_t type_class;
	struct slice in, json, csv, copy;
};

/* Each value is in a row of its own, in the middle of two plain ones. */
static const struct value values[] = {
	/* NULL is not the empty string */
	{TYPE_OTHER, SQL_NULL, BYTES("null"), BYTES(""), BYTES("\\N")},
	{TYPE_INT, SQL_NULL, BYTES("null"), BYTES(""), BYTES("\\N")},
	{TYPE_JSON, SQL_NULL, BYTES("null"), BYTES(""), BYTES("\\N")},
	{TYPE_OTHER, BYTES(""), BYTES("\"\""), BYTES("\"\""), BYTES("")},
	{TYPE_OTHER, BYTES("\\N"), BYTES("\"\\\\N\""), BYTES("\\N"), BYTES("\\\\N")},
	{TYPE_OTHER, BYTES("null"), BYTES("\"null\""), BYTES("null"), BYTES("null")},
	{TYPE_OTHER, BYTES("\\."), BYTES("\"\\\\.\""), BYTES("\\."), BYTES("\\\\.")},

	/* what each format escapes */
	{TYPE_OTHER, BYTES("a,b"), BYTES("\"a,b\""), BYTES("\"a,b\""), BYTES("a,b")},
	{TYPE_OTHER, BYTES("say \"hi\""), BYTES("\"say \\\"hi\\\"\""), BYTES("\"say \"\"hi\"\"\""),
	 BYTES("say \"hi\"")},
	{TYPE_OTHER, BYTES("\""), BYTES("\"\\\"\""), BYTES("\"\"\"\""), BYTES("\"")},
	{TYPE_OTHER, BYTES("a\nb"), BYTES("\"a\\nb\""), BYTES("\"a\nb\""), BYTES("a\\nb")},
	{TYPE_OTHER, BYTES("a\rb"), BYTES("\"a\\rb\""), BYTES("\"a\rb\""), BYTES("a\\rb")},
	{TYPE_OTHER, BYTES("a\tb"), BYTES("\"a\\tb\""), BYTES("a\tb"), BYTES("a\\tb")},
	{TYPE_OTHER, BYTES("\b\v\f"), BYTES("\"\\b\\u000b\\f\""), BYTES("\b\v\f"), BYTES("\\b\\v\\f")},
	{TYPE_OTHER, BYTES("C:\\dir\\"), BYTES("\"C:\\\\dir\\\\\""), BYTES("C:\\dir\\"), BYTES("C:\\\\dir\\\\")},
	{TYPE_OTHER, BYTES("\x01\x07\x0e\x1b\x1f\x7f"), BYTES("\"\\u0001\\u0007\\u000e\\u001b\\u001f\x7f\""),
	 BYTES("\x01\x07\x0e\x1b\x1f\x7f"), BYTES("\x01\x07\x0e\x1b\x1f\x7f")},
	{TYPE_OTHER, BYTES(" spaces "), BYTES("\" spaces \""), BYTES(" spaces "), BYTES(" spaces ")},
	{TYPE_OTHER, BYTES("12345678\n\\23456789012345678"), BYTES("\"12345678\\n\\\\23456789012345678\""),
	 BYTES("\"12345678\n\\23456789012345678\""), BYTES("12345678\\n\\\\23456789012345678")},
	{TYPE_OTHER, BYTES("\xc3\xa9\xe2\x82\xac\xf0\x9f\x90\x98"),
	 BYTES("\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x90\x98\""), BYTES("\xc3\xa9\xe2\x82\xac\xf0\x9f\x90\x98"),
	 BYTES("\xc3\xa9\xe2\x82\xac\xf0\x9f\x90\x98")},
	{TYPE_OTHER, BYTES("bad \xff"), BYTES("\"bad \xef\xbf\xbd\""), BYTES("bad \xff"), BYTES("bad \xff")},

	/* numbers and booleans that JSON can hold */
	{TYPE_INT, BYTES("-9223372036854775808"), BYTES("-9223372036854775808"), BYTES("-9223372036854775808"),
	 BYTES("-9223372036854775808")},
	{TYPE_FLOAT, BYTES("1e+20"), BYTES("1e+20"), BYTES("1e+20"), BYTES("1e+20")},
	{TYPE_FLOAT, BYTES("-0"), BYTES("-0"), BYTES("-0"), BYTES("-0")},
	{TYPE_FLOAT, BYTES("NaN"), BYTES("\"NaN\""), BYTES("NaN"), BYTES("NaN")},
	{TYPE_FLOAT, BYTES("-Infinity"), BYTES("\"-Infinity\""), BYTES("-Infinity"), BYTES("-Infinity")},
	{TYPE_NUMERIC, BYTES("1.00"), BYTES("1.00"), BYTES("1.00"), BYTES("1.00")},
	{TYPE_NUMERIC, BYTES("123456789012345678901234567890.5"), BYTES("123456789012345678901234567890.5"),
	 BYTES("123456789012345678901234567890.5"), BYTES("123456789012345678901234567890.5")},
	{TYPE_NUMERIC, BYTES("Infinity"), BYTES("\"Infinity\""), BYTES("Infinity"), BYTES("Infinity")},
	{TYPE_BOOL, BYTES("t"), BYTES("true"), BYTES("t"), BYTES("t")},
	{TYPE_BOOL, BYTES("f"), BYTES("false"), BYTES("f"), BYTES("f")},
	{TYPE_OTHER, BYTES("t"), BYTES("\"t\""), BYTES("t"), BYTES("t")},
	{TYPE_OTHER, BYTES("42"), BYTES("\"42\""), BYTES("42"), BYTES("42")},

	/* texts from before a change of type */
	{TYPE_INT, BYTES("abc"), BYTES("\"abc\""), BYTES("abc"), BYTES("abc")},
	{TYPE_INT, BYTES("007"), BYTES("\"007\""), BYTES("007"), BYTES("007")},
	{TYPE_INT, BYTES(""), BYTES("\"\""), BYTES("\"\""), BYTES("")},
	{TYPE_BOOL, BYTES("yes"), BYTES("\"yes\""), BYTES("yes"), BYTES("yes")},
	{TYPE_JSON, BYTES("hello"), BYTES("\"hello\""), BYTES("hello"), BYTES("hello")},
	{TYPE_JSON, BYTES(""), BYTES("\"\""), BYTES("\"\""), BYTES("")},

	/* json stays as typed, on one line */
	{TYPE_JSON, BYTES("{\"a\": [1, 2.50, null]}"), BYTES("{\"a\": [1, 2.50, null]}"),
	 BYTES("\"{\"\"a\"\": [1, 2.50, null]}\""), BYTES("{\"a\": [1, 2.50, null]}")},
	{TYPE_JSON, BYTES("{\n\t\"a\":\r\n1}"), BYTES("{ \t\"a\":  1}"), BYTES("\"{\n\t\"\"a\"\":\r\n1}\""),
	 BYTES("{\\n\\t\"a\":\\r\\n1}")},
	{TYPE_JSON, BYTES("\"a\\nb\""), BYTES("\"a\\nb\""), BYTES("\"\"\"a\\nb\"\"\""), BYTES("\"a\\\\nb\"")},
	{TYPE_JSON, BYTES("\"x\""), BYTES("\"x\""), BYTES("\"\"\"x\"\"\""), BYTES("\"x\"")},
	{TYPE_JSON, BYTES("null"), BYTES("null"), BYTES("null"), BYTES("null")},
	{TYPE_JSON, BYTES("{\"broken\n"), BYTES("\"{\\\"broken\\n\""), BYTES("\"{\"\"broken\n\""),
	 BYTES("{\"broken\\n")},
};

static void check_value(const struct value *v, enum format_kind kind, struct slice text)
{
	static const char *const around[][3] = {
		{"{\"id\":7,\"v\":", ",\"w\":\"z\"}\n"}, {"7,", ",z\r\n"}, {"7\t", "\tz\n"}};
	const struct format_column columns[] = {{"id", TYPE_INT}, {"v", v->type_class}, {"w", TYPE_OTHER}};
	const struct slice cells[] = {BYTES("7"), v->in, BYTES("z")};
	struct format *f = create(kind, columns, 3, false);
	struct buf got = {0}, want = {0};

	format_row(f, cells, NULL, &got);
	buf_put(&want, around[kind][0], strlen(around[kind][0]));
	buf_put(&want, text.p, text.n);
	buf_put(&want, around[kind][1], strlen(around[kind][1]));
	check_text((struct slice){got.p, got.n}, (struct slice){want.p, want.n});
	buf_finish(&got);
	buf_finish(&want);
	format_destroy(f);
}

static void test_values(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(values); i++) {
		check_value(&values[i], FORMAT_JSON, values[i].json);
		check_value(&values[i], FORMAT_CSV, values[i].csv);
		check_value(&values[i], FORMAT_COPY, values[i].copy);
	}
}

/* Every byte in COPY text, against the list in PostgreSQL's manual. */
static void test_copy_every_byte(void **state)
{
	static const struct format_column column = {"v", TYPE_OTHER};
	static const char special[] = "\b\f\n\r\t\v\\", letters[] = "bfnrtv\\";
	struct format *f = create(FORMAT_COPY, &column, 1, false);
	struct buf b = {0};

	(void)state;
	for (int c = 1; c < 256; c++) {
		const uint8_t byte = (uint8_t)c;
		const char *at = memchr(special, c, sizeof special - 1);
		const struct slice cell = {&byte, 1};

		buf_reset(&b);
		format_row(f, &cell, NULL, &b);
		assert_int_equal(b.n, at ? 3 : 2);
		if (at) assert_int_equal(b.p[0], '\\');
		assert_int_equal(b.p[b.n - 2], at ? letters[at - special] : c);
		assert_int_equal(b.p[b.n - 1], '\n');
	}
	buf_finish(&b);
	format_destroy(f);
}

/* Longer than a piece, with something to escape on either side of each border. */
static void test_huge_values(void **state)
{
	static const struct format_column column = {"v", TYPE_OTHER};
	const size_t n = 5000000;
	uint8_t *in = malloc(n);
	struct buf b = {0};
	const struct slice cell = {in, n};

	(void)state;
	memset(in, 'x', n);
	for (size_t i = 4095; i < n; i += 4096)
		in[i] = '\\';
	for (int kind = FORMAT_JSON; kind <= FORMAT_COPY; kind++) {
		struct format *f = create((enum format_kind)kind, &column, 1, false);
		size_t extra =
			kind == FORMAT_CSV ? 2 : n / 4096 + (kind == FORMAT_JSON ? strlen("{\"v\":\"\"}\n") : 1);

		buf_reset(&b);
		format_row(f, &cell, NULL, &b);
		assert_int_equal(b.n, n + extra);
		format_destroy(f);
	}
	buf_finish(&b);
	free(in);
}

static const struct format_column named[] = {{"id", TYPE_INT}, {"a \"b\",c\n", TYPE_OTHER}, {"", TYPE_BOOL}};
static const struct slice named_cells[] = {BYTES("1"), BYTES("x"), BYTES("t")};

static void check_row(enum format_kind kind, bool with_meta, struct slice header, struct slice row)
{
	struct format *f = create(kind, named, COUNT(named), with_meta);
	struct buf b = {0};

	format_header(f, &b);
	check_text((struct slice){b.p, b.n}, header);
	buf_reset(&b);
	format_row(f, named_cells, with_meta ? &meta : NULL, &b);
	check_text((struct slice){b.p, b.n}, row);
	buf_finish(&b);
	format_destroy(f);
}

static void test_names_and_meta(void **state)
{
	(void)state;
	check_row(FORMAT_JSON, false, BYTES(""), BYTES("{\"id\":1,\"a \\\"b\\\",c\\n\":\"x\",\"\":true}\n"));
	check_row(FORMAT_JSON, true, BYTES(""),
			  BYTES("{\"_tidemark\":{\"lsn\":\"16/28\",\"ordinal\":281474976710655,\"epoch\":3,\"version\":2,"
					"\"doubt\":true},\"id\":1,\"a \\\"b\\\",c\\n\":\"x\",\"\":true}\n"));
	check_row(FORMAT_CSV, false, BYTES("id,\"a \"\"b\"\",c\n\",\"\"\r\n"), BYTES("1,x,t\r\n"));
	check_row(FORMAT_CSV, true, BYTES("_lsn,_ordinal,_epoch,_version,_doubt,id,\"a \"\"b\"\",c\n\",\"\"\r\n"),
			  BYTES("16/28,281474976710655,3,2,t,1,x,t\r\n"));
	check_row(FORMAT_COPY, false, BYTES(""), BYTES("1\tx\tt\n"));
}

static const struct {
	enum format_kind kind;
	const char *column;
	const char *word; /* of the refusal; NULL: accepted */
} meta_cases[] = {
	{FORMAT_COPY, "v", "--with-meta"}, {FORMAT_JSON, "_tidemark", "_tidemark"},
	{FORMAT_CSV, "_tidemark", NULL},   {FORMAT_CSV, "_lsn", "_lsn"},
	{FORMAT_CSV, "_doubt", "_doubt"},  {FORMAT_JSON, "_lsn", NULL},
};

static void test_meta_refusals(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(meta_cases); i++) {
		const struct format_column column = {meta_cases[i].column, TYPE_OTHER};
		struct err err = {0};
		struct format *f;
		bool ok = format_create(meta_cases[i].kind, &column, 1, true, &f, &err);

		assert_int_equal(ok, meta_cases[i].word == NULL);
		if (!ok) {
			assert_null(f);
			assert_int_equal(err.kind, ERR_CONFIG);
			assert_non_null(strstr(err.msg, meta_cases[i].word));
		}
		format_destroy(f);
	}
}

static void test_parse(void **state)
{
	enum format_kind kind;
	struct err err;

	(void)state;
	assert_true(format_parse("json", &kind, &err) && kind == FORMAT_JSON);
	assert_true(format_parse("csv", &kind, &err) && kind == FORMAT_CSV);
	assert_true(format_parse("copy", &kind, &err) && kind == FORMAT_COPY);
	assert_false(format_parse("", &kind, &err));
	assert_false(format_parse("JSON", &kind, &err));
	assert_int_equal(err.kind, ERR_CONFIG);
	assert_string_equal(err.msg, "there is no format \"JSON\"");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values),        cmocka_unit_test(test_copy_every_byte),
		cmocka_unit_test(test_huge_values),   cmocka_unit_test(test_names_and_meta),
		cmocka_unit_test(test_meta_refusals), cmocka_unit_test(test_parse),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
