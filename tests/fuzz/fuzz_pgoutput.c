/*
 * Messages of the replication protocol and of pgoutput. What is accepted says
 * all that the bytes say: encoded again it is the same bytes.
 */
#include "reader/pgoutput.h"
#include "tests/fuzz/fuzz.h"

#define PG_EPOCH_US UINT64_C(946684800000000)

static void put_text(struct buf *out, const char *s)
{
	buf_put(out, s, strlen(s) + 1);
}

static void put_tuple(struct buf *out, uint8_t letter, const struct pgo_tuple *t)
{
	buf_put_u8(out, letter);
	buf_put_u16(out, t->n);
	for (size_t i = 0; i < t->n; i++) {
		const struct pgo_cell *c = &t->cells[i];

		buf_put_u8(out, (uint8_t)c->kind);
		if (c->kind != 't') continue;
		buf_put_u32(out, (uint32_t)c->text.n);
		buf_put(out, c->text.p, c->text.n);
	}
}

static void put_change(struct buf *out, const struct pgo_msg *m)
{
	buf_put_u32(out, m->u.change.oid);
	if (m->kind != PGO_INSERT && m->u.change.old_kind != 0)
		put_tuple(out, (uint8_t)m->u.change.old_kind, &m->u.change.old_tuple);
	if (m->kind != PGO_DELETE) put_tuple(out, 'N', &m->u.change.new_tuple);
}

static void put_relation(struct buf *out, const struct pgo_msg *m)
{
	buf_put_u32(out, m->u.relation.oid);
	put_text(out, m->u.relation.schema_name);
	put_text(out, m->u.relation.name);
	buf_put_u8(out, (uint8_t)m->u.relation.identity);
	buf_put_u16(out, m->u.relation.n);
	for (size_t i = 0; i < m->u.relation.n; i++) {
		const struct pgo_column *c = &m->u.relation.columns[i];

		buf_put_u8(out, c->key);
		put_text(out, c->name);
		buf_put_u32(out, c->type_oid);
		buf_put_u32(out, (uint32_t)c->typmod);
	}
}

static void put_truncate(struct buf *out, const struct pgo_msg *m)
{
	buf_put_u32(out, m->u.truncate.n);
	buf_put_u8(out, (uint8_t)(m->u.truncate.cascade | m->u.truncate.restart_identity << 1));
	for (size_t i = 0; i < m->u.truncate.n; i++)
		buf_put_u32(out, m->u.truncate.oids[i]);
}

static void put_commit(struct buf *out, const struct pgo_msg *m)
{
	buf_put_u8(out, 0);
	buf_put_u64(out, m->u.commit.commit_lsn.v);
	buf_put_u64(out, m->u.commit.end_lsn.v);
	buf_put_u64(out, (uint64_t)m->u.commit.commit_time_us - PG_EPOCH_US);
}

static void put_logical(struct buf *out, const struct pgo_msg *m)
{
	buf_put_u8(out, m->u.message.transactional);
	buf_put_u64(out, m->u.message.lsn.v);
	put_text(out, m->u.message.prefix);
	buf_put_u32(out, (uint32_t)m->u.message.content.n);
	buf_put(out, m->u.message.content.p, m->u.message.content.n);
}

/* False: of this kind nothing is kept. */
static bool encode(struct buf *out, const struct pgo_msg *m)
{
	buf_put_u8(out, (uint8_t)m->kind);
	switch (m->kind) {
	case PGO_BEGIN:
		buf_put_u64(out, m->u.begin.commit_lsn.v);
		buf_put_u64(out, (uint64_t)m->u.begin.commit_time_us - PG_EPOCH_US);
		buf_put_u32(out, m->u.begin.xid);
		return true;
	case PGO_COMMIT: put_commit(out, m); return true;
	case PGO_RELATION: put_relation(out, m); return true;
	case PGO_INSERT:
	case PGO_UPDATE:
	case PGO_DELETE: put_change(out, m); return true;
	case PGO_TRUNCATE: put_truncate(out, m); return true;
	case PGO_MESSAGE: put_logical(out, m); return true;
	case PGO_ORIGIN:
	case PGO_TYPE: return false;
	}
	CHECK_THAT(false, "a message of kind %d", m->kind);
}

static void decode_message(struct slice bytes, struct pgo_scratch *scratch)
{
	struct buf again = {0};
	struct pgo_msg m;
	struct err err = {0};

	if (!pgo_decode(bytes, scratch, &m, &err))
		check_refusal(&err);
	else if (encode(&again, &m))
		CHECK_THAT(same_bytes(&again, bytes), "a message '%c' of %zu bytes is encoded in %zu", m.kind,
				   bytes.n, again.n);
	buf_finish(&again);
}

/* The server's clock is passed over, and any byte but 0 asks for a reply. */
static void decode_carrier(struct slice bytes)
{
	struct buf again = {0};
	struct repl_msg m;
	struct err err = {0};

	if (!repl_decode(bytes, &m, &err)) {
		check_refusal(&err);
		return;
	}
	buf_put_u8(&again, (uint8_t)m.kind);
	if (m.kind == REPL_XLOG) buf_put_u64(&again, m.start.v);
	buf_put_u64(&again, m.wal_end.v);
	buf_put(&again, bytes.p + again.n, 8);
	if (m.kind == REPL_XLOG)
		buf_put(&again, m.payload.p, m.payload.n);
	else
		buf_put_u8(&again, m.reply_requested ? bytes.p[17] : 0);
	CHECK_THAT(same_bytes(&again, bytes), "a message '%c' of %zu bytes", m.kind, bytes.n);
	buf_finish(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pgo_scratch *scratch = mem_alloc(sizeof *scratch);
	struct slice bytes = alone((struct slice){data, size});

	decode_message(bytes, scratch);
	decode_carrier(bytes);
	alone_free(bytes);
	free(scratch);
	return 0;
}
