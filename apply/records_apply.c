#include "apply/applier_impl.h"

/* ---- checkpoint ---- */

static int compare_checkpoint(const struct checkpoint *c, uint16_t epoch, lsn_t lsn)
{
	return pos_cmp((struct pos){c->epoch, c->lsn, 0}, (struct pos){epoch, lsn, 0});
}

/* Moves only forward: what lies below the checkpoint is never streamed again. */
static void checkpoint_move(struct applier *a, uint16_t epoch, lsn_t lsn)
{
	struct checkpoint *c = &a->checkpoint;

	if (epoch != c->epoch) /* LSNs of the epoch before say nothing in this one */
		*c = (struct checkpoint){.epoch = epoch};
	c->lsn = lsn;
	a->wrote = true;
}

/* What comes after it in this write transaction meets the overlay. */
static bool show_staged(struct applier *a, struct err *err)
{
	a->staging = a->stage_begun = false;
	return store_stage_show(a->txn, err) && store_get_overlay(a->txn, &a->overlay, err);
}

bool apply_commit(struct applier *a, const struct op *op, struct err *err)
{
	char at[LSN_TEXT_SIZE], stored[LSN_TEXT_SIZE];
	lsn_t end = op->u.commit.lsn;

	if (compare_checkpoint(&a->checkpoint, op->pos.epoch, end) > 0)
		return err_set(
			err, ERR_BUG, "a transaction that ends at %s (epoch %u) came after the checkpoint %s (epoch %u)",
			lsn_format(end, at), op->pos.epoch, lsn_format(a->checkpoint.lsn, stored), a->checkpoint.epoch);
	checkpoint_move(a, op->pos.epoch, end);
	a->checkpoint.commit_lsn = op->pos.lsn;
	a->checkpoint.commit_time_us = op->u.commit.time_us;
	a->in_transaction = false;
	if (a->staging && !show_staged(a, err)) return false;
	if (!(op->flags & OP_F_CHANGES)) return true;
	return store_put_unseen(a->txn, (struct unseen_entry){op->pos.lsn, op->u.commit.xid}, err);
}

bool apply_position(struct applier *a, const struct op *op, struct err *err)
{
	(void)err;
	if (compare_checkpoint(&a->checkpoint, op->pos.epoch, op->u.commit.lsn) < 0)
		checkpoint_move(a, op->pos.epoch, op->u.commit.lsn);
	return true;
}

bool apply_unseen_drop(struct applier *a, const struct op *op, struct err *err)
{
	a->wrote = true;
	return store_del_unseen(a->txn, op->u.commit.lsn, err);
}

bool apply_lineage(struct applier *a, const struct op *op, struct err *err)
{
	struct lineage l;
	bool ok;

	if (!lineage_decode(op_body(op), &l, err)) return false;
	ok = store_put_lineage(a->txn, &l, err);
	lineage_free(&l);
	a->wrote = true;
	return ok;
}

/* ---- tables and schemas ---- */

/* Everything but names, oid and state is the applier's to know. */
static void keep_own_fields(struct table_record *new, const struct table_record *own)
{
	new->schema_version = own->schema_version;
	new->floor = own->floor;
	new->high = own->high;
	new->trust = own->trust;
	new->live = own->live;
	new->hidden = own->hidden;
	new->doubt = own->doubt;
	new->markers = own->markers;
}

bool apply_table(struct applier *a, const struct op *op, struct err *err)
{
	struct table *t = table_find(a, op->table_id);
	struct table_record rec;

	if (!table_record_decode(op_body(op), &rec, err)) return false;
	if (rec.id != op->table_id) {
		table_record_free(&rec);
		return err_set(err, ERR_BUG, "an operation on table %u carries another table's record", op->table_id);
	}
	a->wrote = true;
	if (t) {
		keep_own_fields(&rec, &t->rec);
		table_record_free(&t->rec);
		t->rec = rec;
		t->dirty = true;
		return true;
	}
	rec.live = rec.hidden = rec.doubt = rec.markers = 0;
	table_add(a, &rec);
	if (!a->staging) return store_put_table(a->txn, &rec, err); /* at once: it makes the table's databases */
	table_find(a, op->table_id)->dirty = true;
	return store_make_table(a->txn, op->table_id, err); /* its record comes with the rest */
}

