/* reader/cmd_snapshot.c - `tidemark snapshot`: read rows again, on demand. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "reader/asking.h"
#include "reader/command.h"
#include "reader/keyarg.h"
#include "reader/keyfile.h"
#include "reader/loop.h"
#include "reader/runview.h"
#include "reader/view.h"

static const struct option_spec options[] = {
	OPTION_STORE,
	{.name = "where",
	 .type = OPTION_STRING,
	 .value = "SQL",
	 .help = "start: only rows for which this condition is true at the source."},
	{.name = "from", .type = OPTION_STRING, .value = "K", .help = "start: only keys from this one on."},
	{.name = "to", .type = OPTION_STRING, .value = "K", .help = "start: only keys up to this one."},
	{.name = "keys",
	 .type = OPTION_STRING,
	 .value = "FILE",
	 .help = "start: only these keys, one a line as scan --format copy prints them; - is standard input."},
	{.name = "sweep",
	 .type = OPTION_CHOICE,
	 .value = "on|off|count",
	 .help =
		 "start: delete rows that the source does not have (default on), leave them, or count them only."},
	{.name = "id",
	 .type = OPTION_STRING,
	 .value = "NAME",
	 .help = "start: name of the runs; asked for twice it is one run of each table (default: a new one)."},
	{.name = "chunk-time",
	 .type = OPTION_INT,
	 .value = "MS",
	 .min = 1,
	 .max = REQUEST_CHUNK_MS_MAX,
	 .help = "start: time on the server that a chunk aims at (default: as the daemon has it)."},
	{.name = "max-rows-per-second",
	 .type = OPTION_INT,
	 .value = "N",
	 .min = 1,
	 .max = REQUEST_RATE_MAX,
	 .help = "start: read no more than that."},
	{.name = "json", .type = OPTION_FLAG, .help = "Answer in JSON."},
	OPTION_CONFIG,
	{0},
};

/* ---- the request as JSON ---- */

static void put_texts(const struct options *o, const char *field, struct json *j)
{
	json_open(j, field, '[');
	for (int i = 1; i < options_argc(o); i++)
		json_add_string(j, NULL, options_arg(o, i));
	json_close(j, ']');
}

static bool put_bound(const struct options *o, const char *option, const tidemark_table *t, struct json *j,
					  struct err *err)
{
	struct keyarg key;
	char columns[VIEW_KEY_SIZE];
	if (!options_is_set(o, option)) return true;
	if (!keyarg_parse(options_string(o, option), tidemark_key_count(t), &key, err))
		return err_wrap(err, "--%s for the key (%s)", option, view_key(t, columns));
	json_open(j, option, '[');
	for (size_t i = 0; i < key.n; i++)
		json_add_string(j, NULL, key.values[i]);
	json_close(j, ']');
	keyarg_finish(&key);
	return true;
}

static bool put_keys(const struct options *o, const tidemark_table *t, struct json *j, struct err *err)
{
	struct buf text = {0};
	if (!options_is_set(o, "keys")) return true;
	bool good = keyfile_read(options_string(o, "keys"), &text, err) &&
				keyfile_put_json((struct slice){text.p, text.n}, tidemark_key_count(t), j, err);
	buf_finish(&text);
	return good || err_wrap(err, "--keys");
}

/* How many columns a key has is in the store. */
static bool put_key_scope(const struct options *o, struct json *j, struct err *err)
{
	tidemark *tm = NULL;
	tidemark_table *t;
	if (!options_is_set(o, "from") && !options_is_set(o, "to") && !options_is_set(o, "keys")) return true;
	if (options_argc(o) != 2)
		return err_set(err, ERR_CONFIG,
					   "--from, --to and --keys are about the key of one table, and %d are named",
					   options_argc(o) - 1);
	bool good = view_open(options_string(o, "store"), &tm, err) &&
				view_table(tm, options_arg(o, 1), &t, err) && put_bound(o, "from", t, j, err) &&
				put_bound(o, "to", t, j, err) && put_keys(o, t, j, err);
	tidemark_close(tm);
	return good;
}

static void put_number(const struct options *o, const char *option, const char *field, struct json *j)
{
	if (options_is_set(o, option)) json_add_uint(j, field, (uint64_t)options_int(o, option));
}

static void put_id(const struct options *o, struct json *j)
{
	struct request made = {.json = NULL};
	if (options_is_set(o, "id")) {
		json_add_string(j, "id", options_string(o, "id"));
		return;
	}
	request_make_id(&made, clock_now_us());
	json_add_string(j, "id", made.id);
	request_finish(&made);
}

static bool put_start(const struct options *o, struct json *j, struct err *err)
{
	if (options_argc(o) < 2) return err_set(err, ERR_CONFIG, "snapshot start needs at least one TABLE");
	put_texts(o, "tables", j);
	put_id(o, j);
	if (options_is_set(o, "where")) json_add_string(j, "where", options_string(o, "where"));
	if (options_is_set(o, "sweep")) json_add_string(j, "sweep", options_string(o, "sweep"));
	put_number(o, "chunk-time", "chunk_time_ms", j);
	put_number(o, "max-rows-per-second", "max_rows_per_second", j);
	return put_key_scope(o, j, err);
}

