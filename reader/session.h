/*
 * reader/session.h - one attachment to the source, from connecting to the end
 * of the stream. The store is the only thing that outlives it: a new session
 * continues from what is committed there.
 */
#ifndef READER_SESSION_H
#define READER_SESSION_H

#include "reader/attach.h"
#include "reader/requests.h"
#include "state/store.h"

enum snapshot_mode { SNAPSHOT_INITIAL, SNAPSHOT_NEVER, SNAPSHOT_ALWAYS, SNAPSHOT_ONLY };
enum until_kind { UNTIL_NEVER, UNTIL_CAUGHT_UP, UNTIL_LSN };

struct session_config {
	struct attach_config attach;
	struct store *store;
	struct requests *requests; /* what is asked of the daemon while it runs; outlives the session */
	const char *source_display;
	enum snapshot_mode snapshot;
	enum until_kind until;
	lsn_t until_lsn;
	uint32_t chunk_rows_max;
	int chunk_time_ms;
	bool message_signals;                  /* logical messages of the source are asked for */
	const struct table_name *signal_table; /* so are rows inserted into it; NULL = none */
	int connections;                       /* that chunks are read on, at most */
	int64_t marker_retention_us;           /* delete markers younger than this are kept */
	size_t memory;                         /* bytes for everything that grows */
};

struct session_result {
	bool streamed;    /* it got as far as streaming: backoff starts anew */
	bool undecodable; /* the server failed inside while it decoded */
	bool reattach;    /* it ended to take in a change of a table: go on at once */
};

/*
 * True: what `until` asks for is reached, everything durable and acknowledged.
 * False: err; ERR_STOPPED after a signal, equally finished and acknowledged; ERR_RETRY and ERR_DISK
 * deserve another session.
 */
bool session_run(struct loop *l, const struct session_config *config, struct session_result *result,
				 struct err *err);

#endif
