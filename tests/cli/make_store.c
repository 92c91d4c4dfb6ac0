/*
 * tests/cli/make_store.c - a daemon without a source: writes a store as told
 * on standard input, through the applier.
 *
 *     make_store DIR
 *
 * A line is a command and its words, with tabs between them, each escaped as
 * COPY text is (\N is SQL NULL, \A a value that the log did not send):
 *
 *     lineage SYSTEM TIMELINE SLOT PUBLICATION SOURCE VERSION
 *     table ID OID SCHEMA NAME STATE          STATE: enum table_state, a number
 *     schema ID VERSION NKEYS KEY... (NAME OID TYPE)...   KEY: number of a column, from 0
 *     at COMMIT_LSN                           of the changes that follow
 *     upsert ID VALUE...                      a row as inserted
 *     fill ID FROM TO                         rows whose every column is a number from FROM to TO
 *     delete ID KEY...
 *     commit COMMIT_LSN END_LSN XID TIME_US   everything so far is in the store when "ok" is printed
 *     stage                                   the next transaction is staged
 *     part                                    what came of it so far is in the stage when "ok" is printed
 *     move                                    an entry of the overlay at least is moved when "ok" is printed
 *     position LSN                            likewise, of an idle source
 *     run ID TABLE KIND REQUESTER STARTED_US
 *     chunk RUN TABLE SNAPSHOT HIGH ROWS      a page of rows that were all superseded
 *     runstate RUN TABLE STATE TIME_US
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "apply/applier.h"
#include "state/key.h"
#include "state/store.h"

#define WORDS_MAX  2000
#define TABLES_MAX 64

struct word {
	char *text; /* unescaped */
	size_t n;
	enum cell_kind kind;
};

struct maker {
	struct store *store;
	struct applier *applier;
	struct batch *batch;
	struct schema *schemas[TABLES_MAX]; /* by table id */
	lsn_t lsn;                          /* of the transaction being made */
	uint64_t ordinal;
	struct word words[WORDS_MAX];
	size_t n;
	struct err err;
};

static void fail(const char *what)
{
	fprintf(stderr, "make_store: %s\n", what);
	exit(1);
}

/* ---- words ---- */

static char unescape(char c)
{
	static const char letters[] = "bfnrtv", values[] = "\b\f\n\r\t\v";
	const char *at = strchr(letters, c);

	return at ? values[at - letters] : c;
}

static void read_word(struct word *w, char *s)
{
	char *to = s;

	*w = (struct word){s, 0, CELL_TEXT};
	if (strcmp(s, "\\N") == 0)
		w->kind = CELL_NULL;
	else if (strcmp(s, "\\A") == 0)
		w->kind = CELL_ABSENT;
	for (; *s; s++)
		*to++ = *s == '\\' ? unescape(*++s) : *s;
	*to = '\0';
	w->n = (size_t)(to - w->text);
}

static void split(struct maker *m, char *line)
{
	line[strcspn(line, "\n")] = '\0';
	for (m->n = 0; line && m->n < WORDS_MAX; m->n++)
		read_word(&m->words[m->n], strsep(&line, "\t"));
}

static const char *text(const struct maker *m, size_t i)
{
	if (i >= m->n) fail("a word is missing");
	return m->words[i].text;
}

static uint64_t number(const struct maker *m, size_t i)
{
	return strtoull(text(m, i), NULL, 10);
}

static lsn_t lsn(const struct maker *m, size_t i)
{
	lsn_t v;

	if (!lsn_parse(text(m, i), &v)) fail("not an LSN");
	return v;
}

static struct schema *schema_of(const struct maker *m, uint64_t table)
{
	if (table >= TABLES_MAX || !m->schemas[table]) fail("no schema for that table");
	return m->schemas[table];
}

/* ---- commands ---- */

static void do_lineage(struct maker *m)
{
	const struct lineage l = {
		.system_id = number(m, 1),
		.timeline = (uint32_t)number(m, 2),
		.slot = text(m, 3),
		.publication = text(m, 4),
		.source = text(m, 5),
		.source_version = (uint32_t)number(m, 6),
	};

	batch_add_lineage(m->batch, &l);
}

static void do_table(struct maker *m)
{
	const struct table_record t = {
		.id = (uint32_t)number(m, 1),
		.oid = (uint32_t)number(m, 2),
		.schema_name = text(m, 3),
		.table_name = text(m, 4),
		.state = (uint8_t)number(m, 5),
	};

	batch_add_table(m->batch, &t);
}

