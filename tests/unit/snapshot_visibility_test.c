#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "snapshot/visibility.h"

static struct snap parse(const char *text, bool standby)
{
	struct snap s;
	struct err err;

	assert_true(snap_parse(text, standby, &s, &err));
	return s;
}

static bool sees(const char *text, bool standby, uint64_t xid)
{
	struct snap s = parse(text, standby);
	bool result = snap_sees(&s, XID(xid));

	snap_finish(&s);
	return result;
}

static bool covers(const char *text, bool standby, const char *gate, bool gate_standby)
{
	struct snap s = parse(text, standby), g = parse(gate, gate_standby);
	bool result = snap_covers(&s, &g);

	snap_finish(&s);
	snap_finish(&g);
	return result;
}

static void reads_what_the_server_prints(void **state)
{
	struct snap s = parse("10:20:11,15,19", false);

	(void)state;
	assert_int_equal(s.xmin.v, 10);
	assert_int_equal(s.xmax.v, 20);
	assert_int_equal(s.nxip, 3);
	assert_int_equal(s.xip[1].v, 15);
	snap_finish(&s);
	snap_finish(&s);

	s = parse("18446744073709551615:18446744073709551615:", false);
	assert_int_equal(s.nxip, 0);
	assert_true(s.xmax.v == UINT64_MAX);
	snap_finish(&s);

	/* As a new slot's exported snapshot can be: nothing below xmin is in progress. */
	s = parse("20:19:", false);
	assert_int_equal(s.xmin.v, 20);
	assert_int_equal(s.xmax.v, 20);
	snap_finish(&s);
	assert_true(sees("20:19:", false, 19));
	assert_false(sees("20:19:", false, 20));

	s = parse("10:20:11,11,12", false); /* as the server's own reader: twice is once */
	assert_int_equal(s.nxip, 2);
	snap_finish(&s);
}

static void refuses_everything_else(void **state)
{
	static const char *const bad[] = {
		"",
		"10",
		"10:20",
		":20:",
		"10::",
		"10:20:,",
		"10:20:11,",
		"10:20:11,,12",
		"10:20:12,11",
		"10:20:9",
		"10:20:20",
		"20:10:15",
		"0:10:",
		"10:20:11 ",
		" 10:20:",
		"+10:20:",
		"0x10:20:",
		"-10:20:",
		"10:20:11;12",
		"10:18446744073709551616:",
		"10:99999999999999999999999:",
	};
	struct snap s;
	struct err err;

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		assert_false(snap_parse(bad[i], false, &s, &err));
		assert_int_equal(err.kind, ERR_PROTOCOL);
		assert_null(s.xip);
	}
}

static void sees_what_is_neither_running_nor_later(void **state)
{
	(void)state;
	assert_true(sees("10:20:11,15", false, 9));
	assert_true(sees("10:20:11,15", false, 10));
	assert_false(sees("10:20:11,15", false, 11));
	assert_true(sees("10:20:11,15", false, 12));
	assert_false(sees("10:20:11,15", false, 15));
	assert_true(sees("10:20:11,15", false, 19));
	assert_false(sees("10:20:11,15", false, 20));
	assert_false(sees("10:20:11,15", false, 21));
}

/* Its xip list is empty even while transactions are open. */
static void a_standby_sees_below_xmin_only(void **state)
{
	(void)state;
	assert_true(sees("10:20:", true, 9));
	assert_false(sees("10:20:", true, 10));
	assert_false(sees("10:20:", true, 19));
}

static void covers_what_sees_all_the_gate_sees(void **state)
{
	(void)state;
	assert_true(covers("20:20:", false, "10:20:11", false));
	assert_true(covers("10:20:11", false, "10:20:11", false));
	assert_true(covers("11:25:11,22", false, "10:20:11", false));
	assert_false(covers("12:25:12", false, "10:20:11", false));   /* the gate sees 12 */
	assert_false(covers("10:19:11", false, "10:20:11", false));   /* and 19 */
	assert_true(covers("11:19:11", false, "11:20:11,19", false)); /* here it does not */
	assert_false(covers("11:18:11", false, "11:20:11,19", false));
	/* A slot that someone else made: all below an xid. */
	assert_true(covers("20:30:22", false, "20:20:", false));
	assert_false(covers("19:30:19", false, "20:20:", false));
}

static void a_standby_covers_from_its_xmin_down(void **state)
{
	(void)state;
	assert_true(covers("20:25:", true, "10:20:11", false));
	assert_false(covers("19:25:", true, "10:20:11", false));
	assert_true(covers("19:25:", true, "10:20:11,19", false));
	assert_true(covers("11:25:", true, "10:12:11", false));
	assert_true(covers("15:25:", true, "15:40:", true)); /* both on a standby: xmin against xmin */
	assert_false(covers("14:25:", true, "15:40:", true));
	assert_true(covers("15:25:16", false, "15:40:", true));
}

/* covers() by its definition, over every snapshot of a small world. */
static void covering_is_seeing_for_every_xid(void **state)
{
	enum { LOW = 3, HIGH = 8 };
	struct snap all[512];
	struct err err;
	size_t n = 0;

	(void)state;
	for (uint64_t xmin = LOW; xmin < HIGH; xmin++)
		for (uint64_t xmax = xmin; xmax < HIGH; xmax++)
			for (unsigned set = 0; set < 1u << (xmax - xmin); set++)
				for (int standby = 0; standby < 2; standby++) {
					char text[64], *p = text;

					p += sprintf(p, "%d:%d:", (int)xmin, (int)xmax);
					for (uint64_t x = xmin; x < xmax; x++)
						if (set >> (x - xmin) & 1) p += sprintf(p, "%s%d", p[-1] == ':' ? "" : ",", (int)x);
					assert_true(n < 512);
					assert_true(snap_parse(text, standby, &all[n++], &err));
				}
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < n; j++) {
			bool want = true;

			for (uint64_t x = 1; x <= HIGH; x++)
				want = want && (!snap_sees(&all[j], XID(x)) || snap_sees(&all[i], XID(x)));
			assert_int_equal(snap_covers(&all[i], &all[j]), want);
		}
	while (n > 0)
		snap_finish(&all[--n]);
}

static void a_union_sees_what_either_sees(void **state)
{
	static const char *const texts[] = {"5:5:", "3:9:3,7",     "4:9:4,5,6,7,8", "8:12:8,10",
										"3:3:", "12:20:12,19", "9:9:"};
	const size_t n = sizeof texts / sizeof *texts;

	(void)state;
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < n; j++) {
			struct snap a = parse(texts[i], false), b = parse(texts[j], false), both;
			struct buf text = {0};

			snap_union(&a, &b, &text);
			both = parse((const char *)text.p, false);
			for (uint64_t x = 1; x < 25; x++)
				assert_int_equal(snap_sees(&both, XID(x)), snap_sees(&a, XID(x)) || snap_sees(&b, XID(x)));
			snap_finish(&a);
			snap_finish(&b);
			snap_finish(&both);
			buf_finish(&text);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_what_the_server_prints),
		cmocka_unit_test(refuses_everything_else),
		cmocka_unit_test(sees_what_is_neither_running_nor_later),
		cmocka_unit_test(a_standby_sees_below_xmin_only),
		cmocka_unit_test(covers_what_sees_all_the_gate_sees),
		cmocka_unit_test(a_standby_covers_from_its_xmin_down),
		cmocka_unit_test(covering_is_seeing_for_every_xid),
		cmocka_unit_test(a_union_sees_what_either_sees),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
