/*
 * snapshot/visibility.h - which transactions a PostgreSQL snapshot sees.
 *
 * Pure; any thread. See WINDOWS.md for why windows are decided by visibility.
 */
#ifndef SNAPSHOT_VISIBILITY_H
#define SNAPSHOT_VISIBILITY_H

#include "state/bytes.h"
#include "state/err.h"
#include "state/pos.h"

struct snap {
	xid_t xmin, xmax;
	xid_t *xip; /* ascending, in progress, xmin <= x < xmax */
	size_t nxip;
	bool standby; /* the xip list says nothing: every xid >= xmin counts as not visible */
};

/* Parses "xmin:xmax:xip,xip". One malloc inside; free with snap_finish. ERR_PROTOCOL. */
bool snap_parse(const char *text, bool standby, struct snap *out, struct err *err);
void snap_finish(struct snap *s); /* accepts zeroed memory */

bool snap_sees(const struct snap *s, xid_t xid);
/* s sees every transaction that gate sees (aborted ones do not matter). */
bool snap_covers(const struct snap *s, const struct snap *gate);

/* Appends the text of a snapshot, NUL included, that sees what either of the two sees. None of a standby. */
void snap_union(const struct snap *a, const struct snap *b, struct buf *out);

#endif
