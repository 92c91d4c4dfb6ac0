#include "reader/resolve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reader/names.h"
#include "reader/suggest.h"
#include "state/key.h"

struct resolver {
	struct store_txn *txn;
	const struct request *request;
	const struct fresh_runs *fresh;
	struct resolved *out;
	struct table_record *tables;
	size_t ntables;
	struct run_record *runs;
	size_t nruns;
};

static const char *display(struct resolver *v, const struct table_record *t)
{
	struct buf name = {0};
	names_put(&name, t->schema_name, t->table_name);
	buf_put_u8(&name, 0);
	const char *out = arena_strdup(&v->out->arena, (const char *)name.p);
	buf_finish(&name);
	return out;
}

/* ---- tables ---- */

/* Of two of one name the one that is replicated. */
static const struct table_record *find_table(const struct resolver *v, const struct table_name *name)
{
	const struct table_record *found = NULL;
	for (size_t i = 0; i < v->ntables; i++) {
		const struct table_record *t = &v->tables[i];
		if (strcmp(t->schema_name, name->schema_name) != 0 || strcmp(t->table_name, name->table_name) != 0)
			continue;
		if (found == NULL || t->state != TABLE_LEFT) found = t;
	}
	return found;
}

static bool refuse_table(const struct resolver *v, const char *text, const struct table_name *name,
						 struct err *err)
{
	struct suggest s = suggest_for(name->table_name, strlen(name->table_name));
	for (size_t i = 0; i < v->ntables; i++)
		if (v->tables[i].state != TABLE_LEFT) suggest_offer(&s, v->tables[i].table_name);
	if (s.best != NULL && strcmp(s.best, name->table_name) != 0)
		return err_set(err, ERR_CONFIG, "the store has no table %.200s; did you mean %.200s?", text, s.best);
	return err_set(err, ERR_CONFIG, "the store has no table %.200s", text);
}

static bool take_table(const struct resolver *v, const char *text, const struct table_record **out,
					   struct err *err)
{
	struct table_name name;
	if (!names_parse(text, &name, err)) return false;
	*out = find_table(v, &name);
	bool good = *out != NULL || refuse_table(v, text, &name, err);
	names_finish(&name);
	if (good && (*out)->state == TABLE_LEFT)
		return err_set(err, ERR_CONFIG, "table %.200s is no longer replicated: its rows stay as they were",
					   text);
	return good;
}

/* ---- keys ---- */

static void slices_of(const struct request_key *key, struct slice *out)
{
	for (size_t i = 0; i < key->n; i++)
		out[i] = slice_of(key->values[i]);
}

static bool wrap_key(const struct schema *s, const struct request_key *key, struct err *err)
{
	char shown[200] = "";
	for (size_t i = 0, n = 0; i < key->n && n < sizeof shown; i++)
		n += (size_t)snprintf(shown + n, sizeof shown - n, "%s%s", i > 0 ? "," : "", key->values[i]);
	err->kind = ERR_CONFIG;
	if (s->nkeys == 1) {
		const struct column *c = &s->columns[s->key_columns[0]];
		return err_wrap(err, "key %s of column %s (%s)", shown, c->name, c->type_name);
	}
	return err_wrap(err, "key %s", shown);
}

static bool check_key(const struct schema *s, const struct request_key *key, struct err *err)
{
	enum key_kind kinds[KEY_COLUMNS_MAX];
	struct slice texts[KEY_COLUMNS_MAX];
	uint8_t encoded[KEY_MAX];
	size_t n;
	struct buf full = {0};
	bool is_long;
	if (key->n != s->nkeys)
		return err_set(err, ERR_CONFIG, "the key has %u column%s, and %zu value%s given", s->nkeys,
					   s->nkeys == 1 ? "" : "s", key->n, key->n == 1 ? " was" : "s were");
	schema_key_kinds(s, kinds);
	slices_of(key, texts);
	bool good = key_encode(kinds, texts, key->n, encoded, &n, &full, &is_long, err) || wrap_key(s, key, err);
	buf_finish(&full);
	return good;
}

static void put_key(struct buf *out, const struct request_key *key)
{
	for (size_t i = 0; i < key->n; i++)
		buf_put_str(out, key->values[i]);
}

