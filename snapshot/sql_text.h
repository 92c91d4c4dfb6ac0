/*
 * snapshot/sql_text.h - what every text of SQL is put together with. Pure; any thread.
 */
#ifndef SNAPSHOT_SQL_TEXT_H
#define SNAPSHOT_SQL_TEXT_H

#include "state/bytes.h"

void sql_put(struct buf *out, const char *s);
/* before, then n in decimal. */
void sql_put_number(struct buf *out, const char *before, size_t n);
/* NUL-terminated, in the arena; text is finished. */
const char *sql_finish(struct arena *a, struct buf *text);

#endif
