#include "reader/recording.h"

#include <stdio.h>

#include "apply/applier.h"
#include "reader/loop.h"

void recording_reason(const struct request *r, char *out, size_t size)
{
	snprintf(out, size, "stopped on request%s%.200s", r->requester != NULL ? " of " : "",
			 r->requester != NULL ? r->requester : "");
}

static void add_run(struct batch *b, const struct request *r, const struct wanted_run *w, uint64_t id,
					int64_t now_us)
{
	struct run_request asked = resolved_run(r, w);
	struct run_record run = run_request_record(&asked, id, now_us);
	run_request_add(b, &asked, &run);
}

static void put_started(struct batch *b, const struct request *r, const struct resolved *found,
						struct outcome *out, int64_t now_us)
{
	uint64_t next = found->next_run_id;
	for (size_t i = 0; i < found->nwanted; i++) {
		const struct wanted_run *w = &found->wanted[i];
		if (w->existing != 0) {
			outcome_add(out, w->existing, w->display, (enum run_state)w->existing_state, false);
			continue;
		}
		add_run(b, r, w, next, now_us);
		outcome_add(out, next++, w->display, RUN_COPYING, true);
	}
}

enum run_state recording_state(enum request_verb verb, const struct found_run *f)
{
	if (verb == REQUEST_STOP) return RUN_STOPPED;
	if (verb == REQUEST_PAUSE) return RUN_PAUSED;
	return (enum run_state)(f->state == RUN_PAUSED ? f->resumes_as : f->state);
}

static void put_changed(struct batch *b, const struct request *r, const struct resolved *found,
						struct outcome *out, int64_t now_us)
{
	char why[256] = "";
	if (r->verb == REQUEST_STOP) recording_reason(r, why, sizeof why);
	for (size_t i = 0; i < found->nfound; i++) {
		const struct found_run *f = &found->found[i];
		enum run_state state = recording_state(r->verb, f);
		if (state != f->state) batch_add_run_end(b, f->table_id, f->id, state, now_us, why);
		outcome_add(out, f->id, f->display, state, false);
	}
}

static bool write_batch(struct store *s, struct batch *b, int64_t now_us, struct err *err)
{
	struct applier *a;
	if (b->n == 0) return true;
	if (!applier_create(s, &a, err)) return false;
	bool good = applier_apply(a, b, err) && applier_commit(a, now_us, err) && store_sync(s, err);
	applier_destroy(a);
	return good;
}

static bool look_up(struct store *s, const struct request *r, struct resolved *found, struct err *err)
{
	struct store_txn *t = NULL;
	bool good = store_begin_read(s, &t, err) && resolve(t, r, NULL, found, err);
	store_abort(t);
	return good;
}

bool recording_make(struct store *s, const struct request *r, struct outcome *out, struct err *err)
{
	struct resolved found;
	int64_t now_us = clock_now_us();
	*out = (struct outcome){.nruns = 0};
	if (!look_up(s, r, &found, err)) return false;
	struct batch *b = batch_create();
	if (r->verb == REQUEST_START)
		put_started(b, r, &found, out, now_us);
	else
		put_changed(b, r, &found, out, now_us);
	bool good = write_batch(s, b, now_us, err);
	batch_destroy(b);
	resolved_finish(&found);
	if (!good) outcome_finish(out);
	return good;
}
