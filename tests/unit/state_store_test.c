#include "tests/unit/state_store_fixture.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "tests/unit/state_property.h"

/* ---- records ---- */

static void put_meta(struct store_txn *t)
{
	struct checkpoint c = {
		.epoch = 3, .lsn = LSN(900), .commit_lsn = LSN(800), .commit_time_us = 7, .written_us = 8};
	struct lineage l = {.system_id = 42,
						.timeline = 2,
						.slot = "s",
						.publication = "p",
						.source = "h/d",
						.source_version = 150000};
	struct err err;

	CHECK(store_put_checkpoint(t, &c, &err));
	CHECK(store_put_lineage(t, &l, &err));
}

static void check_meta(struct store_txn *t)
{
	struct checkpoint c;
	struct lineage l;
	struct err err;
	bool found;

	CHECK(store_get_checkpoint(t, &c, &found, &err));
	assert_true(found);
	assert_int_equal(c.epoch, 3);
	assert_int_equal(c.lsn.v, 900);
	CHECK(store_get_lineage(t, &l, &found, &err));
	assert_true(found);
	assert_int_equal(l.system_id, 42);
	assert_string_equal(l.slot, "s");
	lineage_free(&l);
}

static void checkpoint_and_lineage_are_kept(void **state)
{
	struct place *p = *state;
	struct store *s;
	struct store_txn *t;
	struct checkpoint c;
	struct lineage l;
	struct err err;
	bool found;

	CHECK(store_open(p->dir, STORE_WRITE, &s, &err));
	CHECK(store_begin_write(s, &t, &err));
	CHECK(store_get_checkpoint(t, &c, &found, &err));
	assert_false(found);
	CHECK(store_get_lineage(t, &l, &found, &err));
	assert_false(found);
	put_meta(t);
	check_meta(t);
	CHECK(store_commit(t, &err));
	store_close(s);
	CHECK(store_open(p->dir, STORE_READ, &s, &err));
	CHECK(store_begin_read(s, &t, &err));
	check_meta(t);
	store_abort(t);
	store_close(s);
}

static char *backends_in(struct store *s)
{
	struct store_txn *t;
	struct err err;
	char *text;

	CHECK(store_begin_read(s, &t, &err));
	CHECK(store_get_backends(t, &text, &err));
	store_abort(t);
	return text;
}

static char *backends_at(const char *dir)
{
	struct store *s;
	struct err err;
	char *text;

	CHECK(store_open(dir, STORE_READ, &s, &err));
	text = backends_in(s);
	store_close(s);
	return text;
}

static void put_backends(const char *dir, const char *text)
{
	struct store *s;
	struct store_txn *t;
	struct err err;

	CHECK(store_open(dir, STORE_WRITE, &s, &err));
	assert_null(backends_in(s));
	CHECK(store_begin_write(s, &t, &err));
	CHECK(store_put_backends(t, text, &err));
	CHECK(store_commit(t, &err));
	store_close(s);
}

/* Whoever starts on a copy must not end what belongs to the original. */
static void a_copy_does_not_have_the_backends_of_its_original(void **state)
{
	struct place *p = *state;
	char command[300], copy[100], *text;

	put_backends(p->dir, "{\"12 2026-01-01 00:00:00+00\"}");
	text = backends_at(p->dir);
	assert_non_null(text);
	assert_string_equal(text, "{\"12 2026-01-01 00:00:00+00\"}");
	free(text);
	snprintf(copy, sizeof copy, "%s/copy", p->root);
	snprintf(command, sizeof command, "cp -a %s %s", p->dir, copy);
	assert_int_equal(system(command), 0);
	assert_null(backends_at(copy));
	snprintf(command, sizeof command, "mv %s %s.moved", p->dir, p->dir);
	assert_int_equal(system(command), 0);
	snprintf(copy, sizeof copy, "%s.moved", p->dir);
	text = backends_at(copy);
	assert_non_null(text);
	free(text);
}

