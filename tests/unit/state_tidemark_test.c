#include "tests/unit/state_store_fixture.h"

#include <lmdb.h>

#include "state/tidemark.h"
#include "tests/unit/state_property.h"

/* ---- making stores ---- */

#define COLUMNS_MAX 8

struct shape {
	const char *columns[COLUMNS_MAX]; /* names */
	size_t ncolumns;
	enum key_kind kinds[4]; /* the key is the first columns */
	size_t nkeys;
};

static void put_schema(struct store_txn *t, uint32_t table, uint32_t version, const struct shape *shape)
{
	struct column columns[COLUMNS_MAX];
	uint16_t key_columns[4];
	uint8_t kinds[4];
	struct schema s = {.table_id = table,
					   .version = version,
					   .ncolumns = (uint16_t)shape->ncolumns,
					   .nkeys = (uint16_t)shape->nkeys,
					   .columns = columns,
					   .key_columns = key_columns,
					   .key_kinds = kinds};
	struct err err;

	for (size_t i = 0; i < shape->ncolumns; i++)
		columns[i] = (struct column){.name = shape->columns[i],
									 .type_oid = 25,
									 .typmod = -1,
									 .type_name = "text",
									 .type_class = TYPE_OTHER};
	for (size_t i = 0; i < shape->nkeys; i++) {
		key_columns[i] = (uint16_t)i;
		kinds[i] = (uint8_t)shape->kinds[i];
	}
	CHECK(store_put_schema(t, &s, &err));
}

static void put_table(struct store_txn *t, uint32_t id, const char *name, uint8_t state, uint32_t version,
					  const struct shape *shape)
{
	struct table_record r = table_of(id, name);
	struct err err;

	r.state = state;
	r.schema_version = version;
	r.live = 7;
	r.high = (struct pos){2, LSN(0x500), 1};
	CHECK(store_put_table(t, &r, &err));
	put_schema(t, id, version, shape);
}

/* "?" is a text in doubt, "?-" an absent one, NULL a NULL. */
static struct cell cell_of(const char *text)
{
	if (!text) return (struct cell){.kind = CELL_NULL};
	if (strcmp(text, "?-") == 0) return (struct cell){.kind = CELL_ABSENT, .doubt = true};
	return (struct cell){.kind = CELL_TEXT, .doubt = text[0] == '?', .text = slice_of(text)};
}

static void put_entry(struct store_txn *t, uint32_t table, uint32_t version, const struct shape *shape,
					  const char *const *values, bool deleted)
{
	struct cell cells[COLUMNS_MAX];
	struct slice texts[4], full = {0};
	struct buf scratch = {0}, entry = {0};
	struct pos pos = {3, LSN(0x1234), 5};
	uint8_t key[KEY_MAX];
	struct err err;
	bool is_long;
	size_t n;

	for (size_t i = 0; i < shape->ncolumns; i++)
		cells[i] = cell_of(values[i]);
	for (size_t i = 0; i < shape->nkeys; i++)
		texts[i] = cells[i].text;
	CHECK(key_encode(shape->kinds, texts, shape->nkeys, key, &n, &scratch, &is_long, &err));
	if (is_long) full = (struct slice){scratch.p, scratch.n};
	if (deleted)
		row_encode_marker(&entry, pos, full);
	else
		row_encode(&entry, pos, version, XID(9), full, cells, shape->ncolumns);
	CHECK(store_row_put(t, table, (struct slice){key, n}, (struct slice){entry.p, entry.n}, &err));
	buf_finish(&scratch);
	buf_finish(&entry);
}

#define ROW(t, table, shape, ...) put_entry(t, table, 1, shape, (const char *const[]){__VA_ARGS__}, false)

static const struct shape orders = {{"id", "name", "note"}, 3, {KEY_INT4}, 1};
static const struct shape pairs = {{"city", "number", "v"}, 3, {KEY_TEXT, KEY_INT4}, 2};
static const struct shape words = {{"word", "v"}, 2, {KEY_TEXT}, 1};

static struct store *open_writer(struct place *p, struct store_txn **t)
{
	struct store *s;
	struct err err;

	CHECK(store_open(p->dir, STORE_WRITE, &s, &err));
	CHECK(store_begin_write(s, t, &err));
	return s;
}

