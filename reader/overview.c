/* reader/overview.c - see overview.h. */
#include "reader/overview.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "reader/command.h"
#include "reader/runview.h"

#define ENDED_MAX   5    /* ended runs shown */
#define LAG_WARNING 1000 /* store commits a reader may be behind before we say so */

static int64_t clock_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static int count_tables(struct overview *v)
{
	int rc = tidemark_table_count(v->tm, &v->tables);

	for (size_t i = 0; rc == 0 && i < v->tables; i++) {
		tidemark_table *t;
		int state;

		rc = tidemark_table_at(v->tm, i, &t);
		if (rc != 0) break;
		state = tidemark_table_get_info(t)->state;
		if (state >= 0 && state <= TIDEMARK_LEFT) v->by_state[state]++;
	}
	return rc;
}

/* Open ones first, then the last to end; of those that ended together, the newest. */
static int by_end(const void *a, const void *b)
{
	const tidemark_run_info *x = a, *y = b;
	int64_t xe = run_info_is_open(x) ? INT64_MAX : x->ended_us,
			ye = run_info_is_open(y) ? INT64_MAX : y->ended_us;

	return xe != ye ? (xe < ye) - (xe > ye) : (x->id < y->id) - (x->id > y->id);
}

static int by_id(const void *a, const void *b)
{
	const tidemark_run_info *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

static size_t choose_runs(tidemark_run_info *runs, size_t count)
{
	size_t kept = 0;

	qsort(runs, count, sizeof *runs, by_end);
	while (kept < count && run_info_is_open(&runs[kept]))
		kept++;
	kept = count - kept < ENDED_MAX ? count : kept + ENDED_MAX;
	qsort(runs, kept, sizeof *runs, by_id);
	return kept;
}

static int load_runs(struct overview *v)
{
	size_t count;
	int rc = tidemark_run_count(v->tm, &count);

	if (rc != 0) return rc;
	v->runs = calloc(count + 1, sizeof *v->runs);
	if (!v->runs) return TIDEMARK_E_NOMEM;
	for (size_t i = 0; rc == 0 && i < count; i++)
		rc = tidemark_run_at(v->tm, i, &v->runs[i]);
	if (rc == 0) v->nruns = choose_runs(v->runs, count);
	return rc;
}

bool overview_load(struct overview *v, const char *dir, tidemark *tm, struct err *err)
{
	int rc;

	*v = (struct overview){.dir = dir, .tm = tm, .now_us = clock_us()};
	v->daemon = view_daemon(dir, &v->daemon_pid);
	rc = tidemark_get_position(tm, &v->position);
	v->has_position = rc == 0;
	if (rc == 0 || rc == TIDEMARK_E_NOTFOUND) rc = tidemark_get_store_info(tm, &v->store);
	if (rc == 0) rc = tidemark_get_marker_info(tm, v->now_us, &v->markers);
	if (rc == 0) rc = tidemark_get_large_info(tm, &v->large);
	if (rc == 0) rc = count_tables(v);
	if (rc == 0) rc = load_runs(v);
	return rc == 0 || err_of_tidemark(err, rc, tm);
}

void overview_finish(struct overview *v)
{
	free(v->runs);
	*v = (struct overview){0};
}

const tidemark_table_info *overview_table(const struct overview *v, uint32_t table_id)
{
	tidemark_table *t;

	for (size_t i = 0; i < v->tables; i++) {
		if (tidemark_table_at(v->tm, i, &t) == 0 && tidemark_table_get_info(t)->id == table_id)
			return tidemark_table_get_info(t);
	}
	return NULL;
}

/* ---- warnings ---- */

static bool warn_old_reader(const struct overview *v, char *out, size_t size)
{
	const tidemark_store_info *s = &v->store;

	snprintf(out, size,
			 "process %d has been reading an old state for %llu store commits; the file grows until it ends",
			 s->oldest_reader_pid, (unsigned long long)s->oldest_reader_lag);
	return s->oldest_reader_pid != 0 && s->oldest_reader_lag >= LAG_WARNING;
}

static bool warn_slots(const struct overview *v, char *out, size_t size)
{
	const tidemark_store_info *s = &v->store;

	snprintf(out, size, "%u of %u reader slots are taken; when none is left new readers fail", s->readers,
			 s->readers_max);
	return s->readers_max > 0 && s->readers >= s->readers_max - s->readers_max / 10;
}

bool overview_warning(const struct overview *v, size_t i, struct buf *out)
{
	static bool (*const checks[])(const struct overview *, char *, size_t) = {warn_old_reader, warn_slots};
	char sentence[256];

	for (size_t c = 0; c < sizeof checks / sizeof checks[0]; c++) {
		if (checks[c](v, sentence, sizeof sentence) && i-- == 0) {
			buf_put(out, sentence, strlen(sentence));
			return true;
		}
	}
	return false;
}
