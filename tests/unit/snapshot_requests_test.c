/* Runs that someone asks for: turns, scopes, checks, sweeps, pauses, caps, connections. */
#include "tests/unit/snapshot_copier_fixture.h"

#include "apply/applier.h"

static struct buf blob_of(const char *text)
{
	struct buf b = {0};
	struct slice s = slice_of(text);

	buf_put_blob(&b, s.p, s.n);
	return b;
}

/* A table of ours, streamed up to 400. */
static void have_table(struct fixture *f)
{
	set_table(f, 1, 1, key_is_id, NULL);
	position(f, 400);
	f->seen = f->n;
}

static struct run_request whole(const char *name)
{
	return (struct run_request){
		.table_id = 1, .name = name, .requester = "test", .sweep = SWEEP_ON, .where_sql = ""};
}

static struct run_request where(const char *sql)
{
	struct run_request q = whole("");

	q.where_sql = sql;
	return q;
}

static uint64_t request(struct fixture *f, const struct run_request *q)
{
	return copier_request_run(f->c, q, NULL, f->now);
}

static void check_passes(struct fixture *f)
{
	ask(f, CHUNK_CHECK);
	assert_true(f->r->of_user);
	assert_int_equal(f->r->ncolumns, 1);
	assert_int_equal(f->r->nparams, 0);
	snapshot(f, "20:20:", 410);
	end(f);
}

static struct slice body_of(const struct op *op)
{
	return (struct slice){op->body, op->body_len};
}

static struct run_record record_in(const struct batch *b)
{
	struct run_record r;
	struct err err;

	assert_true(run_record_decode(body_of(op_of(b, OP_RUN, 0)), &r, &err));
	return r;
}

/* ---- beginning ---- */

static void a_request_is_recorded_as_it_was_made(void **state)
{
	struct fixture *f = *state;
	struct buf from = blob_of("3"), to = blob_of("9");
	struct run_request q = where("note = 'x'");
	struct run_record r;
	bool is_new = false;

	have_table(f);
	q.name = "nightly";
	q.sweep = SWEEP_COUNT;
	q.from = (struct slice){from.p, from.n};
	q.to = (struct slice){to.p, to.n};
	q.chunk_time_ms = 20;
	q.rows_per_second = 1000;
	assert_int_equal(copier_request_run(f->c, &q, &is_new, f->now), 5);
	assert_true(is_new);
	r = record_in(take(f));
	assert_int_equal(r.kind, RUN_REQUESTED);
	assert_int_equal(r.state, RUN_COPYING);
	assert_string_equal(r.name, "nightly");
	assert_string_equal(r.requester, "test");
	assert_string_equal(r.where_sql, "note = 'x'");
	assert_int_equal(r.sweep, SWEEP_COUNT);
	assert_true(slice_eq(r.from, q.from));
	assert_true(slice_eq(r.to, q.to));
	assert_int_equal(r.chunk_time_ms, 20);
	assert_int_equal(r.rows_per_second, 1000);
	assert_int_equal(r.accepted.lsn.v, 400);
	run_record_free(&r);

	assert_int_equal(copier_request_run(f->c, &q, &is_new, f->now), 5);
	assert_false(is_new);
	nothing_emitted(f);
	buf_finish(&from);
	buf_finish(&to);
}

static void keys_are_recorded_before_the_run(void **state)
{
	struct fixture *f = *state;
	struct buf key = blob_of("7");
	struct run_request q = whole("");
	struct batch *b;

	have_table(f);
	q.keys = (struct slice){key.p, key.n};
	q.listed = 1;
	request(f, &q);
	b = take(f);
	assert_int_equal(b->ops[0].kind, OP_RUN_KEYS);
	assert_int_equal(b->ops[0].u.run.run_id, 5);
	assert_true(slice_eq(body_of(&b->ops[0]), q.keys));
	assert_int_equal(b->ops[1].kind, OP_RUN);
	buf_finish(&key);
}

/* ---- turns ---- */

