/*
 * reader/request.h - what someone asks for: runs to start, pause, resume or
 * stop. As JSON it comes from control.sock (CONTROL.md) or from the source
 * (signal.h); the command line writes it (cmd_snapshot.c).
 *
 * Pure: what is read here may still name tables and runs that do not exist
 * (resolve.h). One owner, any thread. Texts live as long as the request.
 */
#ifndef READER_REQUEST_H
#define READER_REQUEST_H

#include "state/bytes.h"
#include "state/record.h"

struct json_t; /* jansson's; its header does not go with reader/json.h */

#define REQUEST_KEYS_MAX     100000
#define REQUEST_BYTES_MAX    (8 * 1024 * 1024) /* of a request as JSON */
#define REQUEST_ID_MAX       200
#define REQUEST_CHUNK_MS_MAX 60000
#define REQUEST_RATE_MAX     1000000000

enum request_verb { REQUEST_START, REQUEST_PAUSE, REQUEST_RESUME, REQUEST_STOP };

struct request_key {
	const char **values; /* texts of the key columns, in the order of the key */
	size_t n;
};

struct request_table {
	const char *name;  /* as people write it (names.h) */
	const char *where; /* "" = no condition */
};

struct request {
	enum request_verb verb;
	const char *id;        /* of a start: the name of its runs; NULL = none was given */
	const char *requester; /* NULL = not said */
	/* Of a start. */
	struct request_table *tables;
	size_t ntables;
	struct request_key from, to; /* n = 0: none */
	struct request_key *keys;
	size_t nkeys;
	bool has_sweep; /* false: as is usual for the scope */
	enum sweep_mode sweep;
	uint32_t chunk_time_ms, rows_per_second; /* 0 = the daemon's own */
	/* Of the others: ids of runs, their numbers, or tables. */
	const char **targets;
	size_t ntargets;
	bool all; /* every open run instead */

	struct json_t *json; /* owns most texts */
	struct arena arena;  /* the rest */
};

/* ERR_CONFIG: not JSON, or not a request; says what is wrong with it. */
bool request_parse(struct slice text, struct request *out, struct err *err);
/* The same of a value that is there already. */
bool request_of_json(struct json_t *object, struct request *out, struct err *err);
void request_finish(struct request *r); /* accepts zeroed memory */

/* An id for a request that has none: no other has it. */
void request_make_id(struct request *r, int64_t now_us);
/* Copies id, which becomes the name of the runs. */
void request_set_id(struct request *r, const char *id);
void request_set_requester(struct request *r, const char *requester);
/* An id may not be empty, overlong, a number (of a run), or have characters that move a cursor. */
bool request_check_id(const char *id, struct err *err);

const char *request_verb_name(enum request_verb verb); /* "start" */

#endif
