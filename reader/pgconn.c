#include "reader/pgconn.h"

#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct pgconn {
	struct loop *loop;
	PGconn *pg;
	uv_poll_t *poll;
	int poll_fd;
	int polled_for; /* UV_READABLE | UV_WRITABLE as started */
	bool paused, resting, lost;
	struct loop_timer *again;
	struct pgconn_events events;
	bool progress; /* straight-line use: something happened on the socket */
	pgconn_wait_fn on_wait;
	void *on_wait_ctx;
	int silence_ms;
	int64_t heard_us; /* when the socket last had something for us, or we began to expect it */
	bool expecting, silent;
	struct loop_timer *watch;
};

enum { CONNECT_MS_MAX = 30000, REST_US = 1000 /* a loop_timer's shortest */ };

/*
 * What pins a value's text form, going out and coming back as a parameter, then what keeps us gentle and
 * plans steady: a chunk must walk the key's index whatever the statistics say, and a hung synchronous standby
 * must not hang our watermark messages. That changes are left out is only a warning of the server (stream.c):
 * it has to come through.
 */
static const char pinned_options[] =
	"-c datestyle=ISO -c intervalstyle=postgres -c extra_float_digits=3 -c bytea_output=hex "
	"-c TimeZone=UTC -c lc_monetary=C -c search_path= -c quote_all_identifiers=off -c array_nulls=on "
	"-c row_security=off "
	"-c client_min_messages=warning -c synchronous_commit=local -c jit=off -c "
	"max_parallel_workers_per_gather=0 "
	"-c enable_seqscan=off -c enable_bitmapscan=off -c enable_sort=off -c plan_cache_mode=force_generic_plan";

/* ---- errors ---- */

struct sqlstate_kind {
	const char *prefix;
	enum err_kind kind;
};

/* Longest match first. What is not listed is a refusal that waiting does not cure. */
static const struct sqlstate_kind sqlstate_kinds[] = {
	{"55006", ERR_RETRY},  /* slot or object in use */
	{"55P03", ERR_RETRY},  /* lock not available */
	{"55000", ERR_GAP},    /* slot invalidated */
	{"42710", ERR_RETRY},  /* somebody else has made the publication or slot since we looked, */
	{"23505", ERR_RETRY},  /* or is just making it */
	{"57P04", ERR_CONFIG}, /* database dropped */
	{"08", ERR_RETRY},     {"40", ERR_RETRY}, {"53", ERR_RETRY},    {"57", ERR_RETRY},
	{"58", ERR_RETRY},     {"XX", ERR_RETRY}, {"25P03", ERR_RETRY}, {"25P04", ERR_RETRY},
};

static enum err_kind err_kind_of_sqlstate(const char *sqlstate)
{
	if (sqlstate == NULL || *sqlstate == '\0') return ERR_RETRY;
	for (size_t i = 0; i < sizeof sqlstate_kinds / sizeof *sqlstate_kinds; i++)
		if (strncmp(sqlstate, sqlstate_kinds[i].prefix, strlen(sqlstate_kinds[i].prefix)) == 0)
			return sqlstate_kinds[i].kind;
	return ERR_CONFIG;
}

/* Copies libpq's message as one line: newlines and runs of blanks become one blank. */
static void one_line(const char *text, char *out, size_t size)
{
	size_t n = 0;
	for (; *text != '\0' && n + 1 < size; text++) {
		bool blank = isspace((unsigned char)*text);
		if (blank && (n == 0 || out[n - 1] == ' ')) continue;
		out[n++] = blank ? ' ' : *text;
	}
	while (n > 0 && out[n - 1] == ' ')
		n--;
	out[n] = '\0';
}

/*
 * libpq gives no SQLSTATE for a failed connection attempt. In verbose form the
 * message carries it ("FATAL:  28P01: password ..."), so we ask for that form
 * and take it out again, with the LOCATION lines.
 */
