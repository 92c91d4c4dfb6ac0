/*
 * A copier with a sink that keeps what it was given, and short words for the
 * things that happen to it. Table 1 is t(id int4 key, note text), table 2 the same.
 */
#ifndef SNAPSHOT_COPIER_FIXTURE_H
#define SNAPSHOT_COPIER_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "snapshot/copier.h"

#define SEC         1000000
#define EPOCH       3
#define EMITTED_MAX 256

struct fixture {
	struct copier *c;
	const struct chunk_request *r; /* the last one asked, until its end */
	uint32_t asked_table;
	uint64_t asked_run; /* of the last request, which an answer ends */
	struct batch *out[EMITTED_MAX];
	size_t n, seen; /* emitted; looked at by take() */
	int64_t now;
	struct err err;
};

static inline void keep_batch(void *ctx, struct batch *b)
{
	struct fixture *f = ctx;

	assert_true(f->n < EMITTED_MAX);
	f->out[f->n++] = b;
}

static const struct copier_config fixture_config = {
	.epoch = EPOCH,
	.chunk_rows_max = 1000,
	.chunk_time_ms = 100,
	.chunk_bytes = 1 << 20,
	.buffer_bytes = 16 << 20,
	.windows_max = 4,
	.next_run_id = 5,
};

static inline void fixture_start(struct fixture *f, const struct copier_config *config)
{
	*f = (struct fixture){.now = 1000000 * (int64_t)SEC};
	f->c = copier_create(config, (struct copier_sink){f, keep_batch});
}

static inline int fixture_setup(void **state)
{
	static struct fixture f;

	fixture_start(&f, &fixture_config);
	*state = &f;
	return 0;
}

static inline int fixture_teardown(void **state)
{
	struct fixture *f = *state;

	copier_destroy(f->c);
	while (f->n > 0)
		batch_destroy(f->out[--f->n]);
	return 0;
}

