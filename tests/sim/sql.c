#include "tests/sim/sql.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void sql_init(struct sql *q, struct source *s, const struct layout *layouts, struct ask *asks,
			  struct src_view view, bool late_high)
{
	memset(q, 0, sizeof *q);
	q->source = s;
	q->layouts = layouts;
	q->asks = asks;
	q->view = view;
	q->late_high = late_high;
}

static void unlock(struct sql *q)
{
	if (q->phase == SQL_READING && q->layout && !q->view.replica)
		q->source->tables[q->layout->table].readers--;
}

static void finish(struct sql *q)
{
	unlock(q);
	q->phase = SQL_IDLE;
	q->request = NULL;
}

void sql_drop(struct sql *q)
{
	if (q->phase != SQL_IDLE) finish(q);
}

static const char *kind_name(enum chunk_kind kind)
{
	switch (kind) {
	case CHUNK_PAGE: return "page";
	case CHUNK_KEYED: return "keyed";
	case CHUNK_EXISTS: return "exists";
	case CHUNK_SCOPED: return "scoped";
	case CHUNK_PROBE: return "probe";
	case CHUNK_CHECK: return "check";
	}
	return "?";
}

void sql_ask(struct sql *q, const struct chunk_request *r, int64_t now_us)
{
	q->request = r;
	q->layout = r->kind == CHUNK_PROBE ? NULL : &q->layouts[r->table_id - 1];
	q->scope = r->run_id ? q->asks[r->run_id] : ask_whole(0, SWEEP_OFF);
	q->phase = SQL_LOCKING;
	q->announced = q->told = q->refused = false;
	q->n = q->next = 0;
	q->asked_us = now_us;
	trace(q->source->trace, "chunk %lu asked: %s %s run %lu, %s%s%s", r->id, kind_name(r->kind),
		  q->layout ? q->layout->name : "", r->run_id, r->nparams ? r->params[0] : "",
		  r->nparams > 1 ? ", " : "", r->nparams > 1 ? r->params[1] : "");
}

static const char *failure_name(enum chunk_failure why)
{
	switch (why) {
	case CHUNK_LOST: return "connection lost";
	case CHUNK_TIMEOUT: return "timeout";
	case CHUNK_SCHEMA: return "schema";
	case CHUNK_REFUSED: return "refused";
	}
	return "?";
}

void sql_fail(struct sql *q, struct copier *c, enum chunk_failure why, int64_t now_us)
{
	uint64_t id = q->request->id;

	trace(q->source->trace, "chunk %lu fails: %s", id, failure_name(why));
	if (q->request->of_user && (why == CHUNK_SCHEMA || why == CHUNK_REFUSED))
		q->asks[q->request->run_id].may_fail = true;
	finish(q);
	copier_chunk_failed_saying(c, id, why, "because", now_us);
}

/* ---- the SELECT ---- */

static void add(struct sql *q, struct sql_row row)
{
	assert(q->n < SQL_ROWS_MAX);
	q->rows[q->n++] = row;
}

static struct src_row read_row(const struct sql *q, int key)
{
	const struct src_row none = {0};

	if (key < 0 || key >= q->source->tables[q->layout->table].nkeys) return none;
	return source_read(q->source, q->view, q->layout->table, key);
}

static bool is_in_scope(struct sql *q, int key, struct src_row row)
{
	enum ask_answer a = ask_holds(&q->scope, key, row);

	q->refused = q->refused || a == ASK_ERROR;
	return a == ASK_IN;
}

/* Parameters: the last key read unless it is the first page, then the limit. */
static void select_page(struct sql *q)
{
	const struct chunk_request *r = q->request;
	int after = r->nparams > 1 ? atoi(r->params[0]) : -1;
	int limit = atoi(r->params[r->nparams - 1]);

	for (int k = after + 1; k < q->source->tables[q->layout->table].nkeys && q->n < limit; k++) {
		struct src_row row = read_row(q, k);

		if (row.version && is_in_scope(q, k, row)) add(q, (struct sql_row){.key = k, .row = row});
	}
}

