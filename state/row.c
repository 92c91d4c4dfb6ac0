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
	struct err ignored;

	return row_begin(entry, &head, &ignored) ? head.version : 0;
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

bool row_damaged(struct slice entry, struct err *err)
{
	return err_set(err, ERR_CORRUPT, "an entry of %zu bytes is damaged", entry.n);
}

static bool take_marked(struct slice entry, size_t ncolumns, struct row_head *head, struct err *err)
{
	struct cur c = cur_of(head->columns);

	if (flags_are_odd(head->flags)) return row_damaged(entry, err);
	if (head->flags & ROW_DOUBT) take_doubt(&c, ncolumns, head);
	if (head->flags & ROW_LONG_KEY) {
		head->full_key = cur_blob(&c);
		if (head->full_key.n == 0) c.bad = true;
	}
	if (c.bad || ((head->flags & ROW_DELETED) && !cur_done(&c))) return row_damaged(entry, err);
	head->columns = (struct slice){c.p, (size_t)(c.end - c.p)};
	return true;
}

/* What is between version and columns: nothing, nearly always. */
static inline bool take_middle(struct slice entry, size_t ncolumns, struct row_head *head, struct err *err)
{
	return head->flags == 0 || take_marked(entry, ncolumns, head, err);
}

bool row_head(struct slice entry, size_t ncolumns, struct row_head *out, struct err *err)
{
	return row_begin(entry, out, err) && take_middle(entry, ncolumns, out, err);
}

/* Bytes of a column whose code takes more than one. 0: damaged. */
static size_t long_column(struct slice entry, size_t at)
{
	struct cur c = cur_of((struct slice){entry.p + at, entry.n - at});
	uint64_t code = cur_varint(&c);

	cur_take(&c, code - ROW_CODE_TEXT);
	return c.bad ? 0 : (size_t)(c.p - entry.p) - at;
}

/*
 * Bytes of the column that begins there. 0: damaged. A short one may end behind the entry: then the next one
 * begins there, or the last does not end where the entry does.
 */
static inline size_t column_size(struct slice entry, size_t at)
{
	uint8_t code;

	if (at >= entry.n) return 0;
	code = entry.p[at];
	if (code >= 0x80) return long_column(entry, at);
	return code >= ROW_CODE_TEXT ? (size_t)code - ROW_CODE_TEXT + 1 : 1;
}

static struct cell cell_at(struct slice entry, size_t at, bool doubt)
{
	uint8_t code = entry.p[at];
	enum cell_kind kind = code == ROW_CODE_NULL     ? CELL_NULL
						  : code == ROW_CODE_ABSENT ? CELL_ABSENT
													: CELL_TEXT;

	return (struct cell){.kind = kind, .doubt = doubt, .text = row_column(entry, (uint32_t)at)};
}

/* A scan spends its time here: a loop of its own for each of `at` and `cells`, of which one is NULL. */
static inline __attribute__((always_inline)) bool take_columns(struct slice entry, size_t ncolumns,
															   struct row_head *head, uint32_t *at,
															   struct cell *cells, struct err *err)
{
	size_t here, size;
	bool absent = false;

	if (!take_middle(entry, ncolumns, head, err)) return false;
	if (head->flags & ROW_DELETED) return true;
	here = (size_t)(head->columns.p - entry.p);
	for (size_t i = 0; i < ncolumns; i++, here += size) {
		size = column_size(entry, here);
		if (size == 0) return row_damaged(entry, err);
		if (entry.p[here] == ROW_CODE_ABSENT) {
			if (!bitmap_get(head->doubt, i)) return row_damaged(entry, err);
			absent = true;
		}
		if (at) at[i] = (uint32_t)here;
		if (cells) cells[i] = cell_at(entry, here, bitmap_get(head->doubt, i));
	}
	if (at) at[ncolumns] = (uint32_t)here;
	return (here == entry.n && absent == ((head->flags & ROW_HIDDEN) != 0)) || row_damaged(entry, err);
}

bool row_index(struct slice entry, size_t ncolumns, struct row_head *head, uint32_t *at, struct err *err)
{
	return take_columns(entry, ncolumns, head, at, NULL, err);
}

bool row_decode(struct slice entry, size_t ncolumns, struct row_head *head, struct cell *cells,
				struct err *err)
{
	return row_begin(entry, head, err) && take_columns(entry, ncolumns, head, NULL, cells, err);
}
