#include "apply/xid_snapshot.h"

/* Decimal digits, at least one, that fit. */
static bool take_xid(const char **at, uint64_t *out)
{
	const char *p = *at;

	for (*out = 0; *p >= '0' && *p <= '9'; p++)
		if (__builtin_mul_overflow(*out, 10u, out) || __builtin_add_overflow(*out, (uint64_t)(*p - '0'), out))
			return false;
	if (p == *at) return false;
	*at = p;
	return true;
}

static bool take_char(const char **at, char c)
{
	return *(*at)++ == c;
}

/* The list of transactions in progress, up to the end of the text. */
static bool take_list(const char **at, xid_t xid, bool *listed)
{
	uint64_t in_progress;

	*listed = false;
	if (**at == '\0') return true;
	do {
		if (!take_xid(at, &in_progress)) return false;
		*listed |= in_progress == xid.v;
	} while (take_char(at, ','));
	return (*at)[-1] == '\0';
}

bool xid_snapshot_sees(const char *text, bool standby, xid_t xid, bool *sees, struct err *err)
{
	const char *at = text;
	uint64_t xmin, xmax;
	bool listed;

	if (!take_xid(&at, &xmin) || !take_char(&at, ':') || !take_xid(&at, &xmax) || !take_char(&at, ':') ||
		!take_list(&at, xid, &listed))
		return err_set(err, ERR_PROTOCOL, "\"%.100s\" is not a snapshot of the form xmin:xmax:xip,...", text);
	*sees = xid.v < xmin || (!standby && xid.v < xmax && !listed);
	return true;
}
