/*
 * tests/fuzz/rig.h - the daemon without sockets, threads and a clock: the real
 * plan, changes, copier and applier, put together as reader/session.c does, on
 * a store in memory. The fuzzer plays the server.
 *
 * A refused message or reply ends the session as a lost connection would; the
 * next call begins another from what the store says.
 */
#ifndef TESTS_FUZZ_RIG_H
#define TESTS_FUZZ_RIG_H

#include "reader/changes.h"
#include "reader/stored.h"
#include "snapshot/copier.h"
#include "tests/fuzz/audit.h"

#define RIG_TABLES 8

/* What the source's catalog says at the start of a session. */
struct rig_catalog {
	uint8_t present;            /* a bit for each table of source.h */
	uint8_t shapes[RIG_TABLES]; /* of source.h */
	uint8_t added;              /* a bit for each that came into the publication now */
	uint64_t read_at;
	const char *gate, *added_gate; /* pg_snapshot texts, any text, or NULL */
	bool always;                   /* --snapshot always */
};

struct rig {
	struct store *store;
	struct applier *applier;
	struct changes *changes;
	struct copier *copier;
	struct stored stored;
	struct batch *head, **tail;          /* the queue to the applier */
	const struct chunk_request *request; /* unanswered */
	int64_t now_us;
	struct audit audit;
};

void rig_open(struct rig *r); /* on an empty store; no session yet */
void rig_close(struct rig *r);

bool rig_is_running(const struct rig *r);
void rig_begin(struct rig *r, const struct rig_catalog *catalog);
/* finish: what was received up to the last whole transaction is applied; otherwise it is as after kill -9. */
void rig_end(struct rig *r, bool finish);

/* The server's side. All may end the session. */
void rig_message(struct rig *r, struct slice payload);
void rig_position(struct rig *r, uint64_t wal_end);
void rig_snapshot(struct rig *r, const char *text, bool standby, uint64_t high);
void rig_row(struct rig *r, const struct slice *texts, size_t n);
void rig_chunk_end(struct rig *r, int64_t elapsed_us);
void rig_chunk_failed(struct rig *r, enum chunk_failure why);

/* Ours. */
void rig_ask(struct rig *r); /* sets request, if there is something to ask and none is unanswered */
void rig_start_run(struct rig *r, uint32_t table_id, bool sweep, const char *gate);
void rig_store_position(struct rig *r);
/* Applies what is queued, commits where it can, audits, and hands the answers to the copier. */
void rig_settle(struct rig *r);

#endif
