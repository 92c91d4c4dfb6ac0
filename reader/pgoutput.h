/*
 * reader/pgoutput.h - decode one pgoutput message (protocol version 1), and
 * the replication messages that carry it.
 *
 * Pure: no I/O, no allocation. Pointers in the result point into the caller's
 * bytes and scratch and die with them. Any thread. Bytes that do not fit
 * give ERR_PROTOCOL; nothing is asserted.
 */
#ifndef READER_PGOUTPUT_H
#define READER_PGOUTPUT_H

#include "state/bytes.h"
#include "state/err.h"
#include "state/pos.h"

#define PGO_COLUMNS_MAX 1664 /* PostgreSQL's MaxTupleAttributeNumber */

enum pgo_kind {
	PGO_BEGIN = 'B',
	PGO_COMMIT = 'C',
	PGO_ORIGIN = 'O',
	PGO_RELATION = 'R',
	PGO_TYPE = 'Y',
	PGO_INSERT = 'I',
	PGO_UPDATE = 'U',
	PGO_DELETE = 'D',
	PGO_TRUNCATE = 'T',
	PGO_MESSAGE = 'M'
};

struct pgo_cell {
	char kind;         /* 'n' NULL (in a 'K' old tuple: not sent), 'u' unchanged TOAST, 't' text */
	struct slice text; /* 't' only */
};

struct pgo_tuple {
	uint16_t n;
	struct pgo_cell *cells; /* in scratch */
};

struct pgo_column {
	bool key; /* part of the replica identity */
	const char *name;
	uint32_t type_oid;
	int32_t typmod;
};

struct pgo_scratch {
	struct pgo_cell old_cells[PGO_COLUMNS_MAX], new_cells[PGO_COLUMNS_MAX];
	struct pgo_column columns[PGO_COLUMNS_MAX];
	uint32_t relations[PGO_COLUMNS_MAX];
};

struct pgo_msg {
	enum pgo_kind kind;
	union {
		struct {
			lsn_t commit_lsn;
			int64_t commit_time_us;
			uint32_t xid;
		} begin; /* time: microseconds since 1970 UTC */
		struct {
			lsn_t commit_lsn, end_lsn;
			int64_t commit_time_us;
		} commit;
		struct {
			uint32_t oid;
			const char *schema_name; /* "" means pg_catalog */
			const char *name;
			char identity;
			uint16_t n;
			const struct pgo_column *columns;
		} relation;
		struct {
			uint32_t oid;
			char old_kind; /* 0, 'K' or 'O' */
			struct pgo_tuple old_tuple, new_tuple;
		} change; /* I U D; unused tuples have n = 0 */
		struct {
			uint32_t n;
			const uint32_t *oids;
			bool cascade, restart_identity;
		} truncate;
		struct {
			bool transactional;
			lsn_t lsn;
			const char *prefix;
			struct slice content;
		} message;
	} u;
};

/* TRUNCATE of more than PGO_COLUMNS_MAX relations in one message is ERR_PROTOCOL. */
bool pgo_decode(struct slice bytes, struct pgo_scratch *scratch, struct pgo_msg *out, struct err *err);

/* ---- the CopyData messages of streaming replication ---- */
enum repl_kind { REPL_XLOG = 'w', REPL_KEEPALIVE = 'k' };
struct repl_msg {
	enum repl_kind kind;
	lsn_t start, wal_end; /* REPL_KEEPALIVE: wal_end only */
	bool reply_requested;
	struct slice payload; /* REPL_XLOG */
};
bool repl_decode(struct slice bytes, struct repl_msg *out, struct err *err);

#define REPL_STATUS_SIZE 34
/* A standby status update: write, flush and apply positions; now_us microseconds since 1970 UTC. */
void repl_encode_status(uint8_t out[REPL_STATUS_SIZE], lsn_t write, lsn_t flush, lsn_t apply, int64_t now_us,
						bool reply_requested);

#endif
