#include "apply/guard.h"
#include "state/mutant.h"

bool guard_admits(bool present, struct pos stored, struct pos floor, struct pos candidate)
{
	int order = pos_cmp(present ? stored : MUTANT(NO_FLOOR) ? POS_NONE : floor, candidate);

	return order < 0 || (MUTANT(GUARD_EQUAL) && order == 0);
}
