/*
 * What is printed of values and messages from outside: one line each, JSON
 * that is JSON, CSV and COPY text that say what went in.
 */
#include "reader/format.h"
#include "reader/json.h"
#include "reader/log.h"
#include "state/schema.h"
#include "tests/fuzz/fuzz.h"

#define COLUMNS_MAX 6

struct row {
	struct format_column columns[COLUMNS_MAX];
	struct slice cells[COLUMNS_MAX];
	char *names[COLUMNS_MAX];
	size_t n;
};

static void take_row(struct row *r, struct feed *f)
{
	r->n = 1 + feed_below(f, COLUMNS_MAX);
	for (size_t i = 0; i < r->n; i++) {
		uint8_t how = feed_u8(f);

		r->names[i] = feed_bool(f) ? feed_text(f) : strdup("name");
		r->columns[i] = (struct format_column){r->names[i], how % (TYPE_JSON + 1)};
		r->cells[i] = how & 0x80 ? (struct slice){0} : alone(feed_slice(f));
	}
}

static void free_row(struct row *r)
{
	for (size_t i = 0; i < r->n; i++) {
		free(r->names[i]);
		if (r->cells[i].p) alone_free(r->cells[i]);
	}
}

static void check_one_line(const struct buf *b)
{
	CHECK_THAT(b->n > 0 && b->p[b->n - 1] == '\n', "%zu bytes", b->n);
	CHECK_THAT(!memchr(b->p, '\n', b->n - 1), "%zu bytes", b->n);
}

static void check_json(const struct buf *b)
{
	struct buf stack = {0};

	check_one_line(b);
	CHECK_THAT(!memchr(b->p, '\r', b->n), "a carriage return");
	CHECK_THAT(json_is_valid((struct slice){b->p, b->n}, &stack), "%.*s", (int)b->n, (const char *)b->p);
	buf_finish(&stack);
}

/* One field of COPY text up to a tab or the end; what it stands for, *null: \N. */
static void read_copy_field(struct cur *c, struct buf *out, bool *null)
{
	static const char letters[] = "bfnrtv", values[] = "\b\f\n\r\t\v";

	*null = c->end - c->p >= 2 && c->p[0] == '\\' && c->p[1] == 'N';
	if (*null) c->p += 2;
	while (c->p < c->end && *c->p != '\t' && *c->p != '\n') {
		uint8_t byte = cur_u8(c);
		const char *at;

		if (byte == '\\') {
			byte = cur_u8(c);
			at = byte ? strchr(letters, byte) : NULL;
			if (at) byte = (uint8_t)values[at - letters];
		}
		buf_put_u8(out, byte);
	}
}

/* One field of CSV up to a comma or the end. */
static void read_csv_field(struct cur *c, struct buf *out, bool *null)
{
	bool quoted = c->p < c->end && *c->p == '"';

	*null = !quoted && (c->p == c->end || *c->p == ',' || *c->p == '\r');
	if (!quoted) {
		while (c->p < c->end && *c->p != ',' && *c->p != '\r')
			buf_put_u8(out, cur_u8(c));
		return;
	}
	cur_u8(c);
	for (; !c->bad; buf_put_u8(out, cur_u8(c))) {
		if (c->p == c->end || *c->p != '"') continue;
		cur_u8(c);
		if (c->p == c->end || *c->p != '"') return;
	}
}

typedef void (*field_fn)(struct cur *c, struct buf *out, bool *null);

static void check_fields(const struct row *r, struct slice line, field_fn read_field, uint8_t between,
						 const char *end)
{
	struct cur c = cur_of(line);
	struct buf field = {0};
	bool null;

	for (size_t i = 0; i < r->n; i++) {
		if (i > 0) CHECK_THAT(cur_u8(&c) == between, "before column %zu", i);
		buf_reset(&field);
		read_field(&c, &field, &null);
		CHECK_THAT(null == !r->cells[i].p, "column %zu: NULL %d", i, null);
		CHECK_THAT(same_bytes(&field, r->cells[i]), "column %zu: %zu bytes, %zu went in", i, field.n,
				   r->cells[i].n);
	}
	CHECK_THAT(slice_eq(cur_bytes(&c, strlen(end)), slice_of(end)) && cur_done(&c), "the line's end");
	buf_finish(&field);
}

static void print(const struct row *r, enum format_kind kind, bool with_meta)
{
	struct format_meta meta = {.lsn = LSN(0x12345678), .ordinal = 7, .epoch = 1, .version = 2, .doubt = true};
	struct buf out = {0};
	struct format *format;
	struct err err = {0};
	struct slice line;

	if (!format_create(kind, r->columns, r->n, with_meta, &format, &err)) {
		check_refusal(&err);
		return;
	}
	format_header(format, &out);
	buf_reset(&out);
	format_row(format, r->cells, &meta, &out);
	line = (struct slice){out.p, out.n};
	if (kind == FORMAT_JSON) check_json(&out);
	if (kind == FORMAT_COPY) check_one_line(&out);
	if (kind == FORMAT_COPY) check_fields(r, line, read_copy_field, '\t', "\n");
	if (kind == FORMAT_CSV && !with_meta) check_fields(r, line, read_csv_field, ',', "\r\n");
	format_destroy(format);
	buf_finish(&out);
}

/* A text line has no byte that a terminal could take for a command. */
static void check_text_line(const struct buf *b)
{
	check_one_line(b);
	for (size_t i = 0; i + 1 < b->n; i++)
		CHECK_THAT(b->p[i] >= 0x20 && b->p[i] != 0x7F, "byte %02x", b->p[i]);
}

static void print_log(struct feed *f)
{
	char *texts[3];
	struct log_field fields[] = {KV_S("error", NULL), KV_U("rows", 0),     KV_I("delta", 0),
								 KV_L("at", LSN(0)),  KV_S("table", NULL), KV_END};
	int64_t now_us = (int64_t)(feed_uint(f, 8) >> 8);
	struct buf out = {0};

	for (size_t i = 0; i < 3; i++)
		texts[i] = feed_text(f);
	for (size_t i = 1; i < 4; i++)
		fields[i].v.u = feed_uint(f, 8);
	fields[0].v.s = texts[1];
	fields[4].v.s = texts[2];
	log_line(&out, LOG_JSON, now_us, LOG_WARN, texts[0], fields);
	check_json(&out);
	buf_reset(&out);
	log_line(&out, LOG_TEXT, now_us, LOG_WARN, texts[0], fields);
	check_text_line(&out);
	buf_finish(&out);
	for (size_t i = 0; i < 3; i++)
		free(texts[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = feed_of(data, size);
	uint8_t how = feed_u8(&f);
	struct row r;

	if (how & 1) {
		print_log(&f);
		return 0;
	}
	take_row(&r, &f);
	print(&r, FORMAT_JSON, how & 2);
	print(&r, FORMAT_CSV, how & 2);
	print(&r, FORMAT_COPY, false);
	free_row(&r);
	return 0;
}
