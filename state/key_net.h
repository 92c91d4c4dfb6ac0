/*
 * state/key_net.h - PostgreSQL's text of inet, cidr, macaddr and macaddr8 as
 * bytes in the order of the values.
 *
 *   inet      04 or 06 | network 4 or 16: the address, bits behind the mask 0 | mask length 1 | address 4 or
 * 16 cidr      the same without the last: it is the network macaddr   its 6 or 8 bytes
 *
 * PostgreSQL compares addresses by the bits that both masks cover, then by
 * mask length, then whole. Of two networks that agree so far the shorter mask has only zeros
 * behind, so it is the lower one here too.
 *
 * False for a text that PostgreSQL would not print in exactly this form. Pure; any thread.
 */
#ifndef STATE_KEY_NET_H
#define STATE_KEY_NET_H

#include "state/bytes.h"

bool key_net_inet(struct slice text, struct buf *out);
bool key_net_cidr(struct slice text, struct buf *out);
/* size: 6 or 8. */
bool key_net_mac(struct slice text, size_t size, struct buf *out);

#endif
