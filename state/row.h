/*
 * state/row.h - the encoding of one entry of the store: a live row, or the
 * delete marker that keeps its position.
 *
 *   byte 0        flags
 *   bytes 1-16    position (pos.h)
 *   varint        schema version                   not in a marker
 *   8 bytes       born: xid that made it incomplete  if ROW_DOUBT
 *   ceil(n/8)     bitmap of columns in doubt         if ROW_DOUBT, n = columns of the version;
 *                                                    column i is bit i%8 (lowest first) of byte i/8
 *   blob          full key                           if ROW_LONG_KEY
 *   columns       for each: varint code, then bytes: 0 NULL, 1 absent, n+2 a text of n bytes
 *
 * "Absent" is a value the log did not send and nobody can vouch for: such a
 * column is always in doubt, and a row with one is hidden from readers. A
 * column in doubt that is not absent shows the best known value.
 *
 * The position sits at a fixed place so that a chunk's rows are encoded once
 * and stamped when their window closes. Pure; any thread.
 */
#ifndef STATE_ROW_H
#define STATE_ROW_H

#include "state/bytes.h"
#include "state/err.h"
#include "state/pos.h"

enum {
	ROW_DELETED = 1 << 0, /* delete marker: no version, no columns */
	ROW_DOUBT = 1 << 1,   /* incomplete */
	ROW_LONG_KEY = 1 << 2,
	ROW_HIDDEN = 1 << 3 /* some column is absent; only with ROW_DOUBT */
};

enum cell_kind { CELL_NULL, CELL_ABSENT, CELL_TEXT };

struct cell {
	enum cell_kind kind;
	bool doubt;        /* always true for CELL_ABSENT */
	struct slice text; /* CELL_TEXT only */
};

/*
 * Appends an encoded row. Flags and bitmap are derived from the cells: any
 * cell in doubt makes it ROW_DOUBT with `born`. full_key.n > 0 makes it ROW_LONG_KEY.
 */
void row_encode(struct buf *out, struct pos pos, uint32_t version, xid_t born, struct slice full_key,
				const struct cell *cells, size_t ncells);
/* An upper bound of what row_encode appends, to reserve room. */
size_t row_encoded_max(struct slice full_key, const struct cell *cells, size_t ncells);
void row_encode_marker(struct buf *out, struct pos pos, struct slice full_key);

/* Overwrites the position of an encoded entry in place. */
void row_stamp(uint8_t *entry, struct pos pos);

/* Header of an encoded entry, cheap: what the guard needs. */
struct row_head {
	uint8_t flags;
	struct pos pos;
	uint32_t version;      /* 1, 2, 3 ...; 0 for a marker */
	xid_t born;            /* 0 unless ROW_DOUBT */
	struct slice doubt;    /* bitmap; empty unless ROW_DOUBT */
	struct slice full_key; /* empty unless ROW_LONG_KEY */
	struct slice columns;  /* the rest */
};

uint32_t row_version(struct slice entry); /* 0: marker or damaged */
/* ncolumns: of the entry's version (row_version); ignored for a marker. ERR_CORRUPT on damage. */
bool row_head(struct slice entry, size_t ncolumns, struct row_head *out, struct err *err);
/* Decodes all columns into cells[ncolumns]; texts point into entry. A marker leaves cells as they are. */
bool row_decode(struct slice entry, size_t ncolumns, struct row_head *head, struct cell *cells,
				struct err *err);
/*
 * The same in two steps, for who has to find ncolumns in between and wants few of the columns. The first
 * takes flags, position and version, and leaves the rest in head->columns. The second checks
 * all that row_decode() does, and says where in the entry each column begins and the last one ends:
 * at[ncolumns + 1].
 */
static inline bool row_begin(struct slice entry, struct row_head *head, struct err *err);
bool row_index(struct slice entry, size_t ncolumns, struct row_head *head, uint32_t *at, struct err *err);
/* Text of the column that begins there, as row_index() found; its p is NULL where there is none. */
static inline struct slice row_column(struct slice entry, uint32_t at);

#define ROW_PEEK_SIZE (1 + POS_SIZE)
/* Flags and position alone; false when shorter than that. */
static inline bool row_peek(struct slice entry, uint8_t *flags, struct pos *pos)
{
	if (entry.n < ROW_PEEK_SIZE) return false;
	*flags = entry.p[0];
	*pos = pos_decode(entry.p + 1);
	return true;
}

enum { ROW_CODE_NULL = 0, ROW_CODE_ABSENT = 1, ROW_CODE_TEXT = 2 /* and the length */ };

static inline struct slice row_column(struct slice entry, uint32_t at)
{
	struct cur c = {.p = entry.p + at, .end = entry.p + entry.n};
	uint64_t code = cur_varint(&c);

	return code < ROW_CODE_TEXT ? (struct slice){0} : (struct slice){c.p, code - ROW_CODE_TEXT};
}

bool row_damaged(struct slice entry, struct err *err); /* ERR_CORRUPT; always false */

/* Here in full: a scan of the store is little else. */
static inline bool row_begin(struct slice entry, struct row_head *head, struct err *err)
{
	struct cur c = cur_of(entry);
	uint64_t version;

	*head = (struct row_head){0};
	if (!row_peek(entry, &head->flags, &head->pos)) return row_damaged(entry, err);
	cur_bytes(&c, ROW_PEEK_SIZE);
	if (!(head->flags & ROW_DELETED)) {
		version = cur_varint(&c);
		if (version == 0 || version > UINT32_MAX) return row_damaged(entry, err);
		head->version = (uint32_t)version;
	}
	head->columns = (struct slice){c.p, (size_t)(c.end - c.p)};
	return true;
}

#endif
