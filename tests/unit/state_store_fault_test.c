/*
 * Faults of the disk: the calls with which LMDB and we write are replaced by
 * ones that fail, or kill the process, at the nth. LMDB finds them here because a program's
 * own functions come before those of libraries.
 */
#include "tests/unit/state_store_fixture.h"

#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>

enum call { CALL_PAGES, CALL_META, CALL_SYNC, CALL_RENAME, CALLS };

static struct plan {
	unsigned seen[CALLS]; /* calls so far */
	enum call call;       /* the one to fail */
	unsigned nth;         /* of it; 0: none */
	int error;            /* errno; 0: the process is killed */
	unsigned any;         /* calls of all kinds so far */
	unsigned kill_at;     /* of them; 0: never */
	bool cut;             /* the call to fail does half of it instead */
	bool kill_after_meta; /* as soon as a meta page is written */
} plan;

static bool fails(enum call call)
{
	if (++plan.any == plan.kill_at) kill(getpid(), SIGKILL);
	if (++plan.seen[call] != plan.nth || plan.call != call) return false;
	errno = plan.error;
	return true;
}

static void plan_fault(enum call call, unsigned nth, int error)
{
	plan = (struct plan){.call = call, .nth = nth, .error = error};
}

static void plan_none(void)
{
	plan = (struct plan){0};
}

ssize_t pwrite(int fd, const void *p, size_t n, off_t at);
ssize_t writev(int fd, const struct iovec *v, int n);
int fdatasync(int fd);
int fsync(int fd);
int rename(const char *from, const char *to);

/* LMDB's meta pages are written without their unused rest. */
ssize_t pwrite(int fd, const void *p, size_t n, off_t at)
{
	long done;

	if (fails(n < 256 ? CALL_META : CALL_PAGES)) return plan.cut ? (ssize_t)n / 2 : -1;
	done = syscall(SYS_pwrite64, fd, p, n, at);
	if (n < 256 && plan.kill_after_meta) kill(getpid(), SIGKILL);
	return done;
}

ssize_t writev(int fd, const struct iovec *v, int n)
{
	if (fails(CALL_PAGES)) return plan.cut ? (ssize_t)v[0].iov_len / 2 : -1;
	return syscall(SYS_writev, fd, v, n);
}

int fdatasync(int fd)
{
	return fails(CALL_SYNC) ? -1 : (int)syscall(SYS_fdatasync, fd);
}

int fsync(int fd)
{
	return fails(CALL_SYNC) ? -1 : (int)syscall(SYS_fsync, fd);
}

int rename(const char *from, const char *to)
{
	return fails(CALL_RENAME) ? -1 : (int)syscall(SYS_rename, from, to);
}

/* ---- a failed commit ---- */

/* The commit fails, nothing of it is there, and the next one works. */
static void check_commit_fails(struct place *p, enum call call, int error, const char *part)
{
	struct store *s = store_with_tables(p->dir, 1);
	struct err err = {0};

	plan_fault(call, 1, error);
	assert_false(store_set_row(s, 1, "a", "lost", &err));
	plan_none();
	assert_int_equal(err.kind, ERR_DISK);
	if (!strstr(err.msg, part) || !strstr(err.msg, p->dir)) fail_msg("%s", err.msg);
	assert_true(store_row_is(s, 1, "a", "1"));
	CHECK(store_set_row(s, 1, "a", "kept", &err));
	assert_true(store_row_is(s, 1, "a", "kept"));
	CHECK(store_sync(s, &err));
	store_close(s);
	CHECK(store_open(p->dir, STORE_READ, &s, &err));
	assert_true(store_row_is(s, 1, "a", "kept"));
	store_close(s);
}

static void a_full_disk_leaves_the_last_commit(void **state)
{
	check_commit_fails(*state, CALL_PAGES, ENOSPC, "the disk is full: free some space");
}

static void a_used_up_quota_leaves_the_last_commit(void **state)
{
	check_commit_fails(*state, CALL_PAGES, EDQUOT, "the disk quota is used up");
}

