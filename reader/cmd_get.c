/* reader/cmd_get.c - `tidemark get`: one row by its key. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "reader/command.h"
#include "reader/view.h"

static const struct option_spec options[] = {
	OPTION_STORE,
	{.name = "format",
	 .type = OPTION_CHOICE,
	 .value = "json|csv|copy",
	 .initial = "json",
	 .help = "How the row is printed."},
	{.name = "with-meta",
	 .type = OPTION_FLAG,
	 .help = "Add the source position that wrote the row. Not with copy."},
	OPTION_CONFIG,
	{0},
};

/* The words behind TABLE. */
static size_t take_key(const struct options *o, const char **key)
{
	int n = options_argc(o) - 1;

	for (int i = 0; i < n; i++)
		key[i] = options_arg(o, i + 1);
	return (size_t)n;
}

static bool check_key_count(const tidemark_table *t, size_t given, struct err *err)
{
	char name[VIEW_NAME_SIZE], columns[VIEW_KEY_SIZE];
	size_t want = tidemark_key_count(t);

	if (given == want) return true;
	return err_set(err, ERR_CONFIG, "the key of %s is %zu column%s (%s) and %zu value%s given",
				   view_name(t, name), want, want == 1 ? "" : "s", view_key(t, columns), given,
				   given == 1 ? " was" : "s were");
}

/* "public.t has no row with key (42, a)" */
static bool no_row(const tidemark_table *t, const char *const *key, size_t nkey, struct err *err)
{
	char name[VIEW_NAME_SIZE];
	struct buf text = {0};

	for (size_t i = 0; i < nkey; i++) {
		buf_put(&text, ", ", i > 0 ? 2 : 0);
		buf_put(&text, key[i], strlen(key[i]));
	}
	buf_put_u8(&text, '\0');
	err_set(err, ERR_RETRY, "%s has no row with key (%.600s)", view_name(t, name), (const char *)text.p);
	buf_finish(&text);
	return false;
}

static bool print_row(tidemark *tm, tidemark_table *t, const char *const *key, size_t nkey,
					  struct printer *printer, struct output *out, struct err *err)
{
	tidemark_row row;
	int rc = tidemark_get(t, key, nkey, &row);

	if (rc == TIDEMARK_E_NOTFOUND) return no_row(t, key, nkey, err);
	if (rc != 0) return err_of_tidemark(err, rc, tm);
	format_header(printer->format, &out->buf);
	printer_put(printer, &row, &out->buf);
	return output_flush(out, err);
}

static bool get(const struct options *o, tidemark *tm, struct err *err)
{
	const char **key = calloc((size_t)options_argc(o), sizeof *key);
	size_t nkey;
	enum format_kind kind;
	struct printer printer = {0};
	struct output out;
	tidemark_table *t;
	bool ok;

	if (!key) return err_set(err, ERR_NOMEM, "out of memory");
	output_init(&out, STDOUT_FILENO);
	nkey = take_key(o, key);
	ok = format_parse(options_string(o, "format"), &kind, err) &&
		 view_table(tm, options_arg(o, 0), &t, err) && check_key_count(t, nkey, err) &&
		 printer_init(&printer, t, kind, options_flag(o, "with-meta"), err) &&
		 print_row(tm, t, key, nkey, &printer, &out, err);
	printer_finish(&printer);
	output_finish(&out);
	free(key);
	return ok;
}

static bool run(const struct options *o, struct err *err)
{
	tidemark *tm = NULL;
	bool ok;

	if (options_argc(o) < 2)
		return err_set(err, ERR_CONFIG, "get needs a TABLE and the value of each key column");
	ok = view_open(options_string(o, "store"), &tm, err) && get(o, tm, err);
	tidemark_close(tm);
	return ok;
}

const struct command command_get = {
	.name = "get",
	.arguments = "--store DIR TABLE KEY...",
	.summary = "print one row",
	.detail = "TABLE is schema.table, each part quoted as in SQL when needed; public when the\n"
			  "schema is left out. KEY is one word for each key column, in the order of the\n"
			  "table's key, as PostgreSQL prints the value. Put -- before a word that begins\n"
			  "with a dash and is not a number.\n"
			  "\n"
			  "Exit code 1 when there is no such row.",
	.options = options,
	.run = run,
};
