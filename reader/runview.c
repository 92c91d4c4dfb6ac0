#include "reader/runview.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "reader/human.h"
#include "reader/view.h"
#include "state/pos.h"

bool run_info_is_open(const tidemark_run_info *r)
{
	static const char *const over[] = {"done", "failed", "stopped"};
	for (size_t i = 0; i < sizeof over / sizeof *over; i++)
		if (strcmp(r->state, over[i]) == 0) return false;
	return true;
}

/* ---- text ---- */

static void put(struct buf *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void put(struct buf *out, const char *fmt, ...)
{
	char piece[512];
	va_list args;
	va_start(args, fmt);
	int n = vsnprintf(piece, sizeof piece, fmt, args);
	va_end(args);
	if (n > 0) buf_put(out, piece, (size_t)n < sizeof piece ? (size_t)n : sizeof piece - 1);
}

/* What somebody typed, however long; nothing in it may move a cursor. */
static void put_typed(struct buf *out, const char *text)
{
	for (; *text != '\0'; text++)
		buf_put_u8(out, (unsigned char)*text < 0x20 || *text == 0x7f ? '?' : (uint8_t)*text);
}

static const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

static void put_count(struct buf *out, uint64_t n, const char *what)
{
	if (n > 0) put(out, ", %" PRIu64 " %s", n, what);
}

static void put_bound(struct buf *out, const char *word, const char *bound)
{
	if (bound == NULL) return;
	put(out, " %s ", word);
	put_typed(out, bound);
}

static void put_scope(const tidemark_run_info *r, struct buf *out)
{
	if (r->listed > 0) put(out, ", %" PRIu64 " listed key%s", r->listed, plural(r->listed));
	if (r->from != NULL || r->to != NULL) put(out, ", keys");
	put_bound(out, "from", r->from);
	put_bound(out, "to", r->to);
	if (r->where_sql[0] != '\0') {
		put(out, ", where ");
		put_typed(out, r->where_sql);
	}
}

static void put_counts(const tidemark_run_info *r, struct buf *out)
{
	put(out, ": %" PRIu64 " row%s read in %" PRIu64 " chunk%s", r->rows_read, plural(r->rows_read), r->chunks,
		plural(r->chunks));
	put_count(out, r->rows_written, "written");
	put_count(out, r->rows_same, "the same");
	put_count(out, r->rows_superseded, "superseded");
	put_count(out, r->rows_newer, "kept because newer");
	put_count(out, r->rows_filled, "filled");
	put_count(out, r->rows_suspect, "suspected");
	put_count(out, r->rows_swept, strcmp(r->sweep, "count") == 0 ? "to be swept" : "swept");
	put_count(out, r->rows_refetched, "refetched");
}

static void put_times(const tidemark_run_info *r, int64_t now_us, struct buf *out)
{
	char took[HUMAN_SIZE], ago[HUMAN_SIZE];
	if (run_info_is_open(r))
		put(out, "; started %s ago", human_duration(now_us - r->started_us, ago));
	else
		put(out, "; took %s, ended %s ago", human_duration(r->ended_us - r->started_us, took),
			human_duration(now_us - r->ended_us, ago));
}

void runview_put(const tidemark_run_info *r, const tidemark_table_info *t, int64_t now_us, struct buf *out)
{
	put(out, "run %-8" PRIu64 " ", r->id);
	if (t != NULL)
		view_put_name(out, t->schema_name, t->table_name);
	else
		put(out, "table %" PRIu32, r->table_id);
	put(out, ": %s", r->kind);
	if (strcmp(r->kind, "requested") == 0 && r->requester[0] != '\0') {
		put(out, " by ");
		put_typed(out, r->requester);
	}
	if (r->name[0] != '\0') {
		put(out, " as ");
		put_typed(out, r->name);
	}
	put(out, ", %s", r->state);
	put_scope(r, out);
	put_counts(r, out);
	put_times(r, now_us, out);
	if (r->error[0] != '\0') {
		put(out, "; ");
		put_typed(out, r->error);
	}
	put(out, "\n");
}

/* ---- JSON ---- */

static void json_lsn(struct json *j, const char *key, uint64_t lsn)
{
	char text[LSN_TEXT_SIZE];
	json_add_string(j, key, lsn ? lsn_format(LSN(lsn), text) : NULL);
}

static void json_time(struct json *j, const char *key, int64_t us)
{
	char text[HUMAN_SIZE];
	json_add_string(j, key, us ? human_time(us, text) : NULL);
}

/* "" is nothing. */
static void json_text(struct json *j, const char *key, const char *text)
{
	json_add_string(j, key, text != NULL && *text != '\0' ? text : NULL);
}

static void json_number(struct json *j, const char *key, uint64_t v)
{
	if (v == 0)
		json_add_null(j, key);
	else
		json_add_uint(j, key, v);
}

static void json_counts(const tidemark_run_info *r, struct json *j)
{
	json_add_uint(j, "chunks", r->chunks);
	json_add_uint(j, "rows_read", r->rows_read);
	json_add_uint(j, "rows_written", r->rows_written);
	json_add_uint(j, "rows_same", r->rows_same);
	json_add_uint(j, "rows_superseded", r->rows_superseded);
	json_add_uint(j, "rows_newer", r->rows_newer);
	json_add_uint(j, "rows_filled", r->rows_filled);
	json_add_uint(j, "rows_swept", r->rows_swept);
	json_add_uint(j, "rows_suspect", r->rows_suspect);
	json_add_uint(j, "rows_refetched", r->rows_refetched);
}

static void json_scope(const tidemark_run_info *r, struct json *j)
{
	json_text(j, "where", r->where_sql);
	json_add_string(j, "from", r->from);
	json_add_string(j, "to", r->to);
	json_number(j, "listed", r->listed);
	json_add_string(j, "sweep", r->sweep);
	json_number(j, "chunk_time_ms", r->chunk_time_ms);
	json_number(j, "max_rows_per_second", r->rows_per_second);
}

void runview_json(const tidemark_run_info *r, const tidemark_table_info *t, struct json *j)
{
	json_open(j, NULL, '{');
	json_add_uint(j, "id", r->id);
	json_text(j, "name", r->name);
	json_add_uint(j, "table_id", r->table_id);
	json_add_string(j, "schema", t ? t->schema_name : NULL);
	json_add_string(j, "table", t ? t->table_name : NULL);
	json_add_string(j, "kind", r->kind);
	json_add_string(j, "state", r->state);
	json_text(j, "resumes_as", r->resumes_as);
	json_text(j, "error", r->error);
	json_add_string(j, "requester", r->requester);
	json_scope(r, j);
	json_counts(r, j);
	json_time(j, "started", r->started_us);
	json_time(j, "ended", r->ended_us);
	json_text(j, "first_snapshot", r->first_snapshot);
	json_text(j, "last_snapshot", r->last_snapshot);
	json_lsn(j, "lowest_bound_lsn", r->lowest_bound);
	json_lsn(j, "last_high_lsn", r->last_high);
	json_close(j, '}');
}
