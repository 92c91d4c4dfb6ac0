#include <stdlib.h>
#include <string.h>

#include "state/tidemark_impl.h"

static void bounds_forget(struct tidemark *tm)
{
	for (size_t i = 0; tm->bounds && i < tm->nruns; i++) {
		free(tm->bounds[i].from);
		free(tm->bounds[i].to);
	}
	free(tm->bounds);
	tm->bounds = NULL;
}

void status_forget(struct tidemark *tm)
{
	bounds_forget(tm);
	for (size_t i = 0; i < tm->nruns; i++)
		run_record_free(&tm->runs[i]);
	free(tm->runs);
	tm->runs = NULL;
	tm->nruns = 0;
	tm->runs_loaded = false;
	lineage_free(&tm->lineage);
}

/* ---- runs ---- */

static const char *kind_name(uint8_t kind)
{
	switch (kind) {
	case RUN_INITIAL: return "initial";
	case RUN_RESNAPSHOT: return "resnapshot";
	case RUN_SCHEMA: return "schema";
	case RUN_RESYNC: return "resync";
	case RUN_REQUESTED: return "requested";
	default: return "unknown";
	}
}

static const char *sweep_name(uint8_t sweep)
{
	switch (sweep) {
	case SWEEP_OFF: return "off";
	case SWEEP_ON: return "on";
	case SWEEP_COUNT: return "count";
	default: return "unknown";
	}
}

static bool needs_quotes(struct slice text)
{
	return text.n == 0 || memchr(text.p, ',', text.n) || memchr(text.p, '"', text.n);
}

static void put_quoted(struct buf *out, struct slice text)
{
	buf_put_u8(out, '"');
	for (size_t i = 0; i < text.n; i++) {
		if (text.p[i] == '"') buf_put_u8(out, '"');
		buf_put_u8(out, text.p[i]);
	}
	buf_put_u8(out, '"');
}

/* The texts of a bound as one word; NULL: it has none. */
static char *bound_word(struct slice texts)
{
	struct cur c = cur_of(texts);
	struct buf out = {0};

	if (texts.n == 0) return NULL;
	while (!c.bad && !cur_done(&c)) {
		struct slice text = cur_blob(&c);
		bool only = out.n == 0 && cur_done(&c);

		if (out.n > 0) buf_put_u8(&out, ',');
		if (!only && needs_quotes(text))
			put_quoted(&out, text);
		else
			buf_put(&out, text.p, text.n);
	}
	buf_put_u8(&out, 0);
	return (char *)out.p;
}

static void bounds_load(struct tidemark *tm)
{
	tm->bounds = mem_alloc((tm->nruns + 1) * sizeof *tm->bounds);
	for (size_t i = 0; i < tm->nruns; i++)
		tm->bounds[i] = (struct run_bounds){bound_word(tm->runs[i].from), bound_word(tm->runs[i].to)};
}

static int runs_load(struct tidemark *tm)
{
	struct err err;

	if (tidemark_require_txn(tm) != 0) return TIDEMARK_E_ARGUMENT;
	if (tm->runs_loaded) return TIDEMARK_OK;
	if (!store_list_runs(tm->txn, &tm->runs, &tm->nruns, &err)) return tidemark_fail_err(tm, &err);
	bounds_load(tm);
	tm->runs_loaded = true;
	return TIDEMARK_OK;
}

int tidemark_run_count(tidemark *tm, size_t *out)
{
	int rc = runs_load(tm);

	*out = rc == 0 ? tm->nruns : 0;
	return rc;
}

int tidemark_run_at(tidemark *tm, size_t i, tidemark_run_info *out)
{
	const struct run_record *r;
	int rc = runs_load(tm);

	*out = (tidemark_run_info){0};
	if (rc != 0) return rc;
	if (i >= tm->nruns)
		return tidemark_fail(tm, TIDEMARK_E_NOTFOUND, "there is no run number %zu: the store has %zu", i,
							 tm->nruns);
	r = &tm->runs[i];
	*out = (tidemark_run_info){
		.id = r->id,
		.table_id = r->table_id,
		.kind = kind_name(r->kind),
		.state = run_state_name(r->state),
		.requester = r->requester,
		.first_snapshot = r->first_snapshot,
		.last_snapshot = r->last_snapshot,
		.lowest_bound = r->lowest_bound.lsn.v,
		.last_high = r->last_high.v,
		.rows_read = r->rows_read,
		.rows_written = r->rows_written,
		.rows_same = r->rows_same,
		.rows_superseded = r->rows_superseded,
		.rows_newer = r->rows_newer,
		.rows_filled = r->rows_filled,
		.rows_swept = r->rows_swept,
		.chunks = r->chunks,
		.started_us = r->started_us,
		.ended_us = r->ended_us,
		.name = r->name,
		.error = r->error,
		.sweep = sweep_name(r->sweep),
		.resumes_as = r->resumes_as ? run_state_name(r->resumes_as) : "",
		.where_sql = r->where_sql,
		.from = tm->bounds[i].from,
		.to = tm->bounds[i].to,
		.listed = r->listed,
		.chunk_time_ms = r->chunk_time_ms,
		.rows_per_second = r->rows_per_second,
		.rows_suspect = r->rows_suspect,
		.rows_refetched = r->rows_refetched,
	};
	return TIDEMARK_OK;
}

