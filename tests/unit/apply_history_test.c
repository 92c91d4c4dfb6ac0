/*
 * Random histories of operations, applied by the applier and by a model that
 * says the rules once more over plain arrays. After every commit the store must
 * be what the model is: entries, doubts, counters, positions, runs, answers.
 * Seeds are fixed; a failure names its seed.
 */
#include "apply_fixture.h"

#define HISTORIES 300
#define STEPS     60
#define KEYS      10
#define RUNS      64

/* ---- chance ---- */

static uint64_t chance_state;

static uint32_t chance(uint32_t n)
{
	chance_state ^= chance_state << 13;
	chance_state ^= chance_state >> 7;
	chance_state ^= chance_state << 17;
	return (uint32_t)(chance_state >> 33) % n;
}

static bool one_in(uint32_t n)
{
	return chance(n) == 0;
}

/* ---- the model ---- */

enum { COL_K, COL_A, COL_B, COL_C, COLS };
static const char *const VERSION[] = {NULL, "kab", "kbca", "kac"};
#define VERSIONS 3

static bool has_column(uint32_t version, int col)
{
	return strchr(VERSION[version], "kabc"[col]);
}

struct value {
	enum cell_kind kind;
	int text;
	bool doubt;
};

struct row {
	bool present, deleted;
	struct pos pos;
	uint32_t version;
	uint64_t born;
	struct value v[COLS]; /* COL_K is not used */
};

struct run_model {
	bool open;
	struct run_record r;
};

struct model {
	struct row row[KEYS];
	struct pos floor, high, trust;
	uint64_t end; /* checkpoint */
	uint32_t version;
	uint64_t next_run;
	struct run_model run[RUNS];
};

static bool live(const struct row *r)
{
	return r->present && !r->deleted;
}

static bool in_doubt(const struct row *r)
{
	for (int c = COL_A; c < COLS; c++)
		if (has_column(r->version, c) && r->v[c].doubt) return true;
	return false;
}

static bool is_hidden(const struct row *r)
{
	for (int c = COL_A; c < COLS; c++)
		if (has_column(r->version, c) && r->v[c].kind == CELL_ABSENT) return true;
	return false;
}

static bool admits(const struct model *m, int k, struct pos pos)
{
	return pos_cmp(m->row[k].present ? m->row[k].pos : m->floor, pos) < 0;
}

static void raise_high(struct model *m, struct pos pos)
{
	if (pos_cmp(pos, m->high) > 0) m->high = pos;
}

static void set(struct model *m, int k, const struct row *r)
{
	m->row[k] = *r;
	raise_high(m, r->pos);
}

static void set_deleted(struct model *m, int k, struct pos pos)
{
	struct row gone = {.present = true, .deleted = true, .pos = pos};

	set(m, k, &gone);
}

static void complete(const struct model *m, struct row *new, int k, int src)
{
	const struct row *from = src >= 0 && live(&m->row[src]) ? &m->row[src] : NULL;
	bool trusted = from && pos_cmp(from->pos, m->trust) >= 0 && pos_cmp(from->pos, new->pos) < 0;
	bool new_doubt = false;

	if (!from && live(&m->row[k])) from = &m->row[k];
	for (int c = COL_A; c < COLS; c++) {
		if (!has_column(new->version, c) || new->v[c].kind != CELL_ABSENT) continue;
		if (from && has_column(from->version, c)) new->v[c] = from->v[c];
		if (!(trusted && has_column(from->version, c))) {
			new->v[c].doubt = true;
			new_doubt = true;
		}
	}
	if (in_doubt(new) && !new_doubt && src == k) new->born = from->born;
}

static void model_upsert(struct model *m, int k, struct row new, int src)
{
	if (!admits(m, k, new.pos)) return;
	if (is_hidden(&new)) complete(m, &new, k, src);
	if (!in_doubt(&new)) new.born = 0;
	set(m, k, &new);
}

static void model_truncate(struct model *m, struct pos pos)
{
	if (pos_cmp(pos, m->floor) <= 0) return;
	m->floor = pos;
	raise_high(m, pos);
	for (int k = 0; k < KEYS; k++)
		if (pos_cmp(m->row[k].pos, pos) < 0) m->row[k].present = false;
}

static bool same_values(const struct row *a, const struct row *b)
{
	if (a->version != b->version) return false;
	for (int c = COL_A; c < COLS; c++)
		if (has_column(a->version, c) && (a->v[c].kind != b->v[c].kind || a->v[c].text != b->v[c].text))
			return false;
	return true;
}

struct snapshot {
	uint64_t xmin, xmax, xip[3];
	bool standby;
};

