#include <stdlib.h>
#include <string.h>

#include "state/tidemark_impl.h"

const char *tidemark_state_name(int state)
{
	switch (state) {
	case TIDEMARK_COPYING: return "copying";
	case TIDEMARK_DOUBT: return "in doubt";
	case TIDEMARK_LIVE: return "live";
	case TIDEMARK_LEFT: return "left";
	default: return "unknown";
	}
}

/* ---- loading ---- */

static int state_of(const struct table_record *r)
{
	if (r->state == TABLE_LEFT) return TIDEMARK_LEFT;
	if (r->state == TABLE_COPYING) return TIDEMARK_COPYING;
	return table_record_is_live(r) ? TIDEMARK_LIVE : TIDEMARK_DOUBT;
}

/* Takes the record. */
static struct tidemark_table *table_new(struct tidemark *tm, const struct table_record *r)
{
	struct tidemark_table *t = mem_alloc(sizeof *t);

	*t = (struct tidemark_table){.tm = tm, .record = *r};
	t->info = (tidemark_table_info){
		.id = r->id,
		.oid = r->oid,
		.schema_name = r->schema_name,
		.table_name = r->table_name,
		.state = state_of(r),
		.rows = r->live,
		.hidden = r->hidden,
		.doubt = r->doubt,
		.markers = r->markers,
		.high_lsn = r->high.lsn.v,
		.schema_version = r->schema_version,
	};
	return t;
}

static void layout_free(struct layout *l)
{
	schema_free(l->schema);
	free(l->column);
	free(l);
}

static void table_free(struct tidemark_table *t)
{
	for (size_t i = 0; i < t->nlayouts; i++)
		layout_free(t->layouts[i]);
	free(t->layouts);
	schema_free(t->schema);
	row_view_finish(&t->view);
	buf_finish(&t->full_key);
	table_record_free(&t->record);
	free(t);
}

void tables_forget(struct tidemark *tm)
{
	for (size_t i = 0; i < tm->ntables; i++)
		table_free(tm->tables[i]);
	free(tm->tables);
	tm->tables = NULL;
	tm->ntables = 0;
	tm->tables_loaded = false;
}

static int compare_names(const struct tidemark_table *t, const char *schema_name, const char *table_name)
{
	int d = strcmp(t->record.schema_name, schema_name);

	return d != 0 ? d : strcmp(t->record.table_name, table_name);
}

/* Of several with one name, the one that is replicated, else the newest, comes first. */
static int compare_tables(const void *a, const void *b)
{
	const struct tidemark_table *x = *(struct tidemark_table *const *)a,
								*y = *(struct tidemark_table *const *)b;
	int d = compare_names(x, y->record.schema_name, y->record.table_name);

	if (d != 0) return d;
	d = (x->info.state == TIDEMARK_LEFT) - (y->info.state == TIDEMARK_LEFT);
	return d != 0 ? d : (x->record.id < y->record.id) - (x->record.id > y->record.id);
}

static int tables_load(struct tidemark *tm)
{
	struct table_record *records;
	struct err err;
	size_t n;

	if (tidemark_require_txn(tm) != 0) return TIDEMARK_E_ARGUMENT;
	if (tm->tables_loaded) return TIDEMARK_OK;
	if (!store_list_tables(tm->txn, &records, &n, &err)) return tidemark_fail_err(tm, &err);
	tm->tables = mem_alloc(n * sizeof *tm->tables);
	for (size_t i = 0; i < n; i++)
		tm->tables[i] = table_new(tm, &records[i]);
	free(records);
	if (n > 0) qsort(tm->tables, n, sizeof *tm->tables, compare_tables);
	tm->ntables = n;
	tm->tables_loaded = true;
	return TIDEMARK_OK;
}

/* ---- schemas ---- */

static struct schema *schema_read(struct tidemark_table *t, uint32_t version, int *rc)
{
	struct schema *s = NULL;
	struct err err;
	bool found;

	*rc = 0;
	if (!store_get_schema(t->tm->txn, t->record.id, version, &s, &found, &err))
		*rc = tidemark_fail_err(t->tm, &err);
	else if (!found)
		*rc = tidemark_fail(t->tm, TIDEMARK_E_CORRUPT, "store %s: table %s.%s has no schema version %u",
							store_dir(t->tm->store), t->record.schema_name, t->record.table_name, version);
	return s;
}

/* A table is known a moment before its columns are. */
static struct schema *schema_of_none(void)
{
	struct schema *s = mem_alloc(sizeof *s);

