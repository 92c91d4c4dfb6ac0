/* What a difference between two looks at the catalog means. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "reader/shape.h"

struct pair {
	const char *before, *now;
	enum shape_change change;
};

static const char base[] = "16400/16390/4;1:728:aaaaaaaa,2:728:bbbbbbbb,4:730:dddddddd/d1639510/public.t";

static const struct pair pairs[] = {
	{"", "1/2/1;1:3:a/d/public.t", SHAPE_SAME},
	{base, base, SHAPE_SAME},
	/* TRUNCATE, VACUUM FULL: the file alone */
	{base, "16400/16999/4;1:728:aaaaaaaa,2:728:bbbbbbbb,4:730:dddddddd/d1639510/public.t", SHAPE_STORAGE},
	/* a rewrite by ALTER TYPE: file and a column's entry */
	{base, "16400/16999/4;1:728:aaaaaaaa,2:755:bbbbbbbb,4:730:dddddddd/d1639510/public.t", SHAPE_ALTERED},
	/* dropped */
	{base, "16400/16390/4;1:728:aaaaaaaa,2:728:bbbbbbbb/d1639510/public.t", SHAPE_ALTERED},
	/* added: without a value in old rows, with one, with a rewrite */
	{base, "16400/16390/5;1:728:aaaaaaaa,2:728:bbbbbbbb,4:730:dddddddd,5:755:eeeeeeee/d1639510/public.t",
	 SHAPE_EXTENDED},
	{base, "16400/16390/5;1:728:aaaaaaaa,2:728:bbbbbbbb,4:730:dddddddd,5:755:eeeeeeeem/d1639510/public.t",
	 SHAPE_ALTERED},
	{base, "16400/16999/5;1:728:aaaaaaaa,2:728:bbbbbbbb,4:730:dddddddd,5:755:eeeeeeee/d1639510/public.t",
	 SHAPE_ALTERED},
	{base,
	 "16400/16390/6;1:728:aaaaaaaa,2:728:bbbbbbbb,4:730:dddddddd,5:755:eeeeeeee,6:755:ffffffff/d2/public.u",
	 SHAPE_EXTENDED},
	/* added behind one that came and went, and may have had its name */
	{base, "16400/16390/6;1:728:aaaaaaaa,2:728:bbbbbbbb,4:730:dddddddd,6:755:eeeeeeee/d1639510/public.t",
	 SHAPE_ALTERED},
	{base, "16400/16390/6;1:728:aaaaaaaa,2:728:bbbbbbbb,4:730:dddddddd,5:755:eeeeeeee/d1639510/public.t",
	 SHAPE_ALTERED},
	/* added and something else touched */
	{base, "16400/16390/5;1:728:aaaaaaaa,2:755:bbbbbbbb,4:730:dddddddd,5:755:eeeeeeee/d1639510/public.t",
	 SHAPE_ALTERED},
	/* dropped and added again */
	{base, "16400/16390/5;1:728:aaaaaaaa,2:728:bbbbbbbb,5:755:dddddddd/d1639510/public.t", SHAPE_ALTERED},
	{base, "16400/16390/44;1:728:aaaaaaaa,2:728:bbbbbbbb,44:730:dddddddd/d1639510/public.t", SHAPE_ALTERED},
	/* SET DEFAULT, another key, another name */
	{base, "16400/16390/4;1:755:aaaaaaaa,2:728:bbbbbbbb,4:730:dddddddd/d1639510/public.t", SHAPE_OTHER},
	{base, "16400/16390/4;1:728:aaaaaaaa,2:728:bbbbbbbb,4:730:dddddddd/f1639510/public.t", SHAPE_OTHER},
	{base, "16400/16390/4;1:728:aaaaaaaa,2:728:bbbbbbbb,4:730:dddddddd/d1639510,1670000/public.t",
	 SHAPE_OTHER},
	{base, "16400/16390/4;1:728:aaaaaaaa,2:728:bbbbbbbb,4:730:dddddddd/d1639510/public.u", SHAPE_OTHER},
	/* labels and attributes of types: added, gone with their column or not; renamed, whatever else */
	{"1/2/1;1:3:a/d;16=aa,17=bb/public.t", "1/2/1;1:3:a/d;16=aa,17=bb,18=cc/public.t", SHAPE_OTHER},
	{"1/2/1;1:3:a/d;16=aa,17=bb/public.t", "1/2/1;1:3:a/d;16=aa/public.t", SHAPE_OTHER},
	{"1/2/1;1:3:a/d;16=aa,17=bb/public.t", "1/2/1;1:3:a/d/public.t", SHAPE_OTHER},
	{"1/2/1;1:3:a/d/public.t", "1/2/1;1:3:a/d;16=aa/public.t", SHAPE_OTHER},
	{"1/2/1;1:3:a/d;16=aa,17=bb/public.t", "1/2/1;1:3:a/d;16=aa,17=cc/public.t", SHAPE_ALTERED},
	{"1/2/1;1:3:a/d;16=aa,c9=bb/public.t", "1/2/2;1:3:a,2:4:b/d;c9=cc/public.t", SHAPE_ALTERED},
	{"1/2/1;1:3:a/d;16=aa/public.t", "1/2/1;1:3:a/f,9;16=ab/public.u", SHAPE_ALTERED},
	{"1/2/1;1:3:a/d;=,,a/public.t", "1/2/1;1:3:a/d;,=;/public.t", SHAPE_OTHER},
	/* out of the publication and back, whatever else */
	{base, "16401/16390/4;1:728:aaaaaaaa,2:728:bbbbbbbb,4:730:dddddddd/d1639510/public.t", SHAPE_REPUBLISHED},
	{base, "0/16999/2;1:755:aaaaaaaa,2:728:bbbbbbbb/d/public.u", SHAPE_REPUBLISHED},
	/* a partitioned table's partitions and their files */
	{"1/p0a/1;1:3:a/d/public.t", "1/p0b/1;1:3:a/d/public.t", SHAPE_PARTS},
	{"1/p0a/1;1:3:a/d/public.t", "1/p0b/1;1:4:a/d/public.t", SHAPE_ALTERED},
	{"1/p0a/1;1:3:a/d/public.t", "1/p0b/2;1:3:a,2:4:b/d/public.t", SHAPE_ALTERED},
	{"1/p0a/1;1:3:a/d/public.t", "1/p0a/2;1:3:a,2:4:b/d/public.t", SHAPE_EXTENDED},
	/* a name may hold anything */
	{"1/2/3;3:4:c/d/\"a/b\".\"c/d\"", "1/2/3;3:4:c/d/\"a/b\".\"c/e\"", SHAPE_OTHER},
	{"1/2/3;3:4:c/d/\"a/b\".\"c/d\"", "1/2/3;3:4:c/d/\"a/b\".\"c/d\"", SHAPE_SAME},
	/* of an earlier form, and damage: compares, and never reads past the end */
	{"1/2/1:3,2:3/d/public.t", "1/2/3;1:3:a,2:3:b,3:4:c/d/public.t", SHAPE_ALTERED},
	{"/", "////", SHAPE_STORAGE},
	{"1", "1/2", SHAPE_STORAGE},
	{"1/2/9", "1/2/9;", SHAPE_ALTERED},
	{"1/2/;", "1/2/,", SHAPE_ALTERED},
	{"1/2/;:", "1/2/:;:", SHAPE_ALTERED},
};

