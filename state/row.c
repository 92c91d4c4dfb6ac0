#include "state/row.h"

#include <assert.h>
#include <string.h>

#define HEAD_SIZE ROW_PEEK_SIZE
#define FLAGS_ALL (ROW_DELETED | ROW_DOUBT | ROW_LONG_KEY | ROW_HIDDEN)

enum { CODE_NULL = 0, CODE_ABSENT = 1, CODE_TEXT = 2 /* and the length */ };

static size_t bitmap_size(size_t ncells)
{
	return (ncells + 7) / 8;
}

static bool bitmap_get(struct slice bitmap, size_t i)
{
	return bitmap.n > 0 && (bitmap.p[i / 8] >> (i % 8) & 1);
}

static uint64_t cell_code(const struct cell *cell)
{
	switch (cell->kind) {
	case CELL_NULL: return CODE_NULL;
	case CELL_ABSENT: return CODE_ABSENT;
	case CELL_TEXT: break;
	}
	return CODE_TEXT + (uint64_t)cell->text.n;
}

/* Most texts are short, and this runs for every value of every row. */
static size_t code_size(uint64_t code)
{
	return code < 0x80 ? 1 : varint_size(code);
}

static uint8_t *put_varint(uint8_t *at, uint64_t v)
{
	if (v < 0x80) {
		*at = (uint8_t)v;
		return at + 1;
	}
	return at + varint_put(at, v);
}

static uint8_t *put_bytes(uint8_t *at, struct slice s)
{
	if (s.n > 0) memcpy(at, s.p, s.n);
	return at + s.n;
}

static uint8_t *put_head(uint8_t *at, uint8_t flags, struct pos pos)
{
	*at = flags;
	pos_encode(pos, at + 1);
	return at + HEAD_SIZE;
}

static uint8_t *put_full_key(uint8_t *at, struct slice full_key)
{
	return full_key.n > 0 ? put_bytes(put_varint(at, full_key.n), full_key) : at;
}

static size_t full_key_size(struct slice full_key)
{
	return full_key.n > 0 ? varint_size(full_key.n) + full_key.n : 0;
}

static uint8_t *put_doubt(uint8_t *at, xid_t born, const struct cell *cells, size_t ncells)
{
	uint8_t *bitmap = at + 8;

	be64_put(at, born.v);
	memset(bitmap, 0, bitmap_size(ncells));
	for (size_t i = 0; i < ncells; i++)
		if (cells[i].doubt) bitmap[i / 8] |= (uint8_t)(1 << i % 8);
	return bitmap + bitmap_size(ncells);
}

static uint8_t *put_cells(uint8_t *at, const struct cell *cells, size_t ncells)
{
	for (size_t i = 0; i < ncells; i++) {
		at = put_varint(at, cell_code(&cells[i]));
		if (cells[i].kind == CELL_TEXT) at = put_bytes(at, cells[i].text);
	}
	return at;
}

/* Size of the encoded cells, and the flags that follow from them. */
static size_t cells_measure(const struct cell *cells, size_t ncells, uint8_t *flags)
{
	size_t n = 0;

	for (size_t i = 0; i < ncells; i++) {
		n += code_size(cell_code(&cells[i]));
		if (cells[i].kind == CELL_TEXT) n += cells[i].text.n;
		if (cells[i].doubt) *flags |= ROW_DOUBT;
		if (cells[i].kind == CELL_ABSENT) {
			assert(cells[i].doubt);
			*flags |= ROW_HIDDEN;
		}
	}
	return n;
}

void row_encode(struct buf *out, struct pos pos, uint32_t version, xid_t born, struct slice full_key,
				const struct cell *cells, size_t ncells)
{
	uint8_t flags = full_key.n > 0 ? ROW_LONG_KEY : 0;
	size_t n = cells_measure(cells, ncells, &flags);
	uint8_t *at, *end;

	assert(version > 0);
	n += HEAD_SIZE + varint_size(version) + full_key_size(full_key);
	if (flags & ROW_DOUBT) n += 8 + bitmap_size(ncells);
	at = buf_extend(out, n);
	end = at + n;
	at = put_head(at, flags, pos);
	at = put_varint(at, version);
	if (flags & ROW_DOUBT) at = put_doubt(at, born, cells, ncells);
	at = put_full_key(at, full_key);
	at = put_cells(at, cells, ncells);
	assert(at == end);
}

size_t row_encoded_max(struct slice full_key, const struct cell *cells, size_t ncells)
{
	uint8_t flags = 0;

	return HEAD_SIZE + varint_size(UINT32_MAX) + 8 + bitmap_size(ncells) + full_key_size(full_key) +
		   cells_measure(cells, ncells, &flags);
}

void row_encode_marker(struct buf *out, struct pos pos, struct slice full_key)
{
	uint8_t *at = buf_extend(out, HEAD_SIZE + full_key_size(full_key));

	at = put_head(at, ROW_DELETED | (full_key.n > 0 ? ROW_LONG_KEY : 0), pos);
	put_full_key(at, full_key);
}

void row_stamp(uint8_t *entry, struct pos pos)
{
	pos_encode(pos, entry + 1);
}

