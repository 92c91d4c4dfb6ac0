#include "reader/desk.h"

#include <stdlib.h>

#include "reader/log.h"

struct desk {
	struct requests *requests;
	struct control *control;
};

static void refuse(struct control_client *c, const struct err *err)
{
	struct buf line = {0};
	outcome_put_error(err, &line);
	control_answer(c, (struct slice){line.p, line.n});
	buf_finish(&line);
}

static void on_done(void *ctx, const struct request *r, const struct outcome *o, const struct err *err)
{
	struct buf line = {0};
	if (err != NULL) {
		refuse(ctx, err);
		return;
	}
	outcome_put_json(o, r->id, &line);
	control_answer(ctx, (struct slice){line.p, line.n});
	buf_finish(&line);
}

static void on_line(void *ctx, struct control_client *c, struct slice line)
{
	struct desk *d = ctx;
	struct request r;
	struct err err;
	if (!request_parse(line, &r, &err)) {
		log_warn("request refused", KV_S("requester", control_peer(c)), KV_S("reason", err.msg), KV_END);
		refuse(c, &err);
		return;
	}
	if (r.requester == NULL) request_set_requester(&r, control_peer(c));
	if (r.verb == REQUEST_START && r.id == NULL) request_make_id(&r, clock_now_us());
	requests_submit(d->requests, &r, on_done, c);
}

bool desk_open(struct loop *l, const char *dir, struct requests *requests, struct desk **out, struct err *err)
{
	struct desk *d = mem_alloc(sizeof *d);
	*d = (struct desk){.requests = requests};
	if (control_open(l, dir, &(struct control_events){.ctx = d, .line = on_line}, &d->control, err)) {
		*out = d;
		return true;
	}
	free(d);
	return false;
}

void desk_close(struct desk *d)
{
	if (d == NULL) return;
	control_close(d->control);
	free(d);
}
