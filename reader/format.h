/*
 * reader/format.h - a row as a line of JSON, CSV or PostgreSQL's COPY text.
 *
 * json  One object a line. A number, boolean, json or jsonb column is embedded
 *       when its text is one JSON value by itself, which NaN, Infinity and a
 *       text kept from before a change of type are not; all else are strings.
 * csv   RFC 4180 with a header and CRLF. NULL is empty, the empty string is "".
 * copy  Byte for byte what COPY ... TO STDOUT prints.
 *
 * Lines go to the end of a `struct buf`. No allocation a row beyond it. One
 * owner each.
 */
#ifndef READER_FORMAT_H
#define READER_FORMAT_H

#include <stdbool.h>
#include <stdint.h>

#include "state/bytes.h"
#include "state/err.h"
#include "state/pos.h"

enum format_kind { FORMAT_JSON, FORMAT_CSV, FORMAT_COPY };

/* The kind called "json", "csv" or "copy"; ERR_CONFIG for any other word. */
bool format_parse(const char *word, enum format_kind *out, struct err *err);

struct format_column {
	const char *name;   /* unquoted */
	uint8_t type_class; /* enum type_class of state/schema.h */
};

/* Where a row comes from: "_tidemark" in JSON, five leading columns in CSV. */
struct format_meta {
	lsn_t lsn;
	uint64_t ordinal;
	uint32_t epoch, version;
	bool doubt;
};

struct format;

/*
 * Copies what it needs. ERR_CONFIG: with_meta and COPY, which has no place for
 * it; or a column has one of the names that with_meta adds.
 */
bool format_create(enum format_kind kind, const struct format_column *columns, size_t n, bool with_meta,
				   struct format **out, struct err *err);
void format_destroy(struct format *f); /* accepts NULL */

/* The line before the rows; only CSV has one. */
void format_header(const struct format *f, struct buf *out);

/* cells: one for each column, p == NULL is SQL NULL. meta: required by with_meta, else ignored. */
void format_row(struct format *f, const struct slice *cells, const struct format_meta *meta, struct buf *out);

#endif
