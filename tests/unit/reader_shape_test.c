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

static const char base[] = "16400/16390/1:728,2:728,4:730/d1639510/public.t";

static const struct pair pairs[] = {
	{"", "1/2/1:3/d/public.t", SHAPE_SAME},
	{base, base, SHAPE_SAME},
	/* TRUNCATE, VACUUM FULL: the file alone */
	{base, "16400/16999/1:728,2:728,4:730/d1639510/public.t", SHAPE_STORAGE},
	/* a rewrite by ALTER TYPE: file and a column's entry */
	{base, "16400/16999/1:728,2:755,4:730/d1639510/public.t", SHAPE_ALTERED},
	/* dropped, added, dropped and added again */
	{base, "16400/16390/1:728,2:728/d1639510/public.t", SHAPE_ALTERED},
	{base, "16400/16390/1:728,2:728,4:730,5:755/d1639510/public.t", SHAPE_ALTERED},
	{base, "16400/16390/1:728,2:728,5:755/d1639510/public.t", SHAPE_ALTERED},
	{base, "16400/16390/1:728,2:728,44:730/d1639510/public.t", SHAPE_ALTERED},
	/* SET DEFAULT, another key, another name */
	{base, "16400/16390/1:755,2:728,4:730/d1639510/public.t", SHAPE_OTHER},
	{base, "16400/16390/1:728,2:728,4:730/f1639510/public.t", SHAPE_OTHER},
	{base, "16400/16390/1:728,2:728,4:730/d1639510,1670000/public.t", SHAPE_OTHER},
	{base, "16400/16390/1:728,2:728,4:730/d1639510/public.u", SHAPE_OTHER},
	/* out of the publication and back, whatever else */
	{base, "16401/16390/1:728,2:728,4:730/d1639510/public.t", SHAPE_REPUBLISHED},
	{base, "0/16999/1:755,2:728/d/public.u", SHAPE_REPUBLISHED},
	/* a name may hold anything */
	{"1/2/3:4/d/\"a/b\".\"c/d\"", "1/2/3:4/d/\"a/b\".\"c/e\"", SHAPE_OTHER},
	{"1/2/3:4/d/\"a/b\".\"c/d\"", "1/2/3:4/d/\"a/b\".\"c/d\"", SHAPE_SAME},
	/* damage compares, and never reads past the end */
	{"/", "////", SHAPE_STORAGE},
	{"1", "1/2", SHAPE_STORAGE},
};

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
	char *sql = shape_sql(140000, "it's", oids, 2);
	(void)state;
	assert_non_null(strstr(sql, "IN (0,16384,4294967295)"));
	assert_non_null(strstr(sql, "'it''s'"));
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
		cmocka_unit_test(question_names_the_tables),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
