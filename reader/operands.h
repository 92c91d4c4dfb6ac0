/*
 * reader/operands.h - asks the catalogs how key columns are compared
 * (snapshot/operand.h).
 */
#ifndef READER_OPERANDS_H
#define READER_OPERANDS_H

#include "reader/pgconn.h"
#include "snapshot/operand.h"
#include "state/schema.h"

/* Of the schema's key columns; *out is NULL where their types' names say enough. Freed with free(). */
bool operands_read(struct pgconn *c, uint32_t table_oid, const struct schema *s, struct operand **out,
				   struct err *err);

#endif