static const char *find_sqlstate(const char *text, char state[6])
{
	for (const char *p = text; (p = strstr(p, ":  ")) != NULL; p++) {
		const char *s = p + 3;
		size_t n = strspn(s, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ");
		if (n != 5 || s[5] != ':' || s[6] != ' ') continue;
		memcpy(state, s, 5);
		state[5] = '\0';
		return s;
	}
	return NULL;
}

/* Where libpq itself gives up before the server had a say, there is only its text, in English without
 * setlocale(). */
static enum err_kind kind_of_libpq_text(const PGconn *pg, const char *text)
{
	static const char *const settled[] = {
		"no password supplied", "SSL was required", "certificate",  "authentication method", "invalid ",
		"private key",          "sslmode",          "service file", "definition of service"};
	if (PQconnectionNeedsPassword(pg)) return ERR_CONFIG;
	for (size_t i = 0; i < sizeof settled / sizeof *settled; i++)
		if (strstr(text, settled[i]) != NULL) return ERR_CONFIG;
	return ERR_RETRY;
}

static bool err_of_connect(struct err *err, const PGconn *pg)
{
	const char *text = PQerrorMessage(pg);
	char state[6] = "", line[900];
	const char *at = find_sqlstate(text, state);
	if (at == NULL) {
		one_line(text, line, sizeof line);
		return err_set(err, kind_of_libpq_text(pg, text), "%s", line[0] != '\0' ? line : "connection lost");
	}
	const char *end = strstr(at, "\nLOCATION:");
	char *message = strndup(at + 7, end == NULL ? strlen(at + 7) : (size_t)(end - (at + 7)));
	if (message == NULL) return err_set(err, ERR_NOMEM, "out of memory");
	one_line(message, line, sizeof line);
	free(message);
	return err_set(err, err_kind_of_sqlstate(state), "the server refused the connection: %s (SQLSTATE %s)",
				   line, state);
}

bool err_of_result(struct err *err, const struct pgconn *c, const PGresult *r)
{
	const char *state = r != NULL ? PQresultErrorField(r, PG_DIAG_SQLSTATE) : NULL;
	char line[900];
	if (state == NULL) {
		one_line(PQerrorMessage(c->pg), line, sizeof line);
		return err_set(err, ERR_RETRY, "%s", line[0] != '\0' ? line : "connection lost");
	}
	const char *hint = PQresultErrorField(r, PG_DIAG_MESSAGE_HINT);
	char hint_line[300] = "";
	one_line(PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY), line, sizeof line);
	if (hint != NULL) one_line(hint, hint_line, sizeof hint_line);
	return err_set(err, err_kind_of_sqlstate(state), "%s (SQLSTATE %s)%s%s", line, state,
				   hint != NULL ? "; hint: " : "", hint_line);
}

/* ---- the socket ---- */

static void lose_because(struct pgconn *c, const struct err *err)
{
	if (c->lost) return;
	c->lost = true;
	c->progress = true;
	if (c->poll != NULL) uv_poll_stop(c->poll);
	if (c->events.on_lost != NULL) c->events.on_lost(c->events.ctx, err);
}

static void lose(struct pgconn *c)
{
	struct err err;
	char line[900];
	one_line(PQerrorMessage(c->pg), line, sizeof line);
	err_set(&err, ERR_RETRY, "%s", line[0] != '\0' ? line : "the server closed the connection");
	lose_because(c, &err);
}

/* ---- silence ---- */

int pgconn_silence_ms(const struct pgconn *c)
{
	return c->silence_ms;
}

void pgconn_set_silence(struct pgconn *c, int silence_ms)
{
	c->silence_ms = silence_ms;
}

bool pgconn_was_silent(const struct pgconn *c)
{
	return c->silent;
}

/* False when the server has owed us something for too long. */
static bool check_silence(struct pgconn *c, struct err *err)
{
	if (loop_now_us() - c->heard_us < c->silence_ms * INT64_C(1000)) return true;
	c->silent = true;
	return err_set(err, ERR_RETRY,
				   "the server has not answered for %d s; if it is only slow, raise --receive-timeout",
				   c->silence_ms / 1000);
}

static void on_watch(void *ctx)
{
	struct pgconn *c = ctx;
	struct err err;
	if (c->lost || !c->expecting) return;
	if (!check_silence(c, &err))
		lose_because(c, &err);
	else
		loop_timer_set(c->watch, c->heard_us + c->silence_ms * INT64_C(1000) - loop_now_us());
}

void pgconn_expect(struct pgconn *c, bool expect)
{
	if (expect && !c->expecting) {
		c->heard_us = loop_now_us();
		loop_timer_set(c->watch, c->silence_ms * INT64_C(1000));
	}
	c->expecting = expect;
}

static void on_poll(uv_poll_t *poll, int status, int events);

