/*
 * Signals of the source: a message or a row of any bytes is a request that could have come otherwise, a
 * line for the log, or is refused with a sentence; and means the same when it is delivered again.
 */
#include "reader/signal.h"
#include "tests/fuzz/fuzz.h"

struct meant {
	bool ok, is_request;
	char *id;
	size_t ntables, ntargets;
};

static void check_meaning(const struct signal_meaning *m)
{
	struct err err = {0};

	CHECK_THAT(m->is_request || m->log, "it means nothing");
	if (!m->is_request) return;
	CHECK_THAT(m->request.requester, "nobody asked");
	if (m->request.verb == REQUEST_START) {
		CHECK_THAT(m->request.ntables > 0, "a start of nothing");
		CHECK_THAT(m->request.id && request_check_id(m->request.id, &err), "%s", err.msg);
	} else {
		CHECK_THAT(m->request.all != (m->request.ntargets > 0), "%zu targets", m->request.ntargets);
	}
}

static struct meant read_once(const struct signal *s)
{
	struct signal_meaning m;
	struct err err = {0};
	struct meant out = {.ok = signal_read(s, &m, &err)};

	if (!out.ok) {
		check_refusal(&err);
		CHECK_THAT(err.kind == ERR_CONFIG, "%s", err.msg);
		return out;
	}
	check_meaning(&m);
	out.is_request = m.is_request;
	if (m.is_request) {
		out.id = m.request.id ? strdup(m.request.id) : NULL;
		out.ntables = m.request.ntables;
		out.ntargets = m.request.ntargets;
	}
	request_finish(&m.request);
	free(m.log);
	return out;
}

/* Up to the next NUL. Only a column can be NULL. */
static struct slice take_text(struct feed *f, bool null)
{
	char *text = feed_text(f);
	struct slice s = null ? (struct slice){0} : alone(slice_of(text));

	free(text);
	return s;
}

static struct signal take_signal(struct feed *f)
{
	uint8_t how = feed_u8(f);
	struct signal s = {.commit_lsn = LSN(0x1000), .number = 1, .is_row = how & 1};

	if (!s.is_row) {
		s.content = alone(feed_bytes(f, feed_left(f)));
		return s;
	}
	s.id = take_text(f, how & 2);
	s.type = take_text(f, how & 4);
	s.data = take_text(f, how & 8);
	return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = feed_of(data, size);
	struct signal s = take_signal(&f);
	struct meant first = read_once(&s), again = read_once(&s);

	CHECK_THAT(first.ok == again.ok && first.is_request == again.is_request && !first.id == !again.id &&
				   first.ntables == again.ntables && first.ntargets == again.ntargets,
			   "another meaning");
	CHECK_THAT(!first.id || strcmp(first.id, again.id) == 0, "%s, then %s", first.id, again.id);
	free(first.id);
	free(again.id);
	alone_free(s.content);
	alone_free(s.id);
	alone_free(s.type);
	alone_free(s.data);
	return 0;
}