static uint32_t take_version(struct cur *c)
{
	uint64_t v = cur_varint(c);

	if (v == 0 || v > UINT32_MAX) c->bad = true;
	return c->bad ? 0 : (uint32_t)v;
}

uint32_t row_version(struct slice entry)
{
	struct cur c = cur_of(entry);
	uint8_t flags = cur_u8(&c);

	cur_bytes(&c, POS_SIZE);
	return flags & ROW_DELETED ? 0 : take_version(&c);
}

/* Combinations that no encoder makes. */
static bool flags_are_odd(uint8_t flags)
{
	return flags & ~FLAGS_ALL || ((flags & ROW_DELETED) && (flags & (ROW_DOUBT | ROW_HIDDEN))) ||
		   ((flags & ROW_HIDDEN) && !(flags & ROW_DOUBT));
}

/* One column at least is in doubt, and there are no bits behind the last column. */
static bool bitmap_is_odd(struct slice bitmap, size_t ncolumns)
{
	uint8_t any = 0;

	for (size_t i = 0; i < bitmap.n; i++)
		any |= bitmap.p[i];
	return any == 0 || (ncolumns % 8 != 0 && bitmap.p[bitmap.n - 1] >> ncolumns % 8 != 0);
}

static void take_doubt(struct cur *c, size_t ncolumns, struct row_head *h)
{
	h->born = XID(cur_u64(c));
	h->doubt = cur_bytes(c, bitmap_size(ncolumns));
	if (bitmap_is_odd(h->doubt, ncolumns)) c->bad = true;
}

static bool damaged(struct err *err, struct slice entry)
{
	return err_set(err, ERR_CORRUPT, "an entry of %zu bytes is damaged", entry.n);
}

bool row_head(struct slice entry, size_t ncolumns, struct row_head *out, struct err *err)
{
	struct cur c = cur_of(entry);

	*out = (struct row_head){0};
	if (!row_peek(entry, &out->flags, &out->pos) || flags_are_odd(out->flags)) return damaged(err, entry);
	cur_bytes(&c, HEAD_SIZE);
	if (!(out->flags & ROW_DELETED)) out->version = take_version(&c);
	if (out->flags & ROW_DOUBT) take_doubt(&c, ncolumns, out);
	if (out->flags & ROW_LONG_KEY) {
		out->full_key = cur_blob(&c);
		if (out->full_key.n == 0) c.bad = true;
	}
	if (c.bad || ((out->flags & ROW_DELETED) && !cur_done(&c))) return damaged(err, entry);
	out->columns = (struct slice){c.p, (size_t)(c.end - c.p)};
	return true;
}

static void take_cell(struct cur *c, struct cell *cell)
{
	uint64_t code = cur_varint(c);

	cell->text = (struct slice){0};
	if (code == CODE_NULL) {
		cell->kind = CELL_NULL;
	} else if (code == CODE_ABSENT) {
		cell->kind = CELL_ABSENT;
		if (!cell->doubt) c->bad = true;
	} else {
		cell->kind = CELL_TEXT;
		if (code - CODE_TEXT > (uint64_t)(c->end - c->p)) c->bad = true;
		cell->text = cur_bytes(c, (size_t)(code - CODE_TEXT));
	}
}

/* The code at *p, which moves behind it. False: there is none. */
static inline bool take_code(const uint8_t **p, const uint8_t *end, uint64_t *code)
{
	struct cur rest = {.p = *p, .end = end};

	if (*p < end && **p < 0x80) {
		*code = *(*p)++;
		return true;
	}
	*code = cur_varint(&rest);
	*p = rest.p;
	return !rest.bad;
}

/* Of a row without doubt, which nearly all are: a scan spends its time here. False: damaged. */
static bool take_plain_cells(struct slice columns, struct cell *cells, size_t ncolumns)
{
	const uint8_t *p = columns.p, *end = p + columns.n;

	for (size_t i = 0; i < ncolumns; i++) {
		uint64_t code, n;

		if (!take_code(&p, end, &code) || code == CODE_ABSENT) return false;
		cells[i].doubt = false;
		cells[i].kind = code == CODE_NULL ? CELL_NULL : CELL_TEXT;
		n = code == CODE_NULL ? 0 : code - CODE_TEXT;
		if (n > (size_t)(end - p)) return false;
		cells[i].text = (struct slice){code == CODE_NULL ? NULL : p, n};
		p += n;
	}
	return p == end;
}

bool row_decode(struct slice entry, size_t ncolumns, struct row_head *head, struct cell *cells,
				struct err *err)
{
	struct cur c;
	bool absent = false;

	if (!row_head(entry, ncolumns, head, err)) return false;
	if (head->flags & ROW_DELETED) return true;
	if (!(head->flags & ROW_DOUBT))
		return take_plain_cells(head->columns, cells, ncolumns) || damaged(err, entry);
	c = cur_of(head->columns);
	for (size_t i = 0; i < ncolumns; i++) {
		cells[i].doubt = bitmap_get(head->doubt, i);
		take_cell(&c, &cells[i]);
		absent |= cells[i].kind == CELL_ABSENT;
	}
	if (!cur_done(&c) || absent != ((head->flags & ROW_HIDDEN) != 0)) return damaged(err, entry);
	return true;
}