static void tables_are_listed_in_id_order(void **state)
{
	struct place *p = *state;
	struct store *s = store_with_tables(p->dir, 300);
	struct table_record *all, one;
	struct store_txn *t;
	struct err err;
	bool found;
	size_t n;

	CHECK(store_begin_read(s, &t, &err));
	CHECK(store_list_tables(t, &all, &n, &err));
	assert_int_equal(n, 300);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(all[i].id, i + 1);
		assert_string_equal(all[i].table_name, "t");
		table_record_free(&all[i]);
	}
	free(all);
	CHECK(store_get_table(t, 256, &one, &found, &err));
	assert_true(found);
	assert_int_equal(one.oid, 16256);
	table_record_free(&one);
	CHECK(store_get_table(t, 301, &one, &found, &err));
	assert_false(found);
	store_abort(t);
	store_close(s);
}

static void schemas_are_kept_by_version(void **state)
{
	struct place *p = *state;
	struct column column = {
		.name = "k", .type_oid = 23, .typmod = -1, .type_name = "integer", .type_class = TYPE_INT};
	uint16_t key = 0;
	uint8_t kind = KEY_INT4;
	struct schema s1 = {.table_id = 7,
						.version = 1,
						.ncolumns = 1,
						.nkeys = 1,
						.columns = &column,
						.key_columns = &key,
						.key_kinds = &kind},
				  s2 = s1, *got;
	struct store *s;
	struct store_txn *t;
	struct err err;
	bool found;

	s2.version = 2;
	CHECK(store_open(p->dir, STORE_WRITE, &s, &err));
	CHECK(store_begin_write(s, &t, &err));
	CHECK(store_put_schema(t, &s1, &err));
	column.name = "renamed";
	CHECK(store_put_schema(t, &s2, &err));
	CHECK(store_get_schema(t, 7, 1, &got, &found, &err));
	assert_string_equal(got->columns[0].name, "k");
	schema_free(got);
	CHECK(store_get_schema(t, 7, 2, &got, &found, &err));
	assert_string_equal(got->columns[0].name, "renamed");
	schema_free(got);
	CHECK(store_get_schema(t, 7, 3, &got, &found, &err));
	assert_false(found);
	assert_null(got);
	store_abort(t);
	store_close(s);
}

static void runs_are_listed_oldest_first(void **state)
{
	struct place *p = *state;
	struct run_record r = {.kind = RUN_INITIAL,
						   .state = RUN_COPYING,
						   .requester = "run",
						   .gate = "",
						   .first_snapshot = "",
						   .last_snapshot = ""},
					  *all;
	struct store *s;
	struct store_txn *t;
	struct err err;
	bool found;
	size_t n;

	CHECK(store_open(p->dir, STORE_WRITE, &s, &err));
	CHECK(store_begin_write(s, &t, &err));
	for (r.id = 300; r.id > 0; r.id--)
		CHECK(store_put_run(t, &r, &err));
	r = (struct run_record){.id = 2,
							.kind = RUN_INITIAL,
							.state = RUN_DONE,
							.requester = "again",
							.gate = "",
							.first_snapshot = "",
							.last_snapshot = ""};
	CHECK(store_put_run(t, &r, &err));
	CHECK(store_commit(t, &err));
	CHECK(store_begin_read(s, &t, &err));
	CHECK(store_list_runs(t, &all, &n, &err));
	assert_int_equal(n, 300);
	assert_string_equal(all[1].requester, "again");
	assert_int_equal(all[299].id, 300);
	for (size_t i = 0; i < n; i++)
		run_record_free(&all[i]);
	free(all);
	CHECK(store_get_run(t, 301, &r, &found, &err));
	assert_false(found);
	store_abort(t);
	store_close(s);
}

static void unseen_transactions_are_a_set(void **state)
{
	struct place *p = *state;
	struct unseen_entry *all;
	struct store *s;
	struct store_txn *t;
	struct err err;
	size_t n;

	CHECK(store_open(p->dir, STORE_WRITE, &s, &err));
	CHECK(store_begin_write(s, &t, &err));
	CHECK(store_put_unseen(t, (struct unseen_entry){LSN(0x100), XID(5)}, &err));
	CHECK(store_put_unseen(t, (struct unseen_entry){LSN(0x20), XID(6)}, &err));
	CHECK(store_put_unseen(t, (struct unseen_entry){LSN(0x30), XID(7)}, &err));
	CHECK(store_del_unseen(t, LSN(0x30), &err));
	CHECK(store_del_unseen(t, LSN(0x31), &err));
	CHECK(store_list_unseen(t, &all, &n, &err));
	assert_int_equal(n, 2);
	assert_int_equal(all[0].commit_lsn.v, 0x20);
	assert_int_equal(all[1].xid.v, 5);
	free(all);
	store_abort(t);
	store_close(s);
}

