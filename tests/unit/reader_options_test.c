#include "reader/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const struct option_spec specs[] = {
	{.name = "store", .value = "DIR", .required = true, .help = "directory of the store"},
	{.name = "source", .value = "CONNINFO", .help = "connection string of the database"},
	{.name = "chunk-rows",
	 .type = OPTION_INT,
	 .value = "MAX",
	 .initial = "5000",
	 .min = 1,
	 .max = 100000,
	 .help =
		 "most rows in one chunk; chunks adapt to the time that they take and are often smaller than this"},
	{.name = "offset", .type = OPTION_INT, .value = "N", .min = -10, .max = 10, .help = "an offset"},
	{.name = "json", .type = OPTION_FLAG, .help = "print JSON"},
	{.name = "sweep", .type = OPTION_FLAG, .initial = "yes", .help = "do not look for rows that are gone"},
	{.name = "on-schema-change",
	 .type = OPTION_CHOICE,
	 .value = "backfill|continue|stop",
	 .initial = "backfill",
	 .help = "what to do when a table changes"},
	{.name = "config", .value = "FILE", .help = "read options from FILE"},
	{0},
};

static const struct option_spec other[] = {
	{.name = "listen", .value = "ADDR:PORT", .help = "serve metrics"},
	{0},
};

static const struct option_spec *const known[] = {specs, other, NULL};

#define WORDS_MAX 12

static bool parse(char *const *words, struct options **o, struct err *err)
{
	int argc = 0;

	while (words[argc] != NULL)
		argc++;
	*err = (struct err){0};
	return options_parse_known(specs, known, argc, words, o, err);
}

#define WORDS(...) ((char *const[]){__VA_ARGS__, NULL})

static struct options *parsed(char *const *words)
{
	struct options *o;
	struct err err;

	if (!parse(words, &o, &err)) fail_msg("%s", err.msg);
	return o;
}

static void assert_refused(char *const *words, const char *message)
{
	struct options *o;
	struct err err;

	assert_false(parse(words, &o, &err));
	assert_null(o);
	assert_string_equal(err.msg, message);
	assert_int_equal(err.kind, ERR_CONFIG);
}

static int clear_environment(void **state)
{
	(void)state;
	unsetenv("TIDEMARK_STORE");
	unsetenv("TIDEMARK_CHUNK_ROWS");
	unsetenv("TIDEMARK_JSON");
	unsetenv("TIDEMARK_SWEEP");
	unsetenv("TIDEMARK_LISTEN");
	unsetenv("TIDEMARK_CONFIG");
	return 0;
}

/* ---- command line ---- */

static void defaults_hold(void **state)
{
	struct options *o = parsed(WORDS("--store", "d"));

	(void)state;
	assert_string_equal(options_string(o, "store"), "d");
	assert_true(options_is_set(o, "store"));
	assert_null(options_string(o, "source"));
	assert_int_equal(options_int(o, "chunk-rows"), 5000);
	assert_false(options_is_set(o, "chunk-rows"));
	assert_int_equal(options_int(o, "offset"), 0);
	assert_false(options_flag(o, "json"));
	assert_true(options_flag(o, "sweep"));
	assert_string_equal(options_string(o, "on-schema-change"), "backfill");
	assert_int_equal(options_argc(o), 0);
	assert_false(options_help(o));
	options_free(o);
	options_free(NULL);
}

static void both_forms_work_and_the_last_wins(void **state)
{
	struct options *o = parsed(WORDS("--store=a=b", "--chunk-rows", "7", "--json", "--chunk-rows=8",
									 "--no-sweep", "--offset", "-3", "--on-schema-change=stop", "--source="));

	(void)state;
	assert_string_equal(options_string(o, "store"), "a=b");
	assert_int_equal(options_int(o, "chunk-rows"), 8);
	assert_int_equal(options_int(o, "offset"), -3);
	assert_true(options_flag(o, "json"));
	assert_false(options_flag(o, "sweep"));
	assert_true(options_is_set(o, "sweep"));
	assert_string_equal(options_string(o, "on-schema-change"), "stop");
	assert_string_equal(options_string(o, "source"), "");
	options_free(o);
}

static void other_words_are_arguments(void **state)
{
	struct options *o =
		parsed(WORDS("public.t", "--store", "d", "-5", "-", "-.5", "--", "--json", "-x", "--"));
	static const char *const wanted[] = {"public.t", "-5", "-", "-.5", "--json", "-x", "--"};

	(void)state;
	assert_int_equal(options_argc(o), 7);
	for (int i = 0; i < 7; i++)
		assert_string_equal(options_arg(o, i), wanted[i]);
	assert_false(options_flag(o, "json"));
	options_free(o);
}

