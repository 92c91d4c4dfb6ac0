#include "tests/sim/ask.h"

#include <stdio.h>
#include <string.h>

/* ---- conditions ---- */

static enum ask_answer in(bool yes)
{
	return yes ? ASK_IN : ASK_OUT;
}

static enum ask_answer is_two(int key, struct src_row row)
{
	(void)key;
	return in(row.tenant == 2);
}

/* NULL is neither. */
static enum ask_answer is_not_two(int key, struct src_row row)
{
	(void)key;
	return in(row.tenant != 0 && row.tenant != 2);
}

static enum ask_answer is_one_or_none(int key, struct src_row row)
{
	(void)key;
	return in(row.tenant <= 1);
}

static enum ask_answer has_no_wide(int key, struct src_row row)
{
	(void)key;
	return in(row.wide[0] == 0);
}

static enum ask_answer has_even_key(int key, struct src_row row)
{
	(void)row;
	return in(key % 2 == 0);
}

/* Another answer after every update. */
static enum ask_answer has_even_version(int key, struct src_row row)
{
	(void)key;
	return in(row.version % 2 == 0);
}

static enum ask_answer is_far_from_one(int key, struct src_row row)
{
	(void)key;
	return row.tenant == 1 ? ASK_ERROR : in(row.tenant != 0);
}

static enum ask_answer is_nonsense(int key, struct src_row row)
{
	(void)key;
	(void)row;
	return ASK_ERROR;
}

static const struct condition {
	const char *sql;
	enum ask_answer (*holds)(int key, struct src_row row);
} conditions[] = {
	{"", NULL},
	{"tenant = 2", is_two},
	{"tenant <> 2", is_not_two},
	{"tenant IS NULL OR tenant = 1", is_one_or_none},
	{"w0 IS NULL", has_no_wide},
	{"id % 2 = 0", has_even_key},
	{"a % 2 = 0", has_even_version},
	{"10 / (tenant - 1) > 4", is_far_from_one},
	{"nonsense = 1", is_nonsense},
};
#define CONDITIONS (int)(sizeof conditions / sizeof *conditions)

/* ---- drawing ---- */

struct ask ask_whole(int table, enum sweep_mode sweep)
{
	return (struct ask){.table = table, .sweep = sweep, .low = -1, .high = -1};
}

/* With keys that are nowhere, and some twice. */
static void draw_list(struct ask *a, struct rng *r)
{
	a->nlisted = rng_range(r, 1, ASK_LISTED_MAX);
	for (int i = 0; i < a->nlisted; i++)
		a->listed[i] = (int)rng_below(r, ASK_KEYS_MAX);
}

static void draw_bounds(struct ask *a, struct rng *r)
{
	a->low = rng_range(r, -1, SRC_KEYS_MAX - 1);
	a->high = rng_chance(r, 30) ? -1 : a->low + rng_range(r, rng_chance(r, 5) ? -1 : 0, 4);
}

struct ask ask_draw(struct rng *r, int table)
{
	static const char *const names[] = {"", "", "x", "y"};
	static const uint32_t caps[] = {0, 0, 0, 10, 100};
	static const enum sweep_mode sweeps[] = {SWEEP_OFF, SWEEP_ON, SWEEP_ON, SWEEP_COUNT};
	struct ask a = ask_whole(table, sweeps[rng_below(r, 4)]);
	unsigned kind = rng_below(r, 100);

	a.requested = true;
	snprintf(a.name, sizeof a.name, "%s", names[rng_below(r, 4)]);
	a.rows_per_second = caps[rng_below(r, 5)];
	if (kind < 20)
		draw_list(&a, r);
	else if (kind < 85)
		a.condition = (int)rng_below(r, rng_chance(r, 20) ? CONDITIONS : CONDITIONS - 2);
	if (kind >= 60 && kind < 95) draw_bounds(&a, r);
	return a;
}

/* ---- meaning ---- */

bool ask_is_whole(const struct ask *a)
{
	return a->condition == 0 && a->low < 0 && a->high < 0 && a->nlisted == 0;
}

bool ask_is_hopeless(const struct ask *a)
{
	return conditions[a->condition].holds == is_nonsense || (a->low >= 0 && a->high >= 0 && a->low > a->high);
}

enum ask_answer ask_holds(const struct ask *a, int key, struct src_row row)
{
	if (key < a->low || (a->high >= 0 && key > a->high)) return ASK_OUT;
	return a->condition ? conditions[a->condition].holds(key, row) : ASK_IN;
}

bool ask_lists(const struct ask *a, int key)
{
	for (int i = 0; i < a->nlisted; i++)
		if (a->listed[i] == key) return true;
	return false;
}

bool ask_covers(const struct ask *a, int key, struct src_row row)
{
	if (a->nlisted > 0) return ask_lists(a, key);
	return ask_is_whole(a) || (row.version && ask_holds(a, key, row) == ASK_IN);
}

const char *ask_where(const struct ask *a)
{
	return conditions[a->condition].sql;
}

/* ---- asking ---- */

static struct slice put_key(struct buf *b, int key)
{
	char text[16];
	int n = snprintf(text, sizeof text, "%d", key);

	buf_put_blob(b, text, (size_t)n);
	return (struct slice){b->p, b->n};
}

uint64_t ask_request(const struct ask *a, struct copier *c, uint32_t table_id, bool *is_new, int64_t now_us)
{
	struct buf low = {0}, high = {0}, keys = {0};
	struct run_request q = {.table_id = table_id,
							.name = a->name,
							.requester = "someone",
							.sweep = a->sweep,
							.where_sql = ask_where(a),
							.listed = (uint64_t)a->nlisted,
							.rows_per_second = a->rows_per_second};
	uint64_t id;

	if (a->low >= 0) q.from = put_key(&low, a->low);
	if (a->high >= 0) q.to = put_key(&high, a->high);
	for (int i = 0; i < a->nlisted; i++)
		q.keys = put_key(&keys, a->listed[i]);
	id = copier_request_run(c, &q, is_new, now_us);
	buf_finish(&low);
	buf_finish(&high);
	buf_finish(&keys);
	return id;
}
