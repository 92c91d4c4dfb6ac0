/*
 * Table names and patterns as people write them, and keys in one word. A name
 * written out again is the same name; as a pattern it matches itself.
 */
#include "reader/keyarg.h"
#include "reader/names.h"
#include "tests/fuzz/fuzz.h"

static char *written(const char *schema_name, const char *table_name)
{
	struct buf b = {0};

	names_put(&b, schema_name, table_name);
	buf_put_u8(&b, 0);
	return (char *)b.p;
}

static void check_matches_itself(const char *text, const struct table_name *name)
{
	struct name_patterns *p;
	struct err err = {0};

	CHECK_THAT(names_parse_patterns(text, &p, &err), "%s: %s", text, err.msg);
	CHECK_THAT(names_pattern_count(p) == 1, "%s: %zu patterns", text, names_pattern_count(p));
	CHECK_THAT(names_match(p, name->schema_name, name->table_name), "%s", text);
	names_free_patterns(p);
}

static void name(const char *text)
{
	struct table_name first, again;
	struct err err = {0};
	char *out;

	if (!names_parse(text, &first, &err)) {
		check_refusal(&err);
		names_finish(&first);
		return;
	}
	out = written(first.schema_name, first.table_name);
	CHECK_THAT(names_parse(out, &again, &err), "%s: %s: %s", text, out, err.msg);
	CHECK_THAT(strcmp(first.schema_name, again.schema_name) == 0, "%s: %s", text, out);
	CHECK_THAT(strcmp(first.table_name, again.table_name) == 0, "%s: %s", text, out);
	check_matches_itself(out, &first);
	free(out);
	names_finish(&first);
	names_finish(&again);
}

/* Each pattern of a list, taken by itself, matches what it matches there. */
static void check_alone(const struct name_patterns *p, size_t i, const char *schema_name,
						const char *table_name)
{
	struct name_patterns *one;
	struct err err = {0};

	CHECK_THAT(names_parse_patterns(names_pattern_text(p, i), &one, &err), "%s", err.msg);
	CHECK_THAT(names_pattern_count(one) == 1, "%s", names_pattern_text(p, i));
	CHECK_THAT(names_match(one, schema_name, table_name) == names_match_one(p, i, schema_name, table_name),
			   "%s", names_pattern_text(p, i));
	names_free_patterns(one);
}

static void patterns(const char *text, const char *schema_name, const char *table_name)
{
	struct name_patterns *p;
	struct err err = {0};
	bool any = false;

	if (!names_parse_patterns(text, &p, &err)) {
		check_refusal(&err);
		CHECK_THAT(!p, "patterns of a refused text");
		return;
	}
	for (size_t i = 0; i < names_pattern_count(p); i++) {
		any |= names_match_one(p, i, schema_name, table_name);
		check_alone(p, i, schema_name, table_name);
	}
	CHECK_THAT(names_match(p, schema_name, table_name) == any, "%s", text);
	names_free_patterns(p);
}

static void key(const char *word, size_t ncolumns)
{
	struct keyarg k;
	struct err err = {0};

	if (keyarg_parse(word, ncolumns, &k, &err)) {
		CHECK_THAT(k.n <= ncolumns, "%zu values", k.n);
		for (size_t i = 0; i < k.n; i++)
			CHECK_THAT(strlen(k.values[i]) <= strlen(word), "value %zu", i);
		CHECK_THAT(ncolumns != 1 || strcmp(k.values[0], word) == 0, "a lone key is the word");
	} else {
		check_refusal(&err);
		CHECK_THAT(!k.values && !k.memory, "not zeroed");
	}
	keyarg_finish(&k);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = feed_of(data, size);
	size_t ncolumns = 1 + feed_below(&f, 4);
	char *texts[3];

	for (size_t i = 0; i < 3; i++)
		texts[i] = feed_text(&f);
	name(texts[0]);
	patterns(texts[0], texts[1], texts[2]);
	key(texts[0], ncolumns);
	for (size_t i = 0; i < 3; i++)
		free(texts[i]);
	return 0;
}
