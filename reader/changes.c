#include "reader/changes.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "reader/shape.h"

/* Beyond this a batch is pushed even mid-transaction, so that the apply thread starts early. */
#define BATCH_BYTES (256 * 1024)
/* What is less, and of one open transaction, waits for more of it: it cannot be committed yet. */
#define BATCH_BYTES_MIN (64 * 1024)

struct table {
	struct relation rel;
	char *schema_name, *table_name;
	lsn_t shape_lsn, covered;
	bool covers_all;
	bool lost; /* on record as one to be read again */
	UT_hash_handle hh;
};

struct transaction {
	bool open, skip, changed;
	const struct table *lost; /* one whose changes could not be followed */
	xid_t xid;
	lsn_t commit_lsn;
	uint64_t ordinal;
};

struct changes {
	struct changes_config config;
	struct changes_sink sink;
	struct copier *copier;
	struct table *by_oid;
	struct transaction tx;
	struct batch *batch;
	bool batch_is_open; /* it begins inside of the open transaction, or with it */
	lsn_t received, stored;
	int64_t commit_time_us;
	uint64_t count;
	struct buf row;
	struct encoded_key key, old_key;
	struct pgo_scratch scratch;
	uint32_t signal_table_id;
	struct signals signals; /* of the open transaction */
	bool gathers;           /* what is emitted joins the batch, which is not pushed */
};

struct changes *changes_create(const struct changes_config *config, struct changes_sink sink)
{
	struct changes *ch = calloc(1, sizeof *ch);
	if (ch == NULL) abort();
	ch->config = *config;
	ch->sink = sink;
	ch->received = ch->stored = config->checkpoint;
	return ch;
}

void changes_destroy(struct changes *ch)
{
	struct table *t, *next;
	if (ch == NULL) return;
	HASH_ITER (hh, ch->by_oid, t, next) {
		HASH_DEL(ch->by_oid, t);
		relation_finish(&t->rel);
		free(t->schema_name);
		free(t->table_name);
		free(t);
	}
	batch_destroy(ch->batch);
	signals_finish(&ch->signals);
	buf_finish(&ch->row);
	buf_finish(&ch->key.full);
	buf_finish(&ch->old_key.full);
	free(ch);
}

void changes_set_copier(struct changes *ch, struct copier *copier)
{
	ch->copier = copier;
	/* An idle server has nothing more to say before a first chunk's H is passed. */
	copier_stream_position(copier, ch->received);
}

void changes_add_table(struct changes *ch, const struct table_record *record, const struct schema *schema,
					   lsn_t shape_lsn)
{
	struct table *t = calloc(1, sizeof *t);
	struct buf display = {0};
	if (t == NULL) abort();
	names_put(&display, record->schema_name, record->table_name);
	buf_put_u8(&display, 0);
	t->rel = (struct relation){.oid = record->oid, .table_id = record->id, .display = (char *)display.p};
	relation_set_schema(&t->rel, schema_copy(schema));
	t->schema_name = mem_text(record->schema_name);
	t->table_name = mem_text(record->table_name);
	t->shape_lsn = shape_lsn;
	HASH_ADD(hh, ch->by_oid, rel.oid, sizeof t->rel.oid, t);
}

static struct table *find_table(struct changes *ch, uint32_t oid)
{
	struct table *t = NULL;
	HASH_FIND(hh, ch->by_oid, &oid, sizeof oid, t);
	return t;
}

static struct table *find_by_id(const struct changes *ch, uint32_t table_id)
{
	for (struct table *t = ch->by_oid; t != NULL; t = t->hh.next)
		if (t->rel.table_id == table_id) return t;
	return NULL;
}

void changes_columns_added(struct changes *ch, uint32_t table_id, uint16_t first, bool null)
{
	struct table *t = find_by_id(ch, table_id);
	t->rel.marked = true;
	t->rel.added = first;
	t->rel.added_null = null;
}

void changes_covered(struct changes *ch, uint32_t table_id, lsn_t below, bool all)
{
	struct table *t = find_by_id(ch, table_id);
	t->covered = below;
	t->covers_all = all;
}

