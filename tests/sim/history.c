#include "tests/sim/history.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/sim/damage.h"
#include "tests/sim/session.h"

/* More than any history needs to settle. */
#define SETTLE_STEPS 3000

struct history {
	struct world w;
	struct session session;
	struct store *store;
	char store_dir[256], data_file[300], backup_file[300];
	bool has_backup; /* the store as it was before its last commit */
	struct judge backup_judge;
};

/* ---- files ---- */

static void copy_file(const char *from, const char *to)
{
	static char bytes[1 << 16];
	int in = open(from, O_RDONLY | O_CLOEXEC), out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	ssize_t n;

	assert(in >= 0 && out >= 0);
	while ((n = read(in, bytes, sizeof bytes)) > 0) {
		ssize_t put = write(out, bytes, (size_t)n);

		assert(put == n);
	}
	assert(n == 0);
	close(in);
	close(out);
}

static void remove_store(const struct history *h)
{
	static const char *const names[] = {"data.mdb", "lock.mdb", "tidemark.lock"};
	char path[320];

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		snprintf(path, sizeof path, "%s/%s", h->store_dir, names[i]);
		unlink(path);
	}
	unlink(h->backup_file);
	rmdir(h->store_dir);
}

/* ---- starts and ends of the process ---- */

static bool open_store(struct history *h)
{
	struct err err;

	if (store_open(h->store_dir, STORE_WRITE_FAST, &h->store, &err)) return true;
	h->store = NULL;
	return trace_fail(&h->w.trace, "%s", err.msg);
}

static void start(struct history *h)
{
	if (h->store == NULL && !open_store(h)) return;
	if (session_start(&h->session, &h->w, h->store)) h->has_backup = false;
}

static void kill_process(struct history *h)
{
	trace(&h->w.trace, "kill -9");
	session_kill(&h->session);
	store_close(h->store);
	h->store = NULL;
}

/* The last commit is undone, unless it was synced. */
static void lose_power(struct history *h)
{
	trace(&h->w.trace, "power loss%s", h->has_backup ? ", the last commit is undone" : "");
	kill_process(h);
	if (!h->has_backup) return;
	copy_file(h->backup_file, h->data_file);
	h->w.judge = h->backup_judge;
	h->has_backup = false;
}

static void act_kill(struct history *h)
{
	kill_process(h);
	start(h);
}

static void act_power(struct history *h)
{
	lose_power(h);
	start(h);
}

/* The connection to the source is lost and made again. */
static void act_reconnect(struct history *h)
{
	trace(&h->w.trace, "connection lost");
	if (rng_chance(&h->w.rng, 70))
		session_finish(&h->session);
	else
		session_kill(&h->session);
	start(h);
}

static void act_server_crash(struct history *h)
{
	session_finish(&h->session);
	source_crash(&h->w.source);
	start(h);
}

/* ---- the other actions ---- */

static void act_write(struct history *h)
{
	source_step(&h->w.source);
}

static void act_flush(struct history *h)
{
	source_flush(&h->w.source);
	source_replay(&h->w.source);
}

static void act_stream(struct history *h)
{
	struct wal_message m;

	for (int n = rng_range(&h->w.rng, 1, 6); n-- && walsender_next(&h->w.sender, &m);)
		session_receive(&h->session, &m);
}

static void act_keepalive(struct history *h)
{
	struct wal_message m;

	walsender_keepalive(&h->w.sender, &m);
	session_receive(&h->session, &m);
}

/* The copier waits for the stream to pass H on a quiet server. */
static void act_message(struct history *h)
{
	lsn_t high;

	if (copier_waits_for(h->session.copier, &high)) source_emit_message(&h->w.source);
}

static void act_chunk(struct history *h)
{
	for (int n = rng_range(&h->w.rng, 1, 3); n--;)
		session_chunk(&h->session, rng_below(&h->w.rng, (unsigned)h->session.nsqls));
}

