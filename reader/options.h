/*
 * reader/options.h - options of a command from three places: the command line,
 * TIDEMARK_* variables, and an INI file (--config). The first that has a value wins.
 *
 * A command declares a table; help is printed from it, so an option cannot be
 * undocumented. --chunk-rows is TIDEMARK_CHUNK_ROWS and `chunk-rows = ` in
 * the file (section [tidemark], or no section). Unknown options, unknown keys of the
 * file and values out of range are ERR_CONFIG naming the place.
 */
#ifndef READER_OPTIONS_H
#define READER_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "state/err.h"

enum option_type { OPTION_STRING, OPTION_INT, OPTION_FLAG, OPTION_CHOICE };

struct option_spec {
	const char *name;    /* without dashes; NULL ends the table */
	enum option_type type;
	const char *value;   /* what help calls the value: "DIR"; for OPTION_CHOICE the choices: "text|json" */
	const char *initial; /* default as text; NULL = none */
	long min, max;       /* OPTION_INT */
	bool required;
	const char *help;    /* one or two lines */
};

struct options;

/*
 * argv[0] is the first word after the command's name. Words that are not
 * options are collected as arguments; "--" ends options; "--name=value" and "--name value" both work.
 * --help sets options_help() and skips the checks for required ones.
 */
bool options_parse(const struct option_spec *specs, int argc, char *const *argv, struct options **out, struct err *err);
void options_free(struct options *o);

bool options_help(const struct options *o);
const char *options_string(const struct options *o, const char *name); /* NULL when not set; also for choices */
long options_int(const struct options *o, const char *name);
bool options_flag(const struct options *o, const char *name);
bool options_is_set(const struct options *o, const char *name); /* given anywhere, default aside */
int options_argc(const struct options *o);
const char *options_arg(const struct options *o, int i);

/* The option part of a command's help, aligned, 80 columns. */
void options_print_help(const struct option_spec *specs, FILE *out);

#endif
