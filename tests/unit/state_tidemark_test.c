#include "tests/unit/state_tidemark_fixture.h"

/* ---- opening ---- */

static void a_missing_store_is_named(void **state)
{
	struct place *p = *state;
	tidemark *tm;

	assert_int_equal(tidemark_open(p->dir, &tm), TIDEMARK_E_NOSTORE);
	assert_null(tm);
	check_message(NULL, p->dir);
	check_message(NULL, "has no store");
	assert_int_equal(mkdir(p->dir, 0700), 0);
	assert_int_equal(tidemark_open(p->dir, &tm), TIDEMARK_E_NOSTORE);
	tidemark_close(tm);
}

static void write_file(const char *path, const void *bytes, size_t n)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, n, f), n);
	fclose(f);
}

static void a_foreign_file_is_corrupt(void **state)
{
	struct place *p = *state;
	tidemark *tm;

	assert_int_equal(mkdir(p->dir, 0700), 0);
	write_file(place_file(p, "data.mdb"), "hello", 5);
	assert_int_equal(tidemark_open(p->dir, &tm), TIDEMARK_E_CORRUPT);
	check_message(NULL, "data.mdb");
}

/* Through LMDB itself. */
static void set_format(struct place *p, const void *bytes, size_t n)
{
	MDB_env *env;
	MDB_txn *txn;
	MDB_dbi dbi;
	MDB_val key = {6, "format"}, value = {n, NULL};
	void *copy = malloc(n);

	value.mv_data = memcpy(copy, bytes, n);
	assert_int_equal(mdb_env_create(&env), 0);
	assert_int_equal(mdb_env_set_maxdbs(env, 10), 0);
	assert_int_equal(mdb_env_set_mapsize(env, 1 << 20), 0);
	assert_int_equal(mdb_env_open(env, p->dir, 0, 0600), 0);
	assert_int_equal(mdb_txn_begin(env, NULL, 0, &txn), 0);
	assert_int_equal(mdb_dbi_open(txn, "meta", 0, &dbi), 0);
	assert_int_equal(mdb_put(txn, dbi, &key, &value, 0), 0);
	assert_int_equal(mdb_txn_commit(txn), 0);
	mdb_env_close(env);
	free(copy);
}

static void a_newer_store_asks_for_an_upgrade(void **state)
{
	struct place *p = *state;
	struct store_txn *t;
	struct store *s = open_writer(p, &t);
	tidemark *tm;

	close_writer(s, t);
	set_format(p, "\0\0\0\4", 4);
	assert_int_equal(tidemark_open(p->dir, &tm), TIDEMARK_E_NEWER);
	check_message(NULL, "format 4, this program reads 3");
	check_message(NULL, "upgrade");
}

static void every_code_has_a_text(void **state)
{
	(void)state;
	for (int code = 0; code >= TIDEMARK_E_IO; code--)
		assert_string_not_equal(tidemark_strerror(code), "unknown error");
	assert_string_equal(tidemark_strerror(-99), "unknown error");
	assert_string_equal(tidemark_state_name(TIDEMARK_DOUBT), "in doubt");
	assert_string_equal(tidemark_state_name(TIDEMARK_LEFT), "left");
}

/* ---- transactions ---- */

static void calls_need_a_transaction(void **state)
{
	struct place *p = *state;
	struct store_txn *t;
	struct store *s = open_writer(p, &t);
	tidemark *tm;
	tidemark_table *table;
	tidemark_cursor *c;
	tidemark_row row;
	tidemark_position position;
	tidemark_store_info info;
	tidemark_run_info run;
	size_t n;

	put_table(t, 1, "orders", TABLE_COPIED, 1, &orders);
	ROW(t, 1, &orders, "1", "one", NULL);
	close_writer(s, t);
	tm = open_at(p, "orders", &table);
	assert_int_equal(tidemark_begin(tm), TIDEMARK_E_ARGUMENT);
	check_message(tm, "tidemark_end()");
	assert_int_equal(tidemark_scan(table, NULL, 0, NULL, 0, &c), 0);
	tidemark_end(tm);
	tidemark_end(tm);
	assert_int_equal(tidemark_next(c, &row), TIDEMARK_E_ARGUMENT);
	tidemark_cursor_close(c);
	assert_int_equal(tidemark_get(table, KEY("1"), &row), TIDEMARK_E_ARGUMENT);
	check_message(tm, "tidemark_begin()");
	assert_int_equal(tidemark_scan(table, NULL, 0, NULL, 0, &c), TIDEMARK_E_ARGUMENT);
	assert_int_equal(tidemark_table_count(tm, &n), TIDEMARK_E_ARGUMENT);
	assert_int_equal(tidemark_table_find(tm, "a", "b", &table), TIDEMARK_E_ARGUMENT);
	assert_int_equal(tidemark_get_position(tm, &position), TIDEMARK_E_ARGUMENT);
	assert_int_equal(tidemark_run_count(tm, &n), TIDEMARK_E_ARGUMENT);
	assert_int_equal(tidemark_run_at(tm, 0, &run), TIDEMARK_E_ARGUMENT);
	assert_int_equal(tidemark_get_store_info(tm, &info), TIDEMARK_E_ARGUMENT);
	tidemark_close(tm);
	tidemark_close(NULL);
	tidemark_cursor_close(NULL);
}

