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

static struct chunk_source source_of(const struct table *t)
{
	return (struct chunk_source){t->schema, t->operands, t->from_sql, t->filter_sql};
}

struct request *request_page(struct table *t)
{
	const struct schema *s = t->schema;
	struct chunk_source from = source_of(t);
	struct request *r = create(CHUNK_PAGE, t, t->run->id);
	struct slice after[KEY_COLUMNS_MAX];
	bool first = !run_cursor_texts(t->run, after, s->nkeys);

	r->limit = t->page_pace.rows;
	r->pub.ncolumns = s->ncolumns;
	r->cells = arena_alloc(&r->arena, s->ncolumns * sizeof *r->cells);
	buf_put(&r->cursor, t->run->received.p, first ? 0 : t->run->received.n);
	set_text(r, first ? "first" : "page", chunk_sql_page(&r->arena, &from, first));
	set_page_params(r, after, first ? 0 : s->nkeys);
	return r;
}

struct request *request_keys(struct table *t, enum chunk_kind kind, uint64_t run_id, struct keylist *keys)
{
	const struct schema *s = t->schema;
	struct chunk_source from = source_of(t);
	struct request *r = create(kind, t, run_id);
	bool whole = kind == CHUNK_KEYED;

	r->keys = keys;
	r->pub.ncolumns = whole ? s->ncolumns : s->nkeys;
	r->cells = arena_alloc(&r->arena, s->ncolumns * sizeof *r->cells);
	set_text(r, whole ? "keyed" : "exists", chunk_sql_keys(&r->arena, &from, whole));
	r->pub.params = keylist_params(keys, s->nkeys, &r->arena);
	r->pub.nparams = s->nkeys;
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
