/*
 * reader/progress.h - how far a copy is: a bar on a terminal, a log line now
 * and then otherwise. Loop thread; log lines of any thread step around the bar.
 */
#ifndef READER_PROGRESS_H
#define READER_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress_state {
	uint64_t tables, tables_live;
	uint64_t rows;          /* read by the runs of this session and before */
	uint64_t rows_expected; /* by the planner's statistics; 0 = unknown */
	const char *table;      /* being read; NULL = none */
	uint64_t lag_bytes;     /* WAL between the server's position and ours */
	uint64_t changes;       /* taken from the stream so far */
};

void progress_start(void); /* decides by isatty(stderr) */
void progress_show(const struct progress_state *s, int64_t now_us);
void progress_end(void); /* takes the bar away */

#endif
