#include <stdlib.h>
#include <string.h>

#include "state/mutant.h"
#include "state/store_impl.h"

/*
 * The record of the overlay, meta/overlay, is there while a stage or an overlay is:
 *
 *   state 1 | moved blob | tables 2 | each: table id 4, cleared 1
 *
 * A truncate in a staged transaction clears a table: what rows.N has counts no more, but is
 * dropped only after the stage is shown, when the table is moved. Of the first table, entries up to
 * `moved` are in rows.N too; they stay in stage.N until all of it goes.
 */

#define PAGE_BYTES 4096

void overlay_finish(struct overlay *o)
{
	free(o->tables);
	buf_finish(&o->moved);
	*o = (struct overlay){0};
}

/* ---- the record ---- */

static bool decode(struct slice bytes, struct overlay *o, struct err *err)
{
	struct cur c = cur_of(bytes);
	struct slice moved;

	o->state = cur_u8(&c);
	moved = cur_blob(&c);
	o->n = cur_u16(&c);
	if (o->state != OVERLAY_STAGED && o->state != OVERLAY_SHOWN) c.bad = true;
	if (c.bad) o->n = 0;
	o->tables = mem_alloc((o->n + 1) * sizeof *o->tables);
	for (size_t i = 0; i < o->n; i++) {
		o->tables[i].id = cur_u32(&c);
		o->tables[i].cleared = cur_u8(&c) != 0;
	}
	buf_put(&o->moved, moved.p, moved.n);
	if (cur_done(&c)) return true;
	overlay_finish(o);
	return err_set(err, ERR_CORRUPT, "the overlay record of %zu bytes is damaged", bytes.n);
}

static void encode(const struct overlay *o, struct buf *out)
{
	buf_put_u8(out, (uint8_t)o->state);
	buf_put_blob(out, o->moved.p, o->moved.n);
	buf_put_u16(out, (uint16_t)o->n);
	for (size_t i = 0; i < o->n; i++) {
		buf_put_u32(out, o->tables[i].id);
		buf_put_u8(out, o->tables[i].cleared);
	}
}

static bool read_record(struct store_txn *t, struct err *err)
{
	MDB_val k = val_of_text(META_OVERLAY), v;
	int rc = mdb_get(t->mdb, t->store->meta, &k, &v);

	if (rc == MDB_NOTFOUND) return true;
	if (rc != 0) return store_fail(t->store, rc, err, "reading the overlay record");
	return decode(slice_of_val(v), &t->overlay, err) || err_wrap(err, "store %s", t->store->dir);
}

/* Once in a transaction; of a reader, once in a state: programs that begin for each row pay no more. */
static bool load(struct store_txn *t, struct err *err)
{
	uint64_t id = store_txn_id(t);

	if (t->overlay_known) return true;
	if (t->write || atomic_load_explicit(&t->store->plain, memory_order_relaxed) != id) {
		if (!read_record(t, err)) return false;
		if (!t->write && t->overlay.state == OVERLAY_NONE)
			atomic_store_explicit(&t->store->plain, id, memory_order_relaxed);
	}
	t->overlay_known = true;
	return true;
}

static bool save(struct store_txn *t, struct err *err)
{
	MDB_val k = val_of_text(META_OVERLAY), v;
	struct buf b = {0};
	int rc;

	if (t->overlay.state == OVERLAY_NONE) {
		rc = mdb_del(t->mdb, t->store->meta, &k, NULL);
		if (rc == MDB_NOTFOUND) rc = 0;
	} else {
		encode(&t->overlay, &b);
		v = val_of((struct slice){b.p, b.n});
		rc = mdb_put(t->mdb, t->store->meta, &k, &v, 0);
		buf_finish(&b);
	}
	return rc == 0 || store_fail(t->store, rc, err, "writing the overlay record");
}

/* ---- who looks where ---- */

static struct overlay_table *find(struct store_txn *t, uint32_t table_id)
{
	for (size_t i = 0; i < t->overlay.n; i++)
		if (t->overlay.tables[i].id == table_id) return &t->overlay.tables[i];
	return NULL;
}

enum view overlay_view(struct store_txn *t, uint32_t table_id, struct err *err)
{
	const struct overlay_table *table;

