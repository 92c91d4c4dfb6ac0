#include "state/bytes.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Half done and out of memory there is no state worth saving: the store is intact, a restart resumes. */
static void *must(void *p)
{
	if (!p) {
		fputs("tidemark: out of memory\n", stderr);
		abort();
	}
	return p;
}

/* memcpy and memcmp may not be given NULL, not even for nothing. */
static void copy(void *to, const void *from, size_t n)
{
	if (n > 0) memcpy(to, from, n);
}

void *mem_alloc(size_t n)
{
	return must(malloc(n ? n : 1));
}

char *mem_text(const char *s)
{
	size_t n = s ? strlen(s) + 1 : 0;

	return s ? memcpy(mem_alloc(n), s, n) : NULL;
}

struct slice slice_of(const char *s)
{
	return (struct slice){(const uint8_t *)s, strlen(s)};
}

bool slice_eq(struct slice a, struct slice b)
{
	return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

/* ---- arena ---- */

#define BLOCK_MIN ((size_t)4 << 10) /* header included, so that blocks fit malloc's size classes */
#define BLOCK_MAX ((size_t)1 << 20)
#define OWN_BLOCK (BLOCK_MAX / 4) /* from here on an allocation gets a block to itself */
#define ALIGNMENT ((size_t)8)

struct arena_block {
	struct arena_block *next;
	size_t size; /* as malloc'd */
	size_t n;    /* of data[] */
	_Alignas(8) uint8_t data[];
};

static struct arena_block *block_create(struct arena *a, size_t size, struct arena_block *next)
{
	struct arena_block *b = mem_alloc(size);

	*b = (struct arena_block){.next = next, .size = size};
	a->reserved += size;
	return b;
}

/* The head is the block being filled. */
static struct arena_block *block_with_room(struct arena *a, size_t n)
{
	struct arena_block *head = a->head;
	size_t size = BLOCK_MIN;

	if (head && n <= head->size - sizeof *head - head->n) return head;
	if (head) size = head->size >= BLOCK_MAX / 2 ? BLOCK_MAX : head->size * 2;
	while (size < n + sizeof *head)
		size *= 2;
	return a->head = block_create(a, size, head);
}

/* Goes behind the head, so that what is left of the head is not lost. */
static struct arena_block *block_of_its_own(struct arena *a, size_t n)
{
	size_t size = n + sizeof(struct arena_block);

	if (!a->head) return a->head = block_create(a, size, NULL);
	return a->head->next = block_create(a, size, a->head->next);
}

void arena_init(struct arena *a)
{
	*a = (struct arena){0};
}

void arena_finish(struct arena *a)
{
	for (struct arena_block *b = a->head, *next; b; b = next) {
		next = b->next;
		free(b);
	}
	*a = (struct arena){0};
}

void arena_reset(struct arena *a)
{
	struct arena_block *kept = NULL, *drop;

	for (struct arena_block *b = a->head, *next; b; b = next) {
		next = b->next;
		drop = b;
		if (b->size <= BLOCK_MAX && (!kept || b->size > kept->size)) {
			drop = kept;
			kept = b;
		}
		free(drop);
	}
	*a = (struct arena){.head = kept};
	if (kept) {
		kept->next = NULL;
		kept->n = 0;
		a->reserved = kept->size;
	}
}

/* Behind the head, which goes on being filled. */
void arena_adopt(struct arena *a, struct arena *from)
{
	struct arena_block *last = from->head;

	if (!last) return;
	while (last->next)
		last = last->next;
	last->next = a->head ? a->head->next : NULL;
	if (a->head)
		a->head->next = from->head;
	else
		a->head = from->head;
	a->used += from->used;
	a->reserved += from->reserved;
	*from = (struct arena){0};
}

void *arena_alloc(struct arena *a, size_t n)
{
	struct arena_block *b;
	void *p;

	if (n > SIZE_MAX / 2) must(NULL);
	n = (n + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
	b = n >= OWN_BLOCK ? block_of_its_own(a, n) : block_with_room(a, n);
	p = b->data + b->n;
	b->n += n;
	a->used += n;
	return p;
}

void *arena_copy(struct arena *a, const void *p, size_t n)
{
	void *to = arena_alloc(a, n);

	copy(to, p, n);
	return to;
}

char *arena_strdup(struct arena *a, const char *s)
{
	return arena_copy(a, s, strlen(s) + 1);
}

/* ---- growing buffer ---- */

void buf_finish(struct buf *b)
{
	free(b->p);
	*b = (struct buf){0};
}

void buf_reset(struct buf *b)
{
	b->n = 0;
}

static void buf_grow(struct buf *b, size_t n)
{
	size_t cap = b->cap ? b->cap : 64;

	if (n > SIZE_MAX / 4 - b->n) must(NULL);
	while (cap - b->n < n)
		cap *= 2;
	b->p = must(realloc(b->p, cap));
	b->cap = cap;
}

uint8_t *buf_extend(struct buf *b, size_t n)
{
	uint8_t *at;

	if (!b->p || n > b->cap - b->n) buf_grow(b, n);
	at = b->p + b->n;
	b->n += n;
	return at;
}

void buf_put(struct buf *b, const void *p, size_t n)
{
	copy(buf_extend(b, n), p, n);
}

void buf_put_u8(struct buf *b, uint8_t v)
{
	*buf_extend(b, 1) = v;
}

void buf_put_u16(struct buf *b, uint16_t v)
{
	be16_put(buf_extend(b, 2), v);
}

void buf_put_u32(struct buf *b, uint32_t v)
{
	be32_put(buf_extend(b, 4), v);
}

void buf_put_u64(struct buf *b, uint64_t v)
{
	be64_put(buf_extend(b, 8), v);
}

void buf_put_varint(struct buf *b, uint64_t v)
{
	varint_put(buf_extend(b, varint_size(v)), v);
}

void buf_put_blob(struct buf *b, const void *p, size_t n)
{
	buf_put_varint(b, n);
	buf_put(b, p, n);
}

void buf_put_str(struct buf *b, const char *s)
{
	assert(s);
	buf_put_blob(b, s, strlen(s));
}

/* ---- integers ---- */

void be16_put(uint8_t *p, uint16_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

void be32_put(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)(v >> 24);
	p[1] = (uint8_t)(v >> 16);
	p[2] = (uint8_t)(v >> 8);
	p[3] = (uint8_t)v;
}

void be64_put(uint8_t *p, uint64_t v)
{
	be32_put(p, (uint32_t)(v >> 32));
	be32_put(p + 4, (uint32_t)v);
}

size_t varint_size(uint64_t v)
{
	size_t n = 1;

	while (v >>= 7)
		n++;
	return n;
}

size_t varint_put(uint8_t *p, uint64_t v)
{
	size_t n = 0;

	for (; v > 0x7F; v >>= 7)
		p[n++] = (uint8_t)(v | 0x80);
	p[n++] = (uint8_t)v;
	return n;
}

/* ---- reading cursor ---- */

/* One value has one form: a last byte of zero would be a longer form of a shorter one. */
uint64_t cur_long_varint(struct cur *c)
{
	uint64_t v = 0;

	for (unsigned shift = 0; shift < 64; shift += 7) {
		uint8_t byte = cur_u8(c);

		if ((shift > 0 && byte == 0) || (shift == 63 && byte > 1)) break;
		v |= (uint64_t)(byte & 0x7F) << shift;
		if (!(byte & 0x80)) return v;
	}
	c->bad = true;
	return 0;
}

struct slice cur_blob(struct cur *c)
{
	return cur_bytes(c, cur_varint(c));
}

const char *cur_cstr(struct cur *c)
{
	const uint8_t *nul = c->bad || c->p == c->end ? NULL : memchr(c->p, 0, (size_t)(c->end - c->p));

	if (!nul) {
		c->bad = true;
		return NULL;
	}
	return (const char *)cur_take(c, (uint64_t)(nul - c->p) + 1);
}

const char *cur_str_copy(struct cur *c, char **at)
{
	struct slice s = cur_blob(c);
	char *to = *at;

	if (s.n > 0 && memchr(s.p, 0, s.n)) c->bad = true;
	if (c->bad) return "";
	copy(to, s.p, s.n);
	to[s.n] = '\0';
	*at = to + s.n + 1;
	return to;
}

struct slice cur_blob_copy(struct cur *c, char **at)
{
	struct slice s = cur_blob(c);
	char *to = *at;

	copy(to, s.p, s.n);
	*at = to + s.n;
	return (struct slice){(const uint8_t *)to, s.n};
}

bool cur_done(const struct cur *c)
{
	return !c->bad && c->p == c->end;
}
