/* Strings, numbers, the writer's commas, and what counts as JSON. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "reader/json.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])
#define BYTES(s) ((struct slice){(const uint8_t *)(s), sizeof(s) - 1})

static void check_buf(struct buf *b, struct slice want)
{
	if (b->n != want.n || memcmp(b->p, want.p, want.n) != 0)
		fail_msg("wrote [%.*s], want [%.*s]", (int)b->n, (char *)b->p, (int)want.n, (const char *)want.p);
	buf_reset(b);
}

static const struct {
	struct slice in, out;
} strings[] = {
	{BYTES(""), BYTES("\"\"")},
	{BYTES("plain text of more than eight bytes"), BYTES("\"plain text of more than eight bytes\"")},
	{BYTES("say \"hi\" \\ /"), BYTES("\"say \\\"hi\\\" \\\\ /\"")},
	{BYTES("a\b\f\n\r\tz"), BYTES("\"a\\b\\f\\n\\r\\tz\"")},
	{BYTES("\v\x01\x1f\x7f"), BYTES("\"\\u000b\\u0001\\u001f\x7f\"")},
	{BYTES("a\0b"), BYTES("\"a\\u0000b\"")},
	{BYTES("1234567\n90123456"), BYTES("\"1234567\\n90123456\"")},
	{BYTES("\xc3\xa9\xe2\x82\xac\xf0\x9f\x90\x98"), BYTES("\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x90\x98\"")},
	{BYTES("\xff"), BYTES("\"\xef\xbf\xbd\"")},                                 /* no lead byte */
	{BYTES("a\xc3"), BYTES("\"a\xef\xbf\xbd\"")},                               /* cut */
	{BYTES("\xe2\x82"), BYTES("\"\xef\xbf\xbd\xef\xbf\xbd\"")},                 /* cut */
	{BYTES("\xc0\x80"), BYTES("\"\xef\xbf\xbd\xef\xbf\xbd\"")},                 /* overlong */
	{BYTES("\xed\xa0\x80"), BYTES("\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"")}, /* surrogate */
	{BYTES("\xf4\x90\x80\x80z"), BYTES("\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdz\"")},
	{BYTES("\xc3\"x"), BYTES("\"\xef\xbf\xbd\\\"x\"")}, /* the quote after a broken lead is not swallowed */
};

static void test_strings(void **state)
{
	struct buf b = {0};

	(void)state;
	for (size_t i = 0; i < COUNT(strings); i++) {
		json_put_string(&b, strings[i].in);
		check_buf(&b, strings[i].out);
	}
	buf_finish(&b);
}

/* Whatever stands before it, in particular where a long text is cut into pieces. */
static void test_special_at_every_offset(void **state)
{
	static const char special[] = "\n\xf0\x9f\x90\x98\"";
	static const char escaped[] = "\\n\xf0\x9f\x90\x98\\\"";
	uint8_t *in = malloc(9000);
	struct buf b = {0}, want = {0};

	(void)state;
	memset(in, 'x', 9000);
	for (size_t at = 0; at < 8300; at += at < 40 || (at > 4080 && at < 4110) || at > 8180 ? 1 : 37) {
		buf_reset(&b);
		buf_reset(&want);
		memcpy(in + at, special, 6);
		json_put_string(&b, (struct slice){in, at + 6 + 5});
		buf_put_u8(&want, '"');
		memset(buf_extend(&want, at), 'x', at);
		buf_put(&want, escaped, sizeof escaped - 1);
		buf_put(&want, "xxxxx\"", 6);
		check_buf(&b, (struct slice){want.p, want.n});
		memset(in + at, 'x', 6);
	}
	buf_finish(&b);
	buf_finish(&want);
	free(in);
}

static void test_all_escapes_in_a_long_text(void **state)
{
	const size_t n = 1 << 20;
	uint8_t *in = calloc(1, n);
	struct buf b = {0};

	(void)state;
	json_put_string(&b, (struct slice){in, n});
	assert_int_equal(b.n, 6 * n + 2);
	assert_memory_equal(b.p + b.n - 7, "\\u0000\"", 7);
	buf_finish(&b);
	free(in);
}

static const char *const numbers[] = {"0",
									  "-0",
									  "7",
									  "-12",
									  "9223372036854775807",
									  "0.00",
									  "-1.5",
									  "1e+20",
									  "1E5",
									  "1e-05",
									  "0.1e0",
									  "123456789012345678901234567890.123"};
static const char *const not_numbers[] = {"",     "-",  "+1",  "01",  "-01",      ".5",        "1.",
										  "1.e5", "1e", "1e+", "NaN", "Infinity", "-Infinity", "0x10",
										  "1 ",   " 1", "1\n", "1,2", "t",        "1.2.3",     "--1"};

static void test_numbers(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(numbers); i++) {
		if (!json_is_number(slice_of(numbers[i]))) fail_msg("%s is a number", numbers[i]);
	}
	for (size_t i = 0; i < COUNT(not_numbers); i++) {
		if (json_is_number(slice_of(not_numbers[i]))) fail_msg("%s is not a number", not_numbers[i]);
	}
	assert_false(json_is_number(BYTES("1\0")));
}

static void test_uint(void **state)
{
	struct buf b = {0};

	(void)state;
	json_put_uint(&b, 0);
	check_buf(&b, BYTES("0"));
	json_put_uint(&b, 1000);
	check_buf(&b, BYTES("1000"));
	json_put_uint(&b, UINT64_MAX);
	check_buf(&b, BYTES("18446744073709551615"));
	buf_finish(&b);
}

