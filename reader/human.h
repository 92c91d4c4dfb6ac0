/*
 * reader/human.h - times, ages and sizes as people read them.
 *
 * Each writes into the caller's `out` and returns it. Pure.
 */
#ifndef READER_HUMAN_H
#define READER_HUMAN_H

#include <stdint.h>

#define HUMAN_SIZE 48

/* "0.3 s", "59.9 s", "12 min 5 s", "3 h 20 min", "2 d 4 h"; below zero counts as zero. */
const char *human_duration(int64_t us, char out[HUMAN_SIZE]);
/* "512 B", "12.3 MiB" */
const char *human_bytes(uint64_t bytes, char out[HUMAN_SIZE]);
/* Microseconds since 1970 as ISO 8601 in UTC: "2026-11-29T16:30:00.123456Z". */
const char *human_time(int64_t us, char out[HUMAN_SIZE]);
/* server_version_num: 150004 is "15.4". */
const char *human_version(uint32_t number, char out[HUMAN_SIZE]);

#endif
