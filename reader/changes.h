/*
 * reader/changes.h - the stream's messages as operations: follows transactions
 * and relations, gives every change its position, tells the copier of each
 * changed key, and collects operations in batches.
 *
 *     stream -> changes_message() -> copier (supersede, close windows)
 *                                 -> batch -> sink.push -> apply queue
 *
 * Transactions below the checkpoint are skipped whole. Loop thread.
 */
#ifndef READER_CHANGES_H
#define READER_CHANGES_H

#include "apply/batch.h"
#include "reader/names.h"
#include "reader/relation.h"
#include "reader/signals.h"
#include "snapshot/copier.h"

struct changes;

struct changes_sink {
	void *ctx;
	void (*push)(void *ctx, struct batch *b); /* takes b */
	/* The server described a table: as a rule at its first change, but also after any ALTER. */
	void (*described)(void *ctx);
	/*
	 * At the end of a transaction that has signals. What is emitted meanwhile is committed together with the
	 * transaction: a checkpoint behind it is not durable without. s dies on return.
	 */
	void (*signals)(void *ctx, const struct signals *s);
	void (*refused)(void *ctx, const char *why); /* a signal that is none */
};

struct changes_config {
	uint16_t epoch;
	lsn_t checkpoint;     /* transactions with a commit LSN below it are skipped */
	xid_t xid_near;       /* any recent 64-bit xid: what 32-bit ones are widened by */
	bool message_signals; /* messages are signals */
};

struct changes *changes_create(const struct changes_config *config, struct changes_sink sink);
void changes_destroy(struct changes *ch); /* accepts NULL */
void changes_set_copier(struct changes *ch, struct copier *copier);
/* Rows inserted into it are signals; 0 = into none. */
void changes_set_signal_table(struct changes *ch, uint32_t table_id);

/*
 * A table that is replicated. record and schema are copied. shape_lsn: the
 * schema is from the source's catalog as of then. Transactions below it may describe an older
 * shape; another shape above it is ERR_RETRY: attach again.
 *
 * A change that does not tell its row, or in which columns, is of another shape as well: of a key or columns
 * that were others for a while. Of an older transaction it is lost. With its commit the table is on record as
 * one to be read again (shape LOST), and then that is ERR_RETRY, too.
 */
void changes_add_table(struct changes *ch, const struct table_record *record, const struct schema *schema,
					   lsn_t shape_lsn);
/* Transactions below shape_lsn are not asked by name for columns from `first` on (struct shape_mark). */
void changes_columns_added(struct changes *ch, uint32_t table_id, uint16_t first, bool null);
/*
 * What changes below `below` cannot tell, a run will: those that cannot be followed are passed over. all:
 * every one is, since all the run's chunks see them, and what is there already does not matter.
 */
void changes_covered(struct changes *ch, uint32_t table_id, lsn_t below, bool all);
const struct schema *changes_schema(const struct changes *ch, uint32_t table_id);

/* *altered is set when it fails because a table was altered: attach again. */
bool changes_message(struct changes *ch, struct slice payload, bool *altered, struct err *err);
/* A keepalive; kept to the end of an open transaction. */
void changes_position(struct changes *ch, lsn_t wal_end);
/* The checkpoint may move to what was received, if nothing is open: an idle slot must not pin WAL. True if
 * there was something to store. */
bool changes_store_position(struct changes *ch);

/* Pushes what was collected. The copier's batches go through changes_emit, behind it. */
void changes_flush(struct changes *ch);
/* No more has arrived: pushes it too, but for the little that is of an open transaction alone. */
void changes_dry(struct changes *ch);
void changes_emit(struct changes *ch, struct batch *b);

bool changes_in_transaction(const struct changes *ch);
lsn_t changes_received(const struct changes *ch);         /* every commit below it has been received */
int64_t changes_commit_time_us(const struct changes *ch); /* of the last transaction received; 0 = none */
uint64_t changes_count(const struct changes *ch);         /* row changes taken so far */

#endif