/* A cursor that nobody closed does not outlive its handle. */
static void closing_ends_what_is_open(void **state)
{
	struct place *p = *state;
	struct store_txn *t;
	struct store *s = open_writer(p, &t);
	tidemark *tm;
	tidemark_table *table;
	tidemark_cursor *a, *b;
	tidemark_row row;

	put_table(t, 1, "orders", TABLE_COPIED, 1, &orders);
	ROW(t, 1, &orders, "1", "one", NULL);
	close_writer(s, t);
	tm = open_at(p, "orders", &table);
	assert_int_equal(tidemark_scan(table, NULL, 0, NULL, 0, &a), 0);
	assert_int_equal(tidemark_scan(table, NULL, 0, NULL, 0, &b), 0);
	assert_int_equal(tidemark_next(a, &row), 0);
	tidemark_close(tm);
	assert_int_equal(tidemark_next(b, &row), TIDEMARK_E_ARGUMENT);
	tidemark_cursor_close(a);
	tidemark_cursor_close(b);
}

/* Sees `name` of order 1 in one transaction, then in the next. */
static void watcher(struct peer *me, void *ctx)
{
	tidemark *tm;
	tidemark_table *table;
	tidemark_row row;

	if (!peer_step(me, 0) || tidemark_open(ctx, &tm) != 0) return;
	for (int i = 0; i < 4; i++) {
		if (tidemark_begin(tm) != 0 || tidemark_table_find(tm, "public", "orders", &table) != 0) return;
		for (int j = 0; j < 2; j++)
			if (tidemark_get(table, KEY("1"), &row) != 0 || !peer_step(me, tidemark_row_value(&row, 1)[0]))
				return;
		tidemark_end(tm);
	}
	tidemark_close(tm);
	peer_step(me, '.');
}

static void a_transaction_is_one_state(void **state)
{
	struct place *p = *state;
	struct store_txn *t;
	struct store *s;
	struct peer peer;
	struct err err;

	peer_start(&peer, watcher, p->dir);
	s = open_writer(p, &t);
	put_table(t, 1, "orders", TABLE_COPIED, 1, &orders);
	ROW(t, 1, &orders, "1", "a", NULL);
	CHECK(store_commit(t, &err));
	assert_int_equal(peer_ask(&peer), 'a');
	CHECK(store_begin_write(s, &t, &err));
	ROW(t, 1, &orders, "1", "b", NULL);
	CHECK(store_commit(t, &err));
	assert_int_equal(peer_ask(&peer), 'a');
	assert_int_equal(peer_ask(&peer), 'b');
	assert_int_equal(peer_ask(&peer), 'b');
	assert_int_equal(peer_ask(&peer), 'b'); /* the same state in another transaction */
	CHECK(store_begin_write(s, &t, &err));
	put_table(t, 1, "orders", TABLE_COPIED, 2, &(struct shape){{"id", "note", "name"}, 3, {KEY_INT4}, 1});
	CHECK(store_commit(t, &err));
	assert_int_equal(peer_ask(&peer), 'b');
	CHECK(store_begin_write(s, &t, &err));
	put_entry(t, 1, 2, &orders, (const char *const[]){"1", "c", "d"}, false);
	CHECK(store_commit(t, &err));
	assert_int_equal(peer_ask(&peer), 'c');
	peer_end(&peer);
	store_close(s);
}

