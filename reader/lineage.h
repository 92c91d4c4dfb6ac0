/*
 * reader/lineage.h - the gate before streaming: is this server's history the
 * one the store was made from, and is all of it still there? (DESIGN section 9)
 *
 * Pure. A refusal is ERR_GAP: one sentence that says what does not fit and
 * what to do.
 */
#ifndef READER_LINEAGE_H
#define READER_LINEAGE_H

#include "reader/catalog.h"
#include "state/record.h"

/* What is left to do when history is gone; takes the slot's name. */
#define LINEAGE_START_OVER                                                                                   \
	"start over with an empty --store directory, after dropping the slot on the server if it exists: "       \
	"SELECT pg_drop_replication_slot('%s')"

struct server_state {
	uint64_t system_id;
	uint32_t timeline;
	lsn_t position;      /* flushed WAL of the server */
	const char *history; /* content of TIMELINE_HISTORY; NULL on timeline 1 */
	const char *slot;    /* its name, for messages */
	struct slot_state slot_state;
};

bool lineage_gate(const struct lineage *ours, const struct checkpoint *checkpoint,
				  const struct server_state *server, struct err *err);

#endif
