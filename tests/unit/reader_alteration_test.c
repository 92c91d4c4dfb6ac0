/* What was done to a table, whether its rows are read again, and what the stream must not be asked by name.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "reader/alteration.h"

static struct column columns_of_t[] = {{"id", 23, -1, "integer", TYPE_INT},
									   {"v", 25, -1, "text", TYPE_OTHER}};
static char schema_name[] = "public", table_name[] = "t", display[] = "public.t";
static uint16_t keys[] = {0};
static uint8_t kinds[] = {KEY_INT4};

static struct schema make(struct column *columns, uint16_t n, uint32_t version)
{
	return (struct schema){.table_id = 1,
						   .version = version,
						   .ncolumns = n,
						   .nkeys = 1,
						   .columns = columns,
						   .key_columns = keys,
						   .key_kinds = kinds};
}

#define HAD "1:2:0/100/2;1:7:aaaaaaaa,2:7:bbbbbbbb/d5/public.t"

struct world {
	struct schema had, older, now;
	struct schema *had_p, *older_p;
	struct table_record record;
	struct stored stored;
	struct source_table table;
	struct source_tables tables;
	char shape[200];
};

/* The store has t (id, v); the source's columns and shape are given. */
static void meet(struct world *w, struct column *columns, uint16_t n, const char *shape)
{
	*w = (struct world){.had = make(columns_of_t, 2, 1), .now = make(columns, n, 0)};
	w->had_p = &w->had;
	w->record = (struct table_record){
		.id = 1, .oid = 9, .schema_name = "public", .table_name = "t", .shape = HAD, .state = TABLE_COPIED};
	w->stored = (struct stored){.tables = &w->record, .schemas = &w->had_p, .ntables = 1};
	strcpy(w->shape, shape);
	w->table = (struct source_table){.oid = 9,
									 .schema_name = schema_name,
									 .table_name = table_name,
									 .display = display,
									 .schema = &w->now,
									 .shape = w->shape};
	w->tables = (struct source_tables){.v = &w->table, .n = 1, .read_at = LSN(2000)};
}

static struct column extra[] = {{"id", 23, -1, "integer", TYPE_INT},
								{"v", 25, -1, "text", TYPE_OTHER},
								{"x", 23, -1, "integer", TYPE_INT}};

static enum alteration found(const struct world *w)
{
	return alteration_find(&w->stored, 0, &w->table);
}

static void nothing(void **state)
{
	struct world w;
	struct err err;
	(void)state;
	meet(&w, columns_of_t, 2, HAD);
	assert_int_equal(found(&w), ALTERATION_NONE);
	assert_true(alteration_check(&w.stored, &w.tables, ON_CHANGE_STOP, &err));
	w.record.table_name = "other";
	assert_int_equal(found(&w), ALTERATION_NAME);
	assert_false(alteration_check(&w.stored, &w.tables, ON_CHANGE_STOP, &err));
	assert_int_equal(err.kind, ERR_CONFIG);
	assert_non_null(strstr(err.msg, "it was public.other"));
}

static void added(void **state)
{
	struct world w;
	struct shape_mark m;
	(void)state;
	meet(&w, extra, 3, "1:2:0/100/3;1:7:aaaaaaaa,2:7:bbbbbbbb,3:9:cccccccc/d5/public.t");
	assert_int_equal(found(&w), ALTERATION_EXTENDED);
	assert_false(alteration_needs_rows(&w.stored, 0, &w.table, ALTERATION_EXTENDED, ON_CHANGE_BACKFILL));
	assert_true(alteration_mark(&w.stored, 0, &w.tables, &w.table, ALTERATION_EXTENDED, LSN(1000), &m));
	assert_int_equal(m.first, 2);
	assert_true(m.null);
	assert_int_equal(m.until.v, 2000);
	/* some row may have an x that was another */
	w.older = make(extra, 3, 1);
	w.older_p = &w.older;
	w.stored.older = &w.older_p;
	w.stored.nolder = 1;
	assert_int_equal(found(&w), ALTERATION_COLUMNS);
	assert_true(alteration_needs_rows(&w.stored, 0, &w.table, ALTERATION_COLUMNS, ON_CHANGE_CONTINUE));
	/* of another table: no */
	w.older.table_id = 2;
	assert_int_equal(found(&w), ALTERATION_EXTENDED);
}

static void with_a_default(void **state)
{
	struct world w;
	struct shape_mark m;
	(void)state;
	meet(&w, extra, 3, "1:2:0/100/3;1:7:aaaaaaaa,2:7:bbbbbbbb,3:9:ccccccccm/d5/public.t");
	assert_int_equal(found(&w), ALTERATION_COLUMNS);
	assert_true(alteration_needs_rows(&w.stored, 0, &w.table, ALTERATION_COLUMNS, ON_CHANGE_BACKFILL));
	assert_false(alteration_needs_rows(&w.stored, 0, &w.table, ALTERATION_COLUMNS, ON_CHANGE_CONTINUE));
	assert_true(alteration_mark(&w.stored, 0, &w.tables, &w.table, ALTERATION_COLUMNS, LSN(1000), &m));
	assert_int_equal(m.first, 2);
	assert_false(m.null);
}

/* Once the stream is past it, a mark means nothing; until then it holds for what follows, too. */
static void marks_last(void **state)
{
	struct world w;
	struct shape_mark m = {.until = LSN(1500), .first = 1, .null = false}, got;
	(void)state;
	meet(&w, columns_of_t, 2, HAD);
	char *marked = shape_put_mark(HAD, &m);
	assert_true(shape_get_mark(marked, &got));
	assert_int_equal(got.until.v, 1500);
	assert_int_equal(got.first, 1);
	assert_false(got.null);
	w.record.shape = marked;
	assert_int_equal(found(&w), ALTERATION_NONE);
	assert_true(alteration_mark(&w.stored, 0, &w.tables, &w.table, ALTERATION_NONE, LSN(1499), &got));
	assert_int_equal(got.first, 1);
	assert_false(alteration_mark(&w.stored, 0, &w.tables, &w.table, ALTERATION_NONE, LSN(1500), &got));
	free(marked);
	meet(&w, extra, 3, "1:2:0/100/3;1:7:aaaaaaaa,2:7:bbbbbbbb,3:9:cccccccc/d5/public.t");
	w.record.shape = marked = shape_put_mark(HAD, &m);
	assert_true(alteration_mark(&w.stored, 0, &w.tables, &w.table, ALTERATION_EXTENDED, LSN(1000), &got));
	assert_int_equal(got.first, 1);
	assert_false(got.null);
	assert_true(alteration_mark(&w.stored, 0, &w.tables, &w.table, ALTERATION_EXTENDED, LSN(1600), &got));
	assert_int_equal(got.first, 2);
	assert_true(got.null);
	free(marked);
}

static void what_is_no_mark(void **state)
{
	static const char *const texts[] = {"", "@", "@@", "@1/2@", "@1/2 3@", "@x 1 1@", "1/2/3", HAD};
	struct shape_mark m;
	(void)state;
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		if (shape_get_mark(texts[i], &m)) fail_msg("%s", texts[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing),    cmocka_unit_test(added),           cmocka_unit_test(with_a_default),
		cmocka_unit_test(marks_last), cmocka_unit_test(what_is_no_mark),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
