/*
 * Connection strings: a password in them, quoted as it must be or not at all,
 * is neither shown nor left in the arguments of the process.
 */
#include "reader/conninfo.h"
#include "tests/fuzz/fuzz.h"

#define SECRET "q7Geheimx"

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static const char *const variables[] = {"PGHOST",    "PGPORT",        "PGDATABASE", "PGUSER",
											"PGSERVICE", "PGSERVICEFILE", "PGPASSWORD", "PGHOSTADDR"};

	(void)argc;
	(void)argv;
	for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
		unsetenv(variables[i]);
	setenv("HOME", "/nonexistent", 1);
	return 0;
}

static void put(struct buf *out, const char *s)
{
	buf_put(out, s, strlen(s));
}

/* In the single quotes of a key=value string. */
static void put_quoted(struct buf *out, const char *s)
{
	for (; *s; s++) {
		if (*s == '\'' || *s == '\\') buf_put_u8(out, '\\');
		buf_put_u8(out, (uint8_t)*s);
	}
}

static void put_percent(struct buf *out, const char *s)
{
	char hex[4];

	for (; *s; s++) {
		snprintf(hex, sizeof hex, "%%%02X", (uint8_t)*s);
		put(out, hex);
	}
}

/*
 * What people type when they do not know of %XX. A '=' behind a '?' is taken
 * for a parameter, which nobody can tell from one.
 */
static void put_careless(struct buf *out, const char *s)
{
	for (; *s; s++)
		if (*s != '=') buf_put_u8(out, (uint8_t)*s);
}

static char *make_conninfo(struct feed *f)
{
	uint8_t how = feed_u8(f);
	char *before = feed_text(f), *after = feed_text(f), *rest = feed_text(f);
	void (*put_part)(struct buf *, const char *) = how % 3 == 0   ? put_quoted
												   : how % 3 == 1 ? put_percent
																  : put_careless;
	struct buf b = {0};

	put(&b, how % 3 == 0 ? "password='" : how & 4 ? "postgresql://me:" : "postgres://:");
	put_part(&b, before);
	put(&b, SECRET);
	put_part(&b, after);
	put(&b, how % 3 == 0 ? "' " : "@");
	put(&b, how % 3 == 2 ? "db.example:5432/sales" : rest);
	buf_put_u8(&b, 0);
	free(before);
	free(after);
	free(rest);
	return (char *)b.p;
}

static void check_display(const char *conninfo)
{
	struct err err = {0};
	char *shown;

	if (conninfo_display(conninfo, &shown, &err)) {
		CHECK_THAT(!strstr(shown, SECRET), "%s: %s", conninfo, shown);
		free(shown);
	} else {
		check_refusal(&err);
		CHECK_THAT(!shown && !strstr(err.msg, SECRET), "%s: %s", conninfo, err.msg);
	}
}

static void check_arguments(const char *conninfo, bool one_word)
{
	char *joined, *words[4];
	int n = 0;

	CHECK_THAT(asprintf(&joined, "--snapshot-source=%s", conninfo) >= 0, "no memory");
	words[n++] = strdup("run");
	if (!one_word) words[n++] = strdup("--source");
	words[n++] = strdup(one_word ? joined : conninfo);
	conninfo_hide_args(n, words);
	for (int i = 0; i < n; i++) {
		CHECK_THAT(!strstr(words[i], SECRET), "%s: %s", conninfo, words[i]);
		free(words[i]);
	}
	free(joined);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = feed_of(data, size);
	struct err err = {0};
	char *conninfo, *any = text_alone((struct slice){data, size}), *shown;

	if (conninfo_display(any, &shown, &err)) free(shown);
	(void)conninfo_has_secret(any);
	free(any);
	if (memmem(data, size, SECRET, strlen(SECRET))) return 0;
	conninfo = make_conninfo(&f);
	check_display(conninfo);
	check_arguments(conninfo, size % 2);
	free(conninfo);
	return 0;
}