/* Opens; then, while others have all slots, begins; then again. */
static void latecomer(struct peer *me, void *ctx)
{
	tidemark *tm, *none;

	if (!peer_step(me, 0) || tidemark_open(ctx, &tm) != 0) return;
	tidemark_close(tm);
	if (!peer_step(me, 'o')) return;
	if (!peer_step(me,
				   tidemark_open(ctx, &none) == TIDEMARK_E_READERS && strstr(tidemark_errmsg(NULL), "slots")
					   ? 'f'
					   : '?'))
		return;
	peer_step(me, tidemark_open(ctx, &tm) == 0 && tidemark_begin(tm) == 0 ? 'b' : '?');
}

static void full_reader_slots_are_named(void **state)
{
	struct place *p = *state;
	struct store_txn *all[1100];
	struct store *s;
	struct peer peer;
	struct err err = {0};
	size_t n = 0;

	peer_start(&peer, latecomer, p->dir);
	CHECK(store_open(p->dir, STORE_WRITE, &s, &err));
	assert_int_equal(peer_ask(&peer), 'o');
	while (n < 1100 && store_begin_read(s, &all[n], &err))
		n++;
	assert_int_equal(n, 1024);
	assert_int_equal(err.kind, ERR_BUSY);
	assert_int_equal(peer_ask(&peer), 'f');
	while (n > 0)
		store_abort(all[--n]);
	assert_int_equal(peer_ask(&peer), 'b');
	peer_end(&peer);
	store_close(s);
}

/* ---- tables ---- */

static void tables_are_sorted_and_have_states(void **state)
{
	static const struct {
		const char *name;
		int state;
	} expected[] = {
		{"b", TIDEMARK_COPYING}, {"c", TIDEMARK_DOUBT}, {"d", TIDEMARK_LIVE}, {"e", TIDEMARK_LEFT}};
	struct place *p = *state;
	struct store_txn *t;
	struct store *s = open_writer(p, &t);
	struct table_record r = table_of(2, "c");
	tidemark *tm;
	tidemark_table *table;
	struct err err;
	size_t n;

	put_table(t, 4, "b", TABLE_COPYING, 1, &orders);
	put_table(t, 2, "c", TABLE_COPIED, 1, &orders);
	put_table(t, 3, "d", TABLE_COPIED, 1, &orders);
	put_table(t, 1, "e", TABLE_LEFT, 1, &orders);
	r.doubt = 1;
	CHECK(store_put_table(t, &r, &err));
	close_writer(s, t);
	tm = open_at(p, NULL, NULL);
	assert_int_equal(tidemark_table_count(tm, &n), 0);
	assert_int_equal(n, 4);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(tidemark_table_at(tm, i, &table), 0);
		assert_string_equal(tidemark_table_get_info(table)->table_name, expected[i].name);
		assert_int_equal(tidemark_table_get_info(table)->state, expected[i].state);
	}
	assert_int_equal(tidemark_table_at(tm, 4, &table), TIDEMARK_E_NOTFOUND);
	check_message(tm, "the store has 4");
	tidemark_close(tm);
}

static void a_table_tells_its_columns_and_figures(void **state)
{
	struct place *p = *state;
	struct store_txn *t;
	struct store *s = open_writer(p, &t);
	const tidemark_table_info *info;
	tidemark *tm;
	tidemark_table *table;

	put_table(t, 1, "pairs", TABLE_COPIED, 1, &pairs);
	close_writer(s, t);
	tm = open_at(p, "pairs", &table);
	info = tidemark_table_get_info(table);
	assert_string_equal(info->schema_name, "public");
	assert_int_equal(info->id, 1);
	assert_int_equal(info->oid, 16001);
	assert_int_equal(info->rows, 7);
	assert_int_equal(info->high_lsn, 0x500);
	assert_int_equal(info->schema_version, 1);
	assert_int_equal(tidemark_column_count(table), 3);
	assert_string_equal(tidemark_column_name(table, 1), "number");
	assert_string_equal(tidemark_column_type(table, 1), "text");
	assert_int_equal(tidemark_column_type_oid(table, 1), 25);
	assert_int_equal(tidemark_column_class(table, 1), 0);
	assert_null(tidemark_column_name(table, 3));
	assert_int_equal(tidemark_key_count(table), 2);
	assert_int_equal(tidemark_key_column(table, 1), 1);
	assert_int_equal(tidemark_key_column(table, 2), SIZE_MAX);
	assert_int_equal(tidemark_table_find(tm, "public", "pair", &table), TIDEMARK_E_NOTFOUND);
	check_message(tm, "has no table public.pair");
	assert_null(table);
	tidemark_close(tm);
}

