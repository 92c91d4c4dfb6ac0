#include "apply/worker.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/*
 * A batch is applied in two parts. The first ends between source transactions.
 * The second begins one whose end may not have arrived, and what is applied of it is not
 * committed until it has. So unless that end is in the queue already, what is complete is
 * committed first: it neither waits for the rest nor is lost with it.
 *
 * How large a transaction is shows only as it comes. So what was applied since the
 * last commit is held (but for chunks, which are many, and are committed before one begins). When it takes
 * too much memory and its end is still not there, LMDB's transaction is given up, what was complete in it is
 * applied again and committed, and the large one is applied again from its start, to the stage (applier.h),
 * where it can be committed in parts.
 */

/* A part of a batch that was applied. */
struct piece {
	struct batch *b;
	size_t from, to;
};

struct worker {
	struct worker_config config; /* constant */
	pthread_t thread;

	pthread_mutex_t mutex;  /* guards everything down to `applier` */
	pthread_cond_t arrived; /* a batch, or the order to stop */
	struct batch *head, **tail;
	size_t ends;                   /* queued batches in which some source transaction ends */
	int64_t came_us[WORKER_FLOOD]; /* when the last transactions came, from next_came on; 0 = not yet */
	unsigned next_came;
	bool full; /* since the bound was reached, until half of it is free */
	bool stopping, finish;
	struct worker_status status;
	struct answer *answers, **answers_tail;

	/* The thread's own. */
	struct applier *applier;
	bool needs_sync;      /* the last commit is not durable yet */
	int64_t opened_us;    /* when the open transaction was begun */
	int64_t arrived_us;   /* when the last batch was done */
	struct piece *pieces; /* applied since the last commit, in order; none while staging */
	size_t npieces, pieces_cap;
	struct batch *current; /* being applied */
	size_t held_bytes;     /* of the batches of pieces but for that one */
	bool has_unheld;       /* something was applied since the last commit that is not among the pieces */
};

/* ---- clocks ---- */

