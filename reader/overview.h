/*
 * reader/overview.h - what `tidemark status` shows, gathered in one read
 * transaction, and the warnings that follow from it.
 *
 * Plain data; the strings live until the handle's transaction ends. One thread.
 */
#ifndef READER_OVERVIEW_H
#define READER_OVERVIEW_H

#include "reader/view.h"
#include "state/err.h"
#include "state/tidemark.h"

struct overview {
	const char *dir;
	tidemark *tm;
	tidemark_store_info store;
	tidemark_marker_info markers;
	tidemark_large_info large;
	tidemark_position position;
	bool has_position; /* a checkpoint has been written */
	size_t tables, by_state[TIDEMARK_LEFT + 1];
	tidemark_run_info *runs; /* the open ones and the last five that ended, by id */
	size_t nruns;
	enum daemon_state daemon;
	long daemon_pid;
	int64_t now_us;
};

/* tm: with its transaction open. */
bool overview_load(struct overview *v, const char *dir, tidemark *tm, struct err *err);
void overview_finish(struct overview *v); /* accepts zeroed memory */

/* The table of a run; NULL when the store no longer has it. */
const tidemark_table_info *overview_table(const struct overview *v, uint32_t table_id);

/* The i-th warning as a sentence at the end of out; false when there are no more. */
bool overview_warning(const struct overview *v, size_t i, struct buf *out);

#endif
