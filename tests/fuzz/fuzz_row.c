/*
 * Entries of the store: any bytes are decoded or refused, and what is decoded
 * is encoded in the same bytes; any cells come back as they were.
 */
#include "state/row.h"
#include "tests/fuzz/fuzz.h"

#define COLUMNS_MAX 40

/* The two ways to read an entry agree. */
static void compare_index(struct slice bytes, size_t ncolumns, bool good, const struct cell *cells)
{
	uint32_t at[COLUMNS_MAX + 1];
	struct row_head head;
	struct err err = {0};

	CHECK_THAT((row_begin(bytes, &head, &err) && row_index(bytes, ncolumns, &head, at, &err)) == good,
			   "good %d", good);
	if (!good || head.flags & ROW_DELETED) return;
	for (size_t i = 0; i < ncolumns; i++) {
		struct slice text = row_column(bytes, at[i]);

		CHECK_THAT((text.p != NULL) == (cells[i].kind == CELL_TEXT), "column %zu", i);
		CHECK_THAT(!text.p || slice_eq(text, cells[i].text), "text of column %zu", i);
	}
}

static void decode(struct slice bytes, size_t ncolumns)
{
	struct cell cells[COLUMNS_MAX];
	struct row_head head;
	struct buf again = {0};
	struct err err = {0};
	uint8_t flags;
	struct pos pos;

	bool good = row_decode(bytes, ncolumns, &head, cells, &err);

	compare_index(bytes, ncolumns, good, cells);
	if (!good) {
		check_refusal(&err);
		CHECK_THAT(err.kind == ERR_CORRUPT, "%s", err.msg);
		return;
	}
	CHECK_THAT(row_peek(bytes, &flags, &pos) && flags == head.flags && pos_cmp(pos, head.pos) == 0, "peek");
	CHECK_THAT(row_version(bytes) == head.version, "version %u", head.version);
	if (flags & ROW_DELETED)
		row_encode_marker(&again, pos, head.full_key);
	else
		row_encode(&again, pos, head.version, head.born, head.full_key, cells, ncolumns);
	CHECK_THAT(same_bytes(&again, bytes), "an entry of %zu bytes is encoded in %zu", bytes.n, again.n);
	buf_finish(&again);
}

static struct cell take_cell(struct feed *f)
{
	uint8_t how = feed_u8(f);

	if (how % 4 == 0) return (struct cell){.kind = CELL_NULL, .doubt = how & 4};
	if (how % 4 == 1) return (struct cell){.kind = CELL_ABSENT, .doubt = true};
	return (struct cell){.kind = CELL_TEXT, .doubt = (how & 12) == 12, .text = feed_slice(f)};
}

static void compare(const struct cell *a, const struct cell *b)
{
	CHECK_THAT(a->kind == b->kind && a->doubt == b->doubt, "kinds %d and %d", a->kind, b->kind);
	CHECK_THAT(a->kind != CELL_TEXT || slice_eq(a->text, b->text), "texts of %zu and %zu bytes", a->text.n,
			   b->text.n);
}

static struct pos take_pos(struct feed *f)
{
	struct pos pos;

	pos.epoch = (uint16_t)feed_uint(f, 2);
	pos.lsn = LSN(feed_uint(f, 8));
	pos.ordinal = feed_uint(f, 6);
	return pos;
}

static void encode(struct feed *f, size_t ncolumns)
{
	struct pos pos = take_pos(f), stamp = pos;
	uint32_t version = (uint32_t)feed_uint(f, 4);
	xid_t born = XID(feed_uint(f, 8));
	struct slice full_key = feed_slice(f);
	struct cell in[COLUMNS_MAX], out[COLUMNS_MAX];
	struct row_head head;
	struct buf b = {0};
	struct err err = {0};

	for (size_t i = 0; i < ncolumns; i++)
		in[i] = take_cell(f);
	row_encode(&b, pos, version ? version : 1, born, full_key, in, ncolumns);
	CHECK_THAT(b.n <= row_encoded_max(full_key, in, ncolumns), "%zu bytes", b.n);
	stamp.ordinal ^= 1;
	row_stamp(b.p, stamp);
	CHECK_THAT(row_decode((struct slice){b.p, b.n}, ncolumns, &head, out, &err), "%s", err.msg);
	CHECK_THAT(pos_cmp(head.pos, stamp) == 0 && head.version == (version ? version : 1), "head");
	CHECK_THAT(slice_eq(head.full_key, full_key), "full key");
	CHECK_THAT(!(head.flags & ROW_DOUBT) || head.born.v == born.v, "born");
	for (size_t i = 0; i < ncolumns; i++)
		compare(&in[i], &out[i]);
	buf_finish(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = feed_of(data, size);
	uint8_t what = feed_u8(&f);
	size_t ncolumns = (what >> 1) % (COLUMNS_MAX + 1);
	struct slice bytes = alone((struct slice){f.p, feed_left(&f)});

	if (what & 1)
		decode(bytes, ncolumns);
	else
		encode(&f, ncolumns);
	alone_free(bytes);
	return 0;
}