static void a_failed_page_write_leaves_the_last_commit(void **state)
{
	check_commit_fails(*state, CALL_PAGES, EIO, "input/output error");
}

static void a_failed_sync_leaves_the_last_commit(void **state)
{
	check_commit_fails(*state, CALL_SYNC, EIO, "input/output error");
}

static void a_failed_meta_write_leaves_the_last_commit(void **state)
{
	check_commit_fails(*state, CALL_META, EIO, "input/output error");
}

/* LMDB refuses everything after a meta page that it could not write, whatever the reason. */
static void a_meta_write_without_space_leaves_the_last_commit(void **state)
{
	check_commit_fails(*state, CALL_META, ENOSPC, "the disk is full");
}

/* The limit of the file's size, by which a disk can be filled without a disk. */
static void a_limit_of_the_files_size_is_named(void **state)
{
	struct place *p = *state;
	struct store *s = store_with_tables(p->dir, 1);
	struct rlimit old, tight;
	struct store_txn *t;
	char big[100000] = "";
	struct err err = {0};

	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	tight = old;
	tight.rlim_cur = 65536;
	CHECK(store_begin_write(s, &t, &err));
	CHECK(store_row_put(t, 1, slice_of("big"), bytes_of(big, sizeof big), &err));
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
	assert_false(store_commit(t, &err));
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	assert_int_equal(err.kind, ERR_DISK);
	if (!strstr(err.msg, "ulimit -f")) fail_msg("%s", err.msg);
	assert_true(store_row_is(s, 1, "big", NULL));
	CHECK(store_set_row(s, 1, "a", "kept", &err));
	assert_true(store_row_is(s, 1, "a", "kept"));
	store_close(s);
}

/* ---- a disk that is really full, and address space that is ---- */

static bool fill_until_refused(struct store *s, struct err *err)
{
	char row[1000] = "", key[16];
	struct store_txn *t;

	for (int i = 0;; i++) {
		if (!store_begin_write(s, &t, err)) return false;
		for (int j = 0; j < 100; j++) {
			snprintf(key, sizeof key, "%d-%d", i, j);
			if (store_row_put(t, 1, slice_of(key), bytes_of(row, sizeof row), err)) continue;
			store_abort(t);
			return false;
		}
		if (!store_commit(t, err)) return false;
	}
}

/* In a mount namespace of its own; 77: this machine does not allow that. */
static int fill_disk(void *ctx)
{
	struct place *p = ctx;
	char filler[160], zeroes[200000] = "";
	struct store *s;
	struct err err;
	int fd;

	if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) != 0 ||
		mount("none", p->root, "tmpfs", 0, "size=1m") != 0)
		return 77;
	s = store_with_tables(p->dir, 1);
	snprintf(filler, sizeof filler, "%s/filler", p->root);
	fd = open(filler, O_WRONLY | O_CREAT, 0600);
	if (fd < 0 || write(fd, zeroes, sizeof zeroes) != sizeof zeroes) return 1;
	close(fd);
	fill_until_refused(s, &err);
	if (err.kind != ERR_DISK || !strstr(err.msg, "the disk is full")) return 2;
	if (!store_row_is(s, 1, "a", "1")) return 3;
	if (unlink(filler) != 0) return 4;
	if (!store_set_row(s, 1, "a", "kept", &err)) return 5;
	store_close(s);
	if (!store_open(p->dir, STORE_READ, &s, &err)) return 6;
	if (!store_row_is(s, 1, "a", "kept")) return 7;
	store_close(s);
	return 0;
}

static void a_disk_that_is_full_can_be_freed(void **state)
{
	int rc = in_child(fill_disk, *state);

	if (rc == 77) skip();
	assert_int_equal(rc, 0);
}

/* Some of the space can be left when a write is cut short. */
static void a_write_cut_short_is_a_full_disk(void **state)
{
	struct place *p = *state;
	struct store *s = store_with_tables(p->dir, 1);
	struct err err = {0};

	plan_fault(CALL_PAGES, 1, 0);
	plan.cut = true;
	assert_false(store_set_row(s, 1, "a", "lost", &err));
	plan_none();
	assert_int_equal(err.kind, ERR_DISK);
	if (!strstr(err.msg, "the disk is full")) fail_msg("%s", err.msg);
	CHECK(store_set_row(s, 1, "a", "kept", &err));
	assert_true(store_row_is(s, 1, "a", "kept"));
	store_close(s);
}

