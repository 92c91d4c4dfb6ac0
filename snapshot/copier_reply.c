#include <assert.h>
#include <stdlib.h>

#include "snapshot/copier_impl.h"
#include "state/mutant.h"

/* A page that brings more than this many times the bytes aimed for ends early. */
#define CUT_FACTOR 2

#define SCHEMA_WAIT_US      1000000
#define SCHEMA_REFUSALS_MAX 5

static const char *name_of(const struct request *r)
{
	return r->table ? r->table->from_sql : "(no table)";
}

/* The unanswered request, if it is this one. */
static struct request *request_of(struct copier *c, uint64_t id, struct err *err)
{
	for (struct request *r = c->requests; r; r = r->next)
		if (r->pub.id == id) return r;
	err_set(err, ERR_PROTOCOL, "a reply to chunk %llu, which is not the one asked for",
			(unsigned long long)id);
	return NULL;
}

/* ---- the snapshot ---- */

/* NULL: it is of no run. Only one that is wanted has one for certain. */
static struct run *run_of(const struct request *r)
{
	return r->table && r->pub.run_id != 0 ? table_find_run(r->table, r->pub.run_id) : NULL;
}

/*
 * S must see what was taken for visible before (only another server can see
 * less), and what its run's gate sees.
 */
static bool is_admitted(struct copier *c, const struct request *r)
{
	const struct snap *s = &r->window->snap;

	c->floor_refused = c->floor_text && !snap_covers(s, &c->floor);
	return !c->floor_refused &&
		   (!r->table || table_admits(r->table, run_of(r), s, c->unseen, r->window->high));
}

static void check_snapshot(struct copier *c, struct request *r)
{
	bool was_held = c->floor_refused || (r->table && table_gated_run(r->table));

	if (!is_admitted(c, r))
		request_drop(r, REQUEST_REFUSED);
	else if (was_held)
		backoff_reset(&c->gate_wait);
}

bool copier_chunk_snapshot(struct copier *c, uint64_t id, const char *snapshot, bool standby, lsn_t high,
						   struct err *err)
{
	struct request *r = request_of(c, id, err);

	if (!r) return false;
	if (r->fate != REQUEST_WANTED) return true;
	if (r->window->has_snapshot)
		return err_set(err, ERR_PROTOCOL, "chunk of %s: a second snapshot", name_of(r));
	if (r->pub.kind == CHUNK_PROBE || r->pub.kind == CHUNK_CHECK)
		high = LSN(0); /* it has no rows that could wait */
	else if (high.v == 0)
		return err_set(err, ERR_PROTOCOL, "chunk of %s: no high watermark", name_of(r));
	if (!window_open(r->window, snapshot, standby, high, ++c->seq, err))
		return err_wrap(err, "chunk of %s", name_of(r));
	if (r->pub.kind != CHUNK_CHECK) check_snapshot(c, r);
	return true;
}

/* ---- rows ---- */

struct row_key {
	struct slice texts[KEY_COLUMNS_MAX];
	uint8_t bytes[KEY_MAX];
	struct slice key, full; /* full is empty for a short key */
};

static bool encode_key(struct request *r, struct row_key *k, struct err *err)
{
	const struct schema *s = r->table->schema;
	enum key_kind kinds[KEY_COLUMNS_MAX];
	size_t n;
	bool is_long;

	schema_key_kinds(s, kinds);
	if (!key_encode(kinds, k->texts, s->nkeys, k->bytes, &n, &r->full_key, &is_long, err)) return false;
	k->key = (struct slice){k->bytes, n};
	k->full = is_long ? (struct slice){r->full_key.p, r->full_key.n} : (struct slice){0};
	return true;
}

static bool take_key(struct request *r, const struct slice *texts, struct row_key *k, struct err *err)
{
	const struct schema *s = r->table->schema;
	/* Its columns in key order, else all of the table. */
	bool only_key = r->pub.kind == CHUNK_EXISTS || (r->pub.kind == CHUNK_SCOPED && r->window->counts_only);

	for (size_t i = 0; i < s->nkeys; i++) {
		k->texts[i] = texts[only_key ? i : s->key_columns[i]];
		if (!k->texts[i].p)
			return err_set(err, ERR_PROTOCOL, "NULL in key column \"%s\"",
						   s->columns[s->key_columns[i]].name);
	}
	return encode_key(r, k, err);
}

static void encode_row(struct request *r, const struct slice *texts, const struct row_key *k)
{
	const struct schema *s = r->table->schema;

	for (size_t i = 0; i < s->ncolumns; i++)
		r->cells[i] = (struct cell){.kind = texts[i].p ? CELL_TEXT : CELL_NULL, .text = texts[i]};
	buf_reset(&r->row);
	row_encode(&r->row, POS_NONE, s->version, XID(0), k->full, r->cells, s->ncolumns);
}

