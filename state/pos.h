/*
 * state/pos.h - source positions: where in the history of the source a row
 * version stands.
 *
 * A position is (epoch, commit_lsn, ordinal), compared in that order.
 * commit_lsn is the transaction's commit LSN (pgoutput Begin.final_lsn);
 * ordinal counts 1, 2, 3 ... the changes inside the transaction; ordinal 0 is
 * a row that a snapshot wrote. The epoch changes when LSNs stop being
 * comparable (DESIGN section 9).
 *
 * lsn_t and xid_t are distinct struct types so that one cannot pass for the
 * other. Plain values; any thread.
 */
#ifndef STATE_POS_H
#define STATE_POS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "state/bytes.h"

typedef struct {
	uint64_t v;
} lsn_t; /* byte position in the WAL; 0 = none */
typedef struct {
	uint64_t v;
} xid_t; /* top-level transaction id widened to 64 bits; 0 = none */

#define LSN(x) ((lsn_t){(uint64_t)(x)})
#define XID(x) ((xid_t){(uint64_t)(x)})

struct pos {
	uint16_t epoch;
	lsn_t lsn;
	uint64_t ordinal; /* below 2^48 */
};

#define POS_ORDINAL_MAX ((UINT64_C(1) << 48) - 1)
#define POS_SIZE        16 /* bytes of an encoded position; memcmp order is pos_cmp order */

/* Lowest position: what an absent key compares as. */
#define POS_NONE ((struct pos){0, {0}, 0})

int pos_cmp(struct pos a, struct pos b);              /* <0, 0, >0 */
void pos_encode(struct pos p, uint8_t out[POS_SIZE]); /* epoch 2, lsn 8, ordinal 6; big-endian */
static inline struct pos pos_decode(const uint8_t in[POS_SIZE])
{
	return (struct pos){
		.epoch = be16_get(in),
		.lsn = LSN(be64_get(in + 2)),
		.ordinal = (uint64_t)be16_get(in + 10) << 32 | be32_get(in + 12),
	};
}

#define LSN_TEXT_SIZE 18                                    /* "FFFFFFFF/FFFFFFFF" and NUL */
const char *lsn_format(lsn_t lsn, char out[LSN_TEXT_SIZE]); /* PostgreSQL's "X/X"; returns out */
bool lsn_parse(const char *text, lsn_t *out);               /* false: not an LSN */

/* The 64-bit xid whose low half is `low` and which is nearest to `ref`. */
xid_t xid_widen(uint32_t low, xid_t ref);

#endif