static void a_creation_cut_short_is_a_full_disk(void **state)
{
	struct place *p = *state;
	struct store *s;
	struct err err = {0};
	bool opened;
	unsigned n = 0;

	do {
		plan_fault(CALL_PAGES, ++n, 0);
		plan.cut = true;
		opened = store_open(p->dir, STORE_WRITE, &s, &err);
		if (!opened && (err.kind != ERR_DISK || !strstr(err.msg, "the disk is full")))
			fail_msg("write %u: %s", n, err.msg);
	} while (!opened);
	assert_true(n > 2);
	plan_none();
	store_close(s);
}

/* A reader that writes into a hole of lock.mdb is killed when the disk is full. */
static void the_table_of_readers_has_its_space(void **state)
{
	struct place *p = *state;
	struct store *s = store_with_tables(p->dir, 1);
	struct stat st;

	assert_int_equal(stat(place_file(p, "lock.mdb"), &st), 0);
	assert_true(st.st_size >= 1023 * 64);
	assert_true(st.st_blocks * INT64_C(512) >= st.st_size);
	store_close(s);
}

static int fill_address_space(void *ctx)
{
	struct place *p = ctx;
	struct rlimit tight = {UINT64_C(64) << 20, UINT64_C(64) << 20};
	struct store *s;
	struct err err;

	if (setrlimit(RLIMIT_AS, &tight) != 0) return 1;
	s = store_with_tables(p->dir, 1);
	fill_until_refused(s, &err);
	if (err.kind != ERR_DISK || !strstr(err.msg, "ulimit -v")) return 2;
	if (!store_set_row(s, 1, "a", "kept", &err)) return 3; /* a page or two are always free */
	store_close(s);
	if (!store_open(p->dir, STORE_READ, &s, &err)) return 4;
	return store_row_is(s, 1, "a", "kept") ? 0 : 5;
}

/* A TiB of it is asked for, and less is taken. */
static void little_address_space_is_enough(void **state)
{
	struct place *p = *state;
	struct store *s;
	struct err err;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	skip(); /* sanitizers need terabytes themselves */
#endif
	if (getenv("LD_PRELOAD") && strstr(getenv("LD_PRELOAD"), "vgpreload")) skip(); /* and so does valgrind */
	assert_int_equal(in_child(fill_address_space, p), 0);
	CHECK(store_open(p->dir, STORE_WRITE, &s, &err));
	CHECK(store_set_row(s, 1, "b", "more", &err));
	store_close(s);
}

/* ---- killed between the meta page and the number in lock.mdb ---- */

static void witness(struct peer *me, void *ctx)
{
	struct store *s;
	struct err err;

	if (!peer_step(me, 0) || !store_open(ctx, STORE_READ, &s, &err)) return;
	if (!peer_step(me, 'r')) return;
	store_close(s);
	peer_step(me, 'c');
}

static int commit_killed(void *ctx)
{
	struct place *p = ctx;
	struct table_record r = table_of(2, "t2");
	struct store *s;
	struct store_txn *t;
	struct err err;

	if (!store_open(p->dir, STORE_WRITE, &s, &err) || !store_begin_write(s, &t, &err)) return 1;
	if (!store_put_table(t, &r, &err)) return 2;
	put_row(t, 2, "a", "last");
	plan.kill_after_meta = true;
	store_commit(t, &err);
	return 3;
}

static bool has_table(struct store *s, uint32_t id)
{
	struct table_record r;
	struct store_txn *t;
	struct err err;
	bool found;

	CHECK(store_begin_read(s, &t, &err));
	CHECK(store_get_table(t, id, &r, &found, &err));
	table_record_free(&r);
	store_abort(t);
	return found;
}