static void act_chunk_fails(struct history *h)
{
	static const enum chunk_failure why[] = {CHUNK_LOST, CHUNK_TIMEOUT, CHUNK_SCHEMA};
	struct session *s = &h->session;
	struct sql *q = &s->sqls[rng_below(&h->w.rng, (unsigned)s->nsqls)];

	if (q->phase != SQL_IDLE) sql_fail(q, s->copier, why[rng_below(&h->w.rng, 3)], h->w.now_us);
}

static void act_push(struct history *h)
{
	session_push(&h->session);
}

static void act_apply(struct history *h)
{
	session_apply(&h->session);
}

/* A power loss undoes it. */
static void before_commit(void *ctx)
{
	struct history *h = ctx;

	h->has_backup = rng_chance(&h->w.rng, 20);
	if (!h->has_backup) return;
	copy_file(h->data_file, h->backup_file);
	h->backup_judge = h->w.committed;
}

static void act_commit(struct history *h)
{
	if (session_can_commit(&h->session)) session_commit(&h->session);
}

static void act_move(struct history *h)
{
	session_move(&h->session, rng_below(&h->w.rng, 400));
}

static void act_acknowledge(struct history *h)
{
	if (rng_chance(&h->w.rng, 20)) {
		session_sync(&h->session);
		h->has_backup = false;
	}
	session_acknowledge(&h->session);
}

static void act_answer(struct history *h)
{
	session_answer(&h->session);
}

static void act_run(struct history *h)
{
	struct world *w = &h->w;
	int t = (int)rng_below(&w->rng, (unsigned)w->source.ntables);
	bool sweep;

	if (!session_is_between(&h->session)) return;
	if (!w->configured[t]) {
		session_add_table(&h->session, t);
		return;
	}
	sweep = w->judge.tables[t].mended_by || rng_chance(&w->rng, 60);
	session_start_run(&h->session, t, RUN_RESNAPSHOT, sweep, "");
}

static void request(struct history *h, int table)
{
	struct ask a = ask_draw(&h->w.rng, table);

	if (session_can_request(&h->session) && h->w.configured[table]) session_request(&h->session, &a);
}

static void act_request(struct history *h)
{
	request(h, (int)rng_below(&h->w.rng, (unsigned)h->w.source.ntables));
}

/* What is damaged may have to wait for someone who asks for some of it. */
static void act_damage(struct history *h)
{
	int t = (int)rng_below(&h->w.rng, (unsigned)h->w.source.ntables);

	kill_process(h);
	if (!open_store(h)) return;
	damage_store(&h->w, h->store, t);
	start(h);
	for (int n = h->w.mend_later[t] ? rng_range(&h->w.rng, 0, 2) : 0; n--;)
		request(h, t);
}

/* Mostly the runs that began last; some have ended, and some never were. */
static uint64_t any_run(struct history *h)
{
	uint64_t back = rng_below(&h->w.rng, 5), last = h->session.last_run + 1;

	return last > back ? last - back : last;
}

static void act_pause(struct history *h)
{
	if (session_is_between(&h->session)) session_pause(&h->session, any_run(h));
}

static void act_resume(struct history *h)
{
	uint64_t run = any_run(h);

	if (session_is_between(&h->session) && run < ASKS_MAX) session_resume(&h->session, run);
}

/* Those of the program's own are needed. */
static void act_stop(struct history *h)
{
	uint64_t run = any_run(h);

	if (session_is_between(&h->session) && run < ASKS_MAX && h->w.asks[run].requested)
		session_stop(&h->session, run);
}

static void act_purge(struct history *h)
{
	if (session_is_between(&h->session)) session_purge(&h->session);
}

static void act_load(struct history *h)
{
	struct rng *r = &h->w.rng;
	struct copier_load load = {.queue_fill = rng_below(r, 5) / 4.0,
							   .lag_us = (int64_t)rng_below(r, 4) * 1000000,
							   .changes_rate = rng_below(r, 2) * 100.0};

	copier_set_load(h->session.copier, load);
}

struct action {
	void (*act)(struct history *h);
	unsigned weight; /* of a thousand or so */
	bool varies;     /* histories differ in how often it happens */
};