static void help_needs_nothing_else(void **state)
{
	static char *const cases[][3] = {{"--help"}, {"-h"}, {"t", "--help", "--nonsense"}};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct options *o;
		struct err err = {0};
		int argc = i == 2 ? 3 : 1;

		assert_true(options_parse(specs, argc, cases[i], &o, &err));
		assert_true(options_help(o));
		options_free(o);
	}
}

static void mistakes_are_named(void **state)
{
	static const struct {
		char *words[WORDS_MAX];
		const char *message;
	} cases[] = {
		{{NULL}, "--store DIR is required; it can also come from TIDEMARK_STORE"},
		{{"--stroe", "d"}, "unknown option --stroe; did you mean --store?"},
		{{"--soruce=host=h password=hunter2"}, "unknown option --soruce; did you mean --source?"},
		{{"--zzzzzzzz"}, "unknown option --zzzzzzzz"},
		{{"--no-store"}, "unknown option --no-store"},
		{{"--listen=x"}, "unknown option --listen"},
		{{"-x"}, "unknown option -x; before an argument that starts with a dash write --"},
		{{"--store"}, "--store needs a value: --store=DIR"},
		{{"--store", "--json"}, "--store needs a value: --store=DIR"},
		{{"--json=true"}, "--json takes no value; write --json or --no-json"},
		{{"--no-json=1"}, "--json takes no value; write --json or --no-json"},
		{{"--chunk-rows=x"}, "--chunk-rows: \"x\" is not a whole number"},
		{{"--chunk-rows="}, "--chunk-rows: \"\" is not a whole number"},
		{{"--chunk-rows= 1"}, "--chunk-rows: \" 1\" is not a whole number"},
		{{"--chunk-rows=1.5"}, "--chunk-rows: \"1.5\" is not a whole number"},
		{{"--chunk-rows=0"}, "--chunk-rows: 0 is out of range, which is 1 to 100000"},
		{{"--chunk-rows", "100001"}, "--chunk-rows: 100001 is out of range, which is 1 to 100000"},
		{{"--chunk-rows=99999999999999999999"},
		 "--chunk-rows: 99999999999999999999 is out of range, which is 1 to 100000"},
		{{"--on-schema-change=panic"}, "--on-schema-change: \"panic\" is not one of backfill|continue|stop"},
		{{"--on-schema-change="}, "--on-schema-change: \"\" is not one of backfill|continue|stop"},
		{{"--on-schema-change=back"}, "--on-schema-change: \"back\" is not one of backfill|continue|stop"},
		{{"--config=/nonexistent/x.ini", "--store=d"},
		 "cannot open the configuration file /nonexistent/x.ini: No such file or directory"},
		{{"--config=/", "--store=d"}, "cannot read the configuration file /: Is a directory"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		assert_refused(cases[i].words, cases[i].message);
}

/* ---- environment ---- */

static void variables_come_after_the_command_line(void **state)
{
	struct options *o;

	(void)state;
	setenv("TIDEMARK_STORE", "env", 1);
	setenv("TIDEMARK_CHUNK_ROWS", "6", 1);
	setenv("TIDEMARK_JSON", "", 1);
	setenv("TIDEMARK_SWEEP", "Off", 1);
	setenv("TIDEMARK_LISTEN", "not ours", 1);
	o = parsed(WORDS("--chunk-rows=7"));
	assert_string_equal(options_string(o, "store"), "env");
	assert_int_equal(options_int(o, "chunk-rows"), 7);
	assert_false(options_is_set(o, "json"));
	assert_false(options_flag(o, "sweep"));
	options_free(o);

	setenv("TIDEMARK_STORE", "", 1);
	assert_refused(WORDS("--json"), "--store DIR is required; it can also come from TIDEMARK_STORE");
	setenv("TIDEMARK_SWEEP", "perhaps", 1);
	assert_refused(WORDS("--store=d"),
				   "TIDEMARK_SWEEP: \"perhaps\" is neither true nor false (1/0, yes/no, on/off)");
	unsetenv("TIDEMARK_SWEEP");
	setenv("TIDEMARK_CHUNK_ROWS", "-1", 1);
	assert_refused(WORDS("--store=d"), "TIDEMARK_CHUNK_ROWS: -1 is out of range, which is 1 to 100000");
}

static void flags_have_four_pairs_of_words(void **state)
{
	static const struct {
		const char *text;
		bool value;
	} cases[] = {{"1", true},  {"TRUE", true},   {"yes", true}, {"On", true},
				 {"0", false}, {"false", false}, {"NO", false}, {"off", false}};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct options *o;

		setenv("TIDEMARK_JSON", cases[i].text, 1);
		o = parsed(WORDS("--store=d"));
		assert_int_equal(options_flag(o, "json"), cases[i].value);
		options_free(o);
	}
}

/* ---- file ---- */

struct ini {
	char path[32];
};

static void ini_write(struct ini *f, const char *text, size_t n)
{
	int fd;

	strcpy(f->path, "/tmp/tidemark_ini_XXXXXX");
	fd = mkstemp(f->path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, n), n);
	close(fd);
}