static void runs_of_a_table_go_one_after_the_other(void **state)
{
	struct fixture *f = *state;
	struct run_request a = whole("a"), b = whole("b");

	have_table(f);
	a.sweep = b.sweep = SWEEP_OFF;
	request(f, &a);
	request(f, &b);
	f->seen = f->n;
	last_page(f, "20:20:", 500, 1, 2);
	assert_int_equal(f->asked_run, 5);
	ask_nothing(f);
	position(f, 500);
	run_moved(take_chunk(f, 500, 2), RUN_DONE);
	last_page(f, "20:20:", 600, 1, 1);
	assert_int_equal(f->asked_run, 6);
	position(f, 600);
	run_moved(take_chunk(f, 600, 1), RUN_DONE);
	ask_nothing(f);
}

static void the_programs_own_run_goes_first(void **state)
{
	struct fixture *f = *state;
	struct run_request q = whole("");

	have_table(f);
	q.sweep = SWEEP_OFF;
	request(f, &q);
	full_page(f, "20:20:", 500, 1);
	ask(f, CHUNK_PAGE); /* both pages are void when the other run begins */
	copier_start_run(f->c, 1, RUN_SCHEMA, false, NULL, "run", f->now);
	snapshot(f, "20:20:", 510);
	rows(f, 201, 1);
	end(f);
	f->seen = f->n;
	position(f, 520);
	nothing_emitted(f);
	last_page(f, "20:20:", 600, 1, 1);
	assert_int_equal(f->asked_run, 6);
	position(f, 600);
	run_moved(take_chunk(f, 600, 1), RUN_DONE);
	ask(f, CHUNK_PAGE);
	assert_int_equal(f->asked_run, 5);
	assert_int_equal(f->r->nparams, 1); /* from the start: nothing of it had closed */
}

static void the_whole_table_by_request_makes_it_copied(void **state)
{
	struct fixture *f = *state;
	struct run_request q = whole(""), part = where("true");

	have_table(f);
	q.sweep = part.sweep = SWEEP_OFF;
	request(f, &part);
	request(f, &q);
	check_passes(f);
	last_page(f, "20:20:", 500, 1, 1);
	position(f, 500);
	assert_false(copier_table_is_live(f->c, 1));
	last_page(f, "20:20:", 600, 1, 1);
	position(f, 600);
	assert_true(copier_table_is_live(f->c, 1));
}

static void a_gate_holds_runs_of_others_too(void **state)
{
	struct fixture *f = *state;
	struct run_request q = whole("");
	const char *gate;

	have_table(f);
	copier_start_run(f->c, 1, RUN_INITIAL, false, "30:30:", "run", f->now);
	assert_true(copier_pause_run(f->c, 5, f->now));
	assert_int_equal(copier_stop_run(f->c, 5, "", f->now), RUN_STOP_GATED);
	q.sweep = SWEEP_OFF;
	request(f, &q);
	f->seen = f->n;
	last_page(f, "20:20:", 500, 1, 1);
	position(f, 500);
	nothing_emitted(f);
	assert_true(copier_is_gated(f->c, &gate));
	f->now += SEC;
	last_page(f, "30:30:", 600, 1, 1);
	position(f, 600);
	run_moved(take_chunk(f, 600, 1), RUN_DONE);
	assert_false(copier_is_gated(f->c, &gate));
	assert_int_equal(copier_stop_run(f->c, 5, "", f->now), RUN_STOP_OK);
}

static void it_waits_for_what_was_streamed_before(void **state)
{
	struct fixture *f = *state;
	struct run_request q = whole("");

	set_table(f, 1, 1, key_is_id, NULL);
	begin(f, 12, 300);
	copier_stream_change(f->c, 1, key_of(1));
	commit(f, 310);
	position(f, 400);
	request(f, &q);
	f->seen = f->n;
	last_page(f, "12:15:12", 500, 1, 1); /* the bound would be 300, and what is stored may be above it */
	position(f, 500);
	nothing_emitted(f);
	f->now += SEC;
	last_page(f, "20:20:", 600, 1, 1);
	position(f, 600);
	take_chunk(f, 600, 1);
}

/* ---- scope ---- */

static void a_condition_is_checked_before_it_is_used(void **state)
{
	struct fixture *f = *state;
	struct run_request q = where("note = 'x'");

	have_table(f);
	request(f, &q);
	f->seen = f->n;
	check_passes(f);
	nothing_emitted(f);
	ask(f, CHUNK_PAGE);
	assert_true(f->r->of_user);
	assert_non_null(strstr(f->r->select_sql, "note = 'x'"));
	failed(f, CHUNK_LOST);
	f->now += SEC;
	ask(f, CHUNK_PAGE); /* once is enough */
}

