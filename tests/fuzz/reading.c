#include "tests/fuzz/reading.h"

#include "state/key.h"
#include "tests/fuzz/fuzz.h"

struct reading {
	tidemark *tm;
	bool exact;
};

/* True: it can be used. */
static bool good(const struct reading *r, int rc, const char *what)
{
	if (rc == TIDEMARK_OK) return true;
	CHECK_THAT(!r->exact, "%s: %s", what, tidemark_errmsg(r->tm));
	CHECK_THAT(rc == TIDEMARK_E_CORRUPT || rc == TIDEMARK_E_NOTFOUND, "%s: code %d, %s", what, rc,
			   tidemark_errmsg(r->tm));
	CHECK_THAT(*tidemark_errmsg(r->tm) != '\0', "%s: code %d", what, rc);
	return false;
}

/* A sanitizer looks at every byte of it. */
static void touch(const char *text)
{
	CHECK_THAT(!text || strlen(text) < SIZE_MAX, "text");
}

/* ---- rows ---- */

static void read_values(const tidemark_table *t, const tidemark_row *row)
{
	for (size_t i = 0; i < tidemark_column_count(t); i++) {
		const char *text = tidemark_row_value(row, i);
		size_t n = tidemark_row_length(row, i);

		CHECK_THAT(text || n == 0, "column %zu: %zu bytes of nothing", i, n);
		CHECK_THAT(!text || (text[n] == '\0' && strlen(text) <= n), "column %zu", i);
	}
	CHECK_THAT(!tidemark_row_value(row, tidemark_column_count(t)), "a column too many");
}

/* The texts of its key; false: one has a NUL or, in a damaged row, is missing. */
static bool key_of(const tidemark_table *t, const tidemark_row *row, char *key[KEY_COLUMNS_MAX])
{
	bool whole = true;

	for (size_t i = 0; i < tidemark_key_count(t); i++) {
		size_t column = tidemark_key_column(t, i);
		const char *text = tidemark_row_value(row, column);

		whole = whole && text && strlen(text) == tidemark_row_length(row, column);
		key[i] = strdup(text ? text : "");
	}
	return whole;
}

static void find_row(const struct reading *r, tidemark_table *t, const tidemark_row *row)
{
	char *key[KEY_COLUMNS_MAX];
	tidemark_row found;
	bool whole = key_of(t, row, key);

	if (whole && tidemark_key_count(t) > 0) {
		int rc = tidemark_get(t, (const char *const *)key, tidemark_key_count(t), &found);

		if (r->exact) {
			CHECK_THAT(rc == TIDEMARK_OK, "%s", tidemark_errmsg(r->tm));
			CHECK_THAT(found.commit_lsn == row->commit_lsn && found.ordinal == row->ordinal, "another row");
			read_values(t, &found);
		} else if (rc == TIDEMARK_OK) {
			read_values(t, &found);
		} else if (rc != TIDEMARK_E_ARGUMENT) {
			(void)good(r, rc, "get");
		}
	}
	for (size_t i = 0; i < tidemark_key_count(t); i++)
		free(key[i]);
}

static void read_rows(const struct reading *r, tidemark_table *t)
{
	tidemark_cursor *c;
	tidemark_row row;
	uint64_t n = 0;
	int rc = tidemark_scan(t, NULL, 0, NULL, 0, &c);

	if (!good(r, rc, "scan")) return;
	while ((rc = tidemark_next(c, &row)) == TIDEMARK_OK) {
		n++;
		read_values(t, &row);
		find_row(r, t, &row);
	}
	CHECK_THAT(rc == TIDEMARK_E_NOTFOUND || !r->exact, "%s", tidemark_errmsg(r->tm));
	if (rc != TIDEMARK_E_NOTFOUND) (void)good(r, rc, "next");
	CHECK_THAT(!r->exact || n == tidemark_table_get_info(t)->rows, "%llu rows, %llu told",
			   (unsigned long long)n, (unsigned long long)tidemark_table_get_info(t)->rows);
	tidemark_cursor_close(c);
}

/* ---- tables ---- */

static void read_columns(const tidemark_table *t)
{
	for (size_t i = 0; i < tidemark_column_count(t); i++) {
		touch(tidemark_column_name(t, i));
		touch(tidemark_column_type(t, i));
		(void)tidemark_column_type_oid(t, i);
		(void)tidemark_column_class(t, i);
	}
	for (size_t i = 0; i < tidemark_key_count(t); i++)
		CHECK_THAT(tidemark_key_column(t, i) < tidemark_column_count(t), "key column %zu", i);
}

static void read_table(const struct reading *r, size_t i)
{
	const tidemark_table_info *info;
	tidemark_table *t, *same;

	if (!good(r, tidemark_table_at(r->tm, i, &t), "table_at")) return;
	info = tidemark_table_get_info(t);
	touch(info->schema_name);
	touch(info->table_name);
	touch(tidemark_state_name(info->state));
	read_columns(t);
	read_rows(r, t);
	(void)good(r, tidemark_table_find(r->tm, info->schema_name, info->table_name, &same), "table_find");
}

/* ---- the rest ---- */

static void read_run(const struct reading *r, size_t i)
{
	tidemark_run_info run;

	if (!good(r, tidemark_run_at(r->tm, i, &run), "run_at")) return;
	touch(run.kind);
	touch(run.state);
	touch(run.requester);
	touch(run.first_snapshot);
	touch(run.last_snapshot);
}

static void read_status(const struct reading *r)
{
	tidemark_position position;
	tidemark_store_info info;
	size_t n;
	int rc;

	rc = tidemark_get_position(r->tm, &position);
	if (rc != TIDEMARK_E_NOTFOUND) (void)good(r, rc, "position");
	if (good(r, tidemark_get_store_info(r->tm, &info), "store_info")) {
		touch(info.slot);
		touch(info.publication);
		touch(info.source);
	}
	if (!good(r, tidemark_run_count(r->tm, &n), "run_count")) return;
	for (size_t i = 0; i < n; i++)
		read_run(r, i);
}

void reading_all(tidemark *tm, bool exact)
{
	struct reading r = {tm, exact};
	size_t n;

	if (!good(&r, tidemark_begin(tm), "begin")) return;
	read_status(&r);
	if (good(&r, tidemark_table_count(tm, &n), "table_count"))
		for (size_t i = 0; i < n; i++)
			read_table(&r, i);
	tidemark_end(tm);
}
