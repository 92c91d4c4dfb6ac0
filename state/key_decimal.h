/*
 * state/key_decimal.h - PostgreSQL's text of numeric, real and double precision
 * as bytes in the order of the numbers.
 *
 *   01 -Infinity | 02 below zero | 03 zero | 04 above zero | 05 Infinity | 06 NaN
 *
 * Behind 02 and 04:
 *
 *   exponent 3     the number is 0.d1d2d3... x 10^exponent with d1 not 0; biased by 800000
 *   digit pairs    d1d2, d3d4, ... up to the last digit that is not 0 (an odd one is followed by 0), each
 * pair as a byte, 01 for 00 to 64 for 99 00             the end
 *
 * all of it complemented below zero. A number's digits end before a longer one's
 * that begins with them, and 00 is below any pair.
 *
 * A float's text is the shortest that reads as the float: the texts are in the
 * order of the floats. Numbers that PostgreSQL calls equal but prints apart (1.0 and
 * 1.00, 0 and -0) have the same bytes, and another `tie`: a numeric's digits behind the point, 0 for
 * a float's -0 and 1 for any other float.
 *
 * False for a text that PostgreSQL would not print in exactly this form. Pure; any thread.
 */
#ifndef STATE_KEY_DECIMAL_H
#define STATE_KEY_DECIMAL_H

#include "state/bytes.h"

bool key_decimal_numeric(struct slice text, struct buf *out, uint16_t *tie);
/* bits: 32 or 64. */
bool key_decimal_float(struct slice text, int bits, struct buf *out, uint16_t *tie);

#endif
