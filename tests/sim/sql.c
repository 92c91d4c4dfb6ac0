#include "tests/sim/sql.h"

#include <stdlib.h>
#include <string.h>

void sql_init(struct sql *q, struct source *s, const struct layout *layouts, struct src_view view,
			  bool late_high)
{
	memset(q, 0, sizeof *q);
	q->source = s;
	q->layouts = layouts;
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

void sql_ask(struct sql *q, const struct chunk_request *r, int64_t now_us)
{
	static const char *const kinds[] = {"page", "keyed", "exists", "probe"};

	q->request = r;
	q->layout = r->kind == CHUNK_PROBE ? NULL : &q->layouts[r->table_id - 1];
	q->phase = SQL_LOCKING;
	q->announced = false;
	q->n = q->next = 0;
	q->asked_us = now_us;
	trace(q->source->trace, "chunk %lu asked: %s %s run %lu, %s%s%s", r->id, kinds[r->kind],
		  q->layout ? q->layout->name : "", r->run_id, r->nparams ? r->params[0] : "",
		  r->nparams > 1 ? ", " : "", r->nparams > 1 ? r->params[1] : "");
}

void sql_fail(struct sql *q, struct copier *c, enum chunk_failure why, int64_t now_us)
{
	uint64_t id = q->request->id;

	trace(q->source->trace, "chunk %lu fails: %s", id,
		  why == CHUNK_LOST      ? "connection lost"
		  : why == CHUNK_TIMEOUT ? "timeout"
								 : "schema");
	finish(q);
	copier_chunk_failed(c, id, why, now_us);
}

/* ---- the SELECT ---- */

static void take(struct sql *q, int key)
{
	struct src_row row = source_read(q->source, q->view, q->layout->table, key);

	if (row.version == 0) return;
	q->keys[q->n] = key;
	q->rows[q->n++] = row;
}

/* Parameters: the last key read unless it is the first page, then the limit. */
static void select_page(struct sql *q)
{
	const struct chunk_request *r = q->request;
	int after = r->nparams > 1 ? atoi(r->params[0]) : -1;
	int limit = atoi(r->params[r->nparams - 1]);

	for (int k = after + 1; k < q->source->tables[q->layout->table].nkeys && q->n < limit; k++)
		take(q, k);
}

/* Parameter: a text[] of keys, {"1","12"}. */
static void select_keys(struct sql *q)
{
	bool wanted[SRC_KEYS_MAX] = {false};
	unsigned key = 0;

	for (const char *p = q->request->params[0]; *p; p++) {
		if (*p < '0' || *p > '9') continue;
		key = key * 10 + (unsigned)(*p - '0');
		if (p[1] >= '0' && p[1] <= '9') continue;
		if (key < SRC_KEYS_MAX) wanted[key] = true;
		key = 0;
	}
	for (int k = 0; k < q->source->tables[q->layout->table].nkeys; k++)
		if (wanted[k]) take(q, k);
}

static void read_snapshot(struct sql *q)
{
	if (q->layout && !source_can_lock(q->source, q->view, q->layout->table)) return;
	if (q->layout && !q->view.replica) q->source->tables[q->layout->table].readers++;
	q->phase = SQL_READING;
	source_snapshot(q->source, q->view, q->snapshot);
	if (q->request->kind == CHUNK_PAGE)
		select_page(q);
	else if (q->request->kind != CHUNK_PROBE)
		select_keys(q);
	trace(q->source->trace, "chunk %lu reads %d rows, snapshot %s", q->request->id, q->n, q->snapshot);
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

static bool reply_row(struct sql *q, struct copier *c, struct err *err)
{
	struct row_texts texts;
	struct slice slices[LAYOUT_COLUMNS_MAX];
	int i = q->next++;
	size_t n = q->layout->schema.ncolumns;

	layout_texts(q->layout, q->keys[i], q->rows[i], &texts);
	for (size_t k = 0; k < n; k++)
		slices[k] = texts.null[k] ? (struct slice){0} : slice_of(texts.text[k]);
	if (q->request->kind == CHUNK_EXISTS) {
		slices[0] = slices[q->layout->key_column];
		n = 1;
	}
	if (n != q->request->ncolumns)
		return err_set(err, ERR_BUG, "asked for %zu columns", q->request->ncolumns);
	return copier_chunk_row(c, q->request->id, slices, n, err);
}

static bool reply(struct sql *q, struct copier *c, int64_t now_us, struct err *err)
{
	uint64_t id = q->request->id;

	if (!q->announced) {
		q->announced = true;
		return copier_chunk_snapshot(c, id, q->snapshot, q->view.replica, q->high, err);
	}
	if (q->next < q->n) {
		trace(q->source->trace, "chunk %lu row %s[%d] v%u", id, q->layout->name, q->keys[q->next],
			  q->rows[q->next].version);
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
	case SQL_LOCKING: read_snapshot(q); break;
	case SQL_READING: read_high(q); break;
	case SQL_REPLYING:
		if (!reply(q, c, now_us, &err)) trace_fail(q->source->trace, "chunk refused: %s", err.msg);
		break;
	}
}
