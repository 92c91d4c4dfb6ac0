/*
 * reader/pgconn.h - one libpq connection on the event loop.
 *
 * Two ways to use it, not at once:
 * - straight-line: pgconn_query() sends one statement and waits in the loop;
 * - evented: pgconn_listen() calls back whenever libpq has consumed bytes, and
 *   the owner takes results or copy data from pgconn_pg().
 *
 * Both kinds of connection pin the settings that decide a value's text form
 * (DESIGN section 10), whatever the role, the database or the conninfo say.
 * Errors carry the server's message without password or query parameters, and the kind follows from the
 * SQLSTATE.
 */
#ifndef READER_PGCONN_H
#define READER_PGCONN_H

#include <libpq-fe.h>

#include "reader/loop.h"

struct pgconn;

/*
 * Connects, waiting in the loop. silence_ms: for how long a server that owes us something may be silent, at
 * connecting (unless conninfo has a connect_timeout; at most 30 s), before an answer, and at the level of
 * TCP. Then the connection is lost: a cut line, a dropped NAT entry, or a stopped proxy closes nothing.
 */
bool pgconn_open(struct loop *l, const char *conninfo, bool replication, int silence_ms, struct pgconn **out,
				 struct err *err);
void pgconn_close(struct pgconn *c); /* accepts NULL; may be called from a callback */

PGconn *pgconn_pg(const struct pgconn *c);
int pgconn_backend_pid(const struct pgconn *c);
int pgconn_silence_ms(const struct pgconn *c);
void pgconn_set_silence(struct pgconn *c, int silence_ms);

/*
 * One statement; *out gets a result of status COMMAND_OK, TUPLES_OK or COPY_BOTH, to be
 * PQclear()ed. nparams = 0 sends it as a simple query, which is all a replication connection understands.
 * on_wait (may be NULL) is called about once a second while it has not answered. With one, silence is no
 * error: it may take as long as on_wait returns true; false with err gives up.
 */
bool pgconn_query(struct pgconn *c, const char *sql, int nparams, const char *const *params, PGresult **out,
				  struct err *err);
typedef bool (*pgconn_wait_fn)(void *ctx, int64_t waited_us, struct err *err);
void pgconn_on_wait(struct pgconn *c, pgconn_wait_fn on_wait, void *ctx);

/*
 * Evented: on_input after bytes were consumed (results may be ready), on_lost when the connection is gone.
 * After on_lost nothing is called any more.
 */
struct pgconn_events {
	void *ctx;
	void (*on_input)(void *ctx);
	void (*on_lost)(void *ctx, const struct err *err);
};
void pgconn_listen(struct pgconn *c, const struct pgconn_events *events);
/* After queueing output in libpq: sends what the socket takes, the rest when it can. False: lost (on_lost was
 * called). */
bool pgconn_flush(struct pgconn *c);
/* Stop and go on reading the socket (back-pressure). Resuming also delivers what libpq or TLS already hold.
 */
void pgconn_pause(struct pgconn *c);
void pgconn_resume(struct pgconn *c);
/* Whether the server owes us an answer from now on; while it does, silence means that the connection is lost.
 */
void pgconn_expect(struct pgconn *c, bool expect);
bool pgconn_was_silent(const struct pgconn *c); /* that is how it was lost */
/* Call on_input again soon although the socket is quiet: the owner left messages in libpq's buffer. */
void pgconn_again(struct pgconn *c);
/* Leave the socket alone for a millisecond, then call on_input with all that has come: for an owner that is
 * woken for every few bytes of a flood. */
void pgconn_rest(struct pgconn *c);

/* ---- errors ---- */
/* Sets err from a failed result (never NULL's kind: a NULL result means the connection's own error). Always
 * false. */
bool err_of_result(struct err *err, const struct pgconn *c, const PGresult *r);

/* "\"a\"\"b\"": an identifier quoted; caller frees. */
char *quote_identifier(const char *name);
/* A literal, E'' form when needed; caller frees. */
char *quote_literal(const char *text);
/* The same for a replication command, whose grammar knows no escapes. */
char *quote_replication_literal(const char *text);

#endif
