/*
 * reader/catalog.h - what the source's catalogs say about tables: columns, the
 * key a copy can go by, and what stands in the way; the slot.
 *
 * A partitioned table is one table: its rows are those of its partitions, and they arrive under its name
 * (publish_via_partition_root). Partitions of one that is replicated so are "covered" by it.
 *
 * Straight-line questions on an SQL connection outside of pipeline mode.
 */
#ifndef READER_CATALOG_H
#define READER_CATALOG_H

#include "reader/names.h"
#include "reader/pgconn.h"
#include "snapshot/operand.h"
#include "state/pos.h"
#include "state/schema.h"

struct source_table {
	uint32_t oid;
	char *schema_name, *table_name;
	char *display;            /* schema.table, quoted where SQL needs it */
	char *from_sql;           /* ONLY "schema"."table"; without ONLY when partitioned */
	struct schema *schema;    /* table_id and version 0; NULL when refused, covered, or not read yet */
	char *filter_sql;         /* publication row filter, or NULL */
	struct operand *operands; /* of the key columns, or NULL */
	char **collations;        /* collations.h; NULL: all are their types' own */
	char *shape;              /* shape.h; NULL until catalog_read_shapes() */
	char *refusal;            /* why it cannot be replicated and the SQL that changes that; NULL = it can */
	int64_t rows_estimate;    /* planner's idea; -1 = never analysed */

	bool partitioned;
	char identity;       /* replica identity: d, i, f or n */
	bool covered;        /* its rows come with another table, or with all of its partitions */
	uint32_t *ancestors; /* of a partition: the tables above it, nearest first, ended by 0; NULL = none */
	int leaves;          /* partitions that hold rows, at any depth */
	char *key_attnums;   /* of the key it goes by, in index order: "1 3"; NULL = not read yet, or none */
};

struct source_tables {
	struct source_table *v;
	size_t n;
	lsn_t read_at; /* a WAL position not before any DDL that these entries show */
};

/*
 * Every ordinary and partitioned table that a pattern matches, refusals
 * included. hit[i] tells whether pattern i matched any. Columns come later: they depend on the publication.
 * So do the keys of partitions, of which there can be thousands: most are covered.
 */
bool catalog_read_tables(struct pgconn *c, const struct name_patterns *patterns, bool *hit,
						 struct source_tables *out, struct err *err);
/* Fills in the key, or refusal. Does nothing for a table that has either. */
bool catalog_read_key(struct pgconn *c, struct source_table *t, struct err *err);
/* What of a table's columns is published. */
struct published_columns {
	const char *names; /* text of a name[]; NULL: all but generated ones */
	bool generated;    /* stored generated columns too */
};
/* Fills in schema, or refusal. */
bool catalog_read_columns(struct pgconn *c, struct source_table *t, const struct published_columns *published,
						  struct err *err);
/* Fills in the shapes of tables that are replicated. After publication_ensure(). */
bool catalog_read_shapes(struct pgconn *c, const char *publication, struct source_tables *t, struct err *err);
void source_tables_free(struct source_tables *t); /* accepts zeroed memory */
const struct source_table *source_tables_find(const struct source_tables *t, uint32_t oid);
/* Neither refused nor covered. */
bool source_table_is_used(const struct source_table *t);

/* ---- the slot ---- */
struct slot_state {
	bool exists, active, logical, lost, ours_to_use; /* ours_to_use: pgoutput and this database */
	int active_pid;
	lsn_t confirmed_flush;
	char why_lost[128]; /* wal_status / invalidation_reason */
};
bool catalog_read_slot(struct pgconn *c, const char *slot, struct slot_state *out, struct err *err);

/* schema.table as people write it, quoted where needed; caller frees. */
char *display_name(const char *schema_name, const char *table_name);

/* Caller frees. */
char *text_format(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* One text: the sessions and prepared transactions that hold a transaction id, oldest first, a few of them.
 */
extern const char catalog_blockers_sql[];

/*
 * A question of ours. The answer has exactly `columns` columns and at least `rows` rows: one that has not, as
 * no server gives it, is ERR_PROTOCOL, so that nobody looks for a value that is not there.
 */
bool catalog_ask(struct pgconn *c, const char *sql, int nparams, const char *const *params, int columns,
				 int rows, PGresult **out, struct err *err);
/* One-row, one-column question answered as text (malloc'd; NULL for SQL NULL or no row). */
bool catalog_ask_text(struct pgconn *c, const char *sql, char **out, struct err *err);

#endif
