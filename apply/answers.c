#include <stdlib.h>
#include <string.h>

#include "apply/applier_impl.h"

/* ---- lists of answers ---- */

static struct answer *answer_add(struct answers *list, enum answer_kind kind, uint32_t table_id)
{
	struct answer *answer = mem_alloc(sizeof *answer);

	*answer = (struct answer){.kind = kind, .table_id = table_id};
	arena_init(&answer->arena);
	answers_move(&(struct answers){answer, answer}, list);
	return answer;
}

void answers_move(struct answers *from, struct answers *to)
{
	if (!from->head) return;
	if (to->tail)
		to->tail->next = from->head;
	else
		to->head = from->head;
	to->tail = from->tail;
	*from = (struct answers){0};
}

void answers_free(struct answers *list)
{
	for (struct answer *x = list->head, *next; x; x = next) {
		next = x->next;
		answer_destroy(x);
	}
	*list = (struct answers){0};
}

void answer_destroy(struct answer *a)
{
	if (!a) return;
	arena_finish(&a->arena);
	free(a);
}

struct answer *applier_take_answers(struct applier *a)
{
	struct answer *head = a->ready.head;

	a->ready = (struct answers){0};
	return head;
}

void answers_post_doubt(struct applier *a, bool all)
{
	for (struct table *t = a->tables; t; t = t->hh.next) {
		if (!all && t->rec.doubt == t->doubt_posted) continue;
		answer_add(&a->pending, ANSWER_DOUBT, t->rec.id)->count = t->rec.doubt;
		t->doubt_posted = t->rec.doubt;
	}
}

/* ---- lists of keys ---- */

/* How many keys one operation removes from the index of rows in doubt. */
#define STALE_MAX 4096

struct listing {
	struct applier *a;
	struct table *t;
	const struct op *op;
	const struct schema *schema; /* the current one */
	struct answer *answer;
	struct buf keys; /* of struct answer_key */
	uint32_t looked;
	struct slice last; /* looked at */
	struct buf stale;  /* keys in the index of rows in doubt that are of other rows, as blobs */
	size_t nstale;
};

static struct slice keep(struct arena *arena, struct slice s)
{
	return (struct slice){arena_copy(arena, s.p, s.n), s.n};
}

/* The texts of a row's key, from the row: decoded under the version it was written with. */
static bool key_texts(struct listing *l, struct slice entry, const struct slice **out, struct err *err)
{
	struct cells *cells = &l->a->stored_cells;
	struct row_head head;
	const struct schema *s = row_cells(l->a, l->t, entry, &head, cells, err);
	struct slice *texts;

	if (!s) return false;
	if (s->nkeys != l->schema->nkeys)
		return err_set(err, ERR_CORRUPT, "rows under one table have keys of %u and of %u columns", s->nkeys,
					   l->schema->nkeys);
	texts = arena_alloc(&l->answer->arena, s->nkeys * sizeof *texts);
	for (size_t i = 0; i < s->nkeys; i++) {
		const struct cell *c = &cells->v[s->key_columns[i]];

		if (c->kind != CELL_TEXT) return err_set(err, ERR_CORRUPT, "a stored row has no value in its key");
		texts[i] = keep(&l->answer->arena, c->text);
	}
	*out = texts;
	return true;
}

/* All values of a row under the current schema; what it has none of is NULL. */
static bool row_texts(struct listing *l, struct slice entry, const struct slice **out, struct err *err)
{
	struct cells *cells = &l->a->stored_cells;
	struct row_head head;
	const struct schema *s = row_cells(l->a, l->t, entry, &head, cells, err), *now = l->schema;
	struct slice *texts;
	bool same_type;

	if (!s) return false;
	texts = arena_alloc(&l->answer->arena, now->ncolumns * sizeof *texts);
	for (size_t i = 0; i < now->ncolumns; i++) {
		int j = column_in(s, now, i, &same_type);
		bool known = j >= 0 && cells->v[j].kind == CELL_TEXT;

		texts[i] = known ? keep(&l->answer->arena, cells->v[j].text) : (struct slice){0};
	}
	*out = texts;
	return true;
}

static bool list_key(struct listing *l, struct slice key, struct slice entry, struct err *err)
{
	struct answer_key k = {.key = keep(&l->answer->arena, key)};
	bool whole = l->op->flags & OP_F_WHOLE_ROWS;

	if (!(whole ? row_texts(l, entry, &k.texts, err) : key_texts(l, entry, &k.texts, err))) return false;
	buf_put(&l->keys, &k, sizeof k);
	l->answer->nkeys++;
	return true;
}

/*
 * The index may name rows that are not in doubt: a large transaction was staged that resolved it, or one
 * that brought it never ended. They are removed when met.
 */
static bool visit_doubt(struct listing *l, struct slice key, struct err *err)
{
	struct entry e;

	if (!entry_get_unchecked(l->a, l->t, key, &e, err)) return false;
	if (e.present && e.flags & ROW_DOUBT) return list_key(l, key, e.bytes, err);
	buf_put_blob(&l->stale, key.p, key.n);
	l->nstale++;
	return true;
}

static bool visit_suspect(struct listing *l, struct slice key, struct slice bytes, struct err *err)
{
	uint8_t flags;
	struct pos pos;

	if (!row_peek(bytes, &flags, &pos))
		return err_set(err, ERR_CORRUPT, "a stored entry of %zu bytes is cut short", bytes.n);
	if (flags & ROW_DELETED || pos_cmp(pos, l->op->pos) >= 0) return true;
	return list_key(l, key, bytes, err);
}

