/* reader/human.c - see human.h. */
#include "reader/human.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#define SECOND INT64_C(1000000)

const char *human_duration(int64_t us, char out[HUMAN_SIZE])
{
	int64_t tenths = us > 0 ? us / (SECOND / 10) : 0, s = tenths / 10;

	if (s < 60)
		snprintf(out, HUMAN_SIZE, "%" PRId64 ".%" PRId64 " s", s, tenths % 10);
	else if (s < 3600)
		snprintf(out, HUMAN_SIZE, "%" PRId64 " min %" PRId64 " s", s / 60, s % 60);
	else if (s < 86400)
		snprintf(out, HUMAN_SIZE, "%" PRId64 " h %" PRId64 " min", s / 3600, s % 3600 / 60);
	else
		snprintf(out, HUMAN_SIZE, "%" PRId64 " d %" PRId64 " h", s / 86400, s % 86400 / 3600);
	return out;
}

const char *human_bytes(uint64_t bytes, char out[HUMAN_SIZE])
{
	static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	double v = (double)bytes / 1024;
	size_t unit = 0;

	if (bytes < 1024) {
		snprintf(out, HUMAN_SIZE, "%" PRIu64 " B", bytes);
		return out;
	}
	while (v >= 1023.95 && unit + 1 < sizeof units / sizeof units[0]) {
		v /= 1024;
		unit++;
	}
	snprintf(out, HUMAN_SIZE, "%.1f %s", v, units[unit]);
	return out;
}

const char *human_time(int64_t us, char out[HUMAN_SIZE])
{
	int64_t fraction = (us % SECOND + SECOND) % SECOND;
	time_t s = (time_t)(us / SECOND - (us % SECOND < 0)); /* rounded down */
	struct tm tm;
	size_t n = gmtime_r(&s, &tm) ? strftime(out, HUMAN_SIZE, "%Y-%m-%dT%H:%M:%S", &tm) : 0;

	snprintf(out + n, HUMAN_SIZE - n, ".%06" PRId64 "Z", fraction);
	return out;
}

const char *human_version(uint32_t number, char out[HUMAN_SIZE])
{
	snprintf(out, HUMAN_SIZE, "%" PRIu32 ".%" PRIu32, number / 10000, number % 10000);
	return out;
}