static void poll_for(struct pgconn *c, int events)
{
	if (c->polled_for == events || c->poll == NULL) return;
	c->polled_for = events;
	if (events == 0)
		uv_poll_stop(c->poll);
	else
		uv_poll_start(c->poll, events, on_poll);
}

static void free_poll(uv_handle_t *handle)
{
	free(handle);
}

static void poll_close(struct pgconn *c)
{
	if (c->poll != NULL) {
		uv_poll_stop(c->poll);
		uv_close((uv_handle_t *)c->poll, free_poll);
	}
	c->poll = NULL;
	c->polled_for = 0;
}

/* libpq may change its socket at any step of connecting, even keeping the number: always make a new handle.
 */
static bool poll_renew(struct pgconn *c, struct err *err)
{
	poll_close(c);
	c->poll = malloc(sizeof *c->poll);
	if (c->poll == NULL) return err_set(err, ERR_NOMEM, "out of memory");
	int rc = uv_poll_init(&c->loop->uv, c->poll, PQsocket(c->pg));
	if (rc != 0) {
		free(c->poll);
		c->poll = NULL;
		return err_set(err, ERR_RETRY, "watching the socket: %s", uv_strerror(rc));
	}
	c->poll->data = c;
	return true;
}

static void take_input(struct pgconn *c)
{
	if (PQconsumeInput(c->pg) == 0) {
		lose(c);
		return;
	}
	if (c->events.on_input != NULL) c->events.on_input(c->events.ctx);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
	struct pgconn *c = poll->data;
	c->progress = true;
	if (events & UV_READABLE) c->heard_us = loop_now_us();
	if (PQstatus(c->pg) != CONNECTION_OK) return; /* connecting: pgconn_open() looks itself */
	if (events & UV_WRITABLE)
		if (!pgconn_flush(c)) return;
	if (status < 0 || (events & UV_READABLE)) take_input(c);
}

static int wanted(const struct pgconn *c, bool flushing)
{
	return (c->paused || c->resting ? 0 : UV_READABLE) | (flushing ? UV_WRITABLE : 0);
}

bool pgconn_flush(struct pgconn *c)
{
	if (c->lost) return false;
	int rc = PQflush(c->pg);
	if (rc < 0) {
		lose(c);
		return false;
	}
	poll_for(c, wanted(c, rc == 1));
	return true;
}

static void on_again(void *ctx)
{
	struct pgconn *c = ctx;
	c->resting = false;
	if (c->lost || c->paused) return;
	poll_for(c, wanted(c, c->polled_for & UV_WRITABLE));
	take_input(c);
}

void pgconn_again(struct pgconn *c)
{
	loop_timer_set(c->again, 0);
}

void pgconn_rest(struct pgconn *c)
{
	if (c->paused || c->lost) return;
	c->resting = true;
	poll_for(c, wanted(c, c->polled_for & UV_WRITABLE));
	loop_timer_set(c->again, REST_US);
}

void pgconn_pause(struct pgconn *c)
{
	if (c->paused || c->lost) return;
	c->paused = true;
	poll_for(c, c->polled_for & UV_WRITABLE);
}

void pgconn_resume(struct pgconn *c)
{
	if (!c->paused || c->lost) return;
	c->paused = false;
	poll_for(c, wanted(c, c->polled_for & UV_WRITABLE));
	/* Messages left in libpq's buffer, and bytes inside TLS, are announced by nobody. */
	pgconn_again(c);
}

void pgconn_listen(struct pgconn *c, const struct pgconn_events *events)
{
	c->events = *events;
	poll_for(c, wanted(c, false));
	pgconn_again(c);
}

/* ---- connecting ---- */

/*
 * The user's own options= stay, ours come behind and win. What waits for a lock answers before we take it for
 * silent; making a slot is a wait for locks, and ends by itself.
 */
static char *merge_options(const char *conninfo, int lock_timeout_ms)
{
	char *error = NULL;
	PQconninfoOption *parsed = PQconninfoParse(conninfo, &error);
	PQfreemem(error);
	const char *theirs = getenv("PGOPTIONS");
	for (PQconninfoOption *o = parsed; o != NULL && o->keyword != NULL; o++)
		if (strcmp(o->keyword, "options") == 0 && o->val != NULL) theirs = o->val;
	size_t n = (theirs != NULL ? strlen(theirs) : 0) + sizeof pinned_options + 40;
	char *merged = malloc(n);
	if (merged != NULL)
		snprintf(merged, n, "%s%s%s -c lock_timeout=%d", theirs != NULL ? theirs : "",
				 theirs != NULL ? " " : "", pinned_options, lock_timeout_ms);
	PQconninfoFree(parsed);
	return merged;
}

