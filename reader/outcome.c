#include "reader/outcome.h"

#include <stdlib.h>
#include <string.h>

#include "reader/json.h"

void outcome_add(struct outcome *o, uint64_t id, const char *table, enum run_state state, bool is_new)
{
	struct outcome_run *runs = realloc(o->runs, (o->nruns + 1) * sizeof *runs);
	char *name = strdup(table);
	if (runs == NULL || name == NULL) abort();
	o->runs = runs;
	runs[o->nruns++] = (struct outcome_run){id, name, run_state_name(state), is_new};
}

void outcome_finish(struct outcome *o)
{
	for (size_t i = 0; i < o->nruns; i++)
		free(o->runs[i].table);
	free(o->runs);
	*o = (struct outcome){.nruns = 0};
}

/* ---- as JSON ---- */

void outcome_put_json(const struct outcome *o, const char *id, struct buf *out)
{
	struct json j = json_to(out);
	json_open(&j, NULL, '{');
	json_add_bool(&j, "ok", true);
	if (id != NULL) json_add_string(&j, "id", id);
	json_open(&j, "runs", '[');
	for (size_t i = 0; i < o->nruns; i++) {
		json_open(&j, NULL, '{');
		json_add_uint(&j, "run", o->runs[i].id);
		json_add_string(&j, "table", o->runs[i].table);
		json_add_string(&j, "state", o->runs[i].state);
		json_add_bool(&j, "new", o->runs[i].is_new);
		json_close(&j, '}');
	}
	json_close(&j, ']');
	json_close(&j, '}');
	buf_put_u8(out, '\n');
}

/* What the asker can do about it. */
static const struct {
	enum err_kind kind;
	const char *word;
} kinds[] = {{ERR_CONFIG, "request"}, {ERR_RETRY, "again"}, {ERR_DISK, "disk"}, {ERR_CORRUPT, "store"}};

#define NKINDS (sizeof kinds / sizeof *kinds)

void outcome_put_error(const struct err *err, struct buf *out)
{
	struct json j = json_to(out);
	const char *word = "failed";
	for (size_t i = 0; i < NKINDS; i++)
		if (kinds[i].kind == err->kind) word = kinds[i].word;
	json_open(&j, NULL, '{');
	json_add_bool(&j, "ok", false);
	json_add_string(&j, "kind", word);
	json_add_string(&j, "error", err->msg);
	json_close(&j, '}');
	buf_put_u8(out, '\n');
}

enum err_kind outcome_kind(const char *word)
{
	for (size_t i = 0; i < NKINDS; i++)
		if (strcmp(kinds[i].word, word) == 0) return kinds[i].kind;
	return ERR_PROTOCOL;
}
