#include "reader/suggest.h"

#include <string.h>

#define LONGEST 32

static size_t least(size_t a, size_t b, size_t c)
{
	size_t m = a < b ? a : b;

	return m < c ? m : c;
}

/* Letters to insert, delete, replace or swap with their neighbour (optimal string alignment). */
static size_t distance(const char *a, size_t na, const char *b, size_t nb)
{
	size_t rows[3][LONGEST + 1] = {{0}};

	for (size_t j = 0; j <= nb; j++)
		rows[0][j] = j;
	for (size_t i = 1; i <= na; i++) {
		size_t *row = rows[i % 3], *above = rows[(i - 1) % 3], *two_above = rows[(i + 1) % 3];

		row[0] = i;
		for (size_t j = 1; j <= nb; j++) {
			row[j] = least(above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
				two_above[j - 2] + 1 < row[j])
				row[j] = two_above[j - 2] + 1;
		}
	}
	return rows[na % 3][nb];
}

struct suggest suggest_for(const char *word, size_t n)
{
	return (struct suggest){word, n, NULL, n < 3 ? 0 : n < 6 ? 2 : 3};
}

void suggest_offer(struct suggest *s, const char *candidate)
{
	size_t n = strlen(candidate), d;

	if (s->n > LONGEST || n > LONGEST) return;
	d = distance(s->word, s->n, candidate, n);
	if (d < s->distance) {
		s->best = candidate;
		s->distance = d;
	}
}