/* ---- rows ---- */

static void rows_are_put_got_and_deleted(void **state)
{
	struct place *p = *state;
	struct store *s = store_with_tables(p->dir, 2);
	struct store_txn *t;
	struct err err;

	CHECK(store_begin_write(s, &t, &err));
	assert_true(row_is(t, 1, "a", "1"));
	put_row(t, 1, "a", "longer than before");
	assert_true(row_is(t, 1, "a", "longer than before"));
	assert_true(row_is(t, 2, "a", "1"));
	CHECK(store_row_del(t, 1, slice_of("b"), &err));
	CHECK(store_row_del(t, 1, slice_of("b"), &err));
	assert_true(row_is(t, 1, "b", NULL));
	CHECK(store_commit(t, &err));
	assert_true(store_row_is(s, 1, "a", "longer than before"));
	assert_true(store_row_is(s, 1, "b", NULL));
	assert_true(store_row_is(s, 2, "b", "2"));
	store_close(s);
}

static void an_aborted_transaction_leaves_nothing(void **state)
{
	struct place *p = *state;
	struct store *s = store_with_tables(p->dir, 1);
	struct table_record r = table_of(2, "t2");
	struct store_txn *t;
	struct err err;

	for (int i = 0; i < 3; i++) { /* the handles of an aborted table are free again */
		CHECK(store_begin_write(s, &t, &err));
		CHECK(store_put_table(t, &r, &err));
		put_row(t, 2, "k", "v");
		put_row(t, 1, "k", "v");
		assert_true(row_is(t, 2, "k", "v"));
		store_abort(t);
	}
	assert_true(store_row_is(s, 1, "k", NULL));
	CHECK(store_begin_write(s, &t, &err));
	REFUSED(store_row_put(t, 2, slice_of("k"), slice_of("v"), &err), ERR_BUG, "there is no table 2");
	CHECK(store_put_table(t, &r, &err));
	put_row(t, 2, "k", "w");
	CHECK(store_commit(t, &err));
	assert_true(store_row_is(s, 2, "k", "w"));
	store_close(s);
}

static size_t count_space(struct store_txn *t, uint32_t table, enum store_space space)
{
	struct store_scan *scan;
	struct slice k, v;
	struct err err;
	size_t n = 0;
	bool found;

	CHECK(store_scan_open(t, table, space, bytes_of(NULL, 0), &scan, &err));
	for (;;) {
		CHECK(store_scan_next(scan, &k, &v, &found, &err));
		if (!found) break;
		n++;
	}
	store_scan_close(scan);
	return n;
}

static void put_many(struct store_txn *t, uint32_t table, uint32_t n, size_t value_size)
{
	uint8_t *value = calloc(1, value_size + 1), key[4];
	struct err err;

	for (uint32_t i = 0; i < n; i++) {
		be32_put(key, i * 7919);
		CHECK(store_row_put(t, table, bytes_of(key, 4), bytes_of(value, value_size), &err));
	}
	free(value);
}

static void dropping_rows_spares_other_tables(void **state)
{
	struct place *p = *state;
	struct store *s = store_with_tables(p->dir, 2);
	struct store_txn *t;
	struct err err;

	CHECK(store_begin_write(s, &t, &err));
	put_many(t, 1, 5000, 100);
	put_many(t, 1, 20, 9000);
	put_many(t, 2, 100, 100);
	CHECK(store_doubt_put(t, 1, slice_of("x"), &err));
	CHECK(store_doubt_put(t, 2, slice_of("x"), &err));
	CHECK(store_commit(t, &err));
	CHECK(store_begin_write(s, &t, &err));
	assert_true(row_is(t, 1, "a", "1")); /* a cursor that the drop has to put right */
	CHECK(store_rows_drop(t, 1, &err));
	assert_int_equal(count_space(t, 1, SPACE_ROWS), 0);
	assert_int_equal(count_space(t, 1, SPACE_DOUBT), 0);
	assert_true(row_is(t, 1, "a", NULL));
	put_row(t, 1, "new", "row");
	assert_true(row_is(t, 1, "new", "row"));
	CHECK(store_commit(t, &err));
	CHECK(store_begin_read(s, &t, &err));
	assert_int_equal(count_space(t, 1, SPACE_ROWS), 1);
	assert_int_equal(count_space(t, 2, SPACE_ROWS), 102);
	assert_int_equal(count_space(t, 2, SPACE_DOUBT), 1);
	store_abort(t);
	store_close(s);
}

