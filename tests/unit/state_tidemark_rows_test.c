#include "tests/unit/state_tidemark_fixture.h"

/* ---- rows ---- */

static void a_row_is_found_by_its_key(void **state)
{
	struct place *p = *state;
	struct store_txn *t;
	struct store *s = open_writer(p, &t);
	tidemark *tm;
	tidemark_table *table;
	tidemark_row row;

	put_table(t, 1, "orders", TABLE_COPIED, 1, &orders);
	ROW(t, 1, &orders, "-5", "minus five", NULL);
	ROW(t, 1, &orders, "5", "", "note");
	close_writer(s, t);
	tm = open_at(p, "orders", &table);
	assert_int_equal(tidemark_get(table, KEY("-5"), &row), 0);
	assert_int_equal(row.epoch, 3);
	assert_int_equal(row.commit_lsn, 0x1234);
	assert_int_equal(row.ordinal, 5);
	assert_int_equal(row.schema_version, 1);
	assert_int_equal(row.doubt, 0);
	check_value(&row, 0, "-5");
	check_value(&row, 1, "minus five");
	check_value(&row, 2, NULL);
	check_value(&row, 3, NULL);
	assert_int_equal(tidemark_get(table, KEY("5"), &row), 0);
	assert_int_equal(tidemark_row_length(&row, 2), 4); /* before any value was asked for */
	check_value(&row, 2, "note");
	check_value(&row, 1, "");
	check_value(&row, 0, "5");
	assert_int_equal(tidemark_get(table, KEY("6"), &row), TIDEMARK_E_NOTFOUND);
	check_message(tm, "table public.orders has no such row");
	assert_null(tidemark_row_value(&row, 0));
	tidemark_close(tm);
}

static void a_wrong_key_is_an_argument_error(void **state)
{
	struct place *p = *state;
	struct store_txn *t;
	struct store *s = open_writer(p, &t);
	tidemark *tm;
	tidemark_table *table;
	tidemark_cursor *c;
	tidemark_row row;

	put_table(t, 1, "pairs", TABLE_COPIED, 1, &pairs);
	close_writer(s, t);
	tm = open_at(p, "pairs", &table);
	assert_int_equal(tidemark_get(table, KEY("a"), &row), TIDEMARK_E_ARGUMENT);
	check_message(tm, "the key of table public.pairs has 2 columns, not 1");
	assert_int_equal(tidemark_get(table, KEY("a", "x"), &row), TIDEMARK_E_ARGUMENT);
	check_message(tm, "key of table public.pairs");
	assert_int_equal(tidemark_get(table, KEY("a", NULL), &row), TIDEMARK_E_ARGUMENT);
	check_message(tm, "key column number");
	assert_int_equal(tidemark_scan(table, KEY("a", "1", "2"), NULL, 0, &c), TIDEMARK_E_ARGUMENT);
	assert_int_equal(tidemark_scan(table, NULL, 0, KEY("a", "99999999999"), &c), TIDEMARK_E_ARGUMENT);
	assert_null(c);
	tidemark_close(tm);
}

static void deleted_and_hidden_rows_are_not_shown(void **state)
{
	struct place *p = *state;
	struct store_txn *t;
	struct store *s = open_writer(p, &t);
	tidemark *tm;
	tidemark_table *table;
	tidemark_cursor *c;
	tidemark_row row;

	put_table(t, 1, "orders", TABLE_COPIED, 1, &orders);
	put_entry(t, 1, 1, &orders, (const char *const[]){"1", "x", "y"}, true);
	ROW(t, 1, &orders, "2", "x", "?-");
	ROW(t, 1, &orders, "3", "x", "?best known");
	close_writer(s, t);
	tm = open_at(p, "orders", &table);
	assert_int_equal(tidemark_get(table, KEY("1"), &row), TIDEMARK_E_NOTFOUND);
	assert_int_equal(tidemark_get(table, KEY("2"), &row), TIDEMARK_E_NOTFOUND);
	assert_int_equal(tidemark_get(table, KEY("3"), &row), 0);
	assert_int_equal(row.doubt, 1);
	check_value(&row, 2, "?best known");
	assert_int_equal(tidemark_scan(table, NULL, 0, NULL, 0, &c), 0);
	assert_int_equal(tidemark_next(c, &row), 0);
	check_value(&row, 0, "3");
	assert_int_equal(row.doubt, 1);
	assert_int_equal(tidemark_next(c, &row), TIDEMARK_E_NOTFOUND);
	assert_int_equal(tidemark_next(c, &row), TIDEMARK_E_NOTFOUND);
	tidemark_cursor_close(c);
	tidemark_close(tm);
}

