#include "snapshot/scope.h"

#include <string.h>

#include "state/key.h"

static void set(struct buf *b, const void *p, size_t n)
{
	buf_reset(b);
	buf_put(b, p, n);
}

void scope_set(struct scope *s, const char *where_sql, struct slice from, struct slice to, uint64_t listed)
{
	size_t n = where_sql ? strlen(where_sql) : 0;

	set(&s->where, where_sql, n > 0 ? n + 1 : 0);
	set(&s->from, from.p, from.n);
	set(&s->to, to.p, to.n);
	s->listed = listed;
}

void scope_finish(struct scope *s)
{
	buf_finish(&s->where);
	buf_finish(&s->from);
	buf_finish(&s->to);
}

bool scope_has_where(const struct scope *s)
{
	return s->where.n > 0;
}

bool scope_has_text(const struct scope *s)
{
	return s->where.n > 0 || s->from.n > 0 || s->to.n > 0;
}

bool scope_is_whole(const struct scope *s)
{
	return !scope_has_text(s) && s->listed == 0;
}

/* ---- bounds as keys of the store ---- */

size_t scope_bound_texts(const struct buf *bound, const struct schema *schema, struct slice *texts)
{
	struct cur c = cur_of((struct slice){bound->p, bound->n});
	size_t n = 0;

	while (n < schema->nkeys && !cur_done(&c)) {
		texts[n] = cur_blob(&c);
		if (c.bad) return 0;
		n++;
	}
	return n;
}

/* A long key's stored form has only its first bytes in order. */
static void encode_bound(const struct buf *bound, const struct schema *schema, struct buf *out)
{
	enum key_kind kinds[KEY_COLUMNS_MAX];
	struct slice texts[KEY_COLUMNS_MAX];
	struct err ignored;
	size_t n = scope_bound_texts(bound, schema, texts);

	schema_key_kinds(schema, kinds);
	if (n == 0 || !key_encode_bound(kinds, schema->nkeys, texts, n, out, &ignored)) buf_reset(out);
	if (out->n > KEY_PREFIX) out->n = KEY_PREFIX;
}

void scope_encode(const struct scope *s, const struct schema *schema, struct buf *low, struct buf *high)
{
	buf_reset(low);
	buf_reset(high);
	for (size_t i = 0; i < schema->nkeys; i++)
		if (!key_kind_is_ordered(schema->key_kinds[i])) return;
	encode_bound(&s->from, schema, low);
	encode_bound(&s->to, schema, high);
}