static void do_schema(struct maker *m)
{
	uint64_t id = number(m, 1);
	size_t nkeys = number(m, 3), first = 4 + nkeys;
	uint16_t keys[KEY_COLUMNS_MAX];
	uint8_t kinds[KEY_COLUMNS_MAX];
	struct column columns[WORDS_MAX / 3];
	struct schema s = {.table_id = (uint32_t)id,
					   .version = (uint32_t)number(m, 2),
					   .columns = columns,
					   .nkeys = (uint16_t)nkeys,
					   .key_columns = keys,
					   .key_kinds = kinds};

	for (size_t i = first; i + 2 < m->n; i += 3)
		columns[s.ncolumns++] = (struct column){.name = text(m, i),
												.type_oid = (uint32_t)number(m, i + 1),
												.typmod = -1,
												.type_name = text(m, i + 2),
												.type_class = type_class_of((uint32_t)number(m, i + 1))};
	for (size_t i = 0; i < nkeys && i < KEY_COLUMNS_MAX; i++) {
		keys[i] = (uint16_t)number(m, 4 + i);
		kinds[i] = (uint8_t)key_kind_of_type(columns[keys[i]].type_oid);
	}
	batch_add_schema(m->batch, &s);
	if (id >= TABLES_MAX) fail("table id too high");
	schema_free(m->schemas[id]);
	m->schemas[id] = schema_copy(&s);
}

/* The encoded key in the batch's memory; the full key is in *full when it is a long one, else *full is empty.
 */
static struct slice put_key(struct maker *m, const struct schema *s, const struct slice *texts,
							struct buf *full)
{
	enum key_kind kinds[KEY_COLUMNS_MAX];
	uint8_t key[KEY_MAX];
	size_t n;
	bool is_long;

	schema_key_kinds(s, kinds);
	if (!key_encode(kinds, texts, s->nkeys, key, &n, full, &is_long, &m->err)) fail(m->err.msg);
	if (!is_long) buf_reset(full);
	return (struct slice){arena_copy(&m->batch->arena, key, n), n};
}

static void put_upsert(struct maker *m, const struct schema *s, const struct cell *cells)
{
	struct op *op = batch_add(m->batch, OP_UPSERT);
	struct slice texts[KEY_COLUMNS_MAX];
	struct buf full = {0}, row = {0};

	for (size_t i = 0; i < s->nkeys; i++)
		texts[i] = cells[s->key_columns[i]].text;
	op->table_id = s->table_id;
	op->pos = (struct pos){0, m->lsn, ++m->ordinal};
	op->key = put_key(m, s, texts, &full);
	op->flags = full.n ? OP_F_LONG_KEY : 0;
	row_encode(&row, op->pos, s->version, XID(700), (struct slice){full.p, full.n}, cells, s->ncolumns);
	op->body = arena_copy(&m->batch->arena, row.p, row.n);
	op->body_len = row.n;
	buf_finish(&row);
	buf_finish(&full);
}

static void do_upsert(struct maker *m)
{
	const struct schema *s = schema_of(m, number(m, 1));
	struct cell cells[WORDS_MAX];

	if (m->n - 2 != s->ncolumns) fail("wrong number of values");
	for (size_t i = 0; i < s->ncolumns; i++) {
		const struct word *w = &m->words[i + 2];

		cells[i] = (struct cell){w->kind, w->kind == CELL_ABSENT, {(const uint8_t *)w->text, w->n}};
	}
	put_upsert(m, s, cells);
}

/* Applies what the batch holds and begins another, so that a long fill stays small. */
static void apply_batch(struct maker *m)
{
	if (!applier_apply(m->applier, m->batch, &m->err)) fail(m->err.msg);
	batch_destroy(m->batch);
	m->batch = batch_create();
}

static void do_fill(struct maker *m)
{
	const struct schema *s = schema_of(m, number(m, 1));
	uint64_t from = number(m, 2), to = number(m, 3);
	struct cell cells[WORDS_MAX];
	char digits[24];

	for (uint64_t v = from; v <= to; v++) {
		struct slice value = {(const uint8_t *)digits,
							  (size_t)snprintf(digits, sizeof digits, "%" PRIu64, v)};

		for (size_t i = 0; i < s->ncolumns; i++)
			cells[i] = (struct cell){CELL_TEXT, false, value};
		put_upsert(m, s, cells);
		if (m->batch->n >= 10000) apply_batch(m);
	}
}

static void do_delete(struct maker *m)
{
	const struct schema *s = schema_of(m, number(m, 1));
	struct op *op = batch_add(m->batch, OP_DELETE);
	struct slice texts[KEY_COLUMNS_MAX];
	struct buf full = {0};

	for (size_t i = 0; i < s->nkeys; i++)
		texts[i] = slice_of(text(m, 2 + i));
	op->table_id = s->table_id;
	op->pos = (struct pos){0, m->lsn, ++m->ordinal};
	op->key = put_key(m, s, texts, &full);
	op->flags = full.n ? OP_F_LONG_KEY : 0;
	op->body = full.n ? arena_copy(&m->batch->arena, full.p, full.n) : NULL;
	op->body_len = full.n;
	buf_finish(&full);
}

