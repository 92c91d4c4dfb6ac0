/*
 * Faults for a daemon that knows nothing of them: loaded in front of the C library, this
 * stands between LMDB and the store's file, and watches what is sent to the server.
 *
 *   FAULT_KILL=N:before|after|torn   kill -9 at the Nth write or sync of data.mdb; torn: half of its pages
 * written FAULT_SYNC_MS=MS                 every sync takes so much longer FAULT_RECORD=FILE append what
 * happens to data.mdb and what is acknowledged (below) FAULT_CLOCK=FACTOR               time passes faster
 *
 * A record is a header of four little-endian 64-bit words (kind, offset or LSN, length of what follows, 1 if
 * the write was on disk when it returned), then the bytes written. "Acknowledged" is written down before the
 * message is sent, a write before it is made, a sync after it returned.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum kind { KIND_WRITE = 'w', KIND_SYNC = 's', KIND_RENAME = 'r', KIND_ACK = 'a' };

#define PAGE 4096

struct header {
	uint64_t kind, at, length, durable;
};

/* What the environment asks for. Set before main(), constant from then on, but for `calls`. */
static struct plan {
	unsigned long kill_at;
	char kill_how; /* of before, after, torn: the first letter */
	unsigned long sync_ms, clock;
	int record_fd; /* -1: none */
	int64_t clock_base_ns;
	unsigned long calls;
	pthread_mutex_t mutex;
} plan = {.record_fd = -1, .clock = 1, .mutex = PTHREAD_MUTEX_INITIALIZER};

