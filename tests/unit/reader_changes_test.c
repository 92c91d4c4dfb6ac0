/* What a server says in an order, or with a key, that no server has, is refused where it arrives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "reader/changes.h"
#include "reader/shape.h"

#define OID 16384

struct fixture {
	struct changes *changes;
	struct copier *copier;
	size_t commits, upserts, lost;
	bool altered;
	size_t signals, left_out, refusals;
	bool commit_is_with_it; /* it came in one batch, behind the commit */
	struct buf message;
	struct err err;
};

/* A table's record that says so. */
static bool is_lost(const struct op *op)
{
	struct table_record r;
	struct err err;
	if (op->kind != OP_TABLE) return false;
	assert_true(table_record_decode((struct slice){op->body, op->body_len}, &r, &err));
	bool lost = strcmp(r.shape, SHAPE_LOST) == 0 && r.state == TABLE_COPYING;
	table_record_free(&r);
	return lost;
}

static void push(void *ctx, struct batch *b)
{
	struct fixture *f = ctx;

	bool committed = false;
	for (size_t i = 0; i < b->n; i++) {
		f->commits += b->ops[i].kind == OP_COMMIT;
		f->upserts += b->ops[i].kind == OP_UPSERT;
		f->lost += is_lost(&b->ops[i]);
		committed |= b->ops[i].kind == OP_COMMIT;
		if (b->ops[i].kind == OP_BARRIER) f->commit_is_with_it = committed;
	}
	batch_destroy(b);
}

static void emit(void *ctx, struct batch *b)
{
	struct fixture *f = ctx;

	changes_emit(f->changes, b);
}

static void described(void *ctx)
{
	(void)ctx;
}

static void on_signals(void *ctx, const struct signals *s)
{
	struct fixture *f = ctx;
	struct batch *b = batch_create();

	f->signals += s->n;
	f->left_out += s->left_out;
	for (size_t i = 0; i < s->n; i++)
		assert_true(s->v[i].commit_lsn.v == 0x120 && s->v[i].number == i + 1);
	batch_add(b, OP_BARRIER);
	changes_emit(f->changes, b);
}

static void refused(void *ctx, const char *why)
{
	struct fixture *f = ctx;

	(void)why;
	f->refusals++;
}

/* Table t (id int4 primary key, a text), received up to 0/100. */
static void setup_as_of(struct fixture *f, uint64_t shape_lsn)
{
	struct column columns[] = {
		{.name = "id", .type_oid = 23, .typmod = -1, .type_name = "integer", .type_class = TYPE_INT},
		{.name = "a", .type_oid = 25, .typmod = -1, .type_name = "text"}};
	uint16_t key_columns[] = {0};
	uint8_t key_kinds[] = {KEY_INT4};
	const struct schema s = {.table_id = 1,
							 .version = 1,
							 .ncolumns = 2,
							 .nkeys = 1,
							 .columns = columns,
							 .key_columns = key_columns,
							 .key_kinds = key_kinds};
	const struct table_record r = {.id = 1, .oid = OID, .schema_name = "public", .table_name = "t"};

	*f = (struct fixture){0};
	f->changes = changes_create(
		&(struct changes_config){
			.epoch = 1, .checkpoint = LSN(0x100), .xid_near = XID(700), .message_signals = true},
		(struct changes_sink){
			.ctx = f, .push = push, .described = described, .signals = on_signals, .refused = refused});
	f->copier = copier_create(&(struct copier_config){.epoch = 1, .chunk_rows_max = 10, .next_run_id = 1},
							  (struct copier_sink){.ctx = f, .emit = emit});
	changes_set_copier(f->changes, f->copier);
	changes_add_table(f->changes, &r, &s, LSN(shape_lsn));
}

static void setup(struct fixture *f)
{
	setup_as_of(f, 0x100);
}

static void teardown(struct fixture *f)
{
	copier_destroy(f->copier);
	changes_destroy(f->changes);
	buf_finish(&f->message);
}

/* ---- messages ---- */

static bool say(struct fixture *f)
{
	f->altered = false;
	bool ok = changes_message(f->changes, (struct slice){f->message.p, f->message.n}, &f->altered, &f->err);

	buf_reset(&f->message);
	return ok;
}

static bool say_begin(struct fixture *f, uint64_t commit_lsn)
{
	buf_put_u8(&f->message, 'B');
	buf_put_u64(&f->message, commit_lsn);
	buf_put_u64(&f->message, 0);
	buf_put_u32(&f->message, 701);
	return say(f);
}