static void a_bad_condition_ends_its_run(void **state)
{
	struct fixture *f = *state;
	struct run_request q = where("nonsense"), other = whole("");
	const struct op *op;

	have_table(f);
	request(f, &q);
	request(f, &other);
	f->seen = f->n;
	ask(f, CHUNK_CHECK);
	copier_chunk_failed_saying(f->c, f->r->id, CHUNK_REFUSED, "column \"nonsense\" does not exist", f->now);
	op = op_of(take(f), OP_RUN_STATE, 0);
	assert_int_equal(op->state, RUN_FAILED);
	assert_int_equal(op->u.run.run_id, 5);
	assert_true(slice_eq(body_of(op), slice_of("column \"nonsense\" does not exist")));
	ask(f, CHUNK_PAGE);
	assert_int_equal(f->asked_run, 6);
}

/* The table may have been altered a moment ago; not for ever. */
static void a_missing_column_is_asked_for_some_times(void **state)
{
	struct fixture *f = *state;
	struct run_request q = where("gone = 1");

	have_table(f);
	request(f, &q);
	f->seen = f->n;
	for (int i = 0; i < 5; i++) {
		ask(f, CHUNK_CHECK);
		failed(f, CHUNK_SCHEMA);
		nothing_emitted(f);
		f->now += 20 * SEC;
	}
	ask(f, CHUNK_CHECK);
	failed(f, CHUNK_SCHEMA);
	run_moved(take(f), RUN_FAILED);
}

static void an_empty_range_ends_its_run(void **state)
{
	struct fixture *f = *state;
	struct buf from = blob_of("9"), to = blob_of("3");
	struct run_request q = whole("");

	have_table(f);
	q.from = (struct slice){from.p, from.n};
	q.to = (struct slice){to.p, to.n};
	request(f, &q);
	f->seen = f->n;
	ask(f, CHUNK_CHECK);
	snapshot(f, "20:20:", 410);
	key_row(f, "t");
	end(f);
	run_moved(take(f), RUN_FAILED);
	ask_nothing(f);
	buf_finish(&from);
	buf_finish(&to);
}

static void another_shape_is_checked_again(void **state)
{
	struct fixture *f = *state;
	struct run_request q = where("note = 'x'");

	have_table(f);
	request(f, &q);
	check_passes(f);
	set_table(f, 1, 2, key_is_id, NULL);
	ask(f, CHUNK_CHECK);
}

/* ---- scoped sweep ---- */

/* As an answer with whole rows: id and note. */
static void answer_rows(struct fixture *f, const struct op *listing, const uint32_t *ids, size_t n,
						bool at_end)
{
	struct answer a = {
		.kind = ANSWER_KEYS, .table_id = 1, .token = listing->u.list.token, .schema_version = 1};
	struct answer_key k[4];
	struct slice texts[4][2];
	char id[4][16];

	for (size_t i = 0; i < n; i++) {
		snprintf(id[i], sizeof id[i], "%u", ids[i]);
		texts[i][0] = slice_of(id[i]);
		texts[i][1] = i % 2 ? slice_of("n") : (struct slice){0};
		k[i] = (struct answer_key){key_of(ids[i]), texts[i]};
	}
	a.nkeys = n;
	a.keys = k;
	a.end = at_end;
	a.resume = key_of(ids[n - 1]);
	copier_answer(f->c, &a, f->now);
}

static const struct op *scoped_sweep_begins(struct fixture *f, enum sweep_mode sweep)
{
	struct run_request q = where("note = 'x'");

	have_table(f);
	q.sweep = sweep;
	request(f, &q);
	check_passes(f);
	last_page(f, "20:20:", 500, 1, 1);
	f->seen = f->n;
	position(f, 500);
	run_moved(take_chunk(f, 500, 1), RUN_SWEEPING);
	ask_nothing(f);
	return take_listing(f, OP_LIST_SUSPECTS);
}

static void scoped_row(struct fixture *f, const char *number, const char *id, const char *note)
{
	struct slice texts[3] = {slice_of(number)};

	if (id) texts[1] = slice_of(id);
	if (note) texts[2] = slice_of(note);
	assert_true(copier_chunk_row(f->c, f->r->id, texts, 3, &f->err));
}

