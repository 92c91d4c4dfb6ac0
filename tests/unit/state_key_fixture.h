/* Keys encoded as the store has them, for the tests of state/key.h. */
#ifndef TESTS_UNIT_STATE_KEY_FIXTURE_H
#define TESTS_UNIT_STATE_KEY_FIXTURE_H

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "state/key.h"
#include "state/key_time.h"
#include "state/sha256.h"
#include "tests/unit/state_property.h"

/* A stored key, with what key_encode said of it. */
struct encoded {
	bool ok, is_long;
	uint8_t bytes[KEY_MAX];
	size_t n;
	struct buf full;
	struct err err;
};

static inline void encode(struct encoded *e, const enum key_kind *kinds, const struct slice *texts, size_t n)
{
	memset(e->bytes, 0xEE, sizeof e->bytes);
	e->ok = key_encode(kinds, texts, n, e->bytes, &e->n, &e->full, &e->is_long, &e->err);
}

static inline struct slice stored(const struct encoded *e)
{
	return (struct slice){e->bytes, e->n};
}

static inline bool encodes_to(enum key_kind kind, const char *text, const char *bytes, size_t n)
{
	struct slice s = slice_of(text);
	struct encoded e = {0};
	bool same;

	encode(&e, &kind, &s, 1);
	same = e.ok && !e.is_long && slice_eq(stored(&e), (struct slice){(const uint8_t *)bytes, n});
	buf_finish(&e.full);
	return same;
}

#define ENCODES_TO(kind, text, bytes) encodes_to(kind, text, bytes, sizeof(bytes) - 1)

static inline bool refuses_slice(enum key_kind kind, struct slice text)
{
	struct encoded e = {0};

	encode(&e, &kind, &text, 1);
	buf_finish(&e.full);
	return !e.ok && e.err.kind == ERR_PROTOCOL;
}

static inline bool refuses(enum key_kind kind, const char *text)
{
	return refuses_slice(kind, slice_of(text));
}

#endif
