/*
 * state/mutant.h - places where the simulator breaks the algorithm on purpose,
 * to see that it notices. Only with -DTIDEMARK_MUTANTS (tests/sim); elsewhere
 * MUTANT() is the constant 0 and nothing of it is compiled.
 */
#ifndef STATE_MUTANT_H
#define STATE_MUTANT_H

/* X(name in C, name on the command line, what is broken) */
#define MUTANT_LIST(X)                                                                                       \
	X(NO_VISIBILITY, "no-visibility", "every transaction counts as visible in every snapshot")               \
	X(NO_XMAX, "no-xmax", "a snapshot's xmax is not looked at")                                              \
	X(BOUND_HIGH, "bound-high", "B is H")                                                                    \
	X(BOUND_LOW, "bound-low", "B is the position at which the chunk was asked for: the textbook window")     \
	X(UNSEEN_FORGOTTEN, "unseen-forgotten", "a restart forgets which transactions were not yet visible")     \
	X(FIRST_ATTACH, "first-attach", "chunks start before the slot's snapshot is covered")                    \
	X(CLOSE_EARLY, "close-early", "a window closes before the stream has passed H")                          \
	X(NO_FLOOR, "no-floor", "the position of the last TRUNCATE is ignored")                                  \
	X(CURSOR_EARLY, "cursor-early", "a run's cursor is committed before the rows it has passed")             \
	X(GUARD_EQUAL, "guard-equal", "an entry gives way to one of its own position")                           \
	X(CHECKPOINT_APART, "checkpoint-apart", "the checkpoint is committed before its rows")                   \
	X(ACK_EARLY, "ack-early", "what is received is acknowledged, durable or not")                            \
	X(FILL_BLIND, "fill-blind", "a chunk fills a row in doubt without having seen how it got there")         \
	X(INHERIT_BLIND, "inherit-blind", "values are inherited from rows that a run is about to replace")       \
	X(PRUNE_ONE, "prune-one", "transactions are forgotten while an older window cannot see them")            \
	X(ORDER_ANY, "order-any", "pages of a run close in any order")                                           \
	X(AHEAD_KEPT, "ahead-kept", "a page that fails leaves those that were asked for behind it")              \
	X(GATE_LOST, "gate-lost",                                                                                \
	  "a run that takes the place of another does not wait for what that one waited for")                    \
	X(REPLACE_BLIND, "replace-blind", "a run over rows that are there already takes chunks of any bound")    \
	X(SWEEP_BLIND, "sweep-blind", "suspects are deleted without asking the source")                          \
	X(SCOPE_BLIND, "scope-blind",                                                                            \
	  "a sweep over a part of a table does not ask whether the source has the rows")                         \
	X(SCOPE_ALL, "scope-all", "a sweep over a part of a table takes the rows outside of it for gone")        \
	X(PAUSE_AHEAD, "pause-ahead", "a run goes on behind what it had read, whether or not that had closed")   \
	X(LIST_EARLY, "list-early", "a run over listed keys is past them before their rows are stored")          \
	X(MOVE_KEEPS_OLD, "move-keeps-old", "a key change leaves the old key's row")                             \
	X(GATE_XMAX, "gate-xmax",                                                                                \
	  "\"everything so far\" ends at the last xid that has ended, not at the next one")                      \
	X(PURGE_BLIND, "purge-blind",                                                                            \
	  "markers are purged although a transaction that is not visible yet is older")                          \
	X(PURGE_AHEAD, "purge-ahead", "markers are purged although the stream may bring something older")        \
	X(STAGE_SEEN, "stage-seen", "readers see what is staged of a transaction that has not ended")            \
	X(STAGE_KEPT, "stage-kept",                                                                              \
	  "what was staged of a transaction that never ended is taken for a part of the next one")               \
	X(STAGE_STALE, "stage-stale", "a change of a staged key leaves the older one over it")                   \
	X(STAGE_FLOOR, "stage-floor", "a staged TRUNCATE leaves the rows of before")                             \
	X(STANDBY_LIST, "standby-list", "a standby's empty list of running transactions is believed")

enum mutant {
	MUTANT_NONE,
#define X(name, text, what) MUTANT_##name,
	MUTANT_LIST(X)
#undef X
		MUTANT_COUNT
};

#ifdef TIDEMARK_MUTANTS
extern int tidemark_mutant; /* enum mutant; defined by the simulator */
#define MUTANT(name) (tidemark_mutant == MUTANT_##name)
#else
#define MUTANT(name) 0
#endif

#endif
