/*
 * The small records of the store, and schemas: any bytes are decoded or
 * refused as damaged, and what is decoded is encoded in the same bytes.
 */
#include "state/history.h"
#include "state/record.h"
#include "state/schema.h"
#include "tests/fuzz/fuzz.h"

/* Decodes, encodes into again, frees. False: refused. */
typedef bool (*record_fn)(struct slice bytes, struct buf *again, struct err *err);

static bool table(struct slice bytes, struct buf *again, struct err *err)
{
	struct table_record r;

	if (!table_record_decode(bytes, &r, err)) return false;
	table_record_encode(&r, again);
	(void)table_record_is_live(&r);
	table_record_free(&r);
	return true;
}

static bool run(struct slice bytes, struct buf *again, struct err *err)
{
	struct run_record r;

	if (!run_record_decode(bytes, &r, err)) return false;
	run_record_encode(&r, again);
	(void)run_record_is_open(&r);
	run_record_free(&r);
	return true;
}

static bool checkpoint(struct slice bytes, struct buf *again, struct err *err)
{
	struct checkpoint c;

	if (!checkpoint_decode(bytes, &c, err)) return false;
	checkpoint_encode(&c, again);
	return true;
}

static bool lineage(struct slice bytes, struct buf *again, struct err *err)
{
	struct lineage l;

	if (!lineage_decode(bytes, &l, err)) return false;
	lineage_encode(&l, again);
	lineage_free(&l);
	return true;
}

static bool history(struct slice bytes, struct buf *again, struct err *err)
{
	struct purge_history h;

	if (!history_decode(bytes, &h, err)) return false;
	history_encode(&h, again);
	return true;
}

static bool schema(struct slice bytes, struct buf *again, struct err *err)
{
	enum key_kind kinds[KEY_COLUMNS_MAX];
	struct schema *s, *copy;

	if (!schema_decode(bytes, &s, err)) return false;
	schema_key_kinds(s, kinds);
	for (size_t i = 0; i < s->ncolumns; i++)
		CHECK_THAT(schema_find(s, s->columns[i].name) <= (int)i, "column %zu", i);
	copy = schema_copy(s);
	CHECK_THAT(schema_same(s, copy), "copy");
	schema_free(s);
	schema_encode(copy, again);
	schema_free(copy);
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const record_fn records[] = {table, run, checkpoint, lineage, schema, history};
	struct feed f = feed_of(data, size);
	record_fn record = records[feed_below(&f, sizeof records / sizeof *records)];
	struct slice bytes = alone((struct slice){f.p, feed_left(&f)});
	struct buf again = {0};
	struct err err = {0};

	if (record(bytes, &again, &err))
		CHECK_THAT(same_bytes(&again, bytes), "a record of %zu bytes is encoded in %zu", bytes.n, again.n);
	else
		CHECK_THAT(err.kind == ERR_CORRUPT && err.msg[0], "kind %d", err.kind);
	buf_finish(&again);
	alone_free(bytes);
	return 0;
}