static void of_two_tables_with_one_name_the_replicated_is_found(void **state)
{
	struct place *p = *state;
	struct store_txn *t;
	struct store *s = open_writer(p, &t);
	tidemark *tm;
	tidemark_table *table;

	put_table(t, 1, "t", TABLE_LEFT, 1, &orders);
	put_table(t, 2, "t", TABLE_COPIED, 1, &orders);
	put_table(t, 3, "t", TABLE_LEFT, 1, &orders);
	put_table(t, 4, "u", TABLE_LEFT, 1, &orders);
	put_table(t, 5, "u", TABLE_LEFT, 1, &orders);
	close_writer(s, t);
	tm = open_at(p, "t", &table);
	assert_int_equal(tidemark_table_get_info(table)->id, 2);
	assert_int_equal(tidemark_table_find(tm, "public", "u", &table), 0);
	assert_int_equal(tidemark_table_get_info(table)->id, 5);
	tidemark_close(tm);
}

/* The record of a table may be committed before its columns. */
static void a_table_without_columns_is_empty(void **state)
{
	struct place *p = *state;
	struct store_txn *t;
	struct store *s = open_writer(p, &t);
	struct table_record r = table_of(1, "bare");
	tidemark *tm;
	tidemark_table *table;
	tidemark_cursor *c;
	tidemark_row row;
	struct err err;

	r.schema_version = 0;
	CHECK(store_put_table(t, &r, &err));
	close_writer(s, t);
	tm = open_at(p, "bare", &table);
	assert_int_equal(tidemark_column_count(table), 0);
	assert_int_equal(tidemark_get(table, KEY("1"), &row), TIDEMARK_E_NOTFOUND);
	assert_int_equal(tidemark_scan(table, NULL, 0, NULL, 0, &c), 0);
	assert_int_equal(tidemark_next(c, &row), TIDEMARK_E_NOTFOUND);
	tidemark_cursor_close(c);
	tidemark_close(tm);
}

/* ---- status ---- */

static void position_runs_and_lineage_are_shown(void **state)
{
	struct place *p = *state;
	struct store_txn *t;
	struct store *s = open_writer(p, &t);
	struct checkpoint cp = {
		.epoch = 1, .lsn = LSN(0x200), .commit_lsn = LSN(0x100), .commit_time_us = 10, .written_us = 20};
	struct lineage l = {.system_id = 77,
						.timeline = 3,
						.slot = "slot",
						.publication = "pub",
						.source = "h:5432/d",
						.source_version = 160001};
	struct run_record r = {.id = 1,
						   .table_id = 4,
						   .kind = RUN_RESYNC,
						   .state = RUN_SWEEPING,
						   .requester = "run",
						   .gate = "",
						   .first_snapshot = "5:9:7",
						   .last_snapshot = "",
						   .lowest_bound = {0, LSN(0x90), 0},
						   .last_high = LSN(0x99),
						   .rows_read = 12};
	struct err err;
	tidemark *tm;
	tidemark_position position;
	tidemark_store_info info, again;
	tidemark_run_info run;
	size_t n;

	CHECK(store_put_checkpoint(t, &cp, &err));
	CHECK(store_put_lineage(t, &l, &err));
	CHECK(store_put_run(t, &r, &err));
	CHECK(store_put_unseen(t, (struct unseen_entry){LSN(1), XID(2)}, &err));
	close_writer(s, t);
	tm = open_at(p, NULL, NULL);
	assert_int_equal(tidemark_get_position(tm, &position), 0);
	assert_int_equal(position.lsn, 0x200);
	assert_int_equal(position.commit_lsn, 0x100);
	assert_int_equal(position.written_us, 20);
	assert_int_equal(tidemark_run_count(tm, &n), 0);
	assert_int_equal(n, 1);
	assert_int_equal(tidemark_run_at(tm, 0, &run), 0);
	assert_string_equal(run.kind, "resync");
	assert_string_equal(run.state, "sweeping");
	assert_string_equal(run.first_snapshot, "5:9:7");
	assert_int_equal(run.lowest_bound, 0x90);
	assert_int_equal(run.rows_read, 12);
	assert_int_equal(tidemark_run_at(tm, 1, &run), TIDEMARK_E_NOTFOUND);
	assert_int_equal(tidemark_get_store_info(tm, &info), 0);
	assert_int_equal(tidemark_get_store_info(tm, &again), 0);
	assert_string_equal(info.slot, "slot");
	assert_string_equal(info.source, "h:5432/d");
	assert_int_equal(info.system_id, 77);
	assert_int_equal(info.unseen, 1);
	assert_int_equal(strlen(info.store_id), 32);
	assert_int_equal(info.oldest_reader_pid, 0);
	assert_true(info.used_bytes > 0 && info.used_bytes <= info.file_bytes);
	tidemark_close(tm);
}