static void close_writer(struct store *s, struct store_txn *t)
{
	struct err err;

	CHECK(store_commit(t, &err));
	store_close(s);
}

/* Opens, begins, finds. */
static tidemark *open_at(struct place *p, const char *name, tidemark_table **table)
{
	tidemark *tm;

	assert_int_equal(tidemark_open(p->dir, &tm), 0);
	assert_int_equal(tidemark_begin(tm), 0);
	if (name && tidemark_table_find(tm, "public", name, table) != 0) fail_msg("%s", tidemark_errmsg(tm));
	return tm;
}

#define KEY(...)                                                                                             \
	(const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)

static void check_value(const tidemark_row *row, size_t column, const char *expected)
{
	const char *value = tidemark_row_value(row, column);

	if (!expected) {
		assert_null(value);
		assert_int_equal(tidemark_row_length(row, column), 0);
		return;
	}
	assert_non_null(value);
	assert_string_equal(value, expected);
	assert_int_equal(tidemark_row_length(row, column), strlen(expected));
}

static void check_message(const tidemark *tm, const char *part)
{
	if (!strstr(tidemark_errmsg(tm), part)) fail_msg("\"%s\" lacks \"%s\"", tidemark_errmsg(tm), part);
}

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

/* ---- rows ---- */

static void a_row_is_found_by_its_key(void **state)
{
	struct place *p = *state;
	struct store_txn *t;
	struct store *s = open_writer(p, &t);
	tidemark *tm;
	tidemark_table *table;
	tidemark_row row;

	put_table(t, 1, "orders", TABLE_COPIED, 1, &orders);
	ROW(t, 1, &orders, "-5", "minus five", NULL);
	ROW(t, 1, &orders, "5", "", "note");
	close_writer(s, t);
	tm = open_at(p, "orders", &table);
	assert_int_equal(tidemark_get(table, KEY("-5"), &row), 0);
	assert_int_equal(row.epoch, 3);
	assert_int_equal(row.commit_lsn, 0x1234);
	assert_int_equal(row.ordinal, 5);
	assert_int_equal(row.schema_version, 1);
	assert_int_equal(row.doubt, 0);
	check_value(&row, 0, "-5");
	check_value(&row, 1, "minus five");
	check_value(&row, 2, NULL);
	check_value(&row, 3, NULL);
	assert_int_equal(tidemark_get(table, KEY("5"), &row), 0);
	assert_int_equal(tidemark_row_length(&row, 2), 4); /* before any value was asked for */
	check_value(&row, 2, "note");
	check_value(&row, 1, "");
	check_value(&row, 0, "5");
	assert_int_equal(tidemark_get(table, KEY("6"), &row), TIDEMARK_E_NOTFOUND);
	check_message(tm, "table public.orders has no such row");
	assert_null(tidemark_row_value(&row, 0));
	tidemark_close(tm);
}

static void a_wrong_key_is_an_argument_error(void **state)
{
	struct place *p = *state;
	struct store_txn *t;
	struct store *s = open_writer(p, &t);
	tidemark *tm;
	tidemark_table *table;
	tidemark_cursor *c;
	tidemark_row row;

	put_table(t, 1, "pairs", TABLE_COPIED, 1, &pairs);
	close_writer(s, t);
	tm = open_at(p, "pairs", &table);
	assert_int_equal(tidemark_get(table, KEY("a"), &row), TIDEMARK_E_ARGUMENT);
	check_message(tm, "the key of table public.pairs has 2 columns, not 1");
	assert_int_equal(tidemark_get(table, KEY("a", "x"), &row), TIDEMARK_E_ARGUMENT);
	check_message(tm, "key of table public.pairs");
	assert_int_equal(tidemark_get(table, KEY("a", NULL), &row), TIDEMARK_E_ARGUMENT);
	check_message(tm, "key column number");
	assert_int_equal(tidemark_scan(table, KEY("a", "1", "2"), NULL, 0, &c), TIDEMARK_E_ARGUMENT);
	assert_int_equal(tidemark_scan(table, NULL, 0, KEY("a", "99999999999"), &c), TIDEMARK_E_ARGUMENT);
	assert_null(c);
	tidemark_close(tm);
}