static int64_t clock_us(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static int64_t monotonic_us(void)
{
	return clock_us(CLOCK_MONOTONIC);
}

static void wake(const struct worker *w)
{
	if (w->config.wake) w->config.wake(w->config.wake_ctx);
}

/* ---- the queue ---- */

static void note_transactions(struct worker *w, size_t n)
{
	int64_t now_us = monotonic_us();

	for (size_t i = 0; i < n && i < WORKER_FLOOD; i++) {
		w->came_us[w->next_came] = now_us;
		w->next_came = (w->next_came + 1) % WORKER_FLOOD;
	}
}

static void queue_append(struct worker *w, struct batch *b)
{
	b->next = NULL;
	*w->tail = b;
	w->tail = &b->next;
	w->ends += batch_whole_ops(b) > 0;
	note_transactions(w, b->ncommits);
	w->status.queued_bytes += batch_bytes(b);
	if (w->status.queued_bytes >= w->config.queue_bytes) w->full = true;
	pthread_cond_signal(&w->arrived);
}

/* The batch still counts as queued memory until queue_release(). */
static struct batch *queue_take(struct worker *w)
{
	struct batch *b = w->head;

	if (!b) return NULL;
	w->head = b->next;
	if (!w->head) w->tail = &w->head;
	w->ends -= batch_whole_ops(b) > 0;
	return b;
}

/* True: there is room again. */
static bool queue_release(struct worker *w, size_t bytes)
{
	bool room;

	w->status.queued_bytes -= bytes;
	room = w->full && w->status.queued_bytes <= w->config.queue_bytes / 2;
	if (room) w->full = false;
	return room;
}

static void queue_drop(struct worker *w)
{
	struct batch *b;

	while ((b = queue_take(w))) {
		queue_release(w, batch_bytes(b));
		batch_destroy(b);
	}
	w->full = false;
}

/* What is held counts as memory of the transaction, not of the queue: else a full queue would wait for it. */
static void batch_done(struct worker *w, struct batch *b)
{
	size_t bytes = batch_bytes(b);
	bool room;

	w->current = NULL;
	if (w->npieces > 0)
		w->held_bytes += bytes;
	else
		batch_destroy(b);
	pthread_mutex_lock(&w->mutex);
	room = queue_release(w, bytes);
	pthread_mutex_unlock(&w->mutex);
	if (room) wake(w);
}

/* ---- what is held ---- */

static void pieces_add(struct worker *w, struct piece piece)
{
	if (w->npieces == w->pieces_cap) {
		size_t cap = w->pieces_cap ? w->pieces_cap * 2 : 64;
		struct piece *grown = mem_alloc(cap * sizeof *grown);

		if (w->npieces > 0) memcpy(grown, w->pieces, w->npieces * sizeof *grown);
		free(w->pieces);
		w->pieces = grown;
		w->pieces_cap = cap;
	}
	w->pieces[w->npieces++] = piece;
}

/* Its batch goes with the last of its pieces, unless it is still being applied. */
static void piece_release(struct worker *w, size_t i)
{
	struct batch *b = w->pieces[i].b;

	w->pieces[i].b = NULL;
	if (!b || b == w->current || (i + 1 < w->npieces && w->pieces[i + 1].b == b)) return;
	w->held_bytes -= batch_bytes(b);
	batch_destroy(b);
}

static void pieces_drop(struct worker *w)
{
	for (size_t i = 0; i < w->npieces; i++)
		piece_release(w, i);
	w->npieces = 0;
}

static bool has_chunk(struct piece p)
{
	for (size_t i = p.from; i < p.to; i++)
		if (p.b->ops[i].kind == OP_CHUNK) return true;
	return false;
}

static void hold(struct worker *w, struct piece p)
{
	if (has_chunk(p)) w->has_unheld = true;
	if (w->has_unheld)
		pieces_drop(w);
	else
		pieces_add(w, p);
}

/* How many of the pieces are before the transaction whose end has not come. */
static size_t pieces_complete(const struct worker *w)
{
	size_t n = w->npieces;

	while (n > 0 && w->pieces[n - 1].to != batch_whole_ops(w->pieces[n - 1].b))
		n--;
	return n;
}

/* ---- committing ---- */

static void publish_answers(struct worker *w)
{
	*w->answers_tail = applier_take_answers(w->applier);
	while (*w->answers_tail)
		w->answers_tail = &(*w->answers_tail)->next;
}

/* This commit's fdatasync made the meta page of the one before it durable. */
static void publish_commit(struct worker *w, bool wrote)
{
	struct worker_status *s = &w->status;

	pthread_mutex_lock(&w->mutex);
	if (wrote) {
		s->durable_epoch = s->committed.epoch;
		s->durable = s->committed.lsn;
		s->committed = applier_committed(w->applier);
		s->durable_commits = s->commits++;
	}
	publish_answers(w);
	pthread_mutex_unlock(&w->mutex);
	wake(w);
}

static bool commit(struct worker *w, struct err *err)
{
	bool wrote = applier_has_writes(w->applier);

	if (!applier_is_open(w->applier)) return true;
	if (!applier_commit(w->applier, clock_us(CLOCK_REALTIME), err)) return false;
	w->needs_sync |= wrote;
	publish_commit(w, wrote);
	return true;
}

static bool commit_all(struct worker *w, struct err *err)
{
	pieces_drop(w);
	w->has_unheld = false;
	return commit(w, err);
}

static bool sync_store(struct worker *w, struct err *err)
{
	struct checkpoint committed = applier_committed(w->applier);

	if (!store_sync(w->config.store, err)) return false;
	w->needs_sync = false;
	pthread_mutex_lock(&w->mutex);
	w->status.durable_epoch = committed.epoch;
	w->status.durable = committed.lsn;
	w->status.durable_commits = w->status.commits;
	pthread_mutex_unlock(&w->mutex);
	wake(w);
	return true;
}

/* ---- applying ---- */

static bool is_large(const struct worker *w)
{
	return applier_dirty_bytes(w->applier) + w->held_bytes >= w->config.dirty_bytes;
}

static bool limit_reached(const struct worker *w)
{
	return is_large(w) || monotonic_us() - w->opened_us >= (int64_t)w->config.commit_ms * 1000;
}

/* Whether another source transaction ends in what is queued. */
static bool more_is_queued(struct worker *w)
{
	bool more;

	pthread_mutex_lock(&w->mutex);
	more = w->ends > 0;
	pthread_mutex_unlock(&w->mutex);
	return more;
}

static void wait_until(struct worker *w, int64_t deadline_us)
{
	struct timespec t = {deadline_us / 1000000, deadline_us % 1000000 * 1000};

	if (deadline_us == INT64_MAX)
		pthread_cond_wait(&w->arrived, &w->mutex);
	else
		pthread_cond_timedwait(&w->arrived, &w->mutex, &t);
}

/*
 * When the flood is over if no transaction comes any more; 0: there is none. When they came is asked, not
 * when they were applied: a slow disk makes no flood.
 */
static int64_t flood_until_us(const struct worker *w)
{
	int64_t first_us = w->came_us[w->next_came];

	return first_us != 0 ? first_us + w->config.flood_us : 0;
}

/* Nobody waits for the rows of a chunk, unless its run goes on in another state. */
static bool may_wait(const struct batch *b)
{
	size_t i = b->n;

	while (b->ops[i - 1].kind == OP_UNSEEN_DROP && i > 1)
		i--;
	return b->ops[0].kind == OP_CHUNK && b->ops[i - 1].kind != OP_RUN_STATE;
}

/* How long the commit of what ends with b is worth waiting for more to share it; past: not at all. */
static int64_t gather_until_us(const struct worker *w, const struct batch *b)
{
	int64_t flood_us = flood_until_us(w), most_us = w->opened_us + w->config.gather_us;
	int64_t until_us = flood_us < most_us ? flood_us : most_us,
			chunks_us = w->opened_us + w->config.chunks_us;

	return may_wait(b) && chunks_us > until_us ? chunks_us : until_us;
}

/* True: there is more. */
static bool gather(struct worker *w, const struct batch *b)
{
	int64_t until_us;
	bool more;

	pthread_mutex_lock(&w->mutex);
	until_us = gather_until_us(w, b);
	while (!w->head && !w->stopping && monotonic_us() < until_us)
		wait_until(w, until_us);
	more = w->ends > 0;
	pthread_mutex_unlock(&w->mutex);
	return more;
}

static bool move_overlay(struct worker *w, size_t bytes, struct err *err)
{
	return applier_move(w->applier, bytes, err) && commit_all(w, err);
}

/* ---- large transactions ---- */

static bool stage_part(struct worker *w, struct piece p, struct err *err)
{
	if (!applier_apply_part(w->applier, p.b, p.from, p.to, err)) return false;
	return !applier_is_staging(w->applier) || !is_large(w) || applier_stage_commit(w->applier, err);
}

/* One stage or overlay at a time: what is left of an earlier one is moved first. */
static bool make_way(struct worker *w, struct err *err)
{
	while (applier_has_overlay(w->applier))
		if (!applier_move(w->applier, w->config.dirty_bytes / 2, err) || !commit(w, err)) return false;
	return true;
}

/* Applies again what the open transaction of LMDB has: what is complete as before, the rest to the stage. */
static bool stage(struct worker *w, struct err *err)
{
	size_t complete = pieces_complete(w);
	bool ok = true;

	applier_abort(w->applier);
	for (size_t i = 0; ok && i < complete; i++)
		ok = applier_apply_part(w->applier, w->pieces[i].b, w->pieces[i].from, w->pieces[i].to, err);
	if (!ok || !commit(w, err) || !make_way(w, err)) return false;
	for (size_t i = 0; i < complete; i++)
		piece_release(w, i);
	applier_stage(w->applier);
	for (size_t i = complete; ok && i < w->npieces; i++) {
		ok = stage_part(w, w->pieces[i], err);
		piece_release(w, i);
	}
	pieces_drop(w);
	return ok;
}

/* ---- batches ---- */

static bool apply_part(struct worker *w, struct batch *b, size_t from, size_t to, struct err *err)
{
	struct piece piece = {b, from, to};
	bool more;

	if (from == to) return true;
	if (applier_is_staging(w->applier)) {
		if (!stage_part(w, piece, err)) return false;
	} else {
		if (w->has_unheld && to != batch_whole_ops(b) && !commit_all(w, err)) return false;
		if (!applier_is_open(w->applier)) w->opened_us = monotonic_us();
		if (!applier_apply_part(w->applier, b, from, to, err)) return false;
		hold(w, piece);
	}
	if (!applier_at_boundary(w->applier))
		return applier_is_staging(w->applier) || !is_large(w) || stage(w, err);
	more = more_is_queued(w) || (to == b->n && gather(w, b));
	return (more && !limit_reached(w)) || commit_all(w, err);
}

static bool apply_batch(struct worker *w, struct batch *b, struct err *err)
{
	size_t whole = batch_whole_ops(b);

	return apply_part(w, b, 0, whole, err) && apply_part(w, b, whole, b->n, err);
}

/* ---- the thread ---- */

enum turn { TURN_BATCH, TURN_MOVE, TURN_IDLE, TURN_STOP };

static bool can_move(const struct worker *w)
{
	return applier_has_overlay(w->applier) && applier_at_boundary(w->applier);
}

/* Waits for something to do. TURN_IDLE: nothing has come for so long that it is time to sync. */
static enum turn next_turn(struct worker *w, struct batch **b)
{
	int64_t sync_at = INT64_MAX;
	enum turn turn = TURN_BATCH;

	if (w->needs_sync) sync_at = w->arrived_us + (int64_t)w->config.sync_idle_ms * 1000;
	pthread_mutex_lock(&w->mutex);
	while (!w->head && !w->stopping && !can_move(w) && monotonic_us() < sync_at)
		wait_until(w, sync_at);
	if (w->stopping && !(w->finish && w->head))
		turn = TURN_STOP;
	else if (!(*b = queue_take(w)))
		turn = can_move(w) ? TURN_MOVE : TURN_IDLE;
	pthread_mutex_unlock(&w->mutex);
	return turn;
}

/*
 * Between batches a step of the move costs a commit of its own, so not while batches share one; nor at the
 * end: the next process goes on with it.
 */
static bool should_move(struct worker *w)
{
	bool stopping;

	pthread_mutex_lock(&w->mutex);
	stopping = w->stopping;
	pthread_mutex_unlock(&w->mutex);
	return !stopping && !applier_is_open(w->applier) && can_move(w);
}

static bool take_turns(struct worker *w, struct err *err)
{
	struct batch *b;
	bool ok = true;

	while (ok) {
		switch (next_turn(w, &b)) {
		case TURN_BATCH:
			w->current = b;
			ok = apply_batch(w, b, err);
			batch_done(w, b);
			w->arrived_us = monotonic_us();
			if (ok && should_move(w)) ok = move_overlay(w, w->config.dirty_bytes / 8, err);
			break;
		case TURN_MOVE: ok = move_overlay(w, w->config.dirty_bytes / 2, err); break;
		case TURN_IDLE: ok = sync_store(w, err); break;
		case TURN_STOP: return true;
		}
	}
	return false;
}

static void publish_failure(struct worker *w, const struct err *err)
{
	pthread_mutex_lock(&w->mutex);
	w->status.failed = true;
	w->status.err = *err;
	queue_drop(w);
	pthread_mutex_unlock(&w->mutex);
	wake(w);
}

/* A transaction whose end never came is left out: the source sends it again. */
static void *worker_main(void *arg)
{
	struct worker *w = arg;
	struct err err;
	bool ok = take_turns(w, &err);

	applier_abort(w->applier);
	if (ok && w->finish && w->needs_sync) ok = sync_store(w, &err);
	if (!ok) publish_failure(w, &err);
	return NULL;
}

/* ---- starting and stopping ---- */

static void init_locks(struct worker *w)
{
	pthread_condattr_t attr;

	pthread_mutex_init(&w->mutex, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&w->arrived, &attr);
	pthread_condattr_destroy(&attr);
}

static struct worker *worker_create(const struct worker_config *config)
{
	struct worker *w = mem_alloc(sizeof *w);

	*w = (struct worker){.config = *config};
	w->tail = &w->head;
	w->answers_tail = &w->answers;
	w->arrived_us = monotonic_us();
	init_locks(w);
	return w;
}

static void worker_destroy(struct worker *w)
{
	struct answer *next;

	queue_drop(w);
	pieces_drop(w);
	free(w->pieces);
	for (; w->answers; w->answers = next) {
		next = w->answers->next;
		answer_destroy(w->answers);
	}
	applier_destroy(w->applier);
	pthread_cond_destroy(&w->arrived);
	pthread_mutex_destroy(&w->mutex);
	free(w);
}

/* Signals are the loop thread's: this one blocks them all. */
static bool start_thread(struct worker *w, struct err *err)
{
	sigset_t all, before;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&w->thread, NULL, worker_main, w);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return rc == 0 || err_set(err, ERR_NOMEM, "cannot start the apply thread: %s", strerror(rc));
}

