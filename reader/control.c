#include "reader/control.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "reader/control_address.h"
#include "reader/log.h"
#include "reader/outcome.h"

#define READ_BYTES (64 * 1024)

enum client_state {
	CLIENT_READS,  /* a line is being received */
	CLIENT_WAITS,  /* its line is being dealt with */
	CLIENT_WRITES, /* the answer is on its way */
	CLIENT_LEAVES  /* so is the last one */
};

struct control_client {
	uv_pipe_t pipe; /* first: freed as a handle */
	struct control *control;
	struct control_client *next;
	struct loop_timer *slow;
	enum client_state state;
	bool ended; /* nothing more will be received */
	struct buf in;
	size_t searched; /* of `in`: has no newline */
	char peer[80];
};

struct control {
	uv_pipe_t *pipe; /* on the heap: freed in its own time */
	struct loop *loop;
	char *dir;
	struct control_events events;
	struct control_client *clients;
	size_t nclients;
};

struct answer_write {
	uv_write_t req; /* first */
	struct control_client *client;
	uint8_t bytes[];
};

static void go_on(struct control_client *c);

/* ---- clients ---- */

static void free_handle(uv_handle_t *handle)
{
	free(handle);
}

static void drop(struct control_client *c)
{
	struct control *ct = c->control;
	for (struct control_client **p = &ct->clients; *p != NULL; p = &(*p)->next) {
		if (*p != c) continue;
		*p = c->next;
		ct->nclients--;
		break;
	}
	loop_timer_free(c->slow);
	buf_finish(&c->in);
	uv_close((uv_handle_t *)&c->pipe, free_handle);
}

static void say_last(struct control_client *c, const char *sentence)
{
	struct err err;
	struct buf line = {0};
	err_set(&err, ERR_CONFIG, "%s", sentence);
	log_warn("control client is dropped", KV_S("peer", c->peer), KV_S("reason", sentence), KV_END);
	outcome_put_error(&err, &line);
	control_answer(c, (struct slice){line.p, line.n});
	c->state = CLIENT_LEAVES;
	buf_finish(&line);
}

static void on_slow(void *ctx)
{
	struct control_client *c = ctx;
	if (c->state == CLIENT_READS)
		say_last(c, "no whole line came within 30 seconds");
	else
		drop(c); /* it does not take its answer */
}

static void alloc_room(uv_handle_t *handle, size_t suggested, uv_buf_t *out)
{
	(void)handle;
	(void)suggested;
	out->base = malloc(READ_BYTES);
	out->len = out->base != NULL ? READ_BYTES : 0;
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *room)
{
	struct control_client *c = stream->data;
	if (n > 0) buf_put(&c->in, room->base, (size_t)n);
	free(room->base);
	c->ended |= n < 0;
	if (n != 0) go_on(c);
}

static void take_line(struct control_client *c, size_t n)
{
	struct control *ct = c->control;
	struct buf rest = {0};
	struct buf whole = c->in;
	buf_put(&rest, whole.p + n + 1, whole.n - n - 1);
	c->in = rest;
	c->searched = 0;
	c->state = CLIENT_WAITS;
	uv_read_stop((uv_stream_t *)&c->pipe);
	loop_timer_clear(c->slow);
	ct->events.line(ct->events.ctx, c, (struct slice){whole.p, n}); /* may answer, and drop c */
	buf_finish(&whole);
}

/* Looks for a line in what was received; without one, receives more. */
static void go_on(struct control_client *c)
{
	const uint8_t *end =
		c->in.n > c->searched ? memchr(c->in.p + c->searched, '\n', c->in.n - c->searched) : NULL;
	if (end != NULL) {
		take_line(c, (size_t)(end - c->in.p));
		return;
	}
	c->searched = c->in.n;
	if (c->ended) {
		drop(c);
	} else if (c->in.n > REQUEST_BYTES_MAX) {
		uv_read_stop((uv_stream_t *)&c->pipe);
		say_last(c, "a line has more than 8 MiB");
	} else {
		if (!loop_timer_is_set(c->slow)) loop_timer_set(c->slow, CONTROL_SLOW_MS * INT64_C(1000));
		uv_read_start((uv_stream_t *)&c->pipe, alloc_room, on_read);
	}
}

/* ---- answers ---- */

static void on_written(uv_write_t *req, int status)
{
	struct answer_write *w = (struct answer_write *)req;
	struct control_client *c = w->client;
	free(w);
	if (status == UV_ECANCELED) return; /* by drop() */
	if (status < 0 || c->state == CLIENT_LEAVES) {
		drop(c);
		return;
	}
	loop_timer_clear(c->slow);
	c->state = CLIENT_READS;
	go_on(c);
}

