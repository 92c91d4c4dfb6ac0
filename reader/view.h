/*
 * reader/view.h - what the commands that read a store share: opening it,
 * finding a table by what the user typed, printing its rows, asking whether a
 * daemon is at work.
 *
 * Everything goes through state/tidemark.h, as any other program would. One
 * thread.
 */
#ifndef READER_VIEW_H
#define READER_VIEW_H

#include <stdbool.h>

#include "reader/format.h"
#include "reader/options.h"
#include "reader/output.h"
#include "state/err.h"
#include "state/tidemark.h"

/* Opens the store of --store and begins a transaction. tidemark_close() ends both. */
bool view_open(const char *dir, tidemark **out, struct err *err);
/* The error of a tidemark_open() that returned code. Always false. */
bool view_no_store(const char *dir, int code, struct err *err);

/*
 * The table called `text`: schema.table quoted as in SQL, public when the
 * schema is left out. ERR_CONFIG: not a name, or no such table; the message
 * says which tables have a name like it.
 */
bool view_table(tidemark *tm, const char *text, tidemark_table **out, struct err *err);

/* schema.table, quoted where SQL needs it. Bytes that would move a terminal's cursor become '?'. */
void view_put_name(struct buf *out, const char *schema_name, const char *table_name);
/* The same as a C string cut to size, for messages. */
#define VIEW_NAME_SIZE 280
const char *view_name(const tidemark_table *t, char out[VIEW_NAME_SIZE]);
/* "tenant integer, id bigint": the key columns with their types, for messages. */
#define VIEW_KEY_SIZE 480
const char *view_key(const tidemark_table *t, char out[VIEW_KEY_SIZE]);

/* ---- rows ---- */
struct printer {
	struct format *format;
	struct slice *cells;
	size_t ncolumns;
};

/* For tables of t's shape. Fails as format_create() does. */
bool printer_init(struct printer *p, const tidemark_table *t, enum format_kind kind, bool with_meta,
				  struct err *err);
void printer_finish(struct printer *p); /* accepts zeroed memory */
void printer_put(struct printer *p, const tidemark_row *row, struct buf *out);

/* ---- the daemon ---- */
enum daemon_state { DAEMON_ABSENT, DAEMON_RUNNING, DAEMON_UNKNOWN };

/*
 * Whether someone holds the store's lock. *pid is what the lock file says, 0
 * = nothing readable. UNKNOWN: the lock file cannot be read.
 */
enum daemon_state view_daemon(const char *dir, long *pid);

#endif
