/*
 * A body parser takes its fields from the sticky cursor and returns NULL, or
 * what is wrong with a value it met. Whether all fields were there and nothing
 * is left over is checked once, in finish().
 */
#include "reader/pgoutput.h"

#include <stdio.h>

/* Microseconds from 1970-01-01 to 2000-01-01, PostgreSQL's epoch. */
#define PG_EPOCH_US UINT64_C(946684800000000)

/* Unsigned arithmetic: a nonsense time from outside must wrap, not trap. */
static int64_t unix_us_of_pg(uint64_t pg_us)
{
	return (int64_t)(pg_us + PG_EPOCH_US);
}

static lsn_t get_lsn(struct cur *c)
{
	return LSN(cur_u64(c));
}

static const char *get_cell(struct cur *c, struct pgo_cell *cell)
{
	cell->kind = (char)cur_u8(c);
	cell->text = (struct slice){0};
	switch (cell->kind) {
	case 'n':
	case 'u': return NULL;
	case 't': cell->text = cur_bytes(c, cur_u32(c)); return NULL;
	case 'b': return "a column value in binary format, which was not asked for";
	default: return "a column value of unknown kind";
	}
}

static const char *get_tuple(struct cur *c, struct pgo_cell *cells, struct pgo_tuple *out)
{
	const char *fault = NULL;
	uint16_t n = cur_u16(c);

	if (n > PGO_COLUMNS_MAX) return "a row of more columns than PostgreSQL allows";
	for (uint16_t i = 0; i < n && fault == NULL && !c->bad; i++)
		fault = get_cell(c, &cells[i]);
	*out = (struct pgo_tuple){n, cells};
	return fault;
}

static const char *get_new_tuple(struct cur *c, struct pgo_scratch *s, struct pgo_msg *out)
{
	if (cur_u8(c) != 'N') return "no 'N' before the new row";
	return get_tuple(c, s->new_cells, &out->u.change.new_tuple);
}

static const char *get_old_tuple(struct cur *c, struct pgo_scratch *s, struct pgo_msg *out)
{
	char kind = (char)cur_u8(c);

	if (kind != 'K' && kind != 'O') return "neither 'K' nor 'O' before the old row";
	out->u.change.old_kind = kind;
	return get_tuple(c, s->old_cells, &out->u.change.old_tuple);
}

static const char *get_begin(struct cur *c, struct pgo_scratch *s, struct pgo_msg *out)
{
	(void)s;
	out->u.begin.commit_lsn = get_lsn(c);
	out->u.begin.commit_time_us = unix_us_of_pg(cur_u64(c));
	out->u.begin.xid = cur_u32(c);
	return NULL;
}

static const char *get_commit(struct cur *c, struct pgo_scratch *s, struct pgo_msg *out)
{
	uint8_t flags = cur_u8(c);

	(void)s;
	out->u.commit.commit_lsn = get_lsn(c);
	out->u.commit.end_lsn = get_lsn(c);
	out->u.commit.commit_time_us = unix_us_of_pg(cur_u64(c));
	return flags != 0 ? "unknown commit flags" : NULL;
}

/* Checked and dropped: nothing here depends on where a transaction came from. */
static const char *get_origin(struct cur *c, struct pgo_scratch *s, struct pgo_msg *out)
{
	(void)s, (void)out;
	cur_u64(c);
	cur_cstr(c);
	return NULL;
}

static const char *get_columns(struct cur *c, uint16_t n, struct pgo_column *columns)
{
	for (uint16_t i = 0; i < n && !c->bad; i++) {
		uint8_t flags = cur_u8(c);

		if (flags > 1) return "unknown column flags";
		columns[i].key = flags == 1;
		columns[i].name = cur_cstr(c);
		columns[i].type_oid = cur_u32(c);
		columns[i].typmod = (int32_t)cur_u32(c);
	}
	return NULL;
}

static bool is_identity(char c)
{
	return c == 'd' || c == 'n' || c == 'f' || c == 'i';
}

static const char *get_relation(struct cur *c, struct pgo_scratch *s, struct pgo_msg *out)
{
	out->u.relation.oid = cur_u32(c);
	out->u.relation.schema_name = cur_cstr(c);
	out->u.relation.name = cur_cstr(c);
	out->u.relation.identity = (char)cur_u8(c);
	if (!is_identity(out->u.relation.identity)) return "an unknown replica identity";
	out->u.relation.n = cur_u16(c);
	if (out->u.relation.n > PGO_COLUMNS_MAX) return "more columns than PostgreSQL allows";
	out->u.relation.columns = s->columns;
	return get_columns(c, out->u.relation.n, s->columns);
}

/* Checked and dropped: type names come from the catalog, with the key. */
static const char *get_type(struct cur *c, struct pgo_scratch *s, struct pgo_msg *out)
{
	(void)s, (void)out;
	cur_u32(c);
	cur_cstr(c);
	cur_cstr(c);
	return NULL;
}

static const char *get_insert(struct cur *c, struct pgo_scratch *s, struct pgo_msg *out)
{
	out->u.change.oid = cur_u32(c);
	return get_new_tuple(c, s, out);
}

static const char *get_update(struct cur *c, struct pgo_scratch *s, struct pgo_msg *out)
{
	out->u.change.oid = cur_u32(c);
	if (c->p < c->end && *c->p != 'N') {
		const char *fault = get_old_tuple(c, s, out);

		if (fault != NULL) return fault;
	}
	return get_new_tuple(c, s, out);
}