static bool snapshot_sees(const struct snapshot *s, uint64_t xid)
{
	if (xid < s->xmin) return true;
	return !s->standby && xid < s->xmax && xid != s->xip[0] && xid != s->xip[1] && xid != s->xip[2];
}

static void fill(struct row *r, const struct row *chunk, struct run_record *n)
{
	bool any = false;

	for (int c = COL_A; c < COLS; c++) {
		if (!has_column(r->version, c) || !r->v[c].doubt || !has_column(chunk->version, c)) continue;
		r->v[c] = chunk->v[c];
		any = true;
	}
	if (any)
		n->rows_filled++;
	else
		n->rows_newer++;
	if (!in_doubt(r)) r->born = 0;
}

static void model_chunk_row(struct model *m, int k, const struct row *new, const struct snapshot *s,
							struct run_record *n)
{
	struct row *old = &m->row[k];
	bool whole = live(old) && !in_doubt(old);

	if (admits(m, k, new->pos)) {
		if (whole && same_values(old, new))
			n->rows_same++;
		else
			n->rows_written++;
		set(m, k, new);
	} else if (live(old) && !whole && snapshot_sees(s, old->born)) {
		fill(old, new, n);
	} else if (whole && pos_cmp(old->pos, new->pos) == 0 && same_values(old, new)) {
		n->rows_same++;
	} else {
		n->rows_newer++;
	}
}

static void model_chunk_gone(struct model *m, int k, struct pos bound, struct run_record *n)
{
	if (!m->row[k].present || pos_cmp(m->row[k].pos, bound) >= 0) return;
	if (live(&m->row[k])) n->rows_swept++;
	set_deleted(m, k, bound);
}

static bool any_open_run(const struct model *m)
{
	for (uint64_t i = 1; i < m->next_run; i++)
		if (m->run[i].open) return true;
	return false;
}

/* ---- a history ---- */

struct history {
	struct fixture f;
	struct model now, committed;
	uint64_t clock, xid;
	int texts;
	struct batch *b;
	/* What the next commit must answer to the question asked last. */
	bool asked;
	char keys[256];
	bool end;
};

static struct cell cell_of(struct batch *b, const struct value *v)
{
	char text[16];

	if (v->kind == CELL_NULL) return text_cell(NULL);
	if (v->kind == CELL_ABSENT) return absent_cell();
	snprintf(text, sizeof text, "v%d", v->text);
	return text_cell(arena_strdup(&b->arena, text));
}

static size_t cells_of(struct batch *b, int k, const struct row *r, struct cell *out)
{
	const char *names = VERSION[r->version];
	size_t n = strlen(names);

	out[0] = (struct cell){.kind = CELL_TEXT, .text = int_text(&b->arena, k)};
	for (size_t i = 1; i < n; i++)
		out[i] = cell_of(b, &r->v[strchr("kabc", names[i]) - "kabc"]);
	return n;
}

static void set_body(struct batch *b, struct op *op, int k, const struct row *r)
{
	struct cell cells[COLS];
	size_t n = cells_of(b, k, r, cells);

	set_row(b, op, r->pos, r->version, r->born, (struct slice){0}, cells, n);
}

static struct row random_row(struct history *h, struct pos pos, bool whole)
{
	struct row r = {.present = true, .pos = pos, .version = h->now.version};

	if (one_in(8)) r.version = 1 + chance(h->now.version);
	for (int c = COL_A; c < COLS; c++) {
		r.v[c].kind = one_in(8) ? CELL_NULL : CELL_TEXT;
		if (r.v[c].kind == CELL_TEXT) r.v[c].text = one_in(3) ? (int)chance(3) : ++h->texts;
		if (!whole && one_in(3)) r.v[c] = (struct value){.kind = CELL_ABSENT, .doubt = true};
	}
	return r;
}

static void put(struct history *h, struct pos pos, int k, int src)
{
	struct op *op = batch_add(h->b, OP_UPSERT);
	struct row r = random_row(h, pos, one_in(2));

	if (is_hidden(&r)) r.born = h->xid;
	op->table_id = 1;
	op->pos = pos;
	op->key = int_key(&h->b->arena, k);
	if (src >= 0) op->src_key = int_key(&h->b->arena, src);
	set_body(h->b, op, k, &r);
	model_upsert(&h->now, k, r, src);
}

static void del(struct history *h, struct pos pos, int k)
{
	add_delete(h->b, 1, pos, k);
	if (admits(&h->now, k, pos)) set_deleted(&h->now, k, pos);
}

