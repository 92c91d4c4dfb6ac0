#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "state/store_impl.h"

/*
 * The parts of LMDB's file format 1 (all of 0.9) that are needed to tell a whole file
 * from a truncated one. Pages are numbered from 0, of one size, in the machine's byte order:
 *
 *   page    number 8 | pad 2 | flags 2 | lower 2 upper 2, or pages 4 | ...
 *   0, 1    the meta pages: page header, then struct meta; the one with the higher txnid counts
 *   tree    node offsets (2 each) from byte 16 to `lower`; a node is
 *           lo 2 | hi 2 | flags 2 | key size 2 | key | data
 *           branch: the child's page number is lo, hi, flags; leaf: lo, hi are the data size
 *   large   data that does not fit (flag BIGDATA: the node has a page number instead) starts
 *           behind the header of its first page and runs through the following ones
 *
 * The tree of free pages has a transaction number as key and a count and that
 * many page numbers, 8 bytes each, as data.
 *
 * Why this is needed: LMDB never writes pages that one transaction allocated and freed,
 * so a file may be shorter than its last page says. Only if every page behind the end is
 * free is nothing lost.
 */
#define PAGE_HEADER 16
#define NODE_HEADER 8
#define DEPTH_MAX   32 /* LMDB's own bound */
#define LMDB_MAGIC  0xBEEFC0DE
#define LMDB_FORMAT 1
#define NO_PAGE     UINT64_MAX

enum { PAGE_BRANCH = 0x01, PAGE_LEAF = 0x02, PAGE_OVERFLOW = 0x04, PAGE_META = 0x08 };
enum { NODE_BIGDATA = 0x01 };

struct tree {
	uint32_t pad; /* of the tree of free pages: the page size */
	uint16_t flags, depth;
	uint64_t branch_pages, leaf_pages, overflow_pages, entries, root;
};

struct meta {
	uint32_t magic, format;
	uint64_t address, map_size;
	struct tree free, main;
	uint64_t last_page, txnid;
};

_Static_assert(sizeof(size_t) == 8, "LMDB's page numbers have the size of size_t");

static bool read_at(int fd, uint64_t at, void *to, size_t n)
{
	uint8_t *p = to;

	while (n > 0) {
		ssize_t got = pread(fd, p, n, (off_t)at);

		if (got < 0 && errno == EINTR) continue;
		if (got <= 0) return false;
		p += got;
		at += (uint64_t)got;
		n -= (size_t)got;
	}
	return true;
}

static bool page_size_is_sane(uint32_t n)
{
	return n >= 256 && n <= 65536 && (n & (n - 1)) == 0;
}

/* ---- meta pages ---- */

static bool not_lmdb(const char *dir, struct err *err)
{
	return err_set(
		err, ERR_CORRUPT,
		"store %s: data.mdb is not an LMDB file: restore from a copy or start over with an empty directory",
		dir);
}

static bool is_truncated(const char *dir, uint64_t have, uint64_t need, struct err *err)
{
	return err_set(
		err, ERR_CORRUPT,
		"store %s: data.mdb is truncated: %llu bytes, needs %llu: restore from a copy or start over with "
		"an empty directory",
		dir, (unsigned long long)have, (unsigned long long)need);
}

static bool meta_check(const struct meta *m, uint16_t page_flags, const char *dir, struct err *err)
{
	if (!(page_flags & PAGE_META) || m->magic != LMDB_MAGIC) return not_lmdb(dir, err);
	if (m->format != LMDB_FORMAT)
		return err_set(err, ERR_CORRUPT,
					   "store %s: data.mdb has LMDB file format %u, this program reads %u: use LMDB 0.9", dir,
					   m->format, LMDB_FORMAT);
	if (!page_size_is_sane(m->free.pad) || m->free.depth > DEPTH_MAX || m->last_page >= UINT64_MAX / 65536)
		return not_lmdb(dir, err);
	return true;
}

static bool meta_read(int fd, const char *dir, uint64_t at, uint64_t size, struct meta *m, struct err *err)
{
	uint8_t page[PAGE_HEADER + sizeof *m];
	uint16_t flags;

	if (at + sizeof page > size)
		return is_truncated(dir, size, at > 0 ? 2 * at : 2 * (uint64_t)sysconf(_SC_PAGESIZE), err);
	if (!read_at(fd, at, page, sizeof page))
		return dir_fail(dir, errno ? errno : EIO, err, "reading data.mdb");
	memcpy(&flags, page + 10, sizeof flags);
	memcpy(m, page + PAGE_HEADER, sizeof *m);
	return meta_check(m, flags, dir, err);
}

bool file_head_read(int fd, const char *dir, struct file_head *out, struct err *err)
{
	struct meta a, b, *m;
	struct stat st;
	uint64_t size;

	if (fstat(fd, &st) != 0) return dir_fail(dir, errno, err, "reading data.mdb");
	size = (uint64_t)st.st_size;
	if (!meta_read(fd, dir, 0, size, &a, err) || !meta_read(fd, dir, a.free.pad, size, &b, err)) return false;
	m = b.txnid > a.txnid ? &b : &a;
	/* Once more: a transaction that commits now has written its pages before its meta page. */
	if (fstat(fd, &st) != 0) return dir_fail(dir, errno, err, "reading data.mdb");
	*out = (struct file_head){
		.page_size = a.free.pad,
		.size = (uint64_t)st.st_size,
		.last_page = m->last_page,
		.map_size = m->map_size,
		.txn = m->txnid,
		.free_root = m->free.root,
		.free_depth = m->free.depth,
	};
	return true;
}