static void set_cursor(struct request *r, const struct row_key *k)
{
	buf_reset(&r->cursor);
	for (size_t i = 0; i < r->table->schema->nkeys; i++)
		buf_put_blob(&r->cursor, k->texts[i].p, k->texts[i].n);
}

/* The first row is always taken, however large: otherwise there would be no end. */
static bool is_too_much(const struct copier *c, const struct window *w, size_t more)
{
	return w->bytes > 0 && w->bytes + more > c->config.chunk_bytes * CUT_FACTOR;
}

static bool add_row(struct copier *c, struct request *r, const struct row_key *k, struct err *err)
{
	struct window *w = r->window;

	w->cut = w->cut || (!r->end_known && is_too_much(c, w, k->key.n + r->row.n));
	if (w->cut) return true;
	if (!window_add_row(w, k->key, k->full, &r->row))
		return err_set(err, ERR_PROTOCOL,
					   "two rows have one key; if its unique index is damaged, REINDEX it");
	if (r->pub.kind == CHUNK_PAGE && !r->end_known) set_cursor(r, k);
	return true;
}

/* Digits without a sign; 0: not a number from 1 to n. */
static size_t take_number(struct slice text, size_t n)
{
	size_t number = 0;

	for (size_t i = 0; i < text.n && number <= n; i++) {
		if (text.p[i] < '0' || text.p[i] > '9') return 0;
		number = number * 10 + (size_t)(text.p[i] - '0');
	}
	return number <= n ? number : 0;
}

/*
 * A stored row that is in the scope, and what the source has under its key. That may be a row of another
 * text, which the server calls equal: then the source has none of this key.
 */
static bool take_scoped(struct copier *c, struct request *r, const struct slice *texts, struct err *err)
{
	bool whole = !r->window->counts_only;
	size_t first_key = whole ? r->table->schema->key_columns[0] : 0;
	size_t number = take_number(texts[0], r->keys->n);
	struct keylist_key *asked;
	struct row_key k;

	if (number == 0)
		return err_set(err, ERR_PROTOCOL, "row number \"%.*s\" of %zu", (int)texts[0].n,
					   (const char *)texts[0].p, r->keys->n);
	asked = &r->keys->keys[number - 1];
	asked->in_scope = true;
	texts++;
	if (!texts[first_key].p || MUTANT(SCOPE_BLIND)) return true;
	if (!take_key(r, texts, &k, err)) return false;
	asked->returned = asked->returned || slice_eq(asked->key, k.key);
	if (!whole || window_has_row(r->window, k.key)) return true;
	encode_row(r, texts, &k);
	return add_row(c, r, &k, err);
}

static bool take_row(struct copier *c, struct request *r, const struct slice *texts, struct err *err)
{
	struct row_key k;

	if (r->pub.kind == CHUNK_CHECK) return true; /* that it came says all */
	if (r->pub.kind == CHUNK_SCOPED) return take_scoped(c, r, texts, err);
	if (!take_key(r, texts, &k, err)) return false;
	if (r->keys) keylist_mark(r->keys, k.key);
	if (r->pub.kind == CHUNK_EXISTS) return true;
	encode_row(r, texts, &k);
	return add_row(c, r, &k, err);
}

static bool expects_row(struct request *r, size_t n, struct err *err)
{
	if (!r->window->has_snapshot) return err_set(err, ERR_PROTOCOL, "a row came before the snapshot");
	if (r->pub.kind == CHUNK_PROBE) return err_set(err, ERR_PROTOCOL, "a row came where none was asked for");
	if (n != r->pub.ncolumns)
		return err_set(err, ERR_PROTOCOL, "a row of %zu columns, not %zu", n, r->pub.ncolumns);
	if (r->pub.kind == CHUNK_PAGE && r->nrows == r->limit)
		return err_set(err, ERR_PROTOCOL, "more than %u rows", r->limit);
	return true;
}

bool copier_chunk_row(struct copier *c, uint64_t id, const struct slice *texts, size_t n, struct err *err)
{
	struct request *r = request_of(c, id, err);
	bool ok;

	if (!r) return false;
	if (r->fate != REQUEST_WANTED) return true;
	ok = expects_row(r, n, err) && take_row(c, r, texts, err);
	r->nrows++;
	return ok || err_wrap(err, "chunk of %s", name_of(r));
}

/* ---- asking ahead ---- */