static bool say_commit(struct fixture *f, uint64_t commit_lsn, uint64_t end_lsn)
{
	buf_put_u8(&f->message, 'C');
	buf_put_u8(&f->message, 0);
	buf_put_u64(&f->message, commit_lsn);
	buf_put_u64(&f->message, end_lsn);
	buf_put_u64(&f->message, 0);
	return say(f);
}

static void put_column(struct buf *m, uint8_t key, const char *name, uint32_t type_oid)
{
	buf_put_u8(m, key);
	buf_put(m, name, strlen(name) + 1);
	buf_put_u32(m, type_oid);
	buf_put_u32(m, UINT32_MAX);
}

static bool say_described(struct fixture *f, const char *second)
{
	buf_put_u8(&f->message, 'R');
	buf_put_u32(&f->message, OID);
	buf_put(&f->message, "public\0t\0d", 10);
	buf_put_u16(&f->message, 2);
	put_column(&f->message, 1, "id", 23);
	put_column(&f->message, 0, second, 25);
	return say(f);
}

static bool say_relation(struct fixture *f)
{
	return say_described(f, "a");
}

/* NULL, "u" for unchanged, or a text. */
static void put_cell(struct buf *m, const char *text)
{
	if (!text || strcmp(text, "u") == 0) {
		buf_put_u8(m, text ? 'u' : 'n');
		return;
	}
	buf_put_u8(m, 't');
	buf_put_u32(m, (uint32_t)strlen(text));
	buf_put(m, text, strlen(text));
}

static void put_tuple(struct buf *m, char letter, const char *id, const char *a)
{
	buf_put_u8(m, (uint8_t)letter);
	buf_put_u16(m, 2);
	put_cell(m, id);
	put_cell(m, a);
}

static bool say_update(struct fixture *f, char old, const char *old_id, const char *old_a, const char *id)
{
	buf_put_u8(&f->message, 'U');
	buf_put_u32(&f->message, OID);
	if (old) put_tuple(&f->message, old, old_id, old_a);
	put_tuple(&f->message, 'N', id, "new");
	return say(f);
}

static void assert_refused(const struct fixture *f, bool ok, const char *part)
{
	assert_false(ok);
	assert_int_equal(f->err.kind, ERR_PROTOCOL);
	if (!strstr(f->err.msg, part)) fail_msg("\"%s\" is not in \"%s\"", part, f->err.msg);
}

static void say_rows(struct fixture *f, int n)
{
	for (int i = 0; i < n; i++)
		assert_true(say_update(f, 'K', "1", NULL, "2"));
}

/* ---- batches ---- */

/* A push for each row as it trickles in would cost more than the row, and none can be committed yet. */
static void a_little_of_an_open_transaction_waits_for_more(void **state)
{
	struct fixture f;

	(void)state;
	setup(&f);
	assert_true(say_begin(&f, 0x100));
	assert_true(say_relation(&f));
	say_rows(&f, 1);
	changes_dry(f.changes);
	assert_int_equal(f.upserts, 0);
	say_rows(&f, 1000);
	changes_dry(f.changes);
	assert_int_equal(f.upserts, 1001);
	say_rows(&f, 1);
	changes_dry(f.changes);
	assert_int_equal(f.upserts, 1001);
	assert_true(say_commit(&f, 0x100, 0x130));
	changes_dry(f.changes);
	assert_int_equal(f.upserts, 1002);
	assert_int_equal(f.commits, 1);
	teardown(&f);
}

static void what_is_complete_does_not_wait_for_an_open_transaction(void **state)
{
	struct fixture f;

	(void)state;
	setup(&f);
	assert_true(say_begin(&f, 0x100));
	assert_true(say_relation(&f));
	say_rows(&f, 1);
	assert_true(say_commit(&f, 0x100, 0x130));
	assert_true(say_begin(&f, 0x130));
	say_rows(&f, 1);
	changes_dry(f.changes);
	assert_int_equal(f.commits, 1);
	teardown(&f);
}

/* ---- order ---- */

static void transactions_in_order_are_taken(void **state)
{
	struct fixture f;

	(void)state;
	setup(&f);
	assert_true(say_begin(&f, 0x100)); /* where everything before has been received */
	assert_true(say_commit(&f, 0x100, 0x130));
	assert_true(say_begin(&f, 0x130));
	assert_true(say_commit(&f, 0x130, 0x160));
	changes_position(f.changes, LSN(0x200));
	assert_true(say_begin(&f, 0x200));
	assert_true(say_commit(&f, 0x200, 0x230));
	changes_flush(f.changes);
	assert_int_equal(f.commits, 3);
	teardown(&f);
}

