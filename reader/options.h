/*
 * reader/options.h - options of a command from three places: the command line,
 * TIDEMARK_* variables, and an INI file (--config). The first that has a value wins.
 *
 * A command declares a table; help is printed from it, so an option cannot be
 * undocumented. --chunk-rows is TIDEMARK_CHUNK_ROWS and `chunk-rows = ` in
 * the file (section [tidemark], or no section). Unknown options, unknown keys of the
 * file and values out of range are ERR_CONFIG naming the place.
 *
 * - A flag is --json or --no-json on the command line; elsewhere its value is
 *   1/0, true/false, yes/no or on/off. An empty variable counts as not set.
 * - The file is read when the command declares an option "config" and it is
 *   set. A line is `name = value`; a comment starts with ';' or '#', at the start of
 *   a line or after a space (inside a password write \; or \#, %3B or %23 in a URI).
 *   Relative paths in it are relative to the working directory.
 * - Values are never repeated in an error unless the option is a number, a
 *   choice or a flag: a string may be a connection string.
 */
#ifndef READER_OPTIONS_H
#define READER_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "state/err.h"

enum option_type { OPTION_STRING, OPTION_INT, OPTION_FLAG, OPTION_CHOICE };

struct option_spec {
	const char *name; /* without dashes; NULL ends the table */
	enum option_type type;
	const char *value;   /* what help calls the value: "DIR"; for OPTION_CHOICE the choices: "text|json" */
	const char *initial; /* default as text; NULL = none */
	long min, max;       /* OPTION_INT */
	bool required;
	const char *help; /* one or two lines; of a flag that is on by default: what --no-NAME does */
};

struct options;

/*
 * argv[0] is the first word after the command's name. Words that are not
 * options are collected as arguments; "--" ends options; "--name=value" and "--name value" both work
 * (a value that starts with "--" needs the first form). "-" and words like -5 are arguments.
 * --help (or -h) sets options_help() and skips all that follows, the checks for required ones too.
 * specs must outlive the result.
 */
bool options_parse(const struct option_spec *specs, int argc, char *const *argv, struct options **out,
				   struct err *err);
/*
 * The same for one command of several: a key of the file that only another
 * command declares is passed over, so that one file serves all. `known` lists the tables of
 * all commands and ends with NULL; NULL: there are no others.
 */
bool options_parse_known(const struct option_spec *specs, const struct option_spec *const *known, int argc,
						 char *const *argv, struct options **out, struct err *err);
void options_free(struct options *o);

bool options_help(const struct options *o);
const char *options_string(const struct options *o, const char *name); /* NULL when not set; also choices */
long options_int(const struct options *o, const char *name); /* 0 when not set and without a default */
bool options_flag(const struct options *o, const char *name);
bool options_is_set(const struct options *o, const char *name); /* given anywhere, default aside */
int options_argc(const struct options *o);
const char *options_arg(const struct options *o, int i);

/* The option part of a command's help, aligned, 80 columns. */
void options_print_help(const struct option_spec *specs, FILE *out);

/*
 * Paragraphs, wrapped to 80 columns. An empty line separates two; one that
 * starts with a space stays as it is.
 */
void options_print_text(const char *text, FILE *out);

#endif
