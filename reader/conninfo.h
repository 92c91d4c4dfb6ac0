/*
 * reader/conninfo.h - what may be shown of a libpq connection string, and what
 * must be hidden.
 *
 * libpq's own error texts quote the string, and a password written without
 * the quoting it needs can end up in any part of it. So nothing here
 * repeats the input in an error, and only parts that cannot be a misplaced
 * password are shown.
 */
#ifndef READER_CONNINFO_H
#define READER_CONNINFO_H

#include <stdbool.h>

#include "state/err.h"

/*
 * "host:port/dbname" of a key=value string or URI, malloc'd: several hosts with
 * commas, a socket directory as host, "service=NAME" when the service file has the rest.
 * Parts not given are those that libpq would take from its environment and
 * defaults. ERR_CONFIG: it does not parse, or a password seems to have a character that a
 * URI must write as %XX: worth calling before the string is used.
 */
bool conninfo_display(const char *conninfo, char **out, struct err *err);

/* It has a password or another secret, or does not parse and so may have one. */
bool conninfo_has_secret(const char *conninfo);

/*
 * Overwrites with 'x' the secrets of `--source VALUE` and `--source=VALUE` in
 * place, and of options whose name ends in "-source": what ps shows of this process. Call first
 * thing in main(), with a copy made for the parser.
 */
void conninfo_hide_args(int argc, char *const *argv);

#endif
