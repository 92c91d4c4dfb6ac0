/*
 * tests/sim/rng.h - the one source of chance of a history: a seed gives the
 * same history again, on any machine.
 */
#ifndef SIM_RNG_H
#define SIM_RNG_H

#include <stdbool.h>
#include <stdint.h>

struct rng {
	uint64_t state;
};

/* splitmix64: every seed is a good one, neighbours included. */
static inline uint64_t rng_next(struct rng *r)
{
	uint64_t z = (r->state += UINT64_C(0x9E3779B97F4A7C15));

	z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
	return z ^ (z >> 31);
}

/* 0 .. n-1; n > 0. */
static inline unsigned rng_below(struct rng *r, unsigned n)
{
	return (unsigned)((rng_next(r) >> 32) * n >> 32);
}

/* low .. high, both included. */
static inline int rng_range(struct rng *r, int low, int high)
{
	return low + (int)rng_below(r, (unsigned)(high - low + 1));
}

static inline bool rng_chance(struct rng *r, unsigned percent)
{
	return rng_below(r, 100) < percent;
}

#endif
