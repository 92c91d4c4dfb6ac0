#include "tests/unit/state_store_fixture.h"

#include <grp.h>
#include <lmdb.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/mount.h>

/* ---- small tools ---- */

static off_t file_size(const char *path)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	return st.st_size;
}

static void copy_file(const char *from, const char *to)
{
	size_t n = (size_t)file_size(from);
	char *bytes = malloc(n + 1);
	FILE *in = fopen(from, "r"), *out = fopen(to, "w");

	assert_true(in && out);
	assert_int_equal(fread(bytes, 1, n, in), n);
	assert_int_equal(fwrite(bytes, 1, n, out), n);
	fclose(in);
	assert_int_equal(fclose(out), 0);
	free(bytes);
}

static void write_bytes(const char *path, off_t at, const void *bytes, size_t n)
{
	int fd = open(path, O_WRONLY | O_CREAT, 0660);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, bytes, n, at), n);
	close(fd);
}

static int mode_of(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 ? (int)(st.st_mode & 0777) : -1;
}

static void check_opens(struct place *p, enum store_mode mode, uint32_t table)
{
	struct store *s;
	struct err err;

	CHECK(store_open(p->dir, mode, &s, &err));
	if (table) assert_true(store_row_is(s, table, "a", "1"));
	store_close(s);
}

/* ---- creating ---- */

static void a_writer_makes_directory_and_store(void **state)
{
	struct place *p = *state;
	mode_t old = umask(0);
	struct store *s;
	struct err err;
	uint8_t id[STORE_ID_SIZE], zero[STORE_ID_SIZE] = {0};

	CHECK(store_open(p->dir, STORE_WRITE, &s, &err));
	umask(old);
	assert_string_equal(store_dir(s), p->dir);
	memcpy(id, store_id(s), sizeof id);
	assert_memory_not_equal(id, zero, sizeof id);
	assert_int_equal(mode_of(p->dir), 0770);
	assert_int_equal(mode_of(place_file(p, "data.mdb")), 0660);
	assert_int_equal(mode_of(place_file(p, "lock.mdb")), 0660);
	assert_false(place_has(p, "data.mdb.new"));
	assert_false(place_has(p, "data.mdb.new-lock"));
	store_close(s);
	CHECK(store_open(p->dir, STORE_READ, &s, &err));
	assert_memory_equal(store_id(s), id, sizeof id);
	store_close(s);
	CHECK(store_open(p->dir, STORE_WRITE, &s, &err));
	assert_memory_equal(store_id(s), id, sizeof id);
	store_close(s);
}

static void an_existing_directory_will_do(void **state)
{
	struct place *p = *state;
	char with_slash[120];
	struct store *s;
	struct err err;

	assert_int_equal(mkdir(p->dir, 0700), 0);
	write_bytes(place_file(p, "README"), 0, "hello", 5);
	snprintf(with_slash, sizeof with_slash, "%s//", p->dir);
	CHECK(store_open(with_slash, STORE_WRITE, &s, &err));
	assert_string_equal(store_dir(s), p->dir);
	store_close(s);
}

static void two_stores_have_two_ids(void **state)
{
	struct place *p = *state;
	uint8_t id[STORE_ID_SIZE];
	struct store *s;
	struct err err;

	CHECK(store_open(p->dir, STORE_WRITE, &s, &err));
	memcpy(id, store_id(s), sizeof id);
	store_close(s);
	strcat(p->dir, "2");
	CHECK(store_open(p->dir, STORE_WRITE, &s, &err));
	assert_memory_not_equal(store_id(s), id, sizeof id);
	store_close(s);
}

static void what_a_killed_creation_left_is_replaced(void **state)
{
	struct place *p = *state;

	assert_int_equal(mkdir(p->dir, 0700), 0);
	write_bytes(place_file(p, "data.mdb.new"), 0, "half", 4);
	write_bytes(place_file(p, "data.mdb.new-lock"), 0, "half", 4);
	check_opens(p, STORE_WRITE, 0);
	assert_false(place_has(p, "data.mdb.new"));
	check_opens(p, STORE_READ, 0);
}

