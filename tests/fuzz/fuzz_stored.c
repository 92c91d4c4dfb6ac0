/*
 * A store with damage inside its values, in an LMDB file that is intact:
 * records, schemas, rows and indexes with bytes changed, cut, or in the place of
 * others. Readers and the daemon read what they can and call the rest corrupt.
 */
#include "reader/log.h"
#include "state/store_impl.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/memstore.h"
#include "tests/fuzz/reading.h"
#include "tests/fuzz/rig.h"
#include "tests/fuzz/source.h"

#define EDITS_MAX 6

/* One entry of the sound store. */
struct entry {
	MDB_dbi dbi;
	struct slice key, value;
};

static struct entry *entries;
static size_t nentries;

#define MUST(call)                                                                                           \
	do {                                                                                                     \
		struct err err = {0};                                                                                \
		CHECK_THAT(call, "%s", err.msg);                                                                     \
	} while (0)

/* ---- a sound store ---- */

static void say(struct rig *r, struct buf *message)
{
	rig_message(r, (struct slice){message->p, message->n});
	buf_reset(message);
}

static void insert_rows(struct rig *r, struct buf *m)
{
	for (unsigned table = 0; table < SOURCE_TABLES; table++) {
		source_put_relation(m, table, 0);
		say(r, m);
		for (unsigned key = 0; key < SOURCE_KEYS; key++) {
			source_put_insert(m, table, 0, (struct source_tuple){key, KEY_SENT, 02543672 >> key});
			say(r, m);
		}
		source_put_delete(m, table, 0, OLD_KEY, (struct source_tuple){.key = 3});
		say(r, m);
	}
}

/* Live rows, rows in doubt, hidden ones, delete markers, long keys, an open run, an unseen transaction. */
static void make_sound(void)
{
	struct rig_catalog catalog = {.present = 0x1F, .read_at = 0x1000000, .gate = "690:700:"};
	struct buf m = {0};
	struct rig r;

	rig_open(&r);
	rig_begin(&r, &catalog);
	source_put_begin(&m, 0x1000100, 701);
	say(&r, &m);
	insert_rows(&r, &m);
	source_put_commit(&m, 0x1000100, 0x1000200);
	say(&r, &m);
	rig_settle(&r);
	rig_ask(&r);
	CHECK_THAT(r.request && r.request->kind == CHUNK_PAGE, "no page was asked for");
	rig_snapshot(&r, "702:702:", false, 0x1000100);
	rig_chunk_end(&r, 1000);
	rig_settle(&r);
	rig_close(&r);
	buf_finish(&m);
}

static void keep_entries(MDB_txn *txn, MDB_dbi dbi)
{
	MDB_cursor *c;
	MDB_val key, value;

	CHECK_THAT(mdb_cursor_open(txn, dbi, &c) == 0, "cursor");
	while (mdb_cursor_get(c, &key, &value, MDB_NEXT) == 0) {
		entries = realloc(entries, (nentries + 1) * sizeof *entries);
		entries[nentries++] = (struct entry){dbi, alone(slice_of_val(key)), alone(slice_of_val(value))};
	}
	mdb_cursor_close(c);
}

static void keep_sound(void)
{
	struct store *s = memstore();
	struct store_txn *t;

	MUST(store_begin_read(s, &t, &err));
	keep_entries(t->mdb, s->tables);
	keep_entries(t->mdb, s->schemas);
	keep_entries(t->mdb, s->runs);
	keep_entries(t->mdb, s->unseen);
	keep_entries(t->mdb, s->meta);
	for (uint32_t id = 1; handles_has(t, id); id++) {
		struct table_dbis dbis;

		MUST(handles_find(t, id, &dbis, &err));
		keep_entries(t->mdb, dbis.rows);
		keep_entries(t->mdb, dbis.doubt);
	}
	store_abort(t);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	log_setup(LOG_TEXT, LOG_ERROR);
	make_sound();
	keep_sound();
	reading_all(memstore_reader(), true);
	return 0;
}

/* ---- damage ---- */

static void put(MDB_txn *txn, MDB_dbi dbi, struct slice key, struct slice value)
{
	MDB_val k = val_of(key), v = val_of(value);
	int rc = key.n > 0 && key.n <= KEY_MAX ? mdb_put(txn, dbi, &k, &v, 0) : 0;

	CHECK_THAT(rc == 0, "%s", mdb_strerror(rc));
}

