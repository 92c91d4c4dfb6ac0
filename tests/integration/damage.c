/*
 * tests/integration/damage.c - meddles with a store that no daemon has: what a
 * bug, a bad disk or a careless hand might leave. Rows get the lowest position there is, so that
 * anything the source says is newer.
 *
 *     damage DIR
 *
 * Each line of standard input is a command and its words, with tabs between them:
 *
 *     put TABLE VALUE...     the row of that key is this one now, whether it was there or not; \N is NULL
 *     drop TABLE KEY...      it is not there, and was never
 *
 * TABLE is the name without a schema.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "state/key.h"
#include "state/store.h"

#define WORDS_MAX 200

struct damage {
	struct store *store;
	struct store_txn *txn;
	struct table_record *tables;
	struct schema **schemas;
	size_t ntables;
	struct err err;
};

static void fail(const char *what)
{
	fprintf(stderr, "damage: %s\n", what);
	exit(1);
}

static void check(bool good, const struct damage *d)
{
	if (!good) fail(d->err.msg);
}

static size_t find_table(const struct damage *d, const char *name)
{
	for (size_t i = 0; i < d->ntables; i++)
		if (strcmp(d->tables[i].table_name, name) == 0 && d->tables[i].state != TABLE_LEFT) return i;
	fail("no such table");
	return 0;
}

static void load(struct damage *d)
{
	bool found;
	check(store_list_tables(d->txn, &d->tables, &d->ntables, &d->err), d);
	d->schemas = calloc(d->ntables + 1, sizeof *d->schemas);
	for (size_t i = 0; i < d->ntables; i++)
		check(store_get_schema(d->txn, d->tables[i].id, d->tables[i].schema_version, &d->schemas[i], &found,
							   &d->err),
			  d);
}

/* ---- entries ---- */

static struct slice encode_key(struct damage *d, const struct schema *s, const struct slice *texts,
							   uint8_t out[KEY_MAX])
{
	enum key_kind kinds[KEY_COLUMNS_MAX];
	struct buf full = {0};
	size_t n;
	bool is_long;
	schema_key_kinds(s, kinds);
	check(key_encode(kinds, texts, s->nkeys, out, &n, &full, &is_long, &d->err), d);
	if (is_long) fail("a long key");
	buf_finish(&full);
	return (struct slice){out, n};
}

static void remove_entry(struct damage *d, struct table_record *t, struct slice key)
{
	struct slice entry;
	struct pos pos;
	uint8_t flags;
	bool found;
	check(store_row_get(d->txn, t->id, key, &entry, &found, &d->err), d);
	if (!found) return;
	if (!row_peek(entry, &flags, &pos)) fail("a short entry");
	--*(flags & ROW_DELETED ? &t->markers : flags & ROW_HIDDEN ? &t->hidden : &t->live);
	check(store_row_del(d->txn, t->id, key, &d->err), d);
}

static void drop(struct damage *d, char **words, size_t n)
{
	size_t i = find_table(d, words[0]);
	struct slice texts[KEY_COLUMNS_MAX];
	uint8_t key[KEY_MAX];
	if (n - 1 != d->schemas[i]->nkeys) fail("drop: not the columns of the key");
	for (size_t k = 0; k < n - 1; k++)
		texts[k] = slice_of(words[1 + k]);
	remove_entry(d, &d->tables[i], encode_key(d, d->schemas[i], texts, key));
}

static void put(struct damage *d, char **words, size_t n)
{
	size_t i = find_table(d, words[0]);
	const struct schema *s = d->schemas[i];
	struct cell cells[WORDS_MAX];
	struct slice texts[KEY_COLUMNS_MAX];
	uint8_t key[KEY_MAX];
	struct buf entry = {0};
	if (n - 1 != s->ncolumns) fail("put: not the columns of the table");
	for (size_t c = 0; c < n - 1; c++)
		cells[c] = strcmp(words[1 + c], "\\N") == 0
					   ? (struct cell){.kind = CELL_NULL}
					   : (struct cell){.kind = CELL_TEXT, .text = slice_of(words[1 + c])};
	for (size_t k = 0; k < s->nkeys; k++)
		texts[k] = cells[s->key_columns[k]].text;
	struct slice at = encode_key(d, s, texts, key);
	remove_entry(d, &d->tables[i], at);
	row_encode(&entry, (struct pos){1, LSN(1), 1}, s->version, XID(0), (struct slice){NULL, 0}, cells, n - 1);
	check(store_row_put(d->txn, d->tables[i].id, at, (struct slice){entry.p, entry.n}, &d->err), d);
	d->tables[i].live++;
	buf_finish(&entry);
}

/* ---- lines ---- */

static size_t split(char *line, char **words)
{
	size_t n = 0;
	line[strcspn(line, "\n")] = '\0';
	for (char *word = line; word != NULL && n < WORDS_MAX; n++) {
		char *tab = strchr(word, '\t');
		words[n] = word;
		if (tab != NULL) *tab = '\0';
		word = tab != NULL ? tab + 1 : NULL;
	}
	return n;
}

static void do_line(struct damage *d, char *line)
{
	char *words[WORDS_MAX];
	size_t n = split(line, words);
	if (n >= 2 && strcmp(words[0], "put") == 0)
		put(d, words + 1, n - 1);
	else if (n >= 2 && strcmp(words[0], "drop") == 0)
		drop(d, words + 1, n - 1);
	else
		fail("neither put nor drop");
}

int main(int argc, char **argv)
{
	struct damage d = {.store = NULL};
	char *line = NULL;
	size_t cap = 0;
	if (argc != 2) fail("usage: damage DIR");
	check(store_open(argv[1], STORE_WRITE, &d.store, &d.err), &d);
	check(store_begin_write(d.store, &d.txn, &d.err), &d);
	load(&d);
	while (getline(&line, &cap, stdin) > 0)
		do_line(&d, line);
	for (size_t i = 0; i < d.ntables; i++) {
		check(store_put_table(d.txn, &d.tables[i], &d.err), &d);
		schema_free(d.schemas[i]);
		table_record_free(&d.tables[i]);
	}
	check(store_commit(d.txn, &d.err), &d);
	check(store_sync(d.store, &d.err), &d);
	store_close(d.store);
	free(d.tables);
	free(d.schemas);
	free(line);
	return 0;
}
