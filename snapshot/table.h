/*
 * snapshot/table.h - what the copier knows of one table: how to ask for its
 * rows, its runs, and its rows in doubt.
 *
 * Runs of a table go one after the other: first what the program itself wants (a first
 * copy, a table that was altered), then what someone asked for, in the order of their ids. Paused
 * ones are passed over. One owner, one thread.
 */
#ifndef SNAPSHOT_TABLE_H
#define SNAPSHOT_TABLE_H

#include "snapshot/copier.h"
#include "snapshot/operand.h"
#include "snapshot/pace.h"
#include "snapshot/run.h"

struct doubt {
	uint64_t count; /* as the applier said last */
	int64_t due_us; /* do not ask before */
	struct backoff wait;
	struct inquiry keys;
	uint32_t pages; /* asked for since the last keyed chunk */
};

struct table {
	uint32_t id;
	struct schema *schema; /* NULL until table_describe() */
	char *from_sql, *filter_sql;
	struct operand *operands; /* parallel to the key columns, or NULL */
	uint64_t text_id;         /* changes with whatever the SQL is made from */
	char **collations;        /* parallel to the columns, or NULL */
	bool copied;
	struct run *runs; /* open ones, by id */
	struct run *run;  /* the one of them that goes on; NULL = none */
	struct {
		uint64_t id, rows_read;
		enum run_state state;
	} last; /* the run that ended last; id 0 = none */
	struct doubt doubt;
	struct pace page_pace, key_pace; /* reads in key order, and by single keys */
	struct backoff retry;
	int64_t not_before_us;
	UT_hash_handle hh;
};

struct table *table_create(uint32_t id, const struct copier_config *config);
void table_destroy(struct table *t); /* accepts NULL */

enum table_change { TABLE_SAME, TABLE_OTHER_TEXT, TABLE_OTHER_KEY };
/* Takes over what is known now. text_id: the id for another text, used before by no table. */
enum table_change table_describe(struct table *t, const struct copier_table *d, uint64_t text_id);

bool table_is_live(const struct table *t);
/* As the SQL is made from it. */
struct chunk_source table_source(const struct table *t);

/* ---- runs ---- */
void table_add_run(struct table *t, struct run *r); /* takes r */
struct run *table_find_run(const struct table *t, uint64_t id);
/* The one that the program itself has open; NULL = none. */
struct run *table_own_run(const struct table *t);
/* `run` becomes the one whose turn it is. */
void table_choose_run(struct table *t);
/* It has ended: gone, but for what `last` keeps of it. */
void table_end_run(struct table *t, struct run *r);
/* S may be used for a chunk of r (NULL: of no run). */
bool table_admits(struct table *t, struct run *r, const struct snap *s, const struct unseen *u, lsn_t high);
/* A run whose gate is still closed, r before all; NULL = none. */
const struct run *table_gated_run(const struct table *t);

/* ---- rows in doubt ---- */
void table_doubt_is(struct table *t, uint64_t count, int64_t now_us);
/* A keyed chunk was written: whether it reduced anything is not known yet. */
void table_doubt_asked(struct table *t, struct slice resume, bool end, int64_t now_us);

#endif