static void change(struct history *h, uint64_t lsn, uint64_t *ordinal)
{
	int k = (int)chance(KEYS), other = (int)chance(KEYS);

	switch (chance(12)) {
	case 0: put(h, at(lsn, ++*ordinal), k, -1); break;
	case 1:
	case 2: del(h, at(lsn, ++*ordinal), k); break;
	case 3:
	case 4: /* a key change */
		put(h, at(lsn, ++*ordinal), k, other);
		if (other != k) del(h, at(lsn, ++*ordinal), other);
		break;
	case 5:
		if (!one_in(3)) break;
		add_truncate(h->b, 1, at(lsn, ++*ordinal));
		model_truncate(&h->now, at(lsn, *ordinal));
		break;
	default: put(h, at(lsn, ++*ordinal), k, k);
	}
}

/* Now and then one from the past, whose positions may be those of others. */
static void transaction(struct history *h)
{
	uint64_t lsn = h->clock += 1 + chance(3), ordinal = 0;

	h->xid++;
	if (one_in(5)) lsn = 1 + chance((uint32_t)h->clock);
	for (uint32_t n = 1 + chance(4); n > 0; n--)
		change(h, lsn, &ordinal);
	h->now.end = ++h->clock;
	add_commit(h->b, lsn, h->now.end, h->xid);
}

static const char *random_snapshot(struct history *h, struct snapshot *s, char out[128])
{
	s->xmin = 1 + chance((uint32_t)h->xid + 1);
	s->xmax = s->xmin + chance(8);
	s->standby = one_in(4);
	for (int i = 0; i < 3; i++)
		s->xip[i] = s->xmin + (uint64_t)i * 2;
	snprintf(out, 128, "%llu:%llu:%llu,%llu,%llu", (unsigned long long)s->xmin, (unsigned long long)s->xmax,
			 (unsigned long long)s->xip[0], (unsigned long long)s->xip[1], (unsigned long long)s->xip[2]);
	return out;
}

/* The record a chunk counts in, NULL if its run has ended. Run 0 has none. */
static struct run_record *chunk_run(struct history *h, uint64_t id, struct run_record *none)
{
	if (id == 0) return none;
	return h->now.run[id].open ? &h->now.run[id].r : NULL;
}

static void chunk_keys(struct history *h, struct pos bound, const struct snapshot *s, struct run_record *n)
{
	for (int k = 0; k < KEYS; k++) {
		struct row r = random_row(h, bound, true);
		struct op *op;

		if (one_in(2)) continue;
		if (one_in(4)) {
			add_gone(h->b, 1, k);
			if (n) model_chunk_gone(&h->now, k, bound, n);
			continue;
		}
		op = batch_add(h->b, OP_CHUNK_ROW);
		op->table_id = 1;
		op->key = int_key(&h->b->arena, k);
		set_body(h->b, op, k, &r);
		op->flags = one_in(5) ? OP_F_SUPERSEDED : 0;
		if (n && op->flags)
			n->rows_superseded++;
		else if (n)
			model_chunk_row(&h->now, k, &r, s, n);
	}
}

static void chunk(struct history *h)
{
	uint64_t run = chance((uint32_t)h->now.next_run), bound = 1 + chance((uint32_t)h->clock + 1);
	struct run_record none = {0}, *n = chunk_run(h, run, &none);
	struct snapshot s;
	char text[128];
	struct op_chunk *c = add_chunk(h->b, 1, run, bound, random_snapshot(h, &s, text));

	c->standby = s.standby;
	c->moves_cursor = true;
	c->rows_read = chance(5);
	if (n) {
		n->chunks++;
		n->rows_read += c->rows_read;
		if (n->chunks == 1 || bound < n->lowest_bound.lsn.v) n->lowest_bound = at(bound, 0);
	}
	chunk_keys(h, at(bound, 0), &s, n);
}

static void start_run(struct history *h)
{
	struct run_model *r = &h->now.run[h->now.next_run];

	if (h->now.next_run == RUNS) return;
	*r = (struct run_model){.open = true};
	add_run(h->b, h->now.next_run++, 1);
	if (h->now.end > 0 && pos_cmp(at(h->now.end, 0), h->now.trust) > 0) h->now.trust = at(h->now.end, 0);
}

static void stop_run(struct history *h)
{
	uint64_t id = chance((uint32_t)h->now.next_run);

	if (id == 0) return;
	batch_add_run_state(h->b, 1, id, RUN_STOPPED, 5);
	h->now.run[id].open = false;
	if (!any_open_run(&h->now)) h->now.trust = POS_NONE;
}

