/*
 * pg_snapshot texts. Two readers of them, one in snapshot/ and one in apply/,
 * must agree: a chunk's window is decided by one, and a row in doubt is filled by the other.
 */
#include "apply/xid_snapshot.h"
#include "snapshot/visibility.h"
#include "tests/fuzz/fuzz.h"

static void ask_both(const char *text, const struct snap *s, uint64_t xid)
{
	struct err err = {0};
	bool sees;

	CHECK_THAT(xid_snapshot_sees(text, s->standby, XID(xid), &sees, &err), "\"%s\": %s", text, err.msg);
	CHECK_THAT(sees == snap_sees(s, XID(xid)), "\"%s\": xid %llu, standby %d", text, (unsigned long long)xid,
			   s->standby);
}

static void ask_around(const char *text, const struct snap *s, uint64_t xid)
{
	ask_both(text, s, xid - 1);
	ask_both(text, s, xid);
	ask_both(text, s, xid + 1);
}

static void check_one(const char *text, const struct snap *s, uint64_t xid)
{
	CHECK_THAT(s->xmin.v <= s->xmax.v, "\"%s\"", text);
	ask_around(text, s, s->xmin.v);
	ask_around(text, s, s->xmax.v);
	ask_around(text, s, xid);
	for (size_t i = 0; i < s->nxip; i++) {
		ask_around(text, s, s->xip[i].v);
		CHECK_THAT(!snap_sees(s, s->xip[i]), "\"%s\"", text);
	}
}

/* Some xid that the gate sees and s does not; 0: none. Looks where there can be one. */
static uint64_t uncovered(const struct snap *s, const struct snap *gate)
{
	uint64_t from = s->standby ? s->xmin.v : s->xmax.v;

	for (size_t i = 0; i < s->nxip; i++)
		if (snap_sees(gate, s->xip[i]) && !snap_sees(s, s->xip[i])) return s->xip[i].v;
	for (uint64_t x = from, n = gate->nxip + 2; n > 0; x++, n--)
		if (snap_sees(gate, XID(x)) && !snap_sees(s, XID(x))) return x;
	return 0;
}

static void check_covers(const struct snap *s, const struct snap *gate)
{
	uint64_t x = uncovered(s, gate);

	CHECK_THAT(snap_covers(s, gate) == (x == 0), "xid %llu", (unsigned long long)x);
	CHECK_THAT(snap_covers(s, s), "itself");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = feed_of(data, size);
	uint8_t standby = feed_u8(&f);
	uint64_t xid = feed_uint(&f, 4);
	char *text[2];
	struct snap s[2];
	bool ok[2];

	for (int i = 0; i < 2; i++) {
		struct err err = {0};

		text[i] = feed_text(&f);
		ok[i] = snap_parse(text[i], standby >> i & 1, &s[i], &err);
		if (ok[i])
			check_one(text[i], &s[i], xid);
		else
			check_refusal(&err);
	}
	if (ok[0] && ok[1]) check_covers(&s[0], &s[1]);
	for (int i = 0; i < 2; i++) {
		snap_finish(&s[i]);
		free(text[i]);
	}
	return 0;
}