static void missing_things_are_named(void **state)
{
	struct place *p = *state;
	struct store *s;
	struct err err;
	char dir[120];

	REFUSED(store_open(p->dir, STORE_READ, &s, &err), ERR_CONFIG, "has no store");
	assert_false(access(p->dir, F_OK) == 0); /* a reader makes nothing */
	snprintf(dir, sizeof dir, "%s/none/deep", p->root);
	REFUSED(store_open(dir, STORE_WRITE, &s, &err), ERR_CONFIG, "parent directory does not exist");
	snprintf(dir, sizeof dir, "%s/file", p->root);
	write_bytes(dir, 0, "x", 1);
	REFUSED(store_open(dir, STORE_WRITE, &s, &err), ERR_CONFIG, "not a directory");
	REFUSED(store_open(dir, STORE_READ, &s, &err), ERR_CONFIG, "has no store");
}

/* ---- one writer ---- */

static void holder(struct peer *me, void *ctx)
{
	struct store *s;
	struct err err;

	if (!peer_step(me, 0) || !store_open(ctx, STORE_WRITE, &s, &err)) return;
	if (!peer_step(me, 'w')) return;
	store_close(s);
	peer_step(me, 'c');
}

static void a_second_writer_is_told_who_is_first(void **state)
{
	struct place *p = *state;
	struct store *s;
	struct peer peer;
	struct err err;
	char expected[160];

	peer_start(&peer, holder, p->dir);
	assert_int_equal(peer_ask(&peer), 'w');
	snprintf(expected, sizeof expected, "store %s is in use by process %d: stop it first", p->dir,
			 (int)peer.pid);
	REFUSED(store_open(p->dir, STORE_WRITE, &s, &err), ERR_BUSY, expected);
	CHECK(store_open(p->dir, STORE_READ, &s, &err));
	store_close(s);
	assert_int_equal(peer_ask(&peer), 'c');
	check_opens(p, STORE_WRITE, 0);
	peer_end(&peer);
}

static void a_killed_writer_leaves_no_lock(void **state)
{
	struct place *p = *state;
	struct peer peer;

	peer_start(&peer, holder, p->dir);
	assert_int_equal(peer_ask(&peer), 'w');
	kill(peer.pid, SIGKILL);
	peer_end(&peer);
	check_opens(p, STORE_WRITE, 0);
}

/* ---- foreign, newer, not LMDB ---- */

static void not_a_store(struct place *p, const char *part)
{
	struct store *s;
	struct err err;

	REFUSED(store_open(p->dir, STORE_READ, &s, &err), ERR_CORRUPT, part);
	REFUSED(store_open(p->dir, STORE_WRITE, &s, &err), ERR_CORRUPT, part);
}

static void a_file_that_is_not_lmdb_is_refused(void **state)
{
	struct place *p = *state;
	char page[8192];

	assert_int_equal(mkdir(p->dir, 0700), 0);
	write_bytes(place_file(p, "data.mdb"), 0, "", 0);
	not_a_store(p, "data.mdb is truncated: 0 bytes, needs 8192");
	write_bytes(place_file(p, "data.mdb"), 0, "hello", 5);
	not_a_store(p, "data.mdb is truncated: 5 bytes");
	memset(page, 'x', sizeof page);
	write_bytes(place_file(p, "data.mdb"), 0, page, sizeof page);
	not_a_store(p, "data.mdb is not an LMDB file");
	assert_int_equal(file_size(place_file(p, "data.mdb")), 8192); /* and left alone */
}