static const struct action actions[] = {
	{act_write, 300, true},      {act_flush, 40, true},   {act_stream, 160, true},
	{act_keepalive, 40, true},   {act_message, 15, true}, {act_chunk, 200, true},
	{act_push, 60, true},        {act_apply, 140, true},  {act_commit, 70, true},
	{act_acknowledge, 30, true}, {act_answer, 60, true},  {act_chunk_fails, 3, true},
	{act_kill, 2, true},         {act_power, 2, true},    {act_reconnect, 2, true},
	{act_server_crash, 2, true}, {act_damage, 4, true},   {act_run, 4, true},
	{act_request, 8, true},      {act_pause, 4, true},    {act_resume, 4, true},
	{act_stop, 2, true},         {act_purge, 20, true},   {act_load, 3, true},
	{act_move, 40, true},
};
#define ACTIONS (sizeof actions / sizeof *actions)

static void random_step(struct history *h, const unsigned *weights, unsigned total)
{
	unsigned a = rng_below(&h->w.rng, total), i = 0;

	while (a >= weights[i])
		a -= weights[i++];
	actions[i].act(h);
	if (h->session.doomed) act_kill(h);
	h->w.now_us += rng_range(&h->w.rng, 100, 20000);
}

static void random_steps(struct history *h, unsigned steps)
{
	static const unsigned scales[] = {1, 2, 4, 4, 4, 8, 16};
	unsigned weights[ACTIONS], total = 0;

	for (size_t i = 0; i < ACTIONS; i++) {
		weights[i] = actions[i].weight * scales[rng_below(&h->w.rng, sizeof scales / sizeof *scales)];
		total += weights[i];
	}
	for (unsigned i = 0; i < steps && !h->w.trace.failed; i++) {
		h->w.trace.step = i + 1;
		random_step(h, weights, total);
	}
}

/* ---- the end ---- */

static bool is_settled(const struct history *h)
{
	const struct world *w = &h->w;

	if (w->source.nactive || !walsender_is_dry(&w->sender) || w->judge.runs_open) return false;
	for (int t = 0; t < w->source.ntables; t++)
		if (w->configured[t] && !w->judge.tables[t].live) return false;
	return w->judge.checkpoint.v >= w->source.flush.v && !applier_is_open(h->session.applier) &&
		   !applier_has_overlay(h->session.applier);
}

static void settle_step(struct history *h)
{
	struct session *s = &h->session;
	struct wal_message m;

	if (!source_settle(&h->w.source) && walsender_is_dry(&h->w.sender)) act_message(h);
	source_flush(&h->w.source);
	h->w.source.replay = h->w.source.flush;
	if (walsender_next(&h->w.sender, &m))
		session_receive(s, &m);
	else
		act_keepalive(h);
	copier_set_load(s->copier, (struct copier_load){0});
	if (!s->in_transaction) session_mend(s);
	for (size_t i = 0; i < s->nsqls; i++)
		session_chunk(s, i);
	if (!s->in_transaction) session_push(s);
	for (int n = 0; n < 4 && !s->doomed && session_apply(s); n++) /* more than a step makes */
		;
	session_move(s, 400);
	if (session_can_commit(s)) session_commit(s);
	session_answer(s);
	h->w.now_us += 50000;
}

static void settle(struct history *h)
{
	trace(&h->w.trace, "the writers stop");
	for (unsigned i = 0; i < SETTLE_STEPS && !h->w.trace.failed; i++) {
		if (is_settled(h)) return;
		h->w.trace.step++;
		settle_step(h);
		if (h->session.doomed) act_kill(h);
	}
	trace_fail(&h->w.trace, "not settled after %d steps", SETTLE_STEPS);
}

/* ---- life ---- */

static struct source_shape draw_shape(struct rng *r)
{
	static const unsigned tables[] = {1, 1, 1, 2, 2, 3};
	static const unsigned often[] = {0, 10, 25, 60}, seldom[] = {0, 1, 2, 5};
	static const unsigned truncates[] = {0, 2, 5, 12};