static void doubts_are_a_set_of_keys(void **state)
{
	struct place *p = *state;
	struct store *s = store_with_tables(p->dir, 1);
	struct store_scan *scan;
	struct store_txn *t;
	struct slice k, v;
	struct err err;
	bool found;

	CHECK(store_begin_write(s, &t, &err));
	CHECK(store_doubt_put(t, 1, slice_of("m"), &err));
	CHECK(store_doubt_put(t, 1, slice_of("m"), &err));
	CHECK(store_doubt_put(t, 1, slice_of("z"), &err));
	CHECK(store_doubt_put(t, 1, slice_of("c"), &err));
	CHECK(store_doubt_del(t, 1, slice_of("z"), &err));
	CHECK(store_doubt_del(t, 1, slice_of("z"), &err));
	CHECK(store_scan_open(t, 1, SPACE_DOUBT, bytes_of(NULL, 0), &scan, &err));
	CHECK(store_scan_next(scan, &k, &v, &found, &err));
	assert_true(found && slice_eq(k, slice_of("c")) && v.n == 0);
	CHECK(store_scan_next(scan, &k, &v, &found, &err));
	assert_true(found && slice_eq(k, slice_of("m")));
	CHECK(store_scan_next(scan, &k, &v, &found, &err));
	assert_false(found);
	store_scan_close(scan);
	store_abort(t);
	store_close(s);
}

static void a_scan_starts_at_or_after_its_key(void **state)
{
	static const struct {
		const char *from, *first;
	} cases[] = {{"", "b"}, {"a", "b"}, {"b", "b"}, {"ba", "d"}, {"c", "d"}, {"d", "d"}, {"dd", NULL}};
	struct place *p = *state;
	struct store *s = store_with_tables(p->dir, 1);
	struct store_txn *t;
	struct err err;

	CHECK(store_begin_write(s, &t, &err));
	CHECK(store_row_del(t, 1, slice_of("a"), &err));
	put_row(t, 1, "d", "4");
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct store_scan *scan;
		struct slice k, v;
		bool found;

		CHECK(store_scan_open(t, 1, SPACE_ROWS, slice_of(cases[i].from), &scan, &err));
		CHECK(store_scan_next(scan, &k, &v, &found, &err));
		assert_int_equal(found, cases[i].first != NULL);
		if (found) assert_true(slice_eq(k, slice_of(cases[i].first)));
		store_scan_close(scan);
	}
	store_abort(t);
	store_close(s);
}

/* ---- many random changes against a model ---- */

#define MODEL_KEYS 600

struct model {
	size_t size[MODEL_KEYS]; /* of the value plus 1; 0: absent */
	uint8_t fill[MODEL_KEYS];
};

/* Keys of all lengths, so that pages hold few or many. */
static struct slice model_key(uint32_t i, uint8_t room[512])
{
	size_t n = i % 5 == 0 ? 4 + i % 400 : 4;

	memset(room, 'k', n);
	be32_put(room, i * UINT32_C(2654435761));
	return bytes_of(room, n);
}

static void model_check_key(struct store_txn *t, const struct model *m, uint32_t i)
{
	uint8_t room[512];
	struct slice v;
	struct err err;
	bool found;

	CHECK(store_row_get(t, 1, model_key(i, room), &v, &found, &err));
	assert_int_equal(found, m->size[i] != 0);
	if (!found) return;
	assert_int_equal(v.n, m->size[i] - 1);
	for (size_t j = 0; j < v.n; j += 97)
		assert_int_equal(v.p[j], m->fill[i]);
}

static void model_put(struct store_txn *t, struct model *m, uint32_t i, uint64_t *seed)
{
	size_t n = random_below(seed, 8) == 0 ? random_below(seed, 12000) : random_below(seed, 200);
	uint8_t *value = malloc(n + 1), room[512];
	struct err err;

	m->fill[i] = (uint8_t)random_u64(seed);
	m->size[i] = n + 1;
	memset(value, m->fill[i], n);
	CHECK(store_row_put(t, 1, model_key(i, room), bytes_of(value, n), &err));
	free(value);
}