/* What was committed before a kill may not be durable yet. */
static bool start_status(struct worker *w, struct err *err)
{
	struct worker_status *s = &w->status;

	if (!store_sync(w->config.store, err)) return false;
	s->committed = applier_committed(w->applier);
	s->durable_epoch = s->committed.epoch;
	s->durable = s->committed.lsn;
	publish_answers(w);
	return true;
}

bool worker_start(const struct worker_config *config, struct worker **out, struct err *err)
{
	struct worker *w = worker_create(config);

	if (!applier_create(config->store, &w->applier, err) || !start_status(w, err) || !start_thread(w, err)) {
		worker_destroy(w);
		return false;
	}
	*out = w;
	return true;
}

bool worker_stop(struct worker *w, bool finish, struct worker_status *last, struct err *err)
{
	bool ok;

	if (!w) return true;
	pthread_mutex_lock(&w->mutex);
	w->stopping = true;
	w->finish = finish;
	pthread_cond_signal(&w->arrived);
	pthread_mutex_unlock(&w->mutex);
	pthread_join(w->thread, NULL);
	ok = !w->status.failed;
	if (!ok) *err = w->status.err;
	if (last) *last = w->status;
	worker_destroy(w);
	return ok;
}

/* ---- the loop thread's side ---- */

void worker_push(struct worker *w, struct batch *b)
{
	bool failed;

	pthread_mutex_lock(&w->mutex);
	failed = w->status.failed;
	if (!failed) queue_append(w, b);
	pthread_mutex_unlock(&w->mutex);
	if (failed) batch_destroy(b);
}

bool worker_is_full(struct worker *w)
{
	bool full;

	pthread_mutex_lock(&w->mutex);
	full = w->full;
	pthread_mutex_unlock(&w->mutex);
	return full;
}

void worker_get_status(struct worker *w, struct worker_status *out)
{
	pthread_mutex_lock(&w->mutex);
	*out = w->status;
	pthread_mutex_unlock(&w->mutex);
}

struct answer *worker_take_answers(struct worker *w)
{
	struct answer *list;

	pthread_mutex_lock(&w->mutex);
	list = w->answers;
	w->answers = NULL;
	w->answers_tail = &w->answers;
	pthread_mutex_unlock(&w->mutex);
	return list;
}
