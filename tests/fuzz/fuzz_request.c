/*
 * What someone asks for, as JSON from a socket or a table of the source: any bytes are a request
 * within its bounds, or are refused with a sentence that can be shown.
 */
#include "reader/request.h"
#include "tests/fuzz/fuzz.h"

static void check_key(const struct request_key *k)
{
	CHECK_THAT(k->n > 0, "a key of no columns");
	for (size_t i = 0; i < k->n; i++)
		CHECK_THAT(k->values[i] && strlen(k->values[i]) <= REQUEST_BYTES_MAX, "value %zu", i);
}

static void check_scope(const struct request *r)
{
	CHECK_THAT(r->ntables > 0, "a start without a table");
	for (size_t i = 0; i < r->ntables; i++)
		CHECK_THAT(r->tables[i].name && r->tables[i].where, "table %zu", i);
	CHECK_THAT(r->nkeys <= REQUEST_KEYS_MAX, "%zu keys", r->nkeys);
	for (size_t i = 0; i < r->nkeys; i++)
		check_key(&r->keys[i]);
	if (r->from.n > 0) check_key(&r->from);
	if (r->to.n > 0) check_key(&r->to);
	CHECK_THAT(r->nkeys == 0 || (r->from.n == 0 && r->to.n == 0), "a range and a list");
	CHECK_THAT(r->ntables == 1 || (r->nkeys == 0 && r->from.n == 0 && r->to.n == 0),
			   "keys of several tables");
	CHECK_THAT(r->chunk_time_ms <= REQUEST_CHUNK_MS_MAX && r->rows_per_second <= REQUEST_RATE_MAX, "pace");
}

static void check_targets(const struct request *r)
{
	CHECK_THAT(r->all != (r->ntargets > 0), "%zu targets", r->ntargets);
	for (size_t i = 0; i < r->ntargets; i++)
		CHECK_THAT(r->targets[i], "target %zu", i);
}

static void check_request(const struct request *r)
{
	struct err err = {0};

	CHECK_THAT(*request_verb_name(r->verb), "verb %d", r->verb);
	if (r->id) CHECK_THAT(request_check_id(r->id, &err), "%s", err.msg);
	if (r->verb == REQUEST_START)
		check_scope(r);
	else
		check_targets(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct slice text = alone((struct slice){data, size});
	struct request r;
	struct err err = {0};

	if (request_parse(text, &r, &err)) {
		check_request(&r);
		request_finish(&r);
	} else {
		check_refusal(&err);
		CHECK_THAT(err.kind == ERR_CONFIG, "%s", err.msg);
	}
	alone_free(text);
	return 0;
}
