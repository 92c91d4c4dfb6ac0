#include "reader/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reader/lineage.h"
#include "reader/publication.h"

enum {
	PASS_MESSAGES = 4096,   /* messages a turn of the loop, so that timers and the other socket get theirs */
	STATUS_US = 1000000,    /* status at least this often, far below any sane wal_sender_timeout */
	STATUS_MIN_US = 100000, /* and at most this often for progress alone */
	FLOOD_US = 200,         /* a message in so much time, */
	FLOOD_MESSAGES = 32,    /* and so many more than that: read in gulps */
	SILENCE_ASK_PART = 6 /* after this part of the silence that means the end, ask whether anybody is there */
};

struct stream {
	struct pgconn *conn;
	const char *slot;
	struct stream_events events;
	struct loop_timer *timer;
	lsn_t durable, told;
	int64_t told_us, heard_us;
	int64_t dry_us; /* when the socket was empty last */
	int64_t flood;  /* messages that have come faster than FLOOD_US each, 0 to twice FLOOD_MESSAGES */
	bool paused, ended, undecodable;
	bool is_refused; /* by a notice, which may come anywhere inside libpq */
	struct err refused;
};

static void end(struct stream *s, const struct err *err)
{
	if (s->ended) return;
	s->ended = true;
	loop_timer_clear(s->timer);
	s->events.lost(s->events.ctx, err);
}

static void send_status(struct stream *s, bool ask)
{
	uint8_t status[REPL_STATUS_SIZE];
	if (s->ended) return;
	/* "Written" is what is durable too: while both are behind, the server keeps us informed of its position.
	 */
	repl_encode_status(status, s->durable, s->durable, s->durable, clock_now_us(), ask);
	PGconn *pg = pgconn_pg(s->conn);
	if (PQputCopyData(pg, (const char *)status, sizeof status) == 1) pgconn_flush(s->conn);
	s->told = s->durable;
	s->told_us = loop_now_us();
}

static void on_timer(void *ctx)
{
	struct stream *s = ctx;
	int64_t silent_us = loop_now_us() - s->heard_us, limit_us = pgconn_silence_ms(s->conn) * INT64_C(1000);
	if (s->ended) return;
	if (!s->paused && silent_us > limit_us) {
		struct err err;
		err_set(&err, ERR_RETRY, "the server has been silent for %d s", pgconn_silence_ms(s->conn) / 1000);
		end(s, &err);
		return;
	}
	send_status(s, !s->paused && silent_us > limit_us / SILENCE_ASK_PART);
	if (!s->ended) loop_timer_set(s->timer, STATUS_US);
}

void stream_acknowledge(struct stream *s, lsn_t durable)
{
	if (durable.v <= s->durable.v) return;
	s->durable = durable;
	int64_t wait_us = s->told_us + STATUS_MIN_US - loop_now_us();
	loop_timer_set(s->timer, wait_us > 0 ? wait_us : 0);
}

void stream_ask_position(struct stream *s)
{
	send_status(s, true);
}

void stream_say_goodbye(struct stream *s)
{
	send_status(s, false);
	if (!s->ended && PQputCopyEnd(pgconn_pg(s->conn), NULL) == 1) pgconn_flush(s->conn);
}

void stream_pause(struct stream *s)
{
	s->paused = true;
	pgconn_pause(s->conn);
}

void stream_resume(struct stream *s)
{
	s->paused = false;
	s->heard_us = loop_now_us(); /* the silence was ours */
	pgconn_resume(s->conn);
}

static bool take_message(struct stream *s, struct slice bytes, struct err *err)
{
	struct repl_msg m;
	if (!repl_decode(bytes, &m, err)) return false;
	if (m.kind == REPL_XLOG) return s->events.message(s->events.ctx, m.payload, err);
	s->events.position(s->events.ctx, m.wal_end);
	if (m.reply_requested) send_status(s, false);
	return true;
}

/* What the decoder refuses (a publication that is gone, at this point of history) it will refuse again. */
static void refuse_history(const struct stream *s, struct err *err, const char *what)
{
	err_set(err, ERR_GAP, "%s, so the changes from here on cannot be had: " LINEAGE_START_OVER, what,
			s->slot);
}

static bool is_internal(const PGresult *r)
{
	const char *state = r != NULL ? PQresultErrorField(r, PG_DIAG_SQLSTATE) : NULL;
	return state != NULL && strncmp(state, "XX", 2) == 0;
}

bool stream_was_undecodable(const struct stream *s)
{
	return s->undecodable;
}

/* The server ended the copy: its last words are a result. */
static void take_ending(struct stream *s, int rc)
{
	struct err err;
	PGresult *r = rc == -1 ? PQgetResult(pgconn_pg(s->conn)) : NULL;
	if (r != NULL && PQresultStatus(r) != PGRES_FATAL_ERROR)
		err_set(&err, ERR_RETRY, "the server ended the stream");
	else
		err_of_result(&err, s->conn, r);
	if (err.kind == ERR_CONFIG) refuse_history(s, &err, err.msg);
	s->undecodable = is_internal(r);
	PQclear(r);
	end(s, &err);
}

/*
 * The server sends message by message, so on a quick line we would be woken for each of them, and the server
 * have to do it. A transaction of a few rows is no flood: it is taken at once.
 */
static bool is_flood(struct stream *s, int messages)
{
	s->flood += messages - (s->heard_us - s->dry_us) / FLOOD_US;
	s->dry_us = s->heard_us;
	if (s->flood < 0) s->flood = 0;
	if (s->flood > 2 * FLOOD_MESSAGES) s->flood = 2 * FLOOD_MESSAGES;
	return s->flood >= FLOOD_MESSAGES;
}

