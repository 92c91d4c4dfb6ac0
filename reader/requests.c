#include "reader/requests.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "reader/log.h"
#include "reader/recording.h"
#include "reader/resolve.h"
#include "reader/runlog.h"

/* Barriers of ours are told from other tokens by this bit. */
#define TOKEN_BIT (UINT64_C(1) << 63)

enum mode { MODE_DIRECT, MODE_HELD, MODE_LIVE };

enum phase {
	PHASE_NEW,
	PHASE_UNCHECKED, /* the server is still to be asked about the run number `checked` */
	PHASE_CHECKING,  /* it is asked */
	PHASE_READY,     /* to be carried out between two source transactions */
	PHASE_RECORDED   /* waits until it is durable */
};

struct job {
	struct job *next;
	struct requests *owner;
	struct request request;
	requests_done_fn done;
	void *ctx;
	enum phase phase;
	struct resolved found;
	size_t checked;
	struct outcome outcome;
	uint64_t token, commits; /* commits: how many have to be durable */
	bool committed;          /* commits is known */
};

struct requests {
	struct store *store;
	enum mode mode;
	struct requests_session session;
	struct job *jobs;
	struct fresh_runs fresh;
	uint64_t next_token, fresh_token; /* the last barrier behind fresh runs */
	struct runlog *runlog;
};

struct requests *requests_create(struct store *store)
{
	struct requests *q = mem_alloc(sizeof *q);
	*q = (struct requests){.store = store, .next_token = TOKEN_BIT, .runlog = runlog_create(store)};
	return q;
}

/* ---- jobs ---- */

static void job_free(struct job *j)
{
	resolved_finish(&j->found);
	outcome_finish(&j->outcome);
	request_finish(&j->request);
	free(j);
}

static void job_unlink(struct job *j)
{
	for (struct job **p = &j->owner->jobs; *p != NULL; p = &(*p)->next) {
		if (*p != j) continue;
		*p = j->next;
		return;
	}
}

static size_t count_new(const struct outcome *o)
{
	size_t n = 0;
	for (size_t i = 0; i < o->nruns; i++)
		n += o->runs[i].is_new;
	return n;
}

static void log_outcome(const struct request *r, const struct outcome *o, const struct err *err)
{
	if (err != NULL)
		log_warn("request refused", KV_S("command", request_verb_name(r->verb)),
				 KV_S("requester", r->requester), KV_S("reason", err->msg), KV_END);
	else
		log_info("request accepted", KV_S("command", request_verb_name(r->verb)),
				 KV_S("requester", r->requester), KV_S("id", r->id), KV_U("runs", o->nruns),
				 KV_U("new", count_new(o)), KV_END);
}

static void finish(struct job *j, const struct err *err)
{
	job_unlink(j);
	log_outcome(&j->request, &j->outcome, err);
	if (j->done != NULL) j->done(j->ctx, &j->request, &j->outcome, err);
	job_free(j);
}

static void forget_fresh(struct requests *q)
{
	for (size_t i = 0; i < q->fresh.n; i++)
		free(q->fresh.v[i].name);
	free(q->fresh.v);
	q->fresh = (struct fresh_runs){.n = 0};
}

void requests_destroy(struct requests *q)
{
	if (q == NULL) return;
	for (struct job *j = q->jobs, *next; j != NULL; j = next) {
		next = j->next;
		job_free(j);
	}
	forget_fresh(q);
	runlog_destroy(q->runlog);
	free(q);
}

/* ---- direct ---- */

static void make_directly(struct job *j)
{
	struct err err;
	if (recording_make(j->owner->store, &j->request, &j->outcome, &err))
		finish(j, NULL);
	else
		finish(j, &err);
}

/* ---- live: looking up and checking ---- */

static bool look_up(struct requests *q, const struct request *r, struct resolved *out, struct err *err)
{
	struct store_txn *t = NULL;
	bool good = store_begin_read(q->store, &t, err) && resolve(t, r, &q->fresh, out, err);
	store_abort(t);
	for (size_t i = 0; good && i < out->nwanted; i++) {
		if (q->session.replicates(q->session.ctx, out->wanted[i].table_id)) continue;
		err_set(err, ERR_CONFIG, "table %s is not replicated", out->wanted[i].display);
		resolved_finish(out);
		good = false;
	}
	return good;
}

static void check_next(struct job *j);

