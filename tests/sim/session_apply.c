#include <assert.h>

#include "state/mutant.h"
#include "tests/sim/session_impl.h"

struct batch *session_dequeue(struct session *s)
{
	struct batch *b = s->queue;

	if (b == NULL) return NULL;
	s->queue = b->next;
	if (s->queue == NULL) s->queue_end = &s->queue;
	return b;
}

static const char *op_name(uint8_t kind)
{
	static const char *const names[] = {
		"upsert", "delete", "truncate",   "commit",        "position",      "lineage", "table",
		"schema", "run",    "keys",       "run state",     "chunk",         "row",     "gone",
		"seen",   "purge",  "list doubt", "list suspects", "list run keys", "barrier"};

	return kind < sizeof names / sizeof *names ? names[kind] : "?";
}

static void trace_ops(const struct session *s, const struct batch *b, size_t from, size_t to)
{
	if (!trace_of(s)->verbose) return;
	for (size_t i = from; i < to; i++) {
		const struct op *op = &b->ops[i];

		trace(trace_of(s), "apply %s table %u key %d pos %lu.%lu%s lsn %lu run %lu", op_name(op->kind),
			  op->table_id, layout_key_of(op->key), op->pos.lsn.v, op->pos.ordinal,
			  op->flags & OP_F_SUPERSEDED ? " superseded" : "",
			  op->kind == OP_COMMIT || op->kind == OP_POSITION || op->kind == OP_UNSEEN_DROP
				  ? op->u.commit.lsn.v
				  : 0,
			  op->kind == OP_CHUNK || op->kind == OP_RUN_STATE ? op->u.run.run_id : 0);
	}
}

/* ---- applying ---- */

static struct judge_view view_of(const struct session *s)
{
	return (struct judge_view){&s->w->source, s->w->layouts, s->w->asks, s->w->stage_percent > 0};
}

static bool apply_part(struct session *s, struct batch *b, size_t from, size_t to)
{
	const struct judge_view view = view_of(s);
	struct err err;

	trace_ops(s, b, from, to);
	judge_note(&s->w->judge, &view, b, from, to);
	return note(s, applier_apply_part(s->applier, b, from, to, &err), &err);
}

static bool moves_cursor(const struct session *s, const struct op *op)
{
	if (op->kind != OP_CHUNK || !op->u.run.chunk->moves_cursor) return false;
	return MUTANT(CURSOR_EARLY) || s->w->asks[op->u.run.run_id].nlisted > 0;
}

/* A run's position becomes durable before the rows it has passed. */
static void mutate_cursor_early(struct session *s, const struct batch *b)
{
	struct batch *early = batch_create();

	for (size_t i = 0; i < b->n; i++)
		if (moves_cursor(s, &b->ops[i])) {
			struct op *op = batch_add(early, OP_CHUNK);

			*op = b->ops[i];
		}
	if (early->n && applier_at_boundary(s->applier) && apply_part(s, early, 0, early->n)) {
		session_commit(s);
		s->doomed = rng_chance(&s->w->rng, 30);
	}
	batch_destroy(early);
}

/* The checkpoint becomes durable before the rows it stands for. */
static void mutate_checkpoint_apart(struct session *s, const struct batch *b)
{
	struct checkpoint ck = {.epoch = SESSION_EPOCH};
	struct store_txn *txn;
	struct err err;

	for (size_t i = 0; i < b->n; i++)
		if (b->ops[i].kind == OP_COMMIT) ck.lsn = b->ops[i].u.commit.lsn;
	if (ck.lsn.v == 0 || applier_is_open(s->applier) || !applier_at_boundary(s->applier)) return;
	if (!store_begin_write(s->store, &txn, &err)) return;
	if (store_put_checkpoint(txn, &ck, &err))
		store_commit(txn, &err);
	else
		store_abort(txn);
	s->doomed = rng_chance(&s->w->rng, 20);
}

/* ---- large transactions ---- */

static bool is_of_stream(const struct op *op)
{
	return op->kind == OP_UPSERT || op->kind == OP_DELETE || op->kind == OP_TRUNCATE;
}

/* What an earlier one left is moved first. */
static void begin_stage(struct session *s)
{
	if (applier_is_open(s->applier)) session_commit(s);
	while (!trace_of(s)->failed && !s->doomed && session_move(s, rng_below(&s->w->rng, 400)))
		;
	if (trace_of(s)->failed || s->doomed) return;
	trace(trace_of(s), "the transaction is staged");
	applier_stage(s->applier);
}

/* Readers must see what they saw. */
static void stage_commit(struct session *s)
{
	const struct judge_view view = view_of(s);
	struct judge scratch = s->w->committed;
	struct err err;

	s->w->before_commit(s->w->ctx);
	if (!note(s, applier_stage_commit(s->applier, &err), &err)) return;
	s->durable = s->committed; /* the commit before this one */
	trace(trace_of(s), "store commits a part of the stage");
	judge_look(&scratch, &view, s->store);
	s->doomed = rng_chance(&s->w->rng, 5);
}

