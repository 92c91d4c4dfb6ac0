/* reader/cmd_status.c - `tidemark status`: where a store stands. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "reader/command.h"
#include "reader/human.h"
#include "reader/json.h"
#include "reader/overview.h"
#include "reader/runview.h"

static const struct option_spec options[] = {
	OPTION_STORE,
	{.name = "json", .type = OPTION_FLAG, .help = "One JSON object, on one line."},
	OPTION_CONFIG,
	{0},
};

static const char *const daemon_words[] = {
	[DAEMON_ABSENT] = "not running", [DAEMON_RUNNING] = "running", [DAEMON_UNKNOWN] = "unknown"};

static const char *lsn_text(uint64_t lsn, char out[LSN_TEXT_SIZE])
{
	return lsn_format(LSN(lsn), out);
}

/* ---- text ---- */

static void put(struct buf *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void put(struct buf *out, const char *fmt, ...)
{
	char piece[512];
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(piece, sizeof piece, fmt, args);
	va_end(args);
	if (n > 0) buf_put(out, piece, (size_t)n < sizeof piece ? (size_t)n : sizeof piece - 1);
}

static void put_daemon(const struct overview *v, struct buf *out)
{
	put(out, "daemon       %s", daemon_words[v->daemon]);
	if (v->daemon_pid) put(out, ", pid %ld", v->daemon_pid);
	if (v->daemon == DAEMON_UNKNOWN) put(out, ": tidemark.lock cannot be read");
	put(out, "\n");
}

static void put_source(const struct overview *v, struct buf *out)
{
	const tidemark_store_info *s = &v->store;
	char version[HUMAN_SIZE];

	if (!s->source || !*s->source) {
		put(out, "source       none yet\n");
		return;
	}
	put(out, "source       %s, PostgreSQL %s\n", s->source, human_version(s->source_version, version));
	put(out, "lineage      system identifier %" PRIu64 ", timeline %" PRIu32 ", epoch %" PRIu32 "\n",
		s->system_id, s->timeline, v->position.epoch);
	put(out, "slot         %s\npublication  %s\n", s->slot, s->publication);
}

static void put_position(const struct overview *v, struct buf *out)
{
	const tidemark_position *p = &v->position;
	char lsn[LSN_TEXT_SIZE], age[HUMAN_SIZE], time[HUMAN_SIZE];

	if (!v->has_position) {
		put(out, "checkpoint   none yet\n");
		return;
	}
	put(out, "checkpoint   %s, written %s ago\n", lsn_text(p->lsn, lsn),
		human_duration(v->now_us - p->written_us, age));
	if (p->commit_lsn)
		put(out, "last commit  %s, at %s by the source's clock\n", lsn_text(p->commit_lsn, lsn),
			human_time(p->commit_time_us, time));
}

static void put_tables(const struct overview *v, struct buf *out)
{
	static const int order[] = {TIDEMARK_LIVE, TIDEMARK_COPYING, TIDEMARK_DOUBT, TIDEMARK_LEFT};
	const char *separator = ": ";

	put(out, "tables       %zu", v->tables);
	for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
		if (v->by_state[order[i]] == 0) continue;
		put(out, "%s%zu %s", separator, v->by_state[order[i]], tidemark_state_name(order[i]));
		separator = ", ";
	}
	put(out, "\nunseen       %" PRIu64 " streamed transactions not yet known to be visible at the source\n",
		v->store.unseen);
}

static void put_file(const struct overview *v, struct buf *out)
{
	const tidemark_store_info *s = &v->store;
	char size[HUMAN_SIZE], used[HUMAN_SIZE];

	put(out, "file         %s, %s of it in use\n", human_bytes(s->file_bytes, size),
		human_bytes(s->used_bytes, used));
	put(out, "readers      %u of %u slots taken, this command's included", s->readers, s->readers_max);
	if (s->oldest_reader_pid)
		put(out, "; the oldest is process %d, %" PRIu64 " store commits behind", s->oldest_reader_pid,
			s->oldest_reader_lag);
	put(out, "\n");
}

static const char *held_by_word(int held_by)
{
	switch (held_by) {
	case TIDEMARK_HELD_UNSEEN: return "unseen";
	case TIDEMARK_HELD_RETENTION: return "retention";
	default: return "stream";
	}
}

