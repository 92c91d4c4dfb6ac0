#include "snapshot/request.h"

#include <stdio.h>
#include <stdlib.h>

#include "snapshot/chunk_sql.h"

static struct request *create(enum chunk_kind kind, struct table *t, uint64_t run_id)
{
	struct request *r = mem_alloc(sizeof *r);
	uint32_t table_id = t ? t->id : 0;

	*r = (struct request){.table = t, .fate = REQUEST_WANTED};
	arena_init(&r->arena);
	r->window = window_create(kind, table_id, run_id);
	r->pub.kind = kind;
	r->pub.table_id = table_id;
	r->pub.run_id = run_id;
	return r;
}

struct request *request_probe(void)
{
	return create(CHUNK_PROBE, NULL, 0);
}

/* Unique to the text, and below the server's 63 bytes. */
static void set_text(struct request *r, const char *what, const char *select_sql)
{
	char name[64];

	snprintf(name, sizeof name, "p%u.%llu.%s", r->table->id, (unsigned long long)r->table->text_id, what);
	r->pub.statement = arena_strdup(&r->arena, name);
	r->pub.lock_sql = chunk_sql_lock(&r->arena, r->table->from_sql);
	r->pub.select_sql = select_sql;
}

/* The server wants C strings: a text that is the store's or the server's own has no NUL inside. */
static const char *terminated(struct arena *a, struct slice s)
{
	char *text = arena_alloc(a, s.n + 1);

	if (s.n > 0) memcpy(text, s.p, s.n);
	text[s.n] = '\0';
	return text;
}

static void set_page_params(struct request *r, const struct slice *after, size_t n)
{
	const char **params = arena_alloc(&r->arena, (n + 1) * sizeof *params);
	char limit[16];

	for (size_t i = 0; i < n; i++)
		params[i] = terminated(&r->arena, after[i]);
	snprintf(limit, sizeof limit, "%u", r->limit);
	params[n] = arena_strdup(&r->arena, limit);
	r->pub.params = params;
	r->pub.nparams = (int)n + 1;
}

/* SQL that holds what someone gave belongs to one run. */
static const char *text_name(struct request *r, const struct run *run, const char *what)
{
	char name[48];

	if (!scope_has_text(&run->scope)) return what;
	r->pub.of_user = true;
	snprintf(name, sizeof name, "r%llu.%s", (unsigned long long)run->id, what);
	return arena_strdup(&r->arena, name);
}

static void set_columns(struct request *r, size_t n)
{
	r->pub.ncolumns = n;
	r->cells = arena_alloc(&r->arena, r->table->schema->ncolumns * sizeof *r->cells);
}

struct request *request_page(struct table *t)
{
	const struct schema *s = t->schema;
	struct run *run = t->run;
	struct chunk_source from = table_source(t);
	struct request *r = create(CHUNK_PAGE, t, run->id);
	struct slice after[KEY_COLUMNS_MAX];
	bool first = !run_cursor_texts(run, after, s->nkeys);
	const char *condition = scope_sql_condition(&r->arena, &run->scope, &from);

	if (condition) from.filter_sql = condition;
	r->limit = t->page_pace.rows < run_rows_max(run) ? t->page_pace.rows : run_rows_max(run);
	set_columns(r, s->ncolumns);
	buf_put(&r->cursor, run->received.p, first ? 0 : run->received.n);
	set_text(r, text_name(r, run, first ? "first" : "page"), chunk_sql_page(&r->arena, &from, first));
	set_page_params(r, after, first ? 0 : s->nkeys);
	run->asked = true;
	return r;
}

static void set_keys(struct request *r, struct keylist *keys)
{
	const struct schema *s = r->table->schema;
	size_t n = keys->whole ? s->ncolumns : s->nkeys;

	r->keys = keys;
	r->pub.params = keylist_params(keys, n, &r->arena);
	r->pub.nparams = (int)n;
}

static struct request *request_keys(struct table *t, enum chunk_kind kind, uint64_t run_id,
									struct keylist *keys)
{
	const struct schema *s = t->schema;
	struct chunk_source from = table_source(t);
	struct request *r = create(kind, t, run_id);
	bool whole = kind == CHUNK_KEYED;

	set_columns(r, whole ? s->ncolumns : s->nkeys);
	set_text(r, whole ? "keyed" : "exists", chunk_sql_keys(&r->arena, &from, whole));
	set_keys(r, keys);
	return r;
}

struct request *request_doubt(struct table *t, struct keylist *keys)
{
	struct request *r = request_keys(t, CHUNK_KEYED, 0, keys);

	if (t->run) r->window->counted_by = t->run->id;
	return r;
}

struct request *request_listed(struct table *t, struct keylist *keys)
{
	struct request *r = request_keys(t, CHUNK_KEYED, t->run->id, keys);

	r->pub.of_user = true;
	return r;
}

/* Whether a stored row is in the scope only the server can tell; and if it is, what it has become. */
static struct request *request_scoped(struct table *t, struct keylist *keys)
{
	const struct schema *s = t->schema;
	struct run *run = t->run;
	struct chunk_source from = table_source(t);
	struct request *r = create(CHUNK_SCOPED, t, run->id);
	bool whole = run->sweep == SWEEP_ON;

	set_columns(r, 1u + (whole ? s->ncolumns : s->nkeys));
	set_text(r, text_name(r, run, "scoped"), scope_sql_suspects(&r->arena, &run->scope, &from, whole));
	set_keys(r, keys);
	return r;
}

struct request *request_suspects(struct table *t, struct keylist *keys)
{
	struct run *run = t->run;
	struct request *r =
		scope_has_text(&run->scope) ? request_scoped(t, keys) : request_keys(t, CHUNK_EXISTS, run->id, keys);

	r->window->counts_only = run->sweep == SWEEP_COUNT;
	return r;
}

struct request *request_check(struct table *t)
{
	struct run *run = t->run;
	struct chunk_source from = table_source(t);
	struct request *r = create(CHUNK_CHECK, t, run->id);

	r->pub.ncolumns = 1;
	set_text(r, text_name(r, run, "check"), scope_sql_check(&r->arena, &run->scope, &from));
	run->check = CHECK_ASKED;
	return r;
}

void request_drop(struct request *r, enum request_fate fate)
{
	window_destroy(r->window);
	r->window = NULL;
	r->fate = fate;
	if (fate == REQUEST_DROPPED) r->table = NULL;
}

void request_destroy(struct request *r)
{
	if (!r) return;
	window_destroy(r->window);
	keylist_destroy(r->keys);
	buf_finish(&r->row);
	buf_finish(&r->full_key);
	buf_finish(&r->cursor);
	arena_finish(&r->arena);
	free(r);
}
