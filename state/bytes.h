/*
 * state/bytes.h - byte slices, an arena, a growing buffer, and a reading
 * cursor with one sticky failure bit.
 *
 * Parsers take every field, then check `cur.bad` once, then require the end
 * (cur_done). Nothing here asserts on bytes from outside. Not thread-safe; one
 * owner each.
 */
#ifndef STATE_BYTES_H
#define STATE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct slice {
	const uint8_t *p;
	size_t n;
};

struct slice slice_of(const char *s); /* without the NUL */
bool slice_eq(struct slice a, struct slice b);

void *mem_alloc(size_t n);     /* malloc that never returns NULL: running out of memory aborts */
char *mem_text(const char *s); /* a copy, to be freed; NULL of NULL */

/* Arena: many allocations, one release. Memory is 8-byte aligned, not zeroed. */
struct arena_block;
struct arena {
	struct arena_block *head;
	size_t used;     /* bytes handed out since the last reset */
	size_t reserved; /* bytes held from malloc */
};

void arena_init(struct arena *a);
void arena_finish(struct arena *a); /* accepts zeroed memory */
void arena_reset(struct arena *a);  /* keeps one block of at most 1 MiB */
/* What `from` holds becomes a's, where it is; from is empty then. */
void arena_adopt(struct arena *a, struct arena *from);
void *arena_alloc(struct arena *a, size_t n); /* never NULL: running out of memory aborts */
void *arena_copy(struct arena *a, const void *p, size_t n);
char *arena_strdup(struct arena *a, const char *s);

/* Growing buffer. A zeroed struct is an empty buffer. Never fails (aborts on no memory). */
struct buf {
	uint8_t *p;
	size_t n, cap;
};

void buf_finish(struct buf *b);
void buf_reset(struct buf *b);                /* n = 0, keeps memory */
uint8_t *buf_extend(struct buf *b, size_t n); /* room for n bytes at the end; counts them in */
void buf_put(struct buf *b, const void *p, size_t n);
void buf_put_u8(struct buf *b, uint8_t v);
void buf_put_u16(struct buf *b, uint16_t v); /* big-endian, as all of these */
void buf_put_u32(struct buf *b, uint32_t v);
void buf_put_u64(struct buf *b, uint64_t v);
void buf_put_varint(struct buf *b, uint64_t v);            /* LEB128, 1-10 bytes */
void buf_put_blob(struct buf *b, const void *p, size_t n); /* varint length, bytes */
void buf_put_str(struct buf *b, const char *s);            /* blob without NUL */

void be16_put(uint8_t *p, uint16_t v);
void be32_put(uint8_t *p, uint32_t v);
void be64_put(uint8_t *p, uint64_t v);
static inline uint16_t be16_get(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}
static inline uint32_t be32_get(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}
static inline uint64_t be64_get(const uint8_t *p)
{
	return (uint64_t)be32_get(p) << 32 | be32_get(p + 4);
}
size_t varint_size(uint64_t v);
size_t varint_put(uint8_t *p, uint64_t v); /* returns bytes written */

/* Reading cursor. After a failed get every later get fails too and returns 0 / empty. */
struct cur {
	const uint8_t *p, *end;
	bool bad;
};

/* Here in full: several of them run for each value of each row. */
static inline struct cur cur_of(struct slice s)
{
	return (struct cur){.p = s.p, .end = s.n ? s.p + s.n : s.p};
}
/* The next n bytes, or NULL and the sticky bit. */
static inline const uint8_t *cur_take(struct cur *c, uint64_t n)
{
	const uint8_t *p = c->p;

	if (c->bad || n > (uint64_t)(c->end - c->p)) {
		c->bad = true;
		return NULL;
	}
	if (n > 0) c->p += n;
	return p;
}
static inline uint8_t cur_u8(struct cur *c)
{
	const uint8_t *p = cur_take(c, 1);

	return p ? *p : 0;
}
static inline uint16_t cur_u16(struct cur *c)
{
	const uint8_t *p = cur_take(c, 2);

	return p ? be16_get(p) : 0;
}
static inline uint32_t cur_u32(struct cur *c)
{
	const uint8_t *p = cur_take(c, 4);

	return p ? be32_get(p) : 0;
}
static inline uint64_t cur_u64(struct cur *c)
{
	const uint8_t *p = cur_take(c, 8);

	return p ? be64_get(p) : 0;
}
static inline struct slice cur_bytes(struct cur *c, uint64_t n)
{
	const uint8_t *p = cur_take(c, n);

	return (struct slice){p, p ? (size_t)n : 0};
}
uint64_t cur_long_varint(struct cur *c);
/* Over-long or > 64 bits: bad. Lengths mostly take one byte. */
static inline uint64_t cur_varint(struct cur *c)
{
	if (!c->bad && c->p < c->end && *c->p < 0x80) return *c->p++;
	return cur_long_varint(c);
}
struct slice cur_blob(struct cur *c);
/*
 * What buf_put_str and buf_put_blob wrote, copied to *at, which moves past the
 * copy. A string gets a NUL and may not contain one (bad, ""). Neither needs
 * more room than it took in the input, so a block as large as the input is enough for all.
 */
const char *cur_str_copy(struct cur *c, char **at);
struct slice cur_blob_copy(struct cur *c, char **at);
const char *cur_cstr(struct cur *c); /* NUL-terminated, in place; NULL when bad */
bool cur_done(const struct cur *c);  /* nothing failed and nothing is left */

#endif