/* Why those that are there have not gone. */
static void put_markers(const struct overview *v, struct buf *out)
{
	const tidemark_marker_info *m = &v->markers;
	char lsn[LSN_TEXT_SIZE], age[HUMAN_SIZE];

	put(out, "markers      %" PRIu64 " of deleted rows, %" PRIu64 " purged so far", m->markers, m->purged);
	if (m->markers > 0 && m->retention_us < 0)
		put(out, "; none go before a daemon has streamed");
	else if (m->markers > 0 && m->held_by == TIDEMARK_HELD_UNSEEN)
		put(out, "; kept from %s on, whose commit is not known to be visible at the source yet",
			lsn_text(m->unseen_lsn, lsn));
	else if (m->markers > 0 && m->held_by == TIDEMARK_HELD_RETENTION)
		put(out, "; kept for %s", human_duration(m->retention_us, age));
	put(out, "\n");
}

static void put_large(const struct overview *v, struct buf *out)
{
	const tidemark_large_info *l = &v->large;

	if (l->phase == TIDEMARK_LARGE_STAGED)
		put(out,
			"transaction  a large one is being received, %" PRIu64
			" rows of it so far: not seen before its end\n",
			l->rows);
	else if (l->phase == TIDEMARK_LARGE_SHOWN)
		put(out,
			"transaction  a large one is in, and %" PRIu64 " rows of it are being moved to their place\n",
			l->rows);
}

static void put_warnings(const struct overview *v, struct buf *out)
{
	struct buf warning = {0};

	for (size_t i = 0; overview_warning(v, i, &warning); i++) {
		put(out, "warning      %.*s\n", (int)warning.n, (const char *)warning.p);
		buf_reset(&warning);
	}
	buf_finish(&warning);
}

static void put_text(const struct overview *v, struct buf *out)
{
	put(out, "store        %s, id %s\n", v->dir, v->store.store_id);
	put_daemon(v, out);
	put_source(v, out);
	put_position(v, out);
	put_tables(v, out);
	for (size_t i = 0; i < v->nruns; i++)
		runview_put(&v->runs[i], overview_table(v, v->runs[i].table_id), v->now_us, out);
	put_large(v, out);
	put_markers(v, out);
	put_file(v, out);
	put_warnings(v, out);
}

/* ---- JSON ---- */

static void json_lsn(struct json *j, const char *key, uint64_t lsn)
{
	char text[LSN_TEXT_SIZE];

	json_add_string(j, key, lsn ? lsn_text(lsn, text) : NULL);
}

static void json_time(struct json *j, const char *key, int64_t us)
{
	char text[HUMAN_SIZE];

	json_add_string(j, key, us ? human_time(us, text) : NULL);
}

static void json_daemon(const struct overview *v, struct json *j)
{
	json_open(j, "daemon", '{');
	json_add_string(j, "state", daemon_words[v->daemon]);
	if (v->daemon_pid)
		json_add_uint(j, "pid", (uint64_t)v->daemon_pid);
	else
		json_add_null(j, "pid");
	json_close(j, '}');
}

static void json_source(const struct overview *v, struct json *j)
{
	const tidemark_store_info *s = &v->store;
	char system_id[24];

	if (!s->source || !*s->source) {
		json_add_null(j, "source");
		return;
	}
	/* 64 bits: more than what most JSON readers keep of a number. */
	snprintf(system_id, sizeof system_id, "%" PRIu64, s->system_id);
	json_open(j, "source", '{');
	json_add_string(j, "address", s->source);
	json_add_uint(j, "version", s->source_version);
	json_add_string(j, "system_id", system_id);
	json_add_uint(j, "timeline", s->timeline);
	json_add_string(j, "slot", s->slot);
	json_add_string(j, "publication", s->publication);
	json_close(j, '}');
}

static void json_position(const struct overview *v, struct json *j)
{
	const tidemark_position *p = &v->position;

	if (!v->has_position) {
		json_add_null(j, "checkpoint");
		return;
	}
	json_open(j, "checkpoint", '{');
	json_lsn(j, "lsn", p->lsn);
	json_add_uint(j, "epoch", p->epoch);
	json_time(j, "written", p->written_us);
	json_add_real(j, "written_age_s", (double)(v->now_us - p->written_us) / 1e6, 3);
	json_lsn(j, "commit_lsn", p->commit_lsn);
	json_time(j, "commit_time", p->commit_time_us);
	json_close(j, '}');
}

static void json_tables(const struct overview *v, struct json *j)
{
	json_open(j, "tables", '{');
	json_add_uint(j, "count", v->tables);
	json_add_uint(j, "live", v->by_state[TIDEMARK_LIVE]);
	json_add_uint(j, "copying", v->by_state[TIDEMARK_COPYING]);
	json_add_uint(j, "in_doubt", v->by_state[TIDEMARK_DOUBT]);
	json_add_uint(j, "left", v->by_state[TIDEMARK_LEFT]);
	json_close(j, '}');
	json_add_uint(j, "unseen", v->store.unseen);
}

