/*
 * A server that says anything in any order, to the whole path from messages to
 * the store: it ends in a refusal or an accepted change, what was accepted can be applied, and the
 * store stays consistent after each commit, restart and kill.
 *
 * The input is a list of steps: a byte that says which, and what it needs.
 * Most steps are what a server could do, so that few bytes lead far; some
 * carry raw bytes. A step that finds no session begins one.
 */
#include "reader/log.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/memstore.h"
#include "tests/fuzz/reading.h"
#include "tests/fuzz/rig.h"
#include "tests/fuzz/source.h"

#define STEPS_MAX    600
#define SESSIONS_MAX 6

struct game {
	struct rig rig;
	struct feed f; /* of the step */
	uint64_t lsn;  /* of the server: as a rule it grows */
	uint64_t commit_lsn;
	uint32_t xid;
	uint8_t shapes[RIG_TABLES];
	struct buf message;
};

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	log_setup(LOG_TEXT, LOG_ERROR);
	return 0;
}

/* A little further, mostly. Never 0/0, at which no server is. */
static uint64_t next_lsn(struct game *g)
{
	uint8_t how = feed_u8(&g->f);
	uint64_t lsn = g->lsn + how;

	if (how >= 0xF0) lsn = g->lsn - (how & 0xF);
	if (how == 0xFF) lsn = feed_uint(&g->f, 8);
	return lsn ? lsn : 1;
}

/* A snapshot like those of a server, mostly: the newest xids are in progress or not. */
static char *take_snapshot(struct game *g)
{
	uint8_t how = feed_u8(&g->f), open = feed_u8(&g->f);
	uint32_t xmin = g->xid - (how & 7), xmax = g->xid + (how >> 3 & 3);
	char *text, list[128] = "";
	size_t n = 0;

	if (how >= 0xF0) return feed_text(&g->f);
	for (uint32_t i = 0; i < 8 && xmin + i < xmax; i++)
		if (open >> i & 1) n += (size_t)snprintf(list + n, sizeof list - n, "%s%u", n ? "," : "", xmin + i);
	CHECK_THAT(asprintf(&text, "%u:%u:%s", xmin, xmax, list) > 0, "no memory");
	return text;
}

/* ---- sessions ---- */

static void begin(struct game *g)
{
	uint8_t how = feed_u8(&g->f), changed = feed_u8(&g->f);
	struct rig_catalog catalog = {.present = 0x1F, .read_at = next_lsn(g), .always = how & 1};

	if (how & 2) catalog.present = feed_u8(&g->f);
	if (how & 4) catalog.added = feed_u8(&g->f);
	for (unsigned i = 0; i < SOURCE_TABLES; i++)
		if (changed >> i & 1) g->shapes[i] = (uint8_t)((g->shapes[i] + 1) % SOURCE_SHAPES);
	memcpy(catalog.shapes, g->shapes, sizeof catalog.shapes);
	char *gate = how & 8 ? take_snapshot(g) : NULL, *added_gate = how & 16 ? take_snapshot(g) : NULL;
	catalog.gate = gate;
	catalog.added_gate = added_gate;
	rig_begin(&g->rig, &catalog);
	free(gate);
	free(added_gate);
}

static void restart(struct game *g, bool finish)
{
	rig_end(&g->rig, finish);
	/* What was not stored is sent again. */
	if (feed_bool(&g->f) && g->lsn > 0xFFF) g->lsn -= feed_u8(&g->f);
}

/* ---- messages ---- */

static void send(struct game *g)
{
	struct slice s = alone((struct slice){g->message.p, g->message.n});

	rig_message(&g->rig, s);
	alone_free(s);
}

static void send_raw(struct game *g)
{
	struct slice s = feed_bytes(&g->f, feed_left(&g->f));

	buf_put(&g->message, s.p, s.n);
	send(g);
}