static void dry(struct stream *s, int messages)
{
	if (s->ended) return;
	s->events.dry(s->events.ctx);
	if (!s->ended && !s->paused && is_flood(s, messages)) pgconn_rest(s->conn);
}

/* 0: there is none. In a flood that means the socket too, not only the 16 KiB that libpq takes of it at a
 * time. */
static int next_message(struct stream *s, char **bytes)
{
	PGconn *pg = pgconn_pg(s->conn);
	if (s->paused || s->ended) return 0;
	int n = PQgetCopyData(pg, bytes, 1);
	/* Lost meanwhile: libpq has closed its socket, so that nothing would tell us later. */
	if (n == 0 && s->flood >= FLOOD_MESSAGES) n = PQconsumeInput(pg) ? PQgetCopyData(pg, bytes, 1) : -2;
	return n;
}

static void on_input(void *ctx)
{
	struct stream *s = ctx;
	s->heard_us = loop_now_us();
	for (int i = 0; i < PASS_MESSAGES; i++) {
		char *bytes = NULL;
		int n = next_message(s, &bytes);
		if (s->is_refused) {
			PQfreemem(bytes);
			end(s, &s->refused);
			return;
		}
		if (n == 0) {
			dry(s, i);
			return;
		}
		if (n < 0) {
			take_ending(s, n);
			return;
		}
		struct err err;
		bool good = take_message(s, (struct slice){(const uint8_t *)bytes, (size_t)n}, &err);
		PQfreemem(bytes);
		if (!good) {
			end(s, &err);
			return;
		}
	}
	s->events.dry(s->events.ctx);
	pgconn_again(s->conn);
}

static void on_lost(void *ctx, const struct err *err)
{
	end(ctx, err);
}

/*
 * From version 18 on the server warns about a missing publication and goes on,
 * without its changes: for an exact copy that is the end.
 */
static void on_notice(void *ctx, const PGresult *r)
{
	struct stream *s = ctx;
	const char *function = PQresultErrorField(r, PG_DIAG_SOURCE_FUNCTION),
			   *text = PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY);
	if (function == NULL || strcmp(function, "LoadPublications") != 0) return;
	refuse_history(s, &s->refused, text != NULL ? text : "the publication is missing");
	s->is_refused = true;
}

static void ignore_notice(void *ctx, const PGresult *r)
{
	(void)ctx;
	(void)r;
}

/*
 * What a transaction takes beyond this the server writes to files first and reads again, which takes it
 * about a third of its time. Every role may set it; who has set it for this role, database or connection
 * knows better.
 */
static const char raise_decoding_memory[] =
	"SELECT pg_catalog.set_config(name, '256MB', false) FROM pg_catalog.pg_settings "
	"WHERE name = 'logical_decoding_work_mem' AND setting::int8 < 256 * 1024 "
	"AND source NOT IN ('client', 'user', 'database', 'database user')";

static bool prepare_session(struct pgconn *c, struct err *err)
{
	PGresult *r = NULL;
	if (!pgconn_query(c, raise_decoding_memory, 0, NULL, &r, err)) return false;
	PQclear(r);
	return true;
}

/* PostgreSQL splits publication_names as identifiers inside the literal. */
static char *start_command(const char *slot, const char *publication, lsn_t from)
{
	char text[LSN_TEXT_SIZE], *sql = NULL;
	char *slot_id = quote_identifier(slot), *publication_id = publication_identifiers(publication);
	char *names = quote_replication_literal(publication_id);
	if (asprintf(
			&sql,
			"START_REPLICATION SLOT %s LOGICAL %s (proto_version '1', publication_names %s, messages 'true')",
			slot_id, lsn_format(from, text), names) < 0)
		sql = NULL;
	free(names);
	free(publication_id);
	free(slot_id);
	return sql;
}

bool stream_start(struct loop *l, struct pgconn *c, const char *slot, const char *publication, lsn_t from,
				  const struct stream_events *events, struct stream **out, struct err *err)
{
	if (!prepare_session(c, err)) return false;
	char *sql = start_command(slot, publication, from);
	if (sql == NULL) return err_set(err, ERR_NOMEM, "out of memory");
	PGresult *r = NULL;
	bool good = pgconn_query(c, sql, 0, NULL, &r, err);
	free(sql);
	if (!good) return false;
	bool copying = PQresultStatus(r) == PGRES_COPY_BOTH;
	PQclear(r);
	if (!copying) return err_set(err, ERR_PROTOCOL, "START_REPLICATION: the server did not begin to stream");
	struct stream *s = calloc(1, sizeof *s);
	if (s == NULL) return err_set(err, ERR_NOMEM, "out of memory");
	s->conn = c;
	s->slot = slot;
	s->events = *events;
	s->durable = from;
	s->heard_us = loop_now_us();
	s->timer = loop_timer_create(l, on_timer, s);
	loop_timer_set(s->timer, STATUS_US);
	PQsetNoticeReceiver(pgconn_pg(c), on_notice, s);
	pgconn_listen(c, &(struct pgconn_events){.ctx = s, .on_input = on_input, .on_lost = on_lost});
	*out = s;
	return true;
}

void stream_stop(struct stream *s)
{
	if (s == NULL) return;
	s->ended = true;
	pgconn_listen(s->conn, &(struct pgconn_events){.ctx = NULL});
	PQsetNoticeReceiver(pgconn_pg(s->conn), ignore_notice, NULL);
	loop_timer_free(s->timer);
	free(s);
}