static void deleted_and_hidden_rows_are_not_shown(void **state)
{
	struct place *p = *state;
	struct store_txn *t;
	struct store *s = open_writer(p, &t);
	tidemark *tm;
	tidemark_table *table;
	tidemark_cursor *c;
	tidemark_row row;

	put_table(t, 1, "orders", TABLE_COPIED, 1, &orders);
	put_entry(t, 1, 1, &orders, (const char *const[]){"1", "x", "y"}, true);
	ROW(t, 1, &orders, "2", "x", "?-");
	ROW(t, 1, &orders, "3", "x", "?best known");
	close_writer(s, t);
	tm = open_at(p, "orders", &table);
	assert_int_equal(tidemark_get(table, KEY("1"), &row), TIDEMARK_E_NOTFOUND);
	assert_int_equal(tidemark_get(table, KEY("2"), &row), TIDEMARK_E_NOTFOUND);
	assert_int_equal(tidemark_get(table, KEY("3"), &row), 0);
	assert_int_equal(row.doubt, 1);
	check_value(&row, 2, "?best known");
	assert_int_equal(tidemark_scan(table, NULL, 0, NULL, 0, &c), 0);
	assert_int_equal(tidemark_next(c, &row), 0);
	check_value(&row, 0, "3");
	assert_int_equal(row.doubt, 1);
	assert_int_equal(tidemark_next(c, &row), TIDEMARK_E_NOTFOUND);
	assert_int_equal(tidemark_next(c, &row), TIDEMARK_E_NOTFOUND);
	tidemark_cursor_close(c);
	tidemark_close(tm);
}

static void old_rows_show_todays_columns_by_name(void **state)
{
	static const struct shape v1 = {{"id", "a", "b"}, 3, {KEY_INT4}, 1};
	static const struct shape v2 = {{"id", "b", "c", "d"}, 4, {KEY_INT4}, 1};
	struct place *p = *state;
	struct store_txn *t;
	struct store *s = open_writer(p, &t);
	tidemark *tm;
	tidemark_table *table;
	tidemark_cursor *c;
	tidemark_row row;

	put_table(t, 1, "t", TABLE_COPIED, 1, &v1);
	put_entry(t, 1, 1, &v1, (const char *const[]){"1", "a1", "b1"}, false);
	put_entry(t, 1, 1, &v1, (const char *const[]){"3", "a3", NULL}, false);
	put_table(t, 1, "t", TABLE_COPIED, 2, &v2);
	put_entry(t, 1, 2, &v2, (const char *const[]){"2", "b2", "c2", "d2"}, false);
	close_writer(s, t);
	tm = open_at(p, "t", &table);
	assert_int_equal(tidemark_column_count(table), 4);
	assert_int_equal(tidemark_scan(table, NULL, 0, NULL, 0, &c), 0);
	assert_int_equal(tidemark_next(c, &row), 0);
	assert_int_equal(row.schema_version, 1);
	check_value(&row, 0, "1");
	check_value(&row, 1, "b1");
	check_value(&row, 2, NULL);
	check_value(&row, 3, NULL);
	assert_int_equal(tidemark_next(c, &row), 0);
	assert_int_equal(row.schema_version, 2);
	check_value(&row, 1, "b2");
	check_value(&row, 3, "d2");
	assert_int_equal(tidemark_next(c, &row), 0);
	check_value(&row, 0, "3");
	check_value(&row, 1, NULL);
	tidemark_cursor_close(c);
	tidemark_close(tm);
}

/* Lengths around those where a text's code takes one more byte, and where LMDB moves it to pages of its own.
 */
static void values_of_all_lengths_are_terminated(void **state)
{
	static const size_t sizes[] = {0, 1, 124, 125, 126, 127, 128, 2000, 2100, 16380, 16384, 100000};
	struct place *p = *state;
	struct store_txn *t;
	struct store *s = open_writer(p, &t);
	tidemark *tm;
	tidemark_table *table;
	tidemark_row row;
	char *text = malloc(100001), id[8];

	put_table(t, 1, "orders", TABLE_COPIED, 1, &orders);
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		memset(text, 'a' + (int)i, sizes[i]);
		text[sizes[i]] = '\0';
		snprintf(id, sizeof id, "%zu", i);
		ROW(t, 1, &orders, id, text, text);
	}
	close_writer(s, t);
	tm = open_at(p, "orders", &table);
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		memset(text, 'a' + (int)i, sizes[i]);
		text[sizes[i]] = '\0';
		snprintf(id, sizeof id, "%zu", i);
		assert_int_equal(tidemark_get(table, KEY(id), &row), 0);
		check_value(&row, 2, text);
		check_value(&row, 1, text);
		check_value(&row, 0, id);
	}
	free(text);
	tidemark_close(tm);
}

