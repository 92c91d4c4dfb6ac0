#include "tests/fuzz/rig.h"

#include "reader/plan.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/memstore.h"
#include "tests/fuzz/source.h"

#define MUST(call)                                                                                           \
	do {                                                                                                     \
		struct err err = {0};                                                                                \
		CHECK_THAT(call, "%s", err.msg);                                                                     \
	} while (0)

/* ---- the queue ---- */

static void push(void *ctx, struct batch *b)
{
	struct rig *r = ctx;

	b->next = NULL;
	*r->tail = b;
	r->tail = &b->next;
}

static struct batch *take(struct rig *r)
{
	struct batch *b = r->head;

	if (!b) return NULL;
	r->head = b->next;
	if (!r->head) r->tail = &r->head;
	return b;
}

static void emit(void *ctx, struct batch *b)
{
	struct rig *r = ctx;

	changes_emit(r->changes, b);
}

static void described(void *ctx)
{
	(void)ctx;
}

/* ---- the apply thread ---- */

/* Whatever was accepted from the server can be applied. */
static void apply_part(struct rig *r, struct batch *b, size_t from, size_t to)
{
	MUST(applier_apply_part(r->applier, b, from, to, &err));
	if (applier_is_open(r->applier) && applier_at_boundary(r->applier))
		MUST(applier_commit(r->applier, r->now_us, &err));
}

static void apply_queue(struct rig *r)
{
	struct batch *b;

	while ((b = take(r)) != NULL) {
		size_t whole = batch_whole_ops(b);

		apply_part(r, b, 0, whole);
		apply_part(r, b, whole, b->n);
		batch_destroy(b);
	}
}

static void take_answers(struct rig *r)
{
	struct answer *next;

	for (struct answer *a = applier_take_answers(r->applier); a; a = next) {
		next = a->next;
		copier_answer(r->copier, a, r->now_us);
		answer_destroy(a);
	}
}

void rig_settle(struct rig *r)
{
	changes_flush(r->changes);
	apply_queue(r);
	take_answers(r);
	audit_store(&r->audit, r->store);
}

/* ---- the catalog ---- */

static void fill_table(struct source_table *t, unsigned table, unsigned shape)
{
	const struct source_shape *s = source_shape(table, shape);
	struct buf display = {0};

	names_put(&display, s->schema_name, s->table_name);
	buf_put_u8(&display, 0);
	*t = (struct source_table){.oid = source_oid(table),
							   .schema_name = strdup(s->schema_name),
							   .table_name = strdup(s->table_name),
							   .display = (char *)display.p,
							   .from_sql = strdup("ONLY t"),
							   .schema = schema_copy(&s->schema),
							   .rows_estimate = -1};
	CHECK_THAT(asprintf(&t->shape, "1/%u/1:1/d1/%s", shape, t->display) > 0, "no memory");
}

static void fill_attachment(struct attachment *a, const struct stored *stored,
							const struct rig_catalog *catalog)
{
	*a = (struct attachment){.system_id = 1, .timeline = 1, .server_version = 150000, .xid_near = XID(700)};
	a->start = stored->fresh ? LSN(catalog->read_at) : stored->checkpoint.lsn;
	a->tables.read_at = LSN(catalog->read_at);
	a->tables.v = mem_alloc(SOURCE_TABLES * sizeof *a->tables.v);
	a->added = mem_alloc(SOURCE_TABLES * sizeof *a->added);
	for (unsigned i = 0; i < SOURCE_TABLES; i++) {
		if (!(catalog->present >> i & 1)) continue;
		a->added[a->tables.n] = catalog->added >> i & 1;
		fill_table(&a->tables.v[a->tables.n++], i, catalog->shapes[i]);
	}
	a->gate = catalog->gate ? strdup(catalog->gate) : NULL;
	a->added_gate = catalog->added_gate ? strdup(catalog->added_gate) : NULL;
}

static void free_attachment(struct attachment *a)
{
	source_tables_free(&a->tables);
	free(a->added);
	free(a->gate);
	free(a->added_gate);
}

/* ---- a session ---- */

bool rig_is_running(const struct rig *r)
{
	return r->changes != NULL;
}

static void make_copier(struct rig *r, uint16_t epoch)
{
	struct copier_config config = {.epoch = epoch,
								   .chunk_rows_max = 64,
								   .chunk_time_ms = 100,
								   .chunk_bytes = 4096,
								   .buffer_bytes = 65536,
								   .windows_max = 4,
								   .next_run_id = stored_next_run_id(&r->stored)};

	r->copier = copier_create(&config, (struct copier_sink){.ctx = r, .emit = emit});
	changes_set_copier(r->changes, r->copier);
	copier_load_unseen(r->copier, r->stored.unseen, r->stored.nunseen);
}