void control_answer(struct control_client *c, struct slice line)
{
	struct answer_write *w = mem_alloc(sizeof *w + line.n);
	memcpy(w->bytes, line.p, line.n);
	w->client = c;
	uv_buf_t bytes = uv_buf_init((char *)w->bytes, (unsigned)line.n);
	c->state = CLIENT_WRITES;
	loop_timer_set(c->slow, CONTROL_SLOW_MS * INT64_C(1000));
	if (uv_write(&w->req, (uv_stream_t *)&c->pipe, &bytes, 1, on_written) == 0) return;
	free(w);
	loop_timer_set(c->slow, 0); /* it is gone; dropped when nobody above us holds it */
}

const char *control_peer(const struct control_client *c)
{
	return c->peer;
}

/* ---- the socket ---- */

static void name_peer(struct control_client *c)
{
	struct ucred who;
	socklen_t n = sizeof who;
	uv_os_fd_t fd;
	snprintf(c->peer, sizeof c->peer, "user unknown");
	if (uv_fileno((const uv_handle_t *)&c->pipe, &fd) != 0 ||
		getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) != 0)
		return;
	const struct passwd *pw = getpwuid(who.uid);
	if (pw != NULL)
		snprintf(c->peer, sizeof c->peer, "user %.64s", pw->pw_name);
	else
		snprintf(c->peer, sizeof c->peer, "user %u", (unsigned)who.uid);
}

static void on_connection(uv_stream_t *server, int status)
{
	struct control *ct = server->data;
	if (status < 0) return;
	struct control_client *c = mem_alloc(sizeof *c);
	*c = (struct control_client){.control = ct, .next = ct->clients};
	uv_pipe_init(&ct->loop->uv, &c->pipe, 0);
	c->pipe.data = c;
	c->slow = loop_timer_create(ct->loop, on_slow, c);
	ct->clients = c;
	ct->nclients++;
	if (uv_accept(server, (uv_stream_t *)&c->pipe) != 0) {
		drop(c);
		return;
	}
	name_peer(c);
	if (ct->nclients > CONTROL_CLIENTS_MAX)
		say_last(c, "16 clients are connected already: try again when one has left");
	else
		go_on(c);
}

/* The mode is the socket's own before it has a name: there is no moment at which others may connect. */
static int bind_socket(const struct control_address *a)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0) return -1;
	unlinkat(a->dir_fd, CONTROL_NAME, 0);
	if (fchmod(fd, 0600) == 0 && bind(fd, (const struct sockaddr *)&a->un, sizeof a->un) == 0) return fd;
	int why = errno;
	close(fd);
	errno = why;
	return -1;
}

static bool listen_on(struct control *ct, int fd, struct err *err)
{
	ct->pipe = mem_alloc(sizeof *ct->pipe);
	uv_pipe_init(&ct->loop->uv, ct->pipe, 0);
	ct->pipe->data = ct;
	int rc = uv_pipe_open(ct->pipe, fd);
	if (rc != 0) close(fd);
	if (rc == 0) rc = uv_listen((uv_stream_t *)ct->pipe, CONTROL_CLIENTS_MAX, on_connection);
	return rc == 0 ||
		   err_set(err, ERR_CONFIG, "cannot listen on %s/" CONTROL_NAME ": %s", ct->dir, uv_strerror(rc));
}

bool control_open(struct loop *l, const char *dir, const struct control_events *events, struct control **out,
				  struct err *err)
{
	struct control_address a;
	if (!control_address_open(dir, &a, err)) return false;
	int fd = bind_socket(&a);
	if (fd < 0) err_set(err, ERR_CONFIG, "cannot make %s/" CONTROL_NAME ": %s", dir, strerror(errno));
	control_address_close(&a);
	if (fd < 0) return false;
	struct control *ct = mem_alloc(sizeof *ct);
	*ct = (struct control){.loop = l, .dir = strdup(dir), .events = *events};
	if (!listen_on(ct, fd, err)) {
		control_close(ct);
		return false;
	}
	*out = ct;
	return true;
}

void control_close(struct control *ct)
{
	struct control_address a;
	struct err ignored;
	if (ct == NULL) return;
	while (ct->clients != NULL)
		drop(ct->clients);
	uv_close((uv_handle_t *)ct->pipe, free_handle);
	if (control_address_open(ct->dir, &a, &ignored)) {
		unlinkat(a.dir_fd, CONTROL_NAME, 0);
		control_address_close(&a);
	}
	free(ct->dir);
	free(ct);
}