bool apply_schema(struct applier *a, const struct op *op, struct err *err)
{
	struct table *t = table_of(a, op->table_id, err);
	struct schema *s;

	if (!t || !schema_decode(op_body(op), &s, err)) return false;
	if (s->table_id != op->table_id || s->version == 0) {
		schema_free(s);
		return err_set(err, ERR_BUG, "an operation on table %u carries another table's schema", op->table_id);
	}
	table_set_schema(t, s);
	t->rec.schema_version = s->version;
	t->dirty = a->wrote = true;
	return store_put_schema(a->txn, s, err);
}

/* ---- runs ---- */

static bool run_is_new(struct applier *a, uint64_t id, struct err *err)
{
	struct run_record other;
	bool found;

	if (!store_get_run(a->txn, id, &other, &found, err)) return false;
	if (!found) return true;
	run_record_free(&other);
	return err_set(err, ERR_BUG, "run %llu exists already", (unsigned long long)id);
}

/* Rows stored so far are what the run is there to replace: nothing is inherited from them while it is open.
 */
static void run_accept(struct applier *a, struct table *t, struct run *run)
{
	struct pos here = {a->checkpoint.epoch, a->checkpoint.lsn, 0};

	if (pos_cmp(run->rec.accepted, here) < 0) run->rec.accepted = here;
	run->dirty = true;
	if (pos_cmp(run->rec.accepted, t->rec.trust) > 0) t->rec.trust = run->rec.accepted;
	t->dirty = a->wrote = true;
}

bool apply_run(struct applier *a, const struct op *op, struct err *err)
{
	struct run_record rec;
	struct table *t;
	struct run *run;

	if (!run_record_decode(op_body(op), &rec, err)) return false;
	t = table_of(a, rec.table_id, err);
	if (!t || !run_is_new(a, rec.id, err)) {
		run_record_free(&rec);
		return false;
	}
	run = run_add(a, &rec);
	run_accept(a, t, run);
	return store_put_run(a->txn, &run->rec, err);
}

/* Before the run's own record, so that it is never there without its keys. */
bool apply_run_keys(struct applier *a, const struct op *op, struct err *err)
{
	struct table *t = table_of(a, op->table_id, err);
	const struct schema *s = t ? table_schema(a, t, t->rec.schema_version, err) : NULL;
	struct cur c = cur_of(op_body(op));
	uint64_t number = 0;

	if (!s) return false;
	for (; !cur_done(&c); number++) {
		const uint8_t *from = c.p;

		for (size_t i = 0; i < s->nkeys; i++)
			cur_blob(&c);
		if (c.bad) return err_set(err, ERR_BUG, "the keys of a run are not those of its table");
		if (!store_put_run_key(a->txn, op->u.run.run_id, number, (struct slice){from, (size_t)(c.p - from)},
							   err))
			return false;
	}
	a->wrote = true;
	return true;
}

static bool has_open_run(const struct applier *a, uint32_t table_id)
{
	for (const struct run *r = a->runs; r; r = r->hh.next)
		if (r->rec.table_id == table_id && run_record_is_open(&r->rec)) return true;
	return false;
}

static bool run_ended(struct applier *a, struct run *run, int64_t time_us, struct err *err)
{
	struct table *t = table_of(a, run->rec.table_id, err);

	if (!t) return false;
	run->rec.ended_us = time_us;
	if (run->rec.state == RUN_DONE && t->rec.state == TABLE_COPYING && !run_record_is_scoped(&run->rec))
		t->rec.state = TABLE_COPIED;
	if (!has_open_run(a, t->rec.id)) t->rec.trust = POS_NONE;
	t->dirty = true;
	return store_del_run_keys(a->txn, run->rec.id, run->rec.listed, err);
}

/* What a paused run goes on as. */
static uint8_t resumes_as(const struct run_record *r, uint8_t state)
{
	if (state != RUN_PAUSED) return 0;
	return r->state == RUN_PAUSED ? r->resumes_as : r->state;
}

static void keep_reason(struct run *run, struct slice why)
{
	buf_reset(&run->error);
	buf_put(&run->error, why.p, why.n);
	buf_put_u8(&run->error, 0);
	run->rec.error = (const char *)run->error.p;
}

/* A run that has ended stays ended. */
bool apply_run_state(struct applier *a, const struct op *op, struct err *err)
{
	struct run *run;

	if (!run_find(a, op->u.run.run_id, &run, err)) return false;
	if (!run) return true;
	run->rec.resumes_as = resumes_as(&run->rec, op->state);
	run->rec.state = op->state;
	if (op->body_len > 0) keep_reason(run, op_body(op));
	run->dirty = a->wrote = true;
	return run_record_is_open(&run->rec) || run_ended(a, run, op->u.run.time_us, err);
}