	if (!load(t, err)) return VIEW_FAILED;
	if (t->overlay.state == OVERLAY_NONE ||
		(t->overlay.state == OVERLAY_STAGED && !t->staging && !MUTANT(STAGE_SEEN)))
		return VIEW_ROWS;
	table = find(t, table_id);
	if (!table) return VIEW_ROWS;
	return table->cleared ? VIEW_STAGED : VIEW_BOTH;
}

bool overlay_add(struct store_txn *t, uint32_t table_id, bool cleared, struct err *err)
{
	struct overlay *o = &t->overlay;
	struct overlay_table *table = find(t, table_id);

	if (table && (table->cleared || !cleared)) return true;
	if (!table) {
		struct overlay_table *grown = mem_alloc((o->n + 1) * sizeof *grown);

		if (o->n > 0) memcpy(grown, o->tables, o->n * sizeof *grown);
		free(o->tables);
		o->tables = grown;
		table = &grown[o->n++];
		*table = (struct overlay_table){.id = table_id};
	}
	table->cleared |= cleared && !MUTANT(STAGE_FLOOR);
	return save(t, err);
}

/* ---- staging ---- */

bool store_get_overlay(struct store_txn *t, enum store_overlay *out, struct err *err)
{
	if (!load(t, err)) return false;
	*out = t->overlay.state;
	return true;
}

bool store_count_staged(struct store_txn *t, uint64_t *out, struct err *err)
{
	struct table_dbis dbis;
	MDB_stat st;
	int rc;

	*out = 0;
	if (!load(t, err)) return false;
	for (size_t i = 0; i < t->overlay.n; i++) {
		if (!handles_find(t, t->overlay.tables[i].id, &dbis, err)) return false;
		rc = mdb_stat(t->mdb, dbis.stage, &st);
		if (rc != 0) return store_fail(t->store, rc, err, "counting what is staged");
		*out += st.ms_entries;
	}
	return true;
}

bool store_stage(struct store_txn *t, struct err *err)
{
	if (!t->write)
		return err_set(err, ERR_BUG, "store %s: staging in a transaction that reads", t->store->dir);
	if (!load(t, err)) return false;
	if (t->overlay.state == OVERLAY_SHOWN)
		return err_set(err, ERR_BUG, "store %s: staging while there is an overlay", t->store->dir);
	t->staging = true;
	if (t->overlay.state == OVERLAY_STAGED) return true;
	t->overlay.state = OVERLAY_STAGED;
	return save(t, err);
}

bool store_stage_show(struct store_txn *t, struct err *err)
{
	if (!t->staging) return err_set(err, ERR_BUG, "store %s: nothing is staged", t->store->dir);
	t->staging = false;
	t->overlay.state = t->overlay.n > 0 ? OVERLAY_SHOWN : OVERLAY_NONE;
	return save(t, err);
}

static bool empty_stage(struct store_txn *t, uint32_t table_id, struct err *err)
{
	struct table_dbis dbis;
	int rc;

	if (!handles_find(t, table_id, &dbis, err)) return false;
	rc = mdb_drop(t->mdb, dbis.stage, 0);
	return rc == 0 || store_fail(t->store, rc, err, "emptying the stage of table %u", table_id);
}

bool store_stage_drop(struct store_txn *t, struct err *err)
{
	if (!load(t, err)) return false;
	if (t->overlay.state != OVERLAY_STAGED) return true;
	for (size_t i = 0; i < t->overlay.n; i++)
		if (!empty_stage(t, t->overlay.tables[i].id, err)) return false;
	overlay_finish(&t->overlay);
	t->staging = false;
	return save(t, err);
}

/* ---- moving ---- */

struct move {
	struct store_txn *t;
	struct table_dbis dbis;
	uint32_t table_id;
	size_t left;    /* of the bytes to be written */
	bool has_doubt; /* doubt.N is not empty */
	bool end;
};

static int move_doubt(struct move *m, MDB_val *key, MDB_val *entry)
{
	MDB_val nothing = {0, NULL};
	int rc;

	if (entry->mv_size > 0 && *(const uint8_t *)entry->mv_data & ROW_DOUBT)
		return mdb_put(m->t->mdb, m->dbis.doubt, key, &nothing, 0);
	rc = m->has_doubt ? mdb_del(m->t->mdb, m->dbis.doubt, key, NULL) : 0;
	return rc == MDB_NOTFOUND ? 0 : rc;
}