/* Puts key = value into database name (NULL: the main one) of an LMDB environment, with flags for it. */
static void lmdb_put(const char *dir, const char *name, unsigned flags, const char *key, const char *value,
					 size_t n)
{
	MDB_env *env;
	MDB_txn *txn;
	MDB_dbi dbi;
	char *k = strdup(key), *v = malloc(n + 1);
	MDB_val kk = {strlen(key), k}, vv = {n, memcpy(v, value, n)};

	assert_int_equal(mdb_env_create(&env), 0);
	assert_int_equal(mdb_env_set_maxdbs(env, 10), 0);
	assert_int_equal(mdb_env_set_mapsize(env, 1 << 20), 0);
	assert_int_equal(mdb_env_open(env, dir, 0, 0600), 0);
	assert_int_equal(mdb_txn_begin(env, NULL, 0, &txn), 0);
	assert_int_equal(mdb_dbi_open(txn, name, flags, &dbi), 0);
	assert_int_equal(mdb_put(txn, dbi, &kk, &vv, 0), 0);
	assert_int_equal(mdb_txn_commit(txn), 0);
	mdb_env_close(env);
	free(k);
	free(v);
}

static void a_foreign_lmdb_file_is_refused(void **state)
{
	struct place *p = *state;

	assert_int_equal(mkdir(p->dir, 0700), 0);
	lmdb_put(p->dir, NULL, 0, "some", "thing", 5);
	not_a_store(p, "an LMDB file that Tidemark did not make");
	lmdb_put(p->dir, NULL, 0, "meta", "no database", 11);
	not_a_store(p, "an LMDB file that Tidemark did not make");
}

static void a_foreign_database_called_meta_is_refused(void **state)
{
	struct place *p = *state;

	assert_int_equal(mkdir(p->dir, 0700), 0);
	lmdb_put(p->dir, "meta", MDB_CREATE, "other", "thing", 5);
	not_a_store(p, "an LMDB file that Tidemark did not make");
	lmdb_put(p->dir, "meta", 0, "format", "\0\0\0", 3);
	not_a_store(p, "an LMDB file that Tidemark did not make");
	lmdb_put(p->dir, "meta", 0, "format", "\0\0\0\0", 4);
	not_a_store(p, "an LMDB file that Tidemark did not make");
	lmdb_put(p->dir, "meta", 0, "format", "\0\0\0\3", 4);
	not_a_store(p, "an LMDB file that Tidemark did not make");
	lmdb_put(p->dir, "meta", 0, "format", "\0\0\0\1", 4);
	not_a_store(p, "was written by an older version (format 1, this program reads 3): start over");
	lmdb_put(p->dir, "meta", 0, "format", "\0\0\0\4", 4);
	not_a_store(p, "was written by a newer version (format 4, this program reads 3): upgrade");
}

static void another_lmdb_format_is_refused(void **state)
{
	struct place *p = *state;
	uint32_t version = 2;

	check_opens(p, STORE_WRITE, 0);
	write_bytes(place_file(p, "data.mdb"), 16 + 4, &version, sizeof version);
	not_a_store(p, "LMDB file format 2, this program reads 1");
}

/* ---- permissions ---- */

struct as_user {
	struct place *place;
	enum store_mode mode;
	const char *part;
};

/* As a user without rights; root has them all. */
static int open_as_nobody(void *ctx)
{
	struct as_user *c = ctx;
	struct store *s;
	struct err err = {0};

	if (geteuid() == 0 && (setgroups(0, NULL) != 0 || setgid(65534) != 0 || setuid(65534) != 0)) return 3;
	if (store_open(c->place->dir, c->mode, &s, &err)) return 1;
	if (err.kind == ERR_CONFIG && strstr(err.msg, c->part)) return 0;
	fprintf(stderr, "%s\n", err.msg);
	return 2;
}

static void nobody_may_not(struct place *p, enum store_mode mode, const char *part)
{
	struct as_user c = {p, mode, part};

	assert_int_equal(in_child(open_as_nobody, &c), 0);
}

