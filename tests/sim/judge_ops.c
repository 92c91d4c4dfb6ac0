/* Which entries an operation may change, and what becomes of damage by it. */
#include "tests/sim/judge.h"

static struct judge_key *key_of(struct judge *j, const struct op *op)
{
	int k = layout_key_of(op->key);

	return k >= 0 && k < JUDGE_KEYS && op->table_id <= SRC_TABLES_MAX ? &j->tables[op->table_id - 1].keys[k]
																	  : NULL;
}

/* ---- runs ---- */

static bool is_of(const struct ask *a, int table)
{
	return a->table == table;
}

/* A sweep has to count a ghost unless something else takes it away. */
static void not_sure(struct judge *j, const struct judge_view *v, int table, int key, uint64_t but)
{
	for (uint64_t id = 1; id <= j->last_run; id++)
		if (id != but && is_of(&v->asks[id], table)) j->runs[id].sure &= ~(UINT32_C(1) << key);
}

/* ---- the stream ---- */

static void note_streamed(struct judge *j, const struct judge_view *v, int table, int key)
{
	struct judge_table *t = &j->tables[table];

	t->keys[key].streamed = true;
	t->keys[key].late = t->keys[key].late || t->done;
	not_sure(j, v, table, key, 0);
}

static bool lacks_values(const struct layout *l, const struct op *op)
{
	struct layout_entry e;
	struct err ignored;

	if (!layout_decode(l, (struct slice){op->body, op->body_len}, &e, &ignored)) return true;
	for (int i = 0; i < l->nwide; i++)
		if (e.absent[i]) return true;
	return false;
}

static void note_upsert(struct judge *j, const struct judge_view *v, const struct op *op)
{
	int table = (int)op->table_id - 1, key = layout_key_of(op->key);
	int from = op->src_key.n ? layout_key_of(op->src_key) : key;
	struct judge_key *k = &j->tables[table].keys[key];

	note_streamed(j, v, table, key);
	if (lacks_values(&v->layouts[table], op))
		k->tainted = k->tainted || j->tables[table].keys[from].tainted;
	else
		k->tainted = false;
}

static void note_gone(struct judge *j, const struct judge_view *v, int table, int key)
{
	note_streamed(j, v, table, key);
	j->tables[table].keys[key].tainted = false;
}

/* ---- chunks ---- */

static bool is_of_run(const struct judge *j, const struct judge_view *v, const struct op *op,
					  const struct judge_key *k)
{
	const struct ask *a = &v->asks[j->chunk_run];
	int table = (int)op->table_id - 1, key = layout_key_of(op->key);
	struct layout_entry e = {0};
	struct err ignored;

	if (j->refetch) return k->streamed || k->flags & ROW_DOUBT;
	if (j->chunk_run == 0) return false;
	if (op->kind == OP_CHUNK_ROW &&
		!layout_decode(&v->layouts[table], (struct slice){op->body, op->body_len}, &e, &ignored))
		return false;
	return ask_covers(a, key, e.row) || (a->sweep == SWEEP_ON && ask_covers(a, key, k->row));
}

static void note_chunk_row(struct judge *j, const struct judge_view *v, const struct op *op)
{
	struct judge_key *k = key_of(j, op);

	if (k == NULL || op->flags & (OP_F_SUPERSEDED | OP_F_COUNT)) return;
	not_sure(j, v, (int)op->table_id - 1, layout_key_of(op->key), j->refetch ? 0 : j->chunk_run);
	k->allowed = k->allowed || is_of_run(j, v, op, k);
}

/* ---- all ---- */

static void note_op(struct judge *j, const struct judge_view *v, const struct op *op)
{
	int table = (int)op->table_id - 1;

	switch (op->kind) {
	case OP_UPSERT: note_upsert(j, v, op); break;
	case OP_DELETE: note_gone(j, v, table, layout_key_of(op->key)); break;
	case OP_TRUNCATE:
		for (int k = 0; k < JUDGE_KEYS; k++)
			note_gone(j, v, table, k);
		break;
	case OP_CHUNK:
		j->chunk_run = op->u.run.run_id;
		j->refetch = op->u.run.chunk->refetch;
		break;
	case OP_CHUNK_ROW:
	case OP_CHUNK_GONE: note_chunk_row(j, v, op); break;
	case OP_RUN_STATE:
		j->tables[table].done = j->tables[table].done || op->state == RUN_DONE;
		j->runs[op->u.run.run_id].moved = true;
		break;
	case OP_PURGE: j->purged = true; break;
	default: break;
	}
}

void judge_note(struct judge *j, const struct judge_view *v, const struct batch *b, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++)
		note_op(j, v, &b->ops[i]);
}
