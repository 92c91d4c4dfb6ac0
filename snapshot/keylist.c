#include "snapshot/keylist.h"

#include <stdlib.h>

#include "snapshot/chunk_sql.h"

static struct slice keep(struct arena *arena, struct slice s)
{
	return (struct slice){arena_copy(arena, s.p, s.n), s.n};
}

static const struct slice *keep_texts(struct arena *arena, const struct slice *texts, size_t n)
{
	struct slice *copy = arena_alloc(arena, n * sizeof *copy);

	for (size_t i = 0; i < n; i++)
		copy[i] = texts[i].p ? keep(arena, texts[i]) : (struct slice){0};
	return copy;
}

/*
 * What a long key was made from. The stored key may stem from a schema under
 * which the texts were encoded otherwise: then its full encoding is not known
 * here and the result is empty.
 */
static struct slice full_of(struct keylist *l, const struct answer_key *a, const struct schema *s)
{
	enum key_kind kinds[KEY_COLUMNS_MAX];
	struct slice texts[KEY_COLUMNS_MAX];
	uint8_t stored[KEY_MAX];
	struct buf full = {0};
	struct slice result = {0};
	struct err ignored;
	size_t n;

	schema_key_kinds(s, kinds);
	for (size_t i = 0; i < s->nkeys; i++)
		texts[i] = a->texts[l->whole ? s->key_columns[i] : i];
	if (key_encode_prefix(kinds, s->nkeys, texts, s->nkeys, &full, &ignored)) {
		struct slice whole = {full.p, full.n};

		n = key_store(whole, stored, NULL);
		if (slice_eq((struct slice){stored, n}, a->key)) result = keep(&l->arena, whole);
	}
	buf_finish(&full);
	return result;
}

static void add(struct keylist *l, const struct answer_key *a, const struct schema *s)
{
	struct keylist_key *k = &l->keys[l->n], *other;

	*k = (struct keylist_key){.key = keep(&l->arena, a->key)};
	k->texts = keep_texts(&l->arena, a->texts, l->whole ? s->ncolumns : s->nkeys);
	if (k->key.n == KEY_MAX) {
		k->full = full_of(l, a, s);
		if (k->full.n == 0) return;
	}
	HASH_FIND(hh, l->by_key, k->key.p, k->key.n, other);
	if (other) return;
	HASH_ADD_KEYPTR(hh, l->by_key, k->key.p, k->key.n, k);
	l->n++;
}

struct keylist *keylist_create(const struct answer *a, const struct schema *s, bool whole)
{
	struct keylist *l = mem_alloc(sizeof *l);

	*l = (struct keylist){.end = a->end, .whole = whole};
	arena_init(&l->arena);
	l->resume = keep(&l->arena, a->resume);
	l->keys = arena_alloc(&l->arena, a->nkeys * sizeof *l->keys);
	for (size_t i = 0; i < a->nkeys; i++)
		add(l, &a->keys[i], s);
	return l;
}

void keylist_destroy(struct keylist *l)
{
	if (!l) return;
	HASH_CLEAR(hh, l->by_key);
	arena_finish(&l->arena);
	free(l);
}

bool keylist_mark(struct keylist *l, struct slice key)
{
	struct keylist_key *k;

	HASH_FIND(hh, l->by_key, key.p, key.n, k);
	if (k) k->returned = true;
	return k != NULL;
}

const char *const *keylist_params(const struct keylist *l, size_t ncolumns, struct arena *arena)
{
	const char **params = arena_alloc(arena, ncolumns * sizeof *params);
	struct slice *column = mem_alloc(l->n * sizeof *column);

	for (size_t c = 0; c < ncolumns; c++) {
		for (size_t i = 0; i < l->n; i++)
			column[i] = l->keys[i].texts[c];
		params[c] = chunk_sql_array(arena, column, l->n);
	}
	free(column);
	return params;
}
