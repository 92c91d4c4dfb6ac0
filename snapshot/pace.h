/*
 * snapshot/pace.h - how much to ask for in one chunk, and how long to wait
 * before asking again.
 *
 * A chunk should take about target_us on the server, be no more than work_us of
 * work there and bring about target_bytes. Growth is careful (at most double), shrinking is not. Where even
 * the shortest chunk takes long, whatever it brings (a table of a thousand partitions), a chunk may take
 * twice as long as that: asking for less would only cost it more often. Pure arithmetic; one owner.
 */
#ifndef SNAPSHOT_PACE_H
#define SNAPSHOT_PACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PACE_ROWS_FIRST 200

struct pace {
	uint32_t rows; /* ask for so many; at least 1 */
	uint32_t rows_max;
	int64_t target_us;
	size_t target_bytes;
	int64_t work_us;  /* of what a row takes at its quickest, no more than so much; 0 = any */
	double row_us;    /* that; 0 = not known yet */
	int64_t least_us; /* the shortest chunk so far; 0 = none yet */
	bool has_shrunk;  /* so that least_us is not only of one that asked for too much */
};

void pace_init(struct pace *p, uint32_t rows_max, int64_t target_us, size_t target_bytes);
/* A chunk brought `rows` rows of `bytes` bytes in all, in elapsed_us. */
void pace_measured(struct pace *p, uint32_t rows, size_t bytes, int64_t elapsed_us);
/* A chunk of `keys` keys was cut: ask for fewer. However few of its rows were kept, they may fit the budget.
 */
void pace_cut(struct pace *p, uint32_t keys);
/* The server gave up on one. */
void pace_timed_out(struct pace *p);

struct copier_load;
/*
 * How much work a chunk should be, microseconds, of the time it may take: all of that while the source is
 * idle, and a hundredth while changes stream (50 a second and more), but not less than the way to the server
 * and back. From 300 changes a second on it grows with them, since what is read is soon out of date then.
 */
int64_t pace_work(const struct copier_load *load, int64_t chunk_time_us);
/*
 * How long a run should wait after a chunk of so many rows that took elapsed_us, microseconds: not at all
 * while the source is idle and the queue has room, up to four times its work while changes stream (50 a
 * second and more; beyond 300 so much less), and up to nine times as long as it took when they wait for us
 * (the queue full, or a lag of 2 s; up to 0.25 s is none). At most a second.
 */
int64_t pace_pause(const struct pace *p, const struct copier_load *load, uint32_t rows, int64_t elapsed_us);
bool pace_rests(const struct copier_load *load); /* it should wait at all */

/* Waits that double from first_us to max_us. */
struct backoff {
	int64_t first_us, max_us;
	int64_t wait_us; /* the next one; 0 = the first */
};

int64_t backoff_next(struct backoff *b);
void backoff_reset(struct backoff *b);

#endif
