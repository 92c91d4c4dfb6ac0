#include "reader/loop.h"

#include <assert.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct loop_timer {
	uv_timer_t uv;
	loop_timer_fn fn;
	void *ctx;
};

static int64_t clock_us(clockid_t id)
{
	struct timespec ts;
	clock_gettime(id, &ts);
	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

int64_t loop_now_us(void)
{
	return clock_us(CLOCK_MONOTONIC);
}

int64_t clock_now_us(void)
{
	return clock_us(CLOCK_REALTIME);
}

static void on_signal(uv_signal_t *handle, int signum)
{
	struct loop *l = handle->data;
	/* The store survives any exit; an impatient second signal needs no farewell. */
	if (l->stopping) _exit(128 + signum);
	l->stopping = true;
	uv_stop(&l->uv);
}

bool loop_init(struct loop *l, struct err *err)
{
	*l = (struct loop){.stopping = false};
	int rc = uv_loop_init(&l->uv);
	if (rc == 0) rc = uv_signal_init(&l->uv, &l->sigint);
	if (rc == 0) rc = uv_signal_init(&l->uv, &l->sigterm);
	if (rc != 0) return err_set(err, ERR_NOMEM, "event loop: %s", uv_strerror(rc));
	l->sigint.data = l->sigterm.data = l;
	uv_signal_start(&l->sigint, on_signal, SIGINT);
	uv_signal_start(&l->sigterm, on_signal, SIGTERM);
	uv_unref((uv_handle_t *)&l->sigint);
	uv_unref((uv_handle_t *)&l->sigterm);
	return true;
}

void loop_finish(struct loop *l)
{
	uv_close((uv_handle_t *)&l->sigint, NULL);
	uv_close((uv_handle_t *)&l->sigterm, NULL);
	/* After a uv_stop() that came while nothing ran, the first run ends before it has closed anything. */
	while (uv_run(&l->uv, UV_RUN_DEFAULT) != 0)
		;
	int rc = uv_loop_close(&l->uv);
	assert(rc == 0); /* an owner forgot to close its handle */
}

static void free_handle(uv_handle_t *handle)
{
	free(handle); /* a loop_timer begins with its handle */
}

static void on_deadline(uv_timer_t *t)
{
	*(bool *)t->data = true;
	uv_stop(t->loop);
}

bool loop_wait(struct loop *l, const bool *done, int timeout_ms, struct err *err)
{
	bool late = false;
	uv_timer_t *deadline = malloc(sizeof *deadline);
	if (deadline == NULL) return err_set(err, ERR_NOMEM, "out of memory");
	uv_timer_init(&l->uv, deadline);
	deadline->data = &late;
	/* Without a deadline the timer still keeps the loop alive while nothing else is registered. */
	uv_timer_start(deadline, on_deadline, timeout_ms < 0 ? UINT64_C(1) << 40 : (uint64_t)timeout_ms, 0);
	while (!*done && !late && !l->stopping)
		uv_run(&l->uv, UV_RUN_ONCE);
	uv_close((uv_handle_t *)deadline, free_handle);
	uv_run(&l->uv, UV_RUN_NOWAIT);
	if (*done) return true;
	return l->stopping ? err_set(err, ERR_STOPPED, "asked to stop") : err_set(err, ERR_RETRY, "timed out");
}

bool loop_sleep(struct loop *l, int ms, struct err *err)
{
	const bool never = false;
	struct err why;
	(void)loop_wait(l, &never, ms, &why);
	if (why.kind != ERR_STOPPED) return true;
	*err = why;
	return false;
}

static void on_timer(uv_timer_t *uv)
{
	struct loop_timer *t = uv->data;
	t->fn(t->ctx);
}

struct loop_timer *loop_timer_create(struct loop *l, loop_timer_fn fn, void *ctx)
{
	struct loop_timer *t = malloc(sizeof *t);
	if (t == NULL) abort();
	uv_timer_init(&l->uv, &t->uv);
	t->uv.data = t;
	t->fn = fn;
	t->ctx = ctx;
	return t;
}

void loop_timer_set(struct loop_timer *t, int64_t in_us)
{
	/* uv's clock is read once a turn; a stale one would fire early. */
	uv_update_time(t->uv.loop);
	uv_timer_start(&t->uv, on_timer, in_us <= 0 ? 0 : (uint64_t)(in_us + 999) / 1000, 0);
}

bool loop_timer_is_set(const struct loop_timer *t)
{
	return uv_is_active((const uv_handle_t *)&t->uv);
}

void loop_timer_clear(struct loop_timer *t)
{
	uv_timer_stop(&t->uv);
}

void loop_timer_free(struct loop_timer *t)
{
	if (t != NULL) uv_close((uv_handle_t *)&t->uv, free_handle);
}