static void a_damaged_entry_names_its_table(void **state)
{
	struct place *p = *state;
	struct store_txn *t;
	struct store *s = open_writer(p, &t);
	struct err err;
	tidemark *tm;
	tidemark_table *table;
	tidemark_cursor *c;
	tidemark_row row;

	put_table(t, 1, "words", TABLE_COPIED, 1, &words);
	CHECK(store_row_put(t, 1, slice_of("cut"), bytes_of("\0\0\0", 3), &err));
	CHECK(store_row_put(t, 1, slice_of("version"), bytes_of("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\11\2", 19),
						&err));
	CHECK(store_row_put(t, 1, slice_of("short"), bytes_of("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\7a", 20),
						&err));
	close_writer(s, t);
	tm = open_at(p, "words", &table);
	assert_int_equal(tidemark_get(table, KEY("cut"), &row), TIDEMARK_E_CORRUPT);
	check_message(tm, "table public.words: an entry of 3 bytes is damaged");
	assert_int_equal(tidemark_get(table, KEY("short"), &row), TIDEMARK_E_CORRUPT);
	check_message(tm, "table public.words");
	assert_int_equal(tidemark_get(table, KEY("version"), &row), TIDEMARK_E_CORRUPT);
	check_message(tm, "no schema version 9");
	assert_null(tidemark_row_value(&row, 0));
	assert_int_equal(tidemark_scan(table, NULL, 0, NULL, 0, &c), 0);
	assert_int_equal(tidemark_next(c, &row), TIDEMARK_E_CORRUPT);
	tidemark_cursor_close(c);
	tidemark_close(tm);
}

/* ---- scans ---- */

/* Joins column `column` of all rows that a scan shows. */
static const char *scan_text(tidemark_table *table, const char *const *from, size_t nfrom,
							 const char *const *to, size_t nto)
{
	static char text[512];
	tidemark_cursor *c;
	tidemark_row row;
	int rc;

	text[0] = '\0';
	assert_int_equal(tidemark_scan(table, from, nfrom, to, nto, &c), 0);
	while ((rc = tidemark_next(c, &row)) == 0) {
		strcat(text, tidemark_row_value(&row, tidemark_column_count(table) - 1));
		strcat(text, " ");
	}
	assert_int_equal(rc, TIDEMARK_E_NOTFOUND);
	tidemark_cursor_close(c);
	return text;
}

static void scans_keep_their_bounds(void **state)
{
	struct place *p = *state;
	struct store_txn *t;
	struct store *s = open_writer(p, &t);
	tidemark *tm;
	tidemark_table *table;

	put_table(t, 1, "pairs", TABLE_COPIED, 1, &pairs);
	ROW(t, 1, &pairs, "", "0", "e0");
	ROW(t, 1, &pairs, "ab", "-1", "ab-1");
	ROW(t, 1, &pairs, "ab", "2", "ab2");
	ROW(t, 1, &pairs, "ab", "10", "ab10");
	ROW(t, 1, &pairs, "abc", "1", "abc1");
	ROW(t, 1, &pairs, "b", "1", "b1");
	close_writer(s, t);
	tm = open_at(p, "pairs", &table);
	assert_string_equal(scan_text(table, NULL, 0, NULL, 0), "e0 ab-1 ab2 ab10 abc1 b1 ");
	assert_string_equal(scan_text(table, KEY("ab"), KEY("ab")), "ab-1 ab2 ab10 ");
	assert_string_equal(scan_text(table, KEY("ab", "2"), NULL, 0), "ab2 ab10 abc1 b1 ");
	assert_string_equal(scan_text(table, KEY("ab", "3"), KEY("ab", "10")), "ab10 ");
	assert_string_equal(scan_text(table, NULL, 0, KEY("ab", "2")), "e0 ab-1 ab2 ");
	assert_string_equal(scan_text(table, KEY("abc"), KEY("abc")), "abc1 ");
	assert_string_equal(scan_text(table, KEY("aa"), KEY("aaa")), "");
	assert_string_equal(scan_text(table, KEY("b"), KEY("ab")), "");
	assert_string_equal(scan_text(table, NULL, 0, KEY("")), "e0 ");
	assert_string_equal(scan_text(table, KEY(""), KEY("", "-1")), "");
	assert_string_equal(scan_text(table, KEY("c"), NULL, 0), "");
	tidemark_close(tm);
}