static void missing_permissions_are_named(void **state)
{
	struct place *p = *state;
	char data[160], lock[160];

	check_opens(p, STORE_WRITE, 0);
	snprintf(data, sizeof data, "%s", place_file(p, "data.mdb"));
	snprintf(lock, sizeof lock, "%s", place_file(p, "lock.mdb"));
	assert_int_equal(chmod(p->root, 0755), 0);
	assert_int_equal(chmod(p->dir, 0555), 0);
	assert_int_equal(chmod(data, 0400), 0);
	nobody_may_not(p, STORE_READ, geteuid() == 0 ? "read permission on data.mdb" : "lock.mdb");
	assert_int_equal(chmod(data, 0444), 0);
	assert_int_equal(chmod(lock, 0444), 0);
	nobody_may_not(p, STORE_READ, "write permission on lock.mdb is missing");
	assert_int_equal(unlink(lock) == 0 || geteuid() != 0, 1);
	nobody_may_not(p, STORE_READ, "write permission on lock.mdb is missing");
	assert_int_equal(chmod(place_file(p, "tidemark.lock"), 0444), 0);
	nobody_may_not(p, STORE_WRITE, "read and write permission");
	assert_int_equal(chmod(p->dir, 0700), 0);
	if (geteuid() == 0) nobody_may_not(p, STORE_READ, "read permission on data.mdb or its directory");
	assert_int_equal(chmod(p->root, 0555), 0);
	strcat(p->dir, "2");
	nobody_may_not(p, STORE_WRITE, "write permission on its parent directory is missing");
	assert_int_equal(chmod(p->root, 0700), 0);
}

/* In a mount namespace of its own; 77: this machine does not allow that. */
static int open_read_only(void *ctx)
{
	struct place *p = ctx;
	struct store *s;
	struct err err;

	if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) != 0 ||
		mount(p->root, p->root, "none", MS_BIND, NULL) != 0 ||
		mount("none", p->root, "none", MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) != 0)
		return 77;
	if (store_open(p->dir, STORE_READ, &s, &err)) return 1;
	if (err.kind != ERR_CONFIG || !strstr(err.msg, "file system is read-only, and even reading")) return 2;
	if (store_open(p->dir, STORE_WRITE, &s, &err)) return 3;
	return err.kind == ERR_CONFIG && strstr(err.msg, "file system is read-only: mount it") ? 0 : 4;
}

static void a_read_only_file_system_is_named(void **state)
{
	struct place *p = *state;
	int rc;

	check_opens(p, STORE_WRITE, 0);
	rc = in_child(open_read_only, p);
	if (rc == 77) skip();
	assert_int_equal(rc, 0);
}

/* ---- truncation ---- */

/*
 * A file that is damaged and opened many times, all in one child: what kills
 * the child is a failure, and `at` says where.
 */
struct damage {
	struct place *place;
	char data[160], whole[160]; /* paths */
	off_t at;
	unsigned refused, complete;
};

