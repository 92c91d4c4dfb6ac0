/*
 * reader/attach.h - from two connection strings to a slot that may be
 * streamed: connect, check that the server can do it, the lineage gate,
 * tables, publication, slot. Everything that can be refused is refused before
 * anything is created on the server.
 */
#ifndef READER_ATTACH_H
#define READER_ATTACH_H

#include "reader/alteration.h"
#include "reader/catalog.h"
#include "reader/stored.h"

/*
 * What one attachment leaves to the next. A connection given up on our side may live on
 * at the server, with the slot or with a statement; the next attachment ends what it was. The store keeps
 * `backends` for the next process, should this one be killed.
 */
struct attach_memory {
	char *backends;     /* of the last attachment, an SQL array of "pid start time"; NULL = none */
	bool unanswered;    /* its SQL connection was given up while the server owed an answer */
	int sql_silence_ms; /* patience with the SQL connection: doubled whenever the server turned out to be busy
						 */
};

void attach_memory_finish(struct attach_memory *m);

struct attach_config {
	const char *source; /* conninfo; may hold secrets */
	int silence_ms;     /* pgconn.h */
	struct attach_memory *memory;
	const char *slot, *publication;
	const struct name_patterns *tables;
	enum on_schema_change on_schema_change;
	bool skip_unsupported; /* refused tables are logged and left out */
};

struct attachment {
	struct pgconn *sql, *repl; /* repl is ready for START_REPLICATION */
	struct attach_memory *memory;
	enum on_schema_change on_schema_change;
	uint64_t system_id;
	uint32_t timeline;
	uint32_t server_version;
	struct source_tables tables;
	lsn_t start; /* where to stream from: the checkpoint, or the slot's start when the store is fresh */
	bool slot_created;
	xid_t xid_near; /* a recent 64-bit xid */
	/* pg_snapshot texts that a chunk's snapshot must cover (DESIGN 5, first attach). */
	char *gate;       /* for tables that start with the slot (fresh store) */
	char *added_gate; /* for tables that came into the publication now; NULL when none did */
	bool *added;      /* parallel to tables.v: came into the publication now */
};

/* stored decides what the gate compares with; it is not changed. */
bool attach(struct loop *l, const struct attach_config *config, const struct stored *stored,
			struct attachment *out, struct err *err);
void attachment_finish(struct attachment *a); /* closes the connections; accepts zeroed memory */

#endif
