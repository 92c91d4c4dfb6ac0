/*
 * tests/sim/walsender.h - the slot and the sender that decodes it: whole
 * transactions in commit order, each once it is flushed, visible or not.
 *
 * Like the real one it checks nothing: an acknowledgement that is too high is
 * stored, and a start below confirmed_flush is moved forward without a word.
 */
#ifndef SIM_WALSENDER_H
#define SIM_WALSENDER_H

#include "tests/sim/source.h"

enum wal_kind { WAL_BEGIN, WAL_CHANGE, WAL_COMMIT, WAL_KEEPALIVE };

struct wal_message {
	enum wal_kind kind;
	const struct src_tx *tx;        /* not WAL_KEEPALIVE */
	const struct src_event *change; /* WAL_CHANGE */
	lsn_t wal_end;                  /* WAL_KEEPALIVE */
};

struct walsender {
	struct source *source;
	bool send_empty;         /* as PostgreSQL 14: transactions without published changes are sent too */
	lsn_t confirmed;         /* the slot's confirmed_flush */
	lsn_t read;              /* every commit below was sent or skipped */
	const struct src_tx *tx; /* being sent */
	size_t event;            /* the next of tx */
};

/* A slot whose first transaction is the next to commit; its exported snapshot. */
void walsender_create_slot(struct walsender *w, struct source *s, bool send_empty,
						   char snapshot[SRC_SNAPSHOT_SIZE]);
/* START_REPLICATION. */
void walsender_start(struct walsender *w, lsn_t from);
void walsender_acknowledge(struct walsender *w, lsn_t durable);

/* The next message of the decoded WAL; false: nothing more is flushed. */
bool walsender_next(struct walsender *w, struct wal_message *out);
void walsender_keepalive(const struct walsender *w, struct wal_message *out);
/* Nothing that is flushed is left to send. */
bool walsender_is_dry(const struct walsender *w);

#endif
