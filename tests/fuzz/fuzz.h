/*
 * tests/fuzz/fuzz.h - what the fuzz targets share: libFuzzer's entry point,
 * checks that end the process, and a feed of decisions taken from its bytes.
 *
 * A target is one file fuzz_NAME.c with LLVMFuzzerTestOneInput(). It must do
 * the same for the same bytes: no clock, no address, nothing kept from the
 * input before.
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "state/bytes.h"
#include "state/err.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* Once at the start; not every target has it. */
int LLVMFuzzerInitialize(int *argc, char ***argv);

/* A broken promise. The sanitizers and libFuzzer take it from there. */
#define CHECK_THAT(condition, ...)                                                                           \
	do {                                                                                                     \
		if (!(condition)) {                                                                                  \
			fprintf(stderr, "%s:%d: not true: %s\n  ", __FILE__, __LINE__, #condition);                      \
			fprintf(stderr, __VA_ARGS__);                                                                    \
			fputc('\n', stderr);                                                                             \
			abort();                                                                                         \
		}                                                                                                    \
	} while (0)

/* A refusal has a kind and says something. */
static inline void check_refusal(const struct err *err)
{
	CHECK_THAT(err->kind != ERR_NONE && err->kind != ERR_BUG, "kind %d: %s", err->kind, err->msg);
	CHECK_THAT(memchr(err->msg, 0, sizeof err->msg) && err->msg[0] != '\0', "kind %d", err->kind);
}

/*
 * ---- the feed: zeroes when it has run dry ----
 *
 * One take in an expression: which of two comes first is the compiler's choice,
 * and an input must mean the same to all of them.
 */

struct feed {
	const uint8_t *p, *end;
};

static inline struct feed feed_of(const uint8_t *data, size_t size)
{
	return (struct feed){data, data + size};
}

static inline size_t feed_left(const struct feed *f)
{
	return (size_t)(f->end - f->p);
}

static inline uint64_t feed_uint(struct feed *f, size_t bytes)
{
	uint64_t v = 0;

	while (bytes-- > 0)
		v = v << 8 | (f->p < f->end ? *f->p++ : 0);
	return v;
}

static inline uint8_t feed_u8(struct feed *f)
{
	return (uint8_t)feed_uint(f, 1);
}

static inline size_t feed_below(struct feed *f, size_t n)
{
	return n > 256 ? feed_uint(f, 2) % n : feed_u8(f) % n;
}

static inline bool feed_bool(struct feed *f)
{
	return feed_u8(f) & 1;
}

/* At most n bytes, in place. */
static inline struct slice feed_bytes(struct feed *f, size_t n)
{
	struct slice s = {f->p, n < feed_left(f) ? n : feed_left(f)};

	f->p += s.n;
	return s;
}

/* A length of one byte, or of two from 0x80 on, and as many bytes. */
static inline struct slice feed_slice(struct feed *f)
{
	size_t n = feed_u8(f);

	if (n >= 0x80) n = (n & 0x7F) << 8 | feed_u8(f);
	return feed_bytes(f, n);
}

/*
 * Inputs that are a list of steps. A step's bytes end at END_OF_STEP, so that
 * bytes put in or taken out change one step and leave the others what they were.
 */
#define END_OF_STEP 0xFE

static inline struct feed feed_step(struct feed *f)
{
	const uint8_t *end = feed_left(f) > 0 ? memchr(f->p, END_OF_STEP, feed_left(f)) : NULL;
	struct feed step = {f->p, end ? end : f->end};

	f->p = end ? end + 1 : f->end;
	return step;
}

/* ---- copies of exactly their size, so that a sanitizer sees one byte too many ---- */

static inline struct slice alone(struct slice s)
{
	uint8_t *p = mem_alloc(s.n);

	if (s.n > 0) memcpy(p, s.p, s.n);
	return (struct slice){p, s.n};
}

static inline void alone_free(struct slice s)
{
	free((void *)(uintptr_t)s.p);
}

/* Bytes up to a NUL that follows, as a C string of exactly its size. */
static inline char *text_alone(struct slice s)
{
	size_t n = s.n > 0 ? strnlen((const char *)s.p, s.n) : 0;
	char *text = mem_alloc(n + 1);

	if (n > 0) memcpy(text, s.p, n);
	text[n] = '\0';
	return text;
}

/* Up to the next NUL, which is passed over. */
static inline char *feed_text(struct feed *f)
{
	size_t n = feed_left(f) > 0 ? strnlen((const char *)f->p, feed_left(f)) : 0;
	char *text = text_alone(feed_bytes(f, n));

	feed_u8(f);
	return text;
}

static inline bool same_bytes(const struct buf *b, struct slice s)
{
	return slice_eq((struct slice){b->p, b->n}, s);
}

/* The order of LMDB: bytes, and of two where one is a prefix of the other, the shorter first. */
static inline int compare_bytes(struct slice a, struct slice b)
{
	size_t n = a.n < b.n ? a.n : b.n;
	int d = n > 0 ? memcmp(a.p, b.p, n) : 0;

	return d != 0 ? (d > 0) - (d < 0) : (a.n > b.n) - (a.n < b.n);
}

#endif
