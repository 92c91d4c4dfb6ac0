/*
 * A server that answers the questions of a start with anything: attaching is
 * refused or succeeds, and what it then knows of the tables can be planned and stored.
 *
 * The linker puts the functions here in place of those of reader/pgconn.c (see
 * the Makefile). A step of the input is one answer: its number of columns and
 * rows, then the values; without one the connection is lost.
 */
#include "reader/attach.h"
#include "reader/log.h"
#include "reader/plan.h"
#include "tests/fuzz/fuzz.h"

#define COLUMNS_MAX 9
#define ROWS_MAX    5

struct server {
	struct feed f;
	int version;
};

static struct server server; /* the functions put in have no other way to it */

/* ---- answers ---- */

/* What servers say in one place or another. */
static const char *const words[] = {
	"t",
	"f",
	"1",
	"2",
	"16384",
	"16385",
	"23",
	"25",
	"0/1000",
	"0/2000",
	"logical",
	"UTF8",
	"p",
	"r",
	"d",
	"n",
	"i",
	"u",
	"1 2",
	"1 1",
	"700",
	"690:700:",
	"public",
	"a",
	"id",
	"name",
	"text",
	"integer",
	"7/1:1,2:1/x/public.a",
	"active",
	"1\t0/3000\twhy\n",
};

static struct slice take_value(struct feed *f)
{
	uint8_t how = feed_u8(f);

	if (how == 0xFF) return feed_bytes(f, feed_u8(f));
	if (how < 0x80) return slice_of(words[how % (sizeof words / sizeof *words)]);
	return how < 0xC0 ? (struct slice){0} : feed_bytes(f, how & 0x3F);
}

static void name_columns(PGresult *r, int n)
{
	PGresAttDesc columns[COLUMNS_MAX];
	char name[] = "c";

	for (int i = 0; i < n; i++)
		columns[i] = (PGresAttDesc){.name = name, .typid = 25, .typlen = -1, .atttypmod = -1};
	CHECK_THAT(n == 0 || PQsetResultAttrs(r, n, columns), "no memory");
}

static void set_value(PGresult *r, int row, int column, struct slice value)
{
	/* As on the wire: a text that a C string can hold. */
	char *text = text_alone(value);
	int n = value.p ? (int)strlen(text) : -1;

	CHECK_THAT(PQsetvalue(r, row, column, value.p ? text : NULL, n), "no memory");
	free(text);
}

static PGresult *take_answer(struct feed *f)
{
	PGresult *r = PQmakeEmptyPGresult(NULL, PGRES_TUPLES_OK);
	int columns = feed_u8(f) % (COLUMNS_MAX + 1), rows = feed_u8(f) % (ROWS_MAX + 1);

	name_columns(r, columns);
	for (int row = 0; row < rows; row++)
		for (int i = 0; i < columns; i++)
			set_value(r, row, i, take_value(f));
	return r;
}

/* ---- in place of reader/pgconn.c and of libpq ---- */

bool __wrap_pgconn_open(struct loop *l, const char *conninfo, bool replication, int silence_ms,
						struct pgconn **out, struct err *err);
void __wrap_pgconn_close(struct pgconn *c);
PGconn *__wrap_pgconn_pg(const struct pgconn *c);
int __wrap_pgconn_backend_pid(const struct pgconn *c);
void __wrap_pgconn_set_silence(struct pgconn *c, int silence_ms);
bool __wrap_pgconn_was_silent(const struct pgconn *c);
void __wrap_pgconn_on_wait(struct pgconn *c, pgconn_wait_fn on_wait, void *ctx);
bool __wrap_pgconn_query(struct pgconn *c, const char *sql, int nparams, const char *const *params,
						 PGresult **out, struct err *err);
int __wrap_PQserverVersion(const PGconn *c);

bool __wrap_pgconn_open(struct loop *l, const char *conninfo, bool replication, int silence_ms,
						struct pgconn **out, struct err *err)
{
	(void)l, (void)conninfo, (void)replication, (void)silence_ms, (void)err;
	*out = (struct pgconn *)(void *)&server;
	return true;
}

void __wrap_pgconn_close(struct pgconn *c)
{
	(void)c;
}

PGconn *__wrap_pgconn_pg(const struct pgconn *c)
{
	(void)c;
	return NULL;
}

int __wrap_pgconn_backend_pid(const struct pgconn *c)
{
	(void)c;
	return 1;
}