static void transactions_below_the_checkpoint_are_skipped(void **state)
{
	struct fixture f;

	(void)state;
	setup(&f);
	assert_true(say_begin(&f, 0x90));
	assert_true(say_commit(&f, 0x90, 0xA0));
	assert_true(say_begin(&f, 0x80));
	assert_true(say_commit(&f, 0x80, 0x90));
	changes_flush(f.changes);
	assert_int_equal(f.commits, 0);
	teardown(&f);
}

static void a_transaction_below_what_was_received_is_refused(void **state)
{
	struct fixture f;

	(void)state;
	setup(&f);
	assert_true(say_begin(&f, 0x100));
	assert_true(say_commit(&f, 0x100, 0x130));
	assert_refused(&f, say_begin(&f, 0x120), "0/120");
	teardown(&f);

	setup(&f);
	changes_position(f.changes, LSN(0x200));
	assert_refused(&f, say_begin(&f, 0x1FF), "0/200");
	teardown(&f);
}

static void a_commit_that_ends_before_itself_is_refused(void **state)
{
	static const uint64_t ends[] = {0, 0x110, 0x120};
	struct fixture f;

	(void)state;
	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
		setup(&f);
		assert_true(say_begin(&f, 0x120));
		assert_refused(&f, say_commit(&f, 0x120, ends[i]), "0/120");
		teardown(&f);
	}
}

/* ---- keys ---- */

static void a_key_that_is_not_sent_again_is_the_old_one(void **state)
{
	struct fixture f;

	(void)state;
	setup(&f);
	assert_true(say_begin(&f, 0x120) && say_relation(&f));
	assert_true(say_update(&f, 'O', "1", "old", "u"));
	assert_true(say_update(&f, 'K', "1", NULL, "2"));
	assert_true(say_commit(&f, 0x120, 0x150));
	changes_flush(f.changes);
	assert_int_equal(f.upserts, 2);
	teardown(&f);
}

/* ---- changes that do not tell their row ---- */

static void assert_altered(const struct fixture *f, bool ok)
{
	assert_false(ok);
	assert_int_equal(f->err.kind, ERR_RETRY);
	assert_true(f->altered);
}

/* The catalog was read before: look again. */
static void without_a_key_the_table_was_altered(void **state)
{
	struct fixture f;

	(void)state;
	setup(&f);
	assert_true(say_begin(&f, 0x120) && say_relation(&f));
	assert_altered(&f, say_update(&f, 'K', "1", NULL, NULL));
	assert_altered(&f, say_update(&f, 'O', "1", "old", NULL));
	assert_altered(&f, say_update(&f, 'O', NULL, "old", "1"));
	assert_altered(&f, say_update(&f, 'K', NULL, "old", "1"));
	teardown(&f);
}

/* The catalog was read after: it is lost, which is on record with the commit, and said then. */
static void an_older_change_without_a_key_is_lost(void **state)
{
	struct fixture f;

	(void)state;
	setup_as_of(&f, 0x200);
	assert_true(say_begin(&f, 0x120) && say_relation(&f));
	assert_true(say_update(&f, 'O', NULL, "old", "1") && say_update(&f, 0, NULL, NULL, "2"));
	assert_altered(&f, say_commit(&f, 0x120, 0x130));
	changes_flush(f.changes);
	assert_int_equal(f.upserts, 1);
	assert_int_equal(f.lost, 1);
	assert_int_equal(f.commits, 1);
	teardown(&f);
}

static void a_run_makes_up_for_lost_changes(void **state)
{
	struct fixture f;

	(void)state;
	setup_as_of(&f, 0x200);
	changes_covered(f.changes, 1, LSN(0x200), false);
	assert_true(say_begin(&f, 0x120) && say_relation(&f));
	assert_true(say_update(&f, 'O', NULL, "old", "1") && say_update(&f, 0, NULL, NULL, "2"));
	assert_true(say_commit(&f, 0x120, 0x130));
	changes_covered(f.changes, 1, LSN(0x200), true);
	assert_true(say_begin(&f, 0x140) && say_update(&f, 0, NULL, NULL, "2") && say_commit(&f, 0x140, 0x150));
	changes_flush(f.changes);
	assert_int_equal(f.upserts, 1);
	assert_int_equal(f.lost, 0);
	teardown(&f);
}

