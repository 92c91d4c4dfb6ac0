/*
 * snapshot/operand.h - how the server is asked to compare a key column.
 *
 * ORDER BY goes by the default B-tree operator class of the column's type,
 * wherever that lives; `>` and `=` go by name, and the search_path is empty. So
 * a type of an extension (citext, ltree) would be compared as another type, or
 * not at all, unless its operators are named with their schema. A domain is cast to its
 * base type: a domain can bring a collation that is not the column's.
 *
 * A copy is one malloc block, freed with free(). Pure; any thread.
 */
#ifndef SNAPSHOT_OPERAND_H
#define SNAPSHOT_OPERAND_H

#include <stdbool.h>
#include <stddef.h>

struct operand {
	const char *cast;    /* the type a parameter is cast to */
	const char *gt, *eq; /* as in OPERATOR("public".>); NULL: plain > and = */
};

/* Both accept NULL for none: the copy is NULL. */
struct operand *operands_copy(const struct operand *o, size_t n);
bool operands_same(const struct operand *a, const struct operand *b, size_t n);

#endif