/* A run that rests between its pages, or counts its rows by the second, asks for one at a time. */
static bool may_ask_ahead(const struct copier *c, const struct request *r, size_t nrows, size_t bytes)
{
	return r->pub.kind == CHUNK_PAGE && nrows > 0 && nrows == r->limit &&
		   bytes <= c->config.chunk_bytes * CUT_FACTOR && run_of(r)->rows_per_second == 0 &&
		   !pace_rests(&c->load);
}

/* Cannot be, unless the cursor lost something on its way to the server: the same page would come for ever. */
static bool stands_still(const struct request *r, struct err *err)
{
	const struct buf *before = &run_of(r)->received;

	if (before->n == 0 ||
		!slice_eq((struct slice){before->p, before->n}, (struct slice){r->cursor.p, r->cursor.n}))
		return false;
	return !err_set(err, ERR_PROTOCOL, "chunk of %s: it ended with the row it was to begin behind",
					name_of(r));
}

bool copier_chunk_is_whole(struct copier *c, uint64_t id, const struct slice *last, size_t n, size_t nrows,
						   size_t bytes, bool *ahead, struct err *err)
{
	struct request *r = request_of(c, id, err);
	struct row_key k;

	*ahead = false;
	if (!r) return false;
	if (r->fate != REQUEST_WANTED || !may_ask_ahead(c, r, nrows, bytes)) return true;
	if (r->nrows > 0 || r->end_known)
		return err_set(err, ERR_PROTOCOL, "chunk of %s: its rows came twice", name_of(r));
	if (!expects_row(r, n, err) || !take_key(r, last, &k, err))
		return err_wrap(err, "chunk of %s", name_of(r));
	set_cursor(r, &k);
	if (stands_still(r, err)) return false;
	r->end_known = *ahead = true;
	run_page_received(run_of(r), (struct slice){r->cursor.p, r->cursor.n}, false);
	return true;
}

/* ---- the end ---- */

static void forget_request(struct copier *c, struct request *r)
{
	struct request **at = &c->requests;

	while (*at != r)
		at = &(*at)->next;
	*at = r->next;
	request_destroy(r);
}

/* What the request was for is to be asked for again. */
static void ask_again(struct request *r)
{
	struct run *run = run_of(r);

	if (!r->table) return;
	if (r->pub.kind == CHUNK_KEYED && !run) inquiry_reset(&r->table->doubt.keys);
	if (!run) return;
	switch (r->pub.kind) {
	case CHUNK_PAGE: run->asked = false; break;
	case CHUNK_KEYED: inquiry_reset(&run->listing); break;
	case CHUNK_EXISTS:
	case CHUNK_SCOPED: inquiry_reset(&run->suspects); break;
	case CHUNK_CHECK: run->check = CHECK_NEEDED; break;
	case CHUNK_PROBE: break;
	}
}

static void end_refused(struct copier *c, struct request *r)
{
	int64_t until = c->now_us + backoff_next(&c->gate_wait);

	if (c->floor_refused)
		c->floor_at_us = until;
	else
		c->gate_at_us = until;
	ask_again(r);
}

/* A run may have a time of its own. */
static void set_target(const struct copier *c, const struct table *t, struct pace *p)
{
	int64_t ms = t->run ? t->run->chunk_time_ms : 0;

	p->target_us = (ms ? ms : c->config.chunk_time_ms) * 1000;
	p->work_us = pace_work(&c->load, p->target_us);
}

static void measure(struct copier *c, struct request *r, int64_t elapsed_us)
{
	struct run *run = run_of(r);
	const struct window *w = r->window;
	struct pace *p = r->pub.kind == CHUNK_PAGE ? &r->table->page_pace : &r->table->key_pace;
	/* Keys cost time whether the source has them or not; of a chunk cut short only its rows were looked at.
	 */
	uint32_t rows = r->keys && !w->cut ? (uint32_t)r->keys->n : w->chunk->rows_read;

	set_target(c, r->table, p);
	if (r->keys && w->cut) /* the same keys are listed again: as many of them would be cut again */
		pace_cut(p, (uint32_t)r->keys->n);
	else
		pace_measured(p, rows, w->bytes, elapsed_us);
	if (run) {
		run->refusals = 0;
		run_count_rows(run, rows, c->now_us);
		c->yield_at_us = c->now_us + pace_pause(p, &c->load, rows, elapsed_us);
	}
	r->table->not_before_us = 0;
	backoff_reset(&r->table->retry);
}

static void end_page(struct request *r)
{
	struct window *w = r->window;
	struct slice cursor = {r->cursor.p, r->cursor.n};

	w->last = !w->cut && r->nrows < r->limit;
	window_set_cursor(w, cursor);
	if (!r->end_known) run_page_received(run_of(r), cursor, w->last);
}

