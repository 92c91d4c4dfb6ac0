#include "state/row.h"

#include <assert.h>
#include <string.h>

#define HEAD_SIZE ROW_PEEK_SIZE
#define FLAGS_ALL (ROW_DELETED | ROW_DOUBT | ROW_LONG_KEY | ROW_HIDDEN)

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
	case CELL_NULL: return ROW_CODE_NULL;
	case CELL_ABSENT: return ROW_CODE_ABSENT;
	case CELL_TEXT: break;
	}
	return ROW_CODE_TEXT + (uint64_t)cell->text.n;
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

uint32_t row_version(struct slice entry)
{
	struct row_head head;

	return row_begin(entry, &head) ? head.version : 0;
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

/* What is between version and columns. */
static bool take_middle(struct slice entry, size_t ncolumns, struct row_head *head, struct err *err)
{
	struct cur c = cur_of(head->columns);

	if (head->flags == 0) return true; /* nothing, nearly always */
	if (flags_are_odd(head->flags)) return damaged(err, entry);
	if (head->flags & ROW_DOUBT) take_doubt(&c, ncolumns, head);
	if (head->flags & ROW_LONG_KEY) {
		head->full_key = cur_blob(&c);
		if (head->full_key.n == 0) c.bad = true;
	}
	if (c.bad || ((head->flags & ROW_DELETED) && !cur_done(&c))) return damaged(err, entry);
	head->columns = (struct slice){c.p, (size_t)(c.end - c.p)};
	return true;
}

bool row_head(struct slice entry, size_t ncolumns, struct row_head *out, struct err *err)
{
	return row_begin(entry, out) ? take_middle(entry, ncolumns, out, err) : damaged(err, entry);
}

static void take_cell(struct cur *c, struct cell *cell)
{
	uint64_t code = cur_varint(c);

	cell->text = (struct slice){0};
	if (code == ROW_CODE_NULL) {
		cell->kind = CELL_NULL;
	} else if (code == ROW_CODE_ABSENT) {
		cell->kind = CELL_ABSENT;
		if (!cell->doubt) c->bad = true;
	} else {
		cell->kind = CELL_TEXT;
		cell->text = cur_bytes(c, code - ROW_CODE_TEXT);
	}
}

bool row_decode(struct slice entry, size_t ncolumns, struct row_head *head, struct cell *cells,
				struct err *err)
{
	struct cur c;
	bool absent = false;

	if (!row_head(entry, ncolumns, head, err)) return false;
	if (head->flags & ROW_DELETED) return true;
	c = cur_of(head->columns);
	for (size_t i = 0; i < ncolumns; i++) {
		cells[i].doubt = bitmap_get(head->doubt, i);
		take_cell(&c, &cells[i]);
		absent |= cells[i].kind == CELL_ABSENT;
	}
	if (!cur_done(&c) || absent != ((head->flags & ROW_HIDDEN) != 0)) return damaged(err, entry);
	return true;
}

/* ---- columns where they lie ---- */

/* Bytes of the column that begins there: one that is no short text. 0: damaged. */
static size_t odd_column(struct slice entry, size_t at)
{
	struct cur c = cur_of((struct slice){entry.p + at, entry.n - at});
	uint64_t code = cur_varint(&c);

	if (code == ROW_CODE_ABSENT || c.bad) return 0;
	if (code >= ROW_CODE_TEXT) cur_take(&c, code - ROW_CODE_TEXT);
	return c.bad ? 0 : (size_t)(c.p - entry.p) - at;
}

/* Of a row without doubt, which nearly all are: a scan spends its time here. False: damaged. */
static bool index_plain(struct slice entry, struct slice columns, uint32_t *at, size_t ncolumns)
{
	size_t here = (size_t)(columns.p - entry.p), n;

	for (size_t i = 0; i < ncolumns; i++) {
		at[i] = (uint32_t)here;
		if (here >= entry.n) return false;
		n = entry.p[here];
		n = n >= ROW_CODE_TEXT && n < 0x80 ? n - ROW_CODE_TEXT + 1 : odd_column(entry, here);
		if (n == 0) return false;
		here += n;
	}
	at[ncolumns] = (uint32_t)here;
	return here == entry.n;
}

/* Of a row with columns in doubt: only these can be absent, and then it is hidden. */
static bool index_doubtful(struct slice entry, const struct row_head *head, uint32_t *at, size_t ncolumns)
{
	struct cur c = cur_of(head->columns);
	bool absent = false;

	for (size_t i = 0; i < ncolumns; i++) {
		uint64_t code;

		at[i] = (uint32_t)(c.p - entry.p);
		code = cur_varint(&c);
		if (code >= ROW_CODE_TEXT) cur_take(&c, code - ROW_CODE_TEXT);
		if (code == ROW_CODE_ABSENT && !bitmap_get(head->doubt, i)) return false;
		absent |= code == ROW_CODE_ABSENT;
	}
	at[ncolumns] = (uint32_t)entry.n;
	return cur_done(&c) && absent == ((head->flags & ROW_HIDDEN) != 0);
}

static bool index_marked(struct slice entry, size_t ncolumns, struct row_head *head, uint32_t *at,
						 struct err *err)
{
	bool good = true;

	if (!take_middle(entry, ncolumns, head, err)) return false;
	if (head->flags & ROW_DOUBT)
		good = index_doubtful(entry, head, at, ncolumns);
	else if (!(head->flags & ROW_DELETED))
		good = index_plain(entry, head->columns, at, ncolumns);
	return good || damaged(err, entry);
}

bool row_index(struct slice entry, size_t ncolumns, struct row_head *head, uint32_t *at, struct err *err)
{
	if (head->flags != 0) return index_marked(entry, ncolumns, head, at, err);
	return index_plain(entry, head->columns, at, ncolumns) || damaged(err, entry);
}
