#include "state/history.h"

#include <string.h>

#include "state/mutant.h"

/* ---- encoding ---- */

void history_encode(const struct purge_history *h, struct buf *out)
{
	buf_put_u64(out, h->purged);
	buf_put_u64(out, (uint64_t)h->retention_us);
	buf_put_u16(out, (uint16_t)h->n);
	for (size_t i = 0; i < h->n; i++) {
		buf_put_u64(out, (uint64_t)h->samples[i].time_us);
		buf_put_u16(out, h->samples[i].epoch);
		buf_put_u64(out, h->samples[i].lsn.v);
	}
}

bool history_decode(struct slice bytes, struct purge_history *out, struct err *err)
{
	struct cur c = cur_of(bytes);

	*out = HISTORY_NONE;
	out->purged = cur_u64(&c);
	out->retention_us = (int64_t)cur_u64(&c);
	out->n = cur_u16(&c);
	if (out->n > HISTORY_MAX) c.bad = true;
	for (size_t i = 0; i < out->n && !c.bad; i++) {
		out->samples[i].time_us = (int64_t)cur_u64(&c);
		out->samples[i].epoch = cur_u16(&c);
		out->samples[i].lsn = LSN(cur_u64(&c));
	}
	if (cur_done(&c)) return true;
	*out = HISTORY_NONE;
	return err_set(err, ERR_CORRUPT, "a history record of %zu bytes is damaged", bytes.n);
}

/* ---- samples ---- */

static void drop(struct purge_history *h, size_t i)
{
	h->n--;
	memmove(&h->samples[i], &h->samples[i + 1], (h->n - i) * sizeof h->samples[0]);
}

/* The clock was set back: what was noted in its future would count as young for too long. */
static bool drop_future(struct purge_history *h, int64_t now_us)
{
	size_t n = h->n;

	while (h->n > 0 && h->samples[h->n - 1].time_us > now_us)
		h->n--;
	return h->n < n;
}

/* One that is old enough does. When there is no room, the oldest one, which may be that, stays. */
static void drop_old(struct purge_history *h, int64_t then_us)
{
	while (h->n > 1 && h->samples[1].time_us <= then_us)
		drop(h, 0);
	if (h->n == HISTORY_MAX) drop(h, 1);
}

static bool is_due(const struct purge_history *h, int64_t now_us, int64_t retention_us,
				   const struct checkpoint *c)
{
	const struct sample *last = h->n > 0 ? &h->samples[h->n - 1] : NULL;

	if (retention_us == 0 || c->lsn.v == 0) return false;
	if (!last) return true;
	return now_us - last->time_us >= retention_us / 32 &&
		   (last->epoch != c->epoch || last->lsn.v != c->lsn.v);
}

bool history_note(struct purge_history *h, int64_t now_us, int64_t retention_us, const struct checkpoint *c)
{
	bool changed = drop_future(h, now_us) || h->retention_us != retention_us;

	h->retention_us = retention_us;
	if (!is_due(h, now_us, retention_us, c)) return changed;
	drop_old(h, now_us - retention_us);
	h->samples[h->n++] = (struct sample){now_us, c->epoch, c->lsn};
	return true;
}

/* ---- the limit ---- */

static struct pos start_of(uint16_t epoch, lsn_t lsn)
{
	return (struct pos){epoch, lsn, 0};
}

static void lower(struct pos *limit, struct pos to, enum purge_bound *bound, enum purge_bound because)
{
	if (pos_cmp(to, *limit) >= 0) return;
	*limit = to;
	*bound = because;
}

static struct pos reached(const struct purge_history *h, int64_t then_us)
{
	for (size_t i = h->n; i > 0; i--)
		if (h->samples[i - 1].time_us <= then_us)
			return start_of(h->samples[i - 1].epoch, h->samples[i - 1].lsn);
	return POS_NONE;
}

struct pos purge_limit(const struct purge_history *h, const struct checkpoint *c, lsn_t oldest_unseen,
					   int64_t now_us, int64_t retention_us, enum purge_bound *bound)
{
	struct pos limit = start_of(c->epoch, MUTANT(PURGE_AHEAD) ? LSN(UINT64_MAX) : c->lsn);

	*bound = PURGE_TO_CHECKPOINT;
	if (oldest_unseen.v != 0 && !MUTANT(PURGE_BLIND))
		lower(&limit, start_of(c->epoch, oldest_unseen), bound, PURGE_TO_UNSEEN);
	if (retention_us > 0) lower(&limit, reached(h, now_us - retention_us), bound, PURGE_TO_RETENTION);
	return limit;
}
