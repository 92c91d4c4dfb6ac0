#include "state/err.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MSG_SIZE sizeof(((struct err *)0)->msg)

/* A message that did not fit ends in "..." and never inside a UTF-8 sequence. */
static void mark_cut(char msg[MSG_SIZE])
{
	size_t n = MSG_SIZE - sizeof "...";

	while (n > 0 && ((unsigned char)msg[n] & 0xC0) == 0x80)
		n--;
	memcpy(msg + n, "...", sizeof "...");
}

/* libpq's messages end in a newline; ours do not. */
static void trim_end(char *msg)
{
	size_t n = strlen(msg);

	while (n > 0 && (msg[n - 1] == '\n' || msg[n - 1] == '\r' || msg[n - 1] == ' '))
		msg[--n] = '\0';
}

/* Arguments may point into err->msg, so the text is made aside. */
bool err_set(struct err *err, enum err_kind kind, const char *fmt, ...)
{
	char msg[MSG_SIZE];
	va_list ap;
	int n;

	assert(err && kind != ERR_NONE);
	va_start(ap, fmt);
	n = vsnprintf(msg, sizeof msg, fmt, ap);
	va_end(ap);
	if (n < 0)
		msg[0] = '\0';
	else if ((size_t)n >= sizeof msg)
		mark_cut(msg);
	trim_end(msg);
	err->kind = kind;
	memcpy(err->msg, msg, sizeof msg);
	return false;
}

bool err_wrap(struct err *err, const char *fmt, ...)
{
	char context[MSG_SIZE], msg[MSG_SIZE];
	va_list ap;

	assert(err && err->kind != ERR_NONE);
	va_start(ap, fmt);
	if (vsnprintf(context, sizeof context, fmt, ap) < 0) context[0] = '\0';
	va_end(ap);
	if ((size_t)snprintf(msg, sizeof msg, "%s: %s", context, err->msg) >= sizeof msg) mark_cut(msg);
	memcpy(err->msg, msg, sizeof msg);
	return false;
}