/* Texts of a bound as a record has them. */
static struct slice bound_of(struct buf *out, const char *a, const char *b)
{
	buf_put_str(out, a);
	if (b) buf_put_str(out, b);
	return (struct slice){out->p, out->n};
}

static void the_scope_of_a_run_is_shown(void **state)
{
	struct place *p = *state;
	struct store_txn *t;
	struct store *s = open_writer(p, &t);
	struct buf from = {0}, to = {0}, lone = {0};
	struct run_record r = {.id = 1,
						   .table_id = 4,
						   .kind = RUN_RESNAPSHOT,
						   .state = RUN_PAUSED,
						   .resumes_as = RUN_SWEEPING,
						   .sweep = SWEEP_COUNT,
						   .requester = "me",
						   .gate = "",
						   .first_snapshot = "",
						   .last_snapshot = "",
						   .name = "repair",
						   .error = "",
						   .where_sql = "n > 1",
						   .from = bound_of(&from, "3", "a,\"b\""),
						   .to = bound_of(&to, "4", ""),
						   .rows_per_second = 9,
						   .rows_suspect = 5};
	struct run_record other = {.id = 2,
							   .table_id = 4,
							   .kind = RUN_RESNAPSHOT,
							   .state = RUN_FAILED,
							   .requester = "",
							   .gate = "",
							   .first_snapshot = "",
							   .last_snapshot = "",
							   .error = "no such thing",
							   .from = bound_of(&lone, "", NULL),
							   .listed = 7};
	struct err err;
	tidemark *tm;
	tidemark_run_info run;

	CHECK(store_put_run(t, &r, &err));
	CHECK(store_put_run(t, &other, &err));
	close_writer(s, t);
	tm = open_at(p, NULL, NULL);
	assert_int_equal(tidemark_run_at(tm, 0, &run), 0);
	assert_string_equal(run.state, "paused");
	assert_string_equal(run.resumes_as, "sweeping");
	assert_string_equal(run.sweep, "count");
	assert_string_equal(run.name, "repair");
	assert_string_equal(run.where_sql, "n > 1");
	assert_string_equal(run.from, "3,\"a,\"\"b\"\"\"");
	assert_string_equal(run.to, "4,\"\"");
	assert_int_equal(run.rows_per_second, 9);
	assert_int_equal(run.rows_suspect, 5);
	assert_int_equal(tidemark_run_at(tm, 1, &run), 0);
	assert_string_equal(run.error, "no such thing");
	assert_string_equal(run.from, "");
	assert_null(run.to);
	assert_int_equal(run.listed, 7);
	tidemark_close(tm);
	buf_finish(&from);
	buf_finish(&to);
	buf_finish(&lone);
}

/* ---- large transactions ---- */

/* Rows 1, 3, 5 are there; 2 and 3 are staged as new, 5 as deleted. */
static void stage_orders(struct store *s)
{
	struct store_txn *t;
	struct err err;

	CHECK(store_begin_write(s, &t, &err));
	CHECK(store_stage(t, &err));
	ROW(t, 1, &orders, "2", "two", NULL);
	ROW(t, 1, &orders, "3", "new", NULL);
	put_entry(t, 1, 1, &orders, (const char *const[]){"5", NULL, NULL}, true);
	CHECK(store_commit(t, &err));
}

