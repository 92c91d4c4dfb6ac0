#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "reader/command.h"
#include "reader/conninfo.h"
#include "reader/log.h"
#include "reader/suggest.h"
#include "reader/version.h"

extern const struct command command_run, command_get, command_scan, command_tables, command_status,
	command_wait, command_snapshot;

static const struct command *const commands[] = {
	&command_run,    &command_get,  &command_scan,     &command_tables,
	&command_status, &command_wait, &command_snapshot,
};

#define NCOMMANDS (sizeof commands / sizeof *commands)

/* The one place that prints an error. In JSON it is a line like any other of the log. */
static int report(const struct err *err)
{
	int code = exit_code_of(err->kind);

	if (err->kind == ERR_STOPPED) return code;
	if (log_is_json())
		log_error(err->msg, KV_I("exit", code), KV_END);
	else
		fprintf(stderr, "tidemark: %s\n", err->msg);
	return code;
}

/* ---- help ---- */

static void print_overview(FILE *out)
{
	fputs("tidemark: an exact, live, local copy of PostgreSQL tables in LMDB\n\n"
		  "Usage: tidemark COMMAND [OPTION...] [ARGUMENT...]\n\n"
		  "Commands:\n",
		  out);
	for (size_t i = 0; i < NCOMMANDS; i++)
		fprintf(out, "  %-10s%s\n", commands[i]->name, commands[i]->summary);
	fputs("\n\"tidemark help COMMAND\" shows the options of a command.\n"
		  "\"tidemark --version\" shows the version.\n",
		  out);
}

static void print_command_help(const struct command *c)
{
	printf("Usage: tidemark %s %s\n\n%s\n", c->name, c->arguments, c->summary);
	if (c->detail != NULL) {
		putchar('\n');
		options_print_text(c->detail, stdout);
	}
	putchar('\n');
	options_print_help(c->options, stdout);
}

static bool unknown_command(const char *word, struct err *err)
{
	struct suggest s = suggest_for(word, strlen(word));

	for (size_t i = 0; i < NCOMMANDS; i++)
		suggest_offer(&s, commands[i]->name);
	if (s.best != NULL)
		return err_set(err, ERR_CONFIG,
					   "unknown command \"%.64s\"; did you mean \"%s\"? See \"tidemark help\"", word, s.best);
	return err_set(err, ERR_CONFIG, "unknown command \"%.64s\"; see \"tidemark help\"", word);
}

static bool find_command(const char *word, const struct command **out, struct err *err)
{
	for (size_t i = 0; i < NCOMMANDS; i++) {
		if (strcmp(commands[i]->name, word) == 0) {
			*out = commands[i];
			return true;
		}
	}
	return unknown_command(word, err);
}

static bool show_help(int argc, char *const *argv, struct err *err)
{
	const struct command *c;

	if (argc == 0) {
		print_overview(stdout);
		return true;
	}
	if (!find_command(argv[0], &c, err)) return false;
	print_command_help(c);
	return true;
}

/* ---- running ---- */

static bool parse_options(const struct command *c, int argc, char *const *argv, struct options **out,
						  struct err *err)
{
	const struct option_spec *known[NCOMMANDS + 1] = {NULL};

	for (size_t i = 0; i < NCOMMANDS; i++)
		known[i] = commands[i]->options;
	if (options_parse_known(c->options, known, argc, argv, out, err)) return true;
	if (err->kind == ERR_CONFIG)
		err_set(err, ERR_CONFIG, "%.900s (see \"tidemark help %s\")", err->msg, c->name);
	return false;
}

static bool run_command(const struct command *c, int argc, char *const *argv, struct err *err)
{
	struct options *o;
	bool good = true;

	if (!parse_options(c, argc, argv, &o, err)) return false;
	if (options_help(o))
		print_command_help(c);
	else
		good = c->run(o, err);
	options_free(o);
	return good;
}

/* argv begins with the word after "tidemark". */
static bool run(int argc, char *const *argv, struct err *err)
{
	const struct command *c;

	if (strcmp(argv[0], "--version") == 0) {
		puts("tidemark " TIDEMARK_VERSION);
		return true;
	}
	if (strcmp(argv[0], "help") == 0 || strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0)
		return show_help(argc - 1, argv + 1, err);
	if (argv[0][0] == '-')
		return err_set(err, ERR_CONFIG, "unknown option %.*s before the command; see \"tidemark help\"",
					   (int)strcspn(argv[0], "="), argv[0]);
	return find_command(argv[0], &c, err) && run_command(c, argc - 1, argv + 1, err);
}

/* Output that did not arrive is a failure, except that nobody wanted it (EPIPE). */
static bool flush_stdout(struct err *err)
{
	bool failed = ferror(stdout);

	errno = 0;
	if (fflush(stdout) != 0) failed = true;
	if (!failed || errno == EPIPE) return true;
	return err_set(err, ERR_DISK, "cannot write to standard output%s%s", errno != 0 ? ": " : "",
				   errno != 0 ? strerror(errno) : "");
}

/* With 0, 1 or 2 closed, a file of the store would get that number and be printed into. */
static void occupy_standard_fds(void)
{
	for (int fd = 0; fd <= 2; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd)
			_exit(EXIT_RUNTIME);
}

static char **copy_words(int argc, char *const *argv)
{
	char **copy = calloc((size_t)argc + 1, sizeof *copy);

	for (int i = 0; copy != NULL && i < argc; i++) {
		copy[i] = strdup(argv[i]);
		if (copy[i] == NULL) abort();
	}
	return copy;
}

static void free_words(char **words)
{
	for (int i = 0; words[i] != NULL; i++)
		free(words[i]);
	free(words);
}

int main(int argc, char **argv)
{
	char **words = copy_words(argc, argv);
	struct err err = {0};
	int code = EXIT_OK;

	conninfo_hide_args(argc, argv);
	signal(SIGPIPE, SIG_IGN); /* a lost peer, be it a server or `| head`, comes back as EPIPE */
	signal(SIGXFSZ, SIG_IGN); /* a file at the limit of its size comes back as EFBIG */
	occupy_standard_fds();
	if (words == NULL) abort();
	if (argc < 2) {
		print_overview(stderr);
		code = EXIT_USAGE;
	} else if (!run(argc - 1, words + 1, &err) || !flush_stdout(&err)) {
		code = report(&err);
	}
	free_words(words);
	return code;
}
