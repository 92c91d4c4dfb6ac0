#include "snapshot/visibility.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "state/mutant.h"

static bool take_char(const char **p, char c)
{
	if (**p != c) return false;
	(*p)++;
	return true;
}

/* Digits only: strtoull() would accept signs, blanks and "0x". */
static bool take_xid(const char **p, xid_t *out)
{
	uint64_t v = 0;
	const char *s = *p;

	for (; *s >= '0' && *s <= '9'; s++) {
		uint64_t digit = (uint64_t)(*s - '0');
		if (v > (UINT64_MAX - digit) / 10) return false;
		v = v * 10 + digit;
	}
	if (s == *p || v == 0) return false;
	*p = s;
	*out = XID(v);
	return true;
}

static size_t list_length_max(const char *p)
{
	size_t n = 1;

	for (; *p; p++)
		n += *p == ',';
	return n;
}

/* "x,x,x" ascending within [xmin, xmax), or nothing. The server's own reader skips duplicates too. */
static bool take_list(const char *p, struct snap *s)
{
	xid_t last = XID(0), x;

	if (*p == '\0') return true;
	s->xip = mem_alloc(list_length_max(p) * sizeof *s->xip);
	do {
		if (!take_xid(&p, &x) || x.v < last.v || x.v < s->xmin.v || x.v >= s->xmax.v) return false;
		if (x.v != last.v) s->xip[s->nxip++] = x;
		last = x;
	} while (take_char(&p, ','));
	return *p == '\0';
}

/*
 * The snapshot that a new slot exports can have its xmin above its xmax, which
 * then means nothing: the server looks at xmin first.
 */
static bool take_bounds(const char **p, struct snap *s)
{
	if (!take_xid(p, &s->xmin) || !take_char(p, ':') || !take_xid(p, &s->xmax) || !take_char(p, ':'))
		return false;
	if (s->xmax.v < s->xmin.v) s->xmax = s->xmin;
	return true;
}

bool snap_parse(const char *text, bool standby, struct snap *out, struct err *err)
{
	const char *p = text;
	struct snap s = {.standby = standby};

	if (take_bounds(&p, &s) && take_list(p, &s)) {
		*out = s;
		return true;
	}
	snap_finish(&s);
	*out = (struct snap){0};
	return err_set(err, ERR_PROTOCOL, "\"%.80s\" is not a snapshot of the form xmin:xmax:xip,xip", text);
}

void snap_finish(struct snap *s)
{
	free(s->xip);
	*s = (struct snap){0};
}

/* First index whose xid is not below x. */
static size_t xip_lower(const struct snap *s, uint64_t x)
{
	size_t lo = 0, hi = s->nxip;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (s->xip[mid].v < x)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static bool in_progress(const struct snap *s, uint64_t x)
{
	size_t i = xip_lower(s, x);

	return i < s->nxip && s->xip[i].v == x;
}

/* From here on s sees nothing. */
static uint64_t seen_end(const struct snap *s)
{
	if (MUTANT(NO_XMAX)) return UINT64_MAX;
	return s->standby && !MUTANT(STANDBY_LIST) ? s->xmin.v : s->xmax.v;
}

bool snap_sees(const struct snap *s, xid_t xid)
{
	return MUTANT(NO_VISIBILITY) || xid.v < s->xmin.v || (xid.v < seen_end(s) && !in_progress(s, xid.v));
}

/*
 * What s does not see is its xip list and everything from seen_end(s) on. The
 * gate must not see any of it: in the open-ended part that means that all which
 * lies below the gate's own end is in the gate's xip list, so counting is enough.
 */
bool snap_covers(const struct snap *s, const struct snap *gate)
{
	uint64_t from = seen_end(s), to = seen_end(gate);

	for (size_t i = 0; !s->standby && i < s->nxip; i++)
		if (snap_sees(gate, s->xip[i])) return false;
	if (from >= to) return true;
	return to - from == xip_lower(gate, to) - xip_lower(gate, from);
}

static void put_number(struct buf *out, uint64_t x, const char *behind)
{
	char text[24];

	snprintf(text, sizeof text, "%llu%s", (unsigned long long)x, behind);
	buf_put(out, text, strlen(text));
}

/* Below the higher xmax it is the one with that xmax which says what is not seen, unless the other sees it.
 */
void snap_union(const struct snap *a, const struct snap *b, struct buf *out)
{
	const struct snap *high = a->xmax.v >= b->xmax.v ? a : b, *other = high == a ? b : a;
	struct buf list = {0};
	uint64_t xmin = high->xmax.v;

	for (size_t i = 0; i < high->nxip; i++) {
		if (snap_sees(other, high->xip[i])) continue;
		if (list.n > 0) buf_put_u8(&list, ',');
		put_number(&list, high->xip[i].v, "");
		if (high->xip[i].v < xmin) xmin = high->xip[i].v;
	}
	put_number(out, xmin, ":");
	put_number(out, high->xmax.v, ":");
	buf_put(out, list.p, list.n);
	buf_put_u8(out, 0);
	buf_finish(&list);
}
