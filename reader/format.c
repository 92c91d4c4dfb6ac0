/* reader/format.c - see format.h. */
#include "reader/format.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "reader/bytescan.h"
#include "reader/json.h"
#include "state/schema.h"

#define META_KEY "_tidemark"
static const char *const meta_columns[] = {"_lsn", "_ordinal", "_epoch", "_version", "_doubt"};
#define META_COLUMNS (sizeof meta_columns / sizeof meta_columns[0])

struct format {
	enum format_kind kind;
	bool with_meta;
	size_t ncolumns;
	uint8_t *classes;
	struct buf names;   /* JSON: `"name":` of each column, a comma in front; CSV: the header line */
	size_t *name_ends;  /* in names */
	struct buf scratch; /* for json_is_valid */
};

bool format_parse(const char *word, enum format_kind *out, struct err *err)
{
	static const char *const words[] = {[FORMAT_JSON] = "json", [FORMAT_CSV] = "csv", [FORMAT_COPY] = "copy"};

	for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
		if (strcmp(word, words[i]) == 0) {
			*out = (enum format_kind)i;
			return true;
		}
	}
	return err_set(err, ERR_CONFIG, "there is no format \"%s\"", word);
}

static void put_text(struct buf *out, const char *s)
{
	buf_put(out, s, strlen(s));
}

/* ---- JSON ---- */

/* Line ends can only stand between the tokens of valid JSON. */
static void put_on_one_line(struct buf *out, struct slice json)
{
	uint8_t *q = buf_extend(out, json.n);

	memcpy(q, json.p, json.n);
	for (uint8_t *end = q + json.n; q < end; q++) {
		if (*q == '\n' || *q == '\r') *q = ' ';
	}
}

/* False: the text is not what its column's class says. */
static bool put_by_class(struct buf *out, uint8_t type_class, struct slice text, struct buf *scratch)
{
	switch (type_class) {
	case TYPE_INT:
	case TYPE_FLOAT:
	case TYPE_NUMERIC:
		if (!json_is_number(text)) return false;
		buf_put(out, text.p, text.n);
		return true;
	case TYPE_BOOL:
		if (text.n != 1 || (*text.p != 't' && *text.p != 'f')) return false;
		put_text(out, *text.p == 't' ? "true" : "false");
		return true;
	case TYPE_JSON:
		if (!json_is_valid(text, scratch)) return false;
		put_on_one_line(out, text);
		return true;
	default: return false;
	}
}

static void put_json_value(struct buf *out, uint8_t type_class, struct slice text, struct buf *scratch)
{
	if (!text.p)
		put_text(out, "null");
	else if (!put_by_class(out, type_class, text, scratch))
		json_put_string(out, text);
}

static void put_json_meta(struct buf *out, const struct format_meta *m)
{
	struct json j = json_to(out);
	char lsn[LSN_TEXT_SIZE];

	json_open(&j, META_KEY, '{');
	json_add_string(&j, "lsn", lsn_format(m->lsn, lsn));
	json_add_uint(&j, "ordinal", m->ordinal);
	json_add_uint(&j, "epoch", m->epoch);
	json_add_uint(&j, "version", m->version);
	json_add_bool(&j, "doubt", m->doubt);
	json_close(&j, '}');
}

static void put_json_row(struct format *f, const struct slice *cells, const struct format_meta *meta,
						 struct buf *out)
{
	size_t start = 0;

	buf_put_u8(out, '{');
	if (f->with_meta) put_json_meta(out, meta);
	for (size_t i = 0; i < f->ncolumns; i++) {
		buf_put(out, f->names.p + start, f->name_ends[i] - start);
		start = f->name_ends[i];
		put_json_value(out, f->classes[i], cells[i], &f->scratch);
	}
	put_text(out, "}\n");
}

/* ---- CSV ---- */

