/*
 * state/hex.h - two hexadecimal digits as a byte. Lower case only: in a key,
 * two texts have two encodings.
 */
#ifndef STATE_HEX_H
#define STATE_HEX_H

#include <stdint.h>

static inline int hex_digit(uint8_t c)
{
	if (c >= '0' && c <= '9') return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte that two digits spell, or -1. */
static inline int hex_byte(const uint8_t *p)
{
	int high = hex_digit(p[0]), low = hex_digit(p[1]);

	return high < 0 || low < 0 ? -1 : high << 4 | low;
}

#endif
