#include "apply/guard.h"

bool guard_admits(bool present, struct pos stored, struct pos floor, struct pos candidate)
{
	return pos_cmp(present ? stored : floor, candidate) < 0;
}
