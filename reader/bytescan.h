/*
 * reader/bytescan.h - look at eight bytes at once: is one of them special?
 *
 * Texts are mostly plain; the writers of JSON and COPY text copy a word when
 * nothing in it needs an escape and go bytewise otherwise. A borrow can flag a
 * byte above a special one, so the answer is exact for the word, not for each byte.
 */
#ifndef READER_BYTESCAN_H
#define READER_BYTESCAN_H

#include <stdint.h>
#include <string.h>

#define BYTES_ALL(c) (UINT64_C(0x0101010101010101) * (uint8_t)(c))

static inline uint64_t word_load(const uint8_t *p)
{
	uint64_t w;
	memcpy(&w, p, sizeof w);
	return w;
}

/* Some byte is below limit (limit at most 0x80). */
static inline uint64_t word_below(uint64_t w, uint8_t limit)
{
	return (w - BYTES_ALL(limit)) & ~w & BYTES_ALL(0x80);
}

static inline uint64_t word_has(uint64_t w, uint8_t c)
{
	return word_below(w ^ BYTES_ALL(c), 1);
}

static inline uint64_t word_high(uint64_t w)
{
	return w & BYTES_ALL(0x80);
}

#endif
