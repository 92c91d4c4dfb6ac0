/*
 * reader/publication.h - the publications that the stream is made of: what they send of which table, and
 * bringing tables into ours.
 *
 * The option's text is a list: names separated by commas, as they are, without case folding; one with commas,
 * quotes or blanks at its ends stands in double quotes, in which "" is one.
 *
 * What a server sends of a table (15 to 18; 14 has neither filters nor column lists):
 * - as which table: a partition's rows go by the topmost table above it that is itself in a publication with
 *   publish_via_partition_root, else by their own name;
 * - which rows: those that the filter of any of these publications takes; all, if one of them has none;
 * - which columns: the list, which has to be the same in all of them, or the server refuses to go on.
 *
 * Straight-line questions on an SQL connection outside of pipeline mode.
 */
#ifndef READER_PUBLICATION_H
#define READER_PUBLICATION_H

#include "reader/catalog.h"

/* ERR_CONFIG says what is wrong with the list. */
bool publication_check_names(const char *names, struct err *err);
/* Checked names, for the server; caller frees. */
char *publication_identifiers(const char *names); /* "a", "b": as pgoutput takes them */
char *publication_array(const char *names);       /* {"a","b"}: text of a text[] */
size_t publication_count(const char *names);

struct publications;

/* What exists now, and what each publishes. *out is freed with publications_free(), also after an error. */
bool publications_read(struct pgconn *c, const char *names, struct publications **out, struct err *err);
void publications_free(struct publications *p); /* accepts NULL */

/* All of them exist. */
bool publication_exists(struct pgconn *c, const char *names, bool *out, struct err *err);

/*
 * Decides for each table of t how it will be sent: sets covered, filter_sql and schema, or refusal.
 * missing[i], parallel to t, tells that it is not published yet. Changes nothing on the server. ERR_CONFIG:
 * the publications themselves will not do.
 */
bool publications_settle(struct pgconn *c, const struct publications *p, struct source_tables *t,
						 bool *missing, struct err *err);

/*
 * Makes the publication if it does not exist, or adds the missing tables to it, and takes out drop_oids
 * (tables that are not replicated any more). Several publications are left as they are.
 */
bool publications_ensure(struct pgconn *c, const struct publications *p, const struct source_tables *t,
						 const bool *missing, const uint32_t *drop_oids, size_t ndrop, struct err *err);

#endif
