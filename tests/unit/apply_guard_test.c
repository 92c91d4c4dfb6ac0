#include "apply_fixture.h"

#include "apply/guard.h"

#define EVENTS 7
#define ORDERS 5040 /* 7! */
#define TABLES 60   /* orders tried in one commit, each in a table of its own; divides ORDERS */
#define X      1
#define Y      2

/* ---- seven events ---- */

enum event_kind { PUT, DEL, SNAPSHOT, TRUNC };

struct event {
	enum event_kind kind;
	int32_t key;
	uint64_t lsn, ordinal;
	const char *value;
};

static const struct event EVENT[EVENTS] = {
	{PUT, X, 10, 1, "inserted"},    {PUT, X, 20, 2, "updated"}, {DEL, X, 30, 1, NULL},
	{SNAPSHOT, X, 25, 0, "copied"}, {PUT, Y, 10, 2, "first"},   {DEL, Y, 20, 1, NULL},
	{PUT, Y, 40, 1, "again"},
};

/* Variant 0: the events as they are; variant i: a truncate in place of event i - 1. */
static struct event event_of(int variant, int i)
{
	struct event e = EVENT[i];

	if (variant == i + 1) {
		e.kind = TRUNC;
		e.ordinal = e.ordinal ? e.ordinal : 1;
	}
	return e;
}

/* The n-th order of 0 .. EVENTS-1. */
static void order_of(int n, int out[EVENTS])
{
	int left[EVENTS];

	for (int i = 0; i < EVENTS; i++)
		left[i] = i;
	for (int i = 0, size = EVENTS; i < EVENTS; i++, size--) {
		int pick = n % size;

		n /= size;
		out[i] = left[pick];
		memmove(&left[pick], &left[pick + 1], (size_t)(size - pick - 1) * sizeof *left);
	}
}

/* ---- the pure guard on a model ---- */

struct model {
	struct pos floor;
	struct {
		bool present, deleted;
		struct pos pos;
		const char *value;
	} key[3];
};

static void model_truncate(struct model *m, struct pos pos)
{
	if (pos_cmp(m->floor, pos) >= 0) return;
	m->floor = pos;
	for (int k = X; k <= Y; k++)
		if (m->key[k].present && pos_cmp(m->key[k].pos, pos) < 0) m->key[k].present = false;
}

static void model_apply(struct model *m, const struct event *e, uint64_t base)
{
	struct pos pos = at(base + e->lsn, e->ordinal);

	if (e->kind == TRUNC) {
		model_truncate(m, pos);
		return;
	}
	if (!guard_admits(m->key[e->key].present, m->key[e->key].pos, m->floor, pos)) return;
	m->key[e->key].present = true;
	m->key[e->key].deleted = e->kind == DEL;
	m->key[e->key].pos = pos;
	m->key[e->key].value = e->value;
}

static const char *model_text(const struct model *m, int32_t k, char out[256])
{
	snprintf(out, 256, "absent");
	if (m->key[k].present)
		snprintf(out, 256, "%llu.%llu %s", (unsigned long long)m->key[k].pos.lsn.v,
				 (unsigned long long)m->key[k].pos.ordinal, m->key[k].deleted ? "deleted" : m->key[k].value);
	return out;
}

/* ---- the applier ---- */

static void add_event(struct batch *b, uint32_t table, const struct event *e, uint64_t base)
{
	struct pos pos = at(base + e->lsn, e->ordinal);

	if (e->kind == SNAPSHOT) {
		add_chunk(b, table, 0, pos.lsn.v, "1:1:");
		add_chunk_row(b, table, e->key, text_cell(e->value), text_cell(NULL));
		return;
	}
	if (e->kind == PUT)
		add_upsert(b, table, pos, e->key, text_cell(e->value), text_cell(NULL), 0, -1);
	else if (e->kind == DEL)
		add_delete(b, table, pos, e->key);
	else
		add_truncate(b, table, pos);
	add_commit(b, pos.lsn.v, base + 100, 1);
}

/* Orders first .. first+TABLES-1, each in its table, which a truncate at `base` has emptied. */
static void apply_orders(struct fixture *f, int variant, int first, uint64_t base, bool reversed)
{
	struct batch *b = batch_create();

	for (uint32_t t = 1; t <= TABLES; t++) {
		int order[EVENTS];

		order_of(first + (int)t - 1, order);
		if (!reversed) {
			add_truncate(b, t, at(base, 1));
			add_commit(b, base, base + 100, 1);
		}
		for (int i = 0; i < EVENTS; i++) {
			struct event e = event_of(variant, order[reversed ? EVENTS - 1 - i : i]);

			add_event(b, t, &e, base);
		}
	}
	apply_commit_take(f, b);
}

static void model_order(struct model *m, int variant, int n, uint64_t base)
{
	int order[EVENTS];

	*m = (struct model){.floor = at(base, 1)};
	order_of(n, order);
	for (int i = 0; i < EVENTS; i++) {
		struct event e = event_of(variant, order[i]);

		model_apply(m, &e, base);
	}
}

