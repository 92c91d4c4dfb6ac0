/* LSNs as text, against the C library's reader; and xids widened, against the definition. */
#include "state/pos.h"
#include "tests/fuzz/fuzz.h"

/* Length of the 1 to 8 hex digits that text begins with; 0: not so. */
static size_t half(const char *text)
{
	size_t n = strspn(text, "0123456789abcdefABCDEF");

	return n <= 8 ? n : 0;
}

static bool read_lsn(const char *text, uint64_t *out)
{
	size_t high = half(text), low;

	if (high == 0 || text[high] != '/') return false;
	low = half(text + high + 1);
	if (low == 0 || text[high + 1 + low] != '\0') return false;
	*out = strtoull(text, NULL, 16) << 32 | strtoull(text + high + 1, NULL, 16);
	return true;
}

static void parse(const char *text)
{
	char again[LSN_TEXT_SIZE];
	lsn_t lsn = LSN(0), back;
	uint64_t expected = 0;
	bool ok = lsn_parse(text, &lsn);

	CHECK_THAT(ok == read_lsn(text, &expected), "\"%s\": %d", text, ok);
	if (!ok) return;
	CHECK_THAT(lsn.v == expected, "\"%s\"", text);
	CHECK_THAT(lsn_parse(lsn_format(lsn, again), &back) && back.v == lsn.v, "\"%s\", \"%s\"", text, again);
}

static uint64_t distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

/* No other xid with the same low half is nearer. */
static void widen(uint32_t low, uint64_t ref)
{
	uint64_t wide = xid_widen(low, XID(ref)).v, step = UINT64_C(1) << 32;

	CHECK_THAT((uint32_t)wide == low, "%u near %llu", low, (unsigned long long)ref);
	CHECK_THAT(wide < step || distance(wide - step, ref) >= distance(wide, ref), "%u near %llu", low,
			   (unsigned long long)ref);
	CHECK_THAT(wide > UINT64_MAX - step || distance(wide + step, ref) >= distance(wide, ref), "%u near %llu",
			   low, (unsigned long long)ref);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = feed_of(data, size);
	char *text = text_alone((struct slice){data, size});
	uint32_t low;

	parse(text);
	free(text);
	if (size < 12) return 0;
	/* A server that has used up 2^63 transactions is not to be expected. */
	low = (uint32_t)feed_uint(&f, 4);
	widen(low, feed_uint(&f, 8) >> 1);
	return 0;
}
