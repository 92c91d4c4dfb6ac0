/*
 * reader/runlog.h - one log line for each requested run that ends, with its
 * counts, and the reason if it failed. It looks at the store's records. Loop thread.
 */
#ifndef READER_RUNLOG_H
#define READER_RUNLOG_H

#include "state/store.h"

struct runlog;

struct runlog *runlog_create(struct store *store);
void runlog_destroy(struct runlog *l); /* accepts NULL */

/* Follows the requested runs that are open in the store. */
void runlog_load(struct runlog *l);
/* And this one, which may not be there yet. */
void runlog_add(struct runlog *l, uint64_t run_id);
/* Logs those of them that have ended, once. */
void runlog_look(struct runlog *l);

#endif
