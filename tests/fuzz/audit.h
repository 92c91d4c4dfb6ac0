/*
 * tests/fuzz/audit.h - is a store consistent? What the records count is there,
 * every entry can be read and lies under its own key, and nothing went back.
 */
#ifndef TESTS_FUZZ_AUDIT_H
#define TESTS_FUZZ_AUDIT_H

#include "state/store.h"

/* Positions of all entries at the last audit, ascending by table and key. A zeroed struct has none. */
struct audit {
	struct buf entries;
};

void audit_finish(struct audit *a);
/* Of what is committed. Ends the process if something does not hold. */
void audit_store(struct audit *a, struct store *s);

#endif