/* An element of an array as chunk_sql_array() writes it; false: there is none left. *p moves behind it. */
static bool next_element(const char **p, struct row_texts *out, int column)
{
	size_t n = 0;

	while (**p == '{' || **p == ',')
		++*p;
	if (**p == '}' || **p == '\0') return false;
	out->null[column] = **p != '"';
	for (*p += **p == '"'; **p && !strchr("\",}", **p); ++*p)
		if (n + 1 < sizeof out->text[column]) out->text[column][n++] = **p;
	*p += **p == '"';
	out->text[column][n] = '\0';
	return true;
}

/* Parameter: a text[] of keys. One that comes twice counts once. */
static void select_keys(struct sql *q)
{
	bool wanted[SRC_KEYS_MAX] = {false};
	const char *p = q->request->params[0];
	struct row_texts t;

	while (next_element(&p, &t, 0)) {
		int key = atoi(t.text[0]);

		if (key >= 0 && key < SRC_KEYS_MAX) wanted[key] = true;
	}
	for (int k = 0; k < SRC_KEYS_MAX; k++) {
		struct src_row row = wanted[k] ? read_row(q, k) : (struct src_row){0};

		if (row.version) add(q, (struct sql_row){.key = k, .row = row});
	}
}

/* Parameters: stored rows, a text[] for each column, or for the key alone. */
static void select_scoped(struct sql *q)
{
	const struct layout *l = q->layout;
	bool whole = q->request->nparams > 1;
	const char *at[LAYOUT_COLUMNS_MAX];
	struct row_texts t;

	for (int c = 0; c < q->request->nparams; c++)
		at[c] = q->request->params[c];
	for (size_t number = 1;; number++) {
		struct src_row stored = {0};
		int key;

		for (int c = 0; c < q->request->nparams; c++)
			if (!next_element(&at[c], &t, whole ? c : l->key_column)) return;
		key = atoi(t.text[l->key_column]);
		if (whole && !layout_row_of_texts(l, &t, &stored)) {
			trace_fail(q->source->trace, "stored row %zu of chunk %lu has values that no table has", number,
					   q->request->id);
			return;
		}
		if (is_in_scope(q, key, stored))
			add(q, (struct sql_row){.number = number, .key = key, .row = read_row(q, key)});
	}
}

static void select_check(struct sql *q)
{
	const struct src_row any = {0};

	if (!ask_is_hopeless(&q->scope)) return;
	if (q->scope.low >= 0 && q->scope.high >= 0 && q->scope.low > q->scope.high)
		add(q, (struct sql_row){.key = 0, .row = any});
	else
		q->refused = true;
}

static void select_rows(struct sql *q)
{
	switch (q->request->kind) {
	case CHUNK_PAGE: select_page(q); break;
	case CHUNK_KEYED:
	case CHUNK_EXISTS: select_keys(q); break;
	case CHUNK_SCOPED: select_scoped(q); break;
	case CHUNK_CHECK: select_check(q); break;
	case CHUNK_PROBE: break;
	}
}

static void read_snapshot(struct sql *q, struct copier *c, int64_t now_us)
{
	if (q->layout && !source_can_lock(q->source, q->view, q->layout->table)) return;
	if (q->layout && !q->view.replica) q->source->tables[q->layout->table].readers++;
	q->phase = SQL_READING;
	source_snapshot(q->source, q->view, q->snapshot);
	select_rows(q);
	trace(q->source->trace, "chunk %lu reads %d rows, snapshot %s", q->request->id, q->n, q->snapshot);
	if (q->refused) sql_fail(q, c, CHUNK_REFUSED, now_us);
}

/* Any position that no visible commit has reached will do: a late one is like that of a slower connection. */
static void read_high(struct sql *q)
{
	q->high = q->view.replica ? q->source->replay : q->source->insert;
	if (q->late_high && !q->view.replica) q->high.v += rng_below(q->source->rng, 200);
	unlock(q); /* COMMIT: the server is done before we have read its answer */
	q->phase = SQL_REPLYING;
	trace(q->source->trace, "chunk %lu has H %lu", q->request->id, q->high.v);
}

