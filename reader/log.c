#include "reader/log.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "reader/json.h"

/* The one state of the process's one log; the lock also keeps the hooks of two lines apart. */
static struct {
	pthread_mutex_t lock;
	enum log_format format;
	enum log_level lowest;
	void (*before)(void), (*after)(void);
} logger = {.lock = PTHREAD_MUTEX_INITIALIZER, .format = LOG_TEXT, .lowest = LOG_INFO};

static void put_text(struct buf *out, const char *s)
{
	buf_put(out, s, strlen(s));
}

/* ---- text values ---- */

/* Bytes of the character at p if it prints as it is, else 0: a control (C0, DEL, C1) or broken. */
static size_t printable(const uint8_t *p, const uint8_t *end)
{
	size_t n = utf8_length(p, end);

	if (n == 1 && (*p < 0x20 || *p == 0x7f)) return 0;
	if (n == 2 && p[0] == 0xc2 && p[1] < 0xa0) return 0;
	return n;
}

static bool needs_quotes(const uint8_t *p, const uint8_t *end)
{
	size_t n;

	if (p == end) return true;
	for (; p < end; p += n) {
		n = printable(p, end);
		if (n == 0 || strchr(" =\"\\", *p) != NULL) return true;
	}
	return false;
}

static void put_escaped(struct buf *out, uint8_t c)
{
	char hex[5];

	switch (c) {
	case '\n': put_text(out, "\\n"); break;
	case '\r': put_text(out, "\\r"); break;
	case '\t': put_text(out, "\\t"); break;
	default:
		snprintf(hex, sizeof hex, "\\x%02x", c);
		put_text(out, hex);
		break;
	}
}

static void put_quoted(struct buf *out, const uint8_t *p, const uint8_t *end)
{
	buf_put_u8(out, '"');
	while (p < end) {
		size_t n = printable(p, end);

		if (*p == '"' || *p == '\\') buf_put_u8(out, '\\');
		if (n > 0)
			buf_put(out, p, n);
		else
			put_escaped(out, *p);
		p += n > 0 ? n : 1;
	}
	buf_put_u8(out, '"');
}

static void put_value(struct buf *out, const char *s)
{
	const uint8_t *p = (const uint8_t *)s, *end = p + strlen(s);

	if (needs_quotes(p, end))
		put_quoted(out, p, end);
	else
		buf_put(out, p, (size_t)(end - p));
}

/* ---- a line ---- */

static void put_string_member(struct buf *out, enum log_format format, const char *key, const char *value)
{
	if (format == LOG_JSON) {
		put_text(out, out->p[out->n - 1] == '{' ? "" : ",");
		json_put_string(out, slice_of(key));
		buf_put_u8(out, ':');
		json_put_string(out, slice_of(value));
	} else {
		put_text(out, key);
		buf_put_u8(out, '=');
		put_value(out, value);
		buf_put_u8(out, ' ');
	}
}

static void put_number_member(struct buf *out, enum log_format format, const char *key, const char *digits)
{
	if (format == LOG_JSON) {
		buf_put_u8(out, ',');
		json_put_string(out, slice_of(key));
		buf_put_u8(out, ':');
		put_text(out, digits);
	} else {
		put_string_member(out, format, key, digits);
	}
}

static void put_field(struct buf *out, enum log_format format, const struct log_field *f)
{
	char text[24];

	switch (f->kind) {
	case KV_STRING:
		if (f->v.s != NULL) put_string_member(out, format, f->key, f->v.s);
		break;
	case KV_UNSIGNED:
		snprintf(text, sizeof text, "%" PRIu64, f->v.u);
		put_number_member(out, format, f->key, text);
		break;
	case KV_SIGNED:
		snprintf(text, sizeof text, "%" PRId64, f->v.i);
		put_number_member(out, format, f->key, text);
		break;
	case KV_LSN: put_string_member(out, format, f->key, lsn_format(LSN(f->v.u), text)); break;
	}
}

static void put_time(struct buf *out, enum log_format format, int64_t now_us)
{
	time_t seconds = (time_t)(now_us / 1000000);
	char date[40], text[48];
	struct tm tm;

	gmtime_r(&seconds, &tm);
	strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(text, sizeof text, "%s.%03dZ", date, (int)(now_us / 1000 % 1000));
	put_string_member(out, format, "ts", text);
}

void log_line(struct buf *out, enum log_format format, int64_t now_us, enum log_level level, const char *msg,
			  const struct log_field *fields)
{
	static const char *const names[] = {"debug", "info", "warn", "error"};

	if (format == LOG_JSON) buf_put_u8(out, '{');
	put_time(out, format, now_us);
	put_string_member(out, format, "level", names[level]);
	put_string_member(out, format, "msg", msg);
	for (; fields->key != NULL; fields++)
		put_field(out, format, fields);
	if (format == LOG_JSON)
		put_text(out, "}\n");
	else
		out->p[out->n - 1] = '\n'; /* in place of the last separator */
}

/* ---- writing ---- */

static int64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* A log that cannot be written is no reason to stop; a pipe that someone made non-blocking is waited for. */
static void write_all(int fd, const uint8_t *p, size_t n)
{
	while (n > 0) {
		ssize_t written = write(fd, p, n);

		if (written >= 0) {
			p += written;
			n -= (size_t)written;
		} else if (errno == EAGAIN) {
			poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1);
		} else if (errno != EINTR) {
			return;
		}
	}
}

void log_setup(enum log_format format, enum log_level lowest)
{
	pthread_mutex_lock(&logger.lock);
	logger.format = format;
	logger.lowest = lowest;
	pthread_mutex_unlock(&logger.lock);
}

bool log_is_json(void)
{
	bool json;

	pthread_mutex_lock(&logger.lock);
	json = logger.format == LOG_JSON;
	pthread_mutex_unlock(&logger.lock);
	return json;
}

void log_set_hooks(void (*before)(void), void (*after)(void))
{
	pthread_mutex_lock(&logger.lock);
	logger.before = before;
	logger.after = after;
	pthread_mutex_unlock(&logger.lock);
}

static void write_line(enum log_level level, const char *msg, const struct log_field *fields)
{
	struct buf line = {0};

	log_line(&line, logger.format, now_us(), level, msg, fields);
	if (logger.before != NULL) logger.before();
	write_all(STDERR_FILENO, line.p, line.n);
	if (logger.after != NULL) logger.after();
	buf_finish(&line);
}

void log_write(enum log_level level, const char *msg, const struct log_field *fields)
{
	int saved = errno;

	pthread_mutex_lock(&logger.lock);
	if (level >= logger.lowest) write_line(level, msg, fields);
	pthread_mutex_unlock(&logger.lock);
	errno = saved;
}
