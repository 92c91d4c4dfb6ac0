#include "apply/batch.h"

#include <stdlib.h>
#include <string.h>

#define OPS_FIRST 64

struct batch *batch_create(void)
{
	struct batch *b = mem_alloc(sizeof *b);

	*b = (struct batch){0};
	arena_init(&b->arena);
	return b;
}

void batch_destroy(struct batch *b)
{
	if (!b) return;
	arena_finish(&b->arena);
	free(b->ops);
	free(b);
}

static void ops_grow(struct batch *b)
{
	size_t cap = b->cap ? b->cap * 2 : OPS_FIRST;
	struct op *ops = mem_alloc(cap * sizeof *ops);

	if (b->n > 0) memcpy(ops, b->ops, b->n * sizeof *ops);
	free(b->ops);
	b->ops = ops;
	b->cap = cap;
}

struct op *batch_add(struct batch *b, enum op_kind kind)
{
	struct op *op;

	if (b->n == b->cap) ops_grow(b);
	op = &b->ops[b->n++];
	*op = (struct op){.kind = (uint8_t)kind};
	b->ncommits += kind == OP_COMMIT;
	return op;
}

void batch_append(struct batch *b, struct batch *from)
{
	for (size_t i = 0; i < from->n; i++)
		*batch_add(b, (enum op_kind)from->ops[i].kind) = from->ops[i];
	arena_adopt(&b->arena, &from->arena);
	batch_destroy(from);
}

size_t batch_bytes(const struct batch *b)
{
	return sizeof *b + b->cap * sizeof *b->ops + b->arena.reserved;
}

static bool changes_rows(uint8_t kind)
{
	return kind == OP_UPSERT || kind == OP_DELETE || kind == OP_TRUNCATE;
}

/* Tables and schemas may come inside a transaction or between two: they do not tell. */
static bool tells_nothing(uint8_t kind)
{
	return kind == OP_TABLE || kind == OP_SCHEMA;
}

size_t batch_whole_ops(const struct batch *b)
{
	size_t end = b->n;

	for (size_t i = b->n; i > 0; i--) {
		uint8_t kind = b->ops[i - 1].kind;

		if (changes_rows(kind))
			end = 0;
		else if (!tells_nothing(kind))
			return end ? end : i;
	}
	return 0;
}

/* ---- operations that carry a record ---- */

/* Moves what buf holds into the batch as the operation's body. */
static void set_body(struct batch *b, struct op *op, struct buf *buf)
{
	op->body = arena_copy(&b->arena, buf->p, buf->n);
	op->body_len = buf->n;
	buf_finish(buf);
}

void batch_add_table(struct batch *b, const struct table_record *t)
{
	struct op *op = batch_add(b, OP_TABLE);
	struct buf buf = {0};

	op->table_id = t->id;
	table_record_encode(t, &buf);
	set_body(b, op, &buf);
}

void batch_add_schema(struct batch *b, const struct schema *s)
{
	struct op *op = batch_add(b, OP_SCHEMA);
	struct buf buf = {0};

	op->table_id = s->table_id;
	schema_encode(s, &buf);
	set_body(b, op, &buf);
}

void batch_add_run(struct batch *b, const struct run_record *r)
{
	struct op *op = batch_add(b, OP_RUN);
	struct buf buf = {0};

	op->table_id = r->table_id;
	run_record_encode(r, &buf);
	set_body(b, op, &buf);
}

void batch_add_run_state(struct batch *b, uint32_t table_id, uint64_t run_id, enum run_state state,
						 int64_t time_us)
{
	batch_add_run_end(b, table_id, run_id, state, time_us, "");
}

void batch_add_run_end(struct batch *b, uint32_t table_id, uint64_t run_id, enum run_state state,
					   int64_t time_us, const char *why)
{
	struct op *op = batch_add(b, OP_RUN_STATE);

	op->table_id = table_id;
	op->state = (uint8_t)state;
	op->u.run.run_id = run_id;
	op->u.run.time_us = time_us;
	op->body_len = strlen(why);
	op->body = arena_copy(&b->arena, why, op->body_len);
}

void batch_add_lineage(struct batch *b, const struct lineage *l)
{
	struct op *op = batch_add(b, OP_LINEAGE);
	struct buf buf = {0};

	lineage_encode(l, &buf);
	set_body(b, op, &buf);
}
