/*
 * The copier alone: replies to its questions in any order and with any bytes,
 * beside a stream, answers of the applier, and tables and runs that come, change and
 * go. What it hands on is well formed: rows that decode, each under its own key and at most
 * once, and a cursor of as many texts as the key has.
 */
#include "snapshot/copier.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/source.h"

#define STEPS_MAX 400
#define TABLES    3

struct game {
	struct copier *copier;
	struct feed f;                       /* of the step */
	const struct chunk_request *request; /* unanswered */
	const struct chunk_request
		*other; /* unanswered too: its rows have come, and are still to be handed over */
	uint64_t lsn;
	uint32_t xid;
	bool in_transaction;
	int64_t now_us;
	uint8_t shapes[TABLES];
	uint32_t versions[TABLES];
	uint64_t tokens[TABLES]; /* of the last listing */
};

/* ---- what it hands on ---- */

static const struct source_shape *shape_of(const struct game *g, uint32_t table_id)
{
	CHECK_THAT(table_id >= 1 && table_id <= TABLES, "table %u", table_id);
	return source_shape(table_id - 1, g->shapes[table_id - 1]);
}

static void check_key(const struct source_shape *s, const struct op *op, const struct slice *texts,
					  struct slice full_key)
{
	enum key_kind kinds[KEY_COLUMNS_MAX];
	uint8_t stored[KEY_MAX];
	struct buf full = {0};
	struct err err = {0};
	bool is_long;
	size_t n;

	schema_key_kinds(&s->schema, kinds);
	CHECK_THAT(key_encode(kinds, texts, s->schema.nkeys, stored, &n, &full, &is_long, &err), "%s", err.msg);
	CHECK_THAT(slice_eq(op->key, (struct slice){stored, n}), "a row under another key");
	CHECK_THAT(is_long == ((op->flags & OP_F_LONG_KEY) != 0), "a long key");
	CHECK_THAT(slice_eq(full_key, is_long ? (struct slice){full.p, full.n} : (struct slice){0}), "full key");
	buf_finish(&full);
}

static void check_row(const struct game *g, const struct op *op)
{
	const struct source_shape *s = shape_of(g, op->table_id);
	struct slice texts[KEY_COLUMNS_MAX];
	struct cell cells[16];
	struct row_head head;
	struct err err = {0};

	CHECK_THAT(row_decode((struct slice){op->body, op->body_len}, s->schema.ncolumns, &head, cells, &err),
			   "%s", err.msg);
	CHECK_THAT(!(head.flags & (ROW_DELETED | ROW_DOUBT | ROW_HIDDEN)), "flags %u", head.flags);
	CHECK_THAT(head.version == g->versions[op->table_id - 1], "version %u", head.version);
	for (size_t i = 0; i < s->schema.nkeys; i++) {
		const struct cell *c = &cells[s->schema.key_columns[i]];

		CHECK_THAT(c->kind == CELL_TEXT, "NULL in the key");
		texts[i] = c->text;
	}
	check_key(s, op, texts, head.full_key);
}

static void check_once(const struct batch *b, size_t i)
{
	for (size_t j = 0; j < i; j++)
		CHECK_THAT(b->ops[j].kind != b->ops[i].kind || !slice_eq(b->ops[j].key, b->ops[i].key), "twice");
}

static void check_chunk(const struct game *g, const struct batch *b)
{
	const struct op_chunk *what = b->ops[0].u.run.chunk;
	struct cur c = cur_of(what->cursor);
	uint32_t rows = 0;

	CHECK_THAT(what->high.v <= g->lsn && b->ops[0].pos.lsn.v <= what->high.v, "positions");
	for (size_t i = 0; i < b->n; i++) {
		if (b->ops[i].kind == OP_CHUNK_ROW) check_row(g, &b->ops[i]);
		if (b->ops[i].kind == OP_CHUNK_ROW || b->ops[i].kind == OP_CHUNK_GONE) check_once(b, i);
		rows += b->ops[i].kind == OP_CHUNK_ROW;
	}
	CHECK_THAT(rows == what->rows_read, "%u rows, %u told", rows, what->rows_read);
	if (!what->moves_cursor || what->cursor.n == 0) return;
	for (size_t i = 0; i < shape_of(g, b->ops[0].table_id)->schema.nkeys; i++)
		cur_blob(&c);
	CHECK_THAT(cur_done(&c), "a cursor of %zu bytes", what->cursor.n);
}

