/*
 * reader/collations.h - asks the catalogs for the collations of a table's
 * columns, where a column's differs from its type's own: what compares stored values as the table
 * does needs them (snapshot/copier.h).
 */
#ifndef READER_COLLATIONS_H
#define READER_COLLATIONS_H

#include "reader/pgconn.h"
#include "state/schema.h"

/*
 * *out is parallel to the schema's columns: quoted and qualified, or NULL for the type's own. It is NULL
 * where all are. One block, freed with free().
 */
bool collations_read(struct pgconn *c, uint32_t table_oid, const struct schema *s, char ***out,
					 struct err *err);

#endif
