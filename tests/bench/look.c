/*
 * tests/bench/look.c - a reader of a store, as any process of the machine would be, with a clock.
 *
 *     look scan DIR TABLE                every row through libtidemark, once
 *     look plain DIR TABLE               the same with LMDB alone: the limit
 *     look points DIR TABLE KEYS COUNT   COUNT rows by random keys from 1 to KEYS
 *     look visible DIR TABLE TIMES COUNT how long after its COMMIT each of COUNT rows, keys from 0, can be
 * read look progress DIR TABLE            rows that the table's run has read against time, until it has ended
 *
 * TABLE is in the schema public. Each prints one line of JSON.
 */
#include <inttypes.h>
#include <lmdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "state/tidemark.h"
#include "tests/bench/clock.h"
#include "tests/bench/times.h"

enum {
	POLL_NS = 50000, /* between looks for what has just been committed */
	GIVE_UP_NS = 1000000000,
	GETS_A_TRANSACTION = 1000
};

struct reader {
	tidemark *tm;
	tidemark_table *table;
	const char *dir, *name;
};

static void must(const struct reader *r, const char *what, int rc)
{
	if (rc == 0) return;
	fprintf(stderr, "look: %s: %s\n", what, tidemark_errmsg(r->tm));
	exit(1);
}

/* A state to read from, the newest; in a store that has just been made, the first that has the table. */
static void renew(struct reader *r)
{
	int64_t give_up = clock_ns() + 10 * (int64_t)GIVE_UP_NS;

	for (;;) {
		tidemark_end(r->tm);
		must(r, "begin", tidemark_begin(r->tm));
		if (tidemark_table_find(r->tm, "public", r->name, &r->table) == 0) return;
		if (clock_ns() > give_up) must(r, r->name, TIDEMARK_E_NOTFOUND);
		clock_wait_until(clock_ns() + POLL_NS);
	}
}

static void open_store(struct reader *r)
{
	must(r, r->dir, tidemark_open(r->dir, &r->tm));
	renew(r);
}

static uint64_t position(const struct reader *r)
{
	tidemark_position p = {0};

	tidemark_get_position(r->tm, &p);
	return p.lsn;
}

/* ---- all rows ---- */

static void report_scan(uint64_t rows, uint64_t bytes, int64_t took_ns, uint64_t at)
{
	printf("{\"rows\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"seconds\": %.6f, \"lsn\": %" PRIu64 "}\n", rows,
		   bytes, (double)took_ns / 1e9, at);
}

static void scan(struct reader *r)
{
	size_t last = tidemark_column_count(r->table) - 1;
	int64_t began = clock_ns();
	uint64_t rows = 0, bytes = 0;
	tidemark_cursor *c;
	tidemark_row row;
	int rc;

	must(r, "scan", tidemark_scan(r->table, NULL, 0, NULL, 0, &c));
	for (; (rc = tidemark_next(c, &row)) == 0; rows++)
		bytes += tidemark_row_length(&row, 0) + tidemark_row_length(&row, last);
	if (rc != TIDEMARK_E_NOTFOUND) must(r, "next", rc);
	tidemark_cursor_close(c);
	report_scan(rows, bytes, clock_ns() - began, position(r));
}

static void must_lmdb(int rc)
{
	if (rc == 0) return;
	fprintf(stderr, "look: %s\n", mdb_strerror(rc));
	exit(1);
}

static void plain_rows(MDB_txn *txn, const char *database, uint64_t at)
{
	int64_t began = clock_ns();
	uint64_t rows = 0, bytes = 0;
	MDB_cursor *c;
	MDB_val k, v;
	MDB_dbi dbi;
	int rc;

	must_lmdb(mdb_dbi_open(txn, database, 0, &dbi));
	must_lmdb(mdb_cursor_open(txn, dbi, &c));
	for (; (rc = mdb_cursor_get(c, &k, &v, MDB_NEXT)) == 0; rows++)
		bytes += k.mv_size + v.mv_size + ((const uint8_t *)v.mv_data)[v.mv_size - 1];
	if (rc != MDB_NOTFOUND) must_lmdb(rc);
	mdb_cursor_close(c);
	report_scan(rows, bytes, clock_ns() - began, at);
}

/* A process may have a store open once: the other reader goes before. */
static void plain(struct reader *r)
{
	char database[24];
	uint64_t at = position(r);
	MDB_env *env;
	MDB_txn *txn;

	snprintf(database, sizeof database, "rows.%" PRIu32, tidemark_table_get_info(r->table)->id);
	tidemark_close(r->tm);
	r->tm = NULL;
	must_lmdb(mdb_env_create(&env));
	must_lmdb(mdb_env_set_maxdbs(env, 64));
	must_lmdb(mdb_env_open(env, r->dir, MDB_RDONLY, 0));
	must_lmdb(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn));
	plain_rows(txn, database, at);
	mdb_txn_abort(txn);
	mdb_env_close(env);
}

/* ---- one row ---- */

static uint64_t draw(uint64_t *state, uint64_t keys)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state % keys + 1;
}

