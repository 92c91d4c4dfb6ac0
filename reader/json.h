/*
 * reader/json.h - write JSON: escaped strings, numbers, objects and arrays on
 * one line; and check that a text is JSON.
 *
 * Output goes to the end of a `struct buf`. What is written is always valid
 * UTF-8: bytes that are not become U+FFFD. Pure; any thread, one owner each.
 */
#ifndef READER_JSON_H
#define READER_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "state/bytes.h"

/* text as a JSON string, with its quotes. */
void json_put_string(struct buf *out, struct slice text);
void json_put_uint(struct buf *out, uint64_t v);

/* The whole text is one JSON number, nothing around it. */
bool json_is_number(struct slice text);

/*
 * The whole text is one JSON value (RFC 8259, white space around it allowed),
 * in valid UTF-8. Nesting is limited by memory alone: `stack` is scratch, a
 * byte for each level.
 */
bool json_is_valid(struct slice text, struct buf *stack);

/* Length of the UTF-8 sequence at p (RFC 3629: shortest form, no surrogates); 0 = none starts there. p < end.
 */
size_t utf8_length(const uint8_t *p, const uint8_t *end);

/*
 * A writer that puts the commas. Keys are only allowed in objects; opens and
 * closes are the caller's to balance.
 *
 *     struct json j = json_to(&out);
 *     json_open(&j, NULL, '{');
 *     json_add_uint(&j, "rows", 12);
 *     json_open(&j, "runs", '[');
 *     json_add_string(&j, NULL, "in an array, elements have no key");
 *     json_close(&j, ']');
 *     json_close(&j, '}');
 */
struct json {
	struct buf *out;
	bool comma; /* something stands before the next member */
};

struct json json_to(struct buf *out);
void json_open(struct json *j, const char *key, char bracket);
void json_close(struct json *j, char bracket);
void json_add_string(struct json *j, const char *key, const char *text); /* NULL: null */
void json_add_uint(struct json *j, const char *key, uint64_t v);
void json_add_bool(struct json *j, const char *key, bool v);
void json_add_real(struct json *j, const char *key, double v, int decimals); /* finite */
void json_add_null(struct json *j, const char *key);

#endif
