/* Shapes of tables, one from the store and one from the source's catalog. */
#include "reader/shape.h"
#include "tests/fuzz/fuzz.h"

/* Columns that were added have a direction, everything else is as it is from either side. */
static bool agree(enum shape_change there, enum shape_change back)
{
	return there == SHAPE_EXTENDED ? back == SHAPE_ALTERED
								   : there == back || (there == SHAPE_ALTERED && back == SHAPE_EXTENDED);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = feed_of(data, size);
	char *a = feed_text(&f), *b = feed_text(&f);
	enum shape_change there = shape_compare(a, b), back = shape_compare(b, a);

	CHECK_THAT(shape_compare(a, a) == SHAPE_SAME, "%s", a);
	CHECK_THAT((there == SHAPE_SAME) == (strcmp(a, b) == 0 || *a == '\0'), "%s against %s", a, b);
	(void)shape_renames(a, b);
	CHECK_THAT(*a == '\0' || *b == '\0' || agree(there, back), "%s against %s: %d, %d", a, b, there, back);
	free(a);
	free(b);
	return 0;
}