static void check_orders(tidemark *tm, const char *from, const char *to, const char *wanted)
{
	const char *const first[] = {from}, *const last[] = {to};
	tidemark_table *table;
	tidemark_cursor *c;
	tidemark_row row;
	char text[64] = "";
	size_t n = 0;

	assert_int_equal(tidemark_begin(tm), 0);
	assert_int_equal(tidemark_table_find(tm, "public", "orders", &table), 0);
	assert_int_equal(tidemark_scan(table, first, from != NULL, last, to != NULL, &c), 0);
	while (tidemark_next(c, &row) == 0)
		n += (size_t)snprintf(text + n, sizeof text - n, "%s=%s ", tidemark_row_value(&row, 0),
							  tidemark_row_value(&row, 1));
	assert_string_equal(text, wanted);
	tidemark_cursor_close(c);
	tidemark_end(tm);
}

static int name_of_order(tidemark *tm, const char *id, char name[16])
{
	tidemark_table *table;
	tidemark_row row;
	int rc;

	assert_int_equal(tidemark_begin(tm), 0);
	assert_int_equal(tidemark_table_find(tm, "public", "orders", &table), 0);
	rc = tidemark_get(table, KEY(id), &row);
	if (rc == 0) snprintf(name, 16, "%s", tidemark_row_value(&row, 1));
	tidemark_end(tm);
	return rc;
}

/* The same handle looks on as it goes through its phases; the writer is another process. */
static void stager(struct peer *me, void *ctx)
{
	struct store *s;
	struct store_txn *t;
	struct err err;
	enum store_overlay phase;

	if (!peer_step(me, 0) || !store_open(ctx, STORE_WRITE, &s, &err)) return;
	stage_orders(s);
	if (!peer_step(me, 's') || !store_begin_write(s, &t, &err) || !store_stage(t, &err) ||
		!store_stage_show(t, &err) || !store_commit(t, &err))
		return;
	do {
		if (!peer_step(me, 'm') || !store_begin_write(s, &t, &err) || !store_overlay_move(t, 1, &err) ||
			!store_get_overlay(t, &phase, &err) || !store_commit(t, &err))
			return;
	} while (phase != OVERLAY_NONE);
	peer_step(me, 'e');
	store_close(s);
}

static void a_large_transaction_shows_at_once(void **state)
{
	struct place *p = *state;
	struct store_txn *t;
	struct store *s;
	struct peer peer;
	tidemark *tm;
	char name[16];
	int phase;

	peer_start(&peer, stager, p->dir);
	s = open_writer(p, &t);
	put_table(t, 1, "orders", TABLE_COPIED, 1, &orders);
	ROW(t, 1, &orders, "1", "one", NULL);
	ROW(t, 1, &orders, "3", "three", NULL);
	ROW(t, 1, &orders, "5", "five", NULL);
	close_writer(s, t);
	assert_int_equal(peer_ask(&peer), 's');
	assert_int_equal(tidemark_open(p->dir, &tm), 0);
	check_orders(tm, NULL, NULL, "1=one 3=three 5=five ");
	assert_int_equal(name_of_order(tm, "2", name), TIDEMARK_E_NOTFOUND);
	while ((phase = peer_ask(&peer)) == 'm') {
		check_orders(tm, NULL, NULL, "1=one 2=two 3=new ");
		check_orders(tm, "2", "3", "2=two 3=new ");
		check_orders(tm, "3", NULL, "3=new ");
		check_orders(tm, "4", NULL, "");
		check_orders(tm, NULL, "1", "1=one ");
		assert_int_equal(name_of_order(tm, "3", name), 0);
		assert_string_equal(name, "new");
		assert_int_equal(name_of_order(tm, "1", name), 0);
		assert_int_equal(name_of_order(tm, "5", name), TIDEMARK_E_NOTFOUND);
	}
	assert_int_equal(phase, 'e');
	check_orders(tm, NULL, NULL, "1=one 2=two 3=new ");
	tidemark_close(tm);
	peer_end(&peer);
}

/* A store at LSN 0x500 of epoch 2 with three markers, purged by a daemon with a retention of 100. */
static void put_markers(struct store_txn *t, lsn_t unseen)
{
	struct purge_history h = {
		.purged = 5, .retention_us = 100, .n = 2, .samples = {{1000, 2, LSN(0x300)}, {1050, 2, LSN(0x400)}}};
	struct checkpoint c = {.epoch = 2, .lsn = LSN(0x500)};
	struct table_record r = table_of(1, "orders");
	struct err err;

	r.markers = 3;
	CHECK(store_put_table(t, &r, &err) && store_put_checkpoint(t, &c, &err));
	CHECK(store_put_history(t, &h, &err));
	if (unseen.v != 0) CHECK(store_put_unseen(t, (struct unseen_entry){unseen, XID(7)}, &err));
}