static int64_t get_some(struct reader *r, uint64_t *state, uint64_t keys, uint64_t count, uint64_t *found)
{
	int64_t began = clock_ns();
	char key[24];
	const char *const texts[] = {key};
	tidemark_row row;

	for (uint64_t i = 0; i < count; i++) {
		if (i % GETS_A_TRANSACTION == 0) renew(r);
		snprintf(key, sizeof key, "%" PRIu64, draw(state, keys));
		*found += tidemark_get(r->table, texts, 1, &row) == 0 && tidemark_row_value(&row, 1) != NULL;
	}
	return clock_ns() - began;
}

/* Warm: the same keys are read once before. */
static void points(struct reader *r, uint64_t keys, uint64_t count)
{
	uint64_t state = UINT64_C(0x9E3779B97F4A7C15), again = state, found = 0;
	int64_t took_ns;

	get_some(r, &state, keys, count, &found);
	found = 0;
	took_ns = get_some(r, &again, keys, count, &found);
	printf("{\"count\": %" PRIu64 ", \"found\": %" PRIu64 ", \"us\": %.3f}\n", count, found,
		   (double)took_ns / 1e3 / (double)count);
}

/* ---- from COMMIT to here ---- */

static int compare(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

static void report_visible(int64_t *ns, size_t n)
{
	qsort(ns, n, sizeof *ns, compare);
	printf("{\"count\": %zu, \"p50_us\": %.1f, \"p99_us\": %.1f, \"max_us\": %.1f}\n", n,
		   (double)ns[n / 2] / 1e3, (double)ns[n * 99 / 100] / 1e3, (double)ns[n - 1] / 1e3);
}

static bool is_there(const struct reader *r, size_t number)
{
	char key[24];
	const char *const texts[] = {key};
	tidemark_row row;

	snprintf(key, sizeof key, "%zu", number);
	return tidemark_get(r->table, texts, 1, &row) == 0;
}

/* Several connections commit in no order, but none is far behind: look at all up to the first without a time.
 */
enum { BEHIND = 64 };

/* How many of the numbers from *first on were found in this state. */
static size_t look_for(const struct reader *r, const struct times *t, int64_t *seen, size_t *first)
{
	int64_t now = clock_ns();
	size_t found = 0;

	for (size_t i = *first; i < t->count && i < *first + BEHIND; i++) {
		int64_t at = seen[i] == 0 ? times_get(t, i) : 0;

		if (at == 0 || !is_there(r, i)) continue;
		seen[i] = now > at ? now - at : 1; /* it can be here before the writer has been told */
		found++;
	}
	while (*first < t->count && seen[*first] != 0)
		++*first;
	return found;
}

static void visible(struct reader *r, const char *path, size_t count)
{
	int64_t *seen = calloc(count, sizeof *seen), idle_since = clock_ns() + 10 * (int64_t)GIVE_UP_NS;
	struct times t;
	size_t first = 0;

	if (!seen || !times_open(&t, path, count)) exit(1);
	while (first < count && clock_ns() - idle_since < GIVE_UP_NS) {
		renew(r);
		if (look_for(r, &t, seen, &first) > 0) idle_since = clock_ns();
		clock_wait_until(clock_ns() + POLL_NS);
	}
	report_visible(seen, first > 0 ? first : 1);
	times_close(&t);
	free(seen);
}

/* ---- a run ---- */

/* The newest of the table; false: it has none. */
static bool find_run(const struct reader *r, tidemark_run_info *out)
{
	uint32_t id = tidemark_table_get_info(r->table)->id;
	size_t n = 0;

	*out = (tidemark_run_info){0};
	tidemark_run_count(r->tm, &n);
	while (n-- > 0)
		if (tidemark_run_at(r->tm, n, out) == 0 && out->table_id == id) return true;
	return false;
}

/* One that has not ended yet, or the next one. */
static void progress(struct reader *r)
{
	tidemark_run_info run;
	int64_t began = clock_ns();
	uint64_t ended = find_run(r, &run) && run.ended_us != 0 ? run.id : 0, shown = UINT64_MAX;
	const char *comma = "";

	printf("{\"samples\": [");
	do {
		renew(r);
		if (!find_run(r, &run) || run.id == ended) run = (tidemark_run_info){0};
		if (run.id != 0 && run.rows_read != shown) {
			printf("%s[%.4f, %" PRIu64 "]", comma, (double)(clock_ns() - began) / 1e9, run.rows_read);
			comma = ", ";
			shown = run.rows_read;
		}
		clock_wait_until(clock_ns() + 100 * (int64_t)POLL_NS);
	} while (run.ended_us == 0);
	printf("], \"seconds\": %.3f}\n", (double)(run.ended_us - run.started_us) / 1e6);
}

int main(int argc, char **argv)
{
	struct reader r = {0};

	if (argc < 4) {
		fprintf(stderr, "usage: look scan|plain|points|visible|progress DIR TABLE ...\n");
		return 2;
	}
	r.dir = argv[2];
	r.name = argv[3];
	open_store(&r);
	if (strcmp(argv[1], "scan") == 0) scan(&r);
	if (strcmp(argv[1], "plain") == 0) plain(&r);
	if (strcmp(argv[1], "progress") == 0) progress(&r);
	if (strcmp(argv[1], "points") == 0 && argc == 6)
		points(&r, strtoull(argv[4], NULL, 10), strtoull(argv[5], NULL, 10));
	if (strcmp(argv[1], "visible") == 0 && argc == 6) visible(&r, argv[4], strtoul(argv[5], NULL, 10));
	tidemark_close(r.tm);
	return 0;
}
