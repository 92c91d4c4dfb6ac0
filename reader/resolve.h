/*
 * reader/resolve.h - a request looked up in the store: which tables and runs
 * it means, its keys in the form that runs keep, and whether all of that can be.
 *
 * What only the source can tell (whether a condition is good SQL, the order of its texts) is not
 * checked here. Results live until resolved_finish(); where_sql until the request's end.
 */
#ifndef READER_RESOLVE_H
#define READER_RESOLVE_H

#include "reader/request.h"
#include "snapshot/copier.h"
#include "state/store.h"

/* Runs that were accepted and may not be in the store yet. */
struct fresh_run {
	uint64_t id;
	uint32_t table_id;
	char *name;
};
struct fresh_runs {
	struct fresh_run *v;
	size_t n;
};

/* A run to start. */
struct wanted_run {
	uint32_t table_id;
	const char *display; /* the table */
	uint64_t existing;   /* the run of that name on that table, open or ended; 0 = there is none */
	uint8_t existing_state;
	const char *where_sql;
	struct slice from, to; /* as in run_record */
	struct slice keys;     /* as in OP_RUN_KEYS */
	uint64_t listed;
	enum sweep_mode sweep;
};

/* A run to pause, resume or stop: an open one. */
struct found_run {
	uint64_t id;
	uint32_t table_id;
	const char *display;
	uint8_t state, resumes_as; /* as in run_record */
};

struct resolved {
	struct wanted_run *wanted; /* of a start, one for each table */
	size_t nwanted;
	struct found_run *found; /* of the others */
	size_t nfound;
	uint64_t next_run_id; /* lowest unused, fresh ones included */
	struct arena arena;
};

/* fresh may be NULL. ERR_CONFIG says what the asker has to change. */
bool resolve(struct store_txn *t, const struct request *r, const struct fresh_runs *fresh,
			 struct resolved *out, struct err *err);
/* As the copier and the store are asked for it; lives as long as both. */
struct run_request resolved_run(const struct request *r, const struct wanted_run *w);
void resolved_finish(struct resolved *r); /* accepts zeroed memory */

#endif
