/* reader/textgrid.c - see textgrid.h. */
#include "reader/textgrid.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "reader/json.h"

struct textgrid textgrid_of(const struct textgrid_column *columns, size_t ncolumns)
{
	struct textgrid g = {.columns = columns, .ncolumns = ncolumns};

	for (size_t i = 0; i < ncolumns; i++)
		textgrid_put(&g, columns[i].title);
	return g;
}

void textgrid_finish(struct textgrid *g)
{
	buf_finish(&g->text);
	buf_finish(&g->cells);
}

struct buf *textgrid_cell(struct textgrid *g)
{
	size_t start = g->text.n;

	buf_put(&g->cells, &start, sizeof start);
	return &g->text;
}

void textgrid_put(struct textgrid *g, const char *text)
{
	buf_put(textgrid_cell(g), text, strlen(text));
}

void textgrid_put_uint(struct textgrid *g, uint64_t v)
{
	json_put_uint(textgrid_cell(g), v);
}

static size_t cell_count(const struct textgrid *g)
{
	return g->cells.n / sizeof(size_t);
}

static size_t cell_start(const struct textgrid *g, size_t i)
{
	size_t start;

	if (i == cell_count(g)) return g->text.n;
	memcpy(&start, g->cells.p + i * sizeof start, sizeof start);
	return start;
}

static struct slice cell(const struct textgrid *g, size_t i)
{
	size_t start = cell_start(g, i);

	return (struct slice){g->text.p + start, cell_start(g, i + 1) - start};
}

/* Characters: bytes that are not the tail of one. */
static size_t width(struct slice text)
{
	size_t n = 0;

	for (size_t i = 0; i < text.n; i++)
		n += (text.p[i] & 0xc0) != 0x80;
	return n;
}

static void put_spaces(struct buf *out, size_t n)
{
	memset(buf_extend(out, n), ' ', n);
}

static void put_cell(const struct textgrid *g, size_t i, size_t to, struct buf *out)
{
	size_t column = i % g->ncolumns;
	struct slice text = cell(g, i);
	size_t pad = to - width(text);
	bool last = column + 1 == g->ncolumns;

	if (g->columns[column].right) put_spaces(out, pad);
	buf_put(out, text.p, text.n);
	if (!g->columns[column].right && !last) put_spaces(out, pad);
	if (last)
		buf_put_u8(out, '\n');
	else
		put_spaces(out, 2);
}

void textgrid_print(const struct textgrid *g, struct buf *out)
{
	size_t n = cell_count(g);
	size_t *widths = calloc(g->ncolumns, sizeof *widths);

	assert(n % g->ncolumns == 0);
	if (!widths) abort();
	for (size_t i = 0; i < n; i++) {
		size_t w = width(cell(g, i)), *widest = &widths[i % g->ncolumns];

		*widest = w > *widest ? w : *widest;
	}
	for (size_t i = 0; i < n; i++)
		put_cell(g, i, widths[i % g->ncolumns], out);
	free(widths);
}