/* Only as far as the bound goes: longer keys have more behind what is compared. */
static bool is_behind(struct slice key, struct slice bound)
{
	size_t n = key.n < bound.n ? key.n : bound.n;

	return n > 0 && memcmp(key.p, bound.p, n) > 0;
}

static bool is_full(const struct listing *l)
{
	const struct op *op = l->op;

	return l->answer->nkeys >= op->u.list.limit || l->nstale >= STALE_MAX ||
		   (op->kind == OP_LIST_SUSPECTS && l->looked >= op->u.list.scan_limit);
}

static bool list_scan(struct listing *l, struct store_scan *scan, struct err *err)
{
	struct slice key, bytes;
	bool found;

	for (;;) {
		if (!store_scan_next(scan, &key, &bytes, &found, err)) return false;
		if (found && is_behind(key, op_body(l->op))) found = false;
		if (!found || is_full(l)) {
			l->answer->end = !found;
			return true;
		}
		if (slice_eq(key, l->op->key) && !(l->op->flags & OP_F_INCLUSIVE)) continue;
		l->looked++;
		l->last = key;
		if (!(l->op->kind == OP_LIST_DOUBT ? visit_doubt(l, key, err) : visit_suspect(l, key, bytes, err)))
			return false;
	}
}

static bool remove_stale(struct listing *l, struct err *err)
{
	struct cur c = cur_of((struct slice){l->stale.p, l->stale.n});

	while (!cur_done(&c)) {
		if (!store_doubt_del(l->a->txn, l->t->rec.id, cur_blob(&c), err)) return false;
		l->a->wrote = true;
		l->a->dirty_bytes += PAGE_BYTES;
	}
	return true;
}

bool apply_list(struct applier *a, const struct op *op, struct err *err)
{
	enum store_space space = op->kind == OP_LIST_DOUBT ? SPACE_DOUBT : SPACE_ROWS;
	struct listing l = {.a = a, .op = op, .last = op->key};
	struct store_scan *scan;
	bool ok;

	l.t = table_of(a, op->table_id, err);
	l.schema = l.t ? table_schema(a, l.t, l.t->rec.schema_version, err) : NULL;
	if (!l.schema || !store_scan_open(a->txn, op->table_id, space, op->key, &scan, err)) return false;
	l.answer = answer_add(&a->pending, ANSWER_KEYS, op->table_id);
	l.answer->token = op->u.list.token;
	l.answer->schema_version = l.schema->version;
	ok = list_scan(&l, scan, err);
	l.answer->resume = keep(&l.answer->arena, l.last);
	l.answer->keys = arena_copy(&l.answer->arena, l.keys.p, l.keys.n);
	buf_finish(&l.keys);
	store_scan_close(scan);
	ok = ok && remove_stale(&l, err);
	buf_finish(&l.stale);
	return ok;
}

/* ---- the keys that a run lists ---- */

/* One of them: its texts, and encoded as the table's rows are. */
static bool list_run_key(struct listing *l, struct slice stored, struct err *err)
{
	const struct schema *s = l->schema;
	struct slice *texts = arena_alloc(&l->answer->arena, s->nkeys * sizeof *texts);
	struct answer_key k = {.texts = texts};
	enum key_kind kinds[KEY_COLUMNS_MAX];
	uint8_t bytes[KEY_MAX];
	struct cur c = cur_of(stored);
	struct buf full = {0};
	bool is_long, ok;
	size_t n;

	for (size_t i = 0; i < s->nkeys; i++)
		texts[i] = keep(&l->answer->arena, cur_blob(&c));
	if (!cur_done(&c)) return err_set(err, ERR_CORRUPT, "a key that a run lists is damaged");
	schema_key_kinds(s, kinds);
	ok = key_encode(kinds, texts, s->nkeys, bytes, &n, &full, &is_long, err);
	buf_finish(&full);
	if (!ok) return err_wrap(err, "a key that a run lists");
	k.key = keep(&l->answer->arena, (struct slice){bytes, n});
	buf_put(&l->keys, &k, sizeof k);
	l->answer->nkeys++;
	return true;
}

static bool list_run_keys(struct listing *l, uint64_t *number, struct err *err)
{
	uint64_t run_id = l->op->u.list.run_id;
	struct slice stored;
	bool found;

	for (;; ++*number) {
		if (!store_get_run_key(l->a->txn, run_id, *number, &stored, &found, err)) return false;
		l->answer->end = !found;
		if (!found || l->answer->nkeys >= l->op->u.list.limit) return true;
		if (!list_run_key(l, stored, err)) return false;
	}
}

bool apply_list_run_keys(struct applier *a, const struct op *op, struct err *err)
{
	struct listing l = {.a = a, .op = op};
	uint64_t number = op->key.n == 8 ? be64_get(op->key.p) : 0;
	uint8_t next[8];
	bool ok;

	l.t = table_of(a, op->table_id, err);
	l.schema = l.t ? table_schema(a, l.t, l.t->rec.schema_version, err) : NULL;
	if (!l.schema) return false;
	l.answer = answer_add(&a->pending, ANSWER_KEYS, op->table_id);
	l.answer->token = op->u.list.token;
	l.answer->schema_version = l.schema->version;
	ok = list_run_keys(&l, &number, err);
	be64_put(next, number);
	l.answer->resume = keep(&l.answer->arena, (struct slice){next, sizeof next});
	l.answer->keys = arena_copy(&l.answer->arena, l.keys.p, l.keys.n);
	buf_finish(&l.keys);
	return ok;
}

bool apply_barrier(struct applier *a, const struct op *op)
{
	answer_add(&a->pending, ANSWER_DONE, 0)->token = op->u.list.token;
	return true;
}