/* The empty string is quoted to tell it from NULL. */
static bool needs_quotes(struct slice text)
{
	const uint8_t *p = text.p, *end = p + text.n;

	for (; end - p >= 8; p += 8) {
		uint64_t w = word_load(p);

		if (word_has(w, ',') | word_has(w, '"') | word_has(w, '\n') | word_has(w, '\r')) return true;
	}
	for (; p < end; p++) {
		if (*p == ',' || *p == '"' || *p == '\n' || *p == '\r') return true;
	}
	return text.n == 0;
}

static void put_csv_field(struct buf *out, struct slice text)
{
	const uint8_t *p = text.p, *end, *quote;

	if (!p) return;
	if (!needs_quotes(text)) {
		buf_put(out, p, text.n);
		return;
	}
	buf_put_u8(out, '"');
	for (end = p + text.n; (quote = memchr(p, '"', (size_t)(end - p))) != NULL; p = quote + 1) {
		buf_put(out, p, (size_t)(quote - p));
		put_text(out, "\"\"");
	}
	buf_put(out, p, (size_t)(end - p));
	buf_put_u8(out, '"');
}

static void put_csv_meta(struct buf *out, const struct format_meta *m)
{
	const uint64_t numbers[] = {m->ordinal, m->epoch, m->version};
	char lsn[LSN_TEXT_SIZE];

	put_text(out, lsn_format(m->lsn, lsn));
	for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
		buf_put_u8(out, ',');
		json_put_uint(out, numbers[i]);
	}
	put_text(out, m->doubt ? ",t" : ",f");
}

static void put_csv_row(const struct format *f, const struct slice *cells, const struct format_meta *meta,
						struct buf *out)
{
	if (f->with_meta) put_csv_meta(out, meta);
	for (size_t i = 0; i < f->ncolumns; i++) {
		if (i > 0 || f->with_meta) buf_put_u8(out, ',');
		put_csv_field(out, cells[i]);
	}
	put_text(out, "\r\n");
}

static void build_csv_header(struct format *f, const struct format_column *columns)
{
	for (size_t i = 0; f->with_meta && i < META_COLUMNS; i++) {
		put_text(&f->names, i > 0 ? "," : "");
		put_text(&f->names, meta_columns[i]);
	}
	for (size_t i = 0; i < f->ncolumns; i++) {
		if (i > 0 || f->with_meta) buf_put_u8(&f->names, ',');
		put_csv_field(&f->names, slice_of(columns[i].name));
	}
	put_text(&f->names, "\r\n");
}

/* ---- COPY text ---- */

/* What follows the backslash, 0 for a byte that stands as it is: CopyAttributeOutText() of PostgreSQL. */
static uint8_t copy_escape(uint8_t c)
{
	static const uint8_t letters[32] = {
		['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\v'] = 'v', ['\f'] = 'f', ['\r'] = 'r'};

	if (c < 0x20) return letters[c];
	return c == '\\' ? '\\' : 0;
}

static uint8_t *put_copy_byte(uint8_t *q, uint8_t c)
{
	uint8_t letter = copy_escape(c);

	if (letter) *q++ = '\\';
	*q++ = letter ? letter : c;
	return q;
}

/* At most twice n bytes. */
static uint8_t *put_copy_bytes(uint8_t *q, const uint8_t *p, size_t n)
{
	const uint8_t *end = p + n;

	while (end - p >= 8) {
		uint64_t w = word_load(p);

		if (word_below(w, 0x20) | word_has(w, '\\')) {
			for (int i = 0; i < 8; i++)
				q = put_copy_byte(q, p[i]);
		} else {
			memcpy(q, &w, 8);
			q += 8;
		}
		p += 8;
	}
	while (p < end)
		q = put_copy_byte(q, *p++);
	return q;
}

