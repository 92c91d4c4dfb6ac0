#include "snapshot/copier.h"

struct run_record run_request_record(const struct run_request *q, uint64_t id, int64_t now_us)
{
	return (struct run_record){.id = id,
							   .table_id = q->table_id,
							   .kind = RUN_REQUESTED,
							   .state = RUN_COPYING,
							   .sweep = (uint8_t)q->sweep,
							   .requester = q->requester,
							   .gate = "",
							   .first_snapshot = "",
							   .last_snapshot = "",
							   .name = q->name,
							   .started_us = now_us,
							   .where_sql = q->where_sql,
							   .from = q->from,
							   .to = q->to,
							   .listed = q->listed,
							   .chunk_time_ms = q->chunk_time_ms,
							   .rows_per_second = q->rows_per_second};
}

static void add_keys(struct batch *b, const struct run_request *q, uint64_t run_id)
{
	struct op *op = batch_add(b, OP_RUN_KEYS);

	op->table_id = q->table_id;
	op->u.run.run_id = run_id;
	op->body = arena_copy(&b->arena, q->keys.p, q->keys.n);
	op->body_len = q->keys.n;
}

void run_request_add(struct batch *b, const struct run_request *q, const struct run_record *r)
{
	if (q->listed > 0) add_keys(b, q, r->id);
	batch_add_run(b, r);
}
