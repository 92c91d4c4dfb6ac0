#include "snapshot/pace.h"

#include "snapshot/copier.h"

#define LAG_FREE_US   250000
#define LAG_BUSY_US   2000000 /* as much as we want to see at most */
#define QUEUE_FREE    0.9
#define PAUSES_BUSY   9.0
#define CHANGES_FREE  5.0
#define CHANGES_BUSY  50.0 /* a second: the source has work of its own */
#define PAUSES_POLITE 4.0
#define CHANGES_MANY  300.0 /* so many that what is read is soon out of date: come to an end */
#define POLITE_PART   100   /* of a chunk's time */
#define TELLING_US    250   /* of a shorter chunk most is what every chunk costs */
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

static double least(double a, double b)
{
	return a < b ? a : b;
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

/*
 * What the server has to do for a row. When it is busy with others a row takes longer, and is no more work:
 * so what the quickest chunks say counts, one in ten or so.
 */
static void learn_work(struct pace *p, uint32_t rows, int64_t elapsed_us)
{
	double row_us;

	if (rows == 0 || elapsed_us < TELLING_US) return;
	row_us = (double)elapsed_us / rows;
	if (p->row_us == 0)
		p->row_us = row_us;
	else if (row_us < p->row_us)
		p->row_us = (p->row_us + row_us) / 2;
	else
		p->row_us = least(p->row_us * 1.01, row_us);
}

void pace_measured(struct pace *p, uint32_t rows, size_t bytes, int64_t elapsed_us)
{
	learn_work(p, rows, elapsed_us);
	if (rows > 0 && (p->least_us == 0 || elapsed_us < p->least_us)) p->least_us = elapsed_us;
	double by_time = rows_that_fit(rows, (double)elapsed_us, aim_us(p));
	double by_bytes = rows_that_fit(rows, (double)bytes, (double)p->target_bytes);
	double by_work = rows_that_fit(1, p->row_us, (double)p->work_us);
	double fit = least(by_work, least(by_time, by_bytes));
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

/* 0 to 1 as x goes from free to busy. Some queue is always there, and so are some lag and a trickle of
 * changes.
 */
static double strain(double x, double free, double busy)
{
	return at_most_one((x - free) / (busy - free));
}

/* 0 to 1: how much the source has to do for others. */
static double politeness(const struct copier_load *load)
{
	return strain(load->changes_rate, CHANGES_FREE, CHANGES_BUSY);
}

/* 1 and more. */
static double haste(const struct copier_load *load)
{
	return load->changes_rate > CHANGES_MANY ? load->changes_rate / CHANGES_MANY : 1;
}

/*
 * What runs on the server for long makes others wait for a processor, however long it rests afterwards: a
 * pause alone makes a client's slow statements rarer, but no faster. On a long way the server
 * rests between chunks anyway, and small ones would take for ever.
 */
int64_t pace_work(const struct copier_load *load, int64_t chunk_time_us)
{
	int64_t least_us = (int64_t)((double)chunk_time_us / POLITE_PART * haste(load));

	if (least_us < load->way_us) least_us = load->way_us;
	if (least_us > chunk_time_us) least_us = chunk_time_us;
	return chunk_time_us - (int64_t)(politeness(load) * (double)(chunk_time_us - least_us));
}

/* 0 to 1: how much others wait for us. */
static double urgency(const struct copier_load *load)
{
	double lag = strain((double)load->lag_us, LAG_FREE_US, LAG_BUSY_US);
	double queue = strain(load->queue_fill, QUEUE_FREE, 1);

	return lag > queue ? lag : queue;
}

bool pace_rests(const struct copier_load *load)
{
	return urgency(load) > 0 || politeness(load) > 0;
}

int64_t pace_pause(const struct pace *p, const struct copier_load *load, uint32_t rows, int64_t elapsed_us)
{
	double took_us = (double)(elapsed_us > 0 ? elapsed_us : 0);
	double work_us = p->row_us > 0 ? least(rows * p->row_us, took_us) : took_us;
	double urgent_us = urgency(load) * PAUSES_BUSY * took_us;
	double polite_us = politeness(load) * PAUSES_POLITE / haste(load) * work_us;

	return (int64_t)least(PAUSE_MAX_US, urgent_us > polite_us ? urgent_us : polite_us);
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