static void carry_out(struct rig *r, struct plan *plan)
{
	push(r, plan->batch);
	plan->batch = NULL;
	for (size_t i = 0; i < plan->ntables; i++) {
		const struct planned_table *t = &plan->tables[i];

		copier_set_table(r->copier, &(struct copier_table){.schema = changes_schema(r->changes, t->table_id),
														   .from_sql = t->source->from_sql,
														   .copied = t->copied});
		if (t->resume) copier_load_run(r->copier, t->resume);
	}
	for (size_t i = 0; i < plan->nruns; i++) {
		const struct planned_run *p = &plan->runs[i];

		copier_start_run_as_of(r->copier, p->table_id, p->kind, p->sweep, p->gate, p->requester, p->as_of,
							   r->now_us);
	}
}

static void plan(struct rig *r, const struct rig_catalog *catalog)
{
	const struct lineage lineage = {.system_id = 1,
									.timeline = 1,
									.slot = "s",
									.publication = "p",
									.source = "rig",
									.source_version = 150000};
	uint16_t epoch = r->stored.fresh ? 1 : r->stored.checkpoint.epoch;
	struct attachment a;
	struct plan plan;

	fill_attachment(&a, &r->stored, catalog);
	r->changes = changes_create(
		&(struct changes_config){.epoch = epoch, .checkpoint = a.start, .xid_near = a.xid_near},
		(struct changes_sink){.ctx = r, .push = push, .described = described});
	make_copier(r, epoch);
	plan_make(&r->stored, &a, &lineage, epoch, catalog->always, r->changes, &plan);
	carry_out(r, &plan);
	plan_finish(&plan);
	free_attachment(&a);
}

void rig_begin(struct rig *r, const struct rig_catalog *catalog)
{
	MUST(stored_load(r->store, &r->stored, &err));
	MUST(applier_create(r->store, &r->applier, &err));
	plan(r, catalog);
	rig_settle(r);
}

static void drop_queue(struct rig *r)
{
	struct batch *b;

	while ((b = take(r)) != NULL)
		batch_destroy(b);
}

void rig_end(struct rig *r, bool finish)
{
	if (!rig_is_running(r)) return;
	if (finish) {
		changes_flush(r->changes);
		apply_queue(r);
	}
	drop_queue(r);
	applier_destroy(r->applier);
	copier_destroy(r->copier);
	changes_destroy(r->changes);
	stored_free(&r->stored);
	r->applier = NULL;
	r->copier = NULL;
	r->changes = NULL;
	r->request = NULL;
	audit_store(&r->audit, r->store);
}

/* ---- the server's side ---- */

static void refused(struct rig *r, const struct err *err)
{
	check_refusal(err);
	rig_end(r, true);
}

void rig_message(struct rig *r, struct slice payload)
{
	bool altered = false;
	struct err err = {0};

	if (!changes_message(r->changes, payload, &altered, &err)) refused(r, &err);
}

void rig_position(struct rig *r, uint64_t wal_end)
{
	changes_position(r->changes, LSN(wal_end));
}

void rig_snapshot(struct rig *r, const char *text, bool standby, uint64_t high)
{
	struct err err = {0};

	if (!copier_chunk_snapshot(r->copier, r->request->id, text, standby, LSN(high), &err)) refused(r, &err);
}

void rig_row(struct rig *r, const struct slice *texts, size_t n)
{
	struct err err = {0};

	if (!copier_chunk_row(r->copier, r->request->id, texts, n, &err)) refused(r, &err);
}

void rig_chunk_end(struct rig *r, int64_t elapsed_us)
{
	struct err err = {0};
	uint64_t id = r->request->id;

	r->now_us += elapsed_us;
	if (copier_chunk_end(r->copier, id, elapsed_us, r->now_us, &err))
		r->request = NULL;
	else
		refused(r, &err);
}

void rig_chunk_failed(struct rig *r, enum chunk_failure why)
{
	copier_chunk_failed(r->copier, r->request->id, why, r->now_us);
	r->request = NULL;
}

/* ---- ours ---- */

void rig_ask(struct rig *r)
{
	int64_t at;

	if (r->request) return;
	r->request = copier_next(r->copier, r->now_us);
	if (r->request) return;
	/* Time passes until there is something. */
	at = copier_next_at(r->copier);
	if (at == INT64_MAX || at < r->now_us) return;
	r->now_us = at;
	r->request = copier_next(r->copier, r->now_us);
}

void rig_start_run(struct rig *r, uint32_t table_id, bool sweep, const char *gate)
{
	if (changes_in_transaction(r->changes) || !changes_schema(r->changes, table_id)) return;
	copier_start_run(r->copier, table_id, RUN_RESNAPSHOT, sweep, gate, "fuzz", r->now_us);
}

void rig_store_position(struct rig *r)
{
	changes_store_position(r->changes);
}

/* ---- the whole ---- */

void rig_open(struct rig *r)
{
	memstore_empty();
	*r = (struct rig){.store = memstore(), .now_us = 1000000};
	r->tail = &r->head;
}

void rig_close(struct rig *r)
{
	rig_end(r, true);
	audit_finish(&r->audit);
}
