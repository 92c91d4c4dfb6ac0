#include <stdlib.h>
#include <string.h>

#include "state/tidemark_impl.h"

/* ---- the row being shown ---- */

void row_view_finish(struct row_view *v)
{
	free(v->at);
	free(v->copy);
	*v = (struct row_view){0};
}

static void view_room(struct row_view *v, size_t ncolumns)
{
	if (v->at_cap > ncolumns) return;
	free(v->at);
	v->at = mem_alloc((ncolumns + 1) * sizeof *v->at);
	v->at_cap = ncolumns + 1;
}

/* The whole entry is copied at once. The NUL behind a text takes the place of the next column's beginning. */
static void view_copy(struct row_view *v)
{
	if (v->copy_cap < v->entry.n + 1) {
		free(v->copy);
		v->copy_cap = v->entry.n + 1 + v->entry.n / 2;
		v->copy = mem_alloc(v->copy_cap);
	}
	memcpy(v->copy, v->entry.p, v->entry.n);
	for (size_t i = 0; i < v->layout->schema->ncolumns; i++)
		v->copy[v->at[i + 1]] = '\0';
	v->copied = true;
}

/* In the entry; p = NULL: it has none. */
static struct slice view_text(const struct row_view *v, size_t column)
{
	int i;

	if (!v || column >= v->ncolumns) return (struct slice){0};
	i = v->layout->column[column];
	return i >= 0 ? row_column(v->entry, v->at[i]) : (struct slice){0};
}

const char *tidemark_row_value(const tidemark_row *row, size_t column)
{
	struct row_view *v = row->priv;
	struct slice text = view_text(v, column);

	if (!text.p) return NULL;
	if (!v->copied) view_copy(v);
	return (const char *)v->copy + (text.p - v->entry.p);
}

size_t tidemark_row_length(const tidemark_row *row, size_t column)
{
	return view_text(row->priv, column).n;
}

static int in_table(struct tidemark_table *t, struct err *err)
{
	err_wrap(err, "store %s: table %s.%s", store_dir(t->tm->store), t->record.schema_name,
			 t->record.table_name);
	return tidemark_fail_err(t->tm, err);
}

/* Takes a visible row that head begins; head->full_key becomes its key if that is a long one. */
static int view_take(struct tidemark_table *t, struct row_view *v, struct slice entry, struct row_head *head,
					 tidemark_row *out)
{
	int rc = 0;
	struct err err;

	v->layout = table_layout(t, head->version, &rc);
	if (!v->layout) return rc;
	view_room(v, v->layout->schema->ncolumns);
	if (!row_index(entry, v->layout->schema->ncolumns, head, v->at, &err)) return in_table(t, &err);
	v->entry = entry;
	v->ncolumns = t->schema->ncolumns;
	v->copied = false;
	*out = (tidemark_row){
		.epoch = head->pos.epoch,
		.commit_lsn = head->pos.lsn.v,
		.ordinal = head->pos.ordinal,
		.schema_version = head->version,
		.doubt = (head->flags & ROW_DOUBT) != 0,
		.priv = v,
	};
	return TIDEMARK_OK;
}

/* ---- keys ---- */

static int key_texts(struct tidemark_table *t, const char *const *key, size_t n,
					 struct slice out[KEY_COLUMNS_MAX])
{
	for (size_t i = 0; i < n; i++) {
		if (!key[i])
			return tidemark_fail(t->tm, TIDEMARK_E_ARGUMENT, "key column %s of table %s.%s cannot be NULL",
								 t->schema->columns[t->schema->key_columns[i]].name, t->record.schema_name,
								 t->record.table_name);
		out[i] = slice_of(key[i]);
	}
	return TIDEMARK_OK;
}

static int key_refused(struct tidemark_table *t, struct err *err)
{
	err_wrap(err, "key of table %s.%s", t->record.schema_name, t->record.table_name);
	return tidemark_fail(t->tm, TIDEMARK_E_ARGUMENT, "%s", err->msg);
}

