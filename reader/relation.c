#include "reader/relation.h"

#include <stdlib.h>
#include <string.h>

#include "state/row.h"

void relation_finish(struct relation *r)
{
	free(r->display);
	schema_free(r->schema);
	free(r->wire_of);
	*r = (struct relation){.oid = 0};
}

void relation_set_schema(struct relation *r, struct schema *schema)
{
	schema_free(r->schema);
	r->schema = schema;
	free(r->wire_of);
	r->wire_of = NULL;
	r->wire_columns = 0;
	r->marked = false;
}

static bool same_column(const struct column *c, const struct pgo_column *w)
{
	return c->type_oid == w->type_oid && c->typmod == w->typmod && strcmp(c->name, w->name) == 0;
}

bool relation_wire_is_schema(const struct relation *r, const struct pgo_msg *m)
{
	if (m->u.relation.n != r->schema->ncolumns) return false;
	for (uint16_t i = 0; i < r->schema->ncolumns; i++)
		if (!same_column(&r->schema->columns[i], &m->u.relation.columns[i])) return false;
	return true;
}

bool relation_wire_has_key(const struct relation *r, const struct pgo_msg *m)
{
	uint16_t found = 0;
	for (uint16_t k = 0; k < r->schema->nkeys; k++)
		for (int i = 0; i < m->u.relation.n; i++)
			found += m->u.relation.columns[i].key &&
					 strcmp(m->u.relation.columns[i].name,
							r->schema->columns[r->schema->key_columns[k]].name) == 0;
	return m->u.relation.identity == 'f' || found >= r->schema->nkeys;
}

static int find_wire(const struct pgo_msg *m, const char *name)
{
	for (int i = 0; i < m->u.relation.n; i++)
		if (strcmp(m->u.relation.columns[i].name, name) == 0) return i;
	return -1;
}

void relation_set_wire(struct relation *r, const struct pgo_msg *m)
{
	const struct schema *s = r->schema;
	free(r->wire_of);
	r->wire_of = mem_alloc((size_t)s->ncolumns * sizeof *r->wire_of);
	r->wire_columns = m->u.relation.n;
	r->unmapped = false;
	r->keyless = !relation_wire_has_key(r, m);
	r->wire_is_prefix = m->u.relation.n <= s->ncolumns;
	for (uint16_t i = 0; i < s->ncolumns; i++) {
		int w = find_wire(m, s->columns[i].name);
		bool same = w >= 0 && m->u.relation.columns[w].type_oid == s->columns[i].type_oid;
		r->wire_of[i] = (int16_t)(same ? w : -1);
		r->wire_is_prefix &= i >= m->u.relation.n || same_column(&s->columns[i], &m->u.relation.columns[i]);
	}
	for (uint16_t k = 0; k < s->nkeys; k++)
		r->unmapped |= r->wire_of[s->key_columns[k]] < 0;
}

/* ---- tuples ---- */

static const struct pgo_cell *cell_at(const struct pgo_tuple *t, int wire)
{
	return t != NULL && wire >= 0 && wire < t->n ? &t->cells[wire] : NULL;
}

static bool check_width(const struct relation *r, const struct pgo_tuple *t, struct err *err)
{
	if (r->wire_columns == 0)
		return err_set(err, ERR_PROTOCOL, "table %s: a change came before its Relation message", r->display);
	if (t->n != r->wire_columns)
		return err_set(err, ERR_PROTOCOL, "table %s: a tuple of %u columns where %u were described",
					   r->display, t->n, r->wire_columns);
	return true;
}

bool relation_key(const struct relation *r, const struct pgo_tuple *tuple, const struct pgo_tuple *other,
				  struct encoded_key *out, struct err *err)
{
	const struct schema *s = r->schema;
	enum key_kind kinds[KEY_COLUMNS_MAX];
	struct slice texts[KEY_COLUMNS_MAX];
	if (!check_width(r, tuple, err)) return false;
	for (uint16_t k = 0; k < s->nkeys; k++) {
		int wire = r->wire_of[s->key_columns[k]];
		const struct pgo_cell *c = cell_at(tuple, wire);
		if (c->kind == 'u' && cell_at(other, wire) != NULL) c = cell_at(other, wire);
		if (c->kind != 't')
			return err_set(err, ERR_RETRY, "table %s: a change without its key column %s", r->display,
						   s->columns[s->key_columns[k]].name);
		kinds[k] = s->key_kinds[k];
		texts[k] = c->text;
	}
	buf_reset(&out->full);
	if (!key_encode(kinds, texts, s->nkeys, out->bytes, &out->n, &out->full, &out->is_long, err))
		return err_wrap(err, "table %s", r->display);
	return true;
}

/*
 * A value that is unchanged because it is stored apart is never NULL: NULL in the old tuple says that it was
 * not sent. An 'O' tuple may lack values, too: of a partition whose own replica identity has only the key.
 */
static struct cell to_cell(const struct pgo_cell *c, const struct pgo_cell *old)
{
	if (c != NULL && c->kind == 'u' && old != NULL && old->kind == 't') c = old;
	if (c == NULL || c->kind == 'u') return (struct cell){.kind = CELL_ABSENT, .doubt = true};
	if (c->kind == 'n') return (struct cell){.kind = CELL_NULL};
	return (struct cell){.kind = CELL_TEXT, .text = c->text};
}

bool relation_is_current(const struct relation *r)
{
	bool whole = r->wire_columns == r->schema->ncolumns;
	return (r->wire_is_prefix && whole) || (r->marked && (r->wire_is_prefix || !r->added_null));
}

bool relation_is_blind(const struct relation *r)
{
	return r->older && r->marked && !r->added_null;
}

/* What an older row has of a column that was added since. */
static struct cell added_cell(const struct relation *r, const struct pgo_cell *c, const struct pgo_cell *old)
{
	if (relation_is_blind(r)) return (struct cell){.kind = CELL_ABSENT, .doubt = true};
	return c == NULL ? (struct cell){.kind = CELL_NULL} : to_cell(c, old);
}

bool relation_row(const struct relation *r, const struct pgo_tuple *tuple, const struct pgo_tuple *old,
				  struct pos pos, xid_t born, const struct encoded_key *key, struct buf *out, bool *partial,
				  struct err *err)
{
	struct cell cells[PGO_COLUMNS_MAX];
	const struct schema *s = r->schema;
	*partial = false;
	if (!check_width(r, tuple, err) || (old != NULL && !check_width(r, old, err))) return false;
	for (uint16_t i = 0; i < s->ncolumns; i++) {
		int wire = r->wire_of[i];
		const struct pgo_cell *c = cell_at(tuple, wire), *o = cell_at(old, wire);
		cells[i] = r->older && r->marked && i >= r->added ? added_cell(r, c, o) : to_cell(c, o);
		*partial |= cells[i].kind == CELL_ABSENT;
	}
	struct slice full = key->is_long ? (struct slice){key->full.p, key->full.n} : (struct slice){NULL, 0};
	row_encode(out, pos, s->version, born, full, cells, s->ncolumns);
	return true;
}
