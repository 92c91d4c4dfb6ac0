#include "reader/asking.h"

#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "reader/control.h"
#include "reader/recording.h"
#include "state/tidemark.h"

enum {
	ANSWER_MS = 120000, /* for an answer: it waits for the end of a source transaction, and for the disk */
	START_MS = 5000,    /* for a daemon that has the store to listen */
	START_STEP_MS = 50
};

/* ---- the daemon ---- */

static bool lost(struct err *err, const char *why)
{
	return err_set(
		err, ERR_RETRY,
		"the daemon did not confirm it (%s), so it may happen or not: ask again with the same --id, "
		"or look at `tidemark snapshot list`",
		why);
}

static bool send_all(int fd, struct slice bytes, struct err *err)
{
	while (bytes.n > 0) {
		ssize_t n = send(fd, bytes.p, bytes.n, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR) continue;
		if (n < 0) return lost(err, strerror(errno));
		bytes.p += n;
		bytes.n -= (size_t)n;
	}
	return true;
}

/* Up to the first newline, without it. */
static bool receive_line(int fd, struct buf *out, struct err *err)
{
	for (;;) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		int ready = poll(&p, 1, ANSWER_MS);
		if (ready == 0) return lost(err, "no answer within 2 minutes");
		ssize_t n = recv(fd, buf_extend(out, 4096), 4096, 0);
		out->n -= n > 0 ? 4096 - (size_t)n : 4096;
		if (n < 0 && errno == EINTR) continue;
		if (n <= 0) return lost(err, n == 0 ? "it ended" : strerror(errno));
		if (out->p[out->n - 1] != '\n') continue;
		out->n--;
		return true;
	}
}

/* A daemon that wants no more of it says so and closes: its answer counts, not that sending failed. */
static bool exchange(int fd, struct slice line, struct buf *answer, struct err *err)
{
	struct err ignored;
	bool sent = send_all(fd, line, err) && send_all(fd, slice_of("\n"), err);
	return sent ? receive_line(fd, answer, err) : receive_line(fd, answer, &ignored);
}

/* ---- the store ---- */

static bool has_store(const char *dir, struct err *err)
{
	tidemark *tm = NULL;
	int rc = tidemark_open(dir, &tm);
	tidemark_close(tm);
	if (rc != TIDEMARK_E_NOSTORE) return true; /* what else is wrong with it is said when it is opened */
	return err_set(err, ERR_CORRUPT, "%s has no store: start `tidemark run` first", dir);
}

static void name_requester(struct request *r)
{
	char who[80];
	const struct passwd *pw = getpwuid(geteuid());
	if (pw != NULL)
		snprintf(who, sizeof who, "user %.64s", pw->pw_name);
	else
		snprintf(who, sizeof who, "user %u", (unsigned)geteuid());
	if (r->requester == NULL) request_set_requester(r, who);
}

/* ERR_BUSY: a daemon has the store. */
static bool record(const char *dir, struct slice line, struct buf *answer, struct err *err)
{
	struct request r;
	struct outcome o;
	struct store *s;
	if (!request_parse(line, &r, err)) return false;
	name_requester(&r);
	bool good = store_open(dir, STORE_WRITE, &s, err);
	if (good) {
		good = recording_make(s, &r, &o, err);
		store_close(s);
	}
	if (good) {
		outcome_put_json(&o, r.id, answer);
		answer->n--; /* the newline */
		outcome_finish(&o);
	}
	request_finish(&r);
	return good;
}

/* ---- both ---- */

/* A daemon that starts has the store a moment before it listens. */
static bool make(const char *dir, struct slice line, struct buf *answer, struct err *err)
{
	for (int waited_ms = 0;; waited_ms += START_STEP_MS) {
		int fd;
		struct err nobody;
		if (control_connect(dir, &fd, &nobody)) {
			bool good = exchange(fd, line, answer, err);
			close(fd);
			return good;
		}
		if (nobody.kind != ERR_RETRY) {
			*err = nobody;
			return false;
		}
		if (record(dir, line, answer, err)) return true;
		if (err->kind != ERR_BUSY || waited_ms >= START_MS) return false;
		usleep(START_STEP_MS * 1000);
	}
}

bool asking_make(const char *dir, struct slice line, struct buf *answer, struct err *err)
{
	struct outcome o;
	if (!has_store(dir, err) || !make(dir, line, answer, err)) return false;
	bool good = asking_read((struct slice){answer->p, answer->n}, &o, err);
	if (good) outcome_finish(&o);
	return good;
}

static enum run_state state_of(const char *word)
{
	static const enum run_state states[] = {RUN_COPYING, RUN_SWEEPING, RUN_DONE,
											RUN_FAILED,  RUN_STOPPED,  RUN_PAUSED};
	for (size_t i = 0; word != NULL && i < sizeof states / sizeof *states; i++)
		if (strcmp(run_state_name(states[i]), word) == 0) return states[i];
	return RUN_COPYING;
}

static bool refusal(const json_t *line, struct err *err)
{
	const char *word = json_string_value(json_object_get(line, "kind")),
			   *text = json_string_value(json_object_get(line, "error"));
	if (word == NULL || text == NULL)
		return err_set(err, ERR_PROTOCOL, "the daemon's answer is not understood");
	return err_set(err, outcome_kind(word), "%s", text);
}

bool asking_read(struct slice answer, struct outcome *out, struct err *err)
{
	json_t *line = json_loadb((const char *)answer.p, answer.n, 0, NULL), *run;
	size_t i;
	*out = (struct outcome){.nruns = 0};
	bool good = json_is_true(json_object_get(line, "ok")) || refusal(line, err);
	if (good) {
		json_array_foreach(json_object_get(line, "runs"), i, run)
		{
			const char *table = json_string_value(json_object_get(run, "table"));
			outcome_add(out, (uint64_t)json_integer_value(json_object_get(run, "run")),
						table != NULL ? table : "?",
						state_of(json_string_value(json_object_get(run, "state"))),
						json_is_true(json_object_get(run, "new")));
		}
	}
	json_decref(line);
	return good;
}