static int no_such_row(struct tidemark_table *t)
{
	return tidemark_fail(t->tm, TIDEMARK_E_NOTFOUND, "table %s.%s has no such row", t->record.schema_name,
						 t->record.table_name);
}

/* ---- one row ---- */

/* Two long keys can share the stored form, in theory: the full ones decide. */
static bool is_same_key(const struct row_head *head, struct slice full, bool is_long)
{
	return is_long ? slice_eq(head->full_key, full) : head->full_key.n == 0;
}

static int get_entry(struct tidemark_table *t, struct slice stored, bool is_long, tidemark_row *out)
{
	struct slice entry;
	struct row_head head;
	struct err err;
	bool found;
	int rc;

	if (!store_row_get(t->tm->txn, t->record.id, stored, &entry, &found, &err)) return in_table(t, &err);
	if (!found) return no_such_row(t);
	if (!row_begin(entry, &head, &err)) return in_table(t, &err);
	if (head.flags & (ROW_DELETED | ROW_HIDDEN)) return no_such_row(t);
	rc = view_take(t, &t->view, entry, &head, out);
	if (rc != 0 || is_same_key(&head, (struct slice){t->full_key.p, t->full_key.n}, is_long)) return rc;
	*out = (tidemark_row){0};
	return no_such_row(t);
}

int tidemark_get(tidemark_table *t, const char *const *key, size_t nkey, tidemark_row *out)
{
	struct slice texts[KEY_COLUMNS_MAX];
	uint8_t stored[KEY_MAX];
	size_t n;
	bool is_long;
	struct err err;

	*out = (tidemark_row){0};
	if (tidemark_require_txn(t->tm) != 0) return TIDEMARK_E_ARGUMENT;
	if (t->schema->nkeys == 0) return no_such_row(t);
	if (nkey != t->schema->nkeys)
		return tidemark_fail(t->tm, TIDEMARK_E_ARGUMENT, "the key of table %s.%s has %u columns, not %zu",
							 t->record.schema_name, t->record.table_name, t->schema->nkeys, nkey);
	if (key_texts(t, key, nkey, texts) != 0) return TIDEMARK_E_ARGUMENT;
	if (!key_encode(t->kinds, texts, nkey, stored, &n, &t->full_key, &is_long, &err))
		return key_refused(t, &err);
	return get_entry(t, (struct slice){stored, n}, is_long, out);
}

/* ---- scans ----
 *
 * Bounds are full encodings, of some of the key columns or of all. Stored keys are
 * full encodings too, but of long ones only the first KEY_PREFIX bytes (key.h). Cut to that
 * length, stored keys never fall and full keys keep their order. So the scan starts at `from` cut to
 * KEY_PREFIX, ends where a stored key so cut is behind `to` so cut, and between them
 * looks at full keys.
 */

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

static int compare_start(struct slice key, const struct buf *bound, size_t limit)
{
	size_t n = least(least(key.n, bound->n), limit);

	return n > 0 ? memcmp(key.p, bound->p, n) : 0;
}

/* A prefix as `to` includes all keys that start with it. */
static bool is_between(const struct tidemark_cursor *c, struct slice full)
{
	int d = compare_start(full, &c->to, SIZE_MAX);

	if (c->to.n > 0 && (d > 0 || (d == 0 && c->to_is_whole && full.n > c->to.n))) return false;
	if (c->from.n <= KEY_PREFIX) return true; /* the scan started there */
	d = compare_start(full, &c->from, SIZE_MAX);
	return d > 0 || (d == 0 && full.n >= c->from.n);
}

static inline bool is_within(const struct tidemark_cursor *c, struct slice full)
{
	return (c->to.n == 0 && c->from.n == 0) || is_between(c, full);
}

/* No key from here on is within. */
static bool is_behind(const struct tidemark_cursor *c, struct slice stored)
{
	int d;

	if (c->to.n == 0) return false;
	d = compare_start(stored, &c->to, KEY_PREFIX);
	if (d != 0) return d > 0;
	return c->to_is_whole && c->to.n < KEY_PREFIX && stored.n > c->to.n;
}

