#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "state/mutant.h"
#include "tests/sim/session_impl.h"

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

void session_start_run(struct session *s, int table, enum run_kind kind, bool sweep, const char *gate)
{
	uint64_t id;

	if (!session_can_start(s, 0)) return;
	if (MUTANT(FIRST_ATTACH)) gate = "";
	id = copier_start_run(s->copier, s->w->layouts[table].table_id, kind, sweep, gate, "sim", s->w->now_us);

	trace(trace_of(s), "run %lu over t%d starts, gate %s", id, table, gate);
	session_run_is(s, id, ask_whole(table, sweep ? SWEEP_ON : SWEEP_OFF));
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

	s->nsqls = w->copier_config.requests_max + 1;
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
	session_take_answers(s);
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
	while ((b = session_dequeue(s)) != NULL)
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