static const struct pair renames[] = {
	{base, base, false},
	{base, "16400/16390/5;1:728:aaaaaaaa,2:755:bbbbbbbb,4:730:dddddddd,5:755:eeeeeeeem/d1639510/public.t",
	 false},
	{base, "16400/16390/4;1:728:aaaaaaaa,2:728:bbbbbbbb/d1639510/public.t", false},
	{base, "16400/16390/4;1:728:aaaaaaaa,2:755:cccccccc,4:730:dddddddd/d1639510/public.t", true},
	{base, "16400/16390/4;1:728:aaaaaaaa,2:755:dddddddd,4:755:bbbbbbbb/d1639510/public.t", true},
	{base, "16400/16390/5;1:728:aaaaaaaa,2:728:bbbbbbbb,5:755:dddddddd/d1639510/public.t", true},
};

static void names_move(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof renames / sizeof *renames; i++)
		if (shape_renames(renames[i].before, renames[i].now) != (bool)renames[i].change)
			fail_msg("%s -> %s", renames[i].before, renames[i].now);
}

static void every_pair(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
		if (shape_compare(pairs[i].before, pairs[i].now) != pairs[i].change)
			fail_msg("%s -> %s: %d", pairs[i].before, pairs[i].now,
					 shape_compare(pairs[i].before, pairs[i].now));
}

static void question_names_the_tables(void **state)
{
	const uint32_t oids[] = {16384, 4294967295u};
	char *sql = shape_sql(140000, "it's, \"a,b\"", oids, 2);
	(void)state;
	assert_non_null(strstr(sql, "IN (0,16384,4294967295)"));
	assert_non_null(strstr(sql, "'{\"it''s\",\"a,b\"}'"));
	assert_null(strstr(sql, "pg_publication_namespace"));
	free(sql);
	sql = shape_sql(150000, "p", NULL, 0);
	assert_non_null(strstr(sql, "IN (0)"));
	assert_non_null(strstr(sql, "pg_publication_namespace"));
	free(sql);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_pair),
		cmocka_unit_test(names_move),
		cmocka_unit_test(question_names_the_tables),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
