/*
 * A store in a temporary directory, tables (k int4 primary key, a text, b
 * text, ...) in it, and builders of operations. For the tests of apply/.
 */
#ifndef TESTS_UNIT_APPLY_FIXTURE_H
#define TESTS_UNIT_APPLY_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apply/applier.h"

#define CHECK(call)                                                                                          \
	do {                                                                                                     \
		if (!(call)) fail_msg("%s: %s", #call, err.msg);                                                     \
	} while (0)

struct fixture {
	char dir[64];
	struct store *store;
	struct applier *applier;
};

static inline void fixture_open_store(struct fixture *f, enum store_mode mode)
{
	struct err err = {0};
	const char *root = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";

	snprintf(f->dir, sizeof f->dir, "%s/tidemark-apply-XXXXXX", root);
	assert_non_null(mkdtemp(f->dir));
	CHECK(store_open(f->dir, mode, &f->store, &err));
}

static inline void fixture_open(struct fixture *f)
{
	struct err err = {0};

	*f = (struct fixture){0};
	fixture_open_store(f, STORE_WRITE_FAST);
	CHECK(applier_create(f->store, &f->applier, &err));
}

static inline void answers_destroy(struct answer *list)
{
	for (struct answer *next; list; list = next) {
		next = list->next;
		answer_destroy(list);
	}
}

static inline void fixture_close(struct fixture *f)
{
	static const char *const names[] = {"data.mdb", "lock.mdb", "tidemark.lock", "tidemark.unsynced"};
	char path[128];

	applier_destroy(f->applier);
	store_close(f->store);
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		snprintf(path, sizeof path, "%s/%s", f->dir, names[i]);
		unlink(path);
	}
	rmdir(f->dir);
}

/* ---- rows ---- */

static inline struct pos at(uint64_t lsn, uint64_t ordinal)
{
	return (struct pos){1, LSN(lsn), ordinal};
}

static inline struct cell text_cell(const char *s)
{
	return s ? (struct cell){.kind = CELL_TEXT, .text = slice_of(s)} : (struct cell){.kind = CELL_NULL};
}

static inline struct cell absent_cell(void)
{
	return (struct cell){.kind = CELL_ABSENT, .doubt = true};
}

/* int4 */
static inline struct slice int_key(struct arena *arena, int32_t k)
{
	uint8_t bytes[4];

	be32_put(bytes, (uint32_t)k ^ UINT32_C(0x80000000));
	return (struct slice){arena_copy(arena, bytes, 4), 4};
}

static inline struct slice int_text(struct arena *arena, int32_t k)
{
	char text[16];

	snprintf(text, sizeof text, "%d", k);
	return slice_of(arena_strdup(arena, text));
}

static inline void set_row(struct batch *b, struct op *op, struct pos pos, uint32_t version, uint64_t born,
						   struct slice full_key, const struct cell *cells, size_t n)
{
	struct buf buf = {0};

	row_encode(&buf, pos, version, XID(born), full_key, cells, n);
	op->body = arena_copy(&b->arena, buf.p, buf.n);
	op->body_len = buf.n;
	buf_finish(&buf);
}

/* The row (k, a, b) of version 1; src: -1 no source, else the key that unchanged values come from. */
static inline struct op *add_upsert(struct batch *b, uint32_t table, struct pos pos, int32_t k,
									struct cell ca, struct cell cb, uint64_t xid, int32_t src)
{
	struct op *op = batch_add(b, OP_UPSERT);
	struct cell cells[3] = {{.kind = CELL_TEXT, .text = int_text(&b->arena, k)}, ca, cb};

	op->table_id = table;
	op->pos = pos;
	op->key = int_key(&b->arena, k);
	if (src >= 0) op->src_key = int_key(&b->arena, src);
	set_row(b, op, pos, 1, xid, (struct slice){0}, cells, 3);
	return op;
}

static inline struct op *add_delete(struct batch *b, uint32_t table, struct pos pos, int32_t k)
{
	struct op *op = batch_add(b, OP_DELETE);

	op->table_id = table;
	op->pos = pos;
	op->key = int_key(&b->arena, k);
	return op;
}

static inline struct op *add_truncate(struct batch *b, uint32_t table, struct pos pos)
{
	struct op *op = batch_add(b, OP_TRUNCATE);

	op->table_id = table;
	op->pos = pos;
	return op;
}

static inline struct op *add_commit(struct batch *b, uint64_t commit_lsn, uint64_t end_lsn, uint64_t xid)
{
	struct op *op = batch_add(b, OP_COMMIT);

	op->pos = at(commit_lsn, 0);
	op->u.commit.lsn = LSN(end_lsn);
	op->u.commit.xid = XID(xid);
	op->u.commit.time_us = (int64_t)commit_lsn * 10;
	return op;
}

