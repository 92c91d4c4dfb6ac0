#include "reader/options.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <ini.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "reader/suggest.h"

#define LINE_MAX_BYTES 65536 /* of the file: room for a long list of tables */
#define NAME_SHOWN     64    /* of an unknown name */

struct value {
	char *text; /* NULL: not set and no default */
	long number;
	bool flag;
	bool given;    /* from outside; false: the default */
	unsigned line; /* of the file that set it; 0 = none did */
};

struct options {
	const struct option_spec *specs;
	size_t n;
	struct value *values; /* parallel to specs */
	char **args;
	int argc;
	bool help;
};

static void *must(void *p)
{
	if (p == NULL) abort();
	return p;
}

/* ---- the table ---- */

static size_t count_specs(const struct option_spec *specs)
{
	size_t n = 0;

	while (specs[n].name != NULL)
		n++;
	return n;
}

/* The spec called name[0..n), or NULL. */
static const struct option_spec *find_spec(const struct option_spec *specs, const char *name, size_t n)
{
	for (; specs->name != NULL; specs++)
		if (strlen(specs->name) == n && memcmp(specs->name, name, n) == 0) return specs;
	return NULL;
}

static struct value *value_of(const struct options *o, const struct option_spec *spec)
{
	return &o->values[spec - o->specs];
}

/* Asking for an option that the command does not declare is our own mistake. */
static const struct value *get(const struct options *o, const char *name, enum option_type type)
{
	const struct option_spec *spec = find_spec(o->specs, name, strlen(name));

	assert(spec != NULL);
	assert(spec->type == type || (type == OPTION_STRING && spec->type == OPTION_CHOICE));
	return value_of(o, spec);
}

/* where and prefix: what to put before the sentence and before each name. */
static bool unknown_name(const struct option_spec *specs, const char *where, const char *prefix,
						 const char *name, size_t n, struct err *err)
{
	struct suggest s = suggest_for(name, n);
	int shown = (int)(n < NAME_SHOWN ? n : NAME_SHOWN);

	for (; specs->name != NULL; specs++)
		suggest_offer(&s, specs->name);
	if (s.best == NULL)
		return err_set(err, ERR_CONFIG, "%sunknown option %s%.*s", where, prefix, shown, name);
	return err_set(err, ERR_CONFIG, "%sunknown option %s%.*s; did you mean %s%s?", where, prefix, shown, name,
				   prefix, s.best);
}

/* ---- values ---- */

static bool parse_bool(const char *text, bool *out)
{
	static const struct {
		const char *word;
		bool value;
	} words[] = {{"1", true},  {"true", true},   {"yes", true}, {"on", true},
				 {"0", false}, {"false", false}, {"no", false}, {"off", false}};

	for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
		if (strcasecmp(text, words[i].word) == 0) {
			*out = words[i].value;
			return true;
		}
	}
	return false;
}

static bool is_choice(const char *choices, const char *text)
{
	size_t n = strlen(text);

	for (const char *p = choices; *p != '\0'; p += *p == '|') {
		size_t len = strcspn(p, "|");

		if (len == n && memcmp(p, text, n) == 0) return true;
		p += len;
	}
	return false;
}

static bool parse_int(const struct option_spec *spec, const char *text, long *out, const char *where,
					  struct err *err)
{
	char *end;

	errno = 0;
	*out = strtol(text, &end, 10);
	if (end == text || *end != '\0' || isspace((unsigned char)*text))
		return err_set(err, ERR_CONFIG, "%s: \"%.64s\" is not a whole number", where, text);
	if (errno == ERANGE || *out < spec->min || *out > spec->max)
		return err_set(err, ERR_CONFIG, "%s: %.64s is out of range, which is %ld to %ld", where, text,
					   spec->min, spec->max);
	return true;
}

