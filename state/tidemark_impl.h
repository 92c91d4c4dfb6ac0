/*
 * state/tidemark_impl.h - what the tidemark*.c files share; nobody else includes it.
 *
 *   tidemark.c         handle, transactions, errors
 *   tidemark_tables.c  tables and columns
 *   tidemark_rows.c    one row, scans
 *   tidemark_status.c  runs, lineage, figures
 *
 * What is read of the small records is kept until a transaction sees
 * another state, so that a program that begins and ends for each row pays for a look at
 * the transaction's number and no more.
 */
#ifndef STATE_TIDEMARK_IMPL_H
#define STATE_TIDEMARK_IMPL_H

#include "state/store.h"
#include "state/tidemark.h"

/* How rows of one schema version show the columns of today. */
struct layout {
	struct schema *schema;
	int *column; /* for each column of today: its index in this version, -1: it had none */
};

/* The row that a tidemark_row points to. Its memory is reused by the next one. */
struct row_view {
	const struct layout *layout;
	size_t ncolumns;    /* of today */
	struct slice entry; /* in the map */
	uint32_t *at;       /* where in it each column of its version begins, and where the last one ends */
	size_t at_cap;
	uint8_t *copy; /* of the entry, made for the first value asked for, with NULs behind the texts */
	size_t copy_cap;
	bool copied;
};

struct tidemark_table {
	struct tidemark *tm;
	struct table_record record;
	tidemark_table_info info;
	struct schema *schema; /* current; NULL until first needed */
	enum key_kind kinds[KEY_COLUMNS_MAX];
	struct layout **layouts;
	size_t nlayouts;
	struct row_view view; /* of tidemark_get() */
	struct buf full_key;
};

struct tidemark_cursor {
	struct tidemark_cursor *next; /* all open ones of the handle */
	struct tidemark_table *table; /* NULL: the transaction has ended */
	struct store_scan *scan;
	struct row_view view;
	struct buf from, to; /* bounds as full encodings; see tidemark_rows.c */
	bool to_is_whole;    /* `to` has all key columns */
};

/* The bounds of a run as words; NULL = none. */
struct run_bounds {
	char *from, *to;
};

struct tidemark {
	struct store *store;
	struct store_txn *txn; /* NULL: none is open */
	uint64_t seen;         /* number of the state that the following were read from */
	struct tidemark_table **tables;
	size_t ntables;
	bool tables_loaded;
	struct run_record *runs;
	struct run_bounds *bounds; /* parallel to runs */
	size_t nruns;
	bool runs_loaded;
	struct lineage lineage;
	char store_id[2 * STORE_ID_SIZE + 1];
	struct tidemark_cursor *cursors;
	char message[1024];
};

/* tidemark.c. Both set the message and return the code. */
int tidemark_fail(struct tidemark *tm, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
int tidemark_fail_err(struct tidemark *tm, const struct err *err);
/* 0, or ARGUMENT when there is no transaction. */
int tidemark_require_txn(struct tidemark *tm);

/* tidemark_tables.c */
void tables_forget(struct tidemark *tm);
/* The layout of a version, read on first use. NULL: the code is in *rc. */
const struct layout *table_layout_search(struct tidemark_table *t, uint32_t version, int *rc);
/* Rows of one version come in stretches: the last one used is first in the list. */
static inline const struct layout *table_layout(struct tidemark_table *t, uint32_t version, int *rc)
{
	if (t->nlayouts > 0 && t->layouts[0]->schema->version == version) return t->layouts[0];
	return table_layout_search(t, version, rc);
}

/* tidemark_rows.c */
void row_view_finish(struct row_view *v);
void cursor_detach(struct tidemark_cursor *c); /* its transaction ends */

/* tidemark_status.c */
void status_forget(struct tidemark *tm);

#endif
