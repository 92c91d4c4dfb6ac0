/*
 * Options from the command line, the environment and an INI file. What is
 * accepted is within its range; a string value, which may be a connection
 * string, is in no error.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "reader/options.h"
#include "tests/fuzz/fuzz.h"

#define SECRET "q7-Geheim-x"

static const struct option_spec specs[] = {
	{.name = "source", .type = OPTION_STRING, .value = "CONNINFO", .required = true, .help = "source"},
	{.name = "store", .type = OPTION_STRING, .value = "DIR", .help = "store"},
	{.name = "rows",
	 .type = OPTION_INT,
	 .value = "N",
	 .initial = "5000",
	 .min = -3,
	 .max = 100000,
	 .help = "rows"},
	{.name = "log-format", .type = OPTION_CHOICE, .value = "text|json", .initial = "text", .help = "log"},
	{.name = "json", .type = OPTION_FLAG, .help = "flag"},
	{.name = "sync", .type = OPTION_FLAG, .initial = "true", .help = "flag that is on"},
	{.name = "config", .type = OPTION_STRING, .value = "FILE", .help = "file"},
	{0},
};

static const struct option_spec others[] = {
	{.name = "verify", .type = OPTION_STRING, .value = "X", .help = "of another command"},
	{0},
};

static const struct option_spec *const known[] = {specs, others, NULL};

#define WORDS_MAX 12

struct place {
	int fd;
	char path[32];
	char *words[WORDS_MAX];
	int argc;
};

/* The file that --config names: in memory, written anew for each input. */
static void place_open(struct place *p)
{
	p->fd = memfd_create("config", MFD_CLOEXEC);
	CHECK_THAT(p->fd >= 0, "no memory file");
	snprintf(p->path, sizeof p->path, "/proc/self/fd/%d", p->fd);
}

static void place_close(struct place *p)
{
	for (int i = 0; i < p->argc; i++)
		free(p->words[i]);
	close(p->fd);
}

static void write_all(int fd, const void *bytes, size_t n)
{
	CHECK_THAT(write(fd, bytes, n) == (ssize_t)n, "memory file");
}

static void add_word(struct place *p, char *word)
{
	p->words[p->argc++] = word;
}

static char *joined(const char *a, const char *b, const char *c)
{
	char *s;

	CHECK_THAT(asprintf(&s, "%s%s%s", a, b, c) >= 0, "no memory");
	return s;
}

/* A source with a secret in it comes from one of the three places. */
static void place_fill(struct place *p, struct feed *f)
{
	uint8_t how = feed_u8(f);
	char *before = feed_text(f), *after = feed_text(f);
	char *source;

	before[strcspn(before, "\r\n")] = after[strcspn(after, "\r\n")] = '\0';
	source = joined(before, SECRET, after);
	unsetenv("TIDEMARK_SOURCE");
	if (how % 4 == 0) add_word(p, joined("--source=", source, ""));
	if (how % 4 == 1) setenv("TIDEMARK_SOURCE", source, 1);
	if (how & 4) add_word(p, joined("--config=", p->path, ""));
	for (int i = how >> 5; i > 0; i--)
		add_word(p, feed_text(f));
	if (how % 4 == 2) {
		write_all(p->fd, "source = ", 9);
		write_all(p->fd, source, strlen(source));
		write_all(p->fd, "\n", 1);
	}
	write_all(p->fd, f->p, feed_left(f));
	free(source);
	free(before);
	free(after);
}

static void check_values(const struct options *o, const struct place *p)
{
	long rows = options_int(o, "rows");
	const char *format = options_string(o, "log-format"), *source = options_string(o, "source");

	CHECK_THAT(options_argc(o) <= p->argc, "%d arguments", options_argc(o));
	if (options_help(o)) return;
	CHECK_THAT(rows >= -3 && rows <= 100000, "%ld", rows);
	CHECK_THAT(strcmp(format, "text") == 0 || strcmp(format, "json") == 0, "%s", format);
	CHECK_THAT(source && options_is_set(o, "source"), "required");
	(void)options_flag(o, "json");
	(void)options_flag(o, "sync");
	for (int i = 0; i < options_argc(o); i++)
		CHECK_THAT(options_arg(o, i), "argument %d", i);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = feed_of(data, size);
	struct place p = {0};
	struct options *o;
	struct err err = {0};

	if (memmem(data, size, SECRET, strlen(SECRET))) return 0;
	place_open(&p);
	place_fill(&p, &f);
	if (options_parse_known(specs, known, p.argc, p.words, &o, &err)) {
		check_values(o, &p);
		options_free(o);
	} else {
		check_refusal(&err);
		CHECK_THAT(!strstr(err.msg, SECRET), "%s", err.msg);
	}
	place_close(&p);
	return 0;
}
