/*
 * reader/requests.h - carries requests out, whether a session streams or not,
 * and says so once the result is durable.
 *
 *     direct   no session: straight into the store (recording.h)
 *     held     one begins: it is about to read the store's runs, and its apply
 *              thread is the writer. Requests wait
 *     live     it streams: the server finds fault with conditions first, then
 *              the copier queues the runs and the apply thread records them
 *
 * When a session ends, what it did not finish is begun again: every run has a name, so that nothing happens
 * twice. Loop thread.
 */
#ifndef READER_REQUESTS_H
#define READER_REQUESTS_H

#include "reader/outcome.h"
#include "reader/query.h"
#include "state/store.h"

struct requests;

/* A session that streams. */
struct requests_session {
	void *ctx;
	struct copier *copier;
	struct query *query;
	bool (*between)(void *ctx); /* no source transaction is open */
	bool (*replicates)(void *ctx, uint32_t table_id);
	void (*emit)(void *ctx, struct batch *b); /* takes b; behind everything emitted so far */
};

struct requests *requests_create(struct store *store); /* direct. The store outlives it */
void requests_destroy(struct requests *q); /* what is under way is dropped silently; accepts NULL */

/*
 * Takes *r. done is called once, at once or later: with err NULL when all of it is durable. Neither outlives
 * the call.
 */
typedef void (*requests_done_fn)(void *ctx, const struct request *r, const struct outcome *o,
								 const struct err *err);
void requests_submit(struct requests *q, struct request *r, requests_done_fn done, void *ctx);

/*
 * At the end of a source transaction, when live: carries r out at once, without
 * asking the server about conditions: a run whose condition is bad fails. Nobody is told but the log. Does
 * not take r.
 */
bool requests_make_now(struct requests *q, const struct request *r, struct err *err);

/* ---- for the session ---- */
void requests_hold(struct requests *q);
void requests_go_live(struct requests *q, const struct requests_session *s);
void requests_go_direct(struct requests *q);
/* Between source transactions: there may be something to do. */
void requests_turn(struct requests *q);
/* An OP_BARRIER was answered; commits: worker_status.commits, taken after that. False: it is not one of
 * these. */
bool requests_answered(struct requests *q, uint64_t token, uint64_t commits);
void requests_durable(struct requests *q, uint64_t durable_commits);
/* Now and then: logs requested runs that have ended. */
void requests_watch(struct requests *q);

#endif