static void assert_table(struct fixture *f, uint32_t table, const struct model *m)
{
	uint64_t live = 0, markers = 0;
	char want[256], found[256];

	for (int k = X; k <= Y; k++) {
		/* The applier's rows show a second column, NULL here. */
		model_text(m, k, want);
		if (m->key[k].present && !m->key[k].deleted) strcat(want, " NULL");
		assert_string_equal(entry_text(f, table, k, found), want);
		live += m->key[k].present && !m->key[k].deleted;
		markers += m->key[k].present && m->key[k].deleted;
	}
	assert_counters(f, table, live, 0, 0, markers);
}

static void check_orders(struct fixture *f, int variant, int first, uint64_t base)
{
	struct model sorted, m;
	char a[256], b[256];

	model_order(&sorted, variant, 0, base); /* for the sake of a value: all orders are compared with it */
	apply_orders(f, variant, first, base, false);
	for (int i = 0; i < TABLES; i++) {
		model_order(&m, variant, first + i, base);
		for (int k = X; k <= Y; k++)
			assert_string_equal(model_text(&m, k, a), model_text(&sorted, k, b));
		assert_table(f, (uint32_t)i + 1, &sorted);
	}
	apply_orders(f, variant, first, base, true);
	for (int i = 0; i < TABLES; i++)
		assert_table(f, (uint32_t)i + 1, &sorted);
}

static void every_order_ends_in_one_table(void **state)
{
	struct fixture f;
	uint64_t base = 1000;

	(void)state;
	fixture_open(&f);
	fixture_tables(&f, TABLES);
	for (int variant = 0; variant <= EVENTS; variant++)
		for (int first = 0; first < ORDERS; first += TABLES, base += 1000)
			check_orders(&f, variant, first, base);
	fixture_close(&f);
}

/* What the table above must be, said once in words. */
static void the_table_is_the_newest_of_each_key(void **state)
{
	struct model m;
	char text[256];

	(void)state;
	model_order(&m, 0, 0, 0);
	assert_string_equal(model_text(&m, X, text), "30.1 deleted");
	assert_string_equal(model_text(&m, Y, text), "40.1 again");
	model_order(&m, 7, 0, 0); /* a truncate at 40 in place of the last insert */
	assert_string_equal(model_text(&m, X, text), "absent");
	assert_string_equal(model_text(&m, Y, text), "absent");
	assert_int_equal(m.floor.lsn.v, 40);
	model_order(&m, 2, 0, 0); /* a truncate at 20.2 */
	assert_string_equal(model_text(&m, X, text), "30.1 deleted");
	assert_string_equal(model_text(&m, Y, text), "40.1 again");
}

/* ---- equal positions: <= in place of < would fail these ---- */

static void an_equal_position_is_not_admitted(void **state)
{
	struct pos p = at(10, 1), lower = at(9, 7), higher = at(10, 2);

	(void)state;
	assert_false(guard_admits(true, p, POS_NONE, p));
	assert_false(guard_admits(true, p, POS_NONE, lower));
	assert_true(guard_admits(true, p, POS_NONE, higher));
	assert_false(guard_admits(false, POS_NONE, p, p));
	assert_false(guard_admits(false, higher, p, lower));
	assert_true(guard_admits(false, POS_NONE, p, higher));
	assert_false(guard_admits(false, POS_NONE, POS_NONE, POS_NONE));
	/* The floor says nothing about a key that is present, nor a stored position about one that is not. */
	assert_true(guard_admits(true, lower, higher, p));
	assert_false(guard_admits(false, lower, p, p));
	/* The epoch comes first. */
	assert_true(guard_admits(true, (struct pos){1, LSN(900), 5}, POS_NONE, (struct pos){2, LSN(1), 0}));
}

static void the_applier_keeps_the_first_of_two_equals(void **state)
{
	struct fixture f;
	struct batch *b = batch_create();

	(void)state;
	fixture_open(&f);
	fixture_tables(&f, 1);
	add_upsert(b, 1, at(10, 1), X, text_cell("first"), text_cell(NULL), 0, -1);
	add_upsert(b, 1, at(10, 1), X, text_cell("second"), text_cell(NULL), 0, -1);
	add_delete(b, 1, at(10, 1), X);
	add_delete(b, 1, at(10, 2), Y);
	add_upsert(b, 1, at(10, 2), Y, text_cell("revived"), text_cell(NULL), 0, -1);
	add_truncate(b, 1, at(10, 1)); /* not below: neither entry goes */
	add_upsert(b, 1, at(10, 1), 3, text_cell("at the floor"), text_cell(NULL), 0, -1);
	add_commit(b, 10, 11, 1);
	add_chunk(b, 1, 0, 20, "1:1:");
	add_chunk_row(b, 1, 4, text_cell("chunk"), text_cell(NULL));
	add_chunk(b, 1, 0, 20, "1:1:");
	add_chunk_row(b, 1, 4, text_cell("the same B"), text_cell(NULL));
	add_gone(b, 1, 4);
	apply_commit_take(&f, b);
	assert_entry(&f, 1, X, "10.1 first NULL");
	assert_entry(&f, 1, Y, "10.2 deleted");
	assert_entry(&f, 1, 3, "absent");
	assert_entry(&f, 1, 4, "20.0 chunk NULL");
	assert_counters(&f, 1, 2, 0, 0, 1);
	fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_equal_position_is_not_admitted),
		cmocka_unit_test(the_table_is_the_newest_of_each_key),
		cmocka_unit_test(every_order_ends_in_one_table),
		cmocka_unit_test(the_applier_keeps_the_first_of_two_equals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