/* With a reader that keeps lock.mdb as it is. The commit never returned, so it may count or not. */
static void a_commit_killed_at_its_last_step_is_whole_or_undone(void **state)
{
	struct place *p = *state;
	struct store *s;
	struct peer peer;
	struct err err;

	peer_start(&peer, witness, p->dir);
	s = store_with_tables(p->dir, 1);
	store_close(s);
	assert_int_equal(peer_ask(&peer), 'r');
	assert_int_equal(in_child(commit_killed, p), 1000 + SIGKILL);
	CHECK(store_open(p->dir, STORE_WRITE, &s, &err));
	assert_true(store_row_is(s, 1, "a", "1"));
	assert_true(store_row_is(s, 2, "a", has_table(s, 2) ? "last" : NULL));
	CHECK(store_set_row(s, 1, "a", "kept", &err));
	store_close(s);
	assert_int_equal(peer_ask(&peer), 'c');
	peer_end(&peer);
	CHECK(store_open(p->dir, STORE_READ, &s, &err));
	assert_true(store_row_is(s, 1, "a", "kept"));
	store_close(s);
}

/* ---- opening again ---- */

static void opening_again_waits_for_other_transactions(void **state)
{
	struct place *p = *state;
	struct store *s = store_with_tables(p->dir, 1);
	struct store_txn *reader, *t;
	struct err err = {0};

	CHECK(store_begin_read(s, &reader, &err));
	plan_fault(CALL_SYNC, 1, EIO);
	assert_false(store_set_row(s, 1, "a", "lost", &err));
	plan_none();
	REFUSED(store_begin_write(s, &t, &err), ERR_DISK, "end the other transactions of this process first");
	REFUSED(store_sync(s, &err), ERR_DISK, "end the other transactions of this process first");
	assert_true(row_is(reader, 1, "a", "1"));
	store_abort(reader);
	CHECK(store_set_row(s, 1, "a", "kept", &err));
	assert_true(store_row_is(s, 1, "a", "kept"));
	store_close(s);
}

/* What was shown before the error is on disk before anything new is: one fully synced commit. */
static void opening_again_makes_durable_what_was_shown(void **state)
{
	struct place *p = *state;
	struct store *s = store_with_tables(p->dir, 1);
	struct store_txn *t;
	struct err err = {0};
	unsigned syncs;

	plan_fault(CALL_SYNC, 1, EIO);
	assert_false(store_sync(s, &err));
	assert_int_equal(err.kind, ERR_DISK);
	plan_fault(CALL_SYNC, 1, EIO); /* and again */
	REFUSED(store_begin_write(s, &t, &err), ERR_DISK, "input/output error");
	plan_none();
	CHECK(store_begin_write(s, &t, &err));
	syncs = plan.seen[CALL_SYNC];
	store_abort(t);
	assert_true(syncs >= 2 && plan.seen[CALL_META] == 1);
	CHECK(store_begin_write(s, &t, &err)); /* once is enough */
	store_abort(t);
	assert_int_equal(plan.seen[CALL_SYNC], syncs);
	assert_true(store_row_is(s, 1, "a", "1"));
	store_close(s);
}

/* Reads go on when the environment cannot be opened again, as soon as it can. */
static void a_store_that_cannot_be_opened_again_can_be_later(void **state)
{
	struct place *p = *state;
	struct store *s = store_with_tables(p->dir, 1);
	struct store_txn *t;
	char moved[160];
	struct err err = {0};

	snprintf(moved, sizeof moved, "%s/moved", p->root);
	plan_fault(CALL_META, 1, EIO);
	assert_false(store_set_row(s, 1, "a", "lost", &err));
	plan_none();
	assert_int_equal(rename(place_file(p, "data.mdb"), moved), 0);
	assert_false(store_begin_read(s, &t, &err));
	assert_false(store_begin_write(s, &t, &err));
	assert_int_equal(store_reap_readers(s), 0);
	assert_int_equal(rename(moved, place_file(p, "data.mdb")), 0);
	assert_true(store_row_is(s, 1, "a", "1"));
	CHECK(store_set_row(s, 1, "a", "kept", &err));
	store_close(s);
}