static int64_t real_ns(clockid_t id)
{
	struct timespec t;

	syscall(SYS_clock_gettime, id, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static unsigned long number_of(const char *name, unsigned long otherwise)
{
	const char *text = getenv(name);

	return text && *text ? strtoul(text, NULL, 10) : otherwise;
}

__attribute__((constructor)) static void read_plan(void)
{
	const char *kill_text = getenv("FAULT_KILL"), *record = getenv("FAULT_RECORD");
	const char *how = kill_text ? strchr(kill_text, ':') : NULL;

	plan.kill_at = number_of("FAULT_KILL", 0);
	plan.kill_how = how ? how[1] : 'b';
	plan.sync_ms = number_of("FAULT_SYNC_MS", 0);
	plan.clock = number_of("FAULT_CLOCK", 1);
	plan.clock_base_ns = real_ns(CLOCK_MONOTONIC);
	if (record) plan.record_fd = open(record, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

/* ---- which file ---- */

/* data.mdb, also while it is being made under another name; not lock.mdb. */
static bool is_store(int fd)
{
	char link[40], path[4096];
	const char *name;
	ssize_t n;

	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof path - 1);
	if (n <= 0) return false;
	path[n] = '\0';
	name = strrchr(path, '/');
	return name && (strcmp(name, "/data.mdb") == 0 || strcmp(name, "/data.mdb.new") == 0);
}

/* ---- dying ---- */

static void die(void)
{
	kill(getpid(), SIGKILL);
	for (;;)
		pause();
}

/* Counts the call; true: it is the one to die at. */
static bool is_last(void)
{
	return plan.kill_at && __atomic_add_fetch(&plan.calls, 1, __ATOMIC_SEQ_CST) == plan.kill_at;
}

/* ---- recording ---- */

static void record(enum kind kind, uint64_t at, const struct iovec *v, int n, bool durable)
{
	struct iovec all[1025];
	struct header h = {kind, at, 0, durable};

	if (plan.record_fd < 0) return;
	for (int i = 0; i < n && i < 1024; i++) {
		all[i + 1] = v[i];
		h.length += v[i].iov_len;
	}
	all[0] = (struct iovec){&h, sizeof h};
	pthread_mutex_lock(&plan.mutex);
	if (syscall(SYS_writev, plan.record_fd, all, n + 1) != (long)(sizeof h + h.length)) abort();
	pthread_mutex_unlock(&plan.mutex);
}

/* ---- the store's file ---- */

static size_t length_of(const struct iovec *v, int n)
{
	size_t length = 0;

	for (int i = 0; i < n; i++)
		length += v[i].iov_len;
	return length;
}

/* A process can be killed between two pages of one write. */
static void write_half(int fd, const struct iovec *v, int n, off_t at)
{
	size_t left = length_of(v, n) / 2 / PAGE * PAGE;

	for (int i = 0; i < n && left > 0; i++) {
		size_t part = v[i].iov_len < left ? v[i].iov_len : left;

		if (syscall(SYS_pwrite64, fd, v[i].iov_base, part, at) != (long)part) abort();
		at += (off_t)part;
		left -= part;
	}
}

static bool before_write(int fd, const struct iovec *v, int n, off_t at)
{
	int flags = fcntl(fd, F_GETFL);
	bool last = is_last();

	if (last && plan.kill_how == 'b') die();
	record(KIND_WRITE, (uint64_t)at, v, n, flags & O_DSYNC);
	if (last && plan.kill_how == 't') {
		write_half(fd, v, n, at);
		die();
	}
	return last;
}

ssize_t pwrite(int fd, const void *p, size_t n, off_t at)
{
	struct iovec v = {(void *)(uintptr_t)p, n};
	bool last = is_store(fd) && before_write(fd, &v, 1, at);
	long done = syscall(SYS_pwrite64, fd, p, n, at);

	if (last) die();
	return done;
}

ssize_t pwrite64(int fd, const void *p, size_t n, off_t at)
{
	return pwrite(fd, p, n, at);
}

ssize_t writev(int fd, const struct iovec *v, int n)
{
	bool last = is_store(fd) && before_write(fd, v, n, lseek(fd, 0, SEEK_CUR));
	long done = syscall(SYS_writev, fd, v, n);

	if (last) die();
	return done;
}

static void wait_ms(unsigned long ms)
{
	struct timespec t = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};

	syscall(SYS_nanosleep, &t, NULL);
}

static int synced(int fd, long number)
{
	bool store = is_store(fd), last = store && is_last();
	int rc;

	if (last && plan.kill_how != 'a') die();
	if (store && plan.sync_ms) wait_ms(plan.sync_ms);
	rc = (int)syscall(number, fd);
	if (store && rc == 0) record(KIND_SYNC, 0, NULL, 0, true);
	if (last) die();
	return rc;
}

int fdatasync(int fd)
{
	return synced(fd, SYS_fdatasync);
}

int fsync(int fd)
{
	return synced(fd, SYS_fsync);
}

int rename(const char *from, const char *to)
{
	int rc = (int)syscall(SYS_rename, from, to);

	if (rc == 0 && strstr(to, "data.mdb")) record(KIND_RENAME, 0, NULL, 0, false);
	return rc;
}

/* ---- what the server is told ---- */

/* Status messages in a packet: CopyData of 34 bytes, 'r', written, flushed. */
static void record_acks(const uint8_t *p, size_t n)
{
	static const uint8_t head[6] = {'d', 0, 0, 0, 38, 'r'};

	for (size_t i = 0; i + 39 <= n; i++) {
		uint64_t flushed = 0;

		if (memcmp(p + i, head, sizeof head) != 0) continue;
		for (int k = 0; k < 8; k++)
			flushed = flushed << 8 | p[i + 6 + 8 + k];
		record(KIND_ACK, flushed, NULL, 0, false);
	}
}

ssize_t send(int fd, const void *p, size_t n, int flags)
{
	if (plan.record_fd >= 0) record_acks(p, n);
	return syscall(SYS_sendto, fd, p, n, flags, NULL, 0);
}

/* ---- the clock ---- */

int clock_gettime(clockid_t id, struct timespec *t)
{
	int64_t now;

	if (plan.clock <= 1 || (id != CLOCK_MONOTONIC && id != CLOCK_MONOTONIC_COARSE))
		return (int)syscall(SYS_clock_gettime, id, t);
	now = plan.clock_base_ns + (real_ns(CLOCK_MONOTONIC) - plan.clock_base_ns) * (int64_t)plan.clock;
	*t = (struct timespec){now / 1000000000, now % 1000000000};
	return 0;
}

int epoll_pwait(int fd, struct epoll_event *e, int n, int ms, const sigset_t *mask)
{
	if (ms > 0) ms = (ms + (int)plan.clock - 1) / (int)plan.clock;
	return (int)syscall(SYS_epoll_pwait, fd, e, n, ms, mask, sizeof(uint64_t));
}

int epoll_wait(int fd, struct epoll_event *e, int n, int ms)
{
	return epoll_pwait(fd, e, n, ms, NULL);
}

int pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *until)
{
	static int (*next)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
	struct timespec t = *until;
	int64_t ns = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec - plan.clock_base_ns;

	if (!next) *(void **)&next = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
	if (plan.clock > 1) {
		ns = plan.clock_base_ns + ns / (int64_t)plan.clock;
		t = (struct timespec){ns / 1000000000, ns % 1000000000};
	}
	return next(c, m, &t);
}