/* ---- large transactions ---- */

int tidemark_get_large_info(tidemark *tm, tidemark_large_info *out)
{
	enum store_overlay overlay;
	struct err err;

	*out = (tidemark_large_info){0};
	if (tidemark_require_txn(tm) != 0) return TIDEMARK_E_ARGUMENT;
	if (!store_get_overlay(tm->txn, &overlay, &err) || !store_count_staged(tm->txn, &out->rows, &err))
		return tidemark_fail_err(tm, &err);
	out->phase = overlay == OVERLAY_SHOWN    ? TIDEMARK_LARGE_SHOWN
				 : overlay == OVERLAY_STAGED ? TIDEMARK_LARGE_STAGED
											 : TIDEMARK_LARGE_NONE;
	return TIDEMARK_OK;
}

/* ---- delete markers ---- */

static int held_by(enum purge_bound bound)
{
	switch (bound) {
	case PURGE_TO_UNSEEN: return TIDEMARK_HELD_UNSEEN;
	case PURGE_TO_RETENTION: return TIDEMARK_HELD_RETENTION;
	default: return TIDEMARK_HELD_STREAM;
	}
}

/* The limit as the writer would find it now. */
static bool marker_limit(struct tidemark *tm, int64_t now_us, tidemark_marker_info *out, struct err *err)
{
	struct purge_history h;
	struct checkpoint c;
	enum purge_bound bound;
	struct pos limit;
	lsn_t unseen;
	bool found;

	if (!store_get_history(tm->txn, &h, &found, err) || !store_get_checkpoint(tm->txn, &c, &found, err) ||
		!store_oldest_unseen(tm->txn, &unseen, err))
		return false;
	limit = purge_limit(&h, &c, unseen, now_us, h.retention_us, &bound);
	out->purged = h.purged;
	out->retention_us = h.retention_us;
	out->limit_epoch = limit.epoch;
	out->limit_lsn = limit.lsn.v;
	out->held_by = held_by(bound);
	out->unseen_lsn = unseen.v;
	return true;
}

int tidemark_get_marker_info(tidemark *tm, int64_t now_us, tidemark_marker_info *out)
{
	struct err err;
	size_t n;
	int rc;

	*out = (tidemark_marker_info){.retention_us = -1};
	rc = tidemark_table_count(tm, &n);
	if (rc != 0) return rc;
	for (size_t i = 0; i < n; i++)
		out->markers += tm->tables[i]->record.markers;
	return marker_limit(tm, now_us, out, &err) ? TIDEMARK_OK : tidemark_fail_err(tm, &err);
}

/* ---- the store ---- */

static void fill_lineage(const struct lineage *l, tidemark_store_info *out)
{
	out->system_id = l->system_id;
	out->timeline = l->timeline;
	out->source_version = l->source_version;
	out->slot = l->slot ? l->slot : "";
	out->publication = l->publication ? l->publication : "";
	out->source = l->source ? l->source : "";
}

static bool read_lineage(struct tidemark *tm, struct err *err)
{
	bool found;

	if (tm->lineage.memory) return true; /* of this state already; the strings stay where they are */
	return store_get_lineage(tm->txn, &tm->lineage, &found, err); /* absent: zeroes */
}

static bool count_unseen(struct tidemark *tm, uint64_t *out, struct err *err)
{
	struct unseen_entry *all;
	size_t n;

	if (!store_list_unseen(tm->txn, &all, &n, err)) return false;
	free(all);
	*out = n;
	return true;
}

int tidemark_get_store_info(tidemark *tm, tidemark_store_info *out)
{
	struct store_info info;
	struct err err;

	*out = (tidemark_store_info){.store_id = tm->store_id, .slot = "", .publication = "", .source = ""};
	if (tidemark_require_txn(tm) != 0) return TIDEMARK_E_ARGUMENT;
	if (!read_lineage(tm, &err) || !count_unseen(tm, &out->unseen, &err) ||
		!store_info(tm->store, &info, &err))
		return tidemark_fail_err(tm, &err);
	fill_lineage(&tm->lineage, out);
	out->file_bytes = info.file_bytes;
	out->used_bytes = info.used_bytes;
	out->readers = info.readers;
	out->readers_max = info.readers_max;
	out->oldest_reader_pid = info.oldest_reader_pid;
	out->oldest_reader_lag = info.oldest_reader_lag;
	return TIDEMARK_OK;
}