static const char *const valid[] = {
	"{}",
	"[]",
	" [ ] ",
	"null",
	"true",
	"false",
	"\"\"",
	"0",
	"-1.5e3",
	"\t\r\n 1 \n",
	"[1,2,3]",
	"[[],[[]],{}]",
	"{\"a\":1}",
	"{ \"a\" : { \"b\" : [ 1 , { } , \"x\" ] } , \"a\" : null }",
	"{\"\":\"\"}",
	"[{\"a\":[]},{\"b\":{}}]",
	"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\uD83D\\uDC18\"",
	"\"\xc3\xa9\"",
	"\"\x7f\"",
	"[\"]\",\"}\",\"{\"]",
};
static const char *const invalid[] = {
	"",
	" ",
	"{",
	"}",
	"[",
	"]",
	"[1",
	"[1,",
	"[1,]",
	"[,1]",
	"{,}",
	"{\"a\"}",
	"{\"a\":}",
	"{\"a\":1,}",
	"{a:1}",
	"{\"a\" 1}",
	"[}",
	"{]",
	"[1}",
	"{\"a\":1]",
	"1 2",
	"[] []",
	"{}x",
	"nul",
	"nulll",
	"True",
	"'a'",
	"\"",
	"\"a",
	"\"\\",
	"\"\\x\"",
	"\"\\u12\"",
	"\"\\u12g4\"",
	"\"a\nb\"",
	"\"a\tb\"",
	"\"\xff\"",
	"\"\xc3\"",
	"\xc3\xa9",
	"NaN",
	"01",
	"hello",
	"[1 2]",
	"{\"a\":1 \"b\":2}",
	"\"a\"\"b\"",
	"{1:2}",
	"{[]:1}",
	"[:]",
	",",
	":",
};

static void test_validity(void **state)
{
	struct buf stack = {0};

	(void)state;
	for (size_t i = 0; i < COUNT(valid); i++) {
		if (!json_is_valid(slice_of(valid[i]), &stack)) fail_msg("[%s] is JSON", valid[i]);
	}
	for (size_t i = 0; i < COUNT(invalid); i++) {
		if (json_is_valid(slice_of(invalid[i]), &stack)) fail_msg("[%s] is not JSON", invalid[i]);
	}
	assert_false(json_is_valid(BYTES("1\0"), &stack));
	assert_false(json_is_valid(BYTES("\"a\0b\""), &stack));
	assert_false(json_is_valid(BYTES("\"\\\0\""), &stack));
	assert_false(json_is_valid(BYTES("\"\\u000\0\""), &stack));
	buf_finish(&stack);
}

/* Recursion would run out of stack here. */
static void test_deep_nesting(void **state)
{
	const size_t depth = 1000000;
	uint8_t *text = malloc(2 * depth);
	struct buf stack = {0};

	(void)state;
	memset(text, '[', depth);
	memset(text + depth, ']', depth);
	assert_true(json_is_valid((struct slice){text, 2 * depth}, &stack));
	assert_false(json_is_valid((struct slice){text, 2 * depth - 1}, &stack));
	buf_finish(&stack);
	free(text);
}

/* Every proper prefix of a value in brackets is incomplete. */
static void test_prefixes(void **state)
{
	static const char text[] = "{\"a\":[1,-2.5e+3,\"\\u00e9\xc3\xa9\",true,null,{}],\"b\":{\"c\":false}}";
	struct buf stack = {0};

	(void)state;
	for (size_t n = 0; n < sizeof text - 1; n++) {
		uint8_t *cut = malloc(n ? n : 1); /* exact size: the sanitizer sees a read too far */

		memcpy(cut, text, n);
		assert_false(json_is_valid((struct slice){cut, n}, &stack));
		free(cut);
	}
	assert_true(json_is_valid(slice_of(text), &stack));
	buf_finish(&stack);
}

static void test_writer(void **state)
{
	struct buf b = {0};
	struct json j = json_to(&b);

	(void)state;
	json_open(&j, NULL, '{');
	json_open(&j, "none", '[');
	json_close(&j, ']');
	json_open(&j, "list", '[');
	json_add_uint(&j, NULL, 1);
	json_add_string(&j, NULL, "a\"b");
	json_open(&j, NULL, '{');
	json_close(&j, '}');
	json_open(&j, NULL, '{');
	json_add_null(&j, "n\n");
	json_close(&j, '}');
	json_close(&j, ']');
	json_add_bool(&j, "yes", true);
	json_add_bool(&j, "no", false);
	json_add_string(&j, "absent", NULL);
	json_add_real(&j, "age", 3.25, 3);
	json_add_real(&j, "neg", -0.5, 1);
	json_close(&j, '}');
	check_buf(&b, BYTES("{\"none\":[],\"list\":[1,\"a\\\"b\",{},{\"n\\n\":null}],\"yes\":true,\"no\":false,"
						"\"absent\":null,\"age\":3.250,\"neg\":-0.5}"));
	buf_finish(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_strings),
		cmocka_unit_test(test_special_at_every_offset),
		cmocka_unit_test(test_all_escapes_in_a_long_text),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_uint),
		cmocka_unit_test(test_validity),
		cmocka_unit_test(test_deep_nesting),
		cmocka_unit_test(test_prefixes),
		cmocka_unit_test(test_writer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
