/*
 * The SQL connection while streaming, on which a server answers with results
 * of any kind, number and content, at any time: the connection is given up, or the
 * copier gets chunks that it can take.
 *
 * The linker puts the functions here in place of libpq's and of those of
 * reader/pgconn.c (see the Makefile). A step of the input is what arrives at once.
 */
#include "reader/query.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/source.h"

#define COLUMNS_MAX 5
#define STEPS_MAX   200

struct server {
	struct feed f; /* of the step */
	struct pgconn_events events;
	int64_t now_us;
	bool lost;
	char sqlstate[6];
	struct query *query;
	struct copier *copier;
};

static struct server server; /* the functions put in have no other way to it */

/* ---- results ---- */

static const char *const words[] = {"t",        "f", "690:700:", "700:702:701", "0/100000",
									"0/100010", "1", "2",        "-1",          "text"};

static void set_value(PGresult *r, int row, int column)
{
	uint8_t how = feed_u8(&server.f);
	struct slice s =
		how < 0x40 ? slice_of(words[how % (sizeof words / sizeof *words)]) : feed_bytes(&server.f, how & 15);
	/* libpq ends it with a NUL; inside there may be others. */
	char *copy = mem_alloc(s.n + 1);

	if (s.n > 0) memcpy(copy, s.p, s.n);
	CHECK_THAT(PQsetvalue(r, row, column, how >= 0xC0 ? NULL : copy, how >= 0xC0 ? -1 : (int)s.n),
			   "no memory");
	free(copy);
}

static void fill(PGresult *r)
{
	int columns = feed_u8(&server.f) % (COLUMNS_MAX + 1), rows = feed_u8(&server.f) % 4;
	PGresAttDesc names[COLUMNS_MAX];
	char name[] = "c";

	for (int i = 0; i < columns; i++)
		names[i] = (PGresAttDesc){.name = name, .typid = 25, .typlen = -1, .atttypmod = -1};
	CHECK_THAT(columns == 0 || PQsetResultAttrs(r, columns, names), "no memory");
	for (int row = 0; row < rows; row++)
		for (int i = 0; i < columns; i++)
			set_value(r, row, i);
}

static void take_sqlstate(void)
{
	static const char *const states[] = {"", "40001", "57014", "42P01", "42501", "57P01", "XX000", "26000"};

	strcpy(server.sqlstate, states[feed_u8(&server.f) % 8]);
}

static PGresult *take_result(void)
{
	uint8_t how = feed_u8(&server.f);
	PGresult *r;

	if (how % 8 == 0) return NULL;
	if (how % 8 == 1) return PQmakeEmptyPGresult(NULL, PGRES_PIPELINE_SYNC);
	if (how % 8 == 2) return PQmakeEmptyPGresult(NULL, PGRES_COMMAND_OK);
	if (how % 8 == 3) take_sqlstate();
	if (how % 8 == 3) return PQmakeEmptyPGresult(NULL, PGRES_FATAL_ERROR);
	if (how == 0xFC) return PQmakeEmptyPGresult(NULL, PGRES_PIPELINE_ABORTED);
	if (how == 0xFD) return PQmakeEmptyPGresult(NULL, PGRES_COPY_OUT);
	r = PQmakeEmptyPGresult(NULL, PGRES_TUPLES_OK);
	fill(r);
	return r;
}

/* ---- in place of libpq and of reader/pgconn.c ---- */

int __wrap_PQenterPipelineMode(PGconn *c);
int __wrap_PQsendQueryParams(PGconn *c, const char *sql, int n, const Oid *types, const char *const *values,
							 const int *lengths, const int *formats, int format);
int __wrap_PQsendPrepare(PGconn *c, const char *name, const char *sql, int n, const Oid *types);
int __wrap_PQsendQueryPrepared(PGconn *c, const char *name, int n, const char *const *values,
							   const int *lengths, const int *formats, int format);
int __wrap_PQpipelineSync(PGconn *c);
PGresult *__wrap_PQgetResult(PGconn *c);
int __wrap_PQisBusy(PGconn *c);
ConnStatusType __wrap_PQstatus(const PGconn *c);
char *__wrap_PQresultErrorField(const PGresult *r, int field);
PGconn *__wrap_pgconn_pg(const struct pgconn *c);
bool __wrap_pgconn_flush(struct pgconn *c);
void __wrap_pgconn_listen(struct pgconn *c, const struct pgconn_events *events);
void __wrap_pgconn_expect(struct pgconn *c, bool answer);
void __wrap_pgconn_again(struct pgconn *c);
bool __wrap_err_of_result(struct err *err, const struct pgconn *c, const PGresult *r);
int64_t __wrap_clock_now_us(void);
int64_t __wrap_loop_now_us(void);

int __wrap_PQenterPipelineMode(PGconn *c)
{
	(void)c;
	return 1;
}

static void read_text(const char *text)
{
	CHECK_THAT(text && strlen(text) < SIZE_MAX, "no text");
}

int __wrap_PQsendQueryParams(PGconn *c, const char *sql, int n, const Oid *types, const char *const *values,
							 const int *lengths, const int *formats, int format)
{
	(void)c, (void)n, (void)types, (void)values, (void)lengths, (void)formats, (void)format;
	read_text(sql);
	return 1;
}