static struct slice keep(struct resolver *v, struct buf *b)
{
	struct slice kept = {arena_copy(&v->out->arena, b->p, b->n), b->n};
	buf_finish(b);
	return kept;
}

static bool take_bound(struct resolver *v, const struct schema *s, const struct request_key *key,
					   const char *what, struct slice *out, struct err *err)
{
	struct buf texts = {0};
	if (key->n == 0) return true;
	if (!check_key(s, key, err)) return err_wrap(err, "%s", what);
	put_key(&texts, key);
	*out = keep(v, &texts);
	return true;
}

static bool take_listed(struct resolver *v, const struct schema *s, struct wanted_run *w, struct err *err)
{
	const struct request *r = v->request;
	struct buf texts = {0};
	for (size_t i = 0; i < r->nkeys; i++) {
		if (!check_key(s, &r->keys[i], err)) {
			buf_finish(&texts);
			return err_wrap(err, "key number %zu", i + 1);
		}
		put_key(&texts, &r->keys[i]);
	}
	w->keys = keep(v, &texts);
	w->listed = r->nkeys;
	return true;
}

static bool encode_bound(const struct schema *s, const struct request_key *key, size_t n, struct buf *out)
{
	enum key_kind kinds[KEY_COLUMNS_MAX];
	struct slice texts[KEY_COLUMNS_MAX];
	struct err ignored; /* check_key() was there before */
	schema_key_kinds(s, kinds);
	slices_of(key, texts);
	return key_encode_bound(kinds, s->nkeys, texts, n, out, &ignored);
}

/* Below 0 when the first n columns of a are before those of b, above when they are behind. */
static int compare_keys(const struct schema *s, const struct request_key *a, const struct request_key *b,
						size_t n)
{
	struct buf low = {0}, high = {0};
	int order = 0;
	if (encode_bound(s, a, n, &low) && encode_bound(s, b, n, &high)) {
		order = memcmp(low.p, high.p, low.n < high.n ? low.n : high.n);
		if (order == 0) order = (low.n > high.n) - (low.n < high.n);
	}
	buf_finish(&low);
	buf_finish(&high);
	return order;
}

/* As far as we know the order; behind that only the server does. */
static bool check_order(const struct schema *s, const struct request *r, struct err *err)
{
	size_t n = 0;
	if (r->from.n == 0 || r->to.n == 0) return true;
	while (n < s->nkeys && key_kind_is_ordered(s->key_kinds[n]))
		n++;
	return n == 0 || compare_keys(s, &r->from, &r->to, n) <= 0 ||
		   err_set(err, ERR_CONFIG, "\"from\" is behind \"to\": no key is between them");
}

/* ---- runs to start ---- */

static void find_named(const struct resolver *v, struct wanted_run *w)
{
	const char *name = v->request->id;
	size_t nfresh = v->fresh != NULL ? v->fresh->n : 0;
	for (size_t i = 0; name != NULL && i < v->nruns; i++) {
		if (v->runs[i].table_id != w->table_id || strcmp(v->runs[i].name, name) != 0) continue;
		w->existing = v->runs[i].id;
		w->existing_state = v->runs[i].state;
		return;
	}
	for (size_t i = 0; name != NULL && i < nfresh; i++) {
		if (v->fresh->v[i].table_id != w->table_id || strcmp(v->fresh->v[i].name, name) != 0) continue;
		w->existing = v->fresh->v[i].id;
		w->existing_state = RUN_COPYING;
		return;
	}
}

/* A table named twice is one run. */
static bool is_wanted(const struct resolved *out, uint32_t table_id)
{
	for (size_t i = 0; i < out->nwanted; i++)
		if (out->wanted[i].table_id == table_id) return true;
	return false;
}

static bool take_scope(struct resolver *v, const struct table_record *t, struct wanted_run *w,
					   struct err *err)
{
	const struct request *r = v->request;
	struct schema *s;
	bool found, good;
	if (!store_get_schema(v->txn, t->id, t->schema_version, &s, &found, err)) return false;
	if (!found) return err_set(err, ERR_CORRUPT, "store: table %s has no schema", w->display);
	good = take_bound(v, s, &r->from, "\"from\"", &w->from, err) &&
		   take_bound(v, s, &r->to, "\"to\"", &w->to, err) && check_order(s, r, err) &&
		   take_listed(v, s, w, err);
	schema_free(s);
	return good || err_wrap(err, "table %s", w->display);
}

