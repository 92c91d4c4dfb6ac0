/*
 * tests/unit/state_property.h - for tests by property: random numbers from a
 * fixed seed, and damage done to encoded records.
 */
#ifndef TESTS_UNIT_STATE_PROPERTY_H
#define TESTS_UNIT_STATE_PROPERTY_H

#include <stdlib.h>
#include <string.h>

#include "state/bytes.h"

/* splitmix64 */
static inline uint64_t random_u64(uint64_t *seed)
{
	uint64_t z = *seed += UINT64_C(0x9E3779B97F4A7C15);

	z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
	return z ^ z >> 31;
}

static inline size_t random_below(uint64_t *seed, size_t n)
{
	return (size_t)(random_u64(seed) % n);
}

/* Small and huge magnitudes alike: the interesting ones are at both ends. */
static inline uint64_t random_magnitude(uint64_t *seed)
{
	return random_u64(seed) >> random_below(seed, 64);
}

static inline int sign_of(int v)
{
	return (v > 0) - (v < 0);
}

/* The order of LMDB: bytes, and of two where one is a prefix of the other, the shorter first. */
static inline int slice_cmp(struct slice a, struct slice b)
{
	size_t n = a.n < b.n ? a.n : b.n;
	int d = n > 0 ? memcmp(a.p, b.p, n) : 0;

	return d != 0 ? sign_of(d) : (a.n > b.n) - (a.n < b.n);
}

/* Decodes, uses and frees; true when the bytes were accepted. */
typedef bool (*decode_fn)(struct slice bytes);

/* In a block of exactly that size, so that a sanitizer sees one byte too many. */
static inline bool decode_alone(decode_fn decode, struct slice bytes)
{
	uint8_t *p = malloc(bytes.n ? bytes.n : 1);
	bool ok;

	if (bytes.n > 0) memcpy(p, bytes.p, bytes.n);
	ok = decode((struct slice){p, bytes.n});
	free(p);
	return ok;
}

/* The whole is accepted; no part of it, and nothing longer, is. */
static inline bool only_whole_is_accepted(decode_fn decode, struct slice bytes)
{
	struct buf longer = {0};
	bool ok = decode_alone(decode, bytes);

	for (size_t n = 0; n < bytes.n; n++)
		if (decode_alone(decode, (struct slice){bytes.p, n})) ok = false;
	buf_put(&longer, bytes.p, bytes.n);
	buf_put_u8(&longer, 0);
	if (decode_alone(decode, (struct slice){longer.p, longer.n})) ok = false;
	buf_finish(&longer);
	return ok;
}

/* Whether a changed record is accepted does not matter here; surviving it does. */
static inline void decode_flipped(decode_fn decode, struct slice bytes, uint64_t *seed, int rounds)
{
	struct buf b = {0};

	while (rounds-- > 0) {
		buf_reset(&b);
		buf_put(&b, bytes.p, bytes.n);
		for (size_t flips = 1 + random_below(seed, 4); flips > 0; flips--)
			b.p[random_below(seed, b.n)] = (uint8_t)random_u64(seed);
		decode_alone(decode, (struct slice){b.p, b.n});
	}
	buf_finish(&b);
}

#endif
