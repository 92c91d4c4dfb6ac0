#include "reader/runlog.h"

#include <stdlib.h>

#include "reader/log.h"
#include "reader/names.h"
#include "reader/outcome.h"

struct runlog {
	struct store *store;
	uint64_t *ids;
	size_t n;
};

struct runlog *runlog_create(struct store *store)
{
	struct runlog *l = mem_alloc(sizeof *l);
	*l = (struct runlog){.store = store};
	return l;
}

void runlog_destroy(struct runlog *l)
{
	if (l == NULL) return;
	free(l->ids);
	free(l);
}

void runlog_add(struct runlog *l, uint64_t run_id)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->ids[i] == run_id) return;
	l->ids = realloc(l->ids, (l->n + 1) * sizeof *l->ids);
	if (l->ids == NULL) abort();
	l->ids[l->n++] = run_id;
}

void runlog_load(struct runlog *l)
{
	struct store_txn *t = NULL;
	struct run_record *runs = NULL;
	struct err ignored; /* then their ends are not logged */
	size_t n = 0;
	if (store_begin_read(l->store, &t, &ignored) && store_list_runs(t, &runs, &n, &ignored))
		for (size_t i = 0; i < n; i++)
			if (runs[i].kind == RUN_REQUESTED && run_record_is_open(&runs[i])) runlog_add(l, runs[i].id);
	store_abort(t);
	for (size_t i = 0; i < n; i++)
		run_record_free(&runs[i]);
	free(runs);
}

static char *table_display(struct store_txn *t, uint32_t table_id)
{
	struct table_record r;
	struct buf name = {0};
	struct err ignored;
	bool found = false;
	if (store_get_table(t, table_id, &r, &found, &ignored) && found) {
		names_put(&name, r.schema_name, r.table_name);
		table_record_free(&r);
	}
	buf_put_u8(&name, 0);
	return (char *)name.p;
}

static void log_end(const struct run_record *r, const char *table)
{
	log_write(r->state == RUN_FAILED ? LOG_ERROR : LOG_INFO, "run has ended",
			  (const struct log_field[]){
				  KV_S("table", table), KV_S("id", r->name), KV_U("run", r->id),
				  KV_S("state", run_state_name(r->state)),
				  KV_S("reason", r->error[0] != '\0' ? r->error : NULL), KV_U("rows_read", r->rows_read),
				  KV_U("rows_written", r->rows_written), KV_U("rows_same", r->rows_same),
				  KV_U("rows_superseded", r->rows_superseded), KV_U("rows_newer", r->rows_newer),
				  KV_U("rows_filled", r->rows_filled), KV_U("rows_swept", r->rows_swept),
				  KV_U("rows_suspect", r->rows_suspect), KV_U("rows_refetched", r->rows_refetched), KV_END});
}

/* True: it is over, and need not be looked at again. */
static bool look_at(struct store_txn *t, uint64_t id)
{
	struct run_record r;
	struct err ignored;
	bool found;
	if (!store_get_run(t, id, &r, &found, &ignored) || !found) return false;
	bool over = !run_record_is_open(&r);
	if (over) {
		char *table = table_display(t, r.table_id);
		log_end(&r, table);
		free(table);
	}
	run_record_free(&r);
	return over;
}

void runlog_look(struct runlog *l)
{
	struct store_txn *t = NULL;
	struct err ignored;
	size_t kept = 0;
	if (l->n == 0 || !store_begin_read(l->store, &t, &ignored)) return;
	for (size_t i = 0; i < l->n; i++)
		if (!look_at(t, l->ids[i])) l->ids[kept++] = l->ids[i];
	l->n = kept;
	store_abort(t);
}