bool session_move(struct session *s, size_t bytes)
{
	struct err err;

	if (!applier_has_overlay(s->applier) || !applier_at_boundary(s->applier)) return false;
	trace(trace_of(s), "the overlay is moved, about %zu bytes", bytes);
	if (!note(s, applier_move(s->applier, bytes, &err), &err)) return false;
	session_commit(s);
	s->doomed = s->doomed || rng_chance(&s->w->rng, 3);
	return true;
}

/* Where to stop: a part of a staged transaction ends anywhere, else at the next one that may be staged. */
static size_t part_end(struct session *s, const struct batch *b)
{
	size_t most = applier_is_staging(s->applier) ? (size_t)rng_range(&s->w->rng, 1, 3) : b->n;
	size_t i = s->at;

	if (s->w->stage_percent == 0) return b->n;
	for (; i < b->n && i < s->at + most; i++) {
		bool first = i > s->at && is_of_stream(&b->ops[i]) && !is_of_stream(&b->ops[i - 1]);

		if (first && b->ops[i - 1].kind != OP_TABLE && b->ops[i - 1].kind != OP_SCHEMA) return i;
		if (b->ops[i].kind == OP_COMMIT) return i + 1;
	}
	return i;
}

static bool stages_here(const struct session *s, const struct batch *b)
{
	return applier_at_boundary(s->applier) && !applier_is_staging(s->applier) &&
		   is_of_stream(&b->ops[s->at]) && rng_chance(&s->w->rng, s->w->stage_percent);
}

static void apply_next(struct session *s, struct batch *b)
{
	size_t end;

	if (stages_here(s, b)) begin_stage(s);
	if (s->doomed || trace_of(s)->failed) return;
	end = part_end(s, b);
	if (!apply_part(s, b, s->at, end)) return;
	s->at = end;
	if (!applier_is_staging(s->applier)) return;
	if (b->ops[end - 1].kind == OP_COMMIT)
		session_commit(s);
	else if (rng_chance(&s->w->rng, 60))
		stage_commit(s);
}

/* ---- a batch ---- */

static struct batch *current(struct session *s)
{
	if (s->current) return s->current;
	s->at = 0;
	s->current = session_dequeue(s);
	if (s->current == NULL) return NULL;
	if (MUTANT(CURSOR_EARLY) || MUTANT(LIST_EARLY)) mutate_cursor_early(s, s->current);
	if (MUTANT(CHECKPOINT_APART)) mutate_checkpoint_apart(s, s->current);
	return s->current;
}

bool session_apply(struct session *s)
{
	struct batch *b = current(s);

	if (b == NULL) return false;
	if (!s->doomed && s->at < b->n) apply_next(s, b);
	if (!s->doomed && s->at < b->n) return true;
	batch_destroy(b);
	s->current = NULL;
	return true;
}

void session_take_answers(struct session *s)
{
	*s->answers_end = applier_take_answers(s->applier);
	while (*s->answers_end)
		s->answers_end = &(*s->answers_end)->next;
}

/* ---- commits ---- */

bool session_can_commit(const struct session *s)
{
	return applier_is_open(s->applier) && applier_at_boundary(s->applier) && !applier_is_staging(s->applier);
}

void session_commit(struct session *s)
{
	const struct judge_view view = view_of(s);
	bool wrote = applier_has_writes(s->applier);
	struct err err;

	if (wrote) s->w->before_commit(s->w->ctx);
	if (!note(s, applier_commit(s->applier, s->w->now_us, &err), &err)) return;
	if (wrote) s->durable = s->committed; /* the commit before this one */
	s->committed = applier_committed(s->applier).lsn;
	trace(trace_of(s), "store commits, checkpoint %lu", s->committed.v);
	session_take_answers(s);
	if (!wrote) return;
	judge_look(&s->w->judge, &view, s->store);
	s->w->committed = s->w->judge;
}

void session_sync(struct session *s)
{
	struct err err;

	if (note(s, store_sync(s->store, &err), &err)) s->durable = s->committed;
}

void session_acknowledge(struct session *s)
{
	walsender_acknowledge(&s->w->sender, MUTANT(ACK_EARLY) ? s->received : s->durable);
}

bool session_answer(struct session *s)
{
	struct answer *a = s->answers;

	if (a == NULL) return false;
	s->answers = a->next;
	if (s->answers == NULL) s->answers_end = &s->answers;
	trace(trace_of(s), "answer: table %u, %s %lu", a->table_id, a->kind == ANSWER_DOUBT ? "in doubt" : "keys",
		  a->kind == ANSWER_DOUBT ? a->count : (uint64_t)a->nkeys);
	copier_answer(s->copier, a, s->w->now_us);
	answer_destroy(a);
	return true;
}
