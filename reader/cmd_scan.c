/* reader/cmd_scan.c - `tidemark scan`: rows in key order. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "reader/command.h"
#include "reader/keyarg.h"
#include "reader/view.h"

static const struct option_spec options[] = {
	OPTION_STORE,
	{.name = "from", .type = OPTION_STRING, .value = "K", .help = "First key wanted."},
	{.name = "to", .type = OPTION_STRING, .value = "K", .help = "Last key wanted."},
	{.name = "limit",
	 .type = OPTION_INT,
	 .value = "N",
	 .min = 0,
	 .max = LONG_MAX,
	 .help = "Stop after N rows."},
	{.name = "format",
	 .type = OPTION_CHOICE,
	 .value = "json|csv|copy",
	 .initial = "json",
	 .help = "How rows are printed."},
	{.name = "with-meta",
	 .type = OPTION_FLAG,
	 .help = "Add the source position that wrote each row. Not with copy."},
	OPTION_CONFIG,
	{0},
};

struct scan {
	tidemark *tm;
	tidemark_table *table;
	struct keyarg from, to;
	long limit; /* -1: none */
	struct printer printer;
	struct output out;
};

static bool parse_bound(struct scan *s, const struct options *o, const char *option, struct keyarg *out,
						struct err *err)
{
	char columns[VIEW_KEY_SIZE];

	if (!options_is_set(o, option)) return true;
	if (keyarg_parse(options_string(o, option), tidemark_key_count(s->table), out, err)) return true;
	return err_wrap(err, "--%s for the key (%s)", option, view_key(s->table, columns));
}

static bool prepare(struct scan *s, const struct options *o, struct err *err)
{
	enum format_kind kind;

	s->limit = options_is_set(o, "limit") ? options_int(o, "limit") : -1;
	return format_parse(options_string(o, "format"), &kind, err) &&
		   view_table(s->tm, options_arg(o, 0), &s->table, err) && parse_bound(s, o, "from", &s->from, err) &&
		   parse_bound(s, o, "to", &s->to, err) &&
		   printer_init(&s->printer, s->table, kind, options_flag(o, "with-meta"), err);
}

/* Up to the end, the limit, or nobody reading any more. */
static bool print_rows(struct scan *s, tidemark_cursor *c, struct err *err)
{
	tidemark_row row;
	int rc = 0;

	for (long n = 0; n != s->limit && !s->out.closed; n++) {
		rc = tidemark_next(c, &row);
		if (rc != 0) break;
		printer_put(&s->printer, &row, &s->out.buf);
		if (!output_step(&s->out, err)) return false;
	}
	if (rc != 0 && rc != TIDEMARK_E_NOTFOUND) {
		struct err unwritten = {0};

		output_flush(&s->out, &unwritten); /* what was read is right; the read error is the one to tell */
		return err_of_tidemark(err, rc, s->tm);
	}
	return output_flush(&s->out, err);
}

static bool scan(struct scan *s, struct err *err)
{
	tidemark_cursor *c;
	int rc = tidemark_scan(s->table, s->from.values, s->from.n, s->to.values, s->to.n, &c);
	bool ok;

	if (rc != 0) return err_of_tidemark(err, rc, s->tm);
	format_header(s->printer.format, &s->out.buf);
	ok = print_rows(s, c, err);
	tidemark_cursor_close(c);
	return ok;
}

static bool run(const struct options *o, struct err *err)
{
	struct scan s = {0};
	bool ok;

	if (options_argc(o) != 1) return err_set(err, ERR_CONFIG, "scan needs one TABLE");
	output_init(&s.out, STDOUT_FILENO);
	ok = view_open(options_string(o, "store"), &s.tm, err) && prepare(&s, o, err) && scan(&s, err);
	printer_finish(&s.printer);
	keyarg_finish(&s.from);
	keyarg_finish(&s.to);
	output_finish(&s.out);
	tidemark_close(s.tm);
	return ok;
}

const struct command command_scan = {
	.name = "scan",
	.arguments = "--store DIR TABLE [--from K] [--to K] [--limit N] [--format json|csv|copy] [--with-meta]",
	.summary = "print rows in key order",
	.detail = "TABLE is schema.table, each part quoted as in SQL when needed; public when the\n"
			  "schema is left out.\n"
			  "\n"
			  "K bounds the key, inclusively. For a key of one column it is the value as\n"
			  "PostgreSQL prints it, nothing quoted. For a key of several columns it is the\n"
			  "values in the order of the key with commas between them, quoted as in CSV:\n"
			  "3,\"a,b\". Trailing columns may be left out: --from 3 --to 3 prints all rows\n"
			  "whose key begins with 3. Numbers, times, uuid, bytea and addresses are in the\n"
			  "source's order, and equal ones are alike: --from 1 finds 1.00. Keys of other\n"
			  "types are in the order of the bytes of their text.\n"
			  "\n"
			  "json prints one object a line: numbers, booleans and json as they are, NaN and\n"
			  "Infinity and all else as strings; a JSON null looks like NULL. csv prints a\n"
			  "header; NULL is empty and the empty string is \"\". copy prints what COPY ... TO\n"
			  "STDOUT prints, byte for byte. COPY ... FROM takes copy, and csv with HEADER.\n"
			  "\n"
			  "A scan shows one state of the store from its first row to its last. The store\n"
			  "cannot reuse the pages of that state meanwhile: a long scan beside busy writers\n"
			  "makes the file grow, and so does a scan whose output nobody takes.",
	.options = options,
	.run = run,
};