static void old_rows_show_todays_columns_by_name(void **state)
{
	static const struct shape v1 = {{"id", "a", "b"}, 3, {KEY_INT4}, 1};
	static const struct shape v2 = {{"id", "b", "c", "d"}, 4, {KEY_INT4}, 1};
	struct place *p = *state;
	struct store_txn *t;
	struct store *s = open_writer(p, &t);
	tidemark *tm;
	tidemark_table *table;
	tidemark_cursor *c;
	tidemark_row row;

	put_table(t, 1, "t", TABLE_COPIED, 1, &v1);
	put_entry(t, 1, 1, &v1, (const char *const[]){"1", "a1", "b1"}, false);
	put_entry(t, 1, 1, &v1, (const char *const[]){"3", "a3", NULL}, false);
	put_table(t, 1, "t", TABLE_COPIED, 2, &v2);
	put_entry(t, 1, 2, &v2, (const char *const[]){"2", "b2", "c2", "d2"}, false);
	close_writer(s, t);
	tm = open_at(p, "t", &table);
	assert_int_equal(tidemark_column_count(table), 4);
	assert_int_equal(tidemark_scan(table, NULL, 0, NULL, 0, &c), 0);
	assert_int_equal(tidemark_next(c, &row), 0);
	assert_int_equal(row.schema_version, 1);
	check_value(&row, 0, "1");
	check_value(&row, 1, "b1");
	check_value(&row, 2, NULL);
	check_value(&row, 3, NULL);
	assert_int_equal(tidemark_next(c, &row), 0);
	assert_int_equal(row.schema_version, 2);
	check_value(&row, 1, "b2");
	check_value(&row, 3, "d2");
	assert_int_equal(tidemark_next(c, &row), 0);
	check_value(&row, 0, "3");
	check_value(&row, 1, NULL);
	tidemark_cursor_close(c);
	tidemark_close(tm);
}

/* Lengths around those where a text's code takes one more byte, and where LMDB moves it to pages of its own.
 */
static void values_of_all_lengths_are_terminated(void **state)
{
	static const size_t sizes[] = {0, 1, 124, 125, 126, 127, 128, 2000, 2100, 16380, 16384, 100000};
	struct place *p = *state;
	struct store_txn *t;
	struct store *s = open_writer(p, &t);
	tidemark *tm;
	tidemark_table *table;
	tidemark_row row;
	char *text = malloc(100001), id[8];

	put_table(t, 1, "orders", TABLE_COPIED, 1, &orders);
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		memset(text, 'a' + (int)i, sizes[i]);
		text[sizes[i]] = '\0';
		snprintf(id, sizeof id, "%zu", i);
		ROW(t, 1, &orders, id, text, text);
	}
	close_writer(s, t);
	tm = open_at(p, "orders", &table);
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		memset(text, 'a' + (int)i, sizes[i]);
		text[sizes[i]] = '\0';
		snprintf(id, sizeof id, "%zu", i);
		assert_int_equal(tidemark_get(table, KEY(id), &row), 0);
		check_value(&row, 2, text);
		check_value(&row, 1, text);
		check_value(&row, 0, id);
	}
	free(text);
	tidemark_close(tm);
}

