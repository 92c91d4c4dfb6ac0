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

void table_destroy(struct table *t)
{
	if (!t) return;
	run_destroy(t->run);
	inquiry_finish(&t->doubt.keys);
	schema_free(t->schema);
	free(t->from_sql);
	free(t->filter_sql);
	free(t->operands);
	free(t);
}

static char *copy_text(const char *s)
{
	return s ? memcpy(mem_alloc(strlen(s) + 1), s, strlen(s) + 1) : NULL;
}

static bool same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool same_key(const struct schema *a, const struct schema *b)
{
	if (a->nkeys != b->nkeys) return false;
	for (size_t i = 0; i < a->nkeys; i++) {
		const struct column *x = &a->columns[a->key_columns[i]], *y = &b->columns[b->key_columns[i]];

		if (x->type_oid != y->type_oid || strcmp(x->name, y->name) != 0) return false;
	}
	return true;
}

static enum table_change compare(const struct table *t, const struct copier_table *d)
{
	if (t->schema && !same_key(t->schema, d->schema)) return TABLE_OTHER_KEY;
	if (!t->schema || t->schema->version != d->schema->version || !same_text(t->from_sql, d->from_sql) ||
		!same_text(t->filter_sql, d->filter_sql) ||
		!operands_same(t->operands, d->operands, d->schema->nkeys))
		return TABLE_OTHER_TEXT;
	return TABLE_SAME;
}

enum table_change table_describe(struct table *t, const struct copier_table *d, uint64_t text_id)
{
	enum table_change change = compare(t, d);

	assert(d->schema->nkeys >= 1 && d->schema->nkeys <= KEY_COLUMNS_MAX);
	t->copied = d->copied;
	if (change == TABLE_SAME) return change;
	schema_free(t->schema);
	free(t->from_sql);
	free(t->filter_sql);
	free(t->operands);
	t->schema = schema_copy(d->schema);
	t->from_sql = copy_text(d->from_sql);
	t->filter_sql = copy_text(d->filter_sql);
	t->operands = operands_copy(d->operands, d->schema->nkeys);
	t->text_id = text_id;
	return change;
}

bool table_is_live(const struct table *t)
{
	return t->copied && t->doubt.count == 0;
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