static bool want(struct resolver *v, const struct request_table *named, struct err *err)
{
	const struct request *r = v->request;
	const struct table_record *t;
	if (!take_table(v, named->name, &t, err)) return false;
	if (is_wanted(v->out, t->id)) return true;
	struct wanted_run *w = &v->out->wanted[v->out->nwanted++];
	*w = (struct wanted_run){.table_id = t->id,
							 .display = display(v, t),
							 .where_sql = named->where,
							 .sweep = r->has_sweep ? r->sweep : SWEEP_ON};
	if (r->nkeys > 0) w->sweep = SWEEP_OFF;
	find_named(v, w);
	return take_scope(v, t, w, err);
}

static bool resolve_start(struct resolver *v, struct err *err)
{
	const struct request *r = v->request;
	v->out->wanted = arena_alloc(&v->out->arena, r->ntables * sizeof *v->out->wanted);
	for (size_t i = 0; i < r->ntables; i++)
		if (!want(v, &r->tables[i], err)) return false;
	return true;
}

/* ---- runs that there are ---- */

/* The copy of a table that nobody asked for is not anybody's to end: the table would not become live. */
static bool may_stop(const struct run_record *r)
{
	return r->kind == RUN_REQUESTED || r->kind == RUN_RESNAPSHOT;
}

static bool is_meant(const struct resolver *v, const struct run_record *r)
{
	return run_record_is_open(r) && (v->request->verb != REQUEST_STOP || may_stop(r));
}

static const struct table_record *table_of(const struct resolver *v, uint32_t id)
{
	for (size_t i = 0; i < v->ntables; i++)
		if (v->tables[i].id == id) return &v->tables[i];
	return NULL;
}

static void find(struct resolver *v, uint64_t id, uint32_t table_id, uint8_t state, uint8_t resumes_as)
{
	const struct table_record *t = table_of(v, table_id);
	for (size_t i = 0; i < v->out->nfound; i++)
		if (v->out->found[i].id == id) return;
	v->out->found[v->out->nfound++] =
		(struct found_run){.id = id,
						   .table_id = table_id,
						   .display = t != NULL ? display(v, t) : "a table that is gone",
						   .state = state,
						   .resumes_as = resumes_as};
}

static void find_record(struct resolver *v, const struct run_record *r)
{
	find(v, r->id, r->table_id, r->state, r->resumes_as);
}

static bool parse_number(const char *text, uint64_t *out)
{
	char *end;
	*out = strtoull(text, &end, 10);
	return text[0] >= '0' && text[0] <= '9' && *end == '\0';
}

static const char *state_word(const struct run_record *r)
{
	switch (r->state) {
	case RUN_DONE: return "is done";
	case RUN_FAILED: return "has failed";
	case RUN_STOPPED: return "was stopped";
	default: return "is open";
	}
}

static bool refuse_run(const struct run_record *r, const char *text, struct err *err)
{
	if (!run_record_is_open(r)) return err_set(err, ERR_CONFIG, "run %s %s already", text, state_word(r));
	return err_set(err, ERR_CONFIG,
				   "run %s brings the table into the store (\"%s\"): it can be paused, but not stopped", text,
				   r->requester);
}

/* True: some run goes by that text, and *last is the one that stands in the way if none is meant. */
static bool match_runs(struct resolver *v, const char *text, const struct run_record **last)
{
	uint64_t number;
	bool is_number = parse_number(text, &number);
	*last = NULL;
	for (size_t i = 0; i < v->nruns; i++) {
		const struct run_record *r = &v->runs[i];
		if (is_number ? r->id != number : strcmp(r->name, text) != 0) continue;
		*last = r;
		if (is_meant(v, r)) find_record(v, r);
	}
	return *last != NULL;
}

static bool match_fresh(struct resolver *v, const char *text, uint32_t table_id)
{
	uint64_t number;
	bool is_number = text != NULL && parse_number(text, &number), matched = false;
	for (size_t i = 0; v->fresh != NULL && i < v->fresh->n; i++) {
		const struct fresh_run *f = &v->fresh->v[i];
		if (text == NULL ? table_id != 0 && f->table_id != table_id
						 : (is_number ? f->id != number : strcmp(f->name, text) != 0))
			continue;
		matched = true;
		find(v, f->id, f->table_id, RUN_COPYING, 0);
	}
	return matched;
}