static void the_file_comes_last(void **state)
{
	static const char text[] = "# a comment\n"
							   "store = from file\n"
							   "\n"
							   "[tidemark]\r\n"
							   "  chunk-rows = 6   ; a comment\r\n"
							   "\ton-schema-change: stop # another\n"
							   "json = yes\n"
							   "listen = someone else's\n"
							   "source = host=h password='a;b\\;c#d'\n"
							   "offset=-1";
	struct options *o;
	struct ini f;

	(void)state;
	ini_write(&f, text, sizeof text - 1);
	setenv("TIDEMARK_CONFIG", f.path, 1);
	setenv("TIDEMARK_CHUNK_ROWS", "7", 1);
	o = parsed(WORDS("--no-json"));
	assert_string_equal(options_string(o, "store"), "from file");
	assert_true(options_is_set(o, "store"));
	assert_int_equal(options_int(o, "chunk-rows"), 7);
	assert_string_equal(options_string(o, "on-schema-change"), "stop");
	assert_false(options_flag(o, "json"));
	assert_string_equal(options_string(o, "source"), "host=h password='a;b\\;c#d'");
	assert_int_equal(options_int(o, "offset"), -1);
	options_free(o);

	unsetenv("TIDEMARK_CONFIG");
	unsetenv("TIDEMARK_CHUNK_ROWS");
	o = parsed(WORDS("--config", f.path));
	assert_int_equal(options_int(o, "chunk-rows"), 6);
	assert_true(options_flag(o, "json"));
	options_free(o);
	unlink(f.path);
}

static void long_lines_are_whole(void **state)
{
	size_t n = 60000;
	char *text = malloc(n + 16);
	struct options *o;
	struct ini f;

	(void)state;
	memcpy(text, "store = ", 8);
	memset(text + 8, 's', n);
	text[8 + n] = '\n';
	ini_write(&f, text, n + 9);
	o = parsed(WORDS("--config", f.path));
	assert_int_equal(strlen(options_string(o, "store")), n);
	options_free(o);
	unlink(f.path);
	free(text);
}

