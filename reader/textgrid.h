/*
 * reader/textgrid.h - rows of text in aligned columns, two spaces between them.
 *
 * Widths count characters of UTF-8, each as one column of the terminal. One owner.
 */
#ifndef READER_TEXTGRID_H
#define READER_TEXTGRID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "state/bytes.h"

struct textgrid_column {
	const char *title;
	bool right; /* numbers */
};

struct textgrid {
	const struct textgrid_column *columns; /* the caller's */
	size_t ncolumns;
	struct buf text;  /* all cells */
	struct buf cells; /* where each begins in text: size_t */
};

struct textgrid textgrid_of(const struct textgrid_column *columns, size_t ncolumns);
void textgrid_finish(struct textgrid *g);

/* Begins the next cell, row by row from the left. Append to what it returns until the next call. */
struct buf *textgrid_cell(struct textgrid *g);
void textgrid_put(struct textgrid *g, const char *text);
void textgrid_put_uint(struct textgrid *g, uint64_t v);

/* Titles and rows. Every row must be whole. The last column is not padded. */
void textgrid_print(const struct textgrid *g, struct buf *out);

#endif
