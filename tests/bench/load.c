/*
 * tests/bench/load.c - one statement again and again, at a steady rate, from several connections.
 *
 *     load CONNINFO SQL RATE CONNECTIONS SECONDS KEYS [TIMES]
 *
 * SQL gets $1, a number that grows by one each time, and $2, a random one from 1 to KEYS. Each execution
 * is a transaction. TIMES is a file of eight bytes a number: the monotonic clock, in nanoseconds, when COMMIT
 * had returned. Ends after SECONDS or at SIGTERM, with one line of JSON: how many, and how long one took;
 * the first half second is not in it.
 */
#include <inttypes.h>
#include <libpq-fe.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/clock.h"
#include "tests/bench/times.h"

struct load {
	const char *conninfo, *sql;
	uint64_t keys;
	double rate;
	size_t connections, count; /* executions in all */
	int64_t start_ns;
	int64_t *took_ns; /* of each; 0: was not executed */
	struct times times;
	_Atomic bool stop, failed;
};

struct writer {
	struct load *load;
	pthread_t thread;
	size_t number;
	uint64_t random;
};

static uint64_t draw(struct writer *w)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return w->random % w->load->keys + 1;
}

static bool execute(struct writer *w, PGconn *pg, size_t number)
{
	struct load *l = w->load;
	char first[24], second[24];
	const char *const params[] = {first, second};
	int64_t began;
	PGresult *r;
	bool good;

	snprintf(first, sizeof first, "%zu", number);
	snprintf(second, sizeof second, "%" PRIu64, draw(w));
	began = clock_ns();
	r = PQexecPrepared(pg, "s", 2, params, NULL, NULL, 0);
	good = PQresultStatus(r) == PGRES_COMMAND_OK;
	if (!good) fprintf(stderr, "load: %s", PQerrorMessage(pg));
	PQclear(r);
	l->took_ns[number] = clock_ns() - began;
	times_set(&l->times, number, began + l->took_ns[number]);
	return good;
}

static PGconn *open_connection(const struct load *l)
{
	PGconn *pg = PQconnectdb(l->conninfo);
	const Oid types[] = {20, 20};
	PGresult *r = PQprepare(pg, "s", l->sql, 2, types);
	bool good = PQresultStatus(r) == PGRES_COMMAND_OK;

	if (!good) fprintf(stderr, "load: %s", PQerrorMessage(pg));
	PQclear(r);
	if (good) return pg;
	PQfinish(pg);
	return NULL;
}

static void *run_writer(void *ctx)
{
	struct writer *w = ctx;
	struct load *l = w->load;
	PGconn *pg = open_connection(l);

	if (!pg) l->failed = true;
	for (size_t i = w->number; i < l->count && !l->stop && !l->failed; i += l->connections) {
		clock_wait_until(l->start_ns + (int64_t)((double)i / l->rate * 1e9));
		if (!execute(w, pg, i)) l->failed = true;
	}
	PQfinish(pg);
	return NULL;
}

static int compare(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

/* Those of the first half second, which fill the caches of their servers, are not counted. */
static size_t warm(const struct load *l)
{
	size_t n = (size_t)(l->rate / 2);

	return n < l->count ? n : 0;
}

static void report(struct load *l)
{
	size_t n = 0;

	for (size_t i = warm(l); i < l->count; i++)
		if (l->took_ns[i]) l->took_ns[n++] = l->took_ns[i];
	qsort(l->took_ns, n, sizeof *l->took_ns, compare);
	if (n == 0) l->took_ns[n++] = 0;
	printf("{\"count\": %zu, \"seconds\": %.3f, \"p50_us\": %.1f, \"p99_us\": %.1f, \"max_us\": %.1f}\n", n,
		   (double)(clock_ns() - l->start_ns) / 1e9, (double)l->took_ns[n / 2] / 1e3,
		   (double)l->took_ns[n * 99 / 100] / 1e3, (double)l->took_ns[n - 1] / 1e3);
}

/* SIGTERM is blocked in every thread and awaited by one, which may as well never be joined. */
static void *await_signal(void *ctx)
{
	struct load *l = ctx;
	sigset_t set;
	int number;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigwait(&set, &number);
	l->stop = true;
	return NULL;
}

static void run(struct load *l)
{
	struct writer *writers = calloc(l->connections, sizeof *writers);
	pthread_t waiter;
	sigset_t set;

	if (!writers) abort();
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	pthread_create(&waiter, NULL, await_signal, l);
	pthread_detach(waiter);
	l->start_ns = clock_ns() + 50000000; /* time to connect */
	for (size_t i = 0; i < l->connections; i++) {
		writers[i] = (struct writer){l, 0, i, UINT64_C(0x9E3779B97F4A7C15) * (i + 1)};
		pthread_create(&writers[i].thread, NULL, run_writer, &writers[i]);
	}
	for (size_t i = 0; i < l->connections; i++)
		pthread_join(writers[i].thread, NULL);
	free(writers);
}

int main(int argc, char **argv)
{
	struct load l = {0};

	if (argc < 7) {
		fprintf(stderr, "usage: load CONNINFO SQL RATE CONNECTIONS SECONDS KEYS [TIMES]\n");
		return 2;
	}
	l.conninfo = argv[1];
	l.sql = argv[2];
	l.rate = strtod(argv[3], NULL);
	l.connections = strtoul(argv[4], NULL, 10);
	l.count = (size_t)(strtod(argv[5], NULL) * l.rate) + 1;
	l.keys = strtoull(argv[6], NULL, 10);
	l.took_ns = calloc(l.count, sizeof *l.took_ns);
	if (!l.took_ns) abort();
	if (argc > 7 && !times_open(&l.times, argv[7], l.count)) return 1;
	run(&l);
	report(&l);
	times_close(&l.times);
	free(l.took_ns);
	return l.failed;
}