static void mistakes_in_the_file_are_named(void **state)
{
	static const struct {
		const char *text, *message;
	} cases[] = {
		{"store = d\nstroe = e\n", "2: unknown option stroe; did you mean store?"},
		{"\n\nzzzzzzzzz = hunter2\n", "3: unknown option zzzzzzzzz"},
		{"[other]\n; nothing\nstore = d\n",
		 "3: unknown section [other]; options stand in [tidemark] or before any section"},
		{"[tidemark]\nstore = d\n[tidemark]\nstore = e\n", "4: store was already set in line 2"},
		{"store\n", "1: neither name = value nor [tidemark]"},
		{"store = d\n[tidemark\n", "2: neither name = value nor [tidemark]"},
		{"= 5\n", "1: neither name = value nor [tidemark]"},
		{"config = x\n", "1: a configuration file cannot name another one"},
		{"\xef\xbb\xbf# byte order mark\n  chunk-rows = many\n",
		 "2: chunk-rows: \"many\" is not a whole number"},
		{"chunk-rows =\n", "1: chunk-rows: \"\" is not a whole number"},
		{"json = maybe\n", "1: json: \"maybe\" is neither true nor false (1/0, yes/no, on/off)"},
		{"on-schema-change = x\n", "1: on-schema-change: \"x\" is not one of backfill|continue|stop"},
		{"no-json = 1\n", "1: unknown option no-json"},
		{"source = host=h\n  password=hunter2\n", "2: unknown option password"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char message[512];
		struct ini f;

		ini_write(&f, cases[i].text, strlen(cases[i].text));
		snprintf(message, sizeof message, "%s:%s", f.path, cases[i].message);
		assert_refused(WORDS("--config", f.path), message);
		unlink(f.path);
	}
}

static void odd_lines_are_refused(void **state)
{
	char *text = malloc(70000), message[512];
	struct ini f;

	(void)state;
	ini_write(&f, "store = d\nsource = a\0b\n", 23);
	snprintf(message, sizeof message, "%s:2: the line has a zero byte", f.path);
	assert_refused(WORDS("--config", f.path), message);
	unlink(f.path);

	memset(text, 's', 70000);
	memcpy(text, "\nstore = ", 9);
	ini_write(&f, text, 70000);
	snprintf(message, sizeof message, "%s:2: the line is too long", f.path);
	assert_refused(WORDS("--config", f.path), message);
	unlink(f.path);
	free(text);
}

/* Without the list of other commands, their keys are unknown. */
static void one_table_alone_knows_only_itself(void **state)
{
	struct options *o;
	struct err err = {0};
	struct ini f;

	(void)state;
	ini_write(&f, "listen = x\n", 11);
	assert_false(options_parse(specs, 2, WORDS("--config", f.path), &o, &err));
	assert_non_null(strstr(err.msg, ":1: unknown option listen"));
	unlink(f.path);
}

/* ---- help ---- */

static char *help_of(const struct option_spec *table)
{
	char *text;
	size_t n;
	FILE *out = open_memstream(&text, &n);

	options_print_help(table, out);
	fclose(out);
	return text;
}

static void help_is_aligned(void **state)
{
	char *text = help_of(specs);

	(void)state;
	assert_string_equal(text,
						"Options:\n"
						"  --store DIR        directory of the store (required)\n"
						"  --source CONNINFO  connection string of the database\n"
						"  --chunk-rows MAX   most rows in one chunk; chunks adapt to the time that they\n"
						"                     take and are often smaller than this (default 5000)\n"
						"  --offset N         an offset\n"
						"  --json             print JSON\n"
						"  --no-sweep         do not look for rows that are gone\n"
						"  --on-schema-change backfill|continue|stop\n"
						"                     what to do when a table changes (default backfill)\n"
						"  --config FILE      read options from FILE\n"
						"  --help             show this text\n"
						"\n"
						"Every option can also come from the environment (--store: TIDEMARK_STORE) or\n"
						"from the file of --config (store = ...). The command line goes first, then the\n"
						"environment, then the file.\n");
	free(text);
	text = help_of(other);
	assert_string_equal(text,
						"Options:\n"
						"  --listen ADDR:PORT  serve metrics\n"
						"  --help              show this text\n"
						"\n"
						"Every option can also come from the environment (--listen: TIDEMARK_LISTEN); the\n"
						"command line goes first.\n");
	free(text);
}

static void text_is_wrapped_by_paragraph(void **state)
{
	static const struct {
		const char *text, *printed;
	} cases[] = {
		{"", ""},
		{"one", "one\n"},
		{"one\ntwo\n", "one two\n"},
		{"one\n\ntwo\n\n", "one\n\ntwo\n"},
		{"as\nwords\n\n    tidemark   run\n  x\n\nend", "as words\n\n    tidemark   run\n  x\n\nend\n"},
		{"  kept\n", "  kept\n"},
		{"a word of ten, a word of ten, a word of ten, a word of ten, a word of ten, a w 80 more",
		 "a word of ten, a word of ten, a word of ten, a word of ten, a word of ten, a w\n80 more\n"},
		{"a word of ten, a word of ten, a word of ten, a word of ten, a word of ten, a 80 more",
		 "a word of ten, a word of ten, a word of ten, a word of ten, a word of ten, a 80\nmore\n"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char *text;
		size_t n;
		FILE *out = open_memstream(&text, &n);

		options_print_text(cases[i].text, out);
		fclose(out);
		assert_string_equal(text, cases[i].printed);
		free(text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(defaults_hold, clear_environment),
		cmocka_unit_test_setup(both_forms_work_and_the_last_wins, clear_environment),
		cmocka_unit_test_setup(other_words_are_arguments, clear_environment),
		cmocka_unit_test_setup(help_needs_nothing_else, clear_environment),
		cmocka_unit_test_setup(mistakes_are_named, clear_environment),
		cmocka_unit_test_setup(variables_come_after_the_command_line, clear_environment),
		cmocka_unit_test_setup(flags_have_four_pairs_of_words, clear_environment),
		cmocka_unit_test_setup(the_file_comes_last, clear_environment),
		cmocka_unit_test_setup(long_lines_are_whole, clear_environment),
		cmocka_unit_test_setup(mistakes_in_the_file_are_named, clear_environment),
		cmocka_unit_test_setup(odd_lines_are_refused, clear_environment),
		cmocka_unit_test_setup(one_table_alone_knows_only_itself, clear_environment),
		cmocka_unit_test_setup(help_is_aligned, clear_environment),
		cmocka_unit_test(text_is_wrapped_by_paragraph),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
