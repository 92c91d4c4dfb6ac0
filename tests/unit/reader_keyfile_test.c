#include "reader/keyfile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "reader/request.h"

static bool convert(const char *text, size_t ncolumns, struct buf *out, struct err *err)
{
	struct json j = json_to(out);
	json_open(&j, NULL, '{');
	bool good = keyfile_put_json(slice_of(text), ncolumns, &j, err);
	json_close(&j, '}');
	buf_put_u8(out, 0);
	return good;
}

static void becomes(const char *text, size_t ncolumns, const char *json)
{
	struct buf out = {0};
	struct err err;
	if (!convert(text, ncolumns, &out, &err)) fail_msg("%s: %s", text, err.msg);
	assert_string_equal((const char *)out.p, json);
	buf_finish(&out);
}

static void refused(const char *text, size_t ncolumns, const char *because)
{
	struct buf out = {0};
	struct err err;
	assert_false(convert(text, ncolumns, &out, &err));
	assert_int_equal(err.kind, ERR_CONFIG);
	if (strstr(err.msg, because) == NULL) fail_msg("\"%s\" is not in: %s", because, err.msg);
	buf_finish(&out);
}

static void lines_are_keys(void **state)
{
	(void)state;
	becomes("1\n-2\n", 1, "{\"keys\":[[\"1\"],[\"-2\"]]}");
	becomes("1\tb\n2\t\n", 2, "{\"keys\":[[\"1\",\"b\"],[\"2\",\"\"]]}");
	becomes("last without its newline", 1, "{\"keys\":[[\"last without its newline\"]]}");
	/* The empty text is a key; the mark of COPY ends the list. */
	becomes("\n\\.\nnot read", 1, "{\"keys\":[[\"\"]]}");
}

static void escapes_are_those_of_copy(void **state)
{
	(void)state;
	becomes("a\\tb\\\\c\\nd", 1, "{\"keys\":[[\"a\\tb\\\\c\\nd\"]]}");
	becomes("\\101\\x42\\x4gZ\\N!\\q", 1, "{\"keys\":[[\"AB\\u0004gZN!q\"]]}");
	becomes("\\303\\251", 1, "{\"keys\":[[\"\303\251\"]]}");
}

static void what_is_no_key_is_refused(void **state)
{
	(void)state;
	refused("", 1, "no keys");
	refused("\\.\n", 1, "no keys");
	refused("1\n2\t3\n", 1, "line 2");
	refused("1\n", 2, "line 1");
	refused("1\t2\t3\n", 2, "2 columns");
	refused("\\N\n", 1, "NULL");
	refused("1\nx\\", 1, "line 2");
	refused("a\\000b", 1, "zero");
	refused("\\377", 1, "UTF-8");
}

static void too_many_lines_are_refused(void **state)
{
	(void)state;
	struct buf text = {0};
	for (int i = 0; i <= REQUEST_KEYS_MAX; i++)
		buf_put(&text, "7\n", 2);
	buf_put_u8(&text, 0);
	refused((const char *)text.p, 1, "more than 100000");
	buf_finish(&text);
}

static void files_are_read_whole_and_bounded(void **state)
{
	(void)state;
	char path[] = "/tmp/tidemark-keys-XXXXXX";
	int fd = mkstemp(path);
	struct buf out = {0};
	struct err err;
	FILE *f = fdopen(fd, "w");
	fputs("1\n2\n", f);
	fflush(f);
	assert_true(keyfile_read(path, &out, &err));
	assert_int_equal(out.n, 4);
	for (int i = 0; i < KEYFILE_BYTES_MAX / 8; i++)
		fputs("1234567\n", f);
	fclose(f);
	buf_reset(&out);
	assert_false(keyfile_read(path, &out, &err));
	assert_non_null(strstr(err.msg, "4 MiB"));
	remove(path);
	assert_false(keyfile_read(path, &out, &err));
	assert_non_null(strstr(err.msg, path));
	buf_finish(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_are_keys),
		cmocka_unit_test(escapes_are_those_of_copy),
		cmocka_unit_test(what_is_no_key_is_refused),
		cmocka_unit_test(too_many_lines_are_refused),
		cmocka_unit_test(files_are_read_whole_and_bounded),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