static void count(struct move *m, const MDB_val *key, const MDB_val *entry, struct slice last)
{
	size_t n = key->mv_size + entry->mv_size + 16;

	n = store_row_follows(m->t, m->table_id, last) ? 2 * n : n + PAGE_BYTES;
	m->left -= n < m->left ? n : m->left;
}

/* The value lies in the map, which a write may change under it: a copy of it is written. */
static int move_entry(struct move *m, MDB_val key, MDB_val entry, struct buf *copy)
{
	struct buf *moved = &m->t->overlay.moved;
	MDB_cursor *rows;
	int rc = row_cursor(m->t, m->dbis.rows, &rows);

	buf_reset(copy);
	buf_put(copy, key.mv_data, key.mv_size);
	buf_put(copy, entry.mv_data, entry.mv_size);
	key.mv_data = copy->p;
	entry.mv_data = copy->p + key.mv_size;
	if (rc == 0) rc = mdb_cursor_put(rows, &key, &entry, 0);
	if (rc == 0) rc = move_doubt(m, &key, &entry);
	if (rc == 0) count(m, &key, &entry, (struct slice){moved->p, moved->n});
	buf_reset(moved);
	buf_put(moved, key.mv_data, key.mv_size);
	return rc;
}

/* From behind the last key that was moved. */
static int move_entries(struct move *m, MDB_cursor *stage)
{
	struct buf *moved = &m->t->overlay.moved, copy = {0};
	MDB_val key = {moved->n, moved->p}, entry;
	bool again = moved->n > 0;
	int rc = mdb_cursor_get(stage, &key, &entry, again ? MDB_SET_RANGE : MDB_FIRST);

	if (rc == 0 && again && slice_eq(slice_of_val(key), (struct slice){moved->p, moved->n}))
		rc = mdb_cursor_get(stage, &key, &entry, MDB_NEXT);
	while (rc == 0 && m->left > 0) {
		rc = move_entry(m, key, entry, &copy);
		if (rc == 0) rc = mdb_cursor_get(stage, &key, &entry, MDB_NEXT);
	}
	buf_finish(&copy);
	m->end = rc == MDB_NOTFOUND;
	return m->end ? 0 : rc;
}

static int move_table(struct move *m)
{
	MDB_cursor *stage;
	MDB_stat st;
	int rc = mdb_stat(m->t->mdb, m->dbis.doubt, &st);

	m->has_doubt = rc == 0 && st.ms_entries > 0;
	if (rc == 0) rc = mdb_cursor_open(m->t->mdb, m->dbis.stage, &stage);
	if (rc != 0) return rc;
	rc = move_entries(m, stage);
	mdb_cursor_close(stage);
	return rc;
}

static bool drop_cleared(struct move *m, struct err *err)
{
	struct overlay_table *table = &m->t->overlay.tables[0];
	int rc;

	if (!table->cleared) return true;
	rc = mdb_drop(m->t->mdb, m->dbis.rows, 0);
	if (rc != 0) return store_fail(m->t->store, rc, err, "dropping the rows of table %u", m->table_id);
	table->cleared = false;
	return true;
}

static bool table_moved(struct move *m, struct err *err)
{
	struct overlay *o = &m->t->overlay;

	if (!m->end) return true;
	o->n--;
	memmove(o->tables, o->tables + 1, o->n * sizeof *o->tables);
	buf_reset(&o->moved);
	if (o->n == 0) o->state = OVERLAY_NONE;
	return empty_stage(m->t, m->table_id, err);
}

bool store_overlay_move(struct store_txn *t, size_t bytes, struct err *err)
{
	struct move m = {.t = t, .left = bytes};
	int rc;

	if (!load(t, err)) return false;
	while (t->overlay.state == OVERLAY_SHOWN && m.left > 0) {
		m.table_id = t->overlay.tables[0].id;
		if (!handles_find(t, m.table_id, &m.dbis, err) || !drop_cleared(&m, err)) return false;
		rc = move_table(&m);
		if (rc != 0) return store_fail(t->store, rc, err, "moving the overlay of table %u", m.table_id);
		if (!table_moved(&m, err)) return false;
	}
	return save(t, err);
}