/* One empty text is a key of its own, and the lowest. */
static void an_empty_key_can_be_found(void **state)
{
	struct place *p = *state;
	struct store_txn *t;
	struct store *s = open_writer(p, &t);
	tidemark *tm;
	tidemark_table *table;
	tidemark_row row;

	put_table(t, 1, "words", TABLE_COPIED, 1, &words);
	ROW(t, 1, &words, "", "empty");
	ROW(t, 1, &words, "a", "letter");
	close_writer(s, t);
	tm = open_at(p, "words", &table);
	assert_int_equal(tidemark_get(table, KEY(""), &row), 0);
	check_value(&row, 1, "empty");
	assert_string_equal(scan_text(table, KEY(""), KEY("")), "empty ");
	assert_string_equal(scan_text(table, KEY(""), NULL, 0), "empty letter ");
	tidemark_close(tm);
}

/* ---- scans over long keys, against a list of full encodings ---- */

#define LONG_KEYS 120

struct long_key {
	char city[700], number[8];
	struct buf full;
};

static void long_keys_make(struct long_key keys[LONG_KEYS], uint64_t *seed)
{
	for (size_t i = 0; i < LONG_KEYS; i++) {
		size_t n = random_below(seed, 3) == 0 ? random_below(seed, 40) : 470 + random_below(seed, 60);
		struct slice texts[2];
		struct err err;

		memset(keys[i].city, 'm', n);
		if (n > 0 && random_below(seed, 2))
			keys[i].city[random_below(seed, n)] = "alz"[random_below(seed, 3)];
		keys[i].city[n] = '\0';
		snprintf(keys[i].number, sizeof keys[i].number, "%zu", random_below(seed, 4));
		texts[0] = slice_of(keys[i].city);
		texts[1] = slice_of(keys[i].number);
		keys[i].full = (struct buf){0};
		CHECK(key_encode_prefix(pairs.kinds, 2, texts, 2, &keys[i].full, &err));
	}
}

static struct slice full_of(const struct long_key *k)
{
	return (struct slice){k->full.p, k->full.n};
}

/* By the promise of tidemark.h: n columns are compared, as full encodings. */
static bool is_expected(const struct long_key *k, const struct long_key *from, size_t nfrom,
						const struct long_key *to, size_t nto)
{
	if (nfrom == 2 && slice_cmp(full_of(k), full_of(from)) < 0) return false;
	if (nfrom == 1 && strcmp(k->city, from->city) < 0) return false;
	if (nto == 2 && slice_cmp(full_of(k), full_of(to)) > 0) return false;
	return nto != 1 || strcmp(k->city, to->city) <= 0;
}

static bool is_duplicate(const struct long_key *keys, size_t i)
{
	for (size_t j = 0; j < i; j++)
		if (slice_eq(full_of(&keys[i]), full_of(&keys[j]))) return true;
	return false;
}

static size_t count_expected(const struct long_key *keys, const struct long_key *from, size_t nfrom,
							 const struct long_key *to, size_t nto)
{
	size_t n = 0;

	for (size_t i = 0; i < LONG_KEYS; i++)
		n += !is_duplicate(keys, i) && is_expected(&keys[i], from, nfrom, to, nto);
	return n;
}

static void check_scan(tidemark_table *table, const struct long_key *keys, const struct long_key *from,
					   size_t nfrom, const struct long_key *to, size_t nto)
{
	const char *from_texts[] = {from->city, from->number}, *to_texts[] = {to->city, to->number};
	tidemark_cursor *c;
	tidemark_row row;
	size_t n = 0;

	assert_int_equal(tidemark_scan(table, from_texts, nfrom, to_texts, nto, &c), 0);
	while (tidemark_next(c, &row) == 0) {
		const struct long_key *k = &keys[atoi(tidemark_row_value(&row, 2))];

		check_value(&row, 0, k->city);
		check_value(&row, 1, k->number);
		assert_true(is_expected(k, from, nfrom, to, nto));
		n++;
	}
	tidemark_cursor_close(c);
	assert_int_equal(n, count_expected(keys, from, nfrom, to, nto));
}

