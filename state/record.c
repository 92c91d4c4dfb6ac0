#include "state/record.h"

#include <stdlib.h>

/*
 * Records are their fields in the order of the encode functions below: integers
 * big-endian, positions as in pos.h, strings and byte strings as blobs (varint
 * length, bytes). Nothing may follow the last field: a new field is a new format of the store.
 */

static void put_pos(struct buf *out, struct pos p)
{
	pos_encode(p, buf_extend(out, POS_SIZE));
}

static void put_slice(struct buf *out, struct slice s)
{
	buf_put_blob(out, s.p, s.n);
}

static struct pos take_pos(struct cur *c)
{
	struct slice s = cur_bytes(c, POS_SIZE);

	return c->bad ? POS_NONE : pos_decode(s.p);
}

/* A byte from low to high: an enum, or a bool as 0 to 1. */
static uint8_t take_enum(struct cur *c, uint8_t low, uint8_t high)
{
	uint8_t v = cur_u8(c);

	if (v < low || v > high) c->bad = true;
	return v;
}

static bool damaged(struct err *err, const char *what, size_t n)
{
	return err_set(err, ERR_CORRUPT, "a %s record of %zu bytes is damaged", what, n);
}

/* ---- tables ---- */

void table_record_encode(const struct table_record *t, struct buf *out)
{
	buf_put_u32(out, t->id);
	buf_put_u32(out, t->oid);
	buf_put_str(out, t->schema_name);
	buf_put_str(out, t->table_name);
	buf_put_str(out, t->shape ? t->shape : "");
	buf_put_u8(out, t->state);
	buf_put_u32(out, t->schema_version);
	put_pos(out, t->floor);
	put_pos(out, t->high);
	put_pos(out, t->trust);
	buf_put_u64(out, t->live);
	buf_put_u64(out, t->hidden);
	buf_put_u64(out, t->doubt);
	buf_put_u64(out, t->markers);
}

bool table_record_decode(struct slice bytes, struct table_record *out, struct err *err)
{
	struct cur c = cur_of(bytes);
	char *text = mem_alloc(bytes.n);

	*out = (struct table_record){.memory = text};
	out->id = cur_u32(&c);
	out->oid = cur_u32(&c);
	out->schema_name = cur_str_copy(&c, &text);
	out->table_name = cur_str_copy(&c, &text);
	out->shape = cur_str_copy(&c, &text);
	out->state = take_enum(&c, TABLE_COPYING, TABLE_LEFT);
	out->schema_version = cur_u32(&c);
	out->floor = take_pos(&c);
	out->high = take_pos(&c);
	out->trust = take_pos(&c);
	out->live = cur_u64(&c);
	out->hidden = cur_u64(&c);
	out->doubt = cur_u64(&c);
	out->markers = cur_u64(&c);
	if (cur_done(&c)) return true;
	table_record_free(out);
	return damaged(err, "table", bytes.n);
}

void table_record_free(struct table_record *t)
{
	free(t->memory);
	*t = (struct table_record){0};
}

bool table_record_is_live(const struct table_record *t)
{
	return t->state == TABLE_COPIED && t->doubt == 0;
}

/* ---- runs ---- */

static void put_text(struct buf *out, const char *s)
{
	buf_put_str(out, s ? s : "");
}

static void put_request(struct buf *out, const struct run_record *r)
{
	put_text(out, r->name);
	put_text(out, r->error);
	buf_put_u8(out, r->resumes_as);
	put_text(out, r->where_sql);
	put_slice(out, r->from);
	put_slice(out, r->to);
	buf_put_u64(out, r->listed);
	buf_put_u32(out, r->chunk_time_ms);
	buf_put_u32(out, r->rows_per_second);
	buf_put_u64(out, r->rows_suspect);
	buf_put_u64(out, r->rows_refetched);
}

void run_record_encode(const struct run_record *r, struct buf *out)
{
	buf_put_u64(out, r->id);
	buf_put_u32(out, r->table_id);
	buf_put_u8(out, r->kind);
	buf_put_u8(out, r->state);
	buf_put_u8(out, r->sweep);
	buf_put_str(out, r->requester);
	buf_put_str(out, r->gate);
	put_slice(out, r->cursor);
	put_slice(out, r->sweep_cursor);
	buf_put_str(out, r->first_snapshot);
	buf_put_str(out, r->last_snapshot);
	put_pos(out, r->lowest_bound);
	buf_put_u64(out, r->last_high.v);
	put_pos(out, r->accepted);
	buf_put_u64(out, r->rows_read);
	buf_put_u64(out, r->rows_written);
	buf_put_u64(out, r->rows_same);
	buf_put_u64(out, r->rows_superseded);
	buf_put_u64(out, r->rows_newer);
	buf_put_u64(out, r->rows_filled);
	buf_put_u64(out, r->rows_swept);
	buf_put_u64(out, r->chunks);
	buf_put_u64(out, (uint64_t)r->started_us);
	buf_put_u64(out, (uint64_t)r->ended_us);
	put_request(out, r);
}

