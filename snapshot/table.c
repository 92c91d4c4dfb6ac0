#include "snapshot/table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define KEYS_MAX 500 /* in one keyed chunk */

#define DOUBT_WAIT_FIRST_US 100000
#define DOUBT_WAIT_MAX_US   2000000
#define RETRY_FIRST_US      100000
#define RETRY_MAX_US        5000000

struct table *table_create(uint32_t id, const struct copier_config *config)
{
	struct table *t = mem_alloc(sizeof *t);
	int64_t target_us = (int64_t)config->chunk_time_ms * 1000;
	uint32_t keys_max = config->chunk_rows_max < KEYS_MAX ? config->chunk_rows_max : KEYS_MAX;

	*t = (struct table){.id = id};
	t->doubt.wait = (struct backoff){.first_us = DOUBT_WAIT_FIRST_US, .max_us = DOUBT_WAIT_MAX_US};
	t->retry = (struct backoff){.first_us = RETRY_FIRST_US, .max_us = RETRY_MAX_US};
	pace_init(&t->page_pace, config->chunk_rows_max, target_us, config->chunk_bytes);
	pace_init(&t->key_pace, keys_max, target_us, config->chunk_bytes);
	return t;
}

static bool same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static void free_texts(char **texts, size_t n)
{
	for (size_t i = 0; texts && i < n; i++)
		free(texts[i]);
	free(texts);
}

/* What table_describe() keeps. */
static void forget_texts(struct table *t)
{
	if (t->schema) free_texts(t->collations, t->schema->ncolumns);
	schema_free(t->schema);
	free(t->from_sql);
	free(t->filter_sql);
	free(t->operands);
}

static struct run *unlink_run(struct table *t, struct run *r)
{
	struct run **at = &t->runs;

	while (*at != r)
		at = &(*at)->next;
	*at = r->next;
	return r;
}

void table_destroy(struct table *t)
{
	if (!t) return;
	while (t->runs)
		run_destroy(unlink_run(t, t->runs));
	inquiry_finish(&t->doubt.keys);
	forget_texts(t);
	free(t);
}

static char **copy_texts(const char *const *texts, size_t n)
{
	char **copy = texts ? mem_alloc(n * sizeof *copy) : NULL;

	for (size_t i = 0; copy && i < n; i++)
		copy[i] = mem_text(texts[i]);
	return copy;
}

static bool same_texts(char *const *a, const char *const *b, size_t n)
{
	if (!a || !b) return !a && !b;
	for (size_t i = 0; i < n; i++)
		if (!same_text(a[i], b[i])) return false;
	return true;
}

static enum table_change compare(const struct table *t, const struct copier_table *d)
{
	if (t->schema && !schema_same_key(t->schema, d->schema)) return TABLE_OTHER_KEY;
	if (!t->schema || t->schema->version != d->schema->version || !same_text(t->from_sql, d->from_sql) ||
		!same_text(t->filter_sql, d->filter_sql) ||
		!operands_same(t->operands, d->operands, d->schema->nkeys) ||
		!same_texts(t->collations, d->collations, d->schema->ncolumns))
		return TABLE_OTHER_TEXT;
	return TABLE_SAME;
}

enum table_change table_describe(struct table *t, const struct copier_table *d, uint64_t text_id)
{
	enum table_change change = compare(t, d);

	assert(d->schema->nkeys >= 1 && d->schema->nkeys <= KEY_COLUMNS_MAX);
	t->copied = d->copied;
	if (change == TABLE_SAME) return change;
	forget_texts(t);
	t->schema = schema_copy(d->schema);
	t->from_sql = mem_text(d->from_sql);
	t->filter_sql = mem_text(d->filter_sql);
	t->operands = operands_copy(d->operands, d->schema->nkeys);
	t->collations = copy_texts(d->collations, d->schema->ncolumns);
	t->text_id = text_id;
	return change;
}

bool table_is_live(const struct table *t)
{
	return t->copied && t->doubt.count == 0;
}

struct chunk_source table_source(const struct table *t)
{
	return (struct chunk_source){.schema = t->schema,
								 .operands = t->operands,
								 .from_sql = t->from_sql,
								 .filter_sql = t->filter_sql,
								 .collations = (const char *const *)t->collations};
}

/* ---- runs ---- */

void table_add_run(struct table *t, struct run *r)
{
	struct run **at = &t->runs;

	while (*at && (*at)->id < r->id)
		at = &(*at)->next;
	r->next = *at;
	*at = r;
}

struct run *table_find_run(const struct table *t, uint64_t id)
{
	struct run *r = t->runs;

	while (r && r->id != id)
		r = r->next;
	return r;
}

struct run *table_own_run(const struct table *t)
{
	struct run *r = t->runs;

	while (r && run_is_requested(r))
		r = r->next;
	return r;
}

void table_choose_run(struct table *t)
{
	struct run *own = table_own_run(t);

	t->run = own && own->state != RUN_PAUSED ? own : NULL;
	for (struct run *r = t->runs; r && !t->run; r = r->next)
		if (run_is_requested(r) && r->state != RUN_PAUSED) t->run = r;
}

void table_end_run(struct table *t, struct run *r)
{
	t->last.id = r->id;
	t->last.rows_read = r->rows_read;
	t->last.state = r->state;
	if (t->run == r) t->run = NULL;
	run_destroy(unlink_run(t, r));
}

/*
 * What a gate waits for is in no stream: no chunk of the table, whoever asked for it, may be read before.
 * Rows in doubt wait with the program's own run.
 */
bool table_admits(struct table *t, struct run *r, const struct snap *s, const struct unseen *u, lsn_t high)
{
	struct run *with = r ? r : table_own_run(t);
	bool good = !with || run_admits(with, s, u, high);

	for (struct run *x = t->runs; x; x = x->next)
		if (x != with && !run_covers(x, s)) good = false;
	return good;
}

const struct run *table_gated_run(const struct table *t)
{
	if (run_is_gated(t->run)) return t->run;
	for (const struct run *r = t->runs; r; r = r->next)
		if (run_is_gated(r) && !r->covered && *r->gate_text) return r;
	return NULL;
}

void table_doubt_is(struct table *t, uint64_t count, int64_t now_us)
{
	struct doubt *d = &t->doubt;

	if (d->count == 0 || count < d->count) {
		d->due_us = now_us;
		backoff_reset(&d->wait);
	}
	d->count = count;
}

void table_doubt_asked(struct table *t, struct slice resume, bool end, int64_t now_us)
{
	struct doubt *d = &t->doubt;

	inquiry_advance(&d->keys, end ? (struct slice){0} : resume);
	d->due_us = now_us + backoff_next(&d->wait);
}