static void note_listing(struct game *g, const struct op *op)
{
	CHECK_THAT(op->table_id >= 1 && op->table_id <= TABLES, "table %u", op->table_id);
	g->tokens[op->table_id - 1] = op->u.list.token;
}

static void emit(void *ctx, struct batch *b)
{
	struct game *g = ctx;

	CHECK_THAT(!g->in_transaction, "inside a transaction");
	CHECK_THAT(b->n > 0 && batch_whole_ops(b) == b->n, "%zu operations", b->n);
	if (b->ops[0].kind == OP_CHUNK) check_chunk(g, b);
	for (size_t i = 0; i < b->n; i++)
		if (b->ops[i].kind == OP_LIST_DOUBT || b->ops[i].kind == OP_LIST_SUSPECTS)
			note_listing(g, &b->ops[i]);
	batch_destroy(b);
}

/* ---- texts ---- */

static char *take_snapshot(struct game *g)
{
	uint8_t how = feed_u8(&g->f), open = feed_u8(&g->f);
	uint32_t xmin = g->xid - (how & 7), xmax = g->xid + (how >> 3 & 3);
	char *text;

	if (how >= 0xF0) return feed_text(&g->f);
	if (open < 0x80 || xmin == xmax)
		CHECK_THAT(asprintf(&text, "%u:%u:", xmin, xmax) > 0, "no memory");
	else
		CHECK_THAT(asprintf(&text, "%u:%u:%u", xmin, xmax, xmin + open % (xmax - xmin)) > 0, "no memory");
	return text;
}

static uint64_t next_lsn(struct game *g)
{
	return g->lsn += feed_u8(&g->f);
}

/* ---- tables and runs ---- */

static void set_table(struct game *g, unsigned i)
{
	const struct source_shape *s = source_shape(i, g->shapes[i]);
	struct schema schema = s->schema;

	schema.table_id = i + 1;
	schema.version = ++g->versions[i];
	copier_set_table(g->copier, &(struct copier_table){.schema = &schema, .from_sql = "ONLY t"});
}

static void change_table(struct game *g)
{
	uint8_t how = feed_u8(&g->f);
	unsigned i = how % TABLES;

	if (how < 0x40) copier_remove_table(g->copier, i + 1);
	if (how & 0x20) g->shapes[i] = (uint8_t)((g->shapes[i] + 1) % SOURCE_SHAPES);
	set_table(g, i);
}

static void start_run(struct game *g)
{
	uint8_t how = feed_u8(&g->f);
	char *gate = how & 0x20 ? take_snapshot(g) : NULL;

	if (!g->in_transaction)
		copier_start_run(g->copier, 1 + how % TABLES, how & 0x40 ? RUN_RESNAPSHOT : RUN_INITIAL, how & 0x80,
						 gate, "fuzz", g->now_us);
	free(gate);
}

/* A record as the store may have it, its cursor whatever it is. */
static void load_run(struct game *g)
{
	uint8_t how = feed_u8(&g->f);
	char *gate = how & 0x20 ? take_snapshot(g) : strdup("");
	struct run_record r = {.table_id = 1 + how % TABLES,
						   .kind = RUN_INITIAL,
						   .sweep = how & 0x40,
						   .requester = "",
						   .gate = gate,
						   .first_snapshot = "",
						   .last_snapshot = ""};

	r.id = 1 + (uint64_t)feed_u8(&g->f); /* no other is decoded */
	r.state = (uint8_t)(RUN_COPYING + feed_u8(&g->f) % RUN_PAUSED);
	r.cursor = feed_slice(&g->f);
	r.sweep_cursor = feed_slice(&g->f);
	if (!g->in_transaction) copier_load_run(g->copier, &r);
	free(gate);
}

/* ---- the stream ---- */

static void stream(struct game *g)
{
	uint8_t how = feed_u8(&g->f);

	if (!g->in_transaction && how & 1) {
		copier_stream_position(g->copier, LSN(next_lsn(g)));
	} else if (!g->in_transaction) {
		uint64_t lsn = next_lsn(g);

		g->xid += how >> 6;
		copier_stream_begin(g->copier, XID(g->xid), LSN(lsn));
		g->in_transaction = true;
	} else {
		g->in_transaction = false;
		copier_stream_commit(g->copier, LSN(next_lsn(g)));
	}
}