static inline struct op_chunk *add_chunk(struct batch *b, uint32_t table, uint64_t run, uint64_t bound,
										 const char *snapshot)
{
	struct op *op = batch_add(b, OP_CHUNK);
	struct op_chunk *c = arena_alloc(&b->arena, sizeof *c);

	*c = (struct op_chunk){.snapshot = arena_strdup(&b->arena, snapshot), .high = LSN(bound)};
	op->table_id = table;
	op->pos = at(bound, 0);
	op->u.run.run_id = run;
	op->u.run.chunk = c;
	return c;
}

static inline struct op *add_chunk_row(struct batch *b, uint32_t table, int32_t k, struct cell ca,
									   struct cell cb)
{
	struct op *op = batch_add(b, OP_CHUNK_ROW);
	struct cell cells[3] = {{.kind = CELL_TEXT, .text = int_text(&b->arena, k)}, ca, cb};

	op->table_id = table;
	op->key = int_key(&b->arena, k);
	set_row(b, op, POS_NONE, 1, 0, (struct slice){0}, cells, 3);
	return op;
}

static inline struct op *add_gone(struct batch *b, uint32_t table, int32_t k)
{
	struct op *op = batch_add(b, OP_CHUNK_GONE);

	op->table_id = table;
	op->key = int_key(&b->arena, k);
	return op;
}

/* ---- tables ---- */

/* Columns named by the letters of names; the first column is the key. */
static inline void add_schema(struct batch *b, uint32_t table, uint32_t version, const char *names,
							  uint32_t key_type)
{
	struct column columns[16];
	uint16_t key_columns[1] = {0};
	uint8_t key_kinds[1] = {(uint8_t)key_kind_of_type(key_type)};
	struct schema s = {.table_id = table,
					   .version = version,
					   .nkeys = 1,
					   .columns = columns,
					   .key_columns = key_columns,
					   .key_kinds = key_kinds};

	for (; names[s.ncolumns]; s.ncolumns++) {
		char name[2] = {names[s.ncolumns], 0};
		bool is_key = s.ncolumns == 0;

		columns[s.ncolumns] = (struct column){
			.name = arena_strdup(&b->arena, name),
			.type_oid = is_key ? key_type : 25,
			.typmod = -1,
			.type_name = is_key && key_type == 23 ? "int4" : "text",
		};
	}
	batch_add_schema(b, &s);
}

static inline void add_table(struct batch *b, uint32_t id, enum table_state state)
{
	char name[16];
	struct table_record t = {
		.id = id, .oid = 16384 + id, .schema_name = "public", .table_name = name, .state = (uint8_t)state};

	snprintf(name, sizeof name, "t%u", id);
	batch_add_table(b, &t);
}

static inline void add_run(struct batch *b, uint64_t id, uint32_t table)
{
	struct run_record r = {.id = id,
						   .table_id = table,
						   .kind = RUN_INITIAL,
						   .state = RUN_COPYING,
						   .requester = "test",
						   .gate = "",
						   .first_snapshot = "",
						   .last_snapshot = ""};

	batch_add_run(b, &r);
}

/* ---- applying ---- */

static inline void apply_take(struct fixture *f, struct batch *b)
{
	struct err err = {0};
	bool ok = applier_apply(f->applier, b, &err);

	batch_destroy(b);
	if (!ok) fail_msg("apply: %s", err.msg);
}

static inline void commit_now(struct fixture *f)
{
	struct err err = {0};

	CHECK(applier_commit(f->applier, 1, &err));
}

static inline void apply_commit_take(struct fixture *f, struct batch *b)
{
	apply_take(f, b);
	commit_now(f);
}

/* A batch that must fail; the applier is usable again afterwards. */
static inline void apply_fails(struct fixture *f, struct batch *b, enum err_kind kind, const char *part)
{
	struct err err = {0};

	assert_false(applier_apply(f->applier, b, &err));
	batch_destroy(b);
	if (err.kind != kind || !strstr(err.msg, part))
		fail_msg("kind %d, message \"%s\"; wanted kind %d, \"%s\"", err.kind, err.msg, kind, part);
	applier_abort(f->applier);
}

static inline void fixture_tables(struct fixture *f, uint32_t n)
{
	struct batch *b = batch_create();

	for (uint32_t id = 1; id <= n; id++) {
		add_table(b, id, TABLE_COPYING);
		add_schema(b, id, 1, "kab", 23);
	}
	apply_commit_take(f, b);
}

/* ---- looking ---- */

