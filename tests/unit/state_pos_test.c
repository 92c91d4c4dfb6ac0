#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "state/pos.h"
#include "tests/unit/state_property.h"

static struct pos random_pos(uint64_t *seed)
{
	/* Few values each, so that ties are common. */
	static const uint64_t lsns[] = {0, 1, 0xFFFFFFFF, 0x100000000, UINT64_MAX};
	static const uint64_t ordinals[] = {0, 1, 0xFFFFFFFF, 0x100000000, POS_ORDINAL_MAX};
	static const uint16_t epochs[] = {0, 1, 0xFF, 0x100, UINT16_MAX};

	return (struct pos){
		epochs[random_below(seed, 5)],
		LSN(lsns[random_below(seed, 5)]),
		ordinals[random_below(seed, 5)],
	};
}

static void positions_compare_by_epoch_then_lsn_then_ordinal(void **state)
{
	static const struct pos ascending[] = {
		{0, {0}, 0}, {0, {0}, 1}, {0, {1}, 0}, {0, {1}, POS_ORDINAL_MAX}, {0, {UINT64_MAX}, 0}, {1, {0}, 0},
	};
	const size_t n = sizeof ascending / sizeof *ascending;

	(void)state;
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < n; j++)
			assert_int_equal(sign_of(pos_cmp(ascending[i], ascending[j])), (i > j) - (i < j));
	assert_int_equal(pos_cmp(POS_NONE, ascending[0]), 0);
}

static void encoded_positions_keep_order_and_value(void **state)
{
	uint64_t seed = 1;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		struct pos a = random_pos(&seed), b = random_pos(&seed);
		uint8_t ea[POS_SIZE], eb[POS_SIZE];

		pos_encode(a, ea);
		pos_encode(b, eb);
		assert_int_equal(sign_of(memcmp(ea, eb, POS_SIZE)), sign_of(pos_cmp(a, b)));
		assert_int_equal(pos_cmp(pos_decode(ea), a), 0);
	}
}

static void encoded_position_has_the_documented_bytes(void **state)
{
	static const uint8_t want[POS_SIZE] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
	struct pos p = {0x0102, {UINT64_C(0x030405060708090A)}, UINT64_C(0x0B0C0D0E0F10)};
	uint8_t got[POS_SIZE];

	(void)state;
	pos_encode(p, got);
	assert_memory_equal(got, want, POS_SIZE);
}

static void lsn_text_is_postgresqls(void **state)
{
	char text[LSN_TEXT_SIZE];
	lsn_t lsn;

	(void)state;
	assert_string_equal(lsn_format(LSN(0), text), "0/0");
	assert_string_equal(lsn_format(LSN(UINT64_C(0x16B374D848)), text), "16/B374D848");
	assert_string_equal(lsn_format(LSN(UINT64_MAX), text), "FFFFFFFF/FFFFFFFF");
	assert_true(lsn_parse("16/B374D848", &lsn) && lsn.v == UINT64_C(0x16B374D848));
	assert_true(lsn_parse("16/b374d848", &lsn) && lsn.v == UINT64_C(0x16B374D848));
	assert_true(lsn_parse("00000001/00000002", &lsn) && lsn.v == UINT64_C(0x100000002));
}

static void other_texts_are_not_lsns(void **state)
{
	static const char *const texts[] = {"",     "/",    "0",    "0/",    "/0",          "0/0 ",
										" 0/0", "0//0", "-1/0", "0x1/0", "1/000000000", "000000000/1",
										"G/0",  "0/0/0"};
	lsn_t lsn;

	(void)state;
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		assert_false(lsn_parse(texts[i], &lsn));
}

static void xids_widen_to_the_nearest(void **state)
{
	const uint64_t wrap = UINT64_C(1) << 32;

	(void)state;
	assert_int_equal(xid_widen(7, XID(5)).v, 7);
	assert_int_equal(xid_widen(5, XID(7)).v, 5);
	assert_int_equal(xid_widen(3, XID(wrap - 2)).v, wrap + 3);
	assert_int_equal(xid_widen(0xFFFFFFFE, XID(wrap + 3)).v, wrap - 2);
	assert_int_equal(xid_widen(0x10, XID(7 * wrap + 0x20)).v, 7 * wrap + 0x10);
	/* Nothing is below zero. */
	assert_int_equal(xid_widen(0xFFFFFFFE, XID(3)).v, 0xFFFFFFFE);
}

static void widening_inverts_narrowing(void **state)
{
	uint64_t seed = 2;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		uint64_t xid = random_magnitude(&seed) >> 2;
		uint64_t distance = random_magnitude(&seed) % INT32_MAX;
		uint64_t ref = random_u64(&seed) & 1 || distance > xid ? xid + distance : xid - distance;

		assert_int_equal(xid_widen((uint32_t)xid, XID(ref)).v, xid);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(positions_compare_by_epoch_then_lsn_then_ordinal),
		cmocka_unit_test(encoded_positions_keep_order_and_value),
		cmocka_unit_test(encoded_position_has_the_documented_bytes),
		cmocka_unit_test(lsn_text_is_postgresqls),
		cmocka_unit_test(other_texts_are_not_lsns),
		cmocka_unit_test(xids_widen_to_the_nearest),
		cmocka_unit_test(widening_inverts_narrowing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