	return (struct source_shape){
		.ntables = (int)tables[rng_below(r, 6)],
		.nkeys = rng_range(r, 3, SRC_KEYS_MAX),
		.filter_percent = rng_chance(r, 40) ? 60 : 0,
		.outage_percent = seldom[rng_below(r, 4)],
		.delay_percent = often[rng_below(r, 4)],
		.async_percent = often[rng_below(r, 3)],
		.lazy_percent = often[rng_below(r, 4)],
		.truncate_percent = truncates[rng_below(r, 4)],
		.move_percent = often[rng_below(r, 4)],
	};
}

static struct copier_config draw_copier(struct rng *r)
{
	static const size_t bytes[] = {1 << 20, 1 << 20, 1 << 20, 40, 60, 80};

	return (struct copier_config){
		.epoch = SESSION_EPOCH,
		.chunk_rows_max = (uint32_t)rng_range(r, 1, 4),
		.chunk_time_ms = 100,
		.chunk_bytes = bytes[rng_below(r, 6)],
		.buffer_bytes = 1 << 20,
		.windows_max = (size_t)rng_range(r, 1, 4),
		.requests_max = (size_t)rng_range(r, 1, SESSION_SQL_MAX),
	};
}

static void name_files(struct history *h, const char *dir)
{
	snprintf(h->store_dir, sizeof h->store_dir, "%s/store", dir);
	snprintf(h->data_file, sizeof h->data_file, "%s/data.mdb", h->store_dir);
	snprintf(h->backup_file, sizeof h->backup_file, "%s/backup.mdb", dir);
}

void history_clean(const char *dir)
{
	struct history h = {.store = NULL};

	name_files(&h, dir);
	remove_store(&h);
}

static void init(struct history *h, const struct history_options *o)
{
	static const unsigned stages[] = {0, 0, 20, 70};
	static const unsigned replicas[] = {0, 0, 0, 0, 0, 0, 0, 50, 100, 100};
	struct world *w = &h->w;
	struct source_shape shape;

	memset(h, 0, sizeof *h);
	w->rng.state = o->seed;
	w->trace.verbose = o->verbose;
	w->now_us = 1000000;
	shape = draw_shape(&w->rng);
	source_init(&w->source, &w->rng, &w->trace, &shape);
	for (int t = 0; t < shape.ntables; t++) {
		w->source.tables[t].published = LSN(UINT64_MAX);
		layout_init(&w->layouts[t], t, &w->source.tables[t], &w->rng);
		w->configured[t] = t == 0 || rng_chance(&w->rng, 70);
		if (w->configured[t]) w->source.tables[t].published = LSN(0);
	}
	w->stage_percent = stages[rng_below(&w->rng, 4)];
	w->before_commit = before_commit;
	w->ctx = h;
	w->send_empty = rng_chance(&w->rng, 30);
	w->replica_percent = replicas[rng_below(&w->rng, 10)];
	w->late_high = rng_chance(&w->rng, 30);
	w->copier_config = draw_copier(&w->rng);
	judge_init(&w->judge);
	name_files(h, o->dir);
}

void history_run(const struct history_options *o, struct history_result *out)
{
	struct history h;
	unsigned steps;

	init(&h, o);
	steps = (unsigned)rng_range(&h.w.rng, 100, 900);
	if (o->steps && o->steps < steps) steps = o->steps;
	for (int n = rng_range(&h.w.rng, 0, 60); n--;)
		source_step(&h.w.source);
	start(&h);
	random_steps(&h, steps);
	if (!h.w.trace.failed) settle(&h);
	session_kill(&h.session);
	if (h.store) store_close(h.store);
	out->bad = h.w.trace.failed;
	out->steps = h.w.trace.failed && h.w.trace.step < steps ? h.w.trace.step : steps;
	memcpy(out->fault, h.w.trace.fault, sizeof out->fault);
	source_finish(&h.w.source);
	remove_store(&h);
}
