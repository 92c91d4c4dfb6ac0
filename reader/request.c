#include "reader/request.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "reader/suggest.h"

static const char *const verbs[] = {[REQUEST_START] = "start",
									[REQUEST_PAUSE] = "pause",
									[REQUEST_RESUME] = "resume",
									[REQUEST_STOP] = "stop"};

#define NVERBS (sizeof verbs / sizeof *verbs)

const char *request_verb_name(enum request_verb verb)
{
	return verbs[verb];
}

/* ---- fields ---- */

typedef bool (*take_fn)(struct request *r, const char *name, json_t *value, struct err *err);

struct field {
	const char *name;
	take_fn take;
	bool start, others; /* of which verbs it is */
};

static bool is_text(const char *name, const json_t *value, struct err *err)
{
	return json_is_string(value) || err_set(err, ERR_CONFIG, "\"%s\" has to be a string", name);
}

static bool take_where(struct request *r, const char *name, json_t *value, struct err *err)
{
	if (!is_text(name, value, err)) return false;
	for (size_t i = 0; i < r->ntables; i++)
		r->tables[i].where = json_string_value(value);
	return true;
}

static bool take_requester(struct request *r, const char *name, json_t *value, struct err *err)
{
	r->requester = json_string_value(value);
	return is_text(name, value, err);
}

static bool take_id(struct request *r, const char *name, json_t *value, struct err *err)
{
	r->id = json_string_value(value);
	return is_text(name, value, err) && request_check_id(r->id, err);
}

/* A list of at least one string. */
static bool take_texts(struct request *r, const char *name, json_t *value, const char ***out, size_t *n,
					   struct err *err)
{
	*n = json_array_size(value);
	if (*n == 0) return err_set(err, ERR_CONFIG, "\"%s\" has to be a list of at least one string", name);
	*out = arena_alloc(&r->arena, *n * sizeof **out);
	for (size_t i = 0; i < *n; i++) {
		(*out)[i] = json_string_value(json_array_get(value, i));
		if ((*out)[i] == NULL) return err_set(err, ERR_CONFIG, "\"%s\" has to be a list of strings", name);
	}
	return true;
}

static bool take_tables(struct request *r, const char *name, json_t *value, struct err *err)
{
	const char **names;
	size_t n;
	if (!take_texts(r, name, value, &names, &n, err)) return false;
	r->tables = arena_alloc(&r->arena, n * sizeof *r->tables);
	r->ntables = n;
	for (size_t i = 0; i < n; i++)
		r->tables[i] = (struct request_table){names[i], ""};
	return true;
}

static bool take_targets(struct request *r, const char *name, json_t *value, struct err *err)
{
	return take_texts(r, name, value, &r->targets, &r->ntargets, err);
}

static bool take_all(struct request *r, const char *name, json_t *value, struct err *err)
{
	r->all = json_is_true(value);
	return json_is_boolean(value) || err_set(err, ERR_CONFIG, "\"%s\" has to be true or false", name);
}

