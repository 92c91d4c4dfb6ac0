/*
 * sim - the copier and the applier against a simulated database.
 *
 *     sim [--seconds N] [--histories N] [--seed S]    histories from seed S on
 *     sim -v SEED [--steps N]                          one history, step by step
 *     sim --seeds FILE                                 those that were bad once
 *     sim --mutant NAME | --mutants                    broken on purpose: must be noticed
 *
 * A fault prints its seed, the shortest prefix that still shows it, and the
 * command that prints that history.
 */
#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "state/mutant.h"
#include "tests/sim/history.h"

#ifdef TIDEMARK_MUTANTS
int tidemark_mutant;
#endif

/* For a mutant that cannot be noticed. */
#define HARMLESS_HISTORIES 500

struct options {
	double seconds;
	uint64_t histories, seed;
	unsigned steps;
	bool verbose, mutants;
	int mutant; /* enum mutant */
	const char *seeds;
	char dir[64];
};

/* The seed under way, for an assertion's report. */
static volatile uint64_t current_seed;

static void report_abort(int sig)
{
	char text[64];
	int n = snprintf(text, sizeof text, "sim: seed %lu: aborted\n", current_seed);
	ssize_t put = write(STDOUT_FILENO, text, (size_t)n);

	(void)put;
	signal(sig, SIG_DFL);
	raise(sig);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static bool make_dir(struct options *o)
{
	const char *base = getenv("TMPDIR");

	if (base == NULL || strlen(base) > 40) base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
	snprintf(o->dir, sizeof o->dir, "%s/sim.XXXXXX", base);
	if (mkdtemp(o->dir)) return true;
	fprintf(stderr, "sim: cannot make a directory %s: %s\n", o->dir, strerror(errno));
	return false;
}

static struct history_result run_one(const struct options *o, uint64_t seed, unsigned steps, bool verbose)
{
	struct history_options h = {.seed = seed, .steps = steps, .verbose = verbose, .dir = o->dir};
	struct history_result r;

	current_seed = seed;
	history_run(&h, &r);
	return r;
}

/* The shortest prefix of the history that is still bad. */
static void report_bad(const struct options *o, uint64_t seed, struct history_result r)
{
	for (unsigned n = 1; n < r.steps; n++) {
		struct history_result shorter = run_one(o, seed, n, false);

		if (!shorter.bad) continue;
		r = shorter;
		r.steps = n;
		break;
	}
	printf("sim: seed %lu: %s (see sim -v %lu --steps %u)\n", seed, r.fault, seed, r.steps);
	fflush(stdout);
}

static int run_many(const struct options *o)
{
	double end = now() + o->seconds;
	uint64_t n = 0, bad = 0;

	while (o->histories ? n < o->histories : now() < end) {
		struct history_result r = run_one(o, o->seed + n, o->steps, false);

		if (r.bad && bad++ < 10) report_bad(o, o->seed + n, r);
		n++;
	}
	printf("sim: %lu histories, %lu bad\n", n, bad);
	return bad ? 1 : 0;
}

/* A seed a line, and what it showed behind '#'. */
static int run_seeds(const struct options *o)
{
	FILE *f = fopen(o->seeds, "re");
	uint64_t n = 0, bad = 0;
	char line[256];

	if (f == NULL) {
		fprintf(stderr, "sim: cannot read %s: %s\n", o->seeds, strerror(errno));
		return 2;
	}
	while (fgets(line, sizeof line, f)) {
		uint64_t seed = strtoull(line, NULL, 10);
		struct history_result r;

		if (seed == 0) continue;
		r = run_one(o, seed, 0, false);
		n++;
		if (r.bad && bad++ < 10) report_bad(o, seed, r);
	}
	fclose(f);
	printf("sim: %lu histories, %lu bad\n", n, bad);
	return bad ? 1 : 0;
}

static int run_verbose(const struct options *o)
{
	struct history_result r = run_one(o, o->seed, o->steps, true);

	printf("sim: 1 histories, %d bad\n", r.bad);
	return r.bad ? 1 : 0;
}

/* ---- mutants ---- */

static const struct {
	const char *name, *what;
} mutants[] = {{"none", ""},
#define X(id, text, what) {text, what},
			   MUTANT_LIST(X)
#undef X
};

static int find_mutant(const char *name)
{
	for (int i = 1; i < MUTANT_COUNT; i++)
		if (strcmp(mutants[i].name, name) == 0) return i;
	return 0;
}

#ifdef TIDEMARK_MUTANTS

/*
 * No history can show it; a unit test does (tests/run-mutants).
 * guard-equal: a position is given out once. Redelivered transactions are skipped whole, and chunk
 * rows of one bound are all the newest as of it.
 * purge-ahead: what is stored is below the checkpoint of its own transaction, but for what a
 * chunk found gone, and all that is older than that has been applied (WINDOWS.md, "Delete markers").
 */
static bool is_harmless(int mutant)
{
	return mutant == MUTANT_GUARD_EQUAL || mutant == MUTANT_PURGE_AHEAD;
}

/* In a child, since a mutant may well fail an assertion. Exit status 1 or an abort: caught. */
static void hunt(const struct options *o)
{
	uint64_t most = is_harmless(o->mutant) ? HARMLESS_HISTORIES : o->histories ? o->histories : UINT64_MAX;
	double end = now() + o->seconds;

	for (uint64_t n = 1; n <= most && (o->histories || now() < end); n++) {
		uint64_t seed = o->seed + n - 1;
		struct history_result r = run_one(o, seed, 0, false);

		if (!r.bad) continue;
		printf("%-18s caught after %lu histories (seed %lu): %s\n", mutants[o->mutant].name, n, seed,
			   r.fault);
		fflush(stdout);
		_exit(1);
	}
	printf("%-18s %s\n", mutants[o->mutant].name,
		   is_harmless(o->mutant) ? "no history can show it" : "NOT CAUGHT");
	fflush(stdout);
	_exit(0);
}

static bool is_caught(struct options *o, int mutant)
{
	int status;
	pid_t child;

	fflush(stdout);
	o->mutant = tidemark_mutant = mutant;
	child = fork();
	assert(child >= 0);
	if (child == 0) hunt(o);
	while (waitpid(child, &status, 0) < 0)
		assert(errno == EINTR);
	if (WIFSIGNALED(status)) {
		printf("%-18s caught by an assertion\n", mutants[mutant].name);
		history_clean(o->dir);
	}
	return WIFSIGNALED(status) || WEXITSTATUS(status) == 1;
}

static int run_mutants(struct options *o)
{
	int missed = 0;

	for (int i = 1; i < MUTANT_COUNT; i++)
		if (o->mutant == 0 || o->mutant == i) {
			int only = o->mutant;

			missed += !is_caught(o, i) && !is_harmless(i);
			o->mutant = only;
		}
	printf("sim: %d mutants not caught\n", missed);
	return missed ? 1 : 0;
}

#else

static int run_mutants(struct options *o)
{
	(void)o;
	fprintf(stderr, "sim: mutants need a build of their own: FLAVOUR=mutants\n");
	return 2;
}

#endif

/* ---- command line ---- */

static int usage(void)
{
	fprintf(stderr, "usage: sim [--seconds N] [--histories N] [--seed S]\n"
					"       sim -v SEED [--steps N]\n"
					"       sim [--mutants | --mutant NAME] [--seconds N]\n");
	for (int i = 1; i < MUTANT_COUNT; i++)
		fprintf(stderr, "       %-18s %s\n", mutants[i].name, mutants[i].what);
	return 2;
}

static bool parse(int argc, char **argv, struct options *o)
{
	static const struct option longs[] = {
		{"seconds", required_argument, NULL, 's'}, {"histories", required_argument, NULL, 'n'},
		{"seed", required_argument, NULL, 'S'},    {"steps", required_argument, NULL, 'p'},
		{"mutant", required_argument, NULL, 'm'},  {"mutants", no_argument, NULL, 'M'},
		{"seeds", required_argument, NULL, 'f'},   {0}};
	int c;

	while ((c = getopt_long(argc, argv, "v:", longs, NULL)) != -1)
		switch (c) {
		case 's': o->seconds = strtod(optarg, NULL); break;
		case 'n': o->histories = strtoull(optarg, NULL, 10); break;
		case 'S': o->seed = strtoull(optarg, NULL, 10); break;
		case 'p': o->steps = (unsigned)strtoul(optarg, NULL, 10); break;
		case 'v':
			o->verbose = true;
			o->seed = strtoull(optarg, NULL, 10);
			break;
		case 'm':
			o->mutants = true;
			if ((o->mutant = find_mutant(optarg)) == 0) return false;
			break;
		case 'M': o->mutants = true; break;
		case 'f': o->seeds = optarg; break;
		default: return false;
		}
	return optind == argc;
}

int main(int argc, char **argv)
{
	struct options o = {.seconds = 10, .seed = 1};
	int status;

	if (!parse(argc, argv, &o)) return usage();
	if (!make_dir(&o)) return 2;
	signal(SIGABRT, report_abort);
#ifdef TIDEMARK_MUTANTS
	if (!o.mutants || o.verbose) tidemark_mutant = o.mutant;
#endif
	if (o.verbose)
		status = run_verbose(&o);
	else if (o.seeds)
		status = run_seeds(&o);
	else if (o.mutants)
		status = run_mutants(&o);
	else
		status = run_many(&o);
	rmdir(o.dir);
	return status;
}
