/*
 * reader/stored.h - what the store says at the start of a session: checkpoint,
 * lineage, tables with their current schemas, open runs, unseen transactions.
 */
#ifndef READER_STORED_H
#define READER_STORED_H

#include "state/store.h"

struct stored {
	bool fresh; /* no checkpoint: nothing was ever replicated into it */
	struct checkpoint checkpoint;
	struct lineage lineage; /* zeroed when fresh */
	struct table_record *tables;
	struct schema **schemas; /* parallel to tables */
	size_t ntables;
	struct schema **older; /* earlier versions, of all tables: some row may still be of one */
	size_t nolder;
	struct run_record *runs; /* all of them, oldest first */
	size_t nruns;
	struct unseen_entry *unseen;
	size_t nunseen;
	char *backends; /* of the last attachment, of whatever process: attach.h; or NULL */
};

bool stored_load(struct store *s, struct stored *out, struct err *err);
void stored_free(struct stored *s); /* accepts zeroed memory */

uint32_t stored_next_table_id(const struct stored *s);
uint64_t stored_next_run_id(const struct stored *s);
/* The table's open run that is ours and nobody asked for, or NULL. */
const struct run_record *stored_open_run(const struct stored *s, uint32_t table_id);
/* The runs once more: while nothing streams they may be written (recording.h). */
bool stored_reload_runs(struct store *store, struct stored *s, struct err *err);

#endif