static void model_step(struct store_txn *t, struct model *m, uint64_t *seed)
{
	uint32_t i = (uint32_t)random_below(seed, MODEL_KEYS);
	uint8_t room[512];
	struct err err;

	switch (random_below(seed, 2000) == 0 ? 99 : random_below(seed, 10)) {
	case 0:
	case 1:
	case 2:
		CHECK(store_row_del(t, 1, model_key(i, room), &err));
		m->size[i] = 0;
		break;
	case 3:
	case 4: model_check_key(t, m, i); break;
	case 99:
		CHECK(store_rows_drop(t, 1, &err));
		*m = (struct model){0};
		break;
	default:
		model_check_key(t, m, i); /* as the guard does: look, then write */
		model_put(t, m, i, seed);
	}
}

static void model_check(struct store_txn *t, const struct model *m)
{
	size_t n = 0;

	for (uint32_t i = 0; i < MODEL_KEYS; i++) {
		model_check_key(t, m, i);
		n += m->size[i] != 0;
	}
	assert_int_equal(count_space(t, 1, SPACE_ROWS), n);
}

static void random_changes_agree_with_a_model(void **state)
{
	struct place *p = *state;
	struct store *s;
	struct model now = {0}, committed = {0};
	struct store_txn *t;
	uint64_t seed = 11;
	struct err err;

	s = store_with_tables(p->dir, 1);
	CHECK(store_begin_write(s, &t, &err));
	CHECK(store_rows_drop(t, 1, &err));
	for (int round = 0; round < 60; round++) {
		for (size_t n = random_below(&seed, 600); n > 0; n--)
			model_step(t, &now, &seed);
		if (round % 10 == 0) model_check(t, &now);
		if (round > 0 && random_below(&seed, 4) == 0) {
			store_abort(t);
			now = committed;
		} else {
			CHECK(store_commit(t, &err));
			committed = now;
		}
		CHECK(store_begin_write(s, &t, &err));
	}
	store_abort(t);
	CHECK(store_begin_read(s, &t, &err));
	model_check(t, &committed);
	store_abort(t);
	store_close(s);
}

/* ---- transactions ---- */

static void a_read_transaction_sees_one_state(void **state)
{
	struct place *p = *state;
	struct store *s = store_with_tables(p->dir, 1);
	struct store_txn *old, *same, *new;
	struct err err;

	CHECK(store_begin_read(s, &old, &err));
	CHECK(store_begin_read(s, &same, &err));
	CHECK(store_set_row(s, 1, "a", "changed", &err));
	CHECK(store_begin_read(s, &new, &err));
	assert_int_equal(store_txn_id(old), store_txn_id(same));
	assert_true(store_txn_id(new) > store_txn_id(old));
	assert_true(row_is(old, 1, "a", "1"));
	assert_true(row_is(new, 1, "a", "changed"));
	assert_true(row_is(same, 1, "a", "1"));
	store_abort(old);
	assert_true(row_is(same, 1, "a", "1"));
	store_abort(same);
	CHECK(store_commit(new, &err));
	store_close(s);
}

static void a_table_is_unknown_to_older_transactions(void **state)
{
	struct place *p = *state;
	struct store *s = store_with_tables(p->dir, 1);
	struct table_record r = table_of(2, "t2");
	struct store_txn *old, *t;
	struct slice v;
	struct err err;
	bool found;

	CHECK(store_begin_read(s, &old, &err));
	CHECK(store_begin_write(s, &t, &err));
	CHECK(store_put_table(t, &r, &err));
	put_row(t, 2, "k", "v");
	REFUSED(store_row_get(old, 2, slice_of("k"), &v, &found, &err), ERR_BUG, "no table 2");
	CHECK(store_commit(t, &err));
	assert_false(store_row_get(old, 2, slice_of("k"), &v, &found, &err));
	assert_true(row_is(old, 1, "a", "1"));
	assert_true(store_row_is(s, 2, "k", "v"));
	store_abort(old);
	store_close(s);
}