int __wrap_PQsendPrepare(PGconn *c, const char *name, const char *sql, int n, const Oid *types)
{
	(void)c, (void)n, (void)types;
	read_text(name);
	read_text(sql);
	return 1;
}

int __wrap_PQsendQueryPrepared(PGconn *c, const char *name, int n, const char *const *values,
							   const int *lengths, const int *formats, int format)
{
	(void)c, (void)lengths, (void)formats, (void)format;
	read_text(name);
	for (int i = 0; i < n; i++)
		read_text(values[i]);
	return 1;
}

int __wrap_PQpipelineSync(PGconn *c)
{
	(void)c;
	return 1;
}

PGresult *__wrap_PQgetResult(PGconn *c)
{
	(void)c;
	return take_result();
}

int __wrap_PQisBusy(PGconn *c)
{
	(void)c;
	return feed_left(&server.f) == 0;
}

ConnStatusType __wrap_PQstatus(const PGconn *c)
{
	(void)c;
	return CONNECTION_OK;
}

char *__wrap_PQresultErrorField(const PGresult *r, int field)
{
	(void)r;
	return field == PG_DIAG_SQLSTATE && server.sqlstate[0] ? server.sqlstate : NULL;
}

PGconn *__wrap_pgconn_pg(const struct pgconn *c)
{
	(void)c;
	return NULL;
}

bool __wrap_pgconn_flush(struct pgconn *c)
{
	(void)c;
	return true;
}

void __wrap_pgconn_listen(struct pgconn *c, const struct pgconn_events *events)
{
	(void)c;
	server.events = *events;
}

/* Every step calls on_input anyway. */
void __wrap_pgconn_again(struct pgconn *c)
{
	(void)c;
}

void __wrap_pgconn_expect(struct pgconn *c, bool answer)
{
	(void)c, (void)answer;
}

bool __wrap_err_of_result(struct err *err, const struct pgconn *c, const PGresult *r)
{
	(void)c, (void)r;
	return err_set(err, ERR_RETRY, "connection lost");
}

int64_t __wrap_clock_now_us(void)
{
	return server.now_us;
}

int64_t __wrap_loop_now_us(void)
{
	return server.now_us;
}

/* ---- the other sides of it ---- */

static void emit(void *ctx, struct batch *b)
{
	(void)ctx;
	batch_destroy(b);
}

static void chunk_whole(void *ctx)
{
	const struct chunk_request *r =
		query_chunk_in_flight(server.query) ? NULL : copier_next(server.copier, server.now_us);

	(void)ctx;
	if (r) query_chunk(server.query, r);
}

static void chunk_done(void *ctx)
{
	(void)ctx;
}

static void lost(void *ctx, const struct err *err)
{
	(void)ctx;
	check_refusal(err);
	CHECK_THAT(!server.lost, "lost twice");
	server.lost = true;
}

static void asked(void *ctx, const PGresult *r)
{
	(void)ctx;
	if (r) CHECK_THAT(PQntuples(r) >= 0, "no result");
}

static struct copier *make_copier(void)
{
	struct schema schema = source_shape(0, 0)->schema;
	struct copier *c = copier_create(
		&(struct copier_config){.epoch = 1,
								.chunk_rows_max =
									3, /* as many as a result may have: pages that are not the last */
								.chunk_time_ms = 100,
								.chunk_bytes = 4096,
								.buffer_bytes = 65536,
								.windows_max = 4,
								.next_run_id = 1},
		(struct copier_sink){.emit = emit});

	schema.table_id = 1;
	schema.version = 1;
	copier_set_table(c, &(struct copier_table){.schema = &schema, .from_sql = "ONLY t"});
	copier_stream_position(c, LSN(0x100000));
	copier_start_run(c, 1, RUN_INITIAL, true, NULL, "fuzz", server.now_us);
	return c;
}

static void step(struct query *q, struct copier *copier)
{
	const struct chunk_request *r;

	server.now_us += 10000;
	switch (feed_u8(&server.f) % 8) {
	case 0: query_emit_watermark(q); break;
	case 1: query_ask(q, "SELECT 1", asked, NULL); break;
	case 2: copier_stream_position(copier, LSN(0x100000 + feed_u8(&server.f))); break;
	default:
		if (query_chunk_in_flight(q)) break;
		r = copier_next(copier, server.now_us);
		if (r) query_chunk(q, r);
		break;
	}
	if (!server.lost && server.events.on_input) server.events.on_input(server.events.ctx);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct query_events events = {.chunk_done = chunk_done, .chunk_whole = chunk_whole, .lost = lost};
	struct feed f = feed_of(data, size);
	struct copier *copier;
	struct query *q;
	struct err err = {0};

	server = (struct server){.now_us = 1000000};
	copier = make_copier();
	CHECK_THAT(query_create((struct pgconn *)(void *)&server, copier, &events, &q, &err), "%s", err.msg);
	server.query = q;
	server.copier = copier;
	for (int i = 0; i < STEPS_MAX && !server.lost && feed_left(&f) > 0; i++) {
		server.f = feed_step(&f);
		step(q, copier);
	}
	query_destroy(q);
	copier_destroy(copier);
	return 0;
}