const struct schema *changes_schema(const struct changes *ch, uint32_t table_id)
{
	const struct table *t = find_by_id(ch, table_id);
	return t != NULL ? t->rel.schema : NULL;
}

/* ---- batches ---- */

static struct batch *batch(struct changes *ch);

static void add_position(struct changes *ch)
{
	struct op *op = batch_add(batch(ch), OP_POSITION);
	op->pos.epoch = ch->config.epoch;
	op->u.commit.lsn = ch->stored = ch->received;
}

void changes_flush(struct changes *ch)
{
	struct batch *b = ch->batch;
	ch->batch = NULL;
	if (b != NULL) ch->sink.push(ch->sink.ctx, b);
}

void changes_dry(struct changes *ch)
{
	if (ch->batch == NULL || (ch->tx.open && ch->batch_is_open && batch_bytes(ch->batch) < BATCH_BYTES_MIN))
		return;
	changes_flush(ch);
}

/*
 * A chunk can hold what a transaction changed that is not streamed to us (the
 * table was not published yet), so its rows are as of what was received, and the
 * checkpoint has to say so.
 */
void changes_emit(struct changes *ch, struct batch *b)
{
	if (ch->received.v > ch->stored.v) add_position(ch);
	if (ch->gathers) {
		batch_append(batch(ch), b);
		return;
	}
	changes_flush(ch);
	ch->sink.push(ch->sink.ctx, b);
}

static struct batch *batch(struct changes *ch)
{
	if (ch->batch != NULL && !ch->gathers && batch_bytes(ch->batch) > BATCH_BYTES) changes_flush(ch);
	if (ch->batch == NULL) {
		ch->batch = batch_create();
		ch->batch_is_open = ch->tx.open;
	}
	return ch->batch;
}

static struct slice keep(struct batch *b, const void *p, size_t n)
{
	return (struct slice){arena_copy(&b->arena, p, n), n};
}

/* ---- transactions ---- */

/* Commits are delivered in order. What came out of it would be below positions that are taken already, and be
 * lost. */
static bool refuse_order(const struct changes *ch, lsn_t commit_lsn, struct err *err)
{
	char at[LSN_TEXT_SIZE], received[LSN_TEXT_SIZE];
	return err_set(err, ERR_PROTOCOL,
				   "a transaction that commits at %s came when everything below %s had been received",
				   lsn_format(commit_lsn, at), lsn_format(ch->received, received));
}

static bool take_begin(struct changes *ch, const struct pgo_msg *m, struct err *err)
{
	if (ch->tx.open) return err_set(err, ERR_PROTOCOL, "a transaction began inside another");
	xid_t xid = xid_widen(m->u.begin.xid, ch->config.xid_near);
	if (xid.v > ch->config.xid_near.v) ch->config.xid_near = xid;
	lsn_t commit_lsn = m->u.begin.commit_lsn;
	bool skip = commit_lsn.v < ch->config.checkpoint.v;
	if (!skip && commit_lsn.v < ch->received.v) return refuse_order(ch, commit_lsn, err);
	if (!skip) {
		/* All below this one have been received. Windows that close now come before it. */
		ch->received = commit_lsn;
		copier_stream_begin(ch->copier, xid, commit_lsn);
	}
	signals_reset(&ch->signals);
	ch->tx = (struct transaction){.open = true, .skip = skip, .xid = xid, .commit_lsn = commit_lsn};
	return true;
}

static bool refuse_end(const struct changes *ch, lsn_t end_lsn, struct err *err)
{
	char at[LSN_TEXT_SIZE], end[LSN_TEXT_SIZE];
	return err_set(err, ERR_PROTOCOL, "a transaction that commits at %s ends at %s",
				   lsn_format(ch->tx.commit_lsn, at), lsn_format(end_lsn, end));
}

/*
 * Once the transaction is durable it is not sent again, so what its signals
 * bring about has to be in the batch that has its end.
 */
