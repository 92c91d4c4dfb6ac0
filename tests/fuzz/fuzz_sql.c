/*
 * Names and values that become part of SQL: read back as PostgreSQL reads
 * them they are what went in, and nothing is left behind the quote.
 */
#include "reader/pgconn.h"
#include "snapshot/chunk_sql.h"
#include "tests/fuzz/fuzz.h"

/* A quoted word at the start of text, its quotes doubled inside. What follows it, or NULL. */
static const char *read_quoted(const char *text, char quote, bool escapes, struct buf *out)
{
	if (*text++ != quote) return NULL;
	for (; *text; text++) {
		if (*text == quote && *++text != quote) return text;
		if (escapes && *text == '\\') text++;
		if (*text == '\0') return NULL;
		buf_put_u8(out, (uint8_t)*text);
	}
	return NULL;
}

static void check_quoted(const char *sql, char quote, bool escapes, const char *wanted)
{
	struct buf b = {0};
	const char *end = read_quoted(sql, quote, escapes, &b);

	CHECK_THAT(end && *end == '\0', "%s", sql);
	CHECK_THAT(same_bytes(&b, slice_of(wanted)), "%s", sql);
	buf_finish(&b);
}

static void check_identifiers(const char *name)
{
	struct buf b = {0};
	char *sql = quote_identifier(name);

	check_quoted(sql, '"', false, name);
	free(sql);
	chunk_sql_identifier(&b, name);
	buf_put_u8(&b, 0);
	check_quoted((const char *)b.p, '"', false, name);
	buf_finish(&b);
}

/* standard_conforming_strings is on: a backslash means something only in E''. */
static void check_literals(const char *text)
{
	char *sql = quote_literal(text);
	bool escapes = *sql == 'E';

	check_quoted(sql + escapes, '\'', escapes, text);
	free(sql);
	sql = quote_replication_literal(text);
	check_quoted(sql, '\'', false, text);
	free(sql);
}

/* {"a","b"}, every element quoted, with backslashes before quotes and backslashes. */
static void check_array(const char *sql, const struct slice *texts, size_t n)
{
	struct buf b = {0};

	CHECK_THAT(*sql++ == '{', "no brace");
	for (size_t i = 0; i < n; i++) {
		if (i > 0) CHECK_THAT(*sql++ == ',', "before element %zu", i);
		buf_reset(&b);
		sql = read_quoted(sql, '"', true, &b);
		CHECK_THAT(sql && same_bytes(&b, texts[i]), "element %zu", i);
	}
	CHECK_THAT(strcmp(sql, "}") == 0, "%s", sql);
	buf_finish(&b);
}

#define TEXTS_MAX 5

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = feed_of(data, size);
	char *texts[TEXTS_MAX];
	struct slice slices[TEXTS_MAX];
	struct arena arena;
	size_t n = feed_below(&f, TEXTS_MAX + 1);

	arena_init(&arena);
	for (size_t i = 0; i < n; i++) {
		texts[i] = feed_text(&f);
		slices[i] = slice_of(texts[i]);
		check_identifiers(texts[i]);
		check_literals(texts[i]);
	}
	check_array(chunk_sql_array(&arena, slices, n), slices, n);
	for (size_t i = 0; i < n; i++)
		free(texts[i]);
	arena_finish(&arena);
	return 0;
}