static void new_version(struct history *h)
{
	if (h->now.version == VERSIONS) return;
	h->now.version++;
	add_schema(h->b, 1, h->now.version, VERSION[h->now.version], 23);
}

/* ---- questions ---- */

static bool is_listed(const struct row *r, enum op_kind kind, struct pos below)
{
	return live(r) && (kind == OP_LIST_DOUBT ? in_doubt(r) : pos_cmp(r->pos, below) < 0);
}

static void expect_answer(struct history *h, const struct op *op, int after)
{
	uint32_t n = 0, looked = 0;
	size_t len = 0;
	bool doubt = op->kind == OP_LIST_DOUBT;

	h->asked = h->end = true;
	h->keys[0] = '\0';
	for (int k = after + 1; k < KEYS; k++) {
		const struct row *r = &h->now.row[k];

		if (!r->present || (doubt && !is_listed(r, OP_LIST_DOUBT, POS_NONE))) continue;
		if (n == op->u.list.limit || (!doubt && looked == op->u.list.scan_limit)) {
			h->end = false;
			return;
		}
		looked++;
		if (!is_listed(r, op->kind, op->pos)) continue;
		n++;
		len += (size_t)snprintf(h->keys + len, sizeof h->keys - len, "%d ", k);
	}
}

static void question(struct history *h)
{
	struct op *op = batch_add(h->b, one_in(2) ? OP_LIST_DOUBT : OP_LIST_SUSPECTS);
	int after = (int)chance(KEYS) - 1;

	op->table_id = 1;
	op->pos = at(1 + chance((uint32_t)h->clock + 1), 0);
	op->u.list.limit = 1 + chance(5);
	op->u.list.scan_limit = 1 + chance(8);
	if (after >= 0) op->key = int_key(&h->b->arena, after);
	expect_answer(h, op, after);
}

static void check_keys(struct history *h, const struct answer *x)
{
	char text[256] = "";

	for (size_t i = 0, n = 0; i < x->nkeys; i++)
		n += (size_t)snprintf(text + n, sizeof text - n, "%.*s ", (int)x->keys[i].texts[0].n,
							  (const char *)x->keys[i].texts[0].p);
	assert_string_equal(text, h->keys);
	assert_int_equal(x->end, h->end);
}

static void check_answers(struct history *h, uint64_t doubt, uint64_t doubt_before)
{
	struct answer *list = applier_take_answers(h->f.applier), *last_keys = NULL;
	uint64_t announced = doubt_before;

	for (struct answer *x = list; x; x = x->next) {
		if (x->kind == ANSWER_KEYS)
			last_keys = x;
		else
			announced = x->count;
	}
	assert_int_equal(announced, doubt);
	assert_int_equal(last_keys != NULL, h->asked);
	if (last_keys) check_keys(h, last_keys);
	h->asked = false;
	answers_destroy(list);
}

/* ---- comparing ---- */

static void check_value(const struct cell *c, const struct value *v)
{
	char text[16];

	assert_int_equal(c->kind, v->kind);
	assert_int_equal(c->doubt, v->doubt);
	snprintf(text, sizeof text, "v%d", v->text);
	if (v->kind == CELL_TEXT) assert_true(slice_eq(c->text, slice_of(text)));
}

static void check_entry(struct slice entry, const struct row *r)
{
	struct err err = {0};
	struct row_head head;
	struct cell cells[COLS];
	size_t n = r->deleted ? 0 : strlen(VERSION[r->version]);

	CHECK(row_decode(entry, n, &head, cells, &err));
	assert_int_equal(pos_cmp(head.pos, r->pos), 0);
	assert_int_equal((head.flags & ROW_DELETED) != 0, r->deleted);
	if (r->deleted) return;
	assert_int_equal(head.version, r->version);
	assert_int_equal(head.born.v, r->born);
	for (size_t i = 1; i < n; i++)
		check_value(&cells[i], &r->v[strchr("kabc", VERSION[r->version][i]) - "kabc"]);
}

static void check_rows(struct history *h)
{
	struct err err = {0};
	struct store_txn *txn;
	struct arena arena = {0};
	struct slice entry;
	bool found;

	CHECK(store_begin_read(h->f.store, &txn, &err));
	for (int k = 0; k < KEYS; k++) {
		CHECK(store_row_get(txn, 1, int_key(&arena, k), &entry, &found, &err));
		assert_int_equal(found, h->now.row[k].present);
		if (found) check_entry(entry, &h->now.row[k]);
	}
	store_abort(txn);
	arena_finish(&arena);
}