static const char *get_delete(struct cur *c, struct pgo_scratch *s, struct pgo_msg *out)
{
	out->u.change.oid = cur_u32(c);
	return get_old_tuple(c, s, out);
}

static const char *get_truncate(struct cur *c, struct pgo_scratch *s, struct pgo_msg *out)
{
	uint32_t n = cur_u32(c);
	uint8_t flags = cur_u8(c);

	if (n > PGO_COLUMNS_MAX) return "more relations than one message may have";
	if (flags > 3) return "unknown truncate flags";
	for (uint32_t i = 0; i < n; i++)
		s->relations[i] = cur_u32(c);
	out->u.truncate.n = n;
	out->u.truncate.oids = s->relations;
	out->u.truncate.cascade = flags & 1;
	out->u.truncate.restart_identity = flags & 2;
	return NULL;
}

static const char *get_message(struct cur *c, struct pgo_scratch *s, struct pgo_msg *out)
{
	uint8_t flags = cur_u8(c);

	(void)s;
	out->u.message.transactional = flags & 1;
	out->u.message.lsn = get_lsn(c);
	out->u.message.prefix = cur_cstr(c);
	out->u.message.content = cur_bytes(c, cur_u32(c));
	return flags > 1 ? "unknown message flags" : NULL;
}

static const struct format {
	char kind;
	const char *name;
	const char *(*get)(struct cur *c, struct pgo_scratch *s, struct pgo_msg *out);
} formats[] = {
	{PGO_BEGIN, "begin", get_begin},
	{PGO_COMMIT, "commit", get_commit},
	{PGO_ORIGIN, "origin", get_origin},
	{PGO_RELATION, "relation", get_relation},
	{PGO_TYPE, "type", get_type},
	{PGO_INSERT, "insert", get_insert},
	{PGO_UPDATE, "update", get_update},
	{PGO_DELETE, "delete", get_delete},
	{PGO_TRUNCATE, "truncate", get_truncate},
	{PGO_MESSAGE, "logical", get_message},
};

static const struct format *format_of(uint8_t kind)
{
	for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
		if ((uint8_t)formats[i].kind == kind) return &formats[i];
	return NULL;
}

static bool unknown_kind(const char *what, uint8_t kind, struct err *err)
{
	if (kind > ' ' && kind < 0x7f) return err_set(err, ERR_PROTOCOL, "unknown %s type '%c'", what, kind);
	return err_set(err, ERR_PROTOCOL, "unknown %s type 0x%02x", what, kind);
}

/* A short message first: what was read after its end is not the server's. */
static bool finish(const struct cur *c, struct slice bytes, const char *what, const char *fault,
				   struct err *err)
{
	size_t at = (size_t)(c->p - bytes.p);

	if (c->bad)
		return err_set(err, ERR_PROTOCOL, "%s message of %zu bytes ends inside a field", what, bytes.n);
	if (fault != NULL)
		return err_set(err, ERR_PROTOCOL, "%s message has %s (before byte %zu of %zu)", what, fault, at,
					   bytes.n);
	if (!cur_done(c))
		return err_set(err, ERR_PROTOCOL, "%s message of %zu bytes goes on after its last field, at byte %zu",
					   what, bytes.n, at);
	return true;
}

bool pgo_decode(struct slice bytes, struct pgo_scratch *scratch, struct pgo_msg *out, struct err *err)
{
	struct cur c = cur_of(bytes);
	uint8_t kind = cur_u8(&c);
	const struct format *f = format_of(kind);

	if (c.bad) return err_set(err, ERR_PROTOCOL, "empty logical replication message");
	if (f == NULL) return unknown_kind("logical replication message", kind, err);
	*out = (struct pgo_msg){.kind = (enum pgo_kind)kind};
	return finish(&c, bytes, f->name, f->get(&c, scratch, out), err);
}

bool repl_decode(struct slice bytes, struct repl_msg *out, struct err *err)
{
	struct cur c = cur_of(bytes);
	uint8_t kind = cur_u8(&c);

	if (c.bad) return err_set(err, ERR_PROTOCOL, "empty replication message");
	*out = (struct repl_msg){.kind = (enum repl_kind)kind};
	switch (kind) {
	case REPL_XLOG:
		out->start = get_lsn(&c);
		out->wal_end = get_lsn(&c);
		cur_u64(&c); /* the server's clock */
		out->payload = cur_bytes(&c, (size_t)(c.end - c.p));
		return finish(&c, bytes, "XLogData", NULL, err);
	case REPL_KEEPALIVE:
		out->wal_end = get_lsn(&c);
		cur_u64(&c);
		out->reply_requested = cur_u8(&c) != 0;
		return finish(&c, bytes, "keepalive", NULL, err);
	default: return unknown_kind("replication message", kind, err);
	}
}

void repl_encode_status(uint8_t out[REPL_STATUS_SIZE], lsn_t write, lsn_t flush, lsn_t apply, int64_t now_us,
						bool reply_requested)
{
	out[0] = 'r';
	be64_put(out + 1, write.v);
	be64_put(out + 9, flush.v);
	be64_put(out + 17, apply.v);
	be64_put(out + 25, (uint64_t)now_us - PG_EPOCH_US);
	out[33] = reply_requested;
}
