/*
 * apply/guard.h - the one rule of writing, for stream and snapshot alike.
 *
 * An entry is written if and only if its position is strictly higher than the
 * stored one. An absent key counts as the table's floor (its last TRUNCATE).
 * Pure; any thread.
 */
#ifndef APPLY_GUARD_H
#define APPLY_GUARD_H

#include "state/pos.h"

/* present: an entry (row or delete marker) is stored at `stored`; otherwise `stored` is ignored. */
bool guard_admits(bool present, struct pos stored, struct pos floor, struct pos candidate);

#endif