/* ---- the reply ---- */

/* What the source has of it: all of its columns, or those of the key. */
static size_t reply_columns(const struct sql *q, const struct row_texts *t, bool whole, struct slice *out)
{
	const struct layout *l = q->layout;
	size_t n = whole ? l->schema.ncolumns : 1;

	for (size_t i = 0; i < n; i++) {
		int c = whole ? (int)i : l->key_column;

		out[i] = t->null[c] ? (struct slice){0} : slice_of(t->text[c]);
	}
	return n;
}

static size_t reply_texts(const struct sql *q, const struct sql_row *row, struct row_texts *t,
						  char number[24], struct slice *out)
{
	bool scoped = q->request->kind == CHUNK_SCOPED, whole = q->request->kind != CHUNK_EXISTS;
	size_t n = 0;

	if (q->request->kind == CHUNK_CHECK) {
		out[0] = slice_of("t");
		return 1;
	}
	if (scoped) {
		snprintf(number, 24, "%zu", row->number);
		out[n++] = slice_of(number);
		whole = q->scope.sweep == SWEEP_ON;
	}
	layout_texts(q->layout, row->key, row->row, t);
	for (int c = 0; row->row.version == 0 && c < LAYOUT_COLUMNS_MAX; c++)
		t->null[c] = true;
	return n + reply_columns(q, t, whole, out + n);
}

static bool reply_row(struct sql *q, struct copier *c, struct err *err)
{
	struct slice slices[LAYOUT_COLUMNS_MAX + 1];
	struct row_texts texts;
	char number[24];
	size_t n = reply_texts(q, &q->rows[q->next++], &texts, number, slices);

	if (n != q->request->ncolumns)
		return err_set(err, ERR_BUG, "asked for %zu columns", q->request->ncolumns);
	return copier_chunk_row(c, q->request->id, slices, n, err);
}

/* All rows have come, and the copier may ask for the next page before they are handed over. */
static bool tell_whole(struct sql *q, struct copier *c, struct err *err)
{
	struct slice slices[LAYOUT_COLUMNS_MAX + 1];
	struct row_texts texts;
	char number[24];
	bool ahead;
	size_t n = reply_texts(q, &q->rows[q->n - 1], &texts, number, slices);

	q->told = true;
	if (!copier_chunk_is_whole(c, q->request->id, slices, n, (size_t)q->n, 100, &ahead, err)) return false;
	if (ahead) trace(q->source->trace, "chunk %lu is whole: another may be asked for", q->request->id);
	return true;
}

static bool reply(struct sql *q, struct copier *c, int64_t now_us, struct err *err)
{
	uint64_t id = q->request->id;

	if (!q->announced) {
		q->announced = true;
		return copier_chunk_snapshot(c, id, q->snapshot, q->view.replica, q->high, err);
	}
	if (q->request->kind == CHUNK_PAGE && !q->told && q->next == 0 && q->n > 0 &&
		rng_below(q->source->rng, 2))
		return tell_whole(q, c, err);
	if (q->next < q->n) {
		trace(q->source->trace, "chunk %lu row %s[%d] v%u", id, q->layout->name, q->rows[q->next].key,
			  q->rows[q->next].row.version);
		return reply_row(q, c, err);
	}
	trace(q->source->trace, "chunk %lu ends", id);
	finish(q);
	return copier_chunk_end(c, id, now_us - q->asked_us, now_us, err);
}

void sql_step(struct sql *q, struct copier *c, int64_t now_us)
{
	struct err err;

	switch (q->phase) {
	case SQL_IDLE: break;
	case SQL_LOCKING: read_snapshot(q, c, now_us); break;
	case SQL_READING: read_high(q); break;
	case SQL_REPLYING:
		if (!reply(q, c, now_us, &err)) trace_fail(q->source->trace, "chunk refused: %s", err.msg);
		break;
	}
}
