#include "tests/fuzz/audit.h"

#include "tests/fuzz/fuzz.h"

struct auditor {
	struct store_txn *txn;
	struct checkpoint checkpoint;
	struct table_record *table;
	uint64_t live, hidden, doubt, markers;
	struct buf entries;
};

#define MUST(call)                                                                                           \
	do {                                                                                                     \
		struct err err = {0};                                                                                \
		CHECK_THAT(call, "%s", err.msg);                                                                     \
	} while (0)

void audit_finish(struct audit *a)
{
	buf_finish(&a->entries);
}

/* ---- one entry ---- */

/* A live row has the key that it is stored under. */
static void check_key(const struct schema *s, const struct cell *cells, struct slice key,
					  struct slice full_key)
{
	enum key_kind kinds[KEY_COLUMNS_MAX];
	struct slice texts[KEY_COLUMNS_MAX];
	uint8_t stored[KEY_MAX];
	struct buf full = {0};
	bool is_long;
	size_t n;

	schema_key_kinds(s, kinds);
	for (size_t i = 0; i < s->nkeys; i++) {
		const struct cell *c = &cells[s->key_columns[i]];

		CHECK_THAT(c->kind == CELL_TEXT, "key column %zu has no value", i);
		texts[i] = c->text;
	}
	MUST(key_encode(kinds, texts, s->nkeys, stored, &n, &full, &is_long, &err));
	CHECK_THAT(slice_eq(key, (struct slice){stored, n}), "stored under another key");
	CHECK_THAT(slice_eq(full_key, is_long ? (struct slice){full.p, full.n} : (struct slice){0}), "full key");
	buf_finish(&full);
}

static void check_row(const struct auditor *a, struct slice key, struct slice entry)
{
	struct schema *s;
	struct row_head head;
	struct cell *cells;
	bool found;

	MUST(store_get_schema(a->txn, a->table->id, row_version(entry), &s, &found, &err));
	CHECK_THAT(found, "no schema version %u", row_version(entry));
	cells = mem_alloc(s->ncolumns * sizeof *cells);
	MUST(row_decode(entry, s->ncolumns, &head, cells, &err));
	check_key(s, cells, key, head.full_key);
	free(cells);
	schema_free(s);
}

static void check_marker(struct slice key, struct slice entry)
{
	struct row_head head;
	uint8_t stored[KEY_MAX];
	bool is_long;
	size_t n;

	MUST(row_head(entry, 0, &head, &err));
	CHECK_THAT((head.full_key.n > 0) == (key.n == KEY_MAX), "a key of %zu bytes", key.n);
	if (head.full_key.n == 0) return;
	n = key_store(head.full_key, stored, &is_long);
	CHECK_THAT(is_long && slice_eq(key, (struct slice){stored, n}), "full key");
}

static void check_position(const struct auditor *a, struct pos pos)
{
	const struct table_record *t = a->table;
	struct pos here = {a->checkpoint.epoch, a->checkpoint.lsn, POS_ORDINAL_MAX};

	CHECK_THAT(pos_cmp(pos, t->high) <= 0, "above the table's highest position");
	CHECK_THAT(pos_cmp(pos, t->floor) > 0, "not above the table's floor");
	CHECK_THAT(pos_cmp(pos, here) <= 0, "above the checkpoint");
}

static void take_entry(struct auditor *a, struct slice key, struct slice entry)
{
	uint8_t flags;
	struct pos pos;

	CHECK_THAT(row_peek(entry, &flags, &pos), "%zu bytes", entry.n);
	check_position(a, pos);
	if (flags & ROW_DELETED)
		check_marker(key, entry);
	else
		check_row(a, key, entry);
	++*(flags & ROW_DELETED ? &a->markers : flags & ROW_HIDDEN ? &a->hidden : &a->live);
	if (flags & ROW_DOUBT) a->doubt++;
	buf_put_u32(&a->entries, a->table->id);
	buf_put_blob(&a->entries, key.p, key.n);
	pos_encode(pos, buf_extend(&a->entries, POS_SIZE));
}

/* ---- one table ---- */

static void scan_rows(struct auditor *a)
{
	struct store_scan *scan;
	struct slice key, entry;
	bool found;

	MUST(store_scan_open(a->txn, a->table->id, SPACE_ROWS, (struct slice){0}, &scan, &err));
	for (;;) {
		MUST(store_scan_next(scan, &key, &entry, &found, &err));
		if (!found) break;
		take_entry(a, key, entry);
	}
	store_scan_close(scan);
}