static void end_transaction(struct changes *ch, lsn_t end_lsn)
{
	struct signals *s = &ch->signals;
	ch->gathers = s->n + s->left_out > 0;
	copier_stream_commit(ch->copier, end_lsn);
	if (!ch->gathers) return;
	ch->sink.signals(ch->sink.ctx, s);
	signals_reset(s);
	ch->gathers = false;
	changes_flush(ch);
}

static bool take_commit(struct changes *ch, const struct pgo_msg *m, bool *altered, struct err *err)
{
	if (!ch->tx.open || m->u.commit.commit_lsn.v != ch->tx.commit_lsn.v)
		return err_set(err, ERR_PROTOCOL, "a commit that belongs to no open transaction");
	if (m->u.commit.end_lsn.v <= ch->tx.commit_lsn.v) return refuse_end(ch, m->u.commit.end_lsn, err);
	bool skip = ch->tx.skip;
	for (size_t i = 0; i < ch->signals.n; i++)
		ch->signals.v[i].commit_lsn = ch->tx.commit_lsn;
	if (!skip) {
		struct op *op = batch_add(batch(ch), OP_COMMIT);
		ch->batch_is_open = false;
		op->flags = ch->tx.changed ? OP_F_CHANGES : 0;
		op->pos = (struct pos){ch->config.epoch, ch->tx.commit_lsn, 0};
		op->u.commit.lsn = m->u.commit.end_lsn;
		op->u.commit.xid = ch->tx.xid;
		op->u.commit.time_us = m->u.commit.commit_time_us;
		ch->stored = m->u.commit.end_lsn;
		ch->commit_time_us = m->u.commit.commit_time_us;
	}
	const struct table *lost = ch->tx.lost;
	ch->tx = (struct transaction){.open = false};
	if (skip) return true;
	if (ch->received.v < m->u.commit.end_lsn.v) ch->received = m->u.commit.end_lsn;
	end_transaction(ch, m->u.commit.end_lsn);
	*altered = lost != NULL;
	return !*altered || err_set(err, ERR_RETRY, "table %s had another key or other columns for a while",
								lost->rel.display);
}

void changes_position(struct changes *ch, lsn_t wal_end)
{
	/* Right after the start it can step back. */
	if (wal_end.v <= ch->received.v) return;
	ch->received = wal_end;
	copier_stream_position(ch->copier, wal_end);
}

bool changes_store_position(struct changes *ch)
{
	if (ch->tx.open || ch->received.v <= ch->stored.v) return false;
	add_position(ch);
	changes_flush(ch);
	return true;
}

bool changes_in_transaction(const struct changes *ch)
{
	return ch->tx.open;
}

lsn_t changes_received(const struct changes *ch)
{
	return ch->received;
}

int64_t changes_commit_time_us(const struct changes *ch)
{
	return ch->commit_time_us;
}

uint64_t changes_count(const struct changes *ch)
{
	return ch->count;
}

/* ---- relations ---- */

/*
 * A shape that the catalog did not have yet when it was read: the table was
 * altered. Attaching again looks at the catalog and plans what follows; this
 * transaction then comes again, as one older than what was read.
 *
 * Of a transaction older than what was read, the columns may be others: see follow().
 */
static bool take_relation(struct changes *ch, const struct pgo_msg *m, bool *altered, struct err *err)
{
	struct table *t = find_table(ch, m->u.relation.oid);
	if (t == NULL) return true;
	/* Sent once a session: a skipped transaction's Relation message holds for the ones behind it. */
	bool older = ch->tx.skip || ch->tx.commit_lsn.v < t->shape_lsn.v;
	*altered = !older && !(relation_wire_is_schema(&t->rel, m) && relation_wire_has_key(&t->rel, m));
	if (*altered) return err_set(err, ERR_RETRY, "table %s was altered", t->rel.display);
	relation_set_wire(&t->rel, m);
	ch->sink.described(ch->sink.ctx);
	return true;
}

/* ---- changes ---- */

static struct pos next_pos(struct changes *ch)
{
	return (struct pos){ch->config.epoch, ch->tx.commit_lsn, ++ch->tx.ordinal};
}

