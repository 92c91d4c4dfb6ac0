#include <stdlib.h>

#include "snapshot/copier_impl.h"

#define NOW INT64_MIN

#define PAGES_FOR_KEYED  4     /* while pages are to be had, a keyed chunk after so many */
#define SUSPECTS_SCAN    50000 /* entries the applier looks at in one listing */
#define PROBE_AFTER_US   5000000
#define PROBE_AFTER_SIZE 4096

/*
 * Everything that could be asked has a time from which it may be: copier_next()
 * takes what is due, copier_next_at() says when the earliest is. NEVER means
 * that something else has to happen first.
 */

static int64_t later(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int64_t sooner(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t gate_at(const struct copier *c, const struct table *t)
{
	const struct run *r = table_gated_run(t);

	if (!r) return NOW;
	return r->gate_state == GATE_BROKEN ? NEVER : c->gate_at_us;
}

static int64_t check_at(const struct table *t)
{
	return run_needs_check(t->run) ? NOW : NEVER;
}

/* A chunk of the table's run: not before its cap allows, nor while the rest is busy. */
static int64_t run_at(const struct copier *c, const struct table *t)
{
	if (t->run->check != CHECK_GOOD) return NEVER;
	return later(later(gate_at(c, t), t->run->not_before_us), c->yield_at_us);
}

static int64_t page_at(const struct copier *c, const struct table *t)
{
	return run_wants_page(t->run) ? run_at(c, t) : NEVER;
}

/* Listing the keys, or asking for those listed. */
static bool can_move(const struct inquiry *q)
{
	return q->step == INQUIRY_IDLE || q->step == INQUIRY_LISTED;
}

static int64_t suspects_at(const struct copier *c, const struct table *t)
{
	return run_is_sweeping(t->run) && can_move(&t->run->suspects) ? run_at(c, t) : NEVER;
}

static int64_t listing_at(const struct copier *c, const struct table *t)
{
	return run_is_listing(t->run) && can_move(&t->run->listing) ? run_at(c, t) : NEVER;
}

static int64_t doubt_at(const struct copier *c, const struct table *t)
{
	const struct doubt *d = &t->doubt;

	if (d->count == 0 || !can_move(&d->keys)) return NEVER;
	if (run_wants_page(t->run) && d->pages < PAGES_FOR_KEYED)
		return NEVER; /* most of them will be in a page anyway */
	return later(d->due_us, gate_at(c, t));
}

static int64_t table_at(const struct copier *c, const struct table *t)
{
	int64_t at;

	if (!t->schema) return NEVER;
	at = sooner(page_at(c, t), sooner(suspects_at(c, t), doubt_at(c, t)));
	at = sooner(at, sooner(check_at(t), listing_at(c, t)));
	return at == NEVER ? NEVER : later(at, t->not_before_us);
}

/* While windows are open the next one that closes prunes. */
static int64_t probe_at(const struct copier *c)
{
	size_t n = unseen_count(c->unseen);

	if (n == 0 || c->windows || c->requests) return NEVER;
	if (n >= c->pruned_left + PROBE_AFTER_SIZE) return c->probe_at_us;
	return later(c->pruned_us + PROBE_AFTER_US, c->probe_at_us);
}

static bool has_room(const struct copier *c)
{
	size_t n = 0, bytes = 0;

	for (const struct window *w = c->windows; w; w = w->next) {
		n++;
		bytes += window_memory(w);
	}
	for (const struct request *r = c->requests; r; r = r->next)
		n += r->end_known; /* its rows are about to be a window */
	return n == 0 || (n < c->config.windows_max && bytes < c->config.buffer_bytes);
}

/* ---- questions to the applier ---- */

static struct op *add_listing(struct copier *c, enum op_kind kind, struct table *t, struct inquiry *q)
{
	struct batch *b = copier_outbox(c);
	struct op *op = batch_add(b, kind);

	inquiry_list(q, ++c->next_token);
	op->table_id = t->id;
	op->key = (struct slice){arena_copy(&b->arena, q->from.p, q->from.n), q->from.n};
	op->u.list.token = q->token;
	op->u.list.limit = t->key_pace.rows;
	return op;
}

/* Between the bounds of the run's scope, as far as the store's order goes. */
static void bound_listing(struct copier *c, struct table *t, struct op *op)
{
	struct arena *a = &copier_outbox(c)->arena;
	struct buf low = {0}, high = {0};

	scope_encode(&t->run->scope, t->schema, &low, &high);
	if (op->key.n == 0 && low.n > 0) {
		op->key = (struct slice){arena_copy(a, low.p, low.n), low.n};
		op->flags |= OP_F_INCLUSIVE;
	}
	op->body = arena_copy(a, high.p, high.n);
	op->body_len = high.n;
	buf_finish(&low);
	buf_finish(&high);
}

/* Not more keys at once than rows may be read. */
static void cap_listing(struct op *op, const struct run *r)
{
	if (op->u.list.limit > run_rows_max(r)) op->u.list.limit = run_rows_max(r);
}

static void list_suspects(struct copier *c, struct table *t)
{
	struct op *op = add_listing(c, OP_LIST_SUSPECTS, t, &t->run->suspects);

	op->pos = t->run->lowest;
	op->flags = t->run->suspects.whole ? OP_F_WHOLE_ROWS : 0;
	op->u.list.scan_limit = SUSPECTS_SCAN;
	cap_listing(op, t->run);
	bound_listing(c, t, op);
}

static void list_run_keys(struct copier *c, struct table *t)
{
	struct op *op = add_listing(c, OP_LIST_RUN_KEYS, t, &t->run->listing);

	op->u.list.run_id = t->run->id;
	cap_listing(op, t->run);
}

/* ---- questions to the source ---- */

static struct request *ask_page(struct table *t)
{
	t->doubt.pages++;
	return request_page(t);
}

static struct request *ask_listed(struct copier *c, struct table *t)
{
	if (t->run->listing.step == INQUIRY_LISTED) return request_listed(t, inquiry_take(&t->run->listing));
	list_run_keys(c, t);
	return NULL;
}

static struct request *ask_suspects(struct copier *c, struct table *t)
{
	if (t->run->suspects.step == INQUIRY_LISTED) return request_suspects(t, inquiry_take(&t->run->suspects));
	list_suspects(c, t);
	return NULL;
}

static struct request *ask_doubt(struct copier *c, struct table *t)
{
	if (t->doubt.keys.step == INQUIRY_LISTED) {
		t->doubt.pages = 0;
		return request_doubt(t, inquiry_take(&t->doubt.keys));
	}
	add_listing(c, OP_LIST_DOUBT, t, &t->doubt.keys);
	return NULL;
}

/* A listing is on its way while its table goes on with pages. */
static struct request *ask_table(struct copier *c, struct table *t)
{
	struct request *r = NULL;

	if (table_at(c, t) > c->now_us) return NULL;
	if (doubt_at(c, t) <= c->now_us) r = ask_doubt(c, t);
	if (!r && check_at(t) <= c->now_us) r = request_check(t);
	if (!r && page_at(c, t) <= c->now_us) r = ask_page(t);
	if (!r && suspects_at(c, t) <= c->now_us) r = ask_suspects(c, t);
	if (!r && listing_at(c, t) <= c->now_us) r = ask_listed(c, t);
	return r;
}

/* Tables take turns, so that a small one does not wait for a large one. */
static struct table *after(const struct copier *c, const struct table *t)
{
	return t && t->hh.next ? t->hh.next : c->tables;
}

static struct request *ask_in_turn(struct copier *c)
{
	struct table *t = c->turn;

	for (unsigned left = HASH_COUNT(c->tables); left > 0; left--) {
		struct request *r;

		t = after(c, t);
		r = ask_table(c, t);
		if (!r) continue;
		c->turn = t;
		return r;
	}
	return NULL;
}

/* ---- the contract ---- */

static bool may_ask(const struct copier *c)
{
	size_t n = 0, max = c->config.requests_max ? c->config.requests_max : 1;

	for (const struct request *r = c->requests; r; r = r->next)
		n += !r->end_known;
	return n < max && has_room(c);
}

const struct chunk_request *copier_next(struct copier *c, int64_t now_us)
{
	struct request *r;

	copier_clock(c, now_us);
	if (!may_ask(c) || c->floor_at_us > c->now_us) return NULL;
	r = ask_in_turn(c);
	if (!r && probe_at(c) <= c->now_us) r = request_probe();
	copier_flush(c);
	if (!r) return NULL;
	r->pub.id = ++c->next_request;
	r->window->asked_seq = ++c->seq;
	r->window->asked_at = c->received;
	r->next = c->requests;
	c->requests = r;
	return &r->pub;
}

int64_t copier_next_at(const struct copier *c)
{
	int64_t at = NEVER;

	if (!may_ask(c)) return NEVER;
	for (const struct table *t = c->tables; t; t = t->hh.next)
		at = sooner(at, table_at(c, t));
	at = sooner(at, probe_at(c));
	return at == NEVER ? NEVER : later(at, later(c->floor_at_us, 0));
}
