/* Shapes of tables, one from the store and one from the source's catalog. */
#include "reader/shape.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = feed_of(data, size);
	char *a = feed_text(&f), *b = feed_text(&f);
	enum shape_change there = shape_compare(a, b), back = shape_compare(b, a);

	CHECK_THAT(shape_compare(a, a) == SHAPE_SAME, "%s", a);
	CHECK_THAT((there == SHAPE_SAME) == (strcmp(a, b) == 0 || *a == '\0'), "%s against %s", a, b);
	CHECK_THAT(*a == '\0' || *b == '\0' || there == back, "%s against %s: %d, %d", a, b, there, back);
	free(a);
	free(b);
	return 0;
}
