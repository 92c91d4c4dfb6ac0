/*
 * state/key_time.h - PostgreSQL's text of dates, times and timestamps as numbers.
 *
 * The text form is DateStyle ISO and TimeZone UTC: 2024-02-29,
 * 2024-02-29 23:59:59.5, 2024-02-29 23:59:59.5+00, 0044-03-15 BC, infinity. Years
 * have four digits or more, fractions no trailing zero. Numbers are PostgreSQL's own: days or
 * microseconds since 2000-01-01, infinity the highest and -infinity the lowest.
 *
 * Times of day, with and without a zone, likewise: 24:00:00, 12:34:56.5-03:30.
 *
 * False for every text that PostgreSQL would not print in exactly this form,
 * so two texts never give one number. Pure; any thread.
 */
#ifndef STATE_KEY_TIME_H
#define STATE_KEY_TIME_H

#include "state/bytes.h"

bool key_time_date(struct slice text, int32_t *days);
/* zoned: timestamptz, the text ends its time with +00. */
bool key_time_stamp(struct slice text, bool zoned, int64_t *us);
/* Microseconds since midnight, up to and with 24:00:00. */
bool key_time_of_day(struct slice text, int64_t *us);
/* The same in UTC, which can be below 0 and above a day, and seconds west of it: timetz goes by both, in this
 * order. */
bool key_time_of_day_zoned(struct slice text, int64_t *utc_us, int32_t *west_s);

#endif