/* where: how the user named it ("--memory", "TIDEMARK_MEMORY", "FILE:3: memory"). */
static bool set_value(const struct option_spec *spec, struct value *v, const char *text, const char *where,
					  struct err *err)
{
	switch (spec->type) {
	case OPTION_STRING: break;
	case OPTION_INT:
		if (!parse_int(spec, text, &v->number, where, err)) return false;
		break;
	case OPTION_FLAG:
		if (!parse_bool(text, &v->flag))
			return err_set(err, ERR_CONFIG, "%s: \"%.64s\" is neither true nor false (1/0, yes/no, on/off)",
						   where, text);
		break;
	case OPTION_CHOICE:
		if (!is_choice(spec->value, text))
			return err_set(err, ERR_CONFIG, "%s: \"%.64s\" is not one of %s", where, text, spec->value);
		break;
	}
	free(v->text);
	v->text = must(strdup(text));
	return true;
}

static bool give(struct options *o, const struct option_spec *spec, const char *text, const char *where,
				 struct err *err)
{
	struct value *v = value_of(o, spec);

	if (!set_value(spec, v, text, where, err)) return false;
	v->given = true;
	return true;
}

static void set_default(struct options *o, const struct option_spec *spec)
{
	struct value *v = value_of(o, spec);
	struct err err = {0};

	if (!v->given && spec->initial != NULL) {
		bool ok = set_value(spec, v, spec->initial, spec->name, &err);
		assert(ok); /* a default outside its own range */
		(void)ok;
	}
}

/* ---- command line ---- */

struct words {
	int argc, i;
	char *const *argv;
};

static bool take_flag(struct options *o, const struct option_spec *spec, bool on, bool has_value,
					  struct err *err)
{
	char where[128];

	if (has_value)
		return err_set(err, ERR_CONFIG, "--%s takes no value; write --%s or --no-%s", spec->name, spec->name,
					   spec->name);
	snprintf(where, sizeof where, "--%s", spec->name);
	return give(o, spec, on ? "true" : "false", where, err);
}

static bool take_value(struct options *o, const struct option_spec *spec, const char *value, struct words *w,
					   struct err *err)
{
	char where[128];

	snprintf(where, sizeof where, "--%s", spec->name);
	if (value == NULL) {
		if (w->i + 1 == w->argc || strncmp(w->argv[w->i + 1], "--", 2) == 0)
			return err_set(err, ERR_CONFIG, "--%s needs a value: --%s=%s", spec->name, spec->name,
						   spec->value);
		value = w->argv[++w->i];
	}
	return give(o, spec, value, where, err);
}

static bool take_option(struct options *o, struct words *w, struct err *err)
{
	const char *name = w->argv[w->i] + 2;
	size_t n = strcspn(name, "=");
	bool has_value = name[n] == '=';
	const struct option_spec *spec = find_spec(o->specs, name, n);

	if (spec != NULL && spec->type == OPTION_FLAG) return take_flag(o, spec, true, has_value, err);
	if (spec != NULL) return take_value(o, spec, has_value ? name + n + 1 : NULL, w, err);
	if (n > 3 && memcmp(name, "no-", 3) == 0) {
		spec = find_spec(o->specs, name + 3, n - 3);
		if (spec != NULL && spec->type == OPTION_FLAG) return take_flag(o, spec, false, has_value, err);
	}
	return unknown_name(o->specs, "", "--", name, n, err);
}