/* TCP's own watch over the connection; it also sees a dead peer while a statement runs for long. */
struct tcp_words {
	char idle[12], interval[12], user_timeout[12];
};

static void put_seconds(char *out, size_t size, int ms)
{
	snprintf(out, size, "%d", ms < 1000 ? 1 : ms / 1000);
}

static PGconn *start(const char *conninfo, bool replication, int silence_ms)
{
	char *options = merge_options(conninfo, replication ? 0 : silence_ms / 2);
	struct tcp_words tcp;
	if (options == NULL) return NULL;
	put_seconds(tcp.idle, sizeof tcp.idle, silence_ms / 2);
	put_seconds(tcp.interval, sizeof tcp.interval, silence_ms / 6);
	snprintf(tcp.user_timeout, sizeof tcp.user_timeout, "%d", silence_ms);
	/* What stands before dbname (the whole conninfo) is a default only; what comes behind it wins. */
	const char *const keywords[] = {"application_name",
									"keepalives_idle",
									"keepalives_interval",
									"keepalives_count",
									"tcp_user_timeout",
									"dbname",
									"options",
									"client_encoding",
									"gssencmode",
									replication ? "replication" : NULL,
									NULL};
	const char *const values[] = {"tidemark",       tcp.idle,   tcp.interval, "3",
								  tcp.user_timeout, conninfo,   options,      "UTF8",
								  "disable",        "database", NULL};
	PGconn *pg = PQconnectStartParams(keywords, values, 1);
	free(options);
	return pg;
}

static int connect_timeout_ms(const PGconn *pg, int silence_ms)
{
	int ms = silence_ms < CONNECT_MS_MAX ? silence_ms : CONNECT_MS_MAX;
	PQconninfoOption *all = PQconninfo((PGconn *)(uintptr_t)pg);
	for (PQconninfoOption *o = all; o != NULL && o->keyword != NULL; o++)
		if (strcmp(o->keyword, "connect_timeout") == 0 && o->val != NULL && atoi(o->val) > 0)
			ms = atoi(o->val) * 1000;
	PQconninfoFree(all);
	return ms;
}

static bool connect_steps(struct pgconn *c, struct err *err)
{
	int64_t deadline_us = loop_now_us() + connect_timeout_ms(c->pg, c->silence_ms) * INT64_C(1000);
	PostgresPollingStatusType want = PGRES_POLLING_WRITING;
	while (want != PGRES_POLLING_OK) {
		int64_t left_us = deadline_us - loop_now_us();
		if (!poll_renew(c, err)) return false;
		poll_for(c, want == PGRES_POLLING_READING ? UV_READABLE : UV_WRITABLE);
		c->progress = false;
		if (!loop_wait(c->loop, &c->progress, left_us < 0 ? 0 : (int)(left_us / 1000), err))
			return err->kind == ERR_STOPPED ? false
											: err_set(err, ERR_RETRY, "the server did not answer in time");
		want = PQconnectPoll(c->pg);
		if (want == PGRES_POLLING_FAILED) return err_of_connect(err, c->pg);
	}
	return poll_renew(c, err);
}

bool pgconn_open(struct loop *l, const char *conninfo, bool replication, int silence_ms, struct pgconn **out,
				 struct err *err)
{
	struct pgconn *c = calloc(1, sizeof *c);
	if (c == NULL) return err_set(err, ERR_NOMEM, "out of memory");
	c->loop = l;
	c->silence_ms = silence_ms;
	c->again = loop_timer_create(l, on_again, c);
	c->watch = loop_timer_create(l, on_watch, c);
	c->pg = start(conninfo, replication, silence_ms);
	if (c->pg == NULL) {
		err_set(err, ERR_NOMEM, "out of memory");
		goto fail;
	}
	/* Conninfo mistakes show here; libpq's text can quote what was written, secrets included. */
	if (PQstatus(c->pg) == CONNECTION_BAD) {
		if (PQsocket(c->pg) < 0 && PQhost(c->pg) == NULL)
			err_set(err, ERR_CONFIG, "the connection string is not valid");
		else
			err_of_connect(err, c->pg);
		goto fail;
	}
	PQsetErrorVerbosity(c->pg, PQERRORS_VERBOSE);
	if (!connect_steps(c, err)) goto fail;
	PQsetErrorVerbosity(c->pg, PQERRORS_TERSE);
	PQsetnonblocking(c->pg, 1);
	*out = c;
	return true;
fail:
	pgconn_close(c);
	return false;
}

