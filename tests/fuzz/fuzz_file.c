/*
 * data.mdb before LMDB maps it: a real file with bytes changed in its meta
 * pages and tree of free pages, and cut. It is whole, or it is called what it is; looking at it
 * takes no longer than the file is large.
 */
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "state/store_impl.h"
#include "tests/fuzz/fuzz.h"

#define EDITS_MAX 6
#define ROWS      400

static struct buf sound; /* the whole file */
static int fd;

static void ok(int rc)
{
	CHECK_THAT(rc == 0, "%s", mdb_strerror(rc));
}

/* Rows come and go in several transactions, so that many pages are free, and some were never written. */
static void write_rows(MDB_env *env, unsigned round)
{
	char value[600];
	MDB_txn *txn;
	MDB_dbi dbi;

	memset(value, 'x', sizeof value);
	ok(mdb_txn_begin(env, NULL, 0, &txn));
	ok(mdb_dbi_open(txn, "rows", MDB_CREATE, &dbi));
	for (uint32_t i = 0; i < ROWS; i++) {
		MDB_val k = {sizeof i, &i}, v = {sizeof value, value};
		int rc = (i + round) % 3 == 0 ? mdb_del(txn, dbi, &k, NULL) : mdb_put(txn, dbi, &k, &v, 0);

		CHECK_THAT(rc == 0 || rc == MDB_NOTFOUND, "%s", mdb_strerror(rc));
	}
	if (round == 3) ok(mdb_drop(txn, dbi, 0));
	ok(mdb_txn_commit(txn));
}

static void read_all(const char *path)
{
	FILE *in = fopen(path, "re");
	struct stat st;

	CHECK_THAT(in && fstat(fileno(in), &st) == 0, "%s", path);
	CHECK_THAT(fread(buf_extend(&sound, (size_t)st.st_size), (size_t)st.st_size, 1, in) == 1, "%s", path);
	fclose(in);
}

static void make_sound(void)
{
	const char *root = getenv("TIDEMARK_FUZZ_TMP");
	char path[300], lock[320];
	MDB_env *env;

	snprintf(path, sizeof path, "%s/tidemark-file-XXXXXX", root ? root : "/tmp");
	CHECK_THAT(mkstemp(path) >= 0, "%s", path);
	ok(mdb_env_create(&env));
	ok(mdb_env_set_maxdbs(env, 4));
	ok(mdb_env_set_mapsize(env, 16 << 20));
	ok(mdb_env_open(env, path, MDB_NOSUBDIR | MDB_NOSYNC, 0600));
	for (unsigned round = 0; round < 5; round++)
		write_rows(env, round);
	mdb_env_close(env);
	read_all(path);
	snprintf(lock, sizeof lock, "%s-lock", path);
	unlink(path);
	unlink(lock);
}

static void put(size_t at, const void *bytes, size_t n)
{
	CHECK_THAT(pwrite(fd, bytes, n, (off_t)at) == (ssize_t)n, "memory file");
}

/* False: refused. */
static bool look(void)
{
	struct file_head head;
	struct err err = {0};

	if (file_head_read(fd, "fuzz", &head, &err) && file_is_whole(fd, "fuzz", &head, &err)) return true;
	check_refusal(&err);
	CHECK_THAT(err.kind == ERR_CORRUPT, "%s", err.msg);
	return false;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	make_sound();
	fd = memfd_create("data.mdb", MFD_CLOEXEC);
	CHECK_THAT(fd >= 0, "no memory file");
	put(0, sound.p, sound.n);
	CHECK_THAT(look(), "the sound file is refused");
	return 0;
}

/* A few bytes of one page: the meta pages are 0 and 1. */
static void edit(struct feed *f)
{
	size_t pages = sound.n / 4096, page = feed_uint(f, 2) % pages, offset = feed_uint(f, 2) % 4096;
	struct slice in = feed_bytes(f, feed_u8(f) % 16);

	if (offset + in.n <= 4096) put(page * 4096 + offset, in.p, in.n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = feed_of(data, size);
	size_t cut = feed_uint(&f, 2), edits = feed_u8(&f) % (EDITS_MAX + 1);

	while (edits-- > 0)
		edit(&f);
	/* Cut at pages, mostly, from the end. */
	cut = cut & 0x8000 ? (cut & 0x7FFF) * 16 : cut * 4096;
	CHECK_THAT(ftruncate(fd, (off_t)(cut < sound.n ? sound.n - cut : 0)) == 0, "memory file");
	(void)look();
	put(0, sound.p, sound.n);
	return 0;
}
