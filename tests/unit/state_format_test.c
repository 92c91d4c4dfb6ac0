/*
 * The bytes shown in state/FORMAT.md are those that the code makes. Run from
 * the root of the repository.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "state/record.h"
#include "state/row.h"
#include "state/schema.h"
#include "state/store.h"

/* ---- the page ---- */

static char *page;

static int page_read(void **state)
{
	FILE *f = fopen("state/FORMAT.md", "r");
	long n;

	(void)state;
	if (!f) return 0; /* the tests skip */
	fseek(f, 0, SEEK_END);
	n = ftell(f);
	rewind(f);
	page = calloc(1, (size_t)n + 1);
	n = (long)fread(page, 1, (size_t)n, f) - n;
	fclose(f);
	return n == 0 ? 0 : -1;
}

static int page_free(void **state)
{
	(void)state;
	free(page);
	page = NULL;
	return 0;
}

/* Appends the hex bytes of a line; false: it has something else. */
static bool take_hex(const char *line, const char *end, struct buf *out)
{
	bool any = false;

	while (line < end) {
		char two[3] = {line[0], line + 1 < end ? line[1] : ' ', 0};

		if (*line == ' ') {
			line++;
			continue;
		}
		if (!isxdigit((unsigned char)two[0]) || !isxdigit((unsigned char)two[1])) return false;
		buf_put_u8(out, (uint8_t)strtoul(two, NULL, 16));
		line += 2;
		any = true;
	}
	return any;
}

/* The bytes behind `name` at the start of a line, and in the lines that go on. */
static void find_bytes(const char *name, struct buf *out)
{
	char start[40];
	const char *line = page;

	snprintf(start, sizeof start, "\n    %-12s", name);
	while (out->n == 0 && (line = strstr(line, start)) != NULL) { /* words may stand there, too */
		const char *end = strchr(line += strlen(start), '\n');

		for (; end && take_hex(line, end, out); end = strchr(line, '\n'))
			line = end + 1;
	}
}

static void check_example(const char *name, const void *p, size_t n)
{
	struct buf shown = {0};

	if (!page) skip();
	find_bytes(name, &shown);
	assert_int_equal(shown.n, n);
	assert_memory_equal(shown.p, p, n);
	buf_finish(&shown);
}

static void check_buf(const char *name, struct buf *made)
{
	check_example(name, made->p, made->n);
	buf_finish(made);
}

/* ---- the example ---- */

static const struct pos changed = {1, {0x16B3748}, 2};
static const enum key_kind kinds[] = {KEY_TEXT, KEY_INT4};

static void the_checkpoint(void **state)
{
	struct checkpoint c = {.epoch = 1,
						   .lsn = LSN(0x16B3780),
						   .commit_lsn = LSN(0x16B3748),
						   .commit_time_us = INT64_C(1700000000000000),
						   .written_us = INT64_C(1700000000100000)};
	struct buf b = {0};

	(void)state;
	checkpoint_encode(&c, &b);
	check_buf("checkpoint", &b);
}

static void the_table(void **state)
{
	struct table_record r = {.id = 1,
							 .oid = 16384,
							 .schema_name = "public",
							 .table_name = "shops",
							 .state = TABLE_COPIED,
							 .schema_version = 1,
							 .high = changed,
							 .live = 2,
							 .doubt = 1,
							 .markers = 1};
	struct buf b = {0};

	(void)state;
	table_record_encode(&r, &b);
	check_buf("table", &b);
}

static void the_schema(void **state)
{
	struct column columns[] = {{"city", 25, -1, "text", TYPE_OTHER},
							   {"number", 23, -1, "integer", TYPE_INT},
							   {"note", 25, -1, "text", TYPE_OTHER}};
	uint16_t key_columns[] = {0, 1};
	uint8_t key_kinds[] = {KEY_TEXT, KEY_INT4};
	struct schema s = {1, 1, 3, 2, columns, key_columns, key_kinds};
	struct buf b = {0};

	(void)state;
	schema_encode(&s, &b);
	check_buf("schema", &b);
}

static void check_key(const char *name, const char *city, const char *number)
{
	struct slice texts[] = {slice_of(city), slice_of(number)};
	struct buf scratch = {0};
	uint8_t key[KEY_MAX];
	struct err err;
	bool is_long;
	size_t n;

	assert_true(key_encode(kinds, texts, 2, key, &n, &scratch, &is_long, &err));
	check_example(name, key, n);
	buf_finish(&scratch);
}

static void the_keys(void **state)
{
	(void)state;
	check_key("key 1", "Bern", "-1");
	check_key("key 2", "Bern", "7");
	check_key("key 3", "Ulm", "3");
}

static struct cell text(const char *s, bool doubt)
{
	return (struct cell){CELL_TEXT, doubt, slice_of(s)};
}

static void the_entries(void **state)
{
	struct cell bern[] = {text("Bern", false), text("7", false), {CELL_NULL, false, {NULL, 0}}};
	struct cell ulm[] = {text("Ulm", false), text("3", false), text("open", true)};
	struct slice none = {NULL, 0};
	struct buf b = {0};

	(void)state;
	row_encode_marker(&b, changed, none);
	check_buf("entry 1", &b);
	b = (struct buf){0};
	row_encode(&b, changed, 1, XID(0), none, bern, 3);
	check_buf("entry 2", &b);
	b = (struct buf){0};
	row_encode(&b, changed, 1, XID(741), none, ulm, 3);
	check_buf("entry 3", &b);
}

/* The numbers that the page names. */
static void the_numbers(void **state)
{
	(void)state;
	assert_int_equal(STORE_FORMAT, 3);
	assert_int_equal(STORE_ID_SIZE, 16);
	assert_int_equal(KEY_MAX, 511);
	assert_int_equal(KEY_PREFIX, 479);
	assert_int_equal(ROW_DELETED, 1);
	assert_int_equal(ROW_DOUBT, 2);
	assert_int_equal(ROW_LONG_KEY, 4);
	assert_int_equal(ROW_HIDDEN, 8);
	assert_int_equal(TABLE_COPYING * 100 + TABLE_COPIED * 10 + TABLE_LEFT, 123);
	assert_int_equal(KEY_OID, 11);
	assert_int_equal(RUN_RESYNC * 10 + RUN_PAUSED, 46);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_checkpoint), cmocka_unit_test(the_table),   cmocka_unit_test(the_schema),
		cmocka_unit_test(the_keys),       cmocka_unit_test(the_entries), cmocka_unit_test(the_numbers),
	};

	return cmocka_run_group_tests_name("state/format", tests, page_read, page_free);
}
