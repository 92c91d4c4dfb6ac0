/* reader/cmd_wait.c - `tidemark wait`: until the store has reached an LSN. */
#include <errno.h>
#include <limits.h>
#include <time.h>

#include "reader/command.h"
#include "reader/view.h"

#define PAUSE_FIRST_MS 2
#define PAUSE_MAX_MS   50

static const struct option_spec options[] = {
	OPTION_STORE,
	{.name = "timeout",
	 .type = OPTION_INT,
	 .value = "S",
	 .min = 0,
	 .max = INT_MAX,
	 .help = "Give up after S seconds; 0 looks once. Without it: wait for ever."},
	OPTION_CONFIG,
	{0},
};

struct wait {
	const char *dir;
	lsn_t target;
	bool bounded; /* --timeout was given */
	long timeout_s;
	int64_t deadline_ms; /* if bounded */
	tidemark *tm;        /* NULL: there is no store yet */
	lsn_t seen;          /* 0: no checkpoint yet */
};

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void sleep_ms(int64_t ms)
{
	struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

	while (nanosleep(&t, &t) != 0 && errno == EINTR)
		;
}

/*
 * pg_current_wal_insert_lsn() steps over the header of the next WAL page when
 * the last record fills its page; no position of ours does until one more
 * record is written. No commit starts inside a header, so the start of the page says the same.
 */
static lsn_t before_page_header(lsn_t lsn)
{
	const uint64_t page = 8192, header = 24;

	return lsn.v % page == header ? LSN(lsn.v - header) : lsn;
}

/* With a time limit a store that is not there yet is waited for as well. */
static bool open_store(struct wait *w, struct err *err)
{
	int rc;

	if (w->tm) return true;
	rc = tidemark_open(w->dir, &w->tm);
	if (rc == 0) return true;
	w->tm = NULL;
	return (rc == TIDEMARK_E_NOSTORE && w->bounded) || view_no_store(w->dir, rc, err);
}

/* Reads the store's position in a transaction of its own, so that none stays open while we sleep. */
static bool look(struct wait *w, struct err *err)
{
	tidemark_position position = {0};
	int rc;

	if (!open_store(w, err)) return false;
	if (!w->tm) return true;
	rc = tidemark_begin(w->tm);
	if (rc == 0) rc = tidemark_get_position(w->tm, &position);
	if (rc != 0 && rc != TIDEMARK_E_NOTFOUND) return err_of_tidemark(err, rc, w->tm);
	tidemark_end(w->tm);
	w->seen = LSN(rc == 0 ? position.lsn : 0);
	return true;
}

static bool timed_out(const struct wait *w, struct err *err)
{
	char target[LSN_TEXT_SIZE], seen[LSN_TEXT_SIZE] = "the beginning";
	long pid;
	bool absent;

	if (!w->tm) return view_no_store(w->dir, TIDEMARK_E_NOSTORE, err);
	absent = view_daemon(w->dir, &pid) == DAEMON_ABSENT;
	if (w->seen.v) lsn_format(w->seen, seen);
	return err_set(err, ERR_RETRY, "%s did not reach %s within %ld s: it is at %s%s", w->dir,
				   lsn_format(w->target, target), w->timeout_s, seen,
				   absent ? " and no daemon is running on it: start `tidemark run`" : "");
}

static bool wait_for(struct wait *w, struct err *err)
{
	for (int64_t pause = PAUSE_FIRST_MS;;
		 pause = pause * 3 / 2 < PAUSE_MAX_MS ? pause * 3 / 2 : PAUSE_MAX_MS) {
		int64_t left = w->bounded ? w->deadline_ms - now_ms() : INT64_MAX;

		if (!look(w, err)) return false;
		if (w->tm && w->seen.v >= before_page_header(w->target).v) return true;
		if (left <= 0) return timed_out(w, err);
		sleep_ms(left < pause ? left : pause);
	}
}

static bool run(const struct options *o, struct err *err)
{
	struct wait w = {.dir = options_string(o, "store"), .bounded = options_is_set(o, "timeout")};
	bool ok;

	if (options_argc(o) != 1 || !lsn_parse(options_arg(o, 0), &w.target))
		return err_set(err, ERR_CONFIG, "wait needs one LSN as PostgreSQL prints it, like 16/B374D848%s%s",
					   options_argc(o) > 0 ? ", and got " : "", options_argc(o) > 0 ? options_arg(o, 0) : "");
	if (w.bounded) {
		w.timeout_s = options_int(o, "timeout");
		w.deadline_ms = now_ms() + (int64_t)w.timeout_s * 1000;
	}
	ok = wait_for(&w, err);
	tidemark_close(w.tm);
	return ok;
}

const struct command command_wait = {
	.name = "wait",
	.arguments = "--store DIR LSN [--timeout S]",
	.summary = "return when the store has reached an LSN",
	.detail = "Returns once every source commit below LSN is in the store, where readers see\n"
			  "it. To wait for a transaction of your own, COMMIT it, then ask the same session\n"
			  "for pg_current_wal_insert_lsn(): that is behind the commit, so waiting for it\n"
			  "covers the commit.\n"
			  "\n"
			  "Exit code 1 when the time is up, with the position reached. With --timeout a\n"
			  "store that does not exist yet is waited for too, so that a script can start\n"
			  "\"tidemark run\" and \"tidemark wait\" together; exit code 5 if it still does not\n"
			  "exist then. Without --timeout a missing store fails at once.",
	.options = options,
	.run = run,
};
