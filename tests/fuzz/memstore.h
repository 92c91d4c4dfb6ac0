/*
 * tests/fuzz/memstore.h - one store in memory for the whole process, emptied
 * for each input: opening one takes longer than most inputs.
 *
 * It lies below $TIDEMARK_FUZZ_TMP, else /dev/shm, else /tmp, and goes away
 * when the process exits by itself.
 */
#ifndef TESTS_FUZZ_MEMSTORE_H
#define TESTS_FUZZ_MEMSTORE_H

#include "state/store.h"
#include "state/tidemark_impl.h"

struct store *memstore(void);
/* No table, run, transaction, checkpoint or lineage is left. No transaction may be open. */
void memstore_empty(void);

/* The public read API on it, which is otherwise for other processes. Not to be closed. */
struct tidemark *memstore_reader(void);
/* Forgets what the reader has kept: an emptied store may come to the same transaction number. */
void memstore_reader_reset(void);

#endif