/* No row, or one that is not true: nothing is wrong with it. */
static void on_checked(void *ctx, const PGresult *r, const struct err *err)
{
	struct job *j = ctx;
	const char *table = j->found.wanted[j->checked].display;
	struct err why;
	if (err != NULL) {
		why = *err;
		err_wrap(&why, "table %s", table);
		finish(j, &why);
	} else if (PQntuples(r) > 0) {
		err_set(&why, ERR_CONFIG, "table %s: \"from\" is behind \"to\": no key is between them", table);
		finish(j, &why);
	} else {
		struct requests *q = j->owner;
		j->checked++;
		check_next(j);
		requests_turn(q);
	}
}

/* True: the answer will come, or there is nothing to ask. */
static bool ask_server(struct job *j, const struct wanted_run *w, bool *asked)
{
	const struct requests_session *s = &j->owner->session;
	const struct run_request rr = resolved_run(&j->request, w);
	char *sql = w->existing == 0 ? copier_check_sql(s->copier, &rr) : NULL;
	bool good = sql == NULL || query_try(s->query, sql, on_checked, j);
	*asked = sql != NULL && good;
	free(sql);
	return good;
}

/* Where too much is under way on the connection, a later turn tries again. */
static void check_next(struct job *j)
{
	bool asked = false;
	j->phase = PHASE_UNCHECKED;
	while (j->checked < j->found.nwanted && ask_server(j, &j->found.wanted[j->checked], &asked)) {
		if (asked) {
			j->phase = PHASE_CHECKING;
			return;
		}
		j->checked++;
	}
	if (j->checked == j->found.nwanted) j->phase = PHASE_READY;
}

static void begin_job(struct job *j)
{
	struct err err;
	resolved_finish(&j->found);
	j->checked = 0;
	if (look_up(j->owner, &j->request, &j->found, &err))
		check_next(j);
	else
		finish(j, &err);
}

/* ---- live: carrying out ---- */

static void remember_fresh(struct requests *q, uint64_t id, uint32_t table_id, const char *name)
{
	q->fresh.v = realloc(q->fresh.v, (q->fresh.n + 1) * sizeof *q->fresh.v);
	char *copy = strdup(name != NULL ? name : "");
	if (q->fresh.v == NULL || copy == NULL) abort();
	q->fresh.v[q->fresh.n++] = (struct fresh_run){id, table_id, copy};
	runlog_add(q->runlog, id);
}

static void start_run(struct requests *q, const struct request *r, const struct wanted_run *w,
					  struct outcome *out)
{
	const struct run_request rr = resolved_run(r, w);
	bool is_new;
	if (w->existing != 0) {
		outcome_add(out, w->existing, w->display, (enum run_state)w->existing_state, false);
		return;
	}
	uint64_t id = copier_request_run(q->session.copier, &rr, &is_new, clock_now_us());
	if (is_new) remember_fresh(q, id, w->table_id, r->id);
	outcome_add(out, id, w->display, RUN_COPYING, is_new);
}

static bool stop_run(struct requests *q, const struct request *r, uint64_t id)
{
	char why[256];
	recording_reason(r, why, sizeof why);
	return copier_stop_run(q->session.copier, id, why, clock_now_us()) == RUN_STOP_OK;
}

/* A run that ended while the request was on its way is left out. */
static void change_run(struct requests *q, const struct request *r, const struct found_run *f,
					   struct outcome *out)
{
	struct copier *c = q->session.copier;
	bool done = false;
	switch (r->verb) {
	case REQUEST_PAUSE: done = copier_pause_run(c, f->id, clock_now_us()); break;
	case REQUEST_RESUME: done = copier_resume_run(c, f->id, clock_now_us()); break;
	case REQUEST_STOP: done = stop_run(q, r, f->id); break;
	case REQUEST_START: break;
	}
	if (done) outcome_add(out, f->id, f->display, recording_state(r->verb, f), false);
}

static void carry_out(struct requests *q, const struct request *r, const struct resolved *found,
					  struct outcome *out)
{
	for (size_t i = 0; i < found->nwanted; i++)
		start_run(q, r, &found->wanted[i], out);
	for (size_t i = 0; i < found->nfound; i++)
		change_run(q, r, &found->found[i], out);
}

/* Answered when what was emitted before is committed. */
static uint64_t emit_barrier(struct requests *q)
{
	struct batch *b = batch_create();
	uint64_t token = q->fresh_token = ++q->next_token;
	batch_add(b, OP_BARRIER)->u.list.token = token;
	q->session.emit(q->session.ctx, b);
	return token;
}

