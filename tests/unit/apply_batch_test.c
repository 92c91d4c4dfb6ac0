#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "apply/batch.h"

static void holds_operations_in_order(void **state)
{
	struct batch *b = batch_create();

	(void)state;
	for (uint32_t i = 0; i < 1000; i++) {
		struct op *op = batch_add(b, OP_DELETE);

		assert_int_equal(op->body_len, 0);
		assert_null(op->key.p);
		op->table_id = i;
	}
	assert_int_equal(b->n, 1000);
	for (uint32_t i = 0; i < 1000; i++)
		assert_int_equal(b->ops[i].table_id, i);
	batch_destroy(b);
	batch_destroy(NULL);
}

static void counts_what_it_holds(void **state)
{
	struct batch *b = batch_create();
	size_t empty = batch_bytes(b);

	(void)state;
	arena_alloc(&b->arena, 100000);
	assert_true(batch_bytes(b) >= empty + 100000);
	for (int i = 0; i < 1000; i++)
		batch_add(b, OP_DELETE);
	assert_true(batch_bytes(b) >= empty + 100000 + 1000 * sizeof(struct op));
	batch_destroy(b);
}

static size_t whole(const enum op_kind *kinds, size_t n)
{
	struct batch *b = batch_create();
	size_t whole;

	for (size_t i = 0; i < n; i++)
		batch_add(b, kinds[i]);
	whole = batch_whole_ops(b);
	batch_destroy(b);
	return whole;
}

#define WHOLE(...)                                                                                           \
	whole((const enum op_kind[]){__VA_ARGS__}, sizeof(enum op_kind[]){__VA_ARGS__} / sizeof(enum op_kind))

static void finds_the_last_end_of_a_transaction(void **state)
{
	(void)state;
	assert_int_equal(whole(NULL, 0), 0);
	assert_int_equal(WHOLE(OP_UPSERT, OP_COMMIT), 2);
	assert_int_equal(WHOLE(OP_UPSERT, OP_COMMIT, OP_DELETE), 2);
	assert_int_equal(WHOLE(OP_UPSERT, OP_DELETE, OP_TRUNCATE), 0);
	assert_int_equal(WHOLE(OP_COMMIT, OP_CHUNK, OP_CHUNK_ROW, OP_CHUNK_GONE, OP_UPSERT, OP_UPSERT), 4);
	assert_int_equal(WHOLE(OP_CHUNK, OP_CHUNK_ROW), 2);
	/* A schema may stand inside a transaction or between two. */
	assert_int_equal(WHOLE(OP_COMMIT, OP_SCHEMA), 2);
	assert_int_equal(WHOLE(OP_COMMIT, OP_SCHEMA, OP_UPSERT), 1);
	assert_int_equal(WHOLE(OP_SCHEMA), 0);
	assert_int_equal(WHOLE(OP_TABLE, OP_SCHEMA, OP_RUN), 3);
}

static struct slice body_of(const struct op *op)
{
	return (struct slice){op->body, op->body_len};
}

static void carries_tables(void **state)
{
	struct table_record t = {
		.id = 7, .oid = 99, .schema_name = "s", .table_name = "t", .state = TABLE_COPIED};
	struct table_record back;
	struct batch *b = batch_create();
	struct err err;

	(void)state;
	batch_add_table(b, &t);
	assert_int_equal(b->ops[0].kind, OP_TABLE);
	assert_int_equal(b->ops[0].table_id, 7);
	assert_true(table_record_decode(body_of(&b->ops[0]), &back, &err));
	assert_string_equal(back.table_name, "t");
	assert_int_equal(back.oid, 99);
	table_record_free(&back);
	batch_destroy(b);
}

static void carries_schemas(void **state)
{
	struct column column = {.name = "k", .type_oid = 23, .typmod = -1, .type_name = "int4"};
	uint16_t key_column = 0;
	uint8_t key_kind = KEY_INT4;
	struct schema s = {.table_id = 7,
					   .version = 3,
					   .ncolumns = 1,
					   .nkeys = 1,
					   .columns = &column,
					   .key_columns = &key_column,
					   .key_kinds = &key_kind};
	struct schema *back;
	struct batch *b = batch_create();
	struct err err;

	(void)state;
	batch_add_schema(b, &s);
	assert_int_equal(b->ops[0].kind, OP_SCHEMA);
	assert_int_equal(b->ops[0].table_id, 7);
	assert_true(schema_decode(body_of(&b->ops[0]), &back, &err));
	assert_true(schema_same(&s, back));
	schema_free(back);
	batch_destroy(b);
}