static void scans_are_exact_for_keys_of_any_length(void **state)
{
	static struct long_key keys[LONG_KEYS];
	struct place *p = *state;
	struct store_txn *t;
	struct store *s = open_writer(p, &t);
	uint64_t seed = 5;
	tidemark *tm;
	tidemark_table *table;
	tidemark_row row;

	put_table(t, 1, "pairs", TABLE_COPIED, 1, &pairs);
	long_keys_make(keys, &seed);
	for (size_t i = LONG_KEYS; i-- > 0;) { /* the first of equal keys stays */
		char index[24];

		snprintf(index, sizeof index, "%zu", i);
		ROW(t, 1, &pairs, keys[i].city, keys[i].number, index);
	}
	close_writer(s, t);
	tm = open_at(p, "pairs", &table);
	for (size_t i = 0; i < LONG_KEYS; i++) {
		assert_int_equal(tidemark_get(table, KEY(keys[i].city, keys[i].number), &row), 0);
		check_value(&row, 0, keys[i].city);
	}
	for (int i = 0; i < 3000; i++)
		check_scan(table, keys, &keys[random_below(&seed, LONG_KEYS)], random_below(&seed, 3),
				   &keys[random_below(&seed, LONG_KEYS)], random_below(&seed, 3));
	tidemark_close(tm);
	for (size_t i = 0; i < LONG_KEYS; i++)
		buf_finish(&keys[i].full);
}

/* Another key under the same stored form, which only an attack on SHA-256 could make. */
static void a_long_key_is_compared_in_full(void **state)
{
	struct place *p = *state;
	struct store_txn *t;
	struct store *s = open_writer(p, &t);
	struct cell cells[2] = {cell_of("x"), cell_of("other")};
	struct slice text;
	struct buf full = {0}, entry = {0};
	uint8_t key[KEY_MAX];
	char city[601];
	struct err err;
	bool is_long;
	size_t n;
	tidemark *tm;
	tidemark_table *table;
	tidemark_row row;

	put_table(t, 1, "words", TABLE_COPIED, 1, &words);
	memset(city, 'c', 600);
	city[600] = '\0';
	text = slice_of(city);
	CHECK(key_encode(words.kinds, &text, 1, key, &n, &full, &is_long, &err));
	assert_true(is_long);
	full.p[599] = 'd';
	row_encode(&entry, POS_NONE, 1, XID(0), (struct slice){full.p, full.n}, cells, 2);
	CHECK(store_row_put(t, 1, (struct slice){key, n}, (struct slice){entry.p, entry.n}, &err));
	close_writer(s, t);
	tm = open_at(p, "words", &table);
	assert_int_equal(tidemark_get(table, KEY(city), &row), TIDEMARK_E_NOTFOUND);
	city[599] = 'd';
	assert_string_equal(scan_text(table, KEY(city), KEY(city)), "other ");
	tidemark_close(tm);
	buf_finish(&full);
	buf_finish(&entry);
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
		STORE_TEST(a_row_is_found_by_its_key),
		STORE_TEST(a_wrong_key_is_an_argument_error),
		STORE_TEST(deleted_and_hidden_rows_are_not_shown),
		STORE_TEST(old_rows_show_todays_columns_by_name),
		STORE_TEST(values_of_all_lengths_are_terminated),
		STORE_TEST(a_damaged_entry_names_its_table),
		STORE_TEST(scans_keep_their_bounds),
		STORE_TEST(an_empty_key_can_be_found),
		STORE_TEST(scans_are_exact_for_keys_of_any_length),
		STORE_TEST(a_long_key_is_compared_in_full),
		STORE_TEST(position_runs_and_lineage_are_shown),
		STORE_TEST(the_scope_of_a_run_is_shown),
		STORE_TEST(a_large_transaction_shows_at_once),
		STORE_TEST(what_holds_markers_back_is_told),
		STORE_TEST(a_new_store_has_no_position),
	};

	return cmocka_run_group_tests_name("state/tidemark", tests, NULL, NULL);
}
