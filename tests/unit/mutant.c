/*
 * For unit tests in a build with -DTIDEMARK_MUTANTS: $TIDEMARK_MUTANT names the
 * break of state/mutant.h that the test has to notice. tests/run-mutants uses it.
 */
#include "state/mutant.h"

#include <stdlib.h>
#include <string.h>

#ifdef TIDEMARK_MUTANTS

int tidemark_mutant;

__attribute__((constructor)) static void choose(void)
{
	static const char *const names[] = {"",
#define X(id, text, what) text,
										MUTANT_LIST(X)
#undef X
	};
	const char *wanted = getenv("TIDEMARK_MUTANT");

	for (int i = 1; wanted && i < MUTANT_COUNT; i++)
		if (strcmp(names[i], wanted) == 0) tidemark_mutant = i;
}

#endif
