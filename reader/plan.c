#include "reader/plan.h"

#include <stdlib.h>
#include <string.h>

#include "reader/log.h"
#include "reader/loop.h"
#include "reader/shape.h"

struct planner {
	const struct stored *stored;
	const struct attachment *a;
	struct changes *changes;
	struct plan *out;
	uint32_t next_id;
	bool always;
};

static size_t find_stored(const struct stored *s, uint32_t oid)
{
	size_t i = 0;
	/* A table that was left and came back under a new id has two records: the one in use counts. */
	for (; i < s->ntables; i++)
		if (s->tables[i].oid == oid && s->tables[i].state != TABLE_LEFT) return i;
	for (i = s->ntables; i-- > 0;)
		if (s->tables[i].oid == oid) return i;
	return s->ntables;
}

static void add_run(struct planner *p, uint32_t table_id, enum run_kind kind, bool sweep, const char *gate,
					const char *requester)
{
	p->out->runs[p->out->nruns++] =
		(struct planned_run){table_id,  kind,
							 sweep,     gate != NULL ? gate : "",
							 requester, kind == RUN_INITIAL && !sweep ? LSN(0) : p->a->tables.read_at};
}

/* mark: NULL, or what stands before its shape. */
static void put_table(struct planner *p, const struct source_table *t, uint32_t id, enum table_state state,
					  const struct schema *schema, const struct shape_mark *mark)
{
	char *marked = mark != NULL ? shape_put_mark(t->shape, mark) : NULL;
	struct table_record r = {.id = id,
							 .oid = t->oid,
							 .schema_name = t->schema_name,
							 .table_name = t->table_name,
							 .shape = marked != NULL ? marked : t->shape,
							 .state = (uint8_t)state,
							 .schema_version = schema->version};
	batch_add_table(p->out->batch, &r);
	changes_add_table(p->changes, &r, schema, p->a->tables.read_at);
	if (mark != NULL) changes_columns_added(p->changes, id, mark->first, mark->null);
	free(marked);
}

static struct schema *with_version(const struct schema *s, uint32_t table_id, uint32_t version)
{
	struct schema *out = schema_copy(s);
	out->table_id = table_id;
	out->version = version;
	return out;
}

static void plan_new(struct planner *p, const struct source_table *t, struct planned_table *pt)
{
	uint32_t id = p->next_id++;
	struct schema *schema = with_version(t->schema, id, 1);
	put_table(p, t, id, TABLE_COPYING, schema, NULL);
	batch_add_schema(p->out->batch, schema);
	schema_free(schema);
	if (!p->stored->fresh) changes_covered(p->changes, id, p->a->tables.read_at, true);
	*pt = (struct planned_table){.table_id = id, .source = t};
	/* An empty table of the store has nothing to sweep. */
	add_run(p, id, RUN_INITIAL, false, p->stored->fresh ? p->a->gate : p->a->added_gate, "run");
}

static void stop_run(struct planner *p, const struct run_record *r, const char *why)
{
	batch_add_run_end(p->out->batch, r->table_id, r->id, RUN_STOPPED, clock_now_us(), why);
}

/* Its key is another, so no entry of the store can be compared with its rows: start a new generation. */
static void leave(struct planner *p, const struct table_record *r)
{
	struct table_record left = *r;
	left.state = TABLE_LEFT;
	batch_add_table(p->out->batch, &left);
	for (size_t i = 0; i < p->stored->nruns; i++)
		if (p->stored->runs[i].table_id == r->id && run_record_is_open(&p->stored->runs[i]))
			stop_run(p, &p->stored->runs[i], "the table is no longer replicated under that key");
}