/* Key columns may be given as numbers too, where they are small enough to be the same in JSON. */
static const char *key_text(struct request *r, const json_t *value)
{
	char digits[32];
	if (!json_is_integer(value)) return json_string_value(value);
	snprintf(digits, sizeof digits, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
	return arena_strdup(&r->arena, digits);
}

static bool take_key(struct request *r, const char *name, const json_t *value, struct request_key *out,
					 struct err *err)
{
	out->n = json_array_size(value);
	if (out->n == 0)
		return err_set(err, ERR_CONFIG, "\"%s\": a key is a list with the text of each key column", name);
	out->values = arena_alloc(&r->arena, out->n * sizeof *out->values);
	for (size_t i = 0; i < out->n; i++) {
		out->values[i] = key_text(r, json_array_get(value, i));
		if (out->values[i] == NULL)
			return err_set(err, ERR_CONFIG, "\"%s\": the values of a key are strings or whole numbers", name);
	}
	return true;
}

static bool take_from(struct request *r, const char *name, json_t *value, struct err *err)
{
	return take_key(r, name, value, &r->from, err);
}

static bool take_to(struct request *r, const char *name, json_t *value, struct err *err)
{
	return take_key(r, name, value, &r->to, err);
}

static bool take_keys(struct request *r, const char *name, json_t *value, struct err *err)
{
	size_t n = json_array_size(value);
	if (n == 0) return err_set(err, ERR_CONFIG, "\"%s\" has to be a list of at least one key", name);
	if (n > REQUEST_KEYS_MAX)
		return err_set(err, ERR_CONFIG,
					   "\"%s\" has %zu keys, and may have %d: ask for a range or a condition", name, n,
					   REQUEST_KEYS_MAX);
	r->keys = arena_alloc(&r->arena, n * sizeof *r->keys);
	for (r->nkeys = 0; r->nkeys < n; r->nkeys++)
		if (!take_key(r, name, json_array_get(value, r->nkeys), &r->keys[r->nkeys], err)) return false;
	return true;
}

static bool take_sweep(struct request *r, const char *name, json_t *value, struct err *err)
{
	static const char *const words[] = {[SWEEP_OFF] = "off", [SWEEP_ON] = "on", [SWEEP_COUNT] = "count"};
	const char *word = json_string_value(value);
	for (size_t i = 0; word != NULL && i < sizeof words / sizeof *words; i++) {
		if (strcmp(words[i], word) != 0) continue;
		r->sweep = (enum sweep_mode)i;
		r->has_sweep = true;
		return true;
	}
	return err_set(err, ERR_CONFIG, "\"%s\" has to be \"on\", \"off\" or \"count\"", name);
}

static bool take_number(const char *name, const json_t *value, long max, uint32_t *out, struct err *err)
{
	json_int_t n = json_integer_value(value);
	if (!json_is_integer(value) || n < 1 || n > max)
		return err_set(err, ERR_CONFIG, "\"%s\" has to be a whole number from 1 to %ld", name, max);
	*out = (uint32_t)n;
	return true;
}

static bool take_chunk_time(struct request *r, const char *name, json_t *value, struct err *err)
{
	return take_number(name, value, REQUEST_CHUNK_MS_MAX, &r->chunk_time_ms, err);
}

static bool take_rate(struct request *r, const char *name, json_t *value, struct err *err)
{
	return take_number(name, value, REQUEST_RATE_MAX, &r->rows_per_second, err);
}

/* Taken in this order: the condition is one of each table. */
static const struct field fields[] = {
	{"tables", take_tables, true, false},
	{"where", take_where, true, false},
	{"from", take_from, true, false},
	{"to", take_to, true, false},
	{"keys", take_keys, true, false},
	{"sweep", take_sweep, true, false},
	{"id", take_id, true, false},
	{"chunk_time_ms", take_chunk_time, true, false},
	{"max_rows_per_second", take_rate, true, false},
	{"targets", take_targets, false, true},
	{"all", take_all, false, true},
	{"requester", take_requester, true, true},
};

#define NFIELDS (sizeof fields / sizeof *fields)

static bool is_of(const struct field *f, enum request_verb verb)
{
	return verb == REQUEST_START ? f->start : f->others;
}

static bool is_known(const char *name, enum request_verb verb)
{
	bool known = strcmp(name, "command") == 0;
	for (size_t i = 0; i < NFIELDS; i++)
		known |= is_of(&fields[i], verb) && strcmp(fields[i].name, name) == 0;
	return known;
}

static bool refuse_field(const char *name, enum request_verb verb, struct err *err)
{
	struct suggest s = suggest_for(name, strlen(name));
	for (size_t i = 0; i < NFIELDS; i++)
		if (is_of(&fields[i], verb)) suggest_offer(&s, fields[i].name);
	if (s.best != NULL)
		return err_set(err, ERR_CONFIG, "%s has no field \"%.64s\"; did you mean \"%s\"?", verbs[verb], name,
					   s.best);
	return err_set(err, ERR_CONFIG, "%s has no field \"%.64s\"", verbs[verb], name);
}

static bool take_fields(struct request *r, struct err *err)
{
	const char *name;
	json_t *value;
	json_object_foreach(r->json, name, value) if (!is_known(name, r->verb)) return refuse_field(name, r->verb,
																								err);
	for (size_t i = 0; i < NFIELDS; i++) {
		value = json_object_get(r->json, fields[i].name);
		if (value != NULL && !fields[i].take(r, fields[i].name, value, err)) return false;
	}
	return true;
}

/* ---- the whole ---- */

static bool take_verb(struct request *r, struct err *err)
{
	const char *word = json_string_value(json_object_get(r->json, "command"));
	if (word == NULL) return err_set(err, ERR_CONFIG, "a request is an object with a string \"command\"");
	for (size_t i = 0; i < NVERBS; i++) {
		r->verb = (enum request_verb)i;
		if (strcmp(verbs[i], word) == 0) return true;
	}
	return err_set(err, ERR_CONFIG, "unknown command \"%.64s\": it is start, pause, resume or stop", word);
}

static bool fits_together(const struct request *r, struct err *err)
{
	bool range = r->from.n > 0 || r->to.n > 0, where = false;
	if (r->verb != REQUEST_START)
		return (r->ntargets > 0) != r->all ||
			   err_set(err, ERR_CONFIG, "%s needs \"targets\", or \"all\": true", verbs[r->verb]);
	for (size_t i = 0; i < r->ntables; i++)
		where |= r->tables[i].where[0] != '\0';
	if (r->ntables == 0) return err_set(err, ERR_CONFIG, "start needs \"tables\"");
	if (r->nkeys > 0 && (range || where))
		return err_set(err, ERR_CONFIG, "listed keys exclude a range and a condition");
	if (r->nkeys > 0 && r->has_sweep)
		return err_set(
			err, ERR_CONFIG,
			"a sweep means nothing for listed keys: those that the source does not have are deleted");
	if (r->ntables > 1 && (range || r->nkeys > 0))
		return err_set(err, ERR_CONFIG, "keys are those of one table, and %zu are named", r->ntables);
	return true;
}

bool request_of_json(json_t *object, struct request *out, struct err *err)
{
	*out = (struct request){.json = json_incref(object)};
	arena_init(&out->arena);
	if (take_verb(out, err) && take_fields(out, err) && fits_together(out, err)) return true;
	request_finish(out);
	return false;
}

bool request_parse(struct slice text, struct request *out, struct err *err)
{
	json_error_t fault;
	json_t *json = json_loadb((const char *)text.p, text.n, JSON_REJECT_DUPLICATES, &fault);
	*out = (struct request){.json = NULL};
	if (json == NULL) return err_set(err, ERR_CONFIG, "not JSON: %s at byte %d", fault.text, fault.position);
	bool good = request_of_json(json, out, err);
	json_decref(json);
	return good;
}

void request_finish(struct request *r)
{
	json_decref(r->json);
	arena_finish(&r->arena);
	*r = (struct request){.json = NULL};
}

void request_set_id(struct request *r, const char *id)
{
	r->id = arena_strdup(&r->arena, id);
}

void request_set_requester(struct request *r, const char *requester)
{
	r->requester = arena_strdup(&r->arena, requester);
}

void request_make_id(struct request *r, int64_t now_us)
{
	time_t seconds = (time_t)(now_us / 1000000);
	char day[32], id[64];
	struct tm tm;
	gmtime_r(&seconds, &tm);
	strftime(day, sizeof day, "%Y%m%dT%H%M%S", &tm);
	snprintf(id, sizeof id, "run-%s.%06d", day, (int)(now_us % 1000000));
	request_set_id(r, id);
}

bool request_check_id(const char *id, struct err *err)
{
	size_t n = strlen(id);
	if (n == 0 || n > REQUEST_ID_MAX)
		return err_set(err, ERR_CONFIG, "an id has 1 to %d bytes, and this one %zu", REQUEST_ID_MAX, n);
	if (id[strspn(id, "0123456789")] == '\0')
		return err_set(err, ERR_CONFIG, "the id %s would be taken for the number of a run: add a letter", id);
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)id[i] < 0x20 || id[i] == 0x7f)
			return err_set(err, ERR_CONFIG, "an id has no control characters");
	return true;
}