/* Of 1 to 4: one is out of scope, one unchanged, one has left the scope at the source, one is gone. */
static void only_suspects_in_scope_are_judged(void **state)
{
	struct fixture *f = *state;
	const struct op *listing = scoped_sweep_begins(f, SWEEP_ON);
	struct batch *b;

	assert_true(listing->flags & OP_F_WHOLE_ROWS);
	answer_rows(f, listing, (uint32_t[]){1, 2, 3, 4}, 4, true);
	ask(f, CHUNK_SCOPED);
	assert_int_equal(f->r->nparams, 2);
	assert_int_equal(f->r->ncolumns, 3);
	assert_string_equal(f->r->params[0], "{\"1\",\"2\",\"3\",\"4\"}");
	assert_string_equal(f->r->params[1], "{NULL,\"n\",NULL,\"n\"}");
	snapshot(f, "20:20:", 600);
	scoped_row(f, "2", "2", "x");
	scoped_row(f, "3", "3", "y");
	scoped_row(f, "4", NULL, NULL);
	end(f);
	position(f, 600);
	b = take_chunk(f, 600, 2);
	is_key(op_of(b, OP_CHUNK_ROW, 0)->key, 2);
	is_key(op_of(b, OP_CHUNK_ROW, 1)->key, 3);
	assert_int_equal(count_ops(b, OP_CHUNK_GONE), 1);
	is_key(op_of(b, OP_CHUNK_GONE, 0)->key, 4);
	assert_int_equal(op_of(b, OP_CHUNK_GONE, 0)->flags & OP_F_COUNT, 0);
	assert_int_equal(b->ops[0].u.run.chunk->suspects, 4);
	run_moved(b, RUN_DONE);
}

static void counting_writes_nothing(void **state)
{
	struct fixture *f = *state;
	const struct op *listing = scoped_sweep_begins(f, SWEEP_COUNT);
	struct slice texts[2] = {slice_of("1"), slice_of("1")};
	struct batch *b;

	answer_rows(f, listing, (uint32_t[]){1, 2}, 2, true);
	ask(f, CHUNK_SCOPED);
	assert_int_equal(f->r->ncolumns, 2);
	snapshot(f, "20:20:", 600);
	assert_true(copier_chunk_row(f->c, f->r->id, texts, 2, &f->err));
	texts[0] = slice_of("2");
	texts[1] = (struct slice){0};
	assert_true(copier_chunk_row(f->c, f->r->id, texts, 2, &f->err));
	end(f);
	position(f, 600);
	b = take_chunk(f, 600, 0);
	assert_int_equal(count_ops(b, OP_CHUNK_GONE), 1);
	assert_true(op_of(b, OP_CHUNK_GONE, 0)->flags & OP_F_COUNT);
	is_key(op_of(b, OP_CHUNK_GONE, 0)->key, 2);
}

static void numbers_of_no_suspect_are_refused(void **state)
{
	struct fixture *f = *state;
	const struct op *listing = scoped_sweep_begins(f, SWEEP_ON);
	static const char *const bad[] = {"0", "3", "-1", "", "1x", "18446744073709551617"};
	struct slice texts[3] = {{0}};

	answer_rows(f, listing, (uint32_t[]){1, 2}, 2, true);
	ask(f, CHUNK_SCOPED);
	snapshot(f, "20:20:", 600);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		texts[0] = slice_of(bad[i]);
		assert_false(copier_chunk_row(f->c, f->r->id, texts, 3, &f->err));
		assert_int_equal(f->err.kind, ERR_PROTOCOL);
	}
}

static void a_range_bounds_the_listing(void **state)
{
	struct fixture *f = *state;
	struct buf from = blob_of("3"), to = blob_of("9");
	struct run_request q = whole("");
	const struct op *listing;

	have_table(f);
	q.from = (struct slice){from.p, from.n};
	q.to = (struct slice){to.p, to.n};
	request(f, &q);
	check_passes(f);
	ask(f, CHUNK_PAGE);
	assert_non_null(strstr(f->r->select_sql, "(\"id\") >= (E'3'::integer)"));
	assert_non_null(strstr(f->r->select_sql, "(\"id\") <= (E'9'::integer)"));
	snapshot(f, "20:20:", 500);
	rows(f, 3, 1);
	end(f);
	f->seen = f->n;
	position(f, 500);
	take(f);
	ask_nothing(f);
	listing = take_listing(f, OP_LIST_SUSPECTS);
	assert_int_equal(listing->flags, OP_F_INCLUSIVE);
	is_key(listing->key, 3);
	is_key(body_of(listing), 9);
	buf_finish(&from);
	buf_finish(&to);
}

