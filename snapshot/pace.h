/*
 * snapshot/pace.h - how much to ask for in one chunk, and how long to wait
 * before asking again.
 *
 * A chunk should take about target_us on the server and bring about
 * target_bytes. Growth is careful (at most double), shrinking is not. Where even the
 * shortest chunk takes long, whatever it brings (a table of a thousand partitions), a chunk may
 * take twice as long as that: asking for less would only cost it more often. Pure arithmetic; one owner.
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
 * What a chunk should take, microseconds, of the time it may take: all of that while the source is idle, and
 * a fiftieth while changes stream (50 a second and more), but not less than the way to the server and back.
 */
int64_t pace_aim(const struct copier_load *load, int64_t chunk_time_us);
/*
 * How long a run should wait after a chunk that took elapsed_us, microseconds: not at all while the source is
 * idle and the queue is short, up to one and a half times as long as the chunk took while changes stream (50
 * a second and more), and up to nine times as long when they wait for us. At most a second.
 */
int64_t pace_pause(const struct copier_load *load, int64_t elapsed_us);

/* Waits that double from first_us to max_us. */
struct backoff {
	int64_t first_us, max_us;
	int64_t wait_us; /* the next one; 0 = the first */
};

int64_t backoff_next(struct backoff *b);
void backoff_reset(struct backoff *b);

#endif