static void scan_doubt(struct auditor *a)
{
	struct store_scan *scan;
	struct slice key, nothing, entry;
	bool found;
	uint64_t n = 0;

	MUST(store_scan_open(a->txn, a->table->id, SPACE_DOUBT, (struct slice){0}, &scan, &err));
	for (;; n++) {
		MUST(store_scan_next(scan, &key, &nothing, &found, &err));
		if (!found) break;
		MUST(store_row_get(a->txn, a->table->id, key, &entry, &found, &err));
		CHECK_THAT(found && entry.p[0] & ROW_DOUBT, "the index of doubt names a row that is not in doubt");
	}
	CHECK_THAT(n == a->doubt, "%llu in the index of doubt", (unsigned long long)n);
	store_scan_close(scan);
}

static void check_table(struct auditor *a)
{
	const struct table_record *t = a->table;

	a->live = a->hidden = a->doubt = a->markers = 0;
	scan_rows(a);
	scan_doubt(a);
	CHECK_THAT(t->live == a->live && t->hidden == a->hidden && t->doubt == a->doubt &&
				   t->markers == a->markers,
			   "table %u counts %llu live %llu hidden %llu doubt %llu markers; has %llu %llu %llu %llu",
			   t->id, (unsigned long long)t->live, (unsigned long long)t->hidden,
			   (unsigned long long)t->doubt, (unsigned long long)t->markers, (unsigned long long)a->live,
			   (unsigned long long)a->hidden, (unsigned long long)a->doubt, (unsigned long long)a->markers);
}

/* ---- runs ---- */

static bool has_table(const struct table_record *tables, size_t n, uint32_t id)
{
	for (size_t i = 0; i < n; i++)
		if (tables[i].id == id) return true;
	return false;
}

static void check_runs(const struct auditor *a, const struct table_record *tables, size_t ntables)
{
	struct run_record *runs;
	size_t n;

	MUST(store_list_runs(a->txn, &runs, &n, &err));
	for (size_t i = 0; i < n; i++) {
		const struct run_record *r = &runs[i];

		CHECK_THAT(has_table(tables, ntables, r->table_id), "run of table %u", r->table_id);
		CHECK_THAT(i == 0 || runs[i - 1].id < r->id, "run ids");
		run_record_free(&runs[i]);
	}
	free(runs);
}

/* ---- against the last audit ---- */

struct seen {
	uint32_t table;
	struct slice key;
	struct pos pos;
};

static bool next_seen(struct cur *c, struct seen *out)
{
	if (cur_done(c)) return false;
	out->table = cur_u32(c);
	out->key = cur_blob(c);
	out->pos = pos_decode(cur_bytes(c, POS_SIZE).p);
	return true;
}

static int compare_seen(const struct seen *a, const struct seen *b)
{
	if (a->table != b->table) return a->table < b->table ? -1 : 1;
	return compare_bytes(a->key, b->key);
}

static const struct table_record *table_of(const struct table_record *tables, size_t n, uint32_t id)
{
	for (size_t i = 0; i < n; i++)
		if (tables[i].id == id) return &tables[i];
	CHECK_THAT(false, "table %u is gone", id);
}

/* An entry that was there is there no older than it was, unless a TRUNCATE took it. */
static void compare(const struct buf *before, const struct buf *now, const struct table_record *tables,
					size_t n)
{
	struct cur was = cur_of((struct slice){before->p, before->n});
	struct cur is = cur_of((struct slice){now->p, now->n});
	struct seen a, b;
	bool more = next_seen(&is, &b);

	while (next_seen(&was, &a)) {
		while (more && compare_seen(&b, &a) < 0)
			more = next_seen(&is, &b);
		if (more && compare_seen(&a, &b) == 0)
			CHECK_THAT(pos_cmp(b.pos, a.pos) >= 0, "table %u: an entry went back", a.table);
		else
			CHECK_THAT(pos_cmp(table_of(tables, n, a.table)->floor, a.pos) > 0, "table %u: an entry is gone",
					   a.table);
	}
}

void audit_store(struct audit *audit, struct store *s)
{
	struct auditor a = {0};
	struct table_record *tables;
	size_t n;
	bool found;

	MUST(store_begin_read(s, &a.txn, &err));
	MUST(store_get_checkpoint(a.txn, &a.checkpoint, &found, &err));
	MUST(store_list_tables(a.txn, &tables, &n, &err));
	for (size_t i = 0; i < n; i++) {
		a.table = &tables[i];
		check_table(&a);
	}
	check_runs(&a, tables, n);
	compare(&audit->entries, &a.entries, tables, n);
	for (size_t i = 0; i < n; i++)
		table_record_free(&tables[i]);
	free(tables);
	store_abort(a.txn);
	buf_finish(&audit->entries);
	audit->entries = a.entries;
}
