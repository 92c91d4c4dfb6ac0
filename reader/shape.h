/*
 * reader/shape.h - a short text for everything in the catalog that decides what
 * a table's rows are and whether we get their changes; kept with the table's
 * record, so that a change is noticed even when the stream says nothing of it.
 *
 * The log has no events for the rows that ALTER TABLE rewrites, none for a
 * column dropped and added again under its name, and none for changes made while a
 * table was out of the publication. So the catalog is asked: at every start, soon after the
 * server describes a table again, and every few seconds.
 *
 *     publication:xmin:entries,... / files / count;attnum:xmin:name,... / key indexes;types / name
 *
 * - files: the file node; of a partitioned table "p" and a digest of its partitions and their files, since a
 *   partition that is truncated, attached or detached has no events either.
 * - count: the columns that were ever added; name: a digest of the column's; followed by m where rows
 *   that were there before the column have a value in it.
 * - types: labels of enums and attributes of composite types that columns are made of, id=digest,...: ALTER
 * TYPE
 *   ... RENAME VALUE changes what every row reads as.
 *
 * Pure, but for the text of the question.
 */
#ifndef READER_SHAPE_H
#define READER_SHAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "state/pos.h"

/* Instead of a shape: changes of the table were lost. Compares as SHAPE_REPUBLISHED. */
#define SHAPE_LOST "?"

enum shape_change {
	SHAPE_SAME,
	SHAPE_STORAGE,  /* only the file is another: TRUNCATE, VACUUM FULL, CLUSTER. Rows are the same or streamed
					 */
	SHAPE_OTHER,    /* names, keys, defaults: worth a look at the catalog, no row has changed */
	SHAPE_EXTENDED, /* as OTHER, and columns were added that are NULL in every row there was */
	SHAPE_PARTS,    /* of a partitioned table: rows may have come and gone with whole partitions */
	SHAPE_ALTERED,  /* rows may read differently now without the log saying so: read them again */
	SHAPE_REPUBLISHED /* it was out of the publication meanwhile, or published otherwise: changes may be lost:
						 read them again, with a sweep */
};

/* before "" (nothing known) compares as SHAPE_SAME. */
enum shape_change shape_compare(const char *before, const char *now);

/*
 * What stands before the shape in a table's record while the stream is still behind an ALTER TABLE whose rows
 * are not read again: "@until first null@". In transactions below `until` columns from `first` on are not to
 * be found by name: those may have moved since. null: when the wire describes exactly the columns in front of
 * such a one, it was not there yet, and is NULL.
 */
struct shape_mark {
	lsn_t until;
	uint16_t first;
	bool null;
};
/* malloc'd text */
char *shape_put_mark(const char *shape, const struct shape_mark *mark);
/* False: it has none. */
bool shape_get_mark(const char *shape, struct shape_mark *out);

/* True: a type of the table's columns prints values otherwise than before. */
bool shape_retypes(const char *before, const char *now);

/* True: a column was renamed, or a name that a column had is another one's now. */
bool shape_renames(const char *before, const char *now);

/*
 * The question for all tables that could be replicated: rows of (oid, schema, table, shape),
 * shape NULL for those not among oids. publications as in publication.h. malloc'd text without parameters.
 */
char *shape_sql(uint32_t server_version, const char *publication, const uint32_t *oids, size_t n);

#endif