static void misuse_is_refused(void **state)
{
	struct place *p = *state;
	struct store *s = store_with_tables(p->dir, 1);
	struct store_txn *t, *t2;
	struct table_record r = table_of(0, "zero");
	struct err err;

	CHECK(store_begin_write(s, &t, &err));
	REFUSED(store_begin_write(s, &t2, &err), ERR_BUG, "a write transaction is open");
	REFUSED(store_put_table(t, &r, &err), ERR_BUG, "start at 1");
	REFUSED(store_row_put(t, 1, bytes_of("", 0), slice_of("v"), &err), ERR_BUG, "table 1");
	store_abort(t);
	store_abort(NULL);
	store_scan_close(NULL);
	store_close(s);
	CHECK(store_open(p->dir, STORE_READ, &s, &err));
	REFUSED(store_begin_write(s, &t, &err), ERR_BUG, "for reading only");
	REFUSED(store_sync(s, &err), ERR_BUG, "for reading only");
	CHECK(store_begin_read(s, &t, &err));
	assert_false(store_row_put(t, 1, slice_of("k"), slice_of("v"), &err));
	store_abort(t);
	store_close(s);
	store_close(NULL);
}

/* ---- other threads ---- */

struct thread_case {
	struct store *s;
	atomic_bool stop;
	unsigned tables_seen;
	bool ok;
};

static void *read_tables(void *arg)
{
	struct thread_case *c = arg;
	struct table_record *all;
	struct store_txn *t;
	struct err err;
	size_t n;

	c->ok = true;
	while (c->ok && !atomic_load(&c->stop)) {
		c->ok = store_begin_read(c->s, &t, &err) && store_list_tables(t, &all, &n, &err);
		if (!c->ok) break;
		for (size_t i = 0; i < n; i++) { /* every table that has a record has rows */
			struct slice v;
			bool found;

			c->ok &= store_row_get(t, all[i].id, slice_of("k"), &v, &found, &err) && found;
			table_record_free(&all[i]);
		}
		free(all);
		c->tables_seen = (unsigned)n;
		store_abort(t);
	}
	return NULL;
}

static void another_thread_reads_tables_as_they_appear(void **state)
{
	struct place *p = *state;
	struct thread_case c = {0};
	struct store_txn *t;
	struct err err;
	pthread_t thread;

	CHECK(store_open(p->dir, STORE_WRITE, &c.s, &err));
	assert_int_equal(pthread_create(&thread, NULL, read_tables, &c), 0);
	for (uint32_t id = 1; id <= 100; id++) {
		struct table_record r = table_of(id, "t");

		CHECK(store_begin_write(c.s, &t, &err));
		CHECK(store_put_table(t, &r, &err));
		put_row(t, id, "k", "v");
		CHECK(store_commit(t, &err));
		if (id % 10 == 0) CHECK(store_sync(c.s, &err));
	}
	atomic_store(&c.stop, true);
	pthread_join(thread, NULL);
	assert_true(c.ok);
	store_close(c.s);
}

/* ---- other processes ---- */

static char row_answer(struct store_txn *t, uint32_t table, const char *key)
{
	const char *v = row_text(t, table, key);

	return v ? v[0] : '-';
}

/* Opens, begins, reads; then the same again in the old and in a new transaction; then again for table 2. */
static void reader(struct peer *me, void *ctx)
{
	struct store *s;
	struct store_txn *t;
	struct err err;

	if (!peer_step(me, 0) || !store_open(ctx, STORE_READ, &s, &err) || !store_begin_read(s, &t, &err)) return;
	if (!peer_step(me, row_answer(t, 1, "a"))) return;
	if (!peer_step(me, row_answer(t, 1, "a"))) return;
	store_abort(t);
	if (!store_begin_read(s, &t, &err) || !peer_step(me, row_answer(t, 1, "a"))) return;
	store_abort(t);
	if (!store_begin_read(s, &t, &err) || !peer_step(me, row_answer(t, 2, "a"))) return;
	store_abort(t);
	store_close(s);
	peer_step(me, '.');
}