static uint64_t count_doubt(const struct model *m)
{
	uint64_t n = 0;

	for (int k = 0; k < KEYS; k++)
		n += live(&m->row[k]) && in_doubt(&m->row[k]);
	return n;
}

static void check_table(struct history *h)
{
	struct table_record t = table_now(&h->f, 1);
	uint64_t visible = 0, hidden = 0, markers = 0;

	for (int k = 0; k < KEYS; k++) {
		const struct row *r = &h->now.row[k];

		markers += r->present && r->deleted;
		hidden += live(r) && is_hidden(r);
		visible += live(r) && !is_hidden(r);
	}
	assert_counters(&h->f, 1, visible, hidden, count_doubt(&h->now), markers);
	assert_int_equal(pos_cmp(t.floor, h->now.floor), 0);
	assert_int_equal(pos_cmp(t.high, h->now.high), 0);
	assert_int_equal(pos_cmp(t.trust, h->now.trust), 0);
	assert_int_equal(t.schema_version, h->now.version);
	table_record_free(&t);
}

static void check_runs(struct history *h)
{
	for (uint64_t i = 1; i < h->now.next_run; i++) {
		struct run_record r = run_now(&h->f, i);
		const struct run_record *want = &h->now.run[i].r;

		assert_int_equal(run_record_is_open(&r), h->now.run[i].open);
		assert_int_equal(r.chunks, want->chunks);
		assert_int_equal(r.rows_read, want->rows_read);
		assert_int_equal(r.rows_written, want->rows_written);
		assert_int_equal(r.rows_same, want->rows_same);
		assert_int_equal(r.rows_superseded, want->rows_superseded);
		assert_int_equal(r.rows_newer, want->rows_newer);
		assert_int_equal(r.rows_filled, want->rows_filled);
		assert_int_equal(r.rows_swept, want->rows_swept);
		assert_int_equal(pos_cmp(r.lowest_bound, want->lowest_bound), 0);
		run_record_free(&r);
	}
}

/* ---- running it ---- */

static void flush(struct history *h)
{
	apply_take(&h->f, h->b);
	h->b = batch_create();
}

static void commit_and_check(struct history *h)
{
	flush(h);
	commit_now(&h->f);
	check_rows(h);
	check_table(h);
	check_runs(h);
	check_answers(h, count_doubt(&h->now), count_doubt(&h->committed));
	assert_int_equal(applier_committed(h->f.applier).lsn.v, h->now.end);
	h->committed = h->now;
}

static void restart(struct history *h)
{
	struct err err = {0};

	applier_destroy(h->f.applier);
	CHECK(applier_create(h->f.store, &h->f.applier, &err));
	answers_destroy(applier_take_answers(h->f.applier));
}

/* As after a failure or a kill: everything since the commit is gone. */
static void crash(struct history *h)
{
	flush(h);
	if (one_in(2))
		applier_abort(h->f.applier);
	else
		restart(h);
	h->now = h->committed;
	h->asked = false;
}

static void step(struct history *h)
{
	switch (chance(16)) {
	case 0:
	case 1:
	case 2:
	case 3: chunk(h); break;
	case 4: start_run(h); break;
	case 5: stop_run(h); break;
	case 6: question(h); break;
	case 7:
		if (one_in(3)) new_version(h);
		break;
	case 8: flush(h); break;
	case 9:
		if (one_in(3)) crash(h);
		break;
	default: transaction(h);
	}
	if (one_in(4)) commit_and_check(h);
}

static void history(uint64_t seed)
{
	struct history *h = calloc(1, sizeof *h);

	chance_state = seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
	fixture_open(&h->f);
	fixture_tables(&h->f, 1);
	h->now.version = 1;
	h->now.next_run = 1;
	h->committed = h->now;
	h->clock = h->xid = 1;
	h->b = batch_create();
	for (int i = 0; i < STEPS; i++)
		step(h);
	commit_and_check(h);
	batch_destroy(h->b);
	fixture_close(&h->f);
	free(h);
}

static uint64_t seed_running; /* 0: none */

/* SEED=n in the environment: that history alone. */
static void random_histories_end_as_the_model_says(void **state)
{
	const char *only = getenv("SEED");

	(void)state;
	for (uint64_t seed = 1; seed <= HISTORIES; seed++) {
		if (only && strtoull(only, NULL, 10) != seed) continue;
		seed_running = seed;
		history(seed);
	}
	seed_running = 0;
}

static int name_seed(void **state)
{
	(void)state;
	if (seed_running) print_error("the history that failed: SEED=%llu\n", (unsigned long long)seed_running);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(random_histories_end_as_the_model_says, name_seed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