	*s = (struct schema){0};
	return s;
}

/* The current schema, read on first use. */
static int table_ready(struct tidemark_table *t)
{
	int rc = 0;

	if (t->schema) return TIDEMARK_OK;
	t->schema =
		t->record.schema_version == 0 ? schema_of_none() : schema_read(t, t->record.schema_version, &rc);
	if (t->schema) schema_key_kinds(t->schema, t->kinds);
	return rc;
}

static struct layout *layout_new(const struct schema *now, struct schema *then)
{
	struct layout *l = mem_alloc(sizeof *l);

	l->schema = then;
	l->column = mem_alloc(now->ncolumns * sizeof *l->column);
	for (size_t i = 0; i < now->ncolumns; i++)
		l->column[i] = schema_find(then, now->columns[i].name);
	return l;
}

const struct layout *table_layout_search(struct tidemark_table *t, uint32_t version, int *rc)
{
	struct layout **grown;
	struct schema *s;

	for (size_t i = 0; i < t->nlayouts; i++) {
		struct layout *l = t->layouts[i];

		if (l->schema->version != version) continue;
		t->layouts[i] = t->layouts[0];
		return t->layouts[0] = l;
	}
	s = schema_read(t, version, rc);
	if (!s) return NULL;
	grown = mem_alloc((t->nlayouts + 1) * sizeof *grown);
	grown[0] = layout_new(t->schema, s);
	if (t->nlayouts > 0) memcpy(grown + 1, t->layouts, t->nlayouts * sizeof *grown);
	free(t->layouts);
	t->layouts = grown;
	t->nlayouts++;
	return grown[0];
}

/* ---- looking up ---- */

int tidemark_table_count(tidemark *tm, size_t *out)
{
	int rc = tables_load(tm);

	*out = rc == 0 ? tm->ntables : 0;
	return rc;
}

int tidemark_table_at(tidemark *tm, size_t i, tidemark_table **out)
{
	int rc = tables_load(tm);

	*out = NULL;
	if (rc == 0 && i >= tm->ntables)
		rc = tidemark_fail(tm, TIDEMARK_E_NOTFOUND, "there is no table number %zu: the store has %zu", i,
						   tm->ntables);
	if (rc == 0) rc = table_ready(tm->tables[i]);
	if (rc == 0) *out = tm->tables[i];
	return rc;
}

/* The first table not before these names. */
static size_t lower_bound(const struct tidemark *tm, const char *schema_name, const char *table_name)
{
	size_t low = 0, high = tm->ntables;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (compare_names(tm->tables[middle], schema_name, table_name) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

int tidemark_table_find(tidemark *tm, const char *schema_name, const char *table_name, tidemark_table **out)
{
	int rc = tables_load(tm);
	size_t i;

	*out = NULL;
	if (rc != 0) return rc;
	i = lower_bound(tm, schema_name, table_name);
	if (i < tm->ntables && compare_names(tm->tables[i], schema_name, table_name) == 0)
		return tidemark_table_at(tm, i, out);
	return tidemark_fail(tm, TIDEMARK_E_NOTFOUND, "store %s has no table %s.%s", store_dir(tm->store),
						 schema_name, table_name);
}

const tidemark_table_info *tidemark_table_get_info(const tidemark_table *t)
{
	return &t->info;
}

/* ---- columns ---- */

static const struct column *column_at(const tidemark_table *t, size_t column)
{
	return column < t->schema->ncolumns ? &t->schema->columns[column] : NULL;
}

size_t tidemark_column_count(const tidemark_table *t)
{
	return t->schema->ncolumns;
}

const char *tidemark_column_name(const tidemark_table *t, size_t column)
{
	const struct column *c = column_at(t, column);

	return c ? c->name : NULL;
}

const char *tidemark_column_type(const tidemark_table *t, size_t column)
{
	const struct column *c = column_at(t, column);

	return c ? c->type_name : NULL;
}

uint32_t tidemark_column_type_oid(const tidemark_table *t, size_t column)
{
	const struct column *c = column_at(t, column);

	return c ? c->type_oid : 0;
}

int tidemark_column_class(const tidemark_table *t, size_t column)
{
	const struct column *c = column_at(t, column);

	return c ? c->type_class : TYPE_OTHER;
}

size_t tidemark_key_count(const tidemark_table *t)
{
	return t->schema->nkeys;
}

size_t tidemark_key_column(const tidemark_table *t, size_t i)
{
	return i < t->schema->nkeys ? t->schema->key_columns[i] : SIZE_MAX;
}