static void a_reader_process_sees_committed_states(void **state)
{
	struct place *p = *state;
	struct table_record r = table_of(2, "t2");
	struct store *s;
	struct store_txn *t;
	struct peer peer;
	struct err err;

	peer_start(&peer, reader, p->dir);
	s = store_with_tables(p->dir, 1);
	assert_int_equal(peer_ask(&peer), '1');
	CHECK(store_set_row(s, 1, "a", "x", &err));
	assert_int_equal(peer_ask(&peer), '1'); /* its transaction is the old one */
	assert_int_equal(peer_ask(&peer), 'x');
	CHECK(store_begin_write(s, &t, &err));
	CHECK(store_put_table(t, &r, &err));
	put_row(t, 2, "a", "y");
	CHECK(store_commit(t, &err));
	assert_int_equal(peer_ask(&peer), 'y'); /* a table made after it opened */
	assert_int_equal(peer_ask(&peer), '.');
	peer_end(&peer);
	store_close(s);
}

static void sleeper(struct peer *me, void *ctx)
{
	struct store *s;
	struct store_txn *t;
	struct err err;

	if (!peer_step(me, 0) || !store_open(ctx, STORE_READ, &s, &err) || !store_begin_read(s, &t, &err)) return;
	peer_step(me, 'r');
	pause();
}

static void the_oldest_reader_is_shown_and_a_dead_one_reaped(void **state)
{
	struct place *p = *state;
	struct store *s;
	struct store_info info;
	struct peer peer;
	struct err err;

	peer_start(&peer, sleeper, p->dir);
	s = store_with_tables(p->dir, 1);
	CHECK(store_info(s, &info, &err));
	assert_int_equal(info.oldest_reader_pid, 0);
	assert_int_equal(info.readers_max, 1024);
	assert_int_equal(peer_ask(&peer), 'r');
	for (int i = 0; i < 3; i++)
		CHECK(store_set_row(s, 1, "a", "x", &err));
	CHECK(store_info(s, &info, &err));
	assert_int_equal(info.oldest_reader_pid, peer.pid);
	assert_int_equal(info.oldest_reader_lag, 3);
	assert_int_equal(info.readers, 2); /* it and us */
	assert_int_equal(store_reap_readers(s), 0);
	kill(peer.pid, SIGKILL);
	peer_end(&peer);
	assert_int_equal(store_reap_readers(s), 1);
	CHECK(store_info(s, &info, &err));
	assert_int_equal(info.oldest_reader_pid, 0);
	store_close(s);
}

static void used_bytes_leave_out_free_pages(void **state)
{
	struct place *p = *state;
	struct store *s = store_with_tables(p->dir, 1);
	struct store_info full, dropped;
	struct store_txn *t;
	struct err err;

	CHECK(store_begin_write(s, &t, &err));
	put_many(t, 1, 20000, 100);
	CHECK(store_commit(t, &err));
	CHECK(store_info(s, &full, &err));
	assert_true(full.used_bytes > 20000 * 100 && full.used_bytes <= full.file_bytes);
	CHECK(store_begin_write(s, &t, &err));
	CHECK(store_rows_drop(t, 1, &err));
	CHECK(store_commit(t, &err));
	CHECK(store_info(s, &dropped, &err));
	assert_true(dropped.file_bytes >= full.file_bytes);
	assert_true(dropped.used_bytes < 200000);
	assert_true(dropped.last_txn > full.last_txn);
	store_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORE_TEST(checkpoint_and_lineage_are_kept),
		STORE_TEST(a_copy_does_not_have_the_backends_of_its_original),
		STORE_TEST(tables_are_listed_in_id_order),
		STORE_TEST(schemas_are_kept_by_version),
		STORE_TEST(runs_are_listed_oldest_first),
		STORE_TEST(unseen_transactions_are_a_set),
		STORE_TEST(rows_are_put_got_and_deleted),
		STORE_TEST(an_aborted_transaction_leaves_nothing),
		STORE_TEST(dropping_rows_spares_other_tables),
		STORE_TEST(doubts_are_a_set_of_keys),
		STORE_TEST(a_scan_starts_at_or_after_its_key),
		STORE_TEST(random_changes_agree_with_a_model),
		STORE_TEST(a_read_transaction_sees_one_state),
		STORE_TEST(a_table_is_unknown_to_older_transactions),
		STORE_TEST(misuse_is_refused),
		STORE_TEST(another_thread_reads_tables_as_they_appear),
		STORE_TEST(a_reader_process_sees_committed_states),
		STORE_TEST(the_oldest_reader_is_shown_and_a_dead_one_reaped),
		STORE_TEST(used_bytes_leave_out_free_pages),
	};

	return cmocka_run_group_tests_name("state/store", tests, NULL, NULL);
}