/* ---- listed keys ---- */

static const struct op *list_begins(struct fixture *f)
{
	struct buf keys = {0};
	struct run_request q = whole("");

	have_table(f);
	for (int i = 1; i <= 3; i++) {
		char id[12];

		snprintf(id, sizeof id, "%d", i);
		buf_put_blob(&keys, (const uint8_t *)id, strlen(id));
	}
	q.keys = (struct slice){keys.p, keys.n};
	q.listed = 3;
	request(f, &q);
	buf_finish(&keys);
	f->seen = f->n;
	ask_nothing(f);
	return take_listing(f, OP_LIST_RUN_KEYS);
}

static void listed_keys_are_read_whole(void **state)
{
	struct fixture *f = *state;
	const struct op *listing = list_begins(f);
	struct batch *b;

	assert_int_equal(listing->u.list.run_id, 5);
	answer_listing(f, listing, 1, (struct listed[]){{1, NULL}, {2, NULL}}, 2, 2, false);
	ask(f, CHUNK_KEYED);
	assert_int_equal(f->asked_run, 5);
	snapshot(f, "20:20:", 600);
	row(f, "2", "x");
	end(f);
	position(f, 600);
	b = take_chunk(f, 600, 1);
	is_key(op_of(b, OP_CHUNK_GONE, 0)->key, 1);
	assert_true(b->ops[0].u.run.chunk->moves_cursor);
	is_key(b->ops[0].u.run.chunk->cursor, 2);
	assert_false(b->ops[0].u.run.chunk->refetch);
	ask_nothing(f);
	listing = take_listing(f, OP_LIST_RUN_KEYS);
	is_key(listing->key, 2);
	answer_listing(f, listing, 1, NULL, 0, 3, true);
	run_moved(take(f), RUN_DONE);
}

/* Its rows fit the budget, so nothing else says that fewer have to be asked for: the same would come for
 * ever. */
static void a_large_row_behind_a_small_one_is_asked_for_alone(void **state)
{
	struct fixture *f = *state;
	struct copier_config config = fixture_config;
	const struct op *listing;
	char large[5001];

	config.chunk_bytes = 2000;
	fixture_restart(f, &config);
	memset(large, 'x', 5000);
	large[5000] = '\0';
	listing = list_begins(f);
	answer_listing(f, listing, 1, (struct listed[]){{1, NULL}, {2, NULL}}, 2, 2, false);
	ask(f, CHUNK_KEYED);
	snapshot(f, "20:20:", 600);
	row(f, "1", "x");
	row(f, "2", large);
	end(f);
	position(f, 600);
	assert_false(take_chunk(f, 600, 1)->ops[0].u.run.chunk->moves_cursor);
	ask_nothing(f);
	listing = take_listing(f, OP_LIST_RUN_KEYS);
	assert_int_equal(listing->key.n, 0);
	assert_int_equal(listing->u.list.limit, 1);
}

static void rows_in_doubt_count_for_the_run_that_is_open(void **state)
{
	struct fixture *f = *state;
	struct run_request q = whole("");
	const struct op *listing;
	struct batch *b;

	have_table(f);
	request(f, &q);
	position(f, 500);
	for (int i = 0; i < 4; i++)
		full_page(f, "20:20:", 500, 1 + 200u * (unsigned)i);
	f->seen = f->n;
	doubt_is(f, 1, 1);
	ask(f, CHUNK_PAGE);
	listing = take_listing(f, OP_LIST_DOUBT);
	failed(f, CHUNK_LOST);
	answer_listing(f, listing, 1, (struct listed[]){{7, NULL}}, 1, 7, true);
	f->now += SEC;
	f->seen = f->n;
	ask(f, CHUNK_KEYED);
	assert_int_equal(f->r->run_id, 0);
	snapshot(f, "20:20:", 700);
	row(f, "7", "x");
	end(f);
	position(f, 700);
	b = take_chunk(f, 700, 1);
	assert_int_equal(b->ops[0].u.run.run_id, 5);
	assert_true(b->ops[0].u.run.chunk->refetch);
}