static void plan_known(struct planner *p, const struct source_table *t, size_t i, enum alteration what,
					   bool added, struct planned_table *pt)
{
	const struct table_record *r = &p->stored->tables[i];
	const struct schema *had = p->stored->schemas[i];
	const struct run_record *open = stored_open_run(p->stored, r->id);
	struct schema *schema = with_version(t->schema, r->id, r->schema_version);
	enum shape_change change = shape_compare(r->shape, t->shape);
	size_t before = p->out->nruns;
	bool reshaped = !schema_same(schema, had);
	bool altered = alteration_needs_rows(p->stored, i, t, what, p->a->on_schema_change);
	bool back = r->state == TABLE_LEFT || added || change == SHAPE_REPUBLISHED || change == SHAPE_PARTS;
	enum table_state state = altered || back ? TABLE_COPYING : (enum table_state)r->state;

	struct shape_mark mark;
	bool marked =
		!altered && !back && alteration_mark(p->stored, i, &p->a->tables, t, what, p->a->start, &mark);

	schema->version += reshaped;
	put_table(p, t, r->id, state, schema, marked ? &mark : NULL);
	if (reshaped) batch_add_schema(p->out->batch, schema);
	schema_free(schema);
	/* What somebody asked for goes on behind the new one. */
	if ((altered || back) && open != NULL) stop_run(p, open, "another run takes its place");
	*pt = (struct planned_table){.table_id = r->id, .source = t, .copied = state == TABLE_COPIED};
	if (altered)
		add_run(p, r->id, RUN_SCHEMA, true, p->a->added_gate, "schema change");
	else if (back)
		add_run(p, r->id, RUN_RESYNC, true, p->a->added_gate,
				change == SHAPE_PARTS ? "partitions changed" : "table is back");
	else if (open != NULL)
		pt->resume = open;
	else if (state == TABLE_COPYING)
		add_run(p, r->id, RUN_INITIAL, true, p->a->added_gate, "run");
	else if (p->always)
		add_run(p, r->id, RUN_RESNAPSHOT, true, "", "--snapshot always");
	/* A run that is new replaces all there is as of the look at the catalog. */
	if (pt->resume != NULL)
		changes_covered(p->changes, r->id, open->accepted.lsn, false);
	else if (p->out->nruns > before)
		changes_covered(p->changes, r->id, p->a->tables.read_at, false);
}

static void plan_table(struct planner *p, const struct source_table *t, bool added)
{
	size_t i = find_stored(p->stored, t->oid);
	struct planned_table *pt = &p->out->tables[p->out->ntables++];
	if (i == p->stored->ntables) {
		plan_new(p, t, pt);
		return;
	}
	enum alteration what = alteration_find(p->stored, i, t);
	if (what == ALTERATION_KEY) {
		log_warn("key has changed; copying the table anew", KV_S("table", t->display), KV_END);
		leave(p, &p->stored->tables[i]);
		plan_new(p, t, pt);
	} else {
		plan_known(p, t, i, what, added, pt);
	}
}

static const struct source_table *find_usable(const struct source_tables *t, uint32_t oid)
{
	const struct source_table *found = source_tables_find(t, oid);
	return found != NULL && source_table_is_used(found) ? found : NULL;
}

void plan_make(const struct stored *stored, const struct attachment *a, const struct lineage *lineage,
			   uint16_t epoch, bool always, struct changes *changes, struct plan *out)
{
	struct planner p = {.stored = stored,
						.a = a,
						.changes = changes,
						.out = out,
						.next_id = stored_next_table_id(stored),
						.always = always};
	*out = (struct plan){.batch = batch_create()};
	out->tables = calloc(a->tables.n + 1, sizeof *out->tables);
	out->runs = calloc(a->tables.n + 1, sizeof *out->runs);
	if (out->tables == NULL || out->runs == NULL) abort();
	/* First the checkpoint: what follows is as of it. Nothing streamed is below a fresh one. */
	struct op *op = batch_add(out->batch, OP_POSITION);
	op->pos.epoch = epoch;
	op->u.commit.lsn = a->start;
	batch_add_lineage(out->batch, lineage);
	for (size_t i = 0; i < stored->ntables; i++) {
		if (stored->tables[i].state == TABLE_LEFT || find_usable(&a->tables, stored->tables[i].oid) != NULL)
			continue;
		log_warn("table is no longer replicated; its rows stay as they were",
				 KV_S("schema", stored->tables[i].schema_name), KV_S("table", stored->tables[i].table_name),
				 KV_END);
		leave(&p, &stored->tables[i]);
	}
	for (size_t i = 0; i < a->tables.n; i++)
		if (source_table_is_used(&a->tables.v[i])) plan_table(&p, &a->tables.v[i], a->added[i]);
}

void plan_finish(struct plan *p)
{
	batch_destroy(p->batch);
	free(p->tables);
	free(p->runs);
	*p = (struct plan){.batch = NULL};
}
