#include "reader/signals.h"

#include <stdlib.h>
#include <string.h>

bool signal_is_message(const struct pgo_msg *m)
{
	return strcmp(m->u.message.prefix, "tidemark") == 0 &&
		   !slice_eq(m->u.message.content, slice_of("watermark"));
}

static struct signal *add(struct signals *s, size_t bytes)
{
	if (s->n >= SIGNALS_MAX || s->arena.used + bytes > SIGNAL_BYTES_MAX) {
		s->left_out++;
		return NULL;
	}
	if (s->v == NULL) s->v = mem_alloc(SIGNALS_MAX * sizeof *s->v);
	s->v[s->n] = (struct signal){.number = (unsigned)s->n + 1};
	return &s->v[s->n++];
}

static struct slice keep(struct signals *s, struct slice text)
{
	if (text.p == NULL) return text;
	return (struct slice){arena_copy(&s->arena, text.p, text.n), text.n};
}

void signals_add_message(struct signals *s, struct slice content)
{
	struct signal *signal = add(s, content.n);
	if (signal != NULL) signal->content = keep(s, content);
}

static struct slice cell_of(const struct relation *r, const struct pgo_tuple *row, const char *column)
{
	int stored = schema_find(r->schema, column);
	int wire = stored >= 0 ? r->wire_of[stored] : -1;
	if (wire < 0 || wire >= row->n || row->cells[wire].kind != 't') return (struct slice){NULL, 0};
	return row->cells[wire].text;
}

void signals_add_row(struct signals *s, const struct relation *r, const struct pgo_tuple *row)
{
	struct slice id = cell_of(r, row, "id"), type = cell_of(r, row, "type"), data = cell_of(r, row, "data");
	struct signal *signal = add(s, id.n + type.n + data.n);
	if (signal == NULL) return;
	signal->is_row = true;
	signal->id = keep(s, id);
	signal->type = keep(s, type);
	signal->data = keep(s, data);
}

void signals_reset(struct signals *s)
{
	arena_reset(&s->arena);
	s->n = s->left_out = 0;
}

void signals_finish(struct signals *s)
{
	free(s->v);
	arena_finish(&s->arena);
	*s = (struct signals){.n = 0};
}