/* Another configuration than the one of fixture_setup(). */
static inline void fixture_restart(struct fixture *f, const struct copier_config *config)
{
	void *state = f;

	fixture_teardown(&state);
	fixture_start(f, config);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

/* ---- tables ---- */

static struct column fixture_columns[] = {
	{.name = "id", .type_oid = 23, .type_name = "integer"},
	{.name = "note", .type_oid = 25, .type_name = "text"},
};
static uint16_t key_is_id[] = {0}, key_is_note[] = {1}, key_is_both[] = {1, 0};
static uint8_t kinds_id[] = {KEY_INT4}, kinds_note[] = {KEY_TEXT}, kinds_both[] = {KEY_TEXT, KEY_INT4};

static inline struct schema schema_of(uint32_t table_id, uint32_t version, uint16_t *key)
{
	struct schema s = {
		.table_id = table_id, .version = version, .ncolumns = 2, .nkeys = key == key_is_both ? 2 : 1};

	s.columns = fixture_columns;
	s.key_columns = key;
	s.key_kinds = key == key_is_id ? kinds_id : key == key_is_note ? kinds_note : kinds_both;
	return s;
}

static inline void set_table(struct fixture *f, uint32_t table_id, uint32_t version, uint16_t *key,
							 const char *filter)
{
	struct schema s = schema_of(table_id, version, key);

	copier_set_table(f->c, &(struct copier_table){
							   .schema = &s, .from_sql = "ONLY \"public\".\"t\"", .filter_sql = filter});
}

static inline uint64_t start_run(struct fixture *f, uint32_t table_id, bool sweep, const char *gate)
{
	return copier_start_run(f->c, table_id, RUN_INITIAL, sweep, gate, "run", f->now);
}

/* A table with a run that has begun; what that emitted is not looked at. */
static inline void copying(struct fixture *f, uint32_t table_id)
{
	set_table(f, table_id, 1, key_is_id, NULL);
	start_run(f, table_id, false, NULL);
	f->seen = f->n;
}

/* ---- the stream ---- */

/* The encoding of an int4 key. */
static inline struct slice key_of(uint32_t id)
{
	static uint8_t bytes[8][4];
	static unsigned turn;
	uint8_t *p = bytes[turn++ % 8];

	be32_put(p, id ^ 0x80000000u);
	return (struct slice){p, 4};
}

static inline void begin(struct fixture *f, uint64_t xid, uint64_t commit_lsn)
{
	copier_stream_begin(f->c, XID(xid), LSN(commit_lsn));
}

static inline void change(struct fixture *f, uint32_t table_id, uint32_t id)
{
	copier_stream_change(f->c, table_id, key_of(id));
}

static inline void commit(struct fixture *f, uint64_t end_lsn)
{
	copier_stream_commit(f->c, LSN(end_lsn));
}

/* A transaction that writes one key of table 1. */
static inline void writes(struct fixture *f, uint64_t xid, uint64_t commit_lsn, uint32_t id)
{
	begin(f, xid, commit_lsn);
	change(f, 1, id);
	commit(f, commit_lsn + 5);
}

static inline void position(struct fixture *f, uint64_t lsn)
{
	copier_stream_position(f->c, LSN(lsn));
}

/* ---- chunks ---- */

static inline const struct chunk_request *ask_any(struct fixture *f)
{
	return f->r = copier_next(f->c, f->now);
}

static inline void ask(struct fixture *f, enum chunk_kind kind)
{
	assert_non_null(ask_any(f));
	assert_int_equal(f->r->kind, kind);
	f->asked_table = f->r->table_id;
	f->asked_run = f->r->run_id;
}

static inline void ask_nothing(struct fixture *f)
{
	assert_null(ask_any(f));
}

static inline void snapshot_on(struct fixture *f, const char *text, bool standby, uint64_t high)
{
	assert_true(copier_chunk_snapshot(f->c, f->r->id, text, standby, LSN(high), &f->err));
}

static inline void snapshot(struct fixture *f, const char *text, uint64_t high)
{
	snapshot_on(f, text, false, high);
}

static inline bool try_row(struct fixture *f, const char *id, const char *note)
{
	struct slice texts[2] = {id ? slice_of(id) : (struct slice){0},
							 note ? slice_of(note) : (struct slice){0}};

	return copier_chunk_row(f->c, f->r->id, texts, 2, &f->err);
}

static inline void row(struct fixture *f, const char *id, const char *note)
{
	assert_true(try_row(f, id, note));
}

static inline void key_row(struct fixture *f, const char *key)
{
	struct slice text = slice_of(key);

	assert_true(copier_chunk_row(f->c, f->r->id, &text, 1, &f->err));
}

static inline void end_after(struct fixture *f, int64_t elapsed_us)
{
	assert_true(copier_chunk_end(f->c, f->r->id, elapsed_us, f->now, &f->err));
}

static inline void end(struct fixture *f)
{
	end_after(f, 100000); /* what is aimed for: the pace stays */
}

static inline void failed(struct fixture *f, enum chunk_failure why)
{
	copier_chunk_failed(f->c, f->r->id, why, f->now);
}

/* Rows first .. first + n - 1. */
static inline void rows(struct fixture *f, uint32_t first, uint32_t n)
{
	char id[16];

	for (uint32_t i = first; i < first + n; i++) {
		snprintf(id, sizeof id, "%u", i);
		row(f, id, "x");
	}
}

/* A page of rows as many as asked for: not the last one. */
static inline void full_page(struct fixture *f, const char *snap, uint64_t high, uint32_t first)
{
	ask(f, CHUNK_PAGE);
	snapshot(f, snap, high);
	rows(f, first, (uint32_t)atoi(f->r->params[f->r->nparams - 1]));
	end(f);
}

/* A page of these rows only: the last one. */
static inline void last_page(struct fixture *f, const char *snap, uint64_t high, uint32_t first, uint32_t n)
{
	ask(f, CHUNK_PAGE);
	snapshot(f, snap, high);
	rows(f, first, n);
	end(f);
}

/* ---- answers ---- */

static inline void doubt_is(struct fixture *f, uint32_t table_id, uint64_t count)
{
	copier_answer(f->c, &(struct answer){.kind = ANSWER_DOUBT, .table_id = table_id, .count = count}, f->now);
}

struct listed {
	uint32_t id;
	const char *text;
};

/* The answer to a listing of the last batch: int4 keys, or when `text` is set text keys. */
static inline void answer_listing(struct fixture *f, const struct op *listing, uint32_t version,
								  const struct listed *keys, size_t n, uint32_t resume, bool at_end)
{
	struct answer a = {.kind = ANSWER_KEYS, .table_id = listing->table_id, .token = listing->u.list.token};
	struct answer_key k[8];
	struct slice texts[8];
	char ids[8][16];

	for (size_t i = 0; i < n; i++) {
		snprintf(ids[i], sizeof ids[i], "%u", keys[i].id);
		texts[i] = slice_of(keys[i].text ? keys[i].text : ids[i]);
		k[i] = (struct answer_key){keys[i].text ? texts[i] : key_of(keys[i].id), &texts[i]};
	}
	a.schema_version = version;
	a.nkeys = n;
	a.keys = k;
	a.end = at_end;
	a.resume = key_of(resume);
	copier_answer(f->c, &a, f->now);
}

/* ---- what was emitted ---- */

/* The next batch not looked at yet; there must be one. */
static inline struct batch *take(struct fixture *f)
{
	assert_true(f->seen < f->n);
	return f->out[f->seen++];
}

static inline void nothing_emitted(const struct fixture *f)
{
	assert_int_equal(f->seen, f->n);
}

static inline size_t count_ops(const struct batch *b, enum op_kind kind)
{
	size_t n = 0;

	for (size_t i = 0; i < b->n; i++)
		n += b->ops[i].kind == kind;
	return n;
}

/* The i-th operation of this kind. */
static inline const struct op *op_of(const struct batch *b, enum op_kind kind, size_t i)
{
	for (size_t j = 0; j < b->n; j++)
		if (b->ops[j].kind == kind && i-- == 0) return &b->ops[j];
	fail_msg("no such operation in the batch");
	return NULL;
}

static inline bool is_superseded(const struct batch *b, size_t i)
{
	return op_of(b, OP_CHUNK_ROW, i)->flags & OP_F_SUPERSEDED;
}

/* The next batch is a chunk with this bound and so many rows. */
static inline struct batch *take_chunk(struct fixture *f, uint64_t bound, size_t nrows)
{
	struct batch *b = take(f);

	assert_int_equal(b->ops[0].kind, OP_CHUNK);
	assert_int_equal(b->ops[0].pos.epoch, EPOCH);
	assert_int_equal(b->ops[0].pos.lsn.v, bound);
	assert_int_equal(b->ops[0].pos.ordinal, 0);
	assert_int_equal(count_ops(b, OP_CHUNK_ROW), nrows);
	return b;
}

static inline void is_key(struct slice key, uint32_t id)
{
	assert_true(slice_eq(key, key_of(id)));
}

static inline void run_moved(const struct batch *b, enum run_state to)
{
	assert_int_equal(count_ops(b, OP_RUN_STATE), 1);
	assert_int_equal(op_of(b, OP_RUN_STATE, 0)->state, to);
}

/* The next batch is this one question. */
static inline const struct op *take_listing(struct fixture *f, enum op_kind kind)
{
	struct batch *b = take(f);

	assert_int_equal(b->n, 1);
	assert_int_equal(b->ops[0].kind, kind);
	return &b->ops[0];
}

/* A table that is copied, with three rows in doubt; what it asks the applier. */
static inline const struct op *doubt_begins(struct fixture *f, uint16_t *key)
{
	struct schema s = schema_of(1, 1, key);

	copier_set_table(f->c,
					 &(struct copier_table){.schema = &s, .from_sql = "\"public\".\"t\"", .copied = true});
	assert_true(copier_table_is_live(f->c, 1));
	doubt_is(f, 1, 3);
	assert_false(copier_table_is_live(f->c, 1));
	ask_nothing(f);
	return take_listing(f, OP_LIST_DOUBT);
}

#endif
