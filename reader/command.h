/*
 * reader/command.h - the table of commands and the exit codes.
 *
 * Each command is one file cmd_NAME.c that defines `const struct command
 * command_NAME`. main() parses its options, runs it, and is the one place
 * that prints a command's error and turns its kind into an exit code.
 *
 * SIGPIPE is ignored; print through output.h, or a little through stdio, which
 * main() flushes and checks at the end.
 */
#ifndef READER_COMMAND_H
#define READER_COMMAND_H

#include "reader/options.h"
#include "state/err.h"

enum {
	EXIT_OK = 0,
	EXIT_RUNTIME = 1,
	EXIT_USAGE = 2,      /* usage or configuration */
	EXIT_GAP = 3,        /* a gap or lineage refusal */
	EXIT_DIFFERENCE = 4, /* verify found differences */
	EXIT_STORE = 5       /* the store is in use or unreadable */
};

struct command {
	const char *name;
	const char *arguments; /* "--store DIR TABLE KEY..." for the usage line */
	const char *summary;   /* one line */
	const char *detail;    /* paragraphs for --help (options_print_text); may be NULL */
	const struct option_spec *options;
	/* False: err is set, and its kind decides the exit code. True: what err may hold was overcome. */
	bool (*run)(const struct options *o, struct err *err);
};

/* Options that more than one command has, for their tables. */
#define OPTION_STORE                                                                                         \
	{                                                                                                        \
		.name = "store", .type = OPTION_STRING, .value = "DIR", .required = true,                            \
		.help = "Directory of the store."                                                                    \
	}
#define OPTION_CONFIG                                                                                        \
	{                                                                                                        \
		.name = "config", .type = OPTION_STRING, .value = "FILE",                                            \
		.help = "INI file with any of these options."                                                        \
	}

int exit_code_of(enum err_kind kind); /* ERR_NONE and ERR_STOPPED: EXIT_OK */

/* Sets err from a tidemark.h code and message, with the kind that fits. Always false. */
struct tidemark;
bool err_of_tidemark(struct err *err, int code, const struct tidemark *tm);

#endif