static void json_runs(const struct overview *v, struct json *j)
{
	json_open(j, "runs", '[');
	for (size_t i = 0; i < v->nruns; i++)
		runview_json(&v->runs[i], overview_table(v, v->runs[i].table_id), j);
	json_close(j, ']');
}

static void json_file(const struct overview *v, struct json *j)
{
	const tidemark_store_info *s = &v->store;

	json_open(j, "file", '{');
	json_add_uint(j, "bytes", s->file_bytes);
	json_add_uint(j, "used_bytes", s->used_bytes);
	json_close(j, '}');
	json_open(j, "readers", '{');
	json_add_uint(j, "count", s->readers);
	json_add_uint(j, "max", s->readers_max);
	if (s->oldest_reader_pid) {
		json_add_uint(j, "oldest_pid", (uint64_t)s->oldest_reader_pid);
		json_add_uint(j, "oldest_behind", s->oldest_reader_lag);
	} else {
		json_add_null(j, "oldest_pid");
		json_add_null(j, "oldest_behind");
	}
	json_close(j, '}');
}

static void json_markers(const struct overview *v, struct json *j)
{
	const tidemark_marker_info *m = &v->markers;

	json_open(j, "markers", '{');
	json_add_uint(j, "count", m->markers);
	json_add_uint(j, "purged", m->purged);
	if (m->retention_us < 0)
		json_add_null(j, "retention_s");
	else
		json_add_uint(j, "retention_s", (uint64_t)m->retention_us / 1000000);
	json_add_string(j, "held_by", held_by_word(m->held_by));
	json_lsn(j, "limit_lsn", m->limit_lsn);
	json_lsn(j, "unseen_lsn", m->unseen_lsn);
	json_close(j, '}');
}

static void json_large(const struct overview *v, struct json *j)
{
	static const char *const phases[] = {
		[TIDEMARK_LARGE_STAGED] = "staged", [TIDEMARK_LARGE_SHOWN] = "moving"};

	if (v->large.phase == TIDEMARK_LARGE_NONE) {
		json_add_null(j, "large_transaction");
		return;
	}
	json_open(j, "large_transaction", '{');
	json_add_string(j, "phase", phases[v->large.phase]);
	json_add_uint(j, "rows", v->large.rows);
	json_close(j, '}');
}

static void json_warnings(const struct overview *v, struct json *j)
{
	struct buf warning = {0};

	json_open(j, "warnings", '[');
	for (size_t i = 0; overview_warning(v, i, &warning); i++) {
		buf_put_u8(&warning, '\0');
		json_add_string(j, NULL, (const char *)warning.p);
		buf_reset(&warning);
	}
	json_close(j, ']');
	buf_finish(&warning);
}

static void put_json(const struct overview *v, struct buf *out)
{
	struct json j = json_to(out);

	json_open(&j, NULL, '{');
	json_add_string(&j, "store", v->dir);
	json_add_string(&j, "store_id", v->store.store_id);
	json_daemon(v, &j);
	json_source(v, &j);
	json_position(v, &j);
	json_tables(v, &j);
	json_runs(v, &j);
	json_large(v, &j);
	json_markers(v, &j);
	json_file(v, &j);
	json_warnings(v, &j);
	json_close(&j, '}');
	buf_put_u8(out, '\n');
}

/* ---- the command ---- */

static bool status(const struct options *o, tidemark *tm, struct output *out, struct err *err)
{
	struct overview v = {0};
	bool ok = overview_load(&v, options_string(o, "store"), tm, err);

	if (ok && options_flag(o, "json"))
		put_json(&v, &out->buf);
	else if (ok)
		put_text(&v, &out->buf);
	overview_finish(&v);
	return ok && output_flush(out, err);
}

static bool run(const struct options *o, struct err *err)
{
	struct output out;
	tidemark *tm = NULL;
	bool ok;

	if (options_argc(o) != 0)
		return err_set(err, ERR_CONFIG, "status takes no arguments, and got %s", options_arg(o, 0));
	output_init(&out, STDOUT_FILENO);
	ok = view_open(options_string(o, "store"), &tm, err) && status(o, tm, &out, err);
	output_finish(&out);
	tidemark_close(tm);
	return ok;
}

const struct command command_status = {
	.name = "status",
	.arguments = "--store DIR [--json]",
	.summary = "show where a store stands",
	.detail = "Works whether or not a daemon is running. The checkpoint is the source position\n"
			  "up to which every commit is in the store. Its age is the time since the store\n"
			  "was last written, by this machine's clock: a connected daemon stores an idle\n"
			  "source's position too, so an age that grows means that the daemon is stopped,\n"
			  "disconnected or behind. The time of the last commit is by the source's clock.\n"
			  "\n"
			  "Runs shown are the open ones and the last five that ended.",
	.options = options,
	.run = run,
};
