/*
 * reader/plan.h - compare what the store replicates with what the source has,
 * at the start of a session, and say it as operations: tables that are new,
 * renamed, reshaped, left, back again; and the runs that follow.
 *
 * Pure: it builds a batch and a list of runs to start. Loop thread.
 */
#ifndef READER_PLAN_H
#define READER_PLAN_H

#include "apply/batch.h"
#include "reader/attach.h"
#include "reader/changes.h"

struct planned_run {
	uint32_t table_id;
	enum run_kind kind;
	bool sweep;
	const char *gate; /* points into the attachment */
	const char *requester;
	lsn_t as_of; /* copier_start_run_as_of() */
};

struct planned_table {
	uint32_t table_id;
	const struct source_table *source; /* in the attachment */
	bool copied;
	const struct run_record *resume; /* an open run of the store that goes on, in stored; or NULL */
};

struct plan {
	struct batch *batch; /* records to write before anything else; taken by the caller */
	struct planned_table *tables;
	size_t ntables;
	struct planned_run *runs;
	size_t nruns;
};

/* Adds each table to changes too. always: tables that are already copied get a new run as well. */
void plan_make(const struct stored *stored, const struct attachment *a, const struct lineage *lineage,
			   uint16_t epoch, bool always, struct changes *changes, struct plan *out);
void plan_finish(struct plan *p);

#endif
