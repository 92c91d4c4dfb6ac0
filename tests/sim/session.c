#include "tests/sim/session.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "state/mutant.h"

static struct trace *trace_of(const struct session *s)
{
	return &s->w->trace;
}

/* ---- batches ---- */

static void enqueue(struct session *s, struct batch *b)
{
	b->next = NULL;
	*s->queue_end = b;
	s->queue_end = &b->next;
}

void session_push(struct session *s)
{
	if (s->held->n == 0) return;
	enqueue(s, s->held);
	s->held = batch_create();
}

static void add_position(struct session *s, lsn_t lsn)
{
	struct op *op = batch_add(s->held, OP_POSITION);

	op->pos.epoch = SESSION_EPOCH;
	op->u.commit.lsn = s->stored = lsn;
}

/*
 * What a chunk read may include commits that are not streamed (of a table not
 * yet published then); with the position before it the checkpoint says so.
 */
static void emit(void *ctx, struct batch *b)
{
	struct session *s = ctx;

	assert(!s->in_transaction || s->skipping);
	if (s->received.v > s->stored.v) add_position(s, s->received);
	session_push(s);
	enqueue(s, b);
}

static struct batch *dequeue(struct session *s)
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

static bool note(struct session *s, bool ok, const struct err *err)
{
	return ok || trace_fail(trace_of(s), "%s", err->msg);
}

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

