/* reader/cmd_tables.c - `tidemark tables`: what the store holds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "reader/command.h"
#include "reader/json.h"
#include "reader/textgrid.h"
#include "reader/view.h"

static const struct option_spec options[] = {
	OPTION_STORE,
	{.name = "json", .type = OPTION_FLAG, .help = "One JSON object a line."},
	OPTION_CONFIG,
	{0},
};

static void put_json(const tidemark_table_info *t, struct buf *out)
{
	struct json j = json_to(out);
	char lsn[LSN_TEXT_SIZE];

	json_open(&j, NULL, '{');
	json_add_string(&j, "schema", t->schema_name);
	json_add_string(&j, "table", t->table_name);
	json_add_string(&j, "state", tidemark_state_name(t->state));
	json_add_uint(&j, "rows", t->rows);
	json_add_uint(&j, "hidden", t->hidden);
	json_add_uint(&j, "in_doubt", t->doubt);
	json_add_uint(&j, "markers", t->markers);
	json_add_string(&j, "last_change_lsn", t->high_lsn ? lsn_format(LSN(t->high_lsn), lsn) : NULL);
	json_add_uint(&j, "schema_version", t->schema_version);
	json_add_uint(&j, "oid", t->oid);
	json_add_uint(&j, "id", t->id);
	json_close(&j, '}');
	buf_put_u8(out, '\n');
}

static void put_grid_row(const tidemark_table_info *t, struct textgrid *grid)
{
	char lsn[LSN_TEXT_SIZE];

	view_put_name(textgrid_cell(grid), t->schema_name, t->table_name);
	textgrid_put(grid, tidemark_state_name(t->state));
	textgrid_put_uint(grid, t->rows);
	textgrid_put_uint(grid, t->doubt);
	textgrid_put_uint(grid, t->markers);
	textgrid_put(grid, t->high_lsn ? lsn_format(LSN(t->high_lsn), lsn) : "-");
}

static bool put_tables(tidemark *tm, bool json, struct output *out, struct err *err)
{
	static const struct textgrid_column columns[] = {{"TABLE", false},  {"STATE", false},
													 {"ROWS", true},    {"IN DOUBT", true},
													 {"MARKERS", true}, {"LAST CHANGE", false}};
	struct textgrid grid = textgrid_of(columns, sizeof columns / sizeof columns[0]);
	size_t count;
	int rc = tidemark_table_count(tm, &count);

	for (size_t i = 0; rc == 0 && i < count; i++) {
		tidemark_table *t;

		rc = tidemark_table_at(tm, i, &t);
		if (rc == 0 && json)
			put_json(tidemark_table_get_info(t), &out->buf);
		else if (rc == 0)
			put_grid_row(tidemark_table_get_info(t), &grid);
	}
	if (rc == 0 && !json) textgrid_print(&grid, &out->buf);
	textgrid_finish(&grid);
	return rc == 0 ? output_flush(out, err) : err_of_tidemark(err, rc, tm);
}

static bool run(const struct options *o, struct err *err)
{
	struct output out;
	tidemark *tm = NULL;
	bool ok;

	if (options_argc(o) != 0)
		return err_set(err, ERR_CONFIG, "tables takes no arguments, and got %s", options_arg(o, 0));
	output_init(&out, STDOUT_FILENO);
	ok =
		view_open(options_string(o, "store"), &tm, err) && put_tables(tm, options_flag(o, "json"), &out, err);
	output_finish(&out);
	tidemark_close(tm);
	return ok;
}

const struct command command_tables = {
	.name = "tables",
	.arguments = "--store DIR [--json]",
	.summary = "list the tables of a store",
	.detail = "The state is one of\n"
			  "  copying   the first copy is not finished\n"
			  "  in doubt  copied, but the log could not say what some rows are, and the\n"
			  "            source is being asked\n"
			  "  live      exactly as at the source\n"
			  "  left      no longer replicated; the rows are as they were\n"
			  "\n"
			  "ROWS are visible rows, IN DOUBT rows that may be incomplete, MARKERS what\n"
			  "deleted rows leave behind for a while, LAST CHANGE the commit LSN of the newest\n"
			  "change applied to the table.",
	.options = options,
	.run = run,
};
