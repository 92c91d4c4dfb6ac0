/*
 * tests/sim/session.h - the product's loop and worker as the simulator plays
 * them: stream messages become operations, batches wait in a queue, commits
 * come when chance says so, answers arrive late.
 *
 * A session lives from a start of the product to its end, by whatever cause.
 * It learns everything it knows from the store.
 */
#ifndef SIM_SESSION_H
#define SIM_SESSION_H

#include "apply/applier.h"
#include "snapshot/copier.h"
#include "tests/sim/judge.h"
#include "tests/sim/layout.h"
#include "tests/sim/sql.h"
#include "tests/sim/walsender.h"

#define SESSION_EPOCH 1
/* Connections; and one more chunk, asked for while the rows of another are still handed over. */
#define SESSION_SQL_MAX 3

/* What outlives a session; the history owns it. */
struct world {
	struct rng rng;
	struct trace trace;
	struct source source;
	struct walsender sender;
	struct layout layouts[SRC_TABLES_MAX];
	bool configured[SRC_TABLES_MAX]; /* the user wants the table */
	bool send_empty;
	unsigned replica_percent;         /* sessions that read chunks from a replica */
	bool replica_used;                /* some session has */
	bool late_high;                   /* windows may close in another order than they were asked for */
	struct judge judge, committed;    /* as of the last commit or start */
	struct ask asks[ASKS_MAX];        /* by run; what a crash took is overwritten by its successor */
	unsigned stage_percent;           /* source transactions that are taken for large ones */
	void (*before_commit)(void *ctx); /* of LMDB, when it will write */
	void *ctx;
	bool mend_later[SRC_TABLES_MAX]; /* a damaged table waits until the writers stop */
	int64_t now_us;
	struct copier_config copier_config;
};

struct session {
	struct world *w;
	struct store *store;
	struct applier *applier;
	struct copier *copier;
	struct sql sqls[SESSION_SQL_MAX + 1]; /* as many as the copier may ask at once */
	size_t nsqls;
	uint64_t mending[SRC_TABLES_MAX]; /* a run that puts right all of a damaged table; 0: none */
	uint64_t last_run;
	struct batch *held; /* operations not pushed yet */
	struct batch *queue, **queue_end;
	struct batch *current; /* being applied, */
	size_t at;             /* from this operation on */
	struct answer *answers, **answers_end;
	xid_t first_xid;  /* the next one when the session began */
	lsn_t skip_below; /* transactions committed below are in the store */
	lsn_t received;   /* every commit below has been received */
	lsn_t stored;     /* the position that the operations so far will leave in the store */
	lsn_t committed, durable;
	bool in_transaction, skipping, changed;
	uint64_t ordinal;
	bool doomed; /* the process is to be killed here */
};

/* Starts on an open store, which stays the caller's. Faults go to the trace. */
bool session_start(struct session *s, struct world *w, struct store *store);
/* Everything in memory is gone. Accepts zeroed memory. */
void session_kill(struct session *s);
/* As a disconnected product does: applies and commits what it can, then ends. */
void session_finish(struct session *s);

/* One message of the stream. */
void session_receive(struct session *s, const struct wal_message *m);
void session_push(struct session *s); /* what is held goes into the queue */
bool session_apply(
	struct session *s); /* one batch of it, or less where transactions are staged; false: empty */
bool session_can_commit(const struct session *s);
void session_commit(struct session *s); /* and the judge looks */
void session_sync(struct session *s);   /* what is committed becomes durable */
void session_acknowledge(struct session *s);
bool session_answer(struct session *s); /* one answer reaches the copier; false: none */
/* A step of a connection's chunk, or asks for one; false: nothing to ask. */
bool session_chunk(struct session *s, size_t i);
/* Only between source transactions. */
void session_start_run(struct session *s, int table, enum run_kind kind, bool sweep, const char *gate);
void session_add_table(struct session *s, int table);
/* What someone asks for: a run of the table, which may turn out to be one that is open. */
bool session_can_request(const struct session *s);
void session_request(struct session *s, const struct ask *a);
void session_pause(struct session *s, uint64_t run);
void session_resume(struct session *s, uint64_t run);
void session_stop(struct session *s, uint64_t run);
/* Whatever is paused goes on, and what is damaged is put right. */
void session_mend(struct session *s);
void session_purge(struct session *s); /* a step */
/* What a large transaction has left is moved on; false: there is none. */
bool session_move(struct session *s, size_t bytes);
bool session_is_between(const struct session *s);

#endif
