#include "reader/signal.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "reader/names.h"

/* A signal in Debezium's form, taken apart. */
struct envelope {
	const char *id, *type;
	json_t *data; /* owned; an object, or NULL */
};

/* ---- names ---- */

/* Debezium's names are not folded: schema.table, or database.schema.table. One with quotes is as in SQL. */
static char *table_name(const char *text)
{
	const char *dot = strchr(text, '.'), *second = dot != NULL ? strchr(dot + 1, '.') : NULL;
	struct buf out = {0};
	if (strchr(text, '"') != NULL) return strdup(text);
	if (second != NULL) {
		text = dot + 1;
		dot = second;
	}
	buf_put_u8(&out, '"');
	if (dot != NULL) {
		buf_put(&out, text, (size_t)(dot - text));
		buf_put(&out, "\".\"", 3);
		text = dot + 1;
	}
	buf_put(&out, text, strlen(text));
	buf_put(&out, "\"", 2);
	return (char *)out.p;
}

static const char *keep_name(struct request *r, const char *text)
{
	char *name = table_name(text);
	const char *kept = arena_strdup(&r->arena, name);
	free(name);
	return kept;
}

static json_t *collections(const struct envelope *e)
{
	return json_object_get(e->data, "data-collections");
}

static bool check_collections(const struct envelope *e, struct err *err)
{
	size_t i;
	json_t *name, *list = collections(e);
	if (list == NULL) return true;
	if (!json_is_array(list))
		return err_set(err, ERR_CONFIG, "\"data-collections\" has to be a list of tables");
	json_array_foreach(list, i, name) if (!json_is_string(name)) return err_set(
		err, ERR_CONFIG, "\"data-collections\" has to be a list of strings");
	return true;
}

/* ---- execute-snapshot ---- */

static bool take_condition(struct request *r, const char *table, const char *filter, struct err *err)
{
	const char *name = keep_name(r, table);
	for (size_t i = 0; i < r->ntables; i++) {
		if (strcmp(r->tables[i].name, name) != 0) continue;
		if (r->tables[i].where[0] != '\0')
			return err_set(err, ERR_CONFIG, "there are two conditions for %.200s", table);
		r->tables[i].where = filter;
		return true;
	}
	return err_set(err, ERR_CONFIG, "there is a condition for %.200s, which is not in \"data-collections\"",
				   table);
}

static bool take_conditions(struct request *r, const struct envelope *e, struct err *err)
{
	json_t *list = json_object_get(e->data, "additional-conditions"), *item;
	size_t i;
	if (list != NULL && !json_is_array(list))
		return err_set(err, ERR_CONFIG, "\"additional-conditions\" has to be a list");
	json_array_foreach(list, i, item)
	{
		const char *table = json_string_value(json_object_get(item, "data-collection")),
				   *filter = json_string_value(json_object_get(item, "filter"));
		if (table == NULL || filter == NULL)
			return err_set(
				err, ERR_CONFIG,
				"an additional condition has a \"data-collection\" and a \"filter\", both strings");
		if (!take_condition(r, table, filter, err)) return false;
	}
	return true;
}

/* The older form: one condition for all. */
static bool take_old_condition(struct request *r, const struct envelope *e, struct err *err)
{
	json_t *text = json_object_get(e->data, "additional-condition");
	if (text == NULL) return true;
	if (!json_is_string(text)) return err_set(err, ERR_CONFIG, "\"additional-condition\" has to be a string");
	for (size_t i = 0; i < r->ntables; i++)
		if (r->tables[i].where[0] == '\0') r->tables[i].where = json_string_value(text);
	return true;
}

static bool take_kind(const struct envelope *e, char **remark, struct err *err)
{
	json_t *kind = json_object_get(e->data, "type");
	const char *word = json_string_value(kind);
	if (kind == NULL || (word != NULL && strcasecmp(word, "incremental") == 0)) return true;
	if (word == NULL || strcasecmp(word, "blocking") != 0)
		return err_set(err, ERR_CONFIG, "the \"type\" of a snapshot is incremental, or blocking");
	*remark = strdup("a blocking snapshot is read in chunks while changes stream, as any other");
	return true;
}

static bool read_execute(const struct envelope *e, struct request *r, char **remark, struct err *err)
{
	size_t n = json_array_size(collections(e));
	r->verb = REQUEST_START;
	if (n == 0) return err_set(err, ERR_CONFIG, "execute-snapshot needs \"data-collections\"");
	r->tables = arena_alloc(&r->arena, n * sizeof *r->tables);
	for (; r->ntables < n; r->ntables++)
		r->tables[r->ntables] = (struct request_table){
			keep_name(r, json_string_value(json_array_get(collections(e), r->ntables))), ""};
	return take_kind(e, remark, err) && take_conditions(r, e, err) && take_old_condition(r, e, err);
}

/* ---- the others ---- */

static void read_targets(const struct envelope *e, enum request_verb verb, struct request *r)
{
	size_t n = json_array_size(collections(e));
	r->verb = verb;
	r->all = n == 0;
	r->targets = arena_alloc(&r->arena, (n + 1) * sizeof *r->targets);
	for (; r->ntargets < n; r->ntargets++)
		r->targets[r->ntargets] =
			keep_name(r, json_string_value(json_array_get(collections(e), r->ntargets)));
}