static bool is_help(const char *word)
{
	return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

/* -5 and -.5 are keys, "-" is a name; nothing here has one-letter options but -h. */
static bool is_argument(const char *word)
{
	return word[0] != '-' || word[1] == '\0' || word[1] == '.' || isdigit((unsigned char)word[1]);
}

static bool take_word(struct options *o, struct words *w, struct err *err)
{
	char *word = w->argv[w->i];

	if (is_argument(word)) {
		o->args[o->argc++] = must(strdup(word));
		return true;
	}
	if (word[1] == '-') return take_option(o, w, err);
	return err_set(err, ERR_CONFIG,
				   "unknown option %.3s; before an argument that starts with a dash write --", word);
}

static bool parse_words(struct options *o, struct words *w, struct err *err)
{
	for (; w->i < w->argc && strcmp(w->argv[w->i], "--") != 0; w->i++) {
		o->help = is_help(w->argv[w->i]);
		if (o->help) return true;
		if (!take_word(o, w, err)) return false;
	}
	for (w->i++; w->i < w->argc; w->i++)
		o->args[o->argc++] = must(strdup(w->argv[w->i]));
	return true;
}

/* ---- environment ---- */

static void variable_of(const char *name, char *out, size_t size)
{
	snprintf(out, size, "TIDEMARK_%s", name);
	for (; *out != '\0'; out++)
		*out = *out == '-' ? '_' : (char)toupper((unsigned char)*out);
}

static bool parse_environment(struct options *o, struct err *err)
{
	char variable[128];

	for (const struct option_spec *spec = o->specs; spec->name != NULL; spec++) {
		const char *text;

		variable_of(spec->name, variable, sizeof variable);
		text = getenv(variable);
		if (value_of(o, spec)->given || text == NULL || *text == '\0') continue;
		if (!give(o, spec, text, variable, err)) return false;
	}
	return true;
}

/* ---- file ---- */

struct file {
	struct options *o;
	const struct option_spec *const *known;
	const char *path;
	FILE *in;
	char *text; /* of the line, as getline() gives it */
	size_t cap;
	unsigned line;
	struct err *err; /* set: stop */
};

static bool fault(struct file *f, const char *what)
{
	return err_set(f->err, ERR_CONFIG, "%s:%u: %s", f->path, f->line, what);
}

/*
 * inih's source of lines. It counts them, hands over each whole or not at all,
 * and drops leading spaces: inih takes an indented line for more of the value before.
 */
static char *next_line(char *out, int size, void *ctx)
{
	struct file *f = ctx;
	ssize_t n = f->err->kind != ERR_NONE ? -1 : getline(&f->text, &f->cap, f->in);
	const char *text = f->text;

	if (n < 0) return NULL;
	f->line++;
	if (memchr(text, 0, (size_t)n) != NULL) {
		fault(f, "the line has a zero byte");
		return NULL;
	}
	text += strspn(text, " \t");
	if (strlen(text) >= (size_t)size) {
		fault(f, "the line is too long");
		return NULL;
	}
	return strcpy(out, text);
}

static bool other_knows(const struct file *f, const char *name)
{
	for (const struct option_spec *const *t = f->known; t != NULL && *t != NULL; t++)
		if (find_spec(*t, name, strlen(name)) != NULL) return true;
	return false;
}

static bool take_key(struct file *f, const struct option_spec *spec, const char *text)
{
	struct value *v = value_of(f->o, spec);
	char *where;
	bool ok;

	if (v->line != 0)
		return err_set(f->err, ERR_CONFIG, "%s:%u: %s was already set in line %u", f->path, f->line,
					   spec->name, v->line);
	v->line = f->line;
	if (v->given) return true;
	if (asprintf(&where, "%s:%u: %s", f->path, f->line, spec->name) < 0) abort();
	ok = give(f->o, spec, text, where, f->err);
	free(where);
	return ok;
}

static const char no_pair[] = "neither name = value nor [tidemark]";

/* inih's handler of one key: nonzero to go on. */
static int take_pair(void *ctx, const char *section, const char *name, const char *text)
{
	struct file *f = ctx;
	const struct option_spec *spec = find_spec(f->o->specs, name, strlen(name));
	char where[PATH_MAX + 32];

	if (f->err->kind != ERR_NONE) return false;
	if (*section != '\0' && strcmp(section, "tidemark") != 0)
		return err_set(f->err, ERR_CONFIG,
					   "%s:%u: unknown section [%s]; options stand in [tidemark] or before any section",
					   f->path, f->line, section);
	if (*name == '\0') return fault(f, no_pair);
	if (strcmp(name, "config") == 0) return fault(f, "a configuration file cannot name another one");
	if (spec != NULL) return take_key(f, spec, text);
	if (other_knows(f, name)) return true;
	snprintf(where, sizeof where, "%s:%u: ", f->path, f->line);
	return unknown_name(f->o->specs, where, "", name, strlen(name), f->err);
}

/* inih's settings are variables of its library. */
static void configure_ini(void)
{
	static char comment[] = ";#";

	ini_use_stack = false;
	ini_initial_alloc = ini_max_line = LINE_MAX_BYTES;
	ini_stop_on_first_error = true;
	ini_inline_comment_prefixes = comment;
}

static bool parse_lines(struct file *f)
{
	int rc;

	configure_ini();
	rc = ini_parse_stream(next_line, f, take_pair, f);
	if (f->err->kind != ERR_NONE) return false;
	if (ferror(f->in))
		return err_set(f->err, ERR_CONFIG, "cannot read the configuration file %s: %s", f->path,
					   strerror(errno));
	if (rc > 0) return err_set(f->err, ERR_CONFIG, "%s:%d: %s", f->path, rc, no_pair);
	return rc == 0 || err_set(f->err, ERR_NOMEM, "out of memory");
}

static bool parse_file(struct options *o, const struct option_spec *const *known, struct err *err)
{
	const struct option_spec *spec = find_spec(o->specs, "config", strlen("config"));
	struct err local = {0};
	struct file f = {.o = o, .known = known, .err = &local};
	bool ok;

	if (spec == NULL || value_of(o, spec)->text == NULL) return true;
	f.path = value_of(o, spec)->text;
	f.in = fopen(f.path, "re");
	if (f.in == NULL)
		return err_set(err, ERR_CONFIG, "cannot open the configuration file %s: %s", f.path, strerror(errno));
	ok = parse_lines(&f);
	fclose(f.in);
	free(f.text);
	if (!ok) *err = local;
	return ok;
}

/* ---- the whole ---- */

static bool check_required(const struct options *o, struct err *err)
{
	char variable[128];

	for (const struct option_spec *spec = o->specs; spec->name != NULL; spec++) {
		if (!spec->required || value_of(o, spec)->text != NULL) continue;
		variable_of(spec->name, variable, sizeof variable);
		return err_set(err, ERR_CONFIG, "--%s %s is required; it can also come from %s", spec->name,
					   spec->value, variable);
	}
	return true;
}

static bool parse_all(struct options *o, const struct option_spec *const *known, struct words *w,
					  struct err *err)
{
	if (!parse_words(o, w, err)) return false;
	if (o->help) return true;
	if (!parse_environment(o, err) || !parse_file(o, known, err)) return false;
	for (const struct option_spec *spec = o->specs; spec->name != NULL; spec++)
		set_default(o, spec);
	return check_required(o, err);
}

bool options_parse_known(const struct option_spec *specs, const struct option_spec *const *known, int argc,
						 char *const *argv, struct options **out, struct err *err)
{
	struct options *o = must(calloc(1, sizeof *o));
	struct words w = {argc, 0, argv};

	*out = NULL;
	o->specs = specs;
	o->n = count_specs(specs);
	o->values = must(calloc(o->n + 1, sizeof *o->values));
	o->args = must(calloc((size_t)argc + 1, sizeof *o->args));
	if (!parse_all(o, known, &w, err)) {
		options_free(o);
		return false;
	}
	*out = o;
	return true;
}

bool options_parse(const struct option_spec *specs, int argc, char *const *argv, struct options **out,
				   struct err *err)
{
	return options_parse_known(specs, NULL, argc, argv, out, err);
}

void options_free(struct options *o)
{
	if (o == NULL) return;
	for (size_t i = 0; i < o->n; i++)
		free(o->values[i].text);
	for (int i = 0; i < o->argc; i++)
		free(o->args[i]);
	free(o->values);
	free(o->args);
	free(o);
}

bool options_help(const struct options *o)
{
	return o->help;
}

const char *options_string(const struct options *o, const char *name)
{
	return get(o, name, OPTION_STRING)->text;
}

long options_int(const struct options *o, const char *name)
{
	return get(o, name, OPTION_INT)->number;
}

bool options_flag(const struct options *o, const char *name)
{
	return get(o, name, OPTION_FLAG)->flag;
}

bool options_is_set(const struct options *o, const char *name)
{
	const struct option_spec *spec = find_spec(o->specs, name, strlen(name));

	assert(spec != NULL);
	return value_of(o, spec)->given;
}

int options_argc(const struct options *o)
{
	return o->argc;
}

const char *options_arg(const struct options *o, int i)
{
	assert(i >= 0 && i < o->argc);
	return o->args[i];
}

/* ---- help ---- */

#define WIDTH    80
#define LEFT_MAX 26 /* a longer option has a line of its own */

/* "--name VALUE"; a flag that is on by default is shown with the word that turns it off. */
static void put_usage(const struct option_spec *spec, char *out, size_t size)
{
	bool flag = spec->type == OPTION_FLAG;
	bool on = false;

	if (flag && spec->initial != NULL) parse_bool(spec->initial, &on);
	snprintf(out, size, "  --%s%s%s%s", on ? "no-" : "", spec->name, flag ? "" : " ",
			 flag ? "" : spec->value);
}

static size_t left_width(const struct option_spec *specs)
{
	size_t width = strlen("  --help");
	char usage[256];

	for (; specs->name != NULL; specs++) {
		size_t n;

		put_usage(specs, usage, sizeof usage);
		n = strlen(usage);
		if (n > width && n <= LEFT_MAX) width = n;
	}
	return width;
}

/* The words of text[0..len) from column `at` on; wrapped lines start at `indent`. Returns the column reached.
 */
static size_t print_span(FILE *out, const char *text, size_t len, size_t indent, size_t at)
{
	const char *end = text + len;

	for (text += strspn(text, " \n"); text < end; text += strspn(text, " \n")) {
		size_t n = strcspn(text, " \n");

		if (at > indent && at + 1 + n > WIDTH) {
			fprintf(out, "\n%*s", (int)indent, "");
			at = indent;
		}
		at += (size_t)fprintf(out, "%s%.*s", at > indent ? " " : "", (int)n, text);
		text += n;
	}
	return at;
}

static size_t print_words(FILE *out, const char *text, size_t indent, size_t at)
{
	return print_span(out, text, strlen(text), indent, at);
}

static void print_option(FILE *out, const char *usage, const char *help, const char *note, size_t width)
{
	size_t indent = width + 2;
	size_t n = (size_t)fprintf(out, "%s", usage);

	if (n > width)
		fprintf(out, "\n%*s", (int)indent, "");
	else
		fprintf(out, "%*s", (int)(indent - n), "");
	print_words(out, note, indent, print_words(out, help, indent, indent));
	fputc('\n', out);
}

static void print_spec(FILE *out, const struct option_spec *spec, size_t width)
{
	char usage[256], note[128] = "";

	put_usage(spec, usage, sizeof usage);
	if (spec->required)
		snprintf(note, sizeof note, "(required)");
	else if (spec->initial != NULL && spec->type != OPTION_FLAG)
		snprintf(note, sizeof note, "(default %s)", spec->initial);
	print_option(out, usage, spec->help, note, width);
}

static void print_places(FILE *out, const char *name, bool has_file)
{
	char variable[128], text[512];

	variable_of(name, variable, sizeof variable);
	if (has_file)
		snprintf(text, sizeof text,
				 "Every option can also come from the environment (--%s: %s) or from the file of --config "
				 "(%s = ...). The command line goes first, then the environment, then the file.",
				 name, variable, name);
	else
		snprintf(text, sizeof text,
				 "Every option can also come from the environment (--%s: %s); the command line goes first.",
				 name, variable);
	fputc('\n', out);
	print_words(out, text, 0, 0);
	fputc('\n', out);
}

void options_print_text(const char *text, FILE *out)
{
	for (text += strspn(text, "\n"); *text != '\0';) {
		const char *gap = strstr(text, "\n\n");
		size_t n = gap != NULL ? (size_t)(gap - text) : strlen(text);

		if (*text == ' ')
			fprintf(out, "%.*s", (int)(n - (text[n - 1] == '\n')), text);
		else
			print_span(out, text, n, 0, 0);
		fputc('\n', out);
		text += n;
		text += strspn(text, "\n");
		if (*text != '\0') fputc('\n', out);
	}
}

void options_print_help(const struct option_spec *specs, FILE *out)
{
	size_t width = left_width(specs);

	fputs("Options:\n", out);
	for (const struct option_spec *spec = specs; spec->name != NULL; spec++)
		print_spec(out, spec, width);
	print_option(out, "  --help", "show this text", "", width);
	if (specs->name != NULL)
		print_places(out, specs->name, find_spec(specs, "config", strlen("config")) != NULL);
}