static void a_damaged_entry_names_its_table(void **state)
{
	struct place *p = *state;
	struct store_txn *t;
	struct store *s = open_writer(p, &t);
	struct err err;
	tidemark *tm;
	tidemark_table *table;
	tidemark_cursor *c;
	tidemark_row row;

	put_table(t, 1, "words", TABLE_COPIED, 1, &words);
	CHECK(store_row_put(t, 1, slice_of("cut"), bytes_of("\0\0\0", 3), &err));
	CHECK(store_row_put(t, 1, slice_of("version"), bytes_of("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\11\2", 19),
						&err));
	CHECK(store_row_put(t, 1, slice_of("short"), bytes_of("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\7a", 20),
						&err));
	close_writer(s, t);
	tm = open_at(p, "words", &table);
	assert_int_equal(tidemark_get(table, KEY("cut"), &row), TIDEMARK_E_CORRUPT);
	check_message(tm, "table public.words: an entry of 3 bytes is damaged");
	assert_int_equal(tidemark_get(table, KEY("short"), &row), TIDEMARK_E_CORRUPT);
	check_message(tm, "table public.words");
	assert_int_equal(tidemark_get(table, KEY("version"), &row), TIDEMARK_E_CORRUPT);
	check_message(tm, "no schema version 9");
	assert_null(tidemark_row_value(&row, 0));
	assert_int_equal(tidemark_scan(table, NULL, 0, NULL, 0, &c), 0);
	assert_int_equal(tidemark_next(c, &row), TIDEMARK_E_CORRUPT);
	tidemark_cursor_close(c);
	tidemark_close(tm);
}

/* ---- scans ---- */

/* Joins column `column` of all rows that a scan shows. */
static const char *scan_text(tidemark_table *table, const char *const *from, size_t nfrom,
							 const char *const *to, size_t nto)
{
	static char text[512];
	tidemark_cursor *c;
	tidemark_row row;
	int rc;

	text[0] = '\0';
	assert_int_equal(tidemark_scan(table, from, nfrom, to, nto, &c), 0);
	while ((rc = tidemark_next(c, &row)) == 0) {
		strcat(text, tidemark_row_value(&row, tidemark_column_count(table) - 1));
		strcat(text, " ");
	}
	assert_int_equal(rc, TIDEMARK_E_NOTFOUND);
	tidemark_cursor_close(c);
	return text;
}

static void scans_keep_their_bounds(void **state)
{
	struct place *p = *state;
	struct store_txn *t;
	struct store *s = open_writer(p, &t);
	tidemark *tm;
	tidemark_table *table;

	put_table(t, 1, "pairs", TABLE_COPIED, 1, &pairs);
	ROW(t, 1, &pairs, "", "0", "e0");
	ROW(t, 1, &pairs, "ab", "-1", "ab-1");
	ROW(t, 1, &pairs, "ab", "2", "ab2");
	ROW(t, 1, &pairs, "ab", "10", "ab10");
	ROW(t, 1, &pairs, "abc", "1", "abc1");
	ROW(t, 1, &pairs, "b", "1", "b1");
	close_writer(s, t);
	tm = open_at(p, "pairs", &table);
	assert_string_equal(scan_text(table, NULL, 0, NULL, 0), "e0 ab-1 ab2 ab10 abc1 b1 ");
	assert_string_equal(scan_text(table, KEY("ab"), KEY("ab")), "ab-1 ab2 ab10 ");
	assert_string_equal(scan_text(table, KEY("ab", "2"), NULL, 0), "ab2 ab10 abc1 b1 ");
	assert_string_equal(scan_text(table, KEY("ab", "3"), KEY("ab", "10")), "ab10 ");
	assert_string_equal(scan_text(table, NULL, 0, KEY("ab", "2")), "e0 ab-1 ab2 ");
	assert_string_equal(scan_text(table, KEY("abc"), KEY("abc")), "abc1 ");
	assert_string_equal(scan_text(table, KEY("aa"), KEY("aaa")), "");
	assert_string_equal(scan_text(table, KEY("b"), KEY("ab")), "");
	assert_string_equal(scan_text(table, NULL, 0, KEY("")), "e0 ");
	assert_string_equal(scan_text(table, KEY(""), KEY("", "-1")), "");
	assert_string_equal(scan_text(table, KEY("c"), NULL, 0), "");
	tidemark_close(tm);
}

