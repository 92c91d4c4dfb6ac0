/* main() around commands made here, each call in a child process. */
int tidemark_main(int argc, char **argv);
#define main tidemark_main
#include "reader/main.c" /* for its static commands table to find the ones below */
#undef main

#include <setjmp.h>
#include <stdarg.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "state/tidemark.h"

static const struct option_spec specs[] = {
	{.name = "store", .value = "DIR", .required = true, .help = "directory of the store"},
	{.name = "limit", .type = OPTION_INT, .value = "N", .min = 0, .max = 9, .help = "stop after N rows"},
	{0},
};

/* What the command does is its first argument: succeed, or fail with the kind of error that the letter stands
 * for. */
static bool run_get(const struct options *o, struct err *err)
{
	const char *what = options_argc(o) > 0 ? options_arg(o, 0) : "0";

	printf("store=%s\n", options_string(o, "store"));
	switch (what[0]) {
	case 'g': return err_set(err, ERR_GAP, "history is gone");
	case 'b': return err_set(err, ERR_BUSY, "the store is in use");
	case 's': return err_set(err, ERR_STOPPED, "stopped");
	case 'j': log_setup(LOG_JSON, LOG_INFO); return err_set(err, ERR_RETRY, "the \"server\" went away");
	case 'o': /* overcome */ err_set(err, ERR_BUSY, "the store was in use"); break;
	case 'f': fprintf(stderr, "next descriptor %d\n", dup(0)); break;
	default: break;
	}
	return true;
}

#define COMMAND(x, f)                                                                                        \
	const struct command command_##x = {.name = #x,                                                          \
										.arguments = "--store DIR ...",                                      \
										.summary = "summary of " #x,                                         \
										.options = specs,                                                    \
										.run = (f)}

COMMAND(run, run_get);
COMMAND(get, run_get);
COMMAND(scan, run_get);
COMMAND(tables, run_get);
COMMAND(status, run_get);
COMMAND(snapshot, run_get);
const struct command command_wait = {.name = "wait",
									 .arguments = "--store DIR LSN",
									 .summary = "summary of wait",
									 .detail = "A paragraph.",
									 .options = specs,
									 .run = run_get};

const char *tidemark_errmsg(const tidemark *tm)
{
	return tm != NULL ? (const char *)tm : "";
}

const char *tidemark_strerror(int code)
{
	return code == TIDEMARK_E_NOTFOUND ? "not found" : "other";
}

/* ---- a call of main() ---- */

struct result {
	int status;
	char out[4096], err[4096];
};

static void read_all(int fd, char *out, size_t size)
{
	size_t n = 0;
	ssize_t got;

	while (n + 1 < size && (got = read(fd, out + n, size - 1 - n)) > 0)
		n += (size_t)got;
	out[n] = '\0';
	close(fd);
}

/* stdout_fd: where the child's standard output goes; -1: closed. */
static void child(char *const *words, int stdout_fd, int stderr_fd)
{
	char *argv[16] = {"tidemark"};
	int argc = 1;

	for (; words[argc - 1] != NULL; argc++)
		argv[argc] = strdup(words[argc - 1]);
	if (stdout_fd >= 0)
		dup2(stdout_fd, 1);
	else
		close(1);
	dup2(stderr_fd, 2);
	for (int fd = 3; fd < 64; fd++)
		close(fd);
	argc = tidemark_main(argc, argv);
	fflush(stdout);
	_exit(argc);
}

static void call_with(char *const *words, int stdout_fd, int stdout_reader, struct result *r)
{
	int errs[2], status;
	pid_t pid;

	assert_int_equal(pipe(errs), 0);
	fflush(NULL);
	pid = fork();
	if (pid == 0) child(words, stdout_fd, errs[1]);
	close(errs[1]);
	if (stdout_fd >= 0) close(stdout_fd);
	r->out[0] = '\0';
	if (stdout_reader >= 0) read_all(stdout_reader, r->out, sizeof r->out);
	read_all(errs[0], r->err, sizeof r->err);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	r->status = WEXITSTATUS(status);
}

static void call(char *const *words, struct result *r)
{
	int outs[2];

	assert_int_equal(pipe(outs), 0);
	call_with(words, outs[1], outs[0], r);
}

#define WORDS(...) ((char *const[]){__VA_ARGS__, NULL})

/* ---- tests ---- */

static const char overview[] = "tidemark: an exact, live, local copy of PostgreSQL tables in LMDB\n"
							   "\n"
							   "Usage: tidemark COMMAND [OPTION...] [ARGUMENT...]\n"
							   "\n"
							   "Commands:\n"
							   "  run       summary of run\n"
							   "  get       summary of get\n"
							   "  scan      summary of scan\n"
							   "  tables    summary of tables\n"
							   "  status    summary of status\n"
							   "  wait      summary of wait\n"
							   "  snapshot  summary of snapshot\n"
							   "\n"
							   "\"tidemark help COMMAND\" shows the options of a command.\n"
							   "\"tidemark --version\" shows the version.\n";

static const char wait_help[] =
	"Usage: tidemark wait --store DIR LSN\n"
	"\n"
	"summary of wait\n"
	"\n"
	"A paragraph.\n"
	"\n"
	"Options:\n"
	"  --store DIR  directory of the store (required)\n"
	"  --limit N    stop after N rows\n"
	"  --help       show this text\n"
	"\n"
	"Every option can also come from the environment (--store: TIDEMARK_STORE); the\n"
	"command line goes first.\n";