/* Which of the keys the source does not have is only known when every row was looked at. */
static void end_keys(struct request *r)
{
	/* A row's number is looked at before the row is left out, so what is gone of those is known. */
	if (!r->window->cut) window_add_gone(r->window, r->keys);
	window_set_resume(r->window, r->keys);
}

static void append_window(struct copier *c, struct window *w)
{
	struct window **at = &c->windows;

	while (*at)
		at = &(*at)->next;
	*at = w;
}

static void end_check(struct copier *c, struct request *r)
{
	struct run *run = run_of(r);

	if (r->nrows > 0) {
		copier_fail_run(c, r->table, run, "the range is empty: its first key is behind its last");
		return;
	}
	run->check = CHECK_GOOD;
	run->refusals = 0;
	backoff_reset(&r->table->retry);
}

static void end_wanted(struct copier *c, struct request *r, int64_t elapsed_us)
{
	if (r->pub.kind == CHUNK_CHECK) {
		end_check(c, r);
		return;
	}
	if (r->pub.kind == CHUNK_PROBE) {
		backoff_reset(&c->probe_wait);
	} else {
		measure(c, r, elapsed_us);
		if (r->pub.kind == CHUNK_PAGE)
			end_page(r);
		else
			end_keys(r);
	}
	append_window(c, r->window);
	r->window = NULL;
}

bool copier_chunk_end(struct copier *c, uint64_t id, int64_t elapsed_us, int64_t now_us, struct err *err)
{
	struct request *r = request_of(c, id, err);

	if (!r) return false;
	copier_clock(c, now_us);
	if (r->fate == REQUEST_WANTED && !r->window->has_snapshot)
		return err_set(err, ERR_PROTOCOL, "chunk of %s: it ended without a snapshot", name_of(r));
	if (r->fate == REQUEST_WANTED && r->end_known && r->nrows != r->limit)
		return err_set(err, ERR_PROTOCOL, "chunk of %s: %u rows came, not %u", name_of(r), r->nrows,
					   r->limit);
	if (r->fate == REQUEST_WANTED && r->pub.kind == CHUNK_PAGE && r->nrows > 0 && !r->end_known &&
		stands_still(r, err))
		return false;
	if (r->fate == REQUEST_WANTED)
		end_wanted(c, r, elapsed_us);
	else if (r->fate == REQUEST_REFUSED)
		end_refused(c, r);
	forget_request(c, r);
	copier_flush(c);
	copier_close_windows(c);
	return true;
}

/* ---- failure ---- */

static void failed_table(struct copier *c, struct request *r, enum chunk_failure why)
{
	struct table *t = r->table;
	int64_t wait = backoff_next(&t->retry);

	if (why == CHUNK_TIMEOUT) pace_timed_out(r->pub.kind == CHUNK_PAGE ? &t->page_pace : &t->key_pace);
	if (why == CHUNK_SCHEMA && wait < SCHEMA_WAIT_US) wait = SCHEMA_WAIT_US;
	t->not_before_us = c->now_us + wait;
	ask_again(r);
	if (r->end_known && !MUTANT(AHEAD_KEPT)) copier_give_up(c, t, run_of(r)); /* the pages behind it too */
}

/*
 * Text that someone gave may name a column that is not there, or one that was there until a moment ago and is
 * not in the text we made: that one is asked for again under the table's new description.
 */
static bool is_hopeless(struct run *run, enum chunk_failure why)
{
	return why == CHUNK_REFUSED || (why == CHUNK_SCHEMA && ++run->refusals > SCHEMA_REFUSALS_MAX);
}

void copier_chunk_failed_saying(struct copier *c, uint64_t id, enum chunk_failure why, const char *message,
								int64_t now_us)
{
	struct err ignored;
	struct request *r = request_of(c, id, &ignored);
	struct run *run = r ? run_of(r) : NULL;

	copier_clock(c, now_us);
	if (!r) return;
	if (r->table && run && r->pub.of_user && is_hopeless(run, why))
		copier_fail_run(c, r->table, run, message && *message ? message : "the server refused it");
	else if (r->table)
		failed_table(c, r, why == CHUNK_REFUSED ? CHUNK_SCHEMA : why);
	else if (r->pub.kind == CHUNK_PROBE)
		c->probe_at_us = c->now_us + backoff_next(&c->probe_wait);
	forget_request(c, r);
	copier_flush(c);
}

void copier_chunk_failed(struct copier *c, uint64_t id, enum chunk_failure why, int64_t now_us)
{
	copier_chunk_failed_saying(c, id, why, NULL, now_us);
}