static void stream_change(struct game *g)
{
	uint8_t how = feed_u8(&g->f);
	const struct source_shape *s = source_shape(how % TABLES, g->shapes[how % TABLES]);
	enum key_kind kinds[KEY_COLUMNS_MAX];
	struct slice text = source_key_text(s, 0, how >> 4);
	uint8_t key[KEY_MAX];
	struct buf full = {0};
	struct err err = {0};
	bool is_long;
	size_t n;

	if (!g->in_transaction) return;
	schema_key_kinds(&s->schema, kinds);
	if (how & 8) copier_stream_truncate(g->copier, 1 + how % TABLES);
	if (s->schema.nkeys == 1 && key_encode(kinds, &text, 1, key, &n, &full, &is_long, &err))
		copier_stream_change(g->copier, 1 + how % TABLES, (struct slice){key, n});
	buf_finish(&full);
}

/* ---- the applier ---- */

static void answer_doubt(struct game *g)
{
	struct answer a = {.kind = ANSWER_DOUBT, .table_id = 1 + feed_u8(&g->f) % TABLES};

	a.count = feed_u8(&g->f) % 4;
	copier_answer(g->copier, &a, g->now_us);
}

/* Keys with texts that need not belong together: a row may be of an older schema. */
static void answer_keys(struct game *g)
{
	uint8_t how = feed_u8(&g->f);
	unsigned t = how % TABLES;
	struct slice texts[8][2];
	struct answer_key keys[8];
	struct answer a = {.kind = ANSWER_KEYS,
					   .table_id = t + 1,
					   .token = g->tokens[t],
					   .schema_version = g->versions[t],
					   .nkeys = how >> 5,
					   .keys = keys,
					   .end = how & 0x10};

	for (size_t i = 0, n; i < a.nkeys; i++) {
		texts[i][0] = texts[i][1] = feed_slice(&g->f);
		n = 1 + feed_u8(&g->f);
		keys[i] = (struct answer_key){feed_bytes(&g->f, n), texts[i]};
		if (keys[i].key.n == 0) keys[i].key = slice_of("k");
		a.resume = keys[i].key;
	}
	copier_answer(g->copier, &a, g->now_us);
}

/* ---- replies ---- */

static void check(struct game *g, bool ok, const struct err *err)
{
	if (ok) return;
	check_refusal(err);
	CHECK_THAT(err->kind == ERR_PROTOCOL, "kind %d: %s", err->kind, err->msg);
	copier_chunk_failed(g->copier, g->request->id, CHUNK_LOST, g->now_us);
	g->request = NULL;
}

static void reply_snapshot(struct game *g)
{
	bool standby = feed_u8(&g->f) == 0xFF;
	char *text = take_snapshot(g);
	uint64_t high = g->lsn + feed_u8(&g->f) / 2;
	struct err err = {0};

	check(g, copier_chunk_snapshot(g->copier, g->request->id, text, standby, LSN(high), &err), &err);
	free(text);
}

/* Texts of their own, as far as they are not NULL. */
static unsigned make_row(struct game *g, struct slice *cells)
{
	uint8_t how = feed_u8(&g->f);
	const struct chunk_request *q = g->request;
	unsigned n = (unsigned)q->ncolumns + (how == 0xFF);

	for (unsigned i = 0; i < n; i++) {
		const struct source_shape *s = q->table_id ? shape_of(g, q->table_id) : source_shape(0, 0);
		int k = q->kind == CHUNK_EXISTS ? (int)i : source_key_index(s, i);
		struct slice text = k >= 0 && k < s->schema.nkeys ? source_key_text(s, (unsigned)k, how % SOURCE_KEYS)
														  : source_value_text(how / 16);

		if (how >= 0xE0) text = feed_slice(&g->f);
		cells[i] = text.p ? alone(text) : text;
	}
	return n;
}

static void free_row(const struct slice *cells, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (cells[i].p) alone_free(cells[i]);
}

static void reply_row(struct game *g)
{
	struct slice cells[16] = {0};
	struct err err = {0};
	unsigned n = make_row(g, cells);

	check(g, copier_chunk_row(g->copier, g->request->id, cells, n, &err), &err);
	free_row(cells, n);
}

/* All of its rows have come: the next page may be asked for. */
static void reply_is_whole(struct game *g)
{
	const struct chunk_request *q = g->request;
	size_t rows = q->kind == CHUNK_PAGE ? (size_t)atoi(q->params[q->nparams - 1]) : feed_u8(&g->f);
	struct slice cells[16] = {0};
	struct err err = {0};
	unsigned n = make_row(g, cells);
	bool ahead = false;

	check(g, copier_chunk_is_whole(g->copier, q->id, cells, n, rows, feed_u8(&g->f), &ahead, &err), &err);
	free_row(cells, n);
	if (!ahead) return;
	CHECK_THAT(!g->other, "two pages are not the last");
	g->other = g->request;
	g->request = copier_next(g->copier, g->now_us);
}

