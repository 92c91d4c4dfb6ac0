/*
 * tests/sim/layout.h - how a simulated table looks to the product: its schema,
 * and rows and keys in the store's encoding.
 *
 * Columns are id (the key), a (a version's number), tenant and wide values, in
 * an order of each table's own.
 */
#ifndef SIM_LAYOUT_H
#define SIM_LAYOUT_H

#include "state/record.h"
#include "state/row.h"
#include "state/schema.h"
#include "tests/sim/source.h"

#define LAYOUT_COLUMNS_MAX (3 + SRC_WIDE_MAX)

struct layout {
	int table;         /* index in the source */
	uint32_t table_id; /* in the store */
	char name[8];
	struct schema schema;
	struct column columns[LAYOUT_COLUMNS_MAX];
	uint16_t key_column;
	uint8_t key_kind;
	int version_column, tenant_column, wide_columns[SRC_WIDE_MAX], nwide;
	const char *filter_sql; /* or NULL */
	char from_sql[32];
};

void layout_init(struct layout *l, int table, const struct src_table *t, struct rng *rng);
struct table_record layout_record(const struct layout *l);

#define LAYOUT_TEXT_SIZE 80
/* Texts of a row, in column order; they live as long as `out`. Version 0 of a row gives only the key. */
struct row_texts {
	char text[LAYOUT_COLUMNS_MAX][LAYOUT_TEXT_SIZE];
	bool null[LAYOUT_COLUMNS_MAX];
};
void layout_texts(const struct layout *l, int key, struct src_row row, struct row_texts *out);
/* The other way. False: not texts of ours. */
bool layout_row_of_texts(const struct layout *l, const struct row_texts *texts, struct src_row *out);

/* Encoded key of at most 8 bytes; returns its length. */
#define LAYOUT_KEY_SIZE 8
size_t layout_key(int key, uint8_t out[LAYOUT_KEY_SIZE]);
/* -1: not a key of ours. */
int layout_key_of(struct slice encoded);

/* Appends the encoded row; bit i of unsent: wide value i is absent. */
void layout_encode(const struct layout *l, struct buf *out, struct pos pos, xid_t born, int key,
				   struct src_row row, unsigned unsent);

/* A stored entry, understood. */
struct layout_entry {
	uint8_t flags;
	struct pos pos;
	int key; /* of its id column; -1 for a marker */
	struct src_row row;
	bool doubt[SRC_WIDE_MAX], absent[SRC_WIDE_MAX];
	bool other_doubt; /* a column that is always sent is in doubt */
};
bool layout_decode(const struct layout *l, struct slice entry, struct layout_entry *out, struct err *err);

#endif