/* Of an older transaction, described in other columns: by name only where a run will look. */
static void older_columns_are_not_trusted(void **state)
{
	struct fixture f;

	(void)state;
	for (int covered = 0; covered < 2; covered++) {
		setup_as_of(&f, 0x200);
		if (covered) changes_covered(f.changes, 1, LSN(0x200), false);
		assert_true(say_begin(&f, 0x120) && say_described(&f, "b") && say_update(&f, 0, NULL, NULL, "2"));
		assert_int_equal(say_commit(&f, 0x120, 0x130), covered);
		changes_flush(f.changes);
		assert_int_equal(f.upserts, covered);
		assert_int_equal(f.lost, !covered);
		teardown(&f);
	}
}

/* ---- signals ---- */

static bool say_message(struct fixture *f, bool transactional, const char *prefix, const char *content)
{
	buf_put_u8(&f->message, 'M');
	buf_put_u8(&f->message, transactional);
	buf_put_u64(&f->message, 0x110);
	buf_put(&f->message, prefix, strlen(prefix) + 1);
	buf_put_u32(&f->message, (uint32_t)strlen(content));
	buf_put(&f->message, content, strlen(content));
	return say(f);
}

static bool say_insert(struct fixture *f, const char *id)
{
	buf_put_u8(&f->message, 'I');
	buf_put_u32(&f->message, OID);
	put_tuple(&f->message, 'N', id, "v");
	return say(f);
}

static void signals_wait_for_their_commit(void **state)
{
	struct fixture f;

	(void)state;
	setup(&f);
	assert_true(say_begin(&f, 0x120));
	assert_true(say_message(&f, true, "tidemark", "{}"));
	assert_true(say_message(&f, true, "tidemark", "watermark"));
	assert_true(say_message(&f, true, "other", "{}"));
	assert_true(say_message(&f, true, "tidemark", "second"));
	assert_int_equal(f.signals, 0);
	assert_true(say_commit(&f, 0x120, 0x150));
	/* Pushed at once, in one batch with the commit and behind it. */
	assert_int_equal(f.signals, 2);
	assert_true(f.commit_is_with_it);
	assert_int_equal(f.refusals, 0);
	teardown(&f);
}

static void signals_that_are_none(void **state)
{
	struct fixture f;

	(void)state;
	setup(&f);
	/* Received before. */
	assert_true(say_begin(&f, 0x90));
	assert_true(say_message(&f, true, "tidemark", "{}"));
	assert_true(say_commit(&f, 0x90, 0xA0));
	/* Not of a transaction. */
	assert_true(say_message(&f, false, "tidemark", "{}"));
	assert_int_equal(f.refusals, 1);
	/* Cut off, and sent again. */
	assert_true(say_begin(&f, 0x120));
	assert_true(say_message(&f, true, "tidemark", "{}"));
	assert_int_equal(f.signals, 0);
	teardown(&f);
}

static void rows_of_the_signal_table_are_signals(void **state)
{
	struct fixture f;

	(void)state;
	setup(&f);
	changes_set_signal_table(f.changes, 1);
	assert_true(say_begin(&f, 0x120) && say_relation(&f));
	assert_true(say_insert(&f, "1") && say_insert(&f, "2"));
	assert_true(say_update(&f, 'K', "1", NULL, "3"));
	assert_true(say_commit(&f, 0x120, 0x150));
	assert_int_equal(f.signals, 2);
	assert_true(f.commit_is_with_it);
	teardown(&f);
}

static void too_many_signals_are_counted(void **state)
{
	struct fixture f;

	(void)state;
	setup(&f);
	assert_true(say_begin(&f, 0x120));
	for (int i = 0; i < SIGNALS_MAX + 5; i++)
		assert_true(say_message(&f, true, "tidemark", "{}"));
	assert_true(say_commit(&f, 0x120, 0x150));
	assert_int_equal(f.signals, SIGNALS_MAX);
	assert_int_equal(f.left_out, 5);
	teardown(&f);
}

#define TEST(name) cmocka_unit_test(name)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_little_of_an_open_transaction_waits_for_more),
		TEST(what_is_complete_does_not_wait_for_an_open_transaction),
		TEST(transactions_in_order_are_taken),
		TEST(transactions_below_the_checkpoint_are_skipped),
		TEST(a_transaction_below_what_was_received_is_refused),
		TEST(a_commit_that_ends_before_itself_is_refused),
		TEST(a_key_that_is_not_sent_again_is_the_old_one),
		TEST(without_a_key_the_table_was_altered),
		TEST(an_older_change_without_a_key_is_lost),
		TEST(a_run_makes_up_for_lost_changes),
		TEST(older_columns_are_not_trusted),
		TEST(signals_wait_for_their_commit),
		TEST(signals_that_are_none),
		TEST(rows_of_the_signal_table_are_signals),
		TEST(too_many_signals_are_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