static void reply_end(struct game *g)
{
	int64_t elapsed_us = (int64_t)feed_uint(&g->f, 3);
	struct err err = {0};
	bool ok;

	g->now_us += elapsed_us;
	ok = copier_chunk_end(g->copier, g->request->id, elapsed_us, g->now_us, &err);
	check(g, ok, &err);
	g->request = NULL;
}

static void swap_requests(struct game *g)
{
	const struct chunk_request *q = g->request;

	g->request = g->other;
	g->other = q;
}

static void reply(struct game *g)
{
	uint8_t how = feed_u8(&g->f);
	int64_t at = copier_next_at(g->copier);

	if (g->other && (how & 0x40 || !g->request)) swap_requests(g);
	if (!g->request && how & 0x80 && at != INT64_MAX && at > g->now_us) g->now_us = at;
	if (!g->request) g->request = copier_next(g->copier, g->now_us);
	if (!g->request) return;
	CHECK_THAT(g->request->ncolumns < 16, "%zu columns", g->request->ncolumns);
	switch (how % 8) {
	case 0: reply_snapshot(g); break;
	case 1:
		reply_snapshot(g);
		if (g->request && !g->other) reply_is_whole(g);
		break;
	case 2:
	case 3:
	case 4: reply_row(g); break;
	case 5:
	case 6: reply_end(g); break;
	default:
		copier_chunk_failed(g->copier, g->request->id, (enum chunk_failure)(how / 8 % 3), g->now_us);
		g->request = NULL;
		break;
	}
}

static void reply_whole(struct game *g)
{
	uint8_t rows = feed_u8(&g->f) % 8;

	if (!g->request) g->request = copier_next(g->copier, g->now_us);
	if (!g->request) return;
	reply_snapshot(g);
	while (rows-- > 0 && g->request)
		reply_row(g);
	if (g->request) reply_end(g);
}

/* ---- the game ---- */

static void look(const struct game *g)
{
	struct copier_progress p;
	const char *gate;
	lsn_t high;

	(void)copier_waits_for(g->copier, &high);
	(void)copier_all_live(g->copier);
	if (copier_is_gated(g->copier, &gate)) CHECK_THAT(gate && *gate, "a gate without a text");
	for (uint32_t id = 0; id <= TABLES; id++)
		if (copier_get_progress(g->copier, id, &p))
			CHECK_THAT(p.state >= RUN_COPYING && p.state <= RUN_PAUSED, "state");
}

static void step(struct game *g)
{
	switch (feed_u8(&g->f) % 14) {
	case 0: change_table(g); break;
	case 1: start_run(g); break;
	case 2: load_run(g); break;
	case 3:
	case 4: stream(g); break;
	case 5: stream_change(g); break;
	case 6: answer_doubt(g); break;
	case 7:
	case 8: answer_keys(g); break;
	case 9:
	case 10:
	case 11: reply(g); break;
	case 12: reply_whole(g); break;
	default: g->now_us += (int64_t)feed_uint(&g->f, 3) * 16 - (1 << 20); break;
	}
	look(g);
}

static void begin(struct game *g)
{
	struct copier_config config = {
		.epoch = 1, .chunk_time_ms = 100, .buffer_bytes = 65536, .windows_max = 4, .next_run_id = 1};

	config.chunk_rows_max = 1 + feed_u8(&g->f);
	config.chunk_bytes = 16 * feed_u8(&g->f);
	g->copier = copier_create(&config, (struct copier_sink){.ctx = g, .emit = emit});
	for (uint8_t n = feed_u8(&g->f) % 4; n > 0; n--) {
		struct unseen_entry e = {LSN(g->lsn - n), XID(g->xid - n)};

		copier_load_unseen(g->copier, &e, 1);
	}
	copier_stream_position(g->copier, LSN(g->lsn));
	for (unsigned i = 0; i < TABLES; i++)
		set_table(g, i);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct game g = {.lsn = 0x100000, .xid = 700, .now_us = 1000000};
	struct feed f = feed_of(data, size);

	g.f = feed_step(&f);
	begin(&g);
	for (int i = 0; i < STEPS_MAX && feed_left(&f) > 0; i++) {
		g.f = feed_step(&f);
		step(&g);
	}
	copier_destroy(g.copier);
	return 0;
}
