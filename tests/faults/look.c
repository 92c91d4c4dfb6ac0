/*
 * tests/faults/look.c - a reader of stores, for what the commands do not show.
 *
 *     look check         for each line "DIR" of standard input, a line of JSON: what the store says, and
 *                        what in it contradicts itself
 *     look write         likewise, after opening it as a daemon does
 *     look stay DIR      stays in one read transaction until a line comes, then out of it until the end
 *
 * Through state/tidemark.h, as any reader would.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "state/bytes.h"
#include "state/pos.h"
#include "state/sha256.h"
#include "state/store.h"
#include "state/tidemark.h"

struct look {
	tidemark *tm;
	tidemark_position position;
	bool has_position;
	struct buf seen; /* everything that was read, for the digest */
	size_t tables, live;
	uint64_t rows;
	char problem[600]; /* the first one */
};

static void complain(struct look *l, const char *what, const char *table, uint64_t a, uint64_t b)
{
	if (l->problem[0]) return;
	snprintf(l->problem, sizeof l->problem, "%s: %s (%" PRIX64 ", %" PRIX64 ")", table, what, a, b);
}

static void see_text(struct look *l, const char *s, size_t n)
{
	if (s)
		buf_put_blob(&l->seen, s, n);
	else
		buf_put_u64(&l->seen, UINT64_MAX);
}

static void see_word(struct look *l, const char *s)
{
	see_text(l, s, s ? strlen(s) : 0);
}

/* ---- rows ---- */

static void look_at_row(struct look *l, const tidemark_table *t, const tidemark_row *row)
{
	const char *name = tidemark_table_get_info(t)->table_name;

	if (row->epoch > l->position.epoch) complain(l, "a row of a later epoch", name, row->epoch, 0);
	if (row->commit_lsn > l->position.lsn)
		complain(l, "a row is newer than the checkpoint", name, row->commit_lsn, l->position.lsn);
	buf_put_u64(&l->seen, row->commit_lsn);
	buf_put_u64(&l->seen, row->ordinal);
	for (size_t i = 0; i < tidemark_column_count(t); i++)
		see_text(l, tidemark_row_value(row, i), tidemark_row_length(row, i));
}

static int look_at_rows(struct look *l, tidemark_table *t, uint64_t *n)
{
	tidemark_cursor *c;
	tidemark_row row;
	int rc = tidemark_scan(t, NULL, 0, NULL, 0, &c);

	if (rc != 0) return rc;
	while ((rc = tidemark_next(c, &row)) == 0) {
		++*n;
		look_at_row(l, t, &row);
	}
	tidemark_cursor_close(c);
	return rc == TIDEMARK_E_NOTFOUND ? 0 : rc;
}

static int look_at_table(struct look *l, tidemark_table *t)
{
	const tidemark_table_info *info = tidemark_table_get_info(t);
	uint64_t n = 0;
	int rc = look_at_rows(l, t, &n);

	if (rc != 0) return rc;
	if (n != info->rows) complain(l, "the count differs from the rows", info->table_name, info->rows, n);
	if (info->high_lsn > l->position.lsn)
		complain(l, "its last change is newer than the checkpoint", info->table_name, info->high_lsn,
				 l->position.lsn);
	see_word(l, info->schema_name);
	see_word(l, info->table_name);
	buf_put_u64(&l->seen, (uint64_t)info->state);
	buf_put_u64(&l->seen, info->rows);
	buf_put_u64(&l->seen, info->markers);
	buf_put_u64(&l->seen, info->hidden);
	buf_put_u64(&l->seen, info->doubt);
	buf_put_u64(&l->seen, info->high_lsn);
	l->rows += n;
	l->live += info->state == TIDEMARK_LIVE;
	return 0;
}

/* ---- the whole store ---- */

static int look_at_runs(struct look *l)
{
	tidemark_run_info r;
	size_t n;
	int rc = tidemark_run_count(l->tm, &n);

	for (size_t i = 0; rc == 0 && i < n; i++) {
		rc = tidemark_run_at(l->tm, i, &r);
		if (rc != 0) break;
		see_word(l, r.state);
		buf_put_u64(&l->seen, r.id);
		buf_put_u64(&l->seen, r.rows_read);
		buf_put_u64(&l->seen, r.rows_written);
		buf_put_u64(&l->seen, r.lowest_bound);
	}
	return rc;
}

