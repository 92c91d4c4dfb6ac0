#include "tests/sim/walsender.h"

#include <string.h>

/* The first commit at or behind `read` that is flushed, or NULL. */
static const struct src_tx *next_commit(const struct walsender *w)
{
	const struct source *s = w->source;
	size_t i = s->nlog;

	while (i && s->log[i - 1]->commit_lsn.v >= w->read.v)
		i--;
	return i < s->nlog && s->log[i]->end_lsn.v <= s->flush.v ? s->log[i] : NULL;
}

static bool is_published(const struct walsender *w, const struct src_event *e)
{
	return e->lsn.v >= w->source->tables[e->table].published.v;
}

static bool is_empty(const struct walsender *w, const struct src_tx *tx)
{
	for (size_t i = 0; i < tx->nevents; i++)
		if (is_published(w, &tx->events[i])) return false;
	return true;
}

void walsender_create_slot(struct walsender *w, struct source *s, bool send_empty,
						   char snapshot[SRC_SNAPSHOT_SIZE])
{
	memset(w, 0, sizeof *w);
	w->source = s;
	w->send_empty = send_empty;
	source_flush(s);
	w->confirmed = w->read = s->flush;
	source_slot_snapshot(s, snapshot);
	trace(s->trace, "slot created at %lu, snapshot %s", w->confirmed.v, snapshot);
}

void walsender_start(struct walsender *w, lsn_t from)
{
	w->read = from.v > w->confirmed.v ? from : w->confirmed;
	w->tx = NULL;
	trace(w->source->trace, "stream starts at %lu, asked for %lu", w->read.v, from.v);
}

void walsender_acknowledge(struct walsender *w, lsn_t durable)
{
	if (durable.v > w->confirmed.v) w->confirmed = durable;
}

static bool begin(struct walsender *w, struct wal_message *out)
{
	const struct src_tx *tx;

	while ((tx = next_commit(w)) != NULL) {
		if (w->send_empty || !is_empty(w, tx)) {
			w->tx = tx;
			w->event = 0;
			*out = (struct wal_message){.kind = WAL_BEGIN, .tx = tx};
			return true;
		}
		w->read = tx->end_lsn;
	}
	return false;
}

bool walsender_next(struct walsender *w, struct wal_message *out)
{
	if (w->tx == NULL) return begin(w, out);
	while (w->event < w->tx->nevents) {
		const struct src_event *e = &w->tx->events[w->event++];

		if (!is_published(w, e)) continue;
		*out = (struct wal_message){.kind = WAL_CHANGE, .tx = w->tx, .change = e};
		return true;
	}
	*out = (struct wal_message){.kind = WAL_COMMIT, .tx = w->tx};
	w->read = w->tx->end_lsn;
	w->tx = NULL;
	return true;
}

void walsender_keepalive(const struct walsender *w, struct wal_message *out)
{
	const struct src_tx *tx = w->tx ? w->tx : next_commit(w);
	lsn_t end = tx ? tx->commit_lsn : w->source->flush;

	if (end.v < w->read.v) end = w->read;
	*out = (struct wal_message){.kind = WAL_KEEPALIVE, .wal_end = end};
}

bool walsender_is_dry(const struct walsender *w)
{
	return w->tx == NULL && next_commit(w) == NULL;
}
