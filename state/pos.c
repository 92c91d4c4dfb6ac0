#include "state/pos.h"

#include <assert.h>
#include <stdio.h>

#include "state/bytes.h"

static int cmp_u64(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

int pos_cmp(struct pos a, struct pos b)
{
	if (a.epoch != b.epoch) return cmp_u64(a.epoch, b.epoch);
	if (a.lsn.v != b.lsn.v) return cmp_u64(a.lsn.v, b.lsn.v);
	return cmp_u64(a.ordinal, b.ordinal);
}

void pos_encode(struct pos p, uint8_t out[POS_SIZE])
{
	assert(p.ordinal <= POS_ORDINAL_MAX);
	be16_put(out, p.epoch);
	be64_put(out + 2, p.lsn.v);
	be16_put(out + 10, (uint16_t)(p.ordinal >> 32));
	be32_put(out + 12, (uint32_t)p.ordinal);
}

const char *lsn_format(lsn_t lsn, char out[LSN_TEXT_SIZE])
{
	snprintf(out, LSN_TEXT_SIZE, "%X/%X", (unsigned)(lsn.v >> 32), (unsigned)(uint32_t)lsn.v);
	return out;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9') return c - '0';
	if (c >= 'a' && c <= 'f') return c - 'a' + 10;
	if (c >= 'A' && c <= 'F') return c - 'A' + 10;
	return -1;
}

/* 1 to 8 hex digits; returns what follows them, or NULL. */
static const char *parse_half(const char *s, uint64_t *out)
{
	int digits = 0, d;

	for (*out = 0; (d = hex_digit(*s)) >= 0; s++) {
		if (++digits > 8) return NULL;
		*out = *out << 4 | (unsigned)d;
	}
	return digits ? s : NULL;
}

bool lsn_parse(const char *text, lsn_t *out)
{
	uint64_t high, low;
	const char *s = parse_half(text, &high);

	if (!s || *s != '/') return false;
	s = parse_half(s + 1, &low);
	if (!s || *s != '\0') return false;
	*out = LSN(high << 32 | low);
	return true;
}

xid_t xid_widen(uint32_t low, xid_t ref)
{
	int64_t distance = (int32_t)(low - (uint32_t)ref.v);

	/* Before the first wrap-around there is nothing below zero: nearest is epoch 0 itself. */
	if (distance < 0 && ref.v < (uint64_t)-distance) return XID(low);
	return XID(ref.v + (uint64_t)distance);
}
