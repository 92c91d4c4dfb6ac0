#include "reader/stored.h"

#include <stdlib.h>

static bool load_schemas(struct store_txn *t, struct stored *out, struct err *err)
{
	out->schemas = calloc(out->ntables + 1, sizeof *out->schemas);
	if (out->schemas == NULL) return err_set(err, ERR_NOMEM, "out of memory");
	for (size_t i = 0; i < out->ntables; i++) {
		bool found;
		const struct table_record *r = &out->tables[i];
		if (!store_get_schema(t, r->id, r->schema_version, &out->schemas[i], &found, err)) return false;
		if (!found)
			return err_set(err, ERR_CORRUPT, "store: table %s.%s has no schema version %u", r->schema_name,
						   r->table_name, r->schema_version);
	}
	return true;
}

static bool load_older(struct store_txn *t, struct stored *out, struct err *err)
{
	size_t n = 0;
	for (size_t i = 0; i < out->ntables; i++)
		n += out->tables[i].schema_version;
	out->older = calloc(n + 1, sizeof *out->older);
	if (out->older == NULL) return err_set(err, ERR_NOMEM, "out of memory");
	for (size_t i = 0; i < out->ntables; i++)
		for (uint32_t v = 1; v < out->tables[i].schema_version; v++) {
			bool found;
			struct schema **s = &out->older[out->nolder];
			if (!store_get_schema(t, out->tables[i].id, v, s, &found, err)) return false;
			out->nolder += found;
		}
	return true;
}

static bool load(struct store_txn *t, struct stored *out, struct err *err)
{
	bool has_checkpoint, has_lineage;
	if (!store_get_checkpoint(t, &out->checkpoint, &has_checkpoint, err) ||
		!store_get_lineage(t, &out->lineage, &has_lineage, err))
		return false;
	if (has_checkpoint != has_lineage)
		return err_set(err, ERR_CORRUPT, "store: checkpoint and lineage do not go together");
	out->fresh = !has_checkpoint;
	return store_list_tables(t, &out->tables, &out->ntables, err) && load_schemas(t, out, err) &&
		   load_older(t, out, err) && store_list_runs(t, &out->runs, &out->nruns, err) &&
		   store_list_unseen(t, &out->unseen, &out->nunseen, err) &&
		   store_get_backends(t, &out->backends, err);
}

bool stored_load(struct store *s, struct stored *out, struct err *err)
{
	struct store_txn *t = NULL;
	*out = (struct stored){.fresh = false};
	bool good = store_begin_read(s, &t, err) && load(t, out, err);
	store_abort(t);
	if (!good) stored_free(out);
	return good;
}

void stored_free(struct stored *s)
{
	for (size_t i = 0; i < s->ntables; i++) {
		table_record_free(&s->tables[i]);
		if (s->schemas != NULL) schema_free(s->schemas[i]);
	}
	for (size_t i = 0; i < s->nolder; i++)
		schema_free(s->older[i]);
	for (size_t i = 0; i < s->nruns; i++)
		run_record_free(&s->runs[i]);
	lineage_free(&s->lineage);
	free(s->tables);
	free(s->schemas);
	free(s->older);
	free(s->runs);
	free(s->unseen);
	free(s->backends);
	*s = (struct stored){.fresh = false};
}

uint32_t stored_next_table_id(const struct stored *s)
{
	uint32_t next = 1;
	for (size_t i = 0; i < s->ntables; i++)
		if (s->tables[i].id >= next) next = s->tables[i].id + 1;
	return next;
}

uint64_t stored_next_run_id(const struct stored *s)
{
	uint64_t next = 1;
	for (size_t i = 0; i < s->nruns; i++)
		if (s->runs[i].id >= next) next = s->runs[i].id + 1;
	return next;
}

const struct run_record *stored_open_run(const struct stored *s, uint32_t table_id)
{
	for (size_t i = s->nruns; i-- > 0;)
		if (s->runs[i].table_id == table_id && s->runs[i].kind != RUN_REQUESTED &&
			run_record_is_open(&s->runs[i]))
			return &s->runs[i];
	return NULL;
}

bool stored_reload_runs(struct store *store, struct stored *s, struct err *err)
{
	struct store_txn *t = NULL;
	while (s->nruns > 0)
		run_record_free(&s->runs[--s->nruns]);
	free(s->runs);
	s->runs = NULL;
	bool good = store_begin_read(store, &t, err) && store_list_runs(t, &s->runs, &s->nruns, err);
	store_abort(t);
	return good;
}