static void add_key(struct changes *ch, struct op *op, const struct table *t, const struct encoded_key *key)
{
	op->table_id = t->rel.table_id;
	op->key = keep(ch->batch, key->bytes, key->n);
	op->flags = key->is_long ? OP_F_LONG_KEY : 0;
}

static void add_delete(struct changes *ch, const struct table *t, const struct encoded_key *key)
{
	struct op *op = batch_add(batch(ch), OP_DELETE);
	add_key(ch, op, t, key);
	op->pos = next_pos(ch);
	if (key->is_long) {
		op->body = arena_copy(&ch->batch->arena, key->full.p, key->full.n);
		op->body_len = key->full.n;
	}
	copier_stream_change(ch->copier, t->rel.table_id, op->key);
}

/* src: where unchanged values come from, NULL for an insert. */
static bool add_upsert(struct changes *ch, const struct table *t, const struct pgo_msg *m,
					   const struct encoded_key *src, struct err *err)
{
	const struct pgo_tuple *old = m->u.change.old_kind != 0 ? &m->u.change.old_tuple : NULL;
	struct pos pos = next_pos(ch);
	bool partial;
	buf_reset(&ch->row);
	if (!relation_row(&t->rel, &m->u.change.new_tuple, old, pos, ch->tx.xid, &ch->key, &ch->row, &partial,
					  err))
		return false;
	struct op *op = batch_add(batch(ch), OP_UPSERT);
	add_key(ch, op, t, &ch->key);
	op->pos = pos;
	op->body = arena_copy(&ch->batch->arena, ch->row.p, ch->row.n);
	op->body_len = ch->row.n;
	if (src != NULL && partial && !relation_is_blind(&t->rel))
		op->src_key = keep(ch->batch, src->bytes, src->n);
	copier_stream_change(ch->copier, t->rel.table_id, op->key);
	return true;
}

static bool same_key(const struct encoded_key *a, const struct encoded_key *b)
{
	return a->n == b->n && memcmp(a->bytes, b->bytes, a->n) == 0;
}

static bool take_update(struct changes *ch, const struct table *t, const struct pgo_msg *m, struct err *err)
{
	const struct pgo_tuple *old = m->u.change.old_kind != 0 ? &m->u.change.old_tuple : NULL;
	if (!relation_key(&t->rel, &m->u.change.new_tuple, old, &ch->key, err)) return false;
	if (old == NULL) return add_upsert(ch, t, m, &ch->key, err);
	if (!relation_key(&t->rel, old, NULL, &ch->old_key, err)) return false;
	if (same_key(&ch->key, &ch->old_key)) return add_upsert(ch, t, m, &ch->key, err);
	/* The new key first: unchanged values are read from the entry that the old key still has. */
	if (!add_upsert(ch, t, m, &ch->old_key, err)) return false;
	add_delete(ch, t, &ch->old_key);
	return true;
}

/* With the transaction's commit, so that no restart forgets it. */
static void put_lost(struct changes *ch, struct table *t)
{
	struct table_record r = {.id = t->rel.table_id,
							 .oid = t->rel.oid,
							 .schema_name = t->schema_name,
							 .table_name = t->table_name,
							 .shape = SHAPE_LOST,
							 .state = TABLE_COPYING,
							 .schema_version = t->rel.schema->version};
	batch_add_table(batch(ch), &r);
	ch->tx.lost = t;
	t->lost = true;
}

static bool is_covered(const struct changes *ch, const struct table *t)
{
	return ch->tx.commit_lsn.v < t->covered.v;
}

static bool cannot_follow(struct changes *ch, struct table *t, bool *altered, struct err *err)
{
	if (is_covered(ch, t)) return true;
	*altered = !t->rel.older;
	if (*altered) return err_set(err, ERR_RETRY, "table %s was altered", t->rel.display);
	if (!t->lost) put_lost(ch, t);
	return true;
}

/*
 * Whether the change tells its row and its columns. An older one whose columns are not those of today is
 * taken by their names where a run will look anyway. Else that could be wrong for good: a name can have been
 * another's.
 */
