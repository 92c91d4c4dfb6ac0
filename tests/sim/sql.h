/*
 * tests/sim/sql.h - an SQL connection: answers one chunk request in steps,
 * between which everything else goes on.
 *
 *     asked -> table locked, snapshot S taken -> H read, committed -> reply: S and H, rows one by one, end
 */
#ifndef SIM_SQL_H
#define SIM_SQL_H

#include "snapshot/copier.h"
#include "tests/sim/ask.h"
#include "tests/sim/layout.h"
#include "tests/sim/source.h"

enum sql_phase { SQL_IDLE, SQL_LOCKING, SQL_READING, SQL_REPLYING };

struct sql_row {
	size_t number; /* CHUNK_SCOPED: of the stored row */
	int key;
	struct src_row row; /* version 0: the source has none */
};

/* Stored rows may be more than the source has keys. */
#define SQL_ROWS_MAX 64

struct sql {
	struct source *source;
	const struct layout *layouts;
	struct ask *asks; /* by run */
	struct src_view view;
	bool late_high;
	enum sql_phase phase;
	const struct chunk_request *request;
	const struct layout *layout; /* NULL: a probe */
	struct ask scope;            /* of the request's run */
	char snapshot[SRC_SNAPSHOT_SIZE];
	lsn_t high;
	bool announced; /* S and H were handed over */
	bool told;      /* that all rows have come */
	bool refused;   /* the condition cannot be evaluated */
	struct sql_row rows[SQL_ROWS_MAX];
	int n, next;
	int64_t asked_us;
};

void sql_init(struct sql *q, struct source *s, const struct layout *layouts, struct ask *asks,
			  struct src_view view, bool late_high);
/* The connection is gone, and with it its locks. */
void sql_drop(struct sql *q);
void sql_ask(struct sql *q, const struct chunk_request *r, int64_t now_us);
/* One step of the answer; faults of the copier go to the trace. */
void sql_step(struct sql *q, struct copier *c, int64_t now_us);
/* The server refuses or the connection breaks. */
void sql_fail(struct sql *q, struct copier *c, enum chunk_failure why, int64_t now_us);

#endif