void pgconn_close(struct pgconn *c)
{
	if (c == NULL) return;
	c->events = (struct pgconn_events){.ctx = NULL};
	poll_close(c); /* before PQfinish closes the socket under it */
	loop_timer_free(c->again);
	loop_timer_free(c->watch);
	PQfinish(c->pg);
	free(c);
}

PGconn *pgconn_pg(const struct pgconn *c)
{
	return c->pg;
}

int pgconn_backend_pid(const struct pgconn *c)
{
	return PQbackendPID(c->pg);
}

/* ---- straight-line queries ---- */

void pgconn_on_wait(struct pgconn *c, pgconn_wait_fn on_wait, void *ctx)
{
	c->on_wait = on_wait;
	c->on_wait_ctx = ctx;
}

/* A second without news. False: it is not worth waiting any longer. */
static bool wait_on(struct pgconn *c, int64_t waited_us, struct err *err)
{
	return c->on_wait != NULL ? c->on_wait(c->on_wait_ctx, waited_us, err) : check_silence(c, err);
}

static bool wait_result(struct pgconn *c, struct err *err)
{
	int64_t started_us = loop_now_us();
	c->heard_us = started_us;
	for (;;) {
		if (PQconsumeInput(c->pg) == 0) return err_of_result(err, c, NULL);
		if (PQisBusy(c->pg) == 0) return true;
		if (!pgconn_flush(c)) return err_of_result(err, c, NULL);
		c->progress = false;
		if (loop_wait(c->loop, &c->progress, c->silence_ms < 1000 ? c->silence_ms : 1000, err)) continue;
		if (err->kind == ERR_STOPPED || !wait_on(c, loop_now_us() - started_us, err)) return false;
	}
}

static bool status_is_good(ExecStatusType s)
{
	return s == PGRES_COMMAND_OK || s == PGRES_TUPLES_OK || s == PGRES_COPY_BOTH;
}

/* Takes the first result; a connection that entered copy mode has no end-of-results to wait for. */
static bool take_results(struct pgconn *c, PGresult **out, struct err *err)
{
	PGresult *first = NULL;
	for (;;) {
		if (!wait_result(c, err)) {
			PQclear(first);
			return false;
		}
		PGresult *r = PQgetResult(c->pg);
		if (r == NULL) break;
		if (first == NULL)
			first = r;
		else
			PQclear(r);
		if (PQresultStatus(first) == PGRES_COPY_BOTH) break;
	}
	if (first == NULL || !status_is_good(PQresultStatus(first))) {
		err_of_result(err, c, first);
		PQclear(first);
		return false;
	}
	*out = first;
	return true;
}

bool pgconn_query(struct pgconn *c, const char *sql, int nparams, const char *const *params, PGresult **out,
				  struct err *err)
{
	assert(c->events.on_input == NULL);
	int sent = nparams == 0 ? PQsendQuery(c->pg, sql)
							: PQsendQueryParams(c->pg, sql, nparams, NULL, params, NULL, NULL, 0);
	if (!sent || !pgconn_flush(c)) return err_of_result(err, c, NULL);
	return take_results(c, out, err);
}

/* ---- quoting: client_encoding is UTF8 and standard_conforming_strings is not assumed ---- */

static char *quote(const char *text, char mark, const char *prefix, bool escape)
{
	size_t n = strlen(text);
	char *out = malloc(strlen(prefix) + 2 * n + 3), *p = out;
	if (out == NULL) abort();
	p = stpcpy(p, prefix);
	*p++ = mark;
	for (; *text != '\0'; text++) {
		if (*text == mark || (escape && *text == '\\')) *p++ = *text;
		*p++ = *text;
	}
	*p++ = mark;
	*p = '\0';
	return out;
}

char *quote_identifier(const char *name)
{
	return quote(name, '"', "", false);
}

char *quote_literal(const char *text)
{
	bool escape = strchr(text, '\\') != NULL;
	return quote(text, '\'', escape ? "E" : "", escape);
}

char *quote_replication_literal(const char *text)
{
	return quote(text, '\'', "", false);
}