static void check_markers(struct place *p, int64_t now_us, int held_by, uint64_t limit, uint64_t unseen)
{
	tidemark_marker_info info;
	tidemark *tm = open_at(p, NULL, NULL);

	assert_int_equal(tidemark_get_marker_info(tm, now_us, &info), 0);
	assert_int_equal(info.markers, 3);
	assert_int_equal(info.purged, 5);
	assert_int_equal(info.retention_us, 100);
	assert_int_equal(info.held_by, held_by);
	assert_int_equal(info.limit_epoch, limit ? 2 : 0);
	assert_int_equal(info.limit_lsn, limit);
	assert_int_equal(info.unseen_lsn, unseen);
	tidemark_close(tm);
}

static void what_holds_markers_back_is_told(void **state)
{
	struct place *p = *state;
	struct store_txn *t;
	struct store *s = open_writer(p, &t);
	struct err err;

	put_markers(t, LSN(0));
	close_writer(s, t);
	check_markers(p, 1099, TIDEMARK_HELD_RETENTION, 0, 0);
	check_markers(p, 1100, TIDEMARK_HELD_RETENTION, 0x300, 0);
	check_markers(p, 5000, TIDEMARK_HELD_RETENTION, 0x400, 0);
	s = open_writer(p, &t);
	put_markers(t, LSN(0x350));
	close_writer(s, t);
	check_markers(p, 1100, TIDEMARK_HELD_RETENTION, 0x300, 0x350);
	check_markers(p, 1150, TIDEMARK_HELD_UNSEEN, 0x350, 0x350);
	s = open_writer(p, &t);
	CHECK(store_del_unseen(t, LSN(0x350), &err));
	CHECK(store_put_history(
		t, &(struct purge_history){.purged = 5, .retention_us = 100, .n = 1, .samples = {{1, 2, LSN(0x600)}}},
		&err));
	close_writer(s, t);
	check_markers(p, 1150, TIDEMARK_HELD_STREAM, 0x500, 0);
}

static void a_new_store_has_no_position(void **state)
{
	struct place *p = *state;
	struct store_txn *t;
	struct store *s = open_writer(p, &t);
	tidemark *tm;
	tidemark_position position;
	tidemark_marker_info markers;
	tidemark_store_info info;
	size_t n = 9;

	close_writer(s, t);
	tm = open_at(p, NULL, NULL);
	assert_int_equal(tidemark_get_position(tm, &position), TIDEMARK_E_NOTFOUND);
	check_message(tm, "has no position yet");
	assert_int_equal(tidemark_table_count(tm, &n), 0);
	assert_int_equal(n, 0);
	assert_int_equal(tidemark_run_count(tm, &n), 0);
	assert_int_equal(n, 0);
	assert_int_equal(tidemark_get_store_info(tm, &info), 0);
	assert_string_equal(info.slot, "");
	assert_int_equal(tidemark_get_marker_info(tm, 1, &markers), 0);
	assert_int_equal(markers.retention_us, -1);
	tidemark_close(tm);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORE_TEST(a_missing_store_is_named),
		STORE_TEST(a_foreign_file_is_corrupt),
		STORE_TEST(a_newer_store_asks_for_an_upgrade),
		cmocka_unit_test(every_code_has_a_text),
		STORE_TEST(calls_need_a_transaction),
		STORE_TEST(closing_ends_what_is_open),
		STORE_TEST(a_transaction_is_one_state),
		STORE_TEST(full_reader_slots_are_named),
		STORE_TEST(tables_are_sorted_and_have_states),
		STORE_TEST(a_table_tells_its_columns_and_figures),
		STORE_TEST(of_two_tables_with_one_name_the_replicated_is_found),
		STORE_TEST(a_table_without_columns_is_empty),
		STORE_TEST(position_runs_and_lineage_are_shown),
		STORE_TEST(the_scope_of_a_run_is_shown),
		STORE_TEST(a_large_transaction_shows_at_once),
		STORE_TEST(what_holds_markers_back_is_told),
		STORE_TEST(a_new_store_has_no_position),
	};

	return cmocka_run_group_tests_name("state/tidemark", tests, NULL, NULL);
}
