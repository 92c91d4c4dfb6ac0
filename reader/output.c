/* reader/output.c - see output.h. */
#include "reader/output.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#define ENOUGH ((size_t)256 << 10)

void output_init(struct output *o, int fd)
{
	*o = (struct output){.fd = fd};
	signal(SIGPIPE, SIG_IGN);
}

void output_finish(struct output *o)
{
	buf_finish(&o->buf);
}

bool output_step(struct output *o, struct err *err)
{
	return o->buf.n < ENOUGH || output_flush(o, err);
}

/* Another process can have made the pipe or terminal we share non-blocking. */
static void wait_writable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLOUT};

	poll(&p, 1, -1);
}

/* Bytes written; -1 with errno set. */
static ssize_t write_some(int fd, const uint8_t *p, size_t n)
{
	ssize_t written;

	while ((written = write(fd, p, n)) < 0 && (errno == EINTR || errno == EAGAIN)) {
		if (errno == EAGAIN) wait_writable(fd);
	}
	return written;
}

bool output_flush(struct output *o, struct err *err)
{
	const uint8_t *p = o->buf.p, *end = p + o->buf.n;

	while (!o->closed && p < end) {
		ssize_t n = write_some(o->fd, p, (size_t)(end - p));

		if (n < 0 && errno != EPIPE)
			return err_set(err, ERR_DISK, "cannot write the output: %s", strerror(errno));
		if (n < 0)
			o->closed = true;
		else
			p += n;
	}
	buf_reset(&o->buf);
	return true;
}
