#include "apply/applier_impl.h"
#include "state/mutant.h"

/*
 * Completing a row that the log sent without some of its values.
 *
 * A missing value is unchanged, so it is that of the row under src_key, if the
 * store has it and it can be trusted: while a run over the table is open, a row
 * from before the run is what the run replaces. A value taken from such a row,
 * or from whatever else was visible under the key, is shown but stays in
 * doubt until a keyed chunk has asked the source.
 */

struct origin {
	const struct schema *schema; /* NULL: there is none */
	struct row_head head;
	const struct cell *cells;
	bool certain; /* what it knows holds for the new row */
	bool same_key;
};

int column_in(const struct schema *from, const struct schema *to, size_t i, bool *same_type)
{
	const struct column *c = &to->columns[i];
	int j = from == to ? (int)i : schema_find(from, c->name);

	*same_type = j >= 0 && from->columns[j].type_oid == c->type_oid && from->columns[j].typmod == c->typmod;
	return j;
}

static bool origin_load(struct applier *a, struct table *t, const struct entry *e, struct origin *out,
						struct err *err)
{
	out->schema = row_cells(a, t, e->bytes, &out->head, &a->stored_cells, err);
	out->cells = a->stored_cells.v;
	return out->schema;
}

/* No run is open, or the row is from after the run was accepted. */
static bool is_trusted(const struct table *t, struct pos pos)
{
	return pos_cmp(pos, t->rec.trust) >= 0 || MUTANT(INHERIT_BLIND);
}

/* `old` is what the store has under the operation's own key. */
static bool origin_find(struct applier *a, struct table *t, const struct op *op, const struct entry *old,
						struct pos pos, struct origin *out, struct err *err)
{
	struct entry source = *old;

	*out = (struct origin){.same_key = slice_eq(op->key, op->src_key)};
	if (op->src_key.n > 0) {
		if (!out->same_key && !entry_get_unchecked(a, t, op->src_key, &source, err)) return false;
		out->certain = is_trusted(t, source.pos) && pos_cmp(source.pos, pos) < 0;
		if (entry_is_live(&source)) return origin_load(a, t, &source, out, err);
	}
	/* Nothing to inherit from. A row that is visible under the key stays so with its values. */
	out->certain = false;
	return !entry_is_live(old) || origin_load(a, t, old, out, err);
}

/*
 * The value of column i, which the log left out. True: it is certain, or its
 * doubt is the origin's own; false: a new doubt.
 */
static bool inherit(const struct origin *from, const struct schema *schema, size_t i, struct cell *cell)
{
	bool same_type = false;
	int j = from->schema ? column_in(from->schema, schema, i, &same_type) : -1;

	*cell = j < 0 ? (struct cell){.kind = CELL_ABSENT} : from->cells[j];
	if (j >= 0 && from->certain && same_type) return true;
	cell->doubt = true;
	return false;
}

bool merge_row(struct applier *a, struct table *t, const struct op *op, const struct entry *old,
			   struct err *err)
{
	struct row_head head;
	const struct schema *schema = row_cells(a, t, op_body(op), &head, &a->new_cells, err);
	struct origin from;
	bool old_doubts_only = true;
	xid_t born;

	if (!schema || !origin_find(a, t, op, old, head.pos, &from, err)) return false;
	for (size_t i = 0; i < schema->ncolumns; i++)
		if (a->new_cells.v[i].kind == CELL_ABSENT && !inherit(&from, schema, i, &a->new_cells.v[i]))
			old_doubts_only = false;
	born = old_doubts_only && from.same_key ? from.head.born : head.born;
	buf_reset(&a->row);
	row_encode(&a->row, head.pos, head.version, born, head.full_key, a->new_cells.v, schema->ncolumns);
	return entry_replace(a, t, op->key, old, (struct slice){a->row.p, a->row.n}, err);
}