/* ---- pause, resume, stop ---- */

static void a_paused_run_gives_up_what_has_not_closed(void **state)
{
	struct fixture *f = *state;
	struct run_request q = whole("");

	have_table(f);
	request(f, &q);
	full_page(f, "20:20:", 500, 1);
	position(f, 500);
	full_page(f, "20:20:", 600, 201);
	f->seen = f->n;
	assert_true(copier_pause_run(f->c, 5, f->now));
	run_moved(take(f), RUN_PAUSED);
	position(f, 600);
	nothing_emitted(f);
	ask_nothing(f);
	assert_int_equal(copier_next_at(f->c), INT64_MAX);
	assert_true(copier_pause_run(f->c, 5, f->now));
	nothing_emitted(f);

	assert_true(copier_resume_run(f->c, 5, f->now));
	run_moved(take(f), RUN_COPYING);
	ask(f, CHUNK_PAGE);
	assert_string_equal(f->r->params[0], "200");
}

static void a_paused_run_lets_others_go(void **state)
{
	struct fixture *f = *state;
	struct run_request a = whole("a"), b = whole("b");

	have_table(f);
	request(f, &a);
	request(f, &b);
	assert_true(copier_pause_run(f->c, 5, f->now));
	ask(f, CHUNK_PAGE);
	assert_int_equal(f->r->run_id, 6);
	assert_true(copier_resume_run(f->c, 5, f->now)); /* its turn is before the other's */
	failed(f, CHUNK_LOST);
	f->now += SEC;
	ask(f, CHUNK_PAGE);
	assert_int_equal(f->r->run_id, 5);
}

static void a_paused_sweep_goes_on_as_one(void **state)
{
	struct fixture *f = *state;
	struct run_record r = {.id = 9,
						   .table_id = 1,
						   .kind = RUN_REQUESTED,
						   .state = RUN_PAUSED,
						   .resumes_as = RUN_SWEEPING,
						   .sweep = SWEEP_ON,
						   .gate = "",
						   .requester = "",
						   .first_snapshot = "",
						   .last_snapshot = ""};

	have_table(f);
	r.lowest_bound = (struct pos){EPOCH, LSN(300), 0};
	copier_load_run(f->c, &r);
	ask_nothing(f);
	assert_true(copier_resume_run(f->c, 9, f->now));
	run_moved(take(f), RUN_SWEEPING);
	ask_nothing(f);
	assert_int_equal(take_listing(f, OP_LIST_SUSPECTS)->pos.lsn.v, 300);
}

static void stopping_says_why(void **state)
{
	struct fixture *f = *state;
	struct run_request q = whole("");
	const struct op *op;

	have_table(f);
	request(f, &q);
	f->seen = f->n;
	assert_int_equal(copier_stop_run(f->c, 5, "by hand", f->now), RUN_STOP_OK);
	op = op_of(take(f), OP_RUN_STATE, 0);
	assert_int_equal(op->state, RUN_STOPPED);
	assert_true(slice_eq(body_of(op), slice_of("by hand")));
	assert_int_equal(copier_stop_run(f->c, 5, "by hand", f->now), RUN_STOP_UNKNOWN);
	assert_false(copier_pause_run(f->c, 5, f->now));
	assert_false(copier_resume_run(f->c, 77, f->now));
	ask_nothing(f);
}

/* ---- pace ---- */

static void a_cap_holds_over_time(void **state)
{
	struct fixture *f = *state;
	struct run_request q = whole("");

	have_table(f);
	q.rows_per_second = 50;
	request(f, &q);
	ask(f, CHUNK_PAGE);
	assert_string_equal(f->r->params[0], "50");
	snapshot(f, "20:20:", 500);
	rows(f, 1, 50);
	end(f);
	f->seen = f->n;
	ask_nothing(f);
	assert_int_equal(copier_next_at(f->c), f->now + SEC);
	f->now += SEC;
	ask(f, CHUNK_PAGE);
}