static void calls_end_as_they_should(void **state)
{
	static const struct {
		char *words[8];
		int status;
		const char *out, *err;
	} cases[] = {
		{{NULL}, 2, "", overview},
		{{"help"}, 0, overview, ""},
		{{"--help"}, 0, overview, ""},
		{{"-h"}, 0, overview, ""},
		{{"--version"}, 0, "tidemark 0.1.0\n", ""},
		{{"help", "wait"}, 0, wait_help, ""},
		{{"wait", "--help"}, 0, wait_help, ""},
		{{"wait", "-h", "--nonsense"}, 0, wait_help, ""},
		{{"help", "me"}, 2, "", "tidemark: unknown command \"me\"; see \"tidemark help\"\n"},
		{{"sacn"},
		 2,
		 "",
		 "tidemark: unknown command \"sacn\"; did you mean \"scan\"? See \"tidemark help\"\n"},
		{{"--source=host=h password=hunter2", "run"},
		 2,
		 "",
		 "tidemark: unknown option --source before the command; see \"tidemark help\"\n"},
		{{"get"},
		 2,
		 "",
		 "tidemark: --store DIR is required; it can also come from TIDEMARK_STORE (see \"tidemark help "
		 "get\")\n"},
		{{"get", "--store=d", "--limt=1"},
		 2,
		 "",
		 "tidemark: unknown option --limt; did you mean --limit? (see \"tidemark help get\")\n"},
		{{"get", "--store=d"}, 0, "store=d\n", ""},
		{{"get", "--store=d", "overcome"}, 0, "store=d\n", ""},
		{{"get", "--store=d", "gap"}, 3, "store=d\n", "tidemark: history is gone\n"},
		{{"get", "--store=d", "busy"}, 5, "store=d\n", "tidemark: the store is in use\n"},
		{{"get", "--store=d", "stopped"}, 0, "store=d\n", ""},
		{{"get", "--store=d", "fd"}, 0, "store=d\n", "next descriptor 3\n"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct result r;

		call(cases[i].words, &r);
		assert_string_equal(r.out, cases[i].out);
		assert_string_equal(r.err, cases[i].err);
		assert_int_equal(r.status, cases[i].status);
	}
}

static void an_error_is_a_line_of_a_json_log(void **state)
{
	struct result r;

	(void)state;
	call(WORDS("get", "--store=d", "json"), &r);
	assert_int_equal(r.status, 1);
	assert_int_equal(strncmp(r.err, "{\"ts\":\"", 7), 0);
	assert_non_null(
		strstr(r.err, "\"level\":\"error\",\"msg\":\"the \\\"server\\\" went away\",\"exit\":1}\n"));
}

static void lost_output_is_reported(void **state)
{
	struct result r;

	(void)state;
	call_with(WORDS("help"), open("/dev/full", O_WRONLY), -1, &r);
	assert_int_equal(r.status, 1);
	assert_string_equal(r.err, "tidemark: cannot write to standard output: No space left on device\n");
}

static void an_unread_pipe_is_no_fault(void **state)
{
	struct result r;
	int outs[2];

	(void)state;
	assert_int_equal(pipe(outs), 0);
	close(outs[0]);
	call_with(WORDS("help"), outs[1], -1, &r);
	assert_int_equal(r.status, 0);
	assert_string_equal(r.err, "");
}

/* Otherwise data.mdb would be descriptor 1. */
static void closed_descriptors_are_occupied(void **state)
{
	struct result r;

	(void)state;
	call_with(WORDS("get", "--store=d", "fd"), -1, -1, &r);
	assert_string_equal(
		r.err, "next descriptor 3\ntidemark: cannot write to standard output: Bad file descriptor\n");
	assert_int_equal(r.status, 1);
}

static void kinds_have_their_codes(void **state)
{
	static const int codes[] = {
		[ERR_NONE] = 0,    [ERR_RETRY] = 1,   [ERR_CONFIG] = 2, [ERR_PROTOCOL] = 1,
		[ERR_CORRUPT] = 5, [ERR_BUSY] = 5,    [ERR_GAP] = 3,    [ERR_DISK] = 1,
		[ERR_NOMEM] = 1,   [ERR_STOPPED] = 0, [ERR_BUG] = 1,
	};

	(void)state;
	for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
		assert_int_equal(exit_code_of((enum err_kind)i), codes[i]);
}

static void read_errors_have_their_kinds(void **state)
{
	static const struct {
		int code;
		enum err_kind kind;
	} cases[] = {
		{TIDEMARK_E_NOTFOUND, ERR_CONFIG},   {TIDEMARK_E_ARGUMENT, ERR_CONFIG},
		{TIDEMARK_E_NOSTORE, ERR_CONFIG},    {TIDEMARK_E_CORRUPT, ERR_CORRUPT},
		{TIDEMARK_E_PERMISSION, ERR_CONFIG}, {TIDEMARK_E_NEWER, ERR_CORRUPT},
		{TIDEMARK_E_READERS, ERR_BUSY},      {TIDEMARK_E_NOMEM, ERR_NOMEM},
		{TIDEMARK_E_IO, ERR_CORRUPT},
	};
	struct err err = {0};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		assert_false(err_of_tidemark(&err, cases[i].code, (const tidemark *)"table 100% missing"));
		assert_int_equal(err.kind, cases[i].kind);
		assert_string_equal(err.msg, "table 100% missing");
	}
	err_of_tidemark(&err, TIDEMARK_E_NOTFOUND, NULL);
	assert_string_equal(err.msg, "not found");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls_end_as_they_should),        cmocka_unit_test(an_error_is_a_line_of_a_json_log),
		cmocka_unit_test(lost_output_is_reported),         cmocka_unit_test(an_unread_pipe_is_no_fault),
		cmocka_unit_test(closed_descriptors_are_occupied), cmocka_unit_test(kinds_have_their_codes),
		cmocka_unit_test(read_errors_have_their_kinds),
	};
	unsetenv("TIDEMARK_STORE");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