static bool can_follow(const struct changes *ch, const struct table *t, enum pgo_kind kind)
{
	const struct relation *r = &t->rel;
	if (r->unmapped || (r->keyless && kind != PGO_INSERT)) return false;
	bool is_described = r->wire_columns > 0; /* else what comes of it is a breach of the protocol */
	return !r->older || !is_described || relation_is_current(r) || is_covered(ch, t);
}

static bool take_row(struct changes *ch, struct table *t, const struct pgo_msg *m, struct err *err)
{
	if (m->kind == PGO_UPDATE) return take_update(ch, t, m, err);
	const struct pgo_tuple *tuple = m->kind == PGO_INSERT ? &m->u.change.new_tuple : &m->u.change.old_tuple;
	if (!relation_key(&t->rel, tuple, NULL, &ch->key, err)) return false;
	if (m->kind == PGO_INSERT) return add_upsert(ch, t, m, NULL, err);
	add_delete(ch, t, &ch->key);
	return true;
}

static bool take_change(struct changes *ch, const struct pgo_msg *m, bool *altered, struct err *err)
{
	struct table *t = find_table(ch, m->u.change.oid);
	if (ch->tx.skip || t == NULL || (t->covers_all && is_covered(ch, t))) return true;
	if (!ch->tx.open) return err_set(err, ERR_PROTOCOL, "a change outside of a transaction");
	t->rel.older = ch->tx.commit_lsn.v < t->shape_lsn.v;
	ch->tx.changed = true;
	ch->count++;
	if (m->kind == PGO_INSERT && t->rel.table_id == ch->signal_table_id)
		signals_add_row(&ch->signals, &t->rel, &m->u.change.new_tuple);
	if (!can_follow(ch, t, m->kind)) return cannot_follow(ch, t, altered, err);
	return take_row(ch, t, m, err) || (err->kind == ERR_RETRY && cannot_follow(ch, t, altered, err));
}

static bool take_truncate(struct changes *ch, const struct pgo_msg *m, struct err *err)
{
	if (ch->tx.skip) return true;
	if (!ch->tx.open) return err_set(err, ERR_PROTOCOL, "a TRUNCATE outside of a transaction");
	for (uint32_t i = 0; i < m->u.truncate.n; i++) {
		const struct table *t = find_table(ch, m->u.truncate.oids[i]);
		if (t == NULL || (t->covers_all && is_covered(ch, t))) continue;
		struct op *op = batch_add(batch(ch), OP_TRUNCATE);
		op->table_id = t->rel.table_id;
		op->pos = next_pos(ch);
		ch->tx.changed = true;
		copier_stream_truncate(ch->copier, t->rel.table_id);
	}
	return true;
}

/* One that is not part of a transaction has no place from which on it counts as received. */
static void take_message(struct changes *ch, const struct pgo_msg *m)
{
	if (!ch->config.message_signals || ch->tx.skip || !signal_is_message(m)) return;
	if (ch->tx.open && m->u.message.transactional)
		signals_add_message(&ch->signals, m->u.message.content);
	else
		ch->sink.refused(ch->sink.ctx, "it is not part of a transaction: pg_logical_emit_message(true, ...)");
}

void changes_set_signal_table(struct changes *ch, uint32_t table_id)
{
	ch->signal_table_id = table_id;
}

bool changes_message(struct changes *ch, struct slice payload, bool *altered, struct err *err)
{
	struct pgo_msg m;
	if (!pgo_decode(payload, &ch->scratch, &m, err)) return false;
	switch (m.kind) {
	case PGO_BEGIN: return take_begin(ch, &m, err);
	case PGO_COMMIT: return take_commit(ch, &m, altered, err);
	case PGO_RELATION: return take_relation(ch, &m, altered, err);
	case PGO_INSERT:
	case PGO_UPDATE:
	case PGO_DELETE: return take_change(ch, &m, altered, err);
	case PGO_TRUNCATE: return take_truncate(ch, &m, err);
	case PGO_ORIGIN:
	case PGO_TYPE: return true;
	case PGO_MESSAGE: take_message(ch, &m); return true;
	}
	return err_set(err, ERR_PROTOCOL, "a message of unknown kind");
}