static void take_answers(struct session *s)
{
	*s->answers_end = applier_take_answers(s->applier);
	while (*s->answers_end)
		s->answers_end = &(*s->answers_end)->next;
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
	s->current = dequeue(s);
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
	take_answers(s);
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

/* ---- the stream ---- */

static struct slice key_slice(struct session *s, int key)
{
	uint8_t bytes[LAYOUT_KEY_SIZE];
	size_t n = layout_key(key, bytes);

	return (struct slice){arena_copy(&s->held->arena, bytes, n), n};
}

static struct pos tx_pos(const struct session *s, const struct src_tx *tx)
{
	return (struct pos){SESSION_EPOCH, tx->commit_lsn, s->ordinal};
}

static void changed(struct session *s, uint32_t table_id, struct slice key)
{
	uint8_t bytes[LAYOUT_KEY_SIZE];

	memcpy(bytes, key.p, key.n);
	copier_stream_change(s->copier, table_id, (struct slice){bytes, key.n});
}

static void add_upsert(struct session *s, const struct layout *l, const struct wal_message *m)
{
	const struct src_event *e = m->change;
	struct buf row = {0};
	struct op *op;

	layout_encode(l, &row, tx_pos(s, m->tx), m->tx->xid, e->key, e->row, e->unsent);
	op = batch_add(s->held, OP_UPSERT);
	op->table_id = l->table_id;
	op->pos = tx_pos(s, m->tx);
	op->key = key_slice(s, e->key);
	if (e->kind == SRC_UPDATE) op->src_key = e->old_key >= 0 ? key_slice(s, e->old_key) : op->key;
	op->body = arena_copy(&s->held->arena, row.p, row.n);
	op->body_len = row.n;
	changed(s, l->table_id, op->key);
	buf_finish(&row);
}

static void add_delete(struct session *s, const struct layout *l, const struct wal_message *m, int key)
{
	struct op *op = batch_add(s->held, OP_DELETE);

	op->table_id = l->table_id;
	op->pos = tx_pos(s, m->tx);
	op->key = key_slice(s, key);
	changed(s, l->table_id, op->key);
}

static void add_truncate(struct session *s, const struct layout *l, const struct wal_message *m)
{
	struct op *op = batch_add(s->held, OP_TRUNCATE);

	op->table_id = l->table_id;
	op->pos = tx_pos(s, m->tx);
	copier_stream_truncate(s->copier, l->table_id);
}

static void receive_change(struct session *s, const struct wal_message *m)
{
	const struct src_event *e = m->change;
	const struct layout *l = &s->w->layouts[e->table];

	s->ordinal++;
	if (s->skipping) return;
	trace(trace_of(s), "stream xid %lu %s %s[%d]%s v%u", m->tx->xid.v,
		  e->kind == SRC_INSERT   ? "INSERT"
		  : e->kind == SRC_UPDATE ? "UPDATE"
		  : e->kind == SRC_DELETE ? "DELETE"
								  : "TRUNCATE",
		  l->name, e->key, e->unsent ? " with unsent values" : "", e->row.version);
	s->changed = true;
	switch (e->kind) {
	case SRC_INSERT:
	case SRC_UPDATE:
		add_upsert(s, l, m); /* first: it takes unsent values from the row that the delete removes */
		if (e->old_key >= 0 && !MUTANT(MOVE_KEEPS_OLD)) add_delete(s, l, m, e->old_key);
		break;
	case SRC_DELETE: add_delete(s, l, m, e->key); break;
	case SRC_TRUNCATE: add_truncate(s, l, m); break;
	}
}

static void receive_begin(struct session *s, const struct src_tx *tx)
{
	s->skipping = tx->commit_lsn.v < s->skip_below.v;
	trace(trace_of(s), "stream BEGIN xid %lu commit %lu%s", tx->xid.v, tx->commit_lsn.v,
		  s->skipping ? ", skipped" : "");
	if (!s->skipping) {
		if (tx->commit_lsn.v > s->received.v) s->received = tx->commit_lsn;
		copier_stream_begin(s->copier, tx->xid, tx->commit_lsn);
	}
	s->in_transaction = true;
	s->changed = false;
	s->ordinal = 0;
}

static void receive_commit(struct session *s, const struct src_tx *tx)
{
	struct op *op;

	s->in_transaction = false;
	if (s->skipping) return;
	trace(trace_of(s), "stream COMMIT end %lu", tx->end_lsn.v);
	op = batch_add(s->held, OP_COMMIT);
	op->pos = (struct pos){SESSION_EPOCH, tx->commit_lsn, 0};
	op->u.commit.lsn = tx->end_lsn;
	op->u.commit.xid = tx->xid;
	op->u.commit.time_us = s->w->now_us;
	op->flags = s->changed ? OP_F_CHANGES : 0;
	s->received = s->stored = tx->end_lsn;
	copier_stream_commit(s->copier, tx->end_lsn);
}

static void receive_keepalive(struct session *s, lsn_t wal_end)
{
	trace(trace_of(s), "stream keepalive %lu", wal_end.v);
	if (!s->in_transaction) {
		if (wal_end.v > s->received.v) s->received = wal_end;
		add_position(s, wal_end);
	}
	copier_stream_position(s->copier, wal_end);
}

void session_receive(struct session *s, const struct wal_message *m)
{
	switch (m->kind) {
	case WAL_BEGIN: receive_begin(s, m->tx); break;
	case WAL_CHANGE: receive_change(s, m); break;
	case WAL_COMMIT: receive_commit(s, m->tx); break;
	case WAL_KEEPALIVE: receive_keepalive(s, m->wal_end); break;
	}
}

bool session_is_between(const struct session *s)
{
	return !s->in_transaction;
}

/* ---- chunks and runs ---- */

/* Sees every transaction that has begun to write so far. */
static void gate_of_now(const struct session *s, char gate[SRC_SNAPSHOT_SIZE])
{
	const struct source *src = &s->w->source;
	xid_t next = MUTANT(GATE_XMAX) ? XID(src->latest_completed.v + 1) : src->next_xid;

	snprintf(gate, SRC_SNAPSHOT_SIZE, "%lu:%lu:", next.v, next.v);
}

/*
 * What another server showed must be visible on this one before it is asked
 * (WINDOWS.md, "Two sources"): a replica must have replayed the checkpoint, and on the
 * primary, after a replica, what was open at the start must have ended.
 */
static bool can_ask(const struct session *s, const struct sql *q)
{
	const struct source *src = &s->w->source;

	if (q->view.replica) return src->replay.v >= s->skip_below.v;
	for (size_t i = 0; s->w->replica_used && i < src->nactive; i++)
		if (src->active[i]->xid.v && src->active[i]->xid.v < s->first_xid.v) return false;
	return true;
}

bool session_chunk(struct session *s, size_t i)
{
	struct sql *q = &s->sqls[i];
	const struct chunk_request *r;

	if (q->phase != SQL_IDLE) {
		sql_step(q, s->copier, s->w->now_us);
		return true;
	}
	if (!can_ask(s, q)) return false;
	r = copier_next(s->copier, s->w->now_us);
	if (r) sql_ask(q, r, s->w->now_us);
	return r != NULL;
}

/* False: no room for one more in this history. */
static bool can_start(const struct session *s, unsigned reserved)
{
	return s->last_run + 1 + reserved < ASKS_MAX;
}

static void run_is(struct session *s, uint64_t id, struct ask a)
{
	assert(id < ASKS_MAX);
	s->w->asks[id] = a;
	if (id > s->last_run) s->last_run = id;
	if (ask_is_whole(&a) && a.sweep == SWEEP_ON) s->mending[a.table] = id;
}

void session_start_run(struct session *s, int table, enum run_kind kind, bool sweep, const char *gate)
{
	uint64_t id;

	if (!can_start(s, 0)) return;
	if (MUTANT(FIRST_ATTACH)) gate = "";
	id = copier_start_run(s->copier, s->w->layouts[table].table_id, kind, sweep, gate, "sim", s->w->now_us);

	trace(trace_of(s), "run %lu over t%d starts, gate %s", id, table, gate);
	run_is(s, id, ask_whole(table, sweep ? SWEEP_ON : SWEEP_OFF));
}

/* ---- what someone asks for ---- */

void session_request(struct session *s, const struct ask *a)
{
	const struct ask *known;
	bool is_new;
	uint64_t id;

	id = ask_request(a, s->copier, s->w->layouts[a->table].table_id, &is_new, s->w->now_us);
	trace(trace_of(s),
		  "someone asks for a run of t%d \"%s\" where %s from %d to %d, %d keys, sweep %d: run %lu", a->table,
		  a->name, ask_where(a), a->low, a->high, a->nlisted, a->sweep, id);
	known = &s->w->asks[id];
	if (is_new)
		run_is(s, id, *a);
	else if (a->name[0] == '\0' || strcmp(a->name, known->name) != 0 || known->table != a->table)
		trace_fail(trace_of(s), "run %lu is not the one of that name", id);
}

bool session_can_request(const struct session *s)
{
	return session_is_between(s) && can_start(s, ASKS_RESERVED);
}

void session_pause(struct session *s, uint64_t run)
{
	bool known = copier_pause_run(s->copier, run, s->w->now_us);

	trace(trace_of(s), "someone pauses run %lu%s", run, known ? "" : ", which is not open");
}

void session_resume(struct session *s, uint64_t run)
{
	bool known = copier_resume_run(s->copier, run, s->w->now_us);

	trace(trace_of(s), "someone resumes run %lu%s", run, known ? "" : ", which is not open");
	s->w->asks[run].resumed++;
}

void session_stop(struct session *s, uint64_t run)
{
	struct ask *a = &s->w->asks[run];
	enum run_stop stop = copier_stop_run(s->copier, run, "someone wants it", s->w->now_us);

	trace(trace_of(s), "someone stops run %lu: %d", run, stop);
	if (stop != RUN_STOP_OK) return;
	a->stopped = true;
	if (s->mending[a->table] == run) s->mending[a->table] = 0;
}

void session_mend(struct session *s)
{
	for (uint64_t id = 1; id <= s->last_run; id++)
		if (s->w->judge.runs[id].state == RUN_PAUSED) session_resume(s, id);
	for (int t = 0; t < s->w->source.ntables; t++) {
		struct ask a = ask_whole(t, SWEEP_ON);

		a.requested = true;
		if (s->w->judge.tables[t].mended_by && s->mending[t] == 0) session_request(s, &a);
	}
}

void session_purge(struct session *s)
{
	struct op *op = batch_add(s->held, OP_PURGE);

	op->u.purge = (struct op_purge){.now_us = s->w->now_us,
									.limit = (uint32_t)rng_range(&s->w->rng, 1, 4),
									.scan_limit = (uint32_t)rng_range(&s->w->rng, 1, 12)};
	trace(trace_of(s), "purge");
}

static void set_table(struct session *s, int table, bool copied)
{
	const struct layout *l = &s->w->layouts[table];
	struct copier_table t = {
		.schema = &l->schema, .from_sql = l->from_sql, .filter_sql = l->filter_sql, .copied = copied};

	copier_set_table(s->copier, &t);
}

static void create_table(struct session *s, int table)
{
	struct table_record rec = layout_record(&s->w->layouts[table]);

	batch_add_table(s->held, &rec);
	batch_add_schema(s->held, &s->w->layouts[table].schema);
	set_table(s, table, false);
}

void session_add_table(struct session *s, int table)
{
	char gate[SRC_SNAPSHOT_SIZE];

	s->w->configured[table] = true;
	source_flush(&s->w->source); /* ALTER PUBLICATION commits */
	s->w->source.tables[table].published = s->w->source.insert;
	gate_of_now(s, gate);
	trace(trace_of(s), "t%d is published from %lu on", table, s->w->source.insert.v);
	create_table(s, table);
	session_start_run(s, table, RUN_INITIAL, false, gate);
}

/* ---- start ---- */

/* What the store knows. */
struct memory {
	bool attached;
	struct checkpoint checkpoint;
	struct table_record *tables;
	struct run_record *runs;
	struct unseen_entry *unseen;
	size_t ntables, nruns, nunseen;
};

static bool memory_read(struct store *store, struct memory *m, struct err *err)
{
	struct store_txn *txn = NULL;
	bool ok;

	*m = (struct memory){0};
	ok = store_begin_read(store, &txn, err) && store_get_checkpoint(txn, &m->checkpoint, &m->attached, err) &&
		 store_list_tables(txn, &m->tables, &m->ntables, err) &&
		 store_list_runs(txn, &m->runs, &m->nruns, err) &&
		 store_list_unseen(txn, &m->unseen, &m->nunseen, err);
	store_abort(txn);
	m->attached = m->attached && m->checkpoint.lsn.v;
	return ok;
}

static void memory_free(struct memory *m)
{
	for (size_t i = 0; i < m->ntables; i++)
		table_record_free(&m->tables[i]);
	for (size_t i = 0; i < m->nruns; i++)
		run_record_free(&m->runs[i]);
	free(m->tables);
	free(m->runs);
	free(m->unseen);
}

static const struct table_record *memory_table(const struct memory *m, uint32_t id)
{
	for (size_t i = 0; i < m->ntables; i++)
		if (m->tables[i].id == id) return &m->tables[i];
	return NULL;
}

/* The program's own. */
static bool memory_has_open_run(const struct memory *m, uint32_t table_id)
{
	for (size_t i = 0; i < m->nruns; i++)
		if (m->runs[i].table_id == table_id && m->runs[i].kind != RUN_REQUESTED &&
			run_record_is_open(&m->runs[i]))
			return true;
	return false;
}

/* Of a damaged table: a run that puts all of it right. */
static uint64_t memory_mending(const struct session *s, const struct memory *m, int table)
{
	uint64_t from = s->w->judge.tables[table].mended_by;

	for (size_t i = 0; i < m->nruns; i++)
		if (m->runs[i].table_id == s->w->layouts[table].table_id && from && m->runs[i].id >= from &&
			m->runs[i].sweep == SWEEP_ON && !run_record_is_scoped(&m->runs[i]) &&
			run_record_is_open(&m->runs[i]))
			return m->runs[i].id;
	return 0;
}

static void load(struct session *s, const struct memory *m)
{
	for (int t = 0; t < s->w->source.ntables; t++) {
		const struct table_record *rec = memory_table(m, s->w->layouts[t].table_id);

		if (!s->w->configured[t]) continue;
		if (rec)
			set_table(s, t, rec->state == TABLE_COPIED);
		else
			create_table(s, t);
	}
	for (size_t i = 0; i < m->nruns; i++)
		if (run_record_is_open(&m->runs[i])) copier_load_run(s->copier, &m->runs[i]);
	if (!MUTANT(UNSEEN_FORGOTTEN)) copier_load_unseen(s->copier, m->unseen, m->nunseen);
}

/*
 * The first attach. What the slot's snapshot sees is not streamed, so chunks
 * must see it. A slot that is there already (we were killed right after making
 * it) is taken over: then chunks wait for everything that may have come before.
 */
static void attach(struct session *s)
{
	struct walsender *sender = &s->w->sender;
	char gate[SRC_SNAPSHOT_SIZE];

	if (sender->source == NULL)
		walsender_create_slot(sender, &s->w->source, s->w->send_empty, gate);
	else
		gate_of_now(s, gate);
	s->skip_below = s->received = sender->confirmed;
	copier_stream_position(s->copier, s->received);
	add_position(s, s->skip_below);
	for (int t = 0; t < s->w->source.ntables; t++)
		if (s->w->configured[t]) session_start_run(s, t, RUN_INITIAL, false, gate);
}

/* Tables that need a run and have none: its record was lost with a crash, or the table was damaged. */
static void resume(struct session *s, const struct memory *m)
{
	char gate[SRC_SNAPSHOT_SIZE];

	s->skip_below = s->received = s->stored = s->committed = s->durable = m->checkpoint.lsn;
	copier_stream_position(s->copier, s->received);
	gate_of_now(s, gate);
	for (int t = 0; t < s->w->source.ntables; t++) {
		uint32_t id = s->w->layouts[t].table_id;
		const struct table_record *rec = memory_table(m, id);

		if (!s->w->configured[t]) continue;
		s->mending[t] = memory_mending(s, m, t);
		if (s->w->judge.tables[t].mended_by) {
			if (!s->mending[t] && !s->w->mend_later[t]) session_start_run(s, t, RUN_RESNAPSHOT, true, "");
		} else if ((!rec || rec->state == TABLE_COPYING) && !memory_has_open_run(m, id)) {
			session_start_run(s, t, RUN_INITIAL, true, gate);
		}
	}
}

static void connect_sql(struct session *s)
{
	struct world *w = s->w;
	struct src_view view = {.replica = rng_chance(&w->rng, w->replica_percent)};

	s->nsqls = w->copier_config.requests_max;
	for (size_t i = 0; i < s->nsqls; i++)
		sql_init(&s->sqls[i], &w->source, w->layouts, w->asks, view, w->late_high);
	w->replica_used = w->replica_used || view.replica;
}

bool session_start(struct session *s, struct world *w, struct store *store)
{
	struct copier_config config = w->copier_config;
	struct memory m = {0};
	struct err err;

	memset(s, 0, sizeof *s);
	s->w = w;
	s->store = store;
	s->queue_end = &s->queue;
	s->answers_end = &s->answers;
	s->held = batch_create();
	connect_sql(s);
	w->committed = w->judge;
	s->first_xid = w->source.next_xid;
	/* Synced first: what a killed process left may not be durable. */
	if (!memory_read(store, &m, &err) || !store_sync(store, &err) ||
		!applier_create(store, &s->applier, &err)) {
		memory_free(&m);
		return note(s, false, &err);
	}
	take_answers(s);
	s->last_run = m.nruns ? m.runs[m.nruns - 1].id : 0;
	config.next_run_id = s->last_run + 1;
	s->copier = copier_create(&config, (struct copier_sink){s, emit});
	trace(&w->trace, "session starts, checkpoint %lu, %zu unseen", m.checkpoint.lsn.v, m.nunseen);
	load(s, &m);
	if (m.attached)
		resume(s, &m);
	else
		attach(s);
	walsender_start(&w->sender, rng_chance(&w->rng, 50) ? s->skip_below : LSN(0));
	memory_free(&m);
	return true;
}

/* ---- end ---- */

void session_kill(struct session *s)
{
	struct batch *b;

	if (s->w == NULL) return;
	trace(trace_of(s), "session ends");
	for (size_t i = 0; i < s->nsqls; i++)
		sql_drop(&s->sqls[i]);
	copier_destroy(s->copier);
	applier_destroy(s->applier);
	while ((b = dequeue(s)) != NULL)
		batch_destroy(b);
	batch_destroy(s->held);
	batch_destroy(s->current);
	while (s->answers) {
		struct answer *a = s->answers;

		s->answers = a->next;
		answer_destroy(a);
	}
	s->w->judge = s->w->committed;
	memset(s, 0, sizeof *s);
}

void session_finish(struct session *s)
{
	if (!s->in_transaction) session_push(s);
	while (!trace_of(s)->failed && !s->doomed && session_apply(s))
		if (session_can_commit(s)) session_commit(s);
	session_kill(s);
}