/* ---- is every page behind the end of the file free? ---- */

struct walk {
	int fd;
	const struct file_head *head;
	uint64_t first;   /* first page that is not all in the file */
	uint64_t missing; /* pages from there to the last one */
	uint64_t found;   /* of them known to be free */
	uint64_t pages;   /* tree pages read so far; more than the file has means a loop */
	uint8_t *is_free; /* a bit for each missing page */
};

static void mark_free(struct walk *w, uint64_t page)
{
	uint64_t i = page - w->first;

	if (page < w->first || i >= w->missing || (w->is_free[i / 8] >> (i % 8) & 1)) return;
	w->is_free[i / 8] |= (uint8_t)(1 << i % 8);
	w->found++;
}

/* n bytes at a place in the file: a count, then page numbers. */
static bool take_list(struct walk *w, uint64_t at, uint64_t n)
{
	uint64_t chunk[512], count;

	if (n < 8 || !read_at(w->fd, at, &count, 8) || count > n / 8 - 1) return false;
	for (at += 8; count > 0;) {
		size_t take = count < 512 ? (size_t)count : 512;

		if (!read_at(w->fd, at, chunk, take * 8)) return false;
		for (size_t i = 0; i < take; i++)
			mark_free(w, chunk[i]);
		at += take * 8;
		count -= take;
	}
	return true;
}

static uint16_t u16_at(const uint8_t *p)
{
	uint16_t v;

	memcpy(&v, p, sizeof v);
	return v;
}

/* The data of a leaf's node, or the list it points to. */
static bool take_leaf_node(struct walk *w, uint64_t page, const uint8_t *p, size_t at)
{
	uint64_t size = u16_at(p + at) | (uint64_t)u16_at(p + at + 2) << 16, big;
	size_t data = at + NODE_HEADER + u16_at(p + at + 6);
	uint8_t header[PAGE_HEADER];

	if (!(u16_at(p + at + 4) & NODE_BIGDATA))
		return data + size <= w->head->page_size && take_list(w, page * w->head->page_size + data, size);
	if (data + 8 > w->head->page_size) return false;
	memcpy(&big, p + data, 8);
	if (big > w->head->last_page || !read_at(w->fd, big * w->head->page_size, header, sizeof header) ||
		!(u16_at(header + 10) & PAGE_OVERFLOW))
		return false;
	return take_list(w, big * w->head->page_size + PAGE_HEADER, size);
}

static bool walk_page(struct walk *w, uint64_t page, unsigned depth);

static bool take_node(struct walk *w, uint64_t page, const uint8_t *p, size_t at, unsigned depth)
{
	uint64_t child;

	if (at < PAGE_HEADER || at + NODE_HEADER > w->head->page_size) return false;
	if (depth == 1) return take_leaf_node(w, page, p, at);
	child = u16_at(p + at) | (uint64_t)u16_at(p + at + 2) << 16 | (uint64_t)u16_at(p + at + 4) << 32;
	return walk_page(w, child, depth - 1);
}

/* One page of the tree of free pages and all below it. False: it is not all there, or not a tree. */
static bool walk_page(struct walk *w, uint64_t page, unsigned depth)
{
	size_t size = w->head->page_size, nodes;
	uint8_t *p = NULL;
	bool ok = false;

	if (page >= w->first || depth == 0 || ++w->pages > w->first) return false;
	p = mem_alloc(size);
	if (!read_at(w->fd, page * size, p, size) || !(u16_at(p + 10) & (depth == 1 ? PAGE_LEAF : PAGE_BRANCH)))
		goto out;
	if (u16_at(p + 12) < PAGE_HEADER || u16_at(p + 12) > size) goto out;
	nodes = (u16_at(p + 12) - PAGE_HEADER) / 2u;
	for (size_t i = 0; i < nodes; i++)
		if (!take_node(w, page, p, u16_at(p + PAGE_HEADER + 2 * i), depth)) goto out;
	ok = true;
out:
	free(p);
	return ok;
}

bool file_is_whole(int fd, const char *dir, const struct file_head *head, struct err *err)
{
	uint64_t pages = head->last_page + 1, first = head->size / head->page_size;
	struct walk w = {.fd = fd, .head = head, .first = first, .missing = pages > first ? pages - first : 0};
	bool whole;

	if (w.missing == 0) return true;
	/* Each free page is listed in 8 bytes of the file: so many cannot be. */
	if (w.missing > head->size / 8 || head->free_root == NO_PAGE)
		return is_truncated(dir, head->size, pages * head->page_size, err);
	w.is_free = mem_alloc((size_t)(w.missing / 8 + 1));
	memset(w.is_free, 0, (size_t)(w.missing / 8 + 1));
	whole = walk_page(&w, head->free_root, head->free_depth) && w.found == w.missing;
	free(w.is_free);
	return whole || is_truncated(dir, head->size, pages * head->page_size, err);
}