static bool read_log(const struct envelope *e, struct signal_meaning *out, struct err *err)
{
	const char *text = json_string_value(json_object_get(e->data, "message"));
	if (text == NULL) return err_set(err, ERR_CONFIG, "a log signal has a string \"message\"");
	out->log = strdup(text);
	return true;
}

static bool read_type(const struct envelope *e, struct signal_meaning *out, struct err *err)
{
	static const struct {
		const char *type;
		enum request_verb verb;
	} others[] = {{"stop-snapshot", REQUEST_STOP},
				  {"pause-snapshot", REQUEST_PAUSE},
				  {"resume-snapshot", REQUEST_RESUME}};
	if (strcmp(e->type, "log") == 0) return read_log(e, out, err);
	out->is_request = true;
	if (strcmp(e->type, "execute-snapshot") == 0) return read_execute(e, &out->request, &out->log, err);
	for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
		if (strcmp(others[i].type, e->type) != 0) continue;
		read_targets(e, others[i].verb, &out->request);
		return true;
	}
	return err_set(err, ERR_CONFIG, "unknown type of signal \"%.64s\"", e->type);
}

/* A number would be taken for a run's. */
static void name_runs(const struct signal *s, const char *id, struct request *r)
{
	char lsn[LSN_TEXT_SIZE], made[64];
	struct buf named = {0};
	if (id == NULL || *id == '\0') {
		snprintf(made, sizeof made, "signal-%s-%u", lsn_format(s->commit_lsn, lsn), s->number);
		request_set_id(r, made);
		return;
	}
	if (id[strspn(id, "0123456789")] == '\0') buf_put(&named, "signal-", 7);
	buf_put(&named, id, strlen(id) + 1);
	request_set_id(r, (const char *)named.p);
	buf_finish(&named);
}

static bool read_envelope(const struct signal *s, const struct envelope *e, struct signal_meaning *out,
						  struct err *err)
{
	struct request *r = &out->request;
	if (e->type == NULL) return err_set(err, ERR_CONFIG, "a signal has a \"type\"");
	if (e->data != NULL && !json_is_object(e->data))
		return err_set(err, ERR_CONFIG, "\"data\" has to be an object");
	*r = (struct request){.json = json_incref(e->data)};
	arena_init(&r->arena);
	if (!check_collections(e, err) || !read_type(e, out, err)) return false;
	if (r->verb != REQUEST_START || !out->is_request) return true;
	name_runs(s, e->id, r);
	return request_check_id(r->id, err);
}

/* ---- the two places ---- */

static json_t *load(struct slice text, const char *what, struct err *err)
{
	json_error_t fault;
	json_t *json = json_loadb((const char *)text.p, text.n, JSON_REJECT_DUPLICATES, &fault);
	if (json == NULL)
		err_set(err, ERR_CONFIG, "%s is not JSON: %s at byte %d", what, fault.text, fault.position);
	return json;
}

static char *copy_text(struct slice text)
{
	return text.p != NULL ? strndup((const char *)text.p, text.n) : NULL;
}

static bool read_row(const struct signal *s, struct signal_meaning *out, struct err *err)
{
	struct envelope e = {.data = NULL};
	bool has_data = s->data.p != NULL && s->data.n > 0;
	char *id = copy_text(s->id), *type = copy_text(s->type);
	if (has_data) e.data = load(s->data, "the column data", err);
	e.id = id;
	e.type = type;
	bool good = (!has_data || e.data != NULL) && read_envelope(s, &e, out, err);
	json_decref(e.data);
	free(id);
	free(type);
	return good;
}

static bool read_request(const struct signal *s, json_t *json, struct signal_meaning *out, struct err *err)
{
	struct request *r = &out->request;
	out->is_request = true;
	if (!request_of_json(json, r, err)) return false;
	if (r->verb == REQUEST_START && r->id == NULL) name_runs(s, NULL, r);
	return true;
}

static bool read_message(const struct signal *s, struct signal_meaning *out, struct err *err)
{
	json_t *json = load(s->content, "the message", err);
	if (json == NULL) return false;
	struct envelope e = {.id = json_string_value(json_object_get(json, "id")),
						 .type = json_string_value(json_object_get(json, "type")),
						 .data = json_incref(json_object_get(json, "data"))};
	bool good = json_object_get(json, "command") != NULL ? read_request(s, json, out, err)
														 : read_envelope(s, &e, out, err);
	json_decref(e.data);
	json_decref(json);
	return good;
}

bool signal_read(const struct signal *s, struct signal_meaning *out, struct err *err)
{
	*out = (struct signal_meaning){.is_request = false};
	if (s->is_row ? read_row(s, out, err) : read_message(s, out, err)) {
		if (out->is_request && out->request.requester == NULL)
			request_set_requester(&out->request, s->is_row ? "signal table" : "signal");
		return true;
	}
	request_finish(&out->request);
	free(out->log);
	*out = (struct signal_meaning){.is_request = false};
	return false;
}
