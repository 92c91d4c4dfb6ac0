#include "reader/session_impl.h"

#include <stdlib.h>
#include <string.h>

#include "reader/shape.h"

enum {
	LOOK_SOON_US = 100000, /* after the server described a table */
	LOOK_SHARE = 50        /* and never more than a fiftieth of the time */
};

/* ---- the catalog: what the stream does not tell (shape.h) ---- */

/* Attaching again compares store and catalog, and plans what follows. */
static void attach_again(struct session *s, const char *table, const char *why)
{
	struct err err;
	err_set(&err, ERR_RETRY, "table %s %s", table, why);
	s->reattach = true;
	session_end(s, &err);
}

static void compare_shape(struct session *s, struct watched *w, const char *now)
{
	switch (shape_compare(w->shape, now)) {
	case SHAPE_SAME: break;
	case SHAPE_STORAGE:
		free(w->shape);
		w->shape = strdup(now);
		break;
	case SHAPE_OTHER:
	case SHAPE_EXTENDED:
	case SHAPE_ALTERED: attach_again(s, w->source->display, "was altered"); break;
	case SHAPE_PARTS:
		attach_again(s, w->source->display, "has other partitions, or one has another file");
		break;
	case SHAPE_REPUBLISHED:
		attach_again(s, w->source->display, "may have been published otherwise for a while");
		break;
	}
}

static struct watched *find_watched(const struct session *s, uint32_t oid)
{
	for (size_t i = 0; i < s->nwatched; i++)
		if (s->watched[i].source->oid == oid) return &s->watched[i];
	return NULL;
}

static void look_for_new(struct session *s, const PGresult *r, int row)
{
	const char *schema_name = PQgetvalue(r, row, 1), *table_name = PQgetvalue(r, row, 2);
	uint32_t oid = (uint32_t)strtoul(PQgetvalue(r, row, 0), NULL, 10);
	if (!names_match(s->config->attach.tables, schema_name, table_name) ||
		source_tables_find(&s->a.tables, oid) != NULL)
		return;
	char *display = display_name(schema_name, table_name);
	attach_again(s, display, "is new");
	free(display);
}

static void on_shapes(void *ctx, const PGresult *r)
{
	struct session *s = ctx;
	int64_t took_us = loop_now_us() - s->looked_us;
	size_t seen = 0;
	s->looked_us = 0;
	if (s->done) return;
	loop_timer_set(s->look_timer,
				   took_us * LOOK_SHARE > LOOK_EVERY_US ? took_us * LOOK_SHARE : LOOK_EVERY_US);
	if (r == NULL || PQnfields(r) != 4) return;
	for (int row = 0; row < PQntuples(r) && !s->done; row++) {
		struct watched *w = find_watched(s, (uint32_t)strtoul(PQgetvalue(r, row, 0), NULL, 10));
		seen += w != NULL;
		if (w == NULL)
			look_for_new(s, r, row);
		else if (!PQgetisnull(r, row, 3))
			compare_shape(s, w, PQgetvalue(r, row, 3));
	}
	if (!s->done && seen < s->nwatched) attach_again(s, "of ours", "was dropped");
}

void session_look(void *ctx)
{
	struct session *s = ctx;
	if (s->done || s->looked_us != 0) return;
	uint32_t *oids = mem_alloc((s->nwatched + 1) * sizeof *oids);
	for (size_t i = 0; i < s->nwatched; i++)
		oids[i] = s->watched[i].source->oid;
	char *sql = shape_sql(s->a.server_version, s->config->attach.publication, oids, s->nwatched);
	s->looked_us = loop_now_us();
	query_ask(s->query, sql, on_shapes, s);
	free(sql);
	free(oids);
}

void session_on_described(void *ctx)
{
	struct session *s = ctx;
	if (s->look_timer != NULL && s->looked_us == 0) loop_timer_set(s->look_timer, LOOK_SOON_US);
}