static int look_at_position(struct look *l)
{
	int rc = tidemark_get_position(l->tm, &l->position);

	l->has_position = rc == 0;
	buf_put_u64(&l->seen, l->position.lsn);
	buf_put_u64(&l->seen, l->position.commit_lsn);
	buf_put_u64(&l->seen, (uint64_t)l->position.written_us);
	return rc == TIDEMARK_E_NOTFOUND ? 0 : rc;
}

static int look_at_all(struct look *l)
{
	tidemark_table *t;
	int rc = look_at_position(l);

	if (rc == 0) rc = tidemark_table_count(l->tm, &l->tables);
	for (size_t i = 0; rc == 0 && i < l->tables; i++) {
		rc = tidemark_table_at(l->tm, i, &t);
		if (rc == 0) rc = look_at_table(l, t);
	}
	return rc == 0 ? look_at_runs(l) : rc;
}

/* ---- the answer ---- */

static void put_quoted(const char *s)
{
	putchar('"');
	for (; *s; s++) {
		if (*s == '"' || *s == '\\') putchar('\\');
		if ((unsigned char)*s >= ' ') putchar(*s);
	}
	putchar('"');
}

static void put_answer(const struct look *l, const char *error)
{
	uint8_t digest[SHA256_SIZE];

	sha256((struct slice){l->seen.p, l->seen.n}, digest);
	printf("{\"checkpoint\": %" PRIu64 ", \"tables\": %zu, \"live\": %zu, \"rows\": %" PRIu64
		   ", \"digest\": \"",
		   l->position.lsn, l->tables, l->live, l->rows);
	for (size_t i = 0; i < 16; i++)
		printf("%02x", digest[i]);
	printf("\", \"error\": ");
	put_quoted(error);
	printf(", \"problem\": ");
	put_quoted(l->problem);
	puts("}");
	fflush(stdout);
}

/* Answers when the store is closed again: whoever waits for it may replace the file. */
static void check(const char *dir)
{
	struct look l = {0};
	char error[1024] = "";
	int rc = tidemark_open(dir, &l.tm);

	if (rc == 0) rc = tidemark_begin(l.tm);
	if (rc == 0) rc = look_at_all(&l);
	if (rc != 0) snprintf(error, sizeof error, "%s", tidemark_errmsg(l.tm));
	tidemark_close(l.tm);
	put_answer(&l, error);
	buf_finish(&l.seen);
}

/* What a daemon does first. Its one commit changes nothing that is looked at. */
static bool open_for_writing(const char *dir)
{
	struct store *s;
	struct err err;
	bool ok = store_open(dir, STORE_WRITE, &s, &err);

	if (ok)
		store_close(s);
	else
		put_answer(&(struct look){0}, err.msg);
	return ok;
}

static int answer_lines(bool write)
{
	char line[4096];

	while (fgets(line, sizeof line, stdin)) {
		line[strcspn(line, "\n")] = '\0';
		if (!write || open_for_writing(line)) check(line);
	}
	return 0;
}

static int stay(const char *dir)
{
	tidemark *tm;
	char line[64];

	if (tidemark_open(dir, &tm) != 0 || tidemark_begin(tm) != 0) {
		fprintf(stderr, "look: %s\n", tidemark_errmsg(NULL));
		return 1;
	}
	puts("reading");
	fflush(stdout);
	if (fgets(line, sizeof line, stdin)) tidemark_end(tm);
	puts("done");
	fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
	}
	tidemark_close(tm);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "check") == 0) return answer_lines(false);
	if (argc == 2 && strcmp(argv[1], "write") == 0) return answer_lines(true);
	if (argc == 3 && strcmp(argv[1], "stay") == 0) return stay(argv[2]);
	fprintf(stderr, "usage: look check | look write | look stay DIR\n");
	return 2;
}