static struct damage *damage_begin(struct place *p)
{
	struct damage *d = mmap(NULL, sizeof *d, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_true(d != MAP_FAILED);
	d->place = p;
	snprintf(d->data, sizeof d->data, "%s", place_file(p, "data.mdb"));
	snprintf(d->whole, sizeof d->whole, "%s/whole", p->root);
	copy_file(d->data, d->whole);
	return d;
}

static void damage_run(struct damage *d, int (*f)(void *))
{
	int rc = in_child(f, d);

	if (rc != 0) fail_msg("at %lld: %d", (long long)d->at, rc);
}

/* 0: opens and is complete; 1: refused as truncated; 2 and up: wrong. */
static int open_truncated(struct place *p)
{
	struct store_scan *scan;
	struct store_txn *t;
	struct slice k, v;
	struct store *s;
	struct err err;
	bool found;
	size_t n = 0;

	if (!store_open(p->dir, STORE_READ, &s, &err))
		return err.kind == ERR_CORRUPT && strstr(err.msg, "data.mdb is truncated") ? 1 : 2;
	if (!store_begin_read(s, &t, &err)) return 3;
	for (uint32_t table = 1; table <= 2; table++) {
		if (!store_scan_open(t, table, SPACE_ROWS, bytes_of(NULL, 0), &scan, &err)) return 4;
		while (store_scan_next(scan, &k, &v, &found, &err) && found)
			n += v.n > 0 && v.p[v.n - 1] >= '0';
		store_scan_close(scan);
	}
	store_abort(t);
	store_close(s);
	return n == 404 ? 0 : 5;
}

/* Two tables of 202 rows in a file with free pages in it, some of them at its end. */
static void make_fragmented(struct place *p)
{
	char key[32], *big = malloc(20000);
	struct store *s = store_with_tables(p->dir, 2);
	struct store_txn *t;
	struct err err;

	memset(big, 'z', 20000);
	for (int i = 0; i < 200; i++) {
		CHECK(store_begin_write(s, &t, &err));
		snprintf(key, sizeof key, "key %d", i * 7919 % 1000);
		put_row(t, 1, key, "value 0");
		CHECK(store_row_put(t, 2, slice_of(key), bytes_of(big, i % 10 == 0 ? 20000 : 10), &err));
		CHECK(store_commit(t, &err));
	}
	CHECK(store_begin_write(s, &t, &err));
	CHECK(store_row_put(t, 1, slice_of("big"), bytes_of(big, 20000), &err));
	CHECK(store_commit(t, &err));
	CHECK(store_begin_write(s, &t, &err));
	CHECK(store_row_del(t, 1, slice_of("big"), &err));
	CHECK(store_commit(t, &err));
	store_close(s);
	free(big);
}

/* At every page boundary, and in the middle of every page. */
static int open_every_truncation(void *ctx)
{
	struct damage *d = ctx;

	for (d->at = file_size(d->whole); d->at >= 0; d->at -= 2048) {
		int rc;

		copy_file(d->whole, d->data);
		if (truncate(d->data, d->at) != 0) return 9;
		rc = open_truncated(d->place);
		if (rc > 1) return rc;
		*(rc ? &d->refused : &d->complete) += 1;
	}
	return 0;
}

static void no_truncation_goes_unnoticed(void **state)
{
	struct damage *d;

	make_fragmented(*state);
	d = damage_begin(*state);
	damage_run(d, open_every_truncation);
	assert_true(d->refused > 40 && d->complete > 1);
	munmap(d, sizeof *d);
}

static bool file_is_short(struct place *p)
{
	MDB_env *env;
	MDB_envinfo info;
	MDB_stat st;

	assert_int_equal(mdb_env_create(&env), 0);
	assert_int_equal(mdb_env_set_mapsize(env, 1), 0); /* as little as will do */
	assert_int_equal(mdb_env_open(env, p->dir, MDB_RDONLY, 0), 0);
	mdb_env_info(env, &info);
	mdb_env_stat(env, &st);
	mdb_env_close(env);
	return (size_t)file_size(place_file(p, "data.mdb")) < (info.me_last_pgno + 1) * st.ms_psize;
}

/* LMDB does not write pages that one transaction allocates and frees. */
static void allocate_and_free(struct store_txn *t)
{
	char *big = calloc(1, 300000);
	struct err err;

	CHECK(store_row_put(t, 1, slice_of("big"), bytes_of(big, 300000), &err));
	put_row(t, 1, "behind it", "1");
	CHECK(store_row_del(t, 1, slice_of("big"), &err));
	free(big);
}

static void a_short_file_with_free_pages_at_its_end_is_whole(void **state)
{
	struct place *p = *state;
	struct store *s = store_with_tables(p->dir, 2);
	struct store_txn *t;
	struct err err;

	CHECK(store_begin_write(s, &t, &err));
	allocate_and_free(t);
	CHECK(store_commit(t, &err));
	store_close(s);
	assert_true(file_is_short(p)); /* or this test tests nothing */
	check_opens(p, STORE_READ, 1);
	check_opens(p, STORE_WRITE, 1);
	assert_int_equal(truncate(place_file(p, "data.mdb"), 4096 * 3), 0);
	not_a_store(p, "data.mdb is truncated");
}

/* So many free pages that their list fills pages of its own. */
static void a_long_list_of_free_pages_is_read(void **state)
{
	struct place *p = *state;
	struct store *s = store_with_tables(p->dir, 2);
	char *row = calloc(1, 2000);
	struct store_txn *t;
	struct err err;

	CHECK(store_begin_write(s, &t, &err));
	for (uint32_t i = 0; i < 4000; i++)
		CHECK(store_row_put(t, 2, bytes_of(&i, sizeof i), bytes_of(row, 2000), &err));
	CHECK(store_commit(t, &err));
	CHECK(store_begin_write(s, &t, &err));
	CHECK(store_rows_drop(t, 2, &err));
	allocate_and_free(t);
	CHECK(store_commit(t, &err));
	store_close(s);
	free(row);
	assert_true(file_is_short(p));
	check_opens(p, STORE_READ, 1);
	assert_int_equal(truncate(place_file(p, "data.mdb"), 4096 * 100), 0);
	not_a_store(p, "data.mdb is truncated");
}

static uint64_t random_next(uint64_t *seed)
{
	return *seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407;
}

static void damage_byte(const struct damage *d, uint64_t *seed, off_t from, off_t n)
{
	uint8_t byte = (uint8_t)(random_next(seed) >> 40);

	write_bytes(d->data, from + (off_t)((random_next(seed) >> 16) % (uint64_t)n), &byte, 1);
}

static bool opens_or_is_refused(struct place *p)
{
	struct store *s;
	struct err err;

	if (!store_open(p->dir, STORE_READ, &s, &err)) return err.kind == ERR_CORRUPT || err.kind == ERR_NOMEM;
	store_close(s);
	return true;
}

/* The meta pages, up to page size and depth of the first tree. */
static int open_damaged_meta(void *ctx)
{
	struct damage *d = ctx;
	uint64_t seed = 1;

	for (d->at = 0; d->at < 300; d->at++) {
		copy_file(d->whole, d->data);
		damage_byte(d, &seed, d->at % 2 * 4096, 48);
		if (!opens_or_is_refused(d->place)) return 1;
	}
	return 0;
}

/* The end is missing, so the list of free pages is looked at, and 40 bytes are wrong. */
static int open_damaged_lists(void *ctx)
{
	struct damage *d = ctx;
	off_t size = file_size(d->whole);
	uint64_t seed = 2;

	for (d->at = 0; d->at < 300; d->at++) {
		copy_file(d->whole, d->data);
		if (truncate(d->data, size - 4096) != 0) return 9;
		for (int i = 0; i < 40; i++)
			damage_byte(d, &seed, 8192, size - 12288);
		if (!opens_or_is_refused(d->place)) return 1;
	}
	return 0;
}

/* Damage to what is looked at before LMDB looks is an error or harmless, never a crash. */
static void damage_does_not_crash(void **state)
{
	struct damage *d;

	make_fragmented(*state);
	d = damage_begin(*state);
	damage_run(d, open_damaged_meta);
	damage_run(d, open_damaged_lists);
	munmap(d, sizeof *d);
}

/* ---- a file replaced under its readers ---- */

static void lingerer(struct peer *me, void *ctx)
{
	struct store *s;
	struct err err;

	if (!peer_step(me, 0) || !store_open(ctx, STORE_READ, &s, &err)) return;
	if (!peer_step(me, 'r')) return;
	store_close(s);
	peer_step(me, 'c');
}

static void a_file_replaced_while_it_is_read_is_noticed(void **state)
{
	struct place *p = *state;
	char data[160], old[160];
	struct store *s;
	struct peer peer;
	struct err err;

	peer_start(&peer, lingerer, p->dir);
	s = store_with_tables(p->dir, 1);
	store_close(s);
	snprintf(data, sizeof data, "%s", place_file(p, "data.mdb"));
	snprintf(old, sizeof old, "%s/old", p->root);
	copy_file(data, old);
	CHECK(store_open(p->dir, STORE_WRITE, &s, &err));
	for (int i = 0; i < 5; i++)
		CHECK(store_set_row(s, 1, "a", "new", &err));
	assert_int_equal(peer_ask(&peer), 'r');
	store_close(s);
	assert_int_equal(rename(old, data), 0);
	not_a_store(p, "lock.mdb belongs to another data.mdb");
	assert_int_equal(peer_ask(&peer), 'c');
	peer_end(&peer);
	check_opens(p, STORE_WRITE, 1);
}

/* Removed and made again while an old reader still holds its files. */
static void a_new_store_does_not_inherit_a_lock_file(void **state)
{
	struct place *p = *state;
	struct store *s;
	struct peer peer;
	struct err err;

	peer_start(&peer, lingerer, p->dir);
	s = store_with_tables(p->dir, 1);
	for (int i = 0; i < 5; i++)
		CHECK(store_set_row(s, 1, "a", "new", &err));
	assert_int_equal(peer_ask(&peer), 'r');
	store_close(s);
	assert_int_equal(unlink(place_file(p, "data.mdb")), 0);
	s = store_with_tables(p->dir, 1);
	assert_true(store_row_is(s, 1, "a", "1"));
	store_close(s);
	assert_int_equal(peer_ask(&peer), 'c');
	peer_end(&peer);
	check_opens(p, STORE_READ, 1);
}

/* ---- a map that grows ---- */

/* As if the store had been made where little address space was allowed. */
static void shrink_map(const char *data, uint64_t size)
{
	write_bytes(data, 16 + 16, &size, sizeof size);
	write_bytes(data, 4096 + 16 + 16, &size, sizeof size);
}

static void grower(struct peer *me, void *ctx)
{
	struct store *s;
	struct store_txn *t;
	struct err err;
	char *big = calloc(1, 100000);

	if (!peer_step(me, 0) || !store_open(ctx, STORE_WRITE, &s, &err)) return;
	if (!peer_step(me, 'o')) return;
	if (!store_begin_write(s, &t, &err)) return;
	for (int i = 0; i < 20; i++)
		if (!store_row_put(t, 1, bytes_of(&i, sizeof i), bytes_of(big, 100000), &err)) return;
	if (!store_commit(t, &err) || !peer_step(me, 'g')) return;
	store_close(s);
	free(big);
	peer_step(me, '.');
}

static void a_reader_follows_a_map_that_grows(void **state)
{
	struct place *p = *state;
	struct store_txn *old, *t;
	struct store *s;
	struct peer peer;
	struct err err;

	peer_start(&peer, grower, p->dir);
	s = store_with_tables(p->dir, 1);
	store_close(s);
	shrink_map(place_file(p, "data.mdb"), 1 << 20);
	CHECK(store_open(p->dir, STORE_READ, &s, &err));
	assert_int_equal(peer_ask(&peer), 'o');
	CHECK(store_begin_read(s, &old, &err));
	assert_int_equal(peer_ask(&peer), 'g');
	REFUSED(store_begin_read(s, &t, &err), ERR_DISK, "end the other transactions of this process first");
	assert_true(row_is(old, 1, "a", "1"));
	store_abort(old);
	CHECK(store_begin_read(s, &t, &err));
	assert_true(row_is(t, 1, "a", "1"));
	store_abort(t);
	assert_int_equal(peer_ask(&peer), '.');
	peer_end(&peer);
	store_close(s);
}

/* ---- unsynced writes ---- */

static void unsynced_writes_are_marked_until_synced(void **state)
{
	struct place *p = *state;
	struct store *s;
	struct store_txn *t;
	struct table_record r = table_of(1, "t");
	struct err err;

	CHECK(store_open(p->dir, STORE_WRITE_FAST, &s, &err));
	assert_true(place_has(p, "tidemark.unsynced"));
	CHECK(store_begin_write(s, &t, &err));
	CHECK(store_put_table(t, &r, &err));
	put_row(t, 1, "a", "1");
	CHECK(store_commit(t, &err));
	CHECK(store_sync(s, &err));
	assert_false(place_has(p, "tidemark.unsynced"));
	CHECK(store_set_row(s, 1, "b", "2", &err));
	CHECK(store_sync(s, &err));
	store_close(s);
	check_opens(p, STORE_READ, 1);
	CHECK(store_open(p->dir, STORE_WRITE_FAST, &s, &err)); /* no longer new: synced as usual */
	assert_false(place_has(p, "tidemark.unsynced"));
	store_close(s);
}

static void unsynced_writes_survive_a_killed_process(void **state)
{
	struct place *p = *state;
	struct store *s;
	struct err err;

	CHECK(store_open(p->dir, STORE_WRITE_FAST, &s, &err));
	store_close(s); /* without store_sync(), as if killed */
	assert_true(place_has(p, "tidemark.unsynced"));
	check_opens(p, STORE_READ, 0);
	check_opens(p, STORE_WRITE_FAST, 0);
	assert_true(place_has(p, "tidemark.unsynced"));
	check_opens(p, STORE_WRITE, 0); /* makes it durable */
	assert_false(place_has(p, "tidemark.unsynced"));
}

static void unsynced_writes_before_a_restart_of_the_machine_are_refused(void **state)
{
	struct place *p = *state;
	struct store *s;
	struct err err;

	CHECK(store_open(p->dir, STORE_WRITE_FAST, &s, &err));
	store_close(s);
	write_bytes(place_file(p, "tidemark.unsynced"), 0, "another-boot-id", 15);
	not_a_store(p, "cut by a power loss or a disk error");
	REFUSED(store_open(p->dir, STORE_WRITE_FAST, &s, &err), ERR_CORRUPT,
			"start over with an empty directory");
	assert_int_equal(unlink(place_file(p, "data.mdb")), 0);
	check_opens(p, STORE_WRITE, 0); /* started over */
	assert_false(place_has(p, "tidemark.unsynced"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORE_TEST(a_writer_makes_directory_and_store),
		STORE_TEST(an_existing_directory_will_do),
		STORE_TEST(two_stores_have_two_ids),
		STORE_TEST(what_a_killed_creation_left_is_replaced),
		STORE_TEST(missing_things_are_named),
		STORE_TEST(a_second_writer_is_told_who_is_first),
		STORE_TEST(a_killed_writer_leaves_no_lock),
		STORE_TEST(a_file_that_is_not_lmdb_is_refused),
		STORE_TEST(a_foreign_lmdb_file_is_refused),
		STORE_TEST(a_foreign_database_called_meta_is_refused),
		STORE_TEST(another_lmdb_format_is_refused),
		STORE_TEST(missing_permissions_are_named),
		STORE_TEST(a_read_only_file_system_is_named),
		STORE_TEST(no_truncation_goes_unnoticed),
		STORE_TEST(a_short_file_with_free_pages_at_its_end_is_whole),
		STORE_TEST(a_long_list_of_free_pages_is_read),
		STORE_TEST(damage_does_not_crash),
		STORE_TEST(a_file_replaced_while_it_is_read_is_noticed),
		STORE_TEST(a_new_store_does_not_inherit_a_lock_file),
		STORE_TEST(a_reader_follows_a_map_that_grows),
		STORE_TEST(unsynced_writes_are_marked_until_synced),
		STORE_TEST(unsynced_writes_survive_a_killed_process),
		STORE_TEST(unsynced_writes_before_a_restart_of_the_machine_are_refused),
	};

	return cmocka_run_group_tests_name("state/store_open", tests, NULL, NULL);
}