static void another_store_in_its_place_is_noticed(void **state)
{
	struct place *p = *state;
	char other[100], moved[100], command[400];
	struct store *s;
	struct store_txn *t;
	struct err err = {0};

	snprintf(other, sizeof other, "%s/other", p->root);
	s = store_with_tables(other, 1);
	store_close(s);
	s = store_with_tables(p->dir, 1);
	plan_fault(CALL_META, 1, EIO);
	assert_false(store_set_row(s, 1, "a", "lost", &err));
	plan_none();
	snprintf(moved, sizeof moved, "%s/moved", p->root);
	assert_int_equal(rename(p->dir, moved), 0);
	assert_int_equal(rename(other, p->dir), 0);
	REFUSED(store_begin_read(s, &t, &err), ERR_CORRUPT, "was replaced by another one");
	REFUSED(store_begin_write(s, &t, &err), ERR_CORRUPT, "data.mdb was replaced");
	snprintf(command, sizeof command, "rm -rf %s && mv %s %s", p->dir, moved, p->dir);
	assert_int_equal(system(command), 0);
	assert_true(store_row_is(s, 1, "a", "1"));
	store_close(s);
}

/* Whatever of it is gone: what was written then would be lost, or be seen by nobody, or by two. */
static void a_removed_file_takes_no_more_writes(void **state)
{
	static const char *const files[] = {"data.mdb", "lock.mdb", "tidemark.lock"};
	struct place *p = *state;
	struct store_txn *t;
	struct store *s;
	struct err err = {0};

	for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
		char part[60];

		s = store_with_tables(p->dir, 1);
		snprintf(part, sizeof part, "%s was removed while it was in use", files[i]);
		assert_int_equal(unlink(place_file(p, files[i])), 0);
		REFUSED(store_begin_write(s, &t, &err), ERR_CORRUPT, part);
		REFUSED(store_sync(s, &err), ERR_CORRUPT, part);
		assert_true(store_row_is(s, 1, "a", "1"));
		store_close(s);
		unlink(place_file(p, "data.mdb"));
	}
}

/* ---- the first copy ---- */

static void a_first_copy_that_cannot_be_synced_has_to_start_over(void **state)
{
	struct place *p = *state;
	struct store *s;
	struct err err = {0};

	CHECK(store_open(p->dir, STORE_WRITE_FAST, &s, &err));
	plan_fault(CALL_SYNC, 1, EIO);
	REFUSED(store_sync(s, &err), ERR_CORRUPT, "start over with an empty directory");
	plan_none();
	store_close(s);
	REFUSED(store_open(p->dir, STORE_WRITE, &s, &err), ERR_CORRUPT, "start over with an empty directory");
}

static void a_first_copy_syncs_nothing(void **state)
{
	struct place *p = *state;
	struct table_record r = table_of(1, "t");
	struct store *s;
	struct store_txn *t;
	struct err err = {0};

	CHECK(store_open(p->dir, STORE_WRITE_FAST, &s, &err));
	CHECK(store_begin_write(s, &t, &err));
	CHECK(store_put_table(t, &r, &err));
	plan_none();
	CHECK(store_commit(t, &err));
	CHECK(store_set_row(s, 1, "a", "1", &err));
	assert_int_equal(plan.seen[CALL_SYNC], 0);
	CHECK(store_sync(s, &err));
	plan_none();
	CHECK(store_set_row(s, 1, "a", "2", &err));
	assert_int_equal(plan.seen[CALL_SYNC], 1);
	store_close(s);
}

/* ---- creating and opening ---- */

static int create_killed(void *ctx)
{
	struct place *p = ((void **)ctx)[0];
	struct store *s;
	struct err err;

	plan = (struct plan){.kill_at = *(unsigned *)((void **)ctx)[1]};
	if (!store_open(p->dir, STORE_WRITE, &s, &err)) return 1;
	return 0;
}

/* Killed at any write, sync or rename, a creation can be done again, and readers see no store or a whole one.
 */
