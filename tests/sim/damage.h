/*
 * tests/sim/damage.h - what happens to a store that someone meddled with while
 * the product was stopped: rows altered, deleted, invented, all with old
 * positions. A run with sweep must mend it.
 */
#ifndef SIM_DAMAGE_H
#define SIM_DAMAGE_H

#include "tests/sim/session.h"

/*
 * Damages a table, if it is copied, of a store that no session uses, and tells the
 * judge. False: nothing done.
 */
bool damage_store(struct world *w, struct store *store, int table);

#endif
