#include "state/tidemark.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "state/store_impl.h"
#include "state/tidemark_impl.h"

/* A failed tidemark_open() leaves no handle to keep its message in. */
static _Thread_local char open_message[1024];

/* ---- errors ---- */

const char *tidemark_strerror(int code)
{
	switch (code) {
	case TIDEMARK_OK: return "success";
	case TIDEMARK_E_NOTFOUND: return "not found";
	case TIDEMARK_E_ARGUMENT: return "wrong argument";
	case TIDEMARK_E_NOSTORE: return "the directory has no store";
	case TIDEMARK_E_PERMISSION: return "permission denied";
	case TIDEMARK_E_CORRUPT: return "the store is damaged or not ours";
	case TIDEMARK_E_NEWER: return "the store was written by a newer version";
	case TIDEMARK_E_READERS: return "all reader slots are taken";
	case TIDEMARK_E_NOMEM: return "out of memory";
	case TIDEMARK_E_IO: return "input/output error";
	default: return "unknown error";
	}
}

const char *tidemark_errmsg(const tidemark *tm)
{
	return tm ? tm->message : open_message;
}

static int code_of(enum err_kind kind)
{
	switch (kind) {
	case ERR_CONFIG: return TIDEMARK_E_PERMISSION;
	case ERR_CORRUPT:
	case ERR_BUG: return TIDEMARK_E_CORRUPT;
	case ERR_BUSY: return TIDEMARK_E_READERS;
	case ERR_NOMEM: return TIDEMARK_E_NOMEM;
	case ERR_PROTOCOL: return TIDEMARK_E_ARGUMENT;
	default: return TIDEMARK_E_IO;
	}
}

int tidemark_fail(struct tidemark *tm, int code, const char *fmt, ...)
{
	char message[sizeof tm->message]; /* arguments may point into the old one */
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(message, sizeof message, fmt, ap);
	va_end(ap);
	memcpy(tm->message, message, sizeof message);
	return code;
}

int tidemark_fail_err(struct tidemark *tm, const struct err *err)
{
	return tidemark_fail(tm, code_of(err->kind), "%s", err->msg);
}

int tidemark_require_txn(struct tidemark *tm)
{
	if (tm->txn) return TIDEMARK_OK;
	return tidemark_fail(tm, TIDEMARK_E_ARGUMENT, "no transaction is open: call tidemark_begin() first");
}

/* ---- open and close ---- */

static int code_of_opening(enum store_why why, enum err_kind kind)
{
	switch (why) {
	case WHY_NO_STORE: return TIDEMARK_E_NOSTORE;
	case WHY_PERMISSION: return TIDEMARK_E_PERMISSION;
	case WHY_NEWER: return TIDEMARK_E_NEWER;
	case WHY_READERS: return TIDEMARK_E_READERS;
	case WHY_OTHER: break;
	}
	return code_of(kind);
}

static void format_id(const uint8_t *id, char out[2 * STORE_ID_SIZE + 1])
{
	for (size_t i = 0; i < STORE_ID_SIZE; i++)
		snprintf(out + 2 * i, 3, "%02x", id[i]);
}

int tidemark_open(const char *dir, tidemark **out)
{
	struct store *store;
	enum store_why why;
	struct err err;
	tidemark *tm;

	*out = NULL;
	open_message[0] = '\0';
	if (!store_open_why(dir, STORE_READ, &store, &why, &err)) {
		snprintf(open_message, sizeof open_message, "%s", err.msg);
		return code_of_opening(why, err.kind);
	}
	tm = mem_alloc(sizeof *tm);
	*tm = (tidemark){.store = store};
	format_id(store_id(store), tm->store_id);
	*out = tm;
	return TIDEMARK_OK;
}

static void forget(tidemark *tm)
{
	tables_forget(tm);
	status_forget(tm);
}

void tidemark_close(tidemark *tm)
{
	if (!tm) return;
	tidemark_end(tm);
	forget(tm);
	store_close(tm->store);
	free(tm);
}

/* ---- transactions ---- */

int tidemark_begin(tidemark *tm)
{
	struct err err;

	if (tm->txn)
		return tidemark_fail(tm, TIDEMARK_E_ARGUMENT, "a transaction is open: call tidemark_end() first");
	if (!store_begin_read(tm->store, &tm->txn, &err)) return tidemark_fail_err(tm, &err);
	if (store_txn_id(tm->txn) != tm->seen) forget(tm);
	tm->seen = store_txn_id(tm->txn);
	return TIDEMARK_OK;
}

void tidemark_end(tidemark *tm)
{
	while (tm->cursors)
		cursor_detach(tm->cursors);
	store_abort(tm->txn);
	tm->txn = NULL;
}

int tidemark_get_position(tidemark *tm, tidemark_position *out)
{
	struct checkpoint c;
	struct err err;
	bool found;

	*out = (tidemark_position){0};
	if (tidemark_require_txn(tm) != 0) return TIDEMARK_E_ARGUMENT;
	if (!store_get_checkpoint(tm->txn, &c, &found, &err)) return tidemark_fail_err(tm, &err);
	if (!found)
		return tidemark_fail(tm, TIDEMARK_E_NOTFOUND,
							 "store %s has no position yet: nothing was streamed into it",
							 store_dir(tm->store));
	*out = (tidemark_position){
		.epoch = c.epoch,
		.lsn = c.lsn.v,
		.commit_lsn = c.commit_lsn.v,
		.commit_time_us = c.commit_time_us,
		.written_us = c.written_us,
	};
	return TIDEMARK_OK;
}