/* In place of n bytes at a place of its own choice, a few others. */
static void edit_bytes(struct buf *b, struct feed *f)
{
	size_t at = b->n > 0 ? feed_below(f, b->n + 1) : 0, gone = feed_u8(f) & 15;
	struct slice in = feed_bytes(f, feed_u8(f) & 15);
	struct buf after = {0};

	if (gone > b->n - at) gone = b->n - at;
	buf_put(&after, b->p + at + gone, b->n - at - gone);
	b->n = at;
	buf_put(b, in.p, in.n);
	buf_put(b, after.p, after.n);
	buf_finish(&after);
}

static void damage(MDB_txn *txn, struct feed *f)
{
	const struct entry *e = &entries[feed_uint(f, 2) % nentries], *other;
	struct buf b = {0};
	MDB_val k = val_of(e->key);

	switch (feed_u8(f) % 8) {
	case 0: (void)mdb_del(txn, e->dbi, &k, NULL); break;
	case 1: /* another one's value */
		other = &entries[feed_uint(f, 2) % nentries];
		put(txn, e->dbi, e->key, other->value);
		break;
	case 2: /* under another key too */
		buf_put(&b, e->key.p, e->key.n);
		edit_bytes(&b, f);
		put(txn, e->dbi, (struct slice){b.p, b.n}, e->value);
		break;
	case 3: put(txn, e->dbi, e->key, feed_slice(f)); break;
	default:
		buf_put(&b, e->value.p, e->value.n);
		edit_bytes(&b, f);
		put(txn, e->dbi, e->key, (struct slice){b.p, b.n});
		break;
	}
	buf_finish(&b);
}

static void restore_and_damage(struct feed *f)
{
	struct store_txn *t;
	size_t edits = 1 + feed_below(f, EDITS_MAX);

	memstore_empty();
	MUST(store_begin_write(memstore(), &t, &err));
	for (size_t i = 0; i < nentries; i++)
		put(t->mdb, entries[i].dbi, entries[i].key, entries[i].value);
	while (edits-- > 0)
		damage(t->mdb, f);
	MUST(store_commit(t, &err));
}

/* ---- the daemon on it ---- */

/* False: it was refused, as corrupt. */
static bool accepted(bool ok, const struct err *err)
{
	CHECK_THAT(ok || (err->kind == ERR_CORRUPT && err->msg[0]), "kind %d: %s", err->kind, err->msg);
	return ok;
}

static struct op *add(struct batch *b, enum op_kind kind, uint32_t table)
{
	struct op *op = batch_add(b, kind);

	op->table_id = table;
	op->pos = (struct pos){1, LSN(0x1000300), b->n};
	return op;
}

/* Lists, deletes, and truncates half of it: reads what there is in each way that it is read. */
static void fill_batch(struct batch *b, uint32_t table)
{
	struct op *op = add(b, OP_LIST_DOUBT, table);

	op->u.list.limit = 100;
	op = add(b, OP_LIST_SUSPECTS, table);
	op->u.list.limit = op->u.list.scan_limit = 100;
	for (size_t i = 0; i < nentries; i += 3) {
		op = add(b, OP_DELETE, table);
		op->key = entries[i].key;
		if (op->key.n == KEY_MAX) op->key.n--;
	}
	op = add(b, OP_TRUNCATE, table);
	op->pos.lsn = LSN(0x1000101);
	op = add(b, OP_COMMIT, 0);
	op->u.commit.lsn = LSN(UINT64_MAX);
	op->pos.epoch = UINT16_MAX; /* behind any checkpoint that there may be */
}

static void apply(struct applier *a, uint32_t table)
{
	struct batch *b = batch_create();
	struct err err = {0};

	fill_batch(b, table);
	if (accepted(applier_apply(a, b, &err), &err)) CHECK_THAT(applier_commit(a, 1, &err), "%s", err.msg);
	batch_destroy(b);
	applier_abort(a);
}

static void work(struct store *s, const struct stored *stored)
{
	struct applier *a;
	struct err err = {0};

	if (!accepted(applier_create(s, &a, &err), &err)) return;
	for (size_t i = 0; i < stored->ntables; i++)
		apply(a, stored->tables[i].id);
	applier_destroy(a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = feed_of(data, size);
	struct stored stored;
	struct err err = {0};

	restore_and_damage(&f);
	reading_all(memstore_reader(), false);
	if (accepted(stored_load(memstore(), &stored, &err), &err)) {
		work(memstore(), &stored);
		stored_free(&stored);
	}
	return 0;
}