static bool put_change(const struct options *o, struct json *j, struct err *err)
{
	static const char *const of_start[] = {
		"where", "from", "to", "keys", "sweep", "id", "max-rows-per-second"};
	for (size_t i = 0; i < sizeof of_start / sizeof *of_start; i++)
		if (options_is_set(o, of_start[i]))
			return err_set(err, ERR_CONFIG, "--%s is for snapshot start", of_start[i]);
	if (options_argc(o) < 2)
		return err_set(err, ERR_CONFIG, "snapshot %s needs at least one ID or TABLE", options_arg(o, 0));
	put_texts(o, "targets", j);
	return true;
}

static bool put_request(const struct options *o, struct buf *out, struct err *err)
{
	const char *action = options_arg(o, 0);
	struct json j = json_to(out);
	json_open(&j, NULL, '{');
	json_add_string(&j, "command", action);
	bool good = strcmp(action, "start") == 0 ? put_start(o, &j, err) : put_change(o, &j, err);
	json_close(&j, '}');
	return good;
}

/* ---- the answer ---- */

static void print_outcome(const struct outcome *o)
{
	for (size_t i = 0; i < o->nruns; i++) {
		const struct outcome_run *r = &o->runs[i];
		printf("run %llu of %s: %s\n", (unsigned long long)r->id, r->table,
			   r->is_new ? "accepted" : r->state);
	}
}

static bool print_answer(const struct options *o, struct slice answer, struct err *err)
{
	struct outcome outcome;
	if (options_flag(o, "json")) {
		printf("%.*s\n", (int)answer.n, (const char *)answer.p);
		return true;
	}
	if (!asking_read(answer, &outcome, err)) return false;
	print_outcome(&outcome);
	outcome_finish(&outcome);
	return true;
}

static bool ask(const struct options *o, struct err *err)
{
	struct buf line = {0}, answer = {0};
	bool good = put_request(o, &line, err) &&
				asking_make(options_string(o, "store"), (struct slice){line.p, line.n}, &answer, err) &&
				print_answer(o, (struct slice){answer.p, answer.n}, err);
	buf_finish(&line);
	buf_finish(&answer);
	return good;
}

/* ---- list ---- */

static const tidemark_table_info *find_table(tidemark *tm, uint32_t id)
{
	size_t n = 0;
	tidemark_table *t;
	tidemark_table_count(tm, &n);
	for (size_t i = 0; i < n; i++)
		if (tidemark_table_at(tm, i, &t) == 0 && tidemark_table_get_info(t)->id == id)
			return tidemark_table_get_info(t);
	return NULL;
}

static bool put_runs(const struct options *o, tidemark *tm, struct output *out, struct err *err)
{
	size_t n;
	tidemark_run_info r;
	int rc = tidemark_run_count(tm, &n);
	for (size_t i = 0; rc == 0 && i < n; i++) {
		rc = tidemark_run_at(tm, i, &r);
		if (rc != 0) break;
		if (options_flag(o, "json")) {
			struct json j = json_to(&out->buf);
			runview_json(&r, find_table(tm, r.table_id), &j);
			buf_put_u8(&out->buf, '\n');
		} else {
			runview_put(&r, find_table(tm, r.table_id), clock_now_us(), &out->buf);
		}
		if (!output_step(out, err)) return false;
	}
	return rc == 0 ? output_flush(out, err) : err_of_tidemark(err, rc, tm);
}

static bool list(const struct options *o, struct err *err)
{
	struct output out;
	tidemark *tm = NULL;
	if (options_argc(o) > 1) return err_set(err, ERR_CONFIG, "snapshot list takes no argument");
	output_init(&out, STDOUT_FILENO);
	bool good = view_open(options_string(o, "store"), &tm, err) && put_runs(o, tm, &out, err);
	output_finish(&out);
	tidemark_close(tm);
	return good;
}

/* ---- the command ---- */

static bool run(const struct options *o, struct err *err)
{
	static const char *const actions[] = {"start", "pause", "resume", "stop"};
	const char *action = options_argc(o) > 0 ? options_arg(o, 0) : "";
	if (strcmp(action, "list") == 0) return list(o, err);
	for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
		if (strcmp(action, actions[i]) == 0) return ask(o, err);
	return err_set(err, ERR_CONFIG, "snapshot needs one of start, pause, resume, stop and list first%s%.64s",
				   *action != '\0' ? ", and got " : "", action);
}

const struct command command_snapshot = {
	.name = "snapshot",
	.arguments = "start|pause|resume|stop|list --store DIR [TABLE|ID...] [options]",
	.summary = "read rows again from the source, on demand",
	.detail =
		"  snapshot start TABLE...            [--where SQL] [--from K] [--to K] [--keys FILE] ...\n"
		"  snapshot pause|resume|stop ID|TABLE...\n"
		"  snapshot list [--json]\n"
		"\n"
		"Reads rows of a table again, in chunks, while changes stream, and puts right what the store has of "
		"them: rows that differ are written, and rows that the source does not have are deleted (the sweep). "
		"Newer rows are never overwritten.\n"
		"\n"
		"What is asked for is accepted when the command ends with 0: then it is recorded in the store, and "
		"survives whatever happens. A running daemon is asked over control.sock in the store's directory; "
		"otherwise the next one finds it. A condition is checked by the source when it is there, and refused "
		"at "
		"once; otherwise when the daemon connects, and the run fails.\n"
		"\n"
		"Runs of one table go one after the other. A run that is paused stays so until it is resumed. ID is "
		"the "
		"name of a run or its number, as list shows them; a TABLE stands for all its open runs.\n"
		"\n"
		"K is a whole key, as in scan. With --keys, a key that the source does not have is deleted.",
	.options = options,
	.run = run,
};