static void a_run_yields_to_a_stream_that_lags(void **state)
{
	struct fixture *f = *state;
	struct run_request q = whole("");

	have_table(f);
	request(f, &q);
	copier_set_load(f->c, (struct copier_load){.lag_us = 10 * SEC, .changes_rate = 100});
	full_page(f, "20:20:", 500, 1);
	ask_nothing(f);
	assert_int_equal(copier_next_at(f->c), f->now + 900000);
	f->now += 900000;
	copier_set_load(f->c, (struct copier_load){.changes_rate = 0});
	full_page(f, "20:20:", 500, 201);
	ask(f, CHUNK_PAGE);
}

static void a_run_asks_for_little_while_the_source_is_busy(void **state)
{
	struct fixture *f = *state;
	struct run_request q = whole("");

	have_table(f);
	request(f, &q);
	ask(f, CHUNK_PAGE);
	snapshot(f, "20:20:", 500);
	rows(f, 1, 200);
	copier_set_load(f->c, (struct copier_load){.changes_rate = 100});
	end_after(f, 20000); /* 200 rows, and 1 ms is enough */
	f->now += SEC;
	ask(f, CHUNK_PAGE);
	assert_string_equal(f->r->params[1], "10");
}

/* ---- connections ---- */

static void each_connection_has_a_request(void **state)
{
	struct fixture *f = *state;
	struct copier_config two = fixture_config;
	const struct chunk_request *first;

	two.requests_max = 2;
	fixture_restart(f, &two);
	copying(f, 1);
	copying(f, 2);
	ask(f, CHUNK_PAGE);
	first = f->r;
	ask(f, CHUNK_PAGE);
	assert_int_not_equal(first->table_id, f->r->table_id);
	ask_nothing(f);
	f->r = first;
	snapshot(f, "20:20:", 500);
	rows(f, 1, 1);
	end(f);
	ask_nothing(f); /* its table's last page was that one; the other's is on its way */
}

static void an_older_snapshot_may_come_on_the_other_connection(void **state)
{
	struct fixture *f = *state;
	struct copier_config two = fixture_config;
	const struct chunk_request *late;

	two.requests_max = 2;
	fixture_restart(f, &two);
	copying(f, 1);
	copying(f, 2);
	begin(f, 11, 300);
	copier_stream_change(f->c, 1, key_of(1));
	commit(f, 310);
	f->seen = f->n;
	ask(f, CHUNK_PAGE);
	late = f->r;
	last_page(f, "20:20:", 500, 1, 1);
	position(f, 500);
	assert_int_equal(count_ops(take_chunk(f, 500, 1), OP_UNSEEN_DROP), 0);
	f->r = late;
	snapshot(f, "10:12:11", 480);
	rows(f, 1, 1);
	end(f);
	take_chunk(f, 300, 1); /* and not 480: it does not see 11 */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_request_is_recorded_as_it_was_made),
		TEST(keys_are_recorded_before_the_run),
		TEST(runs_of_a_table_go_one_after_the_other),
		TEST(the_programs_own_run_goes_first),
		TEST(the_whole_table_by_request_makes_it_copied),
		TEST(a_gate_holds_runs_of_others_too),
		TEST(it_waits_for_what_was_streamed_before),
		TEST(a_condition_is_checked_before_it_is_used),
		TEST(a_bad_condition_ends_its_run),
		TEST(a_missing_column_is_asked_for_some_times),
		TEST(an_empty_range_ends_its_run),
		TEST(another_shape_is_checked_again),
		TEST(only_suspects_in_scope_are_judged),
		TEST(counting_writes_nothing),
		TEST(numbers_of_no_suspect_are_refused),
		TEST(a_range_bounds_the_listing),
		TEST(listed_keys_are_read_whole),
		TEST(a_large_row_behind_a_small_one_is_asked_for_alone),
		TEST(rows_in_doubt_count_for_the_run_that_is_open),
		TEST(a_paused_run_gives_up_what_has_not_closed),
		TEST(a_paused_run_lets_others_go),
		TEST(a_paused_sweep_goes_on_as_one),
		TEST(stopping_says_why),
		TEST(a_cap_holds_over_time),
		TEST(a_run_yields_to_a_stream_that_lags),
		TEST(a_run_asks_for_little_while_the_source_is_busy),
		TEST(each_connection_has_a_request),
		TEST(an_older_snapshot_may_come_on_the_other_connection),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