static inline struct table_record table_now(struct fixture *f, uint32_t id)
{
	struct err err = {0};
	struct store_txn *txn;
	struct table_record t;
	bool found;

	CHECK(store_begin_read(f->store, &txn, &err));
	CHECK(store_get_table(txn, id, &t, &found, &err));
	assert_true(found);
	store_abort(txn);
	return t; /* the caller frees it */
}

static inline struct run_record run_now(struct fixture *f, uint64_t id)
{
	struct err err = {0};
	struct store_txn *txn;
	struct run_record r;
	bool found;

	CHECK(store_begin_read(f->store, &txn, &err));
	CHECK(store_get_run(txn, id, &r, &found, &err));
	assert_true(found);
	store_abort(txn);
	return r; /* the caller frees it */
}

/* "absent", or flags, position and cells of the entry under int key k of a (k, a, b) table: readable in a
 * failed test. */
static inline const char *entry_text(struct fixture *f, uint32_t table, int32_t k, char out[256])
{
	struct err err = {0};
	struct store_txn *txn;
	struct arena arena = {0};
	struct slice entry;
	struct row_head h;
	struct cell c[3];
	bool found;
	size_t n;

	CHECK(store_begin_read(f->store, &txn, &err));
	CHECK(store_row_get(txn, table, int_key(&arena, k), &entry, &found, &err));
	snprintf(out, 256, "absent");
	if (found) {
		CHECK(row_decode(entry, 3, &h, c, &err));
		n = (size_t)snprintf(out, 256, "%llu.%llu", (unsigned long long)h.pos.lsn.v,
							 (unsigned long long)h.pos.ordinal);
		if (h.flags & ROW_DELETED) n += (size_t)snprintf(out + n, 256 - n, " deleted");
		for (size_t i = 1; i < 3 && !(h.flags & ROW_DELETED); i++)
			n += (size_t)snprintf(out + n, 256 - n, " %.*s%s",
								  c[i].kind == CELL_TEXT   ? (int)c[i].text.n
								  : c[i].kind == CELL_NULL ? 4
														   : 1,
								  c[i].kind == CELL_TEXT   ? (const char *)c[i].text.p
								  : c[i].kind == CELL_NULL ? "NULL"
														   : "-",
								  c[i].doubt ? "?" : "");
		if (h.flags & ROW_DOUBT)
			snprintf(out + n, 256 - n, " born %llu%s", (unsigned long long)h.born.v,
					 h.flags & ROW_HIDDEN ? " hidden" : "");
	}
	store_abort(txn);
	arena_finish(&arena);
	return out;
}

#define assert_entry(f, table, k, text)                                                                      \
	do {                                                                                                     \
		char found_[256];                                                                                    \
		assert_string_equal(entry_text((f), (table), (k), found_), (text));                                  \
	} while (0)

/* live, hidden, doubt, markers of the record; and that the rows and the doubt index say the same. */
static inline void assert_counters(struct fixture *f, uint32_t table, uint64_t live, uint64_t hidden,
								   uint64_t doubt, uint64_t markers)
{
	struct table_record t = table_now(f, table);
	struct err err = {0};
	struct store_txn *txn;
	struct store_scan *scan;
	struct slice key, entry;
	uint64_t n[4] = {0}, indexed = 0;
	struct pos pos;
	uint8_t flags = 0;
	bool found = true;

	assert_int_equal(t.live, live);
	assert_int_equal(t.hidden, hidden);
	assert_int_equal(t.doubt, doubt);
	assert_int_equal(t.markers, markers);
	table_record_free(&t);

	CHECK(store_begin_read(f->store, &txn, &err));
	CHECK(store_scan_open(txn, table, SPACE_ROWS, (struct slice){0}, &scan, &err));
	while (store_scan_next(scan, &key, &entry, &found, &err) && found) {
		assert_true(row_peek(entry, &flags, &pos));
		n[flags & ROW_DELETED ? 3 : flags & ROW_HIDDEN ? 1 : 0]++;
		n[2] += (flags & ROW_DOUBT) != 0;
	}
	store_scan_close(scan);
	CHECK(store_scan_open(txn, table, SPACE_DOUBT, (struct slice){0}, &scan, &err));
	while (store_scan_next(scan, &key, &entry, &found, &err) && found)
		indexed++;
	store_scan_close(scan);
	store_abort(txn);
	assert_int_equal(n[0], live);
	assert_int_equal(n[1], hidden);
	assert_int_equal(n[2], doubt);
	assert_int_equal(n[3], markers);
	assert_int_equal(indexed, doubt);
}

/* For cmocka: two tables. */
static inline int fixture_setup(void **state)
{
	struct fixture *f = malloc(sizeof *f);

	fixture_open(f);
	fixture_tables(f, 2);
	*state = f;
	return 0;
}

static inline int fixture_teardown(void **state)
{
	fixture_close(*state);
	free(*state);
	return 0;
}

#endif