static int bound_encode(struct tidemark_table *t, const char *const *key, size_t n, struct buf *out)
{
	struct slice texts[KEY_COLUMNS_MAX];
	struct err err;

	if (n > t->schema->nkeys)
		return tidemark_fail(t->tm, TIDEMARK_E_ARGUMENT, "the key of table %s.%s has %u columns, not %zu",
							 t->record.schema_name, t->record.table_name, t->schema->nkeys, n);
	if (n == 0) return TIDEMARK_OK;
	if (key_texts(t, key, n, texts) != 0) return TIDEMARK_E_ARGUMENT;
	return key_encode_bound(t->kinds, t->schema->nkeys, texts, n, out, &err) ? TIDEMARK_OK
																			 : key_refused(t, &err);
}

static int cursor_start(struct tidemark_cursor *c)
{
	struct slice from = {c->from.p, least(c->from.n, KEY_PREFIX)};
	struct tidemark_table *t = c->table;
	struct err err;

	if (store_scan_open(t->tm->txn, t->record.id, SPACE_ROWS, from, &c->scan, &err)) return TIDEMARK_OK;
	return in_table(t, &err);
}

int tidemark_scan(tidemark_table *t, const char *const *from, size_t nfrom, const char *const *to, size_t nto,
				  tidemark_cursor **out)
{
	tidemark_cursor *c;
	int rc = tidemark_require_txn(t->tm);

	*out = NULL;
	if (rc != 0) return rc;
	c = mem_alloc(sizeof *c);
	*c = (tidemark_cursor){.table = t,
						   .to_is_whole = nto == t->schema->nkeys && !key_has_ties(t->kinds, nto),
						   .next = t->tm->cursors};
	t->tm->cursors = c;
	rc = bound_encode(t, from, nfrom, &c->from);
	if (rc == 0) rc = bound_encode(t, to, nto, &c->to);
	if (rc == 0) rc = cursor_start(c);
	if (rc == 0)
		*out = c;
	else
		tidemark_cursor_close(c);
	return rc;
}

/* Decodes an entry between the bounds' cuts; *shown = false: it is not to be seen. */
static int cursor_take(tidemark_cursor *c, struct slice stored, struct slice entry, bool *shown,
					   tidemark_row *out)
{
	struct row_head head;
	struct err err;
	int rc;

	*shown = false;
	if (!row_begin(entry, &head, &err)) return in_table(c->table, &err);
	if (head.flags & (ROW_DELETED | ROW_HIDDEN)) return TIDEMARK_OK;
	if (!(head.flags & ROW_LONG_KEY) && !is_within(c, stored)) return TIDEMARK_OK;
	rc = view_take(c->table, &c->view, entry, &head, out);
	*shown = rc == 0 && (!(head.flags & ROW_LONG_KEY) || is_within(c, head.full_key));
	return rc;
}

int tidemark_next(tidemark_cursor *c, tidemark_row *out)
{
	struct tidemark_table *t = c->table;
	struct slice stored, entry;
	struct err err;
	bool found, shown = false;
	int rc = TIDEMARK_OK;

	if (!t) rc = TIDEMARK_E_ARGUMENT; /* its transaction has ended, and its handle may be closed */
	while (rc == 0 && !shown) {
		if (!store_scan_next(c->scan, &stored, &entry, &found, &err))
			rc = in_table(t, &err);
		else if (!found || is_behind(c, stored))
			rc = tidemark_fail(t->tm, TIDEMARK_E_NOTFOUND, "no more rows");
		else
			rc = cursor_take(c, stored, entry, &shown, out);
	}
	if (rc != 0) *out = (tidemark_row){0};
	return rc;
}

void cursor_detach(struct tidemark_cursor *c)
{
	struct tidemark_cursor **at = &c->table->tm->cursors;

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	store_scan_close(c->scan);
	c->scan = NULL;
	c->table = NULL;
}

void tidemark_cursor_close(tidemark_cursor *c)
{
	if (!c) return;
	if (c->table) cursor_detach(c);
	row_view_finish(&c->view);
	buf_finish(&c->from);
	buf_finish(&c->to);
	free(c);
}