static void send_begin(struct game *g)
{
	g->commit_lsn = g->lsn = next_lsn(g);
	g->xid += feed_u8(&g->f) & 3;
	source_put_begin(&g->message, g->commit_lsn, g->xid);
	send(g);
}

static void send_commit(struct game *g)
{
	g->lsn = next_lsn(g);
	source_put_commit(&g->message, g->commit_lsn, g->lsn);
	send(g);
}

struct target {
	unsigned table, shape;
};

/* The shape of the catalog, mostly. */
static struct target take_target(struct game *g)
{
	uint8_t how = feed_u8(&g->f);
	struct target t = {how % SOURCE_TABLES, 0};

	t.shape = g->shapes[t.table] + (how >= 0xE0);
	return t;
}

static struct source_tuple take_tuple(struct game *g)
{
	uint8_t how = feed_u8(&g->f);
	enum source_key key_is = how < 0xE0 ? KEY_SENT : how < 0xF0 ? KEY_UNCHANGED : KEY_NULL;

	return (struct source_tuple){how % SOURCE_KEYS, key_is, (uint32_t)feed_uint(&g->f, 2)};
}

static void send_relation(struct game *g)
{
	struct target t = take_target(g);

	source_put_relation(&g->message, t.table, t.shape);
	send(g);
}

static void send_insert(struct game *g)
{
	struct target t = take_target(g);

	source_put_insert(&g->message, t.table, t.shape, take_tuple(g));
	send(g);
}

static void send_update(struct game *g)
{
	struct target t = take_target(g);
	uint8_t how = feed_u8(&g->f);
	struct source_tuple new = take_tuple(g), old = new;

	if (how & 4) old = take_tuple(g);
	source_put_update(&g->message, t.table, t.shape, (enum source_old)(how % 3), old, new);
	send(g);
}

static void send_delete(struct game *g)
{
	struct target t = take_target(g);
	uint8_t how = feed_u8(&g->f);

	source_put_delete(&g->message, t.table, t.shape, how & 1 ? OLD_FULL : OLD_KEY, take_tuple(g));
	send(g);
}

static void send_truncate(struct game *g)
{
	source_put_truncate(&g->message, feed_u8(&g->f));
	send(g);
}

/* Descriptions of all tables, and a transaction around what follows. */
static void send_opening(struct game *g)
{
	send_begin(g);
	for (unsigned i = 0; i < SOURCE_TABLES && rig_is_running(&g->rig); i++) {
		buf_reset(&g->message);
		source_put_relation(&g->message, i, g->shapes[i]);
		send(g);
	}
}

static void send_position(struct game *g)
{
	g->lsn = next_lsn(g);
	rig_position(&g->rig, g->lsn);
}

/* ---- chunks ---- */

static void reply_snapshot(struct game *g)
{
	bool standby = feed_u8(&g->f) == 0xFF;
	char *text = take_snapshot(g);

	rig_snapshot(&g->rig, text, standby, next_lsn(g));
	free(text);
}

static const struct source_shape *shape_of_table(const struct game *g, uint32_t table_id)
{
	const struct schema *s = changes_schema(g->rig.changes, table_id);

	for (unsigned i = 0; s && i < SOURCE_TABLES; i++) {
		const struct source_shape *shape = source_shape(i, g->shapes[i]);

		if (schema_same(s, &shape->schema)) return shape;
	}
	return NULL;
}

#define CELLS_MAX 8

/* One value of a reply: in a chunk that asks for keys alone, columns are those of the key. */
static struct slice reply_cell(const struct source_shape *s, bool only_key, unsigned column,
							   struct source_tuple t)
{
	int k = only_key ? (int)column : source_key_index(s, column);

	if (k >= 0) return source_key_text(s, (unsigned)k, t.key);
	return source_value_text(t.values >> 3 * (column % 5) & 7);
}

