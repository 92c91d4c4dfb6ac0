#include "state/key_net.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "state/hex.h"

#define TEXT_MAX 64 /* longer than any of these texts */

struct address {
	bool v6;
	unsigned mask, bits; /* length of the mask, and of the address */
	uint8_t bytes[16], network[16];
};

/* The mask is parsed loosely: what comes out is printed and compared. */
static bool parse_mask(const char *text, unsigned *out)
{
	size_t n = strspn(text, "0123456789");

	*out = 0;
	for (size_t i = 0; i < n && n <= 3; i++)
		*out = *out * 10 + (unsigned)(text[i] - '0');
	return n > 0 && n <= 3 && text[n] == '\0';
}

static bool parse(struct slice text, struct address *a)
{
	char copy[TEXT_MAX], *slash;

	*a = (struct address){.v6 = false};
	if (text.n >= sizeof copy || (text.n > 0 && memchr(text.p, 0, text.n))) return false;
	memcpy(copy, text.p, text.n);
	copy[text.n] = '\0';
	slash = strchr(copy, '/');
	if (slash) *slash++ = '\0';
	a->v6 = strchr(copy, ':') != NULL;
	a->bits = a->v6 ? 128 : 32;
	a->mask = a->bits;
	if (inet_pton(a->v6 ? AF_INET6 : AF_INET, copy, a->bytes) != 1) return false;
	return !slash || (parse_mask(slash, &a->mask) && a->mask <= a->bits);
}

static void mask_network(struct address *a)
{
	memcpy(a->network, a->bytes, sizeof a->network);
	for (unsigned i = a->mask; i < a->bits; i++)
		a->network[i / 8] &= (uint8_t) ~(0x80 >> i % 8);
}

/* inet leaves a mask out that covers the whole address, cidr does not. */
static bool prints_as(const struct address *a, bool always_mask, struct slice text)
{
	char out[TEXT_MAX], mask[8] = "";

	if (!inet_ntop(a->v6 ? AF_INET6 : AF_INET, a->bytes, out, INET6_ADDRSTRLEN)) return false;
	if (always_mask || a->mask < a->bits) snprintf(mask, sizeof mask, "/%u", a->mask);
	return slice_eq(text, slice_of(strcat(out, mask)));
}

static void put_network(const struct address *a, struct buf *out)
{
	buf_put_u8(out, a->v6 ? 6 : 4);
	buf_put(out, a->network, a->bits / 8);
	buf_put_u8(out, (uint8_t)a->mask);
}

bool key_net_inet(struct slice text, struct buf *out)
{
	struct address a;

	if (!parse(text, &a) || !prints_as(&a, false, text)) return false;
	mask_network(&a);
	put_network(&a, out);
	buf_put(out, a.bytes, a.bits / 8);
	return true;
}

bool key_net_cidr(struct slice text, struct buf *out)
{
	struct address a;

	if (!parse(text, &a) || !prints_as(&a, true, text)) return false;
	mask_network(&a);
	if (memcmp(a.bytes, a.network, sizeof a.bytes) != 0) return false;
	put_network(&a, out);
	return true;
}

bool key_net_mac(struct slice text, size_t size, struct buf *out)
{
	if (text.n != 3 * size - 1) return false;
	for (size_t i = 0; i < size; i++) {
		int byte = hex_byte(text.p + 3 * i);

		if (byte < 0 || (i > 0 && text.p[3 * i - 1] != ':')) return false;
		buf_put_u8(out, (uint8_t)byte);
	}
	return true;
}