static void carries_runs(void **state)
{
	struct run_record r = {.id = 5,
						   .table_id = 7,
						   .kind = RUN_INITIAL,
						   .state = RUN_COPYING,
						   .sweep = true,
						   .requester = "run",
						   .gate = "1:2:",
						   .first_snapshot = "",
						   .last_snapshot = ""};
	struct run_record back;
	struct batch *b = batch_create();
	struct err err;

	(void)state;
	batch_add_run(b, &r);
	batch_add_run_state(b, 7, 5, RUN_DONE, 1234);
	assert_int_equal(b->ops[0].kind, OP_RUN);
	assert_true(run_record_decode(body_of(&b->ops[0]), &back, &err));
	assert_int_equal(back.id, 5);
	assert_string_equal(back.gate, "1:2:");
	run_record_free(&back);
	assert_int_equal(b->ops[1].kind, OP_RUN_STATE);
	assert_int_equal(b->ops[1].u.run.run_id, 5);
	assert_int_equal(b->ops[1].u.run.time_us, 1234);
	assert_int_equal(b->ops[1].state, RUN_DONE);
	assert_int_equal(b->ops[1].body_len, 0);
	batch_add_run_end(b, 7, 5, RUN_FAILED, 1234, "why");
	assert_int_equal(b->ops[2].state, RUN_FAILED);
	assert_true(slice_eq(body_of(&b->ops[2]), slice_of("why")));
	batch_destroy(b);
}

static void carries_the_lineage(void **state)
{
	struct lineage l = {.system_id = 42, .timeline = 2, .slot = "s", .publication = "p", .source = "h"};
	struct lineage back;
	struct batch *b = batch_create();
	struct err err;

	(void)state;
	batch_add_lineage(b, &l);
	assert_int_equal(b->ops[0].kind, OP_LINEAGE);
	assert_true(lineage_decode(body_of(&b->ops[0]), &back, &err));
	assert_int_equal(back.system_id, 42);
	assert_string_equal(back.slot, "s");
	lineage_free(&back);
	batch_destroy(b);
}

/* Also what the appended one held, huge pieces included; and the first goes on being filled. */
static void takes_over_another(void **state)
{
	struct batch *b = batch_create(), *more = batch_create(), *none = batch_create();
	size_t bytes = 3 * 1024 * 1024;
	uint8_t *huge = mem_alloc(bytes);

	(void)state;
	memset(huge, 'h', bytes);
	batch_add(b, OP_DELETE)->body = arena_copy(&b->arena, "first", 6);
	for (int i = 0; i < 100; i++)
		batch_add(more, OP_UPSERT)->body = arena_copy(&more->arena, "more", 5);
	batch_add(more, OP_TRUNCATE)->body = arena_copy(&more->arena, huge, bytes);
	size_t held = batch_bytes(b) + more->arena.reserved;
	batch_append(b, more);
	batch_append(b, none);
	batch_add(b, OP_COMMIT)->body = arena_copy(&b->arena, "last", 5);
	assert_true(batch_bytes(b) >= held);
	assert_int_equal(b->n, 103);
	assert_string_equal((const char *)b->ops[0].body, "first");
	assert_int_equal(b->ops[100].kind, OP_UPSERT);
	assert_string_equal((const char *)b->ops[100].body, "more");
	assert_memory_equal(b->ops[101].body, huge, bytes);
	assert_string_equal((const char *)b->ops[102].body, "last");
	batch_destroy(b);
	none = batch_create();
	more = batch_create();
	batch_add(more, OP_COMMIT)->body = arena_copy(&more->arena, "lone", 5);
	batch_append(none, more);
	assert_string_equal((const char *)none->ops[0].body, "lone");
	batch_destroy(none);
	free(huge);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(holds_operations_in_order),
		cmocka_unit_test(counts_what_it_holds),
		cmocka_unit_test(finds_the_last_end_of_a_transaction),
		cmocka_unit_test(carries_tables),
		cmocka_unit_test(carries_schemas),
		cmocka_unit_test(carries_runs),
		cmocka_unit_test(carries_the_lineage),
		cmocka_unit_test(takes_over_another),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