/* Of a table, or of all (0). */
static void match_table(struct resolver *v, uint32_t table_id)
{
	for (size_t i = 0; i < v->nruns; i++)
		if ((table_id == 0 || v->runs[i].table_id == table_id) && is_meant(v, &v->runs[i]))
			find_record(v, &v->runs[i]);
	match_fresh(v, NULL, table_id);
}

static bool find_by_table(struct resolver *v, const char *text, struct err *err)
{
	size_t before = v->out->nfound;
	const struct table_record *t;
	struct err why;
	if (!take_table(v, text, &t, &why))
		return err_set(err, ERR_CONFIG, "there is no run %.200s, and no table: %s", text, why.msg);
	match_table(v, t->id);
	return v->out->nfound > before || err_set(err, ERR_CONFIG, "table %.200s has no open run to %s", text,
											  request_verb_name(v->request->verb));
}

static bool find_target(struct resolver *v, const char *text, struct err *err)
{
	size_t before = v->out->nfound;
	const struct run_record *last;
	bool known = match_runs(v, text, &last), fresh = match_fresh(v, text, 0);
	if (v->out->nfound > before || fresh) return true;
	if (known) return refuse_run(last, text, err);
	uint64_t number;
	if (parse_number(text, &number)) return err_set(err, ERR_CONFIG, "there is no run %s", text);
	return find_by_table(v, text, err);
}

static bool resolve_targets(struct resolver *v, struct err *err)
{
	const struct request *r = v->request;
	size_t nfresh = v->fresh != NULL ? v->fresh->n : 0;
	v->out->found = arena_alloc(&v->out->arena, (v->nruns + nfresh + 1) * sizeof *v->out->found);
	if (r->all) match_table(v, 0);
	for (size_t i = 0; i < r->ntargets; i++)
		if (!find_target(v, r->targets[i], err)) return false;
	return true;
}

/* ---- the whole ---- */

static uint64_t next_run_id(const struct resolver *v)
{
	uint64_t next = 1;
	for (size_t i = 0; i < v->nruns; i++)
		if (v->runs[i].id >= next) next = v->runs[i].id + 1;
	for (size_t i = 0; v->fresh != NULL && i < v->fresh->n; i++)
		if (v->fresh->v[i].id >= next) next = v->fresh->v[i].id + 1;
	return next;
}

static void release(struct resolver *v)
{
	for (size_t i = 0; i < v->ntables; i++)
		table_record_free(&v->tables[i]);
	for (size_t i = 0; i < v->nruns; i++)
		run_record_free(&v->runs[i]);
	free(v->tables);
	free(v->runs);
}

bool resolve(struct store_txn *t, const struct request *r, const struct fresh_runs *fresh,
			 struct resolved *out, struct err *err)
{
	struct resolver v = {.txn = t, .request = r, .fresh = fresh, .out = out};
	*out = (struct resolved){.nwanted = 0};
	arena_init(&out->arena);
	bool good = store_list_tables(t, &v.tables, &v.ntables, err) &&
				store_list_runs(t, &v.runs, &v.nruns, err) &&
				(r->verb == REQUEST_START ? resolve_start(&v, err) : resolve_targets(&v, err));
	if (good) out->next_run_id = next_run_id(&v);
	release(&v);
	if (!good) resolved_finish(out);
	return good;
}

struct run_request resolved_run(const struct request *r, const struct wanted_run *w)
{
	return (struct run_request){.table_id = w->table_id,
								.name = r->id != NULL ? r->id : "",
								.requester = r->requester != NULL ? r->requester : "",
								.sweep = w->sweep,
								.where_sql = w->where_sql,
								.from = w->from,
								.to = w->to,
								.keys = w->keys,
								.listed = w->listed,
								.chunk_time_ms = r->chunk_time_ms,
								.rows_per_second = r->rows_per_second};
}

void resolved_finish(struct resolved *r)
{
	arena_finish(&r->arena);
	*r = (struct resolved){.nwanted = 0};
}
