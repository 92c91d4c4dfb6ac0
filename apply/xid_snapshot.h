/*
 * apply/xid_snapshot.h - whether a PostgreSQL snapshot sees a transaction,
 * asked of its text ("xmin:xmax:xip,xip,...").
 *
 * The text is read at each question: the applier asks only for rows in doubt
 * that a chunk could complete, and those are few. Pure; any thread.
 */
#ifndef APPLY_XID_SNAPSHOT_H
#define APPLY_XID_SNAPSHOT_H

#include "state/err.h"
#include "state/pos.h"

/*
 * standby: the snapshot was taken on a standby, where the list of transactions
 * in progress is always empty: every xid at or above xmin counts as not seen.
 * ERR_PROTOCOL if text is not a snapshot.
 */
bool xid_snapshot_sees(const char *text, bool standby, xid_t xid, bool *sees, struct err *err);

#endif