void __wrap_pgconn_set_silence(struct pgconn *c, int silence_ms)
{
	(void)c, (void)silence_ms;
}

bool __wrap_pgconn_was_silent(const struct pgconn *c)
{
	(void)c;
	return false;
}

void __wrap_pgconn_on_wait(struct pgconn *c, pgconn_wait_fn on_wait, void *ctx)
{
	(void)c, (void)on_wait, (void)ctx;
}

bool __wrap_pgconn_query(struct pgconn *c, const char *sql, int nparams, const char *const *params,
						 PGresult **out, struct err *err)
{
	struct feed answer;

	(void)c;
	CHECK_THAT(*sql, "a question without a text");
	for (int i = 0; i < nparams; i++)
		CHECK_THAT(!params[i] || strlen(params[i]) < 4096, "parameter %d", i);
	if (feed_left(&server.f) == 0) return err_set(err, ERR_RETRY, "connection lost");
	answer = feed_step(&server.f);
	*out = take_answer(&answer);
	return true;
}

int __wrap_PQserverVersion(const PGconn *c)
{
	(void)c;
	return server.version;
}

/* ---- what comes of it ---- */

static void drop(void *ctx, struct batch *b)
{
	(void)ctx;
	batch_destroy(b);
}

static void described(void *ctx)
{
	(void)ctx;
}

/* The applier decodes it, and says "damaged" of what it cannot. */
static void check_records(const struct batch *b)
{
	struct err err = {0};

	for (size_t i = 0; i < b->n; i++) {
		struct slice body = {b->ops[i].body, b->ops[i].body_len};
		struct table_record table;
		struct schema *schema;

		if (b->ops[i].kind == OP_TABLE) {
			CHECK_THAT(table_record_decode(body, &table, &err), "%s", err.msg);
			table_record_free(&table);
		} else if (b->ops[i].kind == OP_SCHEMA) {
			CHECK_THAT(schema_decode(body, &schema, &err), "%s", err.msg);
			schema_free(schema);
		}
	}
}

static void make_plan(const struct attachment *a, const struct stored *stored)
{
	const struct lineage lineage = {.slot = "s", .publication = "p", .source = "fuzz"};
	struct changes *changes =
		changes_create(&(struct changes_config){.epoch = 1, .checkpoint = a->start, .xid_near = a->xid_near},
					   (struct changes_sink){.push = drop, .described = described});
	struct plan plan;

	plan_make(stored, a, &lineage, 1, false, changes, &plan);
	check_records(plan.batch);
	plan_finish(&plan);
	changes_destroy(changes);
}

static void check_attachment(const struct attachment *a)
{
	for (size_t i = 0; i < a->tables.n; i++) {
		const struct source_table *t = &a->tables.v[i];

		CHECK_THAT(t->schema || t->refusal || t->covered, "table %zu is neither known nor refused", i);
		CHECK_THAT(t->schema_name && t->table_name && t->display && t->from_sql, "table %zu has no name", i);
	}
	CHECK_THAT(a->start.v != 0 && a->xid_near.v != 0, "no position");
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	log_setup(LOG_JSON, LOG_ERROR + 1);
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct stored stored = {.fresh = true};
	struct attach_memory memory = {.sql_silence_ms = 1000};
	struct attach_config config = {
		.source = "", .silence_ms = 1000, .memory = &memory, .slot = "s", .publication = "p"};
	struct name_patterns *all;
	struct attachment a;
	struct err err = {0};
	uint8_t how;

	server.f = feed_of(data, size);
	how = feed_u8(&server.f);
	server.version = how & 1 ? 180000 : how & 2 ? 160000 : 140000;
	config.skip_unsupported = how & 4;
	stored.fresh = !(how & 8);
	stored.lineage =
		(struct lineage){.system_id = 1, .timeline = 1, .slot = "s", .publication = "p", .source = ""};
	stored.checkpoint = (struct checkpoint){.epoch = 1, .lsn = LSN(0x1000)};
	if (how & 16) memory.backends = strdup("{}");
	memory.unanswered = how & 32;
	CHECK_THAT(names_parse_patterns("*.*", &all, &err), "%s", err.msg);
	config.tables = all;
	if (attach(NULL, &config, &stored, &a, &err)) {
		check_attachment(&a);
		make_plan(&a, &stored);
		attachment_finish(&a);
	} else {
		check_refusal(&err);
	}
	attach_memory_finish(&memory);
	names_free_patterns(all);
	return 0;
}
