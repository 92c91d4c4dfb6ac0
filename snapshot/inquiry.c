#include "snapshot/inquiry.h"

#include <assert.h>

void inquiry_finish(struct inquiry *q)
{
	inquiry_reset(q);
	buf_finish(&q->from);
}

void inquiry_reset(struct inquiry *q)
{
	keylist_destroy(q->keys);
	q->keys = NULL;
	q->token = 0;
	q->step = INQUIRY_IDLE;
}

void inquiry_list(struct inquiry *q, uint64_t token)
{
	assert(q->step == INQUIRY_IDLE);
	q->step = INQUIRY_LISTING;
	q->token = token;
}

bool inquiry_answer(struct inquiry *q, const struct answer *a, const struct schema *s)
{
	if (q->step != INQUIRY_LISTING || a->token != q->token) return false;
	if (a->schema_version != s->version) {
		inquiry_reset(q);
		return true;
	}
	q->keys = keylist_create(a, s, q->whole);
	q->step = INQUIRY_LISTED;
	return true;
}

struct keylist *inquiry_take(struct inquiry *q)
{
	struct keylist *keys = q->keys;

	assert(q->step == INQUIRY_LISTED);
	q->keys = NULL;
	q->step = INQUIRY_ASKED;
	return keys;
}

void inquiry_advance(struct inquiry *q, struct slice resume)
{
	struct buf from = {0};

	buf_put(&from, resume.p, resume.n); /* resume may point into what is freed here */
	inquiry_finish(q);
	q->from = from;
}