static void do_run(struct maker *m)
{
	const struct run_record r = {.id = number(m, 1),
								 .table_id = (uint32_t)number(m, 2),
								 .kind = (uint8_t)number(m, 3),
								 .state = RUN_COPYING,
								 .requester = text(m, 4),
								 .gate = "",
								 .first_snapshot = "",
								 .last_snapshot = "",
								 .started_us = (int64_t)number(m, 5)};

	batch_add_run(m->batch, &r);
}

static void do_chunk(struct maker *m)
{
	struct op *op = batch_add(m->batch, OP_CHUNK);
	struct op_chunk *chunk = arena_alloc(&m->batch->arena, sizeof *chunk);

	*chunk = (struct op_chunk){.snapshot = arena_strdup(&m->batch->arena, text(m, 3)),
							   .high = lsn(m, 4),
							   .moves_cursor = true,
							   .cursor = {arena_copy(&m->batch->arena, "\1a", 2), 2},
							   .rows_read = (uint32_t)number(m, 5)};
	op->table_id = (uint32_t)number(m, 2);
	op->pos = (struct pos){0, chunk->high, 0};
	op->u.run.run_id = number(m, 1);
	op->u.run.chunk = chunk;
}

static void do_run_state(struct maker *m)
{
	batch_add_run_state(m->batch, (uint32_t)number(m, 2), number(m, 1), (enum run_state)number(m, 3),
						(int64_t)number(m, 4));
}

static int64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void ok(void)
{
	puts("ok");
	fflush(stdout);
}

static void do_stage(struct maker *m)
{
	applier_stage(m->applier);
}

static void do_part(struct maker *m)
{
	apply_batch(m);
	if (!applier_stage_commit(m->applier, &m->err)) fail(m->err.msg);
	ok();
}

static void do_move(struct maker *m)
{
	if (!applier_move(m->applier, 1, &m->err) || !applier_commit(m->applier, now_us(), &m->err))
		fail(m->err.msg);
	ok();
}

static void finish_transaction(struct maker *m)
{
	apply_batch(m);
	if (!applier_commit(m->applier, now_us(), &m->err)) fail(m->err.msg);
	for (struct answer *a = applier_take_answers(m->applier), *next; a; a = next) {
		next = a->next;
		answer_destroy(a);
	}
	m->ordinal = 0;
	ok();
}

static void do_commit(struct maker *m)
{
	struct op *op = batch_add(m->batch, OP_COMMIT);

	op->pos = (struct pos){0, lsn(m, 1), 0};
	op->flags = OP_F_CHANGES;
	op->u.commit.lsn = lsn(m, 2);
	op->u.commit.xid = XID(number(m, 3));
	op->u.commit.time_us = (int64_t)number(m, 4);
	finish_transaction(m);
}

static void do_position(struct maker *m)
{
	struct op *op = batch_add(m->batch, OP_POSITION);

	op->u.commit.lsn = lsn(m, 1);
	finish_transaction(m);
}

static void do_at(struct maker *m)
{
	m->lsn = lsn(m, 1);
}

static const struct {
	const char *word;
	void (*run)(struct maker *);
} commands[] = {
	{"lineage", do_lineage},   {"table", do_table}, {"schema", do_schema}, {"at", do_at},
	{"upsert", do_upsert},     {"fill", do_fill},   {"delete", do_delete}, {"commit", do_commit},
	{"position", do_position}, {"run", do_run},     {"chunk", do_chunk},   {"runstate", do_run_state},
	{"stage", do_stage},       {"part", do_part},   {"move", do_move},
};

static void run_line(struct maker *m, char *line)
{
	split(m, line);
	for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
		if (strcmp(text(m, 0), commands[i].word) == 0) {
			commands[i].run(m);
			return;
		}
	}
	fail("unknown command");
}

int main(int argc, char **argv)
{
	static struct maker m;
	char *line = NULL;
	size_t cap = 0;

	if (argc != 2) fail("usage: make_store DIR < commands");
	if (!store_open(argv[1], STORE_WRITE, &m.store, &m.err) || !applier_create(m.store, &m.applier, &m.err))
		fail(m.err.msg);
	m.batch = batch_create();
	while (getline(&line, &cap, stdin) > 0)
		run_line(&m, line);
	free(line);
	batch_destroy(m.batch);
	applier_destroy(m.applier);
	store_close(m.store);
	for (size_t i = 0; i < TABLES_MAX; i++)
		schema_free(m.schemas[i]);
	return 0;
}