static void put_copy_field(struct buf *out, struct slice text)
{
	const size_t piece = 4096; /* keeps the room for the worst case small */

	if (!text.p) put_text(out, "\\N");
	while (text.p && text.n > 0) {
		size_t n = text.n < piece ? text.n : piece;
		uint8_t *start = buf_extend(out, 2 * n);
		uint8_t *q = put_copy_bytes(start, text.p, n);

		out->n -= (size_t)(start + 2 * n - q);
		text = (struct slice){text.p + n, text.n - n};
	}
}

static void put_copy_row(const struct format *f, const struct slice *cells, struct buf *out)
{
	for (size_t i = 0; i < f->ncolumns; i++) {
		if (i > 0) buf_put_u8(out, '\t');
		put_copy_field(out, cells[i]);
	}
	buf_put_u8(out, '\n');
}

/* ---- all of them ---- */

static bool is_meta_name(enum format_kind kind, const char *name)
{
	if (kind == FORMAT_JSON) return strcmp(name, META_KEY) == 0;
	for (size_t i = 0; i < META_COLUMNS; i++) {
		if (strcmp(name, meta_columns[i]) == 0) return true;
	}
	return false;
}

static bool check_meta(enum format_kind kind, const struct format_column *columns, size_t n, struct err *err)
{
	if (kind == FORMAT_COPY)
		return err_set(err, ERR_CONFIG,
					   "--with-meta does not go with --format copy, which prints what COPY prints: "
					   "use json or csv");
	for (size_t i = 0; i < n; i++) {
		if (is_meta_name(kind, columns[i].name))
			return err_set(err, ERR_CONFIG,
						   "the table has a column %s, a name that --with-meta adds: "
						   "use another --format or leave --with-meta out",
						   columns[i].name);
	}
	return true;
}

static void build_json_names(struct format *f, const struct format_column *columns)
{
	for (size_t i = 0; i < f->ncolumns; i++) {
		if (i > 0 || f->with_meta) buf_put_u8(&f->names, ',');
		json_put_string(&f->names, slice_of(columns[i].name));
		buf_put_u8(&f->names, ':');
		f->name_ends[i] = f->names.n;
	}
}

static bool build(struct format *f, const struct format_column *columns)
{
	f->classes = calloc(f->ncolumns + 1, sizeof *f->classes);
	f->name_ends = calloc(f->ncolumns + 1, sizeof *f->name_ends);
	if (!f->classes || !f->name_ends) return false;
	for (size_t i = 0; i < f->ncolumns; i++)
		f->classes[i] = columns[i].type_class;
	if (f->kind == FORMAT_JSON) build_json_names(f, columns);
	if (f->kind == FORMAT_CSV) build_csv_header(f, columns);
	return true;
}

bool format_create(enum format_kind kind, const struct format_column *columns, size_t n, bool with_meta,
				   struct format **out, struct err *err)
{
	struct format *f;

	*out = NULL;
	if (with_meta && !check_meta(kind, columns, n, err)) return false;
	f = calloc(1, sizeof *f);
	if (!f) return err_set(err, ERR_NOMEM, "out of memory");
	f->kind = kind;
	f->with_meta = with_meta;
	f->ncolumns = n;
	if (!build(f, columns)) {
		format_destroy(f);
		return err_set(err, ERR_NOMEM, "out of memory");
	}
	*out = f;
	return true;
}

void format_destroy(struct format *f)
{
	if (!f) return;
	buf_finish(&f->names);
	buf_finish(&f->scratch);
	free(f->classes);
	free(f->name_ends);
	free(f);
}

void format_header(const struct format *f, struct buf *out)
{
	if (f->kind == FORMAT_CSV) buf_put(out, f->names.p, f->names.n);
}

void format_row(struct format *f, const struct slice *cells, const struct format_meta *meta, struct buf *out)
{
	assert(meta || !f->with_meta);
	switch (f->kind) {
	case FORMAT_JSON: put_json_row(f, cells, meta, out); break;
	case FORMAT_CSV: put_csv_row(f, cells, meta, out); break;
	case FORMAT_COPY: put_copy_row(f, cells, out); break;
	}
}
