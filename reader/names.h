/*
 * reader/names.h - table names and table patterns as people write them.
 *
 * A TABLE is `schema.table`, each part as in SQL: unquoted parts start with a
 * letter, '_' or a byte above 127, go on with those, digits or '$', and fold
 * A-Z to lower case; "quoted" parts are taken as they are, "" is one quote. A
 * lone name is in schema public. Unlike in SQL reserved words need no quotes.
 *
 *     Orders           public  orders
 *     shop."Order.s"   shop    Order.s
 *
 * A PATTERN is a TABLE whose unquoted parts may also contain '*' (any
 * characters, none too) and '?' (one character). Patterns are separated by commas,
 * with spaces around them if you like. `*` is every table of public, `*.*` every table.
 *
 * Names are never cut to a length. Pure. Any thread.
 */
#ifndef READER_NAMES_H
#define READER_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#include "state/bytes.h"
#include "state/err.h"

struct table_name {
	char *schema_name, *table_name; /* unquoted, NUL-terminated; table_name is in the same block */
};

/* ERR_CONFIG says what is wrong with the text and at which byte of it. */
bool names_parse(const char *text, struct table_name *out, struct err *err);
void names_finish(struct table_name *name); /* accepts zeroed memory */

/* Appends `schema.table`, a part quoted when names_parse() needs that to give the same name back. No NUL. */
void names_put(struct buf *out, const char *schema_name, const char *table_name);

struct name_patterns;

/* A list of at least one pattern. */
bool names_parse_patterns(const char *text, struct name_patterns **out, struct err *err);
void names_free_patterns(struct name_patterns *p); /* accepts NULL */

/* Some pattern of the list matches. */
bool names_match(const struct name_patterns *p, const char *schema_name, const char *table_name);

/* One by one, to say which pattern matched nothing. */
size_t names_pattern_count(const struct name_patterns *p);
const char *names_pattern_text(const struct name_patterns *p, size_t i); /* as it was written */
bool names_match_one(const struct name_patterns *p, size_t i, const char *schema_name,
					 const char *table_name);

#endif