/* One empty text is a key of its own, and the lowest. */
static void an_empty_key_can_be_found(void **state)
{
	struct place *p = *state;
	struct store_txn *t;
	struct store *s = open_writer(p, &t);
	tidemark *tm;
	tidemark_table *table;
	tidemark_row row;

	put_table(t, 1, "words", TABLE_COPIED, 1, &words);
	ROW(t, 1, &words, "", "empty");
	ROW(t, 1, &words, "a", "letter");
	close_writer(s, t);
	tm = open_at(p, "words", &table);
	assert_int_equal(tidemark_get(table, KEY(""), &row), 0);
	check_value(&row, 1, "empty");
	assert_string_equal(scan_text(table, KEY(""), KEY("")), "empty ");
	assert_string_equal(scan_text(table, KEY(""), NULL, 0), "empty letter ");
	tidemark_close(tm);
}

/* ---- scans over long keys, against a list of full encodings ---- */

#define LONG_KEYS 120

struct long_key {
	char city[700], number[8];
	struct buf full;
};

static void long_keys_make(struct long_key keys[LONG_KEYS], uint64_t *seed)
{
	for (size_t i = 0; i < LONG_KEYS; i++) {
		size_t n = random_below(seed, 3) == 0 ? random_below(seed, 40) : 470 + random_below(seed, 60);
		struct slice texts[2];
		struct err err;

		memset(keys[i].city, 'm', n);
		if (n > 0 && random_below(seed, 2))
			keys[i].city[random_below(seed, n)] = "alz"[random_below(seed, 3)];
		keys[i].city[n] = '\0';
		snprintf(keys[i].number, sizeof keys[i].number, "%zu", random_below(seed, 4));
		texts[0] = slice_of(keys[i].city);
		texts[1] = slice_of(keys[i].number);
		keys[i].full = (struct buf){0};
		CHECK(key_encode_prefix(pairs.kinds, 2, texts, 2, &keys[i].full, &err));
	}
}

static struct slice full_of(const struct long_key *k)
{
	return (struct slice){k->full.p, k->full.n};
}

/* By the promise of tidemark.h: n columns are compared, as full encodings. */
static bool is_expected(const struct long_key *k, const struct long_key *from, size_t nfrom,
						const struct long_key *to, size_t nto)
{
	if (nfrom == 2 && slice_cmp(full_of(k), full_of(from)) < 0) return false;
	if (nfrom == 1 && strcmp(k->city, from->city) < 0) return false;
	if (nto == 2 && slice_cmp(full_of(k), full_of(to)) > 0) return false;
	return nto != 1 || strcmp(k->city, to->city) <= 0;
}

static bool is_duplicate(const struct long_key *keys, size_t i)
{
	for (size_t j = 0; j < i; j++)
		if (slice_eq(full_of(&keys[i]), full_of(&keys[j]))) return true;
	return false;
}

static size_t count_expected(const struct long_key *keys, const struct long_key *from, size_t nfrom,
							 const struct long_key *to, size_t nto)
{
	size_t n = 0;

	for (size_t i = 0; i < LONG_KEYS; i++)
		n += !is_duplicate(keys, i) && is_expected(&keys[i], from, nfrom, to, nto);
	return n;
}

static void check_scan(tidemark_table *table, const struct long_key *keys, const struct long_key *from,
					   size_t nfrom, const struct long_key *to, size_t nto)
{
	const char *from_texts[] = {from->city, from->number}, *to_texts[] = {to->city, to->number};
	tidemark_cursor *c;
	tidemark_row row;
	size_t n = 0;

	assert_int_equal(tidemark_scan(table, from_texts, nfrom, to_texts, nto, &c), 0);
	while (tidemark_next(c, &row) == 0) {
		const struct long_key *k = &keys[atoi(tidemark_row_value(&row, 2))];

		check_value(&row, 0, k->city);
		check_value(&row, 1, k->number);
		assert_true(is_expected(k, from, nfrom, to, nto));
		n++;
	}
	tidemark_cursor_close(c);
	assert_int_equal(n, count_expected(keys, from, nfrom, to, nto));
}

