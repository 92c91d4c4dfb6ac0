/*
 * A directory for stores, shorthands, and child processes to read and write
 * them from. For the tests of state/store.h and state/tidemark.h.
 *
 * A process must not have a store open twice, and LMDB does not survive fork():
 * so a test forks its children before it opens anything itself, or lets go of it.
 */
#ifndef TESTS_UNIT_STATE_STORE_FIXTURE_H
#define TESTS_UNIT_STATE_STORE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "state/store.h"

#define CHECK(call)                                                                                          \
	do {                                                                                                     \
		if (!(call)) fail_msg("%s: %s", #call, err.msg);                                                     \
	} while (0)

/* The call fails with this kind, and its sentence has this in it. */
#define REFUSED(call, expected, part)                                                                        \
	do {                                                                                                     \
		err = (struct err){0};                                                                               \
		if (call) fail_msg("%s should have failed", #call);                                                  \
		if (err.kind != (expected) || !strstr(err.msg, part))                                                \
			fail_msg("%s: kind %d, \"%s\", expected kind %d, \"%s\"", #call, err.kind, err.msg, expected,    \
					 part);                                                                                  \
	} while (0)

struct place {
	char root[64];
	char dir[80]; /* of a store that is not there yet */
};

static inline int place_make(void **state)
{
	struct place *p = calloc(1, sizeof *p);

	snprintf(p->root, sizeof p->root, "%s/tidemark-store-XXXXXX",
			 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	if (!mkdtemp(p->root)) return -1;
	snprintf(p->dir, sizeof p->dir, "%s/s", p->root);
	*state = p;
	return 0;
}

static inline int place_remove(void **state)
{
	struct place *p = *state;
	char command[96];
	int rc;

	snprintf(command, sizeof command, "rm -rf %s", p->root);
	rc = system(command);
	free(p);
	return rc;
}

#define STORE_TEST(f) cmocka_unit_test_setup_teardown(f, place_make, place_remove)

/* A file in the store's directory; the result lives until the next call. */
static inline const char *place_file(const struct place *p, const char *name)
{
	static char path[160];

	snprintf(path, sizeof path, "%s/%s", p->dir, name);
	return path;
}

static inline bool place_has(const struct place *p, const char *name)
{
	return access(place_file(p, name), F_OK) == 0;
}

/* ---- contents ---- */

static inline struct slice bytes_of(const void *p, size_t n)
{
	return (struct slice){p, n};
}

static inline struct table_record table_of(uint32_t id, const char *name)
{
	return (struct table_record){.id = id,
								 .oid = 16000 + id,
								 .schema_name = "public",
								 .table_name = name,
								 .state = TABLE_COPIED,
								 .schema_version = 1};
}

static inline void put_row(struct store_txn *t, uint32_t table, const char *key, const char *value)
{
	struct err err;

	CHECK(store_row_put(t, table, slice_of(key), slice_of(value), &err));
}

/* A store with tables 1 .. n and in each the rows a=1, b=2. */
static inline struct store *store_with_tables(const char *dir, uint32_t n)
{
	struct store *s;
	struct store_txn *t;
	struct err err;

	CHECK(store_open(dir, STORE_WRITE, &s, &err));
	CHECK(store_begin_write(s, &t, &err));
	for (uint32_t id = 1; id <= n; id++) {
		struct table_record r = table_of(id, "t");

		CHECK(store_put_table(t, &r, &err));
		put_row(t, id, "a", "1");
		put_row(t, id, "b", "2");
	}
	CHECK(store_commit(t, &err));
	return s;
}

/* The value of a row as a string; NULL: absent or an error. Lives until the next call. */
static inline const char *row_text(struct store_txn *t, uint32_t table, const char *key)
{
	static char text[64];
	struct slice v;
	struct err err;
	bool found;

	if (!store_row_get(t, table, slice_of(key), &v, &found, &err) || !found || v.n >= sizeof text)
		return NULL;
	memcpy(text, v.p, v.n);
	text[v.n] = '\0';
	return text;
}

static inline bool row_is(struct store_txn *t, uint32_t table, const char *key, const char *value)
{
	const char *there = row_text(t, table, key);

	return value ? there && strcmp(there, value) == 0 : !there;
}

/* In a transaction of its own. */
static inline bool store_row_is(struct store *s, uint32_t table, const char *key, const char *value)
{
	struct store_txn *t;
	struct err err;
	bool ok;

	if (!store_begin_read(s, &t, &err)) return false;
	ok = row_is(t, table, key, value);
	store_abort(t);
	return ok;
}

static inline bool store_set_row(struct store *s, uint32_t table, const char *key, const char *value,
								 struct err *err)
{
	struct store_txn *t;

	if (!store_begin_write(s, &t, err)) return false;
	if (store_row_put(t, table, slice_of(key), slice_of(value), err)) return store_commit(t, err);
	store_abort(t);
	return false;
}

/* ---- child processes ---- */

/* Runs f in a child; returns its exit code, or 1000 + the signal that ended it. */
static inline int in_child(int (*f)(void *), void *ctx)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) _exit(f(ctx));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/* A child that takes one step each time it is asked to, and answers with a byte. */
struct peer {
	pid_t pid;
	int in, out;
};

static inline char peer_ask(struct peer *p)
{
	char answer = 0;

	if (write(p->out, "", 1) != 1 || read(p->in, &answer, 1) != 1) return '?';
	return answer;
}

/* In the child: answers the last step and waits for the next; false: there is none. */
static inline bool peer_step(struct peer *p, char answer)
{
	char c;

	if (answer && write(p->out, &answer, 1) != 1) return false;
	return read(p->in, &c, 1) == 1;
}

static inline void peer_start(struct peer *p, void (*f)(struct peer *, void *), void *ctx)
{
	int down[2], up[2];

	assert_int_equal(pipe(down), 0);
	assert_int_equal(pipe(up), 0);
	p->pid = fork();
	if (p->pid == 0) {
		struct peer me = {.in = down[0], .out = up[1]};

		prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails forgets its children */
		close(down[1]);
		close(up[0]);
		f(&me, ctx);
		_exit(0);
	}
	close(down[0]);
	close(up[1]);
	p->in = up[0];
	p->out = down[1];
}

static inline void peer_end(struct peer *p)
{
	int status;

	close(p->out);
	close(p->in);
	waitpid(p->pid, &status, 0);
}

#endif
