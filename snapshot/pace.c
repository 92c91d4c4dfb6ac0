#include "snapshot/pace.h"

#include "snapshot/copier.h"

#define LAG_BUSY_US   2000000 /* as much as we want to see at most */
#define PAUSES_BUSY   9.0
#define CHANGES_BUSY  50.0 /* a second: the source has work of its own */
#define PAUSES_POLITE 1.5
#define POLITE_PART   50 /* of a chunk's time */
#define PAUSE_MAX_US  1000000

static uint32_t clamp(double rows, uint32_t max)
{
	if (rows < 1) return 1;
	return rows < max ? (uint32_t)rows : max;
}

void pace_init(struct pace *p, uint32_t rows_max, int64_t target_us, size_t target_bytes)
{
	*p = (struct pace){
		.rows_max = rows_max ? rows_max : 1, .target_us = target_us, .target_bytes = target_bytes};
	p->rows = clamp(PACE_ROWS_FIRST, p->rows_max);
}

/* How many such rows would fit the budget; what cannot be measured fits always. */
static double rows_that_fit(uint32_t rows, double used, double budget)
{
	return used > 0 && budget > 0 ? rows * (budget / used) : UINT32_MAX;
}

/* What a chunk may take. */
static double aim_us(const struct pace *p)
{
	int64_t twice = p->has_shrunk ? 2 * p->least_us : 0;

	return (double)(p->target_us > 0 && twice > p->target_us ? twice : p->target_us);
}

void pace_measured(struct pace *p, uint32_t rows, size_t bytes, int64_t elapsed_us)
{
	if (rows > 0 && (p->least_us == 0 || elapsed_us < p->least_us)) p->least_us = elapsed_us;
	double by_time = rows_that_fit(rows, (double)elapsed_us, aim_us(p));
	double by_bytes = rows_that_fit(rows, (double)bytes, (double)p->target_bytes);
	double fit = by_time < by_bytes ? by_time : by_bytes;
	double most = 2.0 * p->rows;

	if (rows == 0 || (fit < p->rows && fit >= rows))
		return; /* few rows, and within the budget: that says nothing about many */
	p->has_shrunk |= fit < p->rows;
	p->rows = clamp(fit < most ? fit : most, p->rows_max);
}

void pace_cut(struct pace *p, uint32_t keys)
{
	p->has_shrunk = true;
	if (keys < p->rows) p->rows = keys;
	p->rows = clamp(p->rows / 2.0, p->rows_max);
}

void pace_timed_out(struct pace *p)
{
	p->rows = clamp(p->rows / 2.0, p->rows_max);
}

static double at_most_one(double x)
{
	return x < 0 ? 0 : x > 1 ? 1 : x;
}

/* 0 to 1: how much the source has to do for others. */
static double politeness(const struct copier_load *load)
{
	return at_most_one(load->changes_rate / CHANGES_BUSY);
}

/*
 * What runs on the server for long makes others wait for a processor, however long it rests afterwards: a
 * pause alone makes a client's slow statements rarer, but no faster. On a long way the server
 * rests between chunks anyway, and small ones would take for ever.
 */
int64_t pace_aim(const struct copier_load *load, int64_t chunk_time_us)
{
	int64_t least_us = chunk_time_us / POLITE_PART;

	if (least_us < load->way_us) least_us = load->way_us;
	if (least_us > chunk_time_us) least_us = chunk_time_us;
	return chunk_time_us - (int64_t)(politeness(load) * (double)(chunk_time_us - least_us));
}

int64_t pace_pause(const struct copier_load *load, int64_t elapsed_us)
{
	double lag = at_most_one((double)load->lag_us / LAG_BUSY_US), queue = at_most_one(load->queue_fill);
	double pauses = (lag > queue ? lag : queue) * PAUSES_BUSY;
	double polite = politeness(load) * PAUSES_POLITE;
	double pause_us;

	if (pauses < polite) pauses = polite;
	pause_us = pauses * (double)(elapsed_us > 0 ? elapsed_us : 0);
	return pause_us < PAUSE_MAX_US ? (int64_t)pause_us : PAUSE_MAX_US;
}

int64_t backoff_next(struct backoff *b)
{
	int64_t wait = b->wait_us ? b->wait_us : b->first_us;

	b->wait_us = wait * 2 < b->max_us ? wait * 2 : b->max_us;
	return wait;
}

void backoff_reset(struct backoff *b)
{
	b->wait_us = 0;
}
