/*
 * reader/alteration.h - what was done to a table between what the store knows of it and what the source has
 * now, and whether its rows have to be read again for it.
 *
 * Pure. Any thread.
 */
#ifndef READER_ALTERATION_H
#define READER_ALTERATION_H

#include "reader/catalog.h"
#include "reader/shape.h"
#include "reader/stored.h"

enum on_schema_change {
	ON_CHANGE_BACKFILL, /* read rows again that may read differently now */
	ON_CHANGE_CONTINUE, /* leave them as they are until the source writes them */
	ON_CHANGE_STOP
};

enum alteration {
	ALTERATION_NONE,
	ALTERATION_NAME,     /* it has another name; nothing else */
	ALTERATION_EXTENDED, /* columns were added that are NULL in all rows there were */
	ALTERATION_COLUMNS,  /* added, dropped, renamed or of another type; or rows were rewritten */
	ALTERATION_KEY       /* its rows go by another key: nothing of the store can be compared with them */
};

/* i: the table's index in s. */
enum alteration alteration_find(const struct stored *s, size_t i, const struct source_table *now);

/*
 * The alteration means that rows have to be read again. Under ON_CHANGE_CONTINUE only where they would show
 * the values of one column under the name of another, or none under a new one: rows are shown by name, in the
 * columns of today, each decoded under its own version.
 */
bool alteration_needs_rows(const struct stored *s, size_t i, const struct source_table *now,
						   enum alteration what, enum on_schema_change mode);

/*
 * When it does not: what transactions that are older than the catalog must not be asked by name (shape.h).
 * start: where the stream goes on. False: nothing.
 */
bool alteration_mark(const struct stored *s, size_t i, const struct source_tables *t,
					 const struct source_table *now, enum alteration what, lsn_t start,
					 struct shape_mark *out);

/* ON_CHANGE_STOP: ERR_CONFIG if any table of the store was altered, or dropped and made again. */
bool alteration_check(const struct stored *s, const struct source_tables *t, enum on_schema_change mode,
					  struct err *err);

#endif