static void take_counters(struct cur *c, struct run_record *r)
{
	r->rows_read = cur_u64(c);
	r->rows_written = cur_u64(c);
	r->rows_same = cur_u64(c);
	r->rows_superseded = cur_u64(c);
	r->rows_newer = cur_u64(c);
	r->rows_filled = cur_u64(c);
	r->rows_swept = cur_u64(c);
	r->chunks = cur_u64(c);
}

static void take_request(struct cur *c, char **text, struct run_record *r)
{
	r->name = cur_str_copy(c, text);
	r->error = cur_str_copy(c, text);
	r->resumes_as = take_enum(c, 0, RUN_SWEEPING);
	r->where_sql = cur_str_copy(c, text);
	r->from = cur_blob_copy(c, text);
	r->to = cur_blob_copy(c, text);
	r->listed = cur_u64(c);
	r->chunk_time_ms = cur_u32(c);
	r->rows_per_second = cur_u32(c);
	r->rows_suspect = cur_u64(c);
	r->rows_refetched = cur_u64(c);
}

bool run_record_decode(struct slice bytes, struct run_record *out, struct err *err)
{
	struct cur c = cur_of(bytes);
	char *text = mem_alloc(bytes.n);

	*out = (struct run_record){.memory = text};
	out->id = cur_u64(&c);
	out->table_id = cur_u32(&c);
	out->kind = take_enum(&c, RUN_INITIAL, RUN_REQUESTED);
	out->state = take_enum(&c, RUN_COPYING, RUN_PAUSED);
	out->sweep = take_enum(&c, SWEEP_OFF, SWEEP_COUNT);
	out->requester = cur_str_copy(&c, &text);
	out->gate = cur_str_copy(&c, &text);
	out->cursor = cur_blob_copy(&c, &text);
	out->sweep_cursor = cur_blob_copy(&c, &text);
	out->first_snapshot = cur_str_copy(&c, &text);
	out->last_snapshot = cur_str_copy(&c, &text);
	out->lowest_bound = take_pos(&c);
	out->last_high = LSN(cur_u64(&c));
	out->accepted = take_pos(&c);
	take_counters(&c, out);
	out->started_us = (int64_t)cur_u64(&c);
	out->ended_us = (int64_t)cur_u64(&c);
	take_request(&c, &text, out);
	if (cur_done(&c) && out->id != 0) return true; /* 0 stands for no run */
	run_record_free(out);
	return damaged(err, "run", bytes.n);
}

void run_record_free(struct run_record *r)
{
	free(r->memory);
	*r = (struct run_record){0};
}

const char *run_state_name(uint8_t state)
{
	switch (state) {
	case RUN_COPYING: return "copying";
	case RUN_SWEEPING: return "sweeping";
	case RUN_DONE: return "done";
	case RUN_FAILED: return "failed";
	case RUN_STOPPED: return "stopped";
	case RUN_PAUSED: return "paused";
	default: return "unknown";
	}
}

bool run_record_is_open(const struct run_record *r)
{
	return r->state == RUN_COPYING || r->state == RUN_SWEEPING || r->state == RUN_PAUSED;
}

bool run_record_is_scoped(const struct run_record *r)
{
	return (r->where_sql && *r->where_sql) || r->from.n > 0 || r->to.n > 0 || r->listed > 0;
}

/* ---- checkpoint, lineage ---- */

void checkpoint_encode(const struct checkpoint *c, struct buf *out)
{
	buf_put_u16(out, c->epoch);
	buf_put_u64(out, c->lsn.v);
	buf_put_u64(out, c->commit_lsn.v);
	buf_put_u64(out, (uint64_t)c->commit_time_us);
	buf_put_u64(out, (uint64_t)c->written_us);
}

bool checkpoint_decode(struct slice bytes, struct checkpoint *out, struct err *err)
{
	struct cur c = cur_of(bytes);

	out->epoch = cur_u16(&c);
	out->lsn = LSN(cur_u64(&c));
	out->commit_lsn = LSN(cur_u64(&c));
	out->commit_time_us = (int64_t)cur_u64(&c);
	out->written_us = (int64_t)cur_u64(&c);
	if (cur_done(&c)) return true;
	*out = (struct checkpoint){0};
	return damaged(err, "checkpoint", bytes.n);
}

void lineage_encode(const struct lineage *l, struct buf *out)
{
	buf_put_u64(out, l->system_id);
	buf_put_u32(out, l->timeline);
	buf_put_str(out, l->slot);
	buf_put_str(out, l->publication);
	buf_put_str(out, l->source);
	buf_put_u32(out, l->source_version);
}

bool lineage_decode(struct slice bytes, struct lineage *out, struct err *err)
{
	struct cur c = cur_of(bytes);
	char *text = mem_alloc(bytes.n);

	*out = (struct lineage){.memory = text};
	out->system_id = cur_u64(&c);
	out->timeline = cur_u32(&c);
	out->slot = cur_str_copy(&c, &text);
	out->publication = cur_str_copy(&c, &text);
	out->source = cur_str_copy(&c, &text);
	out->source_version = cur_u32(&c);
	if (cur_done(&c)) return true;
	lineage_free(out);
	return damaged(err, "lineage", bytes.n);
}

void lineage_free(struct lineage *l)
{
	free(l->memory);
	*l = (struct lineage){0};
}