static void a_creation_can_be_killed_anywhere(void **state)
{
	struct place *p = *state;
	unsigned kill_at = 0;
	void *ctx[2] = {p, &kill_at};
	char command[120];
	int rc = 0;

	snprintf(command, sizeof command, "rm -rf %s", p->dir);
	do {
		struct store *s;
		struct err err;

		kill_at++;
		rc = in_child(create_killed, ctx);
		assert_true(rc == 0 || rc == 1000 + SIGKILL);
		if (store_open(p->dir, STORE_READ, &s, &err))
			store_close(s);
		else if (err.kind != ERR_CONFIG || !strstr(err.msg, "has no store"))
			fail_msg("killed at %u: %s", kill_at, err.msg);
		CHECK(store_open(p->dir, STORE_WRITE, &s, &err));
		CHECK(store_sync(s, &err));
		store_close(s);
		assert_int_equal(system(command), 0);
	} while (rc != 0);
	assert_true(kill_at > 8);
}

/* Failing at any of them, it says so and leaves nothing half made. */
static void a_creation_can_fail_anywhere(void **state)
{
	struct place *p = *state;
	unsigned failed = 0;

	for (int call = 0; call < CALLS; call++) {
		for (unsigned nth = 1; nth < 8; nth++) {
			struct store *s;
			struct err err;
			bool ok;

			plan_fault((enum call)call, nth, ENOSPC);
			ok = store_open(p->dir, STORE_WRITE, &s, &err);
			plan_none();
			if (ok) {
				store_close(s);
			} else {
				failed++;
				assert_int_equal(err.kind, ERR_DISK);
				assert_false(place_has(p, "data.mdb.new"));
			}
			CHECK(store_open(p->dir, STORE_WRITE, &s, &err));
			store_close(s);
			unlink(place_file(p, "data.mdb"));
			if (nth % 2) unlink(place_file(p, "tidemark.lock"));
		}
	}
	assert_true(failed > 8);
}

static void a_writer_begins_with_a_synced_commit(void **state)
{
	struct place *p = *state;
	struct store *s = store_with_tables(p->dir, 1);
	struct err err = {0};

	store_close(s);
	plan_none();
	CHECK(store_open(p->dir, STORE_WRITE, &s, &err));
	assert_true(plan.seen[CALL_SYNC] >= 2);
	store_close(s);
	plan_fault(CALL_PAGES, 1, ENOSPC);
	REFUSED(store_open(p->dir, STORE_WRITE, &s, &err), ERR_DISK, "the disk is full");
	plan_none();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORE_TEST(a_full_disk_leaves_the_last_commit),
		STORE_TEST(a_used_up_quota_leaves_the_last_commit),
		STORE_TEST(a_failed_page_write_leaves_the_last_commit),
		STORE_TEST(a_failed_sync_leaves_the_last_commit),
		STORE_TEST(a_failed_meta_write_leaves_the_last_commit),
		STORE_TEST(a_meta_write_without_space_leaves_the_last_commit),
		STORE_TEST(a_limit_of_the_files_size_is_named),
		STORE_TEST(a_write_cut_short_is_a_full_disk),
		STORE_TEST(a_creation_cut_short_is_a_full_disk),
		STORE_TEST(the_table_of_readers_has_its_space),
		STORE_TEST(a_disk_that_is_full_can_be_freed),
		STORE_TEST(little_address_space_is_enough),
		STORE_TEST(a_commit_killed_at_its_last_step_is_whole_or_undone),
		STORE_TEST(opening_again_waits_for_other_transactions),
		STORE_TEST(opening_again_makes_durable_what_was_shown),
		STORE_TEST(a_store_that_cannot_be_opened_again_can_be_later),
		STORE_TEST(another_store_in_its_place_is_noticed),
		STORE_TEST(a_removed_file_takes_no_more_writes),
		STORE_TEST(a_first_copy_that_cannot_be_synced_has_to_start_over),
		STORE_TEST(a_first_copy_syncs_nothing),
		STORE_TEST(a_creation_can_be_killed_anywhere),
		STORE_TEST(a_creation_can_fail_anywhere),
		STORE_TEST(a_writer_begins_with_a_synced_commit),
	};

	return cmocka_run_group_tests_name("state/store_fault", tests, NULL, NULL);
}