/* True: it came too late for every run that it is about. */
static bool is_void(const struct resolved *found, const struct outcome *out, struct err *err)
{
	if (found->nfound == 0 || out->nruns > 0) return false;
	err_set(err, ERR_CONFIG, "run %llu of %s has ended meanwhile, or has yet to begin",
			(unsigned long long)found->found[0].id, found->found[0].display);
	return true;
}

static void record(struct job *j)
{
	struct requests *q = j->owner;
	struct err err;
	outcome_finish(&j->outcome);
	carry_out(q, &j->request, &j->found, &j->outcome);
	if (is_void(&j->found, &j->outcome, &err)) {
		finish(j, &err);
		return;
	}
	j->token = emit_barrier(q);
	j->committed = false;
	j->phase = PHASE_RECORDED;
}

bool requests_make_now(struct requests *q, const struct request *r, struct err *err)
{
	struct resolved found;
	struct outcome out = {.nruns = 0};
	assert(q->mode == MODE_LIVE);
	bool good = look_up(q, r, &found, err);
	if (good) {
		carry_out(q, r, &found, &out);
		emit_barrier(q);
		good = !is_void(&found, &out, err);
		resolved_finish(&found);
	}
	log_outcome(r, &out, good ? NULL : err);
	outcome_finish(&out);
	return good;
}

/* ---- turns ---- */

static void advance(struct job *j)
{
	struct requests *q = j->owner;
	if (q->mode == MODE_DIRECT) {
		make_directly(j);
		return;
	}
	if (q->mode != MODE_LIVE) return;
	if (j->phase == PHASE_NEW)
		begin_job(j);
	else if (j->phase == PHASE_UNCHECKED)
		check_next(j);
}

/* What another request has meanwhile made of the same runs counts: they are looked up again. */
static void advance_ready(struct job *j)
{
	struct requests *q = j->owner;
	struct resolved found;
	struct err err;
	if (j->phase != PHASE_READY || !q->session.between(q->session.ctx)) return;
	if (!look_up(q, &j->request, &found, &err)) {
		finish(j, &err);
		return;
	}
	resolved_finish(&j->found);
	j->found = found;
	record(j);
}

static void for_each_job(struct requests *q, void (*fn)(struct job *))
{
	for (struct job *j = q->jobs, *next; j != NULL; j = next) {
		next = j->next;
		fn(j);
	}
}

void requests_turn(struct requests *q)
{
	for_each_job(q, advance);
	if (q->mode == MODE_LIVE) for_each_job(q, advance_ready);
}

void requests_submit(struct requests *q, struct request *r, requests_done_fn done, void *ctx)
{
	struct job *j = mem_alloc(sizeof *j), **end = &q->jobs;
	*j = (struct job){.owner = q, .request = *r, .done = done, .ctx = ctx};
	*r = (struct request){.json = NULL};
	while (*end != NULL)
		end = &(*end)->next;
	*end = j;
	requests_turn(q);
}

bool requests_answered(struct requests *q, uint64_t token, uint64_t commits)
{
	if ((token & TOKEN_BIT) == 0) return false;
	for (struct job *j = q->jobs; j != NULL; j = j->next) {
		if (j->phase == PHASE_RECORDED && j->token == token) {
			j->commits = commits;
			j->committed = true;
		}
	}
	if (token == q->fresh_token) forget_fresh(q); /* they are in the store now */
	return true;
}

void requests_durable(struct requests *q, uint64_t durable_commits)
{
	for (struct job *j = q->jobs, *next; j != NULL; j = next) {
		next = j->next;
		if (j->phase == PHASE_RECORDED && j->committed && j->commits <= durable_commits) finish(j, NULL);
	}
}

/* ---- the session ---- */

void requests_hold(struct requests *q)
{
	q->mode = MODE_HELD;
	forget_fresh(q);
}

void requests_go_live(struct requests *q, const struct requests_session *s)
{
	q->mode = MODE_LIVE;
	q->session = *s;
	runlog_load(q->runlog);
	requests_turn(q);
}

/*
 * What was recorded is in the store, or is lost; doing it again tells. A run that was to be changed and has
 * ended meanwhile is refused then: true enough.
 */
static void begin_again(struct job *j)
{
	resolved_finish(&j->found);
	outcome_finish(&j->outcome);
	j->phase = PHASE_NEW;
}

void requests_go_direct(struct requests *q)
{
	q->mode = MODE_DIRECT;
	forget_fresh(q);
	for_each_job(q, begin_again);
	requests_watch(q);
	requests_turn(q);
}

void requests_watch(struct requests *q)
{
	runlog_look(q->runlog);
}