static void reply_row(struct game *g)
{
	const struct chunk_request *q = g->rig.request;
	const struct source_shape *s = shape_of_table(g, q->table_id);
	struct source_tuple t = take_tuple(g);
	struct slice cells[CELLS_MAX] = {0};
	unsigned n = (unsigned)q->ncolumns;

	if (!s || n > CELLS_MAX) return;
	for (unsigned i = 0; i < n; i++) {
		struct slice text = reply_cell(s, q->kind == CHUNK_EXISTS, i, t);

		cells[i] = text.p ? alone(text) : text;
	}
	rig_row(&g->rig, cells, n); /* the request may be gone now */
	for (unsigned i = 0; i < n; i++)
		if (cells[i].p) alone_free(cells[i]);
}

static void reply_raw_row(struct game *g)
{
	struct slice cells[CELLS_MAX] = {0};
	size_t n = feed_below(&g->f, CELLS_MAX);

	for (size_t i = 0; i < n; i++)
		cells[i] = feed_u8(&g->f) == 0xFF ? (struct slice){0} : feed_slice(&g->f);
	rig_row(&g->rig, cells, n);
}

static bool is_asking(const struct game *g)
{
	return rig_is_running(&g->rig) && g->rig.request;
}

/* A whole reply, with rows in the order of their numbers. */
static void reply_whole(struct game *g)
{
	uint8_t rows = feed_u8(&g->f) % 8;

	reply_snapshot(g);
	while (rows-- > 0 && is_asking(g))
		reply_row(g);
	if (is_asking(g)) rig_chunk_end(&g->rig, (int64_t)feed_u8(&g->f) * 1000);
}

static void reply(struct game *g)
{
	uint8_t how = feed_u8(&g->f);

	rig_ask(&g->rig);
	if (!g->rig.request) return;
	switch (how % 8) {
	case 0: reply_snapshot(g); break;
	case 1: reply_row(g); break;
	case 2: rig_chunk_end(&g->rig, (int64_t)feed_u8(&g->f) * 1000); break;
	case 3: rig_chunk_failed(&g->rig, (enum chunk_failure)(how / 8 % 3)); break;
	case 4: reply_raw_row(g); break;
	default: reply_whole(g); break;
	}
}

static void start_run(struct game *g)
{
	uint8_t how = feed_u8(&g->f);
	char *gate = how & 0x80 ? take_snapshot(g) : NULL;

	rig_start_run(&g->rig, how % 8, how & 0x40, gate);
	free(gate);
}

/* ---- the game ---- */

static void step(struct game *g)
{
	buf_reset(&g->message);
	switch (feed_u8(&g->f) % 20) {
	case 0: send_raw(g); break;
	case 1: send_begin(g); break;
	case 2: send_commit(g); break;
	case 3: send_relation(g); break;
	case 4:
	case 5: send_insert(g); break;
	case 6:
	case 7: send_update(g); break;
	case 8: send_delete(g); break;
	case 9: send_truncate(g); break;
	case 10: send_position(g); break;
	case 11: send_opening(g); break;
	case 12:
	case 13:
	case 14: reply(g); break;
	case 15: rig_settle(&g->rig); break;
	case 16: rig_store_position(&g->rig); break;
	case 17: start_run(g); break;
	case 18: restart(g, true); break;
	default: restart(g, false); break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct game g = {.lsn = 0x1000000, .xid = 700};
	struct feed f = feed_of(data, size);
	int sessions = 0;

	rig_open(&g.rig);
	for (int i = 0; i < STEPS_MAX && sessions <= SESSIONS_MAX && feed_left(&f) > 0; i++) {
		g.f = feed_step(&f);
		if (rig_is_running(&g.rig))
			step(&g);
		else if (sessions++ < SESSIONS_MAX)
			begin(&g);
	}
	rig_close(&g.rig);
	reading_all(memstore_reader(), true);
	memstore_reader_reset();
	buf_finish(&g.message);
	return 0;
}