static void scans_are_exact_for_keys_of_any_length(void **state)
{
	static struct long_key keys[LONG_KEYS];
	struct place *p = *state;
	struct store_txn *t;
	struct store *s = open_writer(p, &t);
	uint64_t seed = 5;
	tidemark *tm;
	tidemark_table *table;
	tidemark_row row;

	put_table(t, 1, "pairs", TABLE_COPIED, 1, &pairs);
	long_keys_make(keys, &seed);
	for (size_t i = LONG_KEYS; i-- > 0;) { /* the first of equal keys stays */
		char index[24];

		snprintf(index, sizeof index, "%zu", i);
		ROW(t, 1, &pairs, keys[i].city, keys[i].number, index);
	}
	close_writer(s, t);
	tm = open_at(p, "pairs", &table);
	for (size_t i = 0; i < LONG_KEYS; i++) {
		assert_int_equal(tidemark_get(table, KEY(keys[i].city, keys[i].number), &row), 0);
		check_value(&row, 0, keys[i].city);
	}
	for (int i = 0; i < 3000; i++)
		check_scan(table, keys, &keys[random_below(&seed, LONG_KEYS)], random_below(&seed, 3),
				   &keys[random_below(&seed, LONG_KEYS)], random_below(&seed, 3));
	tidemark_close(tm);
	for (size_t i = 0; i < LONG_KEYS; i++)
		buf_finish(&keys[i].full);
}

/* Another key under the same stored form, which only an attack on SHA-256 could make. */
static void a_long_key_is_compared_in_full(void **state)
{
	struct place *p = *state;
	struct store_txn *t;
	struct store *s = open_writer(p, &t);
	struct cell cells[2] = {cell_of("x"), cell_of("other")};
	struct slice text;
	struct buf full = {0}, entry = {0};
	uint8_t key[KEY_MAX];
	char city[601];
	struct err err;
	bool is_long;
	size_t n;
	tidemark *tm;
	tidemark_table *table;
	tidemark_row row;

	put_table(t, 1, "words", TABLE_COPIED, 1, &words);
	memset(city, 'c', 600);
	city[600] = '\0';
	text = slice_of(city);
	CHECK(key_encode(words.kinds, &text, 1, key, &n, &full, &is_long, &err));
	assert_true(is_long);
	full.p[599] = 'd';
	row_encode(&entry, POS_NONE, 1, XID(0), (struct slice){full.p, full.n}, cells, 2);
	CHECK(store_row_put(t, 1, (struct slice){key, n}, (struct slice){entry.p, entry.n}, &err));
	close_writer(s, t);
	tm = open_at(p, "words", &table);
	assert_int_equal(tidemark_get(table, KEY(city), &row), TIDEMARK_E_NOTFOUND);
	city[599] = 'd';
	assert_string_equal(scan_text(table, KEY(city), KEY(city)), "other ");
	tidemark_close(tm);
	buf_finish(&full);
	buf_finish(&entry);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORE_TEST(a_row_is_found_by_its_key),
		STORE_TEST(a_wrong_key_is_an_argument_error),
		STORE_TEST(deleted_and_hidden_rows_are_not_shown),
		STORE_TEST(old_rows_show_todays_columns_by_name),
		STORE_TEST(values_of_all_lengths_are_terminated),
		STORE_TEST(a_damaged_entry_names_its_table),
		STORE_TEST(scans_keep_their_bounds),
		STORE_TEST(an_empty_key_can_be_found),
		STORE_TEST(scans_are_exact_for_keys_of_any_length),
		STORE_TEST(a_long_key_is_compared_in_full),
	};

	return cmocka_run_group_tests_name("state/tidemark", tests, NULL, NULL);
}
