#include "reader/session_impl.h"

#include <stdlib.h>
#include <string.h>

#include "reader/log.h"
#include "reader/signal.h"

enum { IDLE_POSITION_US = 1000000 /* an idle slot's checkpoint moves at most this often */ };

/* ---- the stream ---- */

void session_push(void *ctx, struct batch *b)
{
	struct session *s = ctx;
	if (s->worker == NULL) { /* we are saying goodbye: what comes now will come again */
		batch_destroy(b);
		return;
	}
	worker_push(s->worker, b);
	if (!s->paused && s->stream != NULL && worker_is_full(s->worker)) {
		s->paused = true;
		stream_pause(s->stream);
	}
}

void session_emit(void *ctx, struct batch *b)
{
	struct session *s = ctx;
	changes_emit(s->changes, b);
}

/* What is asked of us is done between two source transactions. */
bool session_on_message(void *ctx, struct slice payload, struct err *err)
{
	struct session *s = ctx;
	bool was_in = changes_in_transaction(s->changes);
	if (s->done) return true;
	if (!changes_message(s->changes, payload, &s->reattach, err)) return false;
	if (was_in && !changes_in_transaction(s->changes)) requests_turn(s->config->requests);
	return true;
}

bool session_is_between(void *ctx)
{
	struct session *s = ctx;
	return !s->done && !changes_in_transaction(s->changes);
}

bool session_replicates(void *ctx, uint32_t table_id)
{
	const struct session *s = ctx;
	for (size_t i = 0; i < s->nwatched; i++)
		if (s->watched[i].table_id == table_id) return true;
	return false;
}

void session_on_position(void *ctx, lsn_t wal_end)
{
	struct session *s = ctx;
	if (!s->done) changes_position(s->changes, wal_end);
}

/* Idle keepalives would make a commit each on a busy server with quiet tables: once a second is enough. */
void session_store_idle(struct session *s)
{
	int64_t now_us = loop_now_us();
	if (now_us - s->idle_stored_us < IDLE_POSITION_US) return;
	if (changes_store_position(s->changes)) s->idle_stored_us = now_us;
}

void session_on_dry(void *ctx)
{
	struct session *s = ctx;
	if (s->done) return;
	changes_dry(s->changes);
	session_store_idle(s);
	session_check_until(s);
	session_ask(s);
}

void session_on_stream_lost(void *ctx, const struct err *err)
{
	struct session *s = ctx;
	s->stream_over = true;
	s->undecodable = s->stream != NULL && stream_was_undecodable(s->stream);
	session_end(s, err);
}

/* ---- signals of the source ---- */

void session_refuse_signal(void *ctx, const char *why)
{
	(void)ctx;
	log_warn("signal refused", KV_S("reason", why), KV_END);
}

static void on_signal(struct session *s, const struct signal *signal)
{
	struct signal_meaning m;
	struct err err;
	if (!signal_read(signal, &m, &err)) {
		session_refuse_signal(s, err.msg);
		return;
	}
	if (m.log != NULL) log_info("signal", KV_S("message", m.log), KV_L("commit", signal->commit_lsn), KV_END);
	if (m.is_request) (void)requests_make_now(s->config->requests, &m.request, &err);
	request_finish(&m.request);
	free(m.log);
}

void session_on_signals(void *ctx, const struct signals *signals)
{
	struct session *s = ctx;
	for (size_t i = 0; i < signals->n; i++)
		on_signal(s, &signals->v[i]);
	if (signals->left_out > 0)
		log_warn("too many signals in one transaction: the rest is left out",
				 KV_U("left_out", signals->left_out), KV_END);
}

static bool is_table(const struct source_table *t, const struct table_name *name)
{
	return strcmp(t->schema_name, name->schema_name) == 0 && strcmp(t->table_name, name->table_name) == 0;
}

void session_find_signal_table(struct session *s)
{
	static const char *const columns[] = {"id", "type", "data"};
	const struct table_name *name = s->config->signal_table;
	for (size_t i = 0; name != NULL && i < s->nwatched; i++) {
		const struct watched *w = &s->watched[i];
		if (!is_table(w->source, name)) continue;
		changes_set_signal_table(s->changes, w->table_id);
		for (size_t c = 0; c < sizeof columns / sizeof *columns; c++)
			if (schema_find(w->source->schema, columns[c]) < 0)
				log_warn("the signal table lacks a column", KV_S("table", w->source->display),
						 KV_S("column", columns[c]), KV_END);
		return;
	}
	if (name != NULL) log_warn("the signal table is not replicated", KV_S("table", name->table_name), KV_END);
}
