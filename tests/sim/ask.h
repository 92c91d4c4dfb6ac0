/*
 * tests/sim/ask.h - what runs are about: the scopes that someone asks for, as
 * SQL and as the server understands it.
 *
 * A condition is one of a few whose meaning is known here. Some are bad: one that names no column is
 * found out before it is recorded anywhere else, one that divides by zero only when it meets the row.
 */
#ifndef SIM_ASK_H
#define SIM_ASK_H

#include "snapshot/copier.h"
#include "tests/sim/source.h"

/* Runs of one history have ids below; the last ones are for what the program itself has to start. */
#define ASKS_MAX      96
#define ASKS_RESERVED 24
/* Keys that may be listed: those of the source, those that damage invents, and some that nobody has. */
#define ASK_KEYS_MAX   (SRC_KEYS_MAX + 4)
#define ASK_LISTED_MAX 12

enum ask_answer { ASK_OUT, ASK_IN, ASK_ERROR };

/* Of a run by its id. All zero but `low` and `high`: the whole table. */
struct ask {
	int table;
	bool requested; /* else it is the program's own */
	char name[4];
	enum sweep_mode sweep;
	int condition; /* 0 = none */
	int low, high; /* keys; -1 = no bound */
	int listed[ASK_LISTED_MAX];
	int nlisted;
	uint32_t rows_per_second;
	bool stopped;     /* someone did */
	bool may_fail;    /* the server may have refused it */
	unsigned resumed; /* how often */
};

struct ask ask_whole(int table, enum sweep_mode sweep);
struct ask ask_draw(struct rng *r, int table);

bool ask_is_whole(const struct ask *a);
/* It cannot end well: its condition, or its bounds, are bad wherever they are tried. */
bool ask_is_hopeless(const struct ask *a);
/* Whether a row is in the scope of a run over pages. */
enum ask_answer ask_holds(const struct ask *a, int key, struct src_row row);
bool ask_lists(const struct ask *a, int key);
/* Row or not, the run may write under the key. */
bool ask_covers(const struct ask *a, int key, struct src_row row);
const char *ask_where(const struct ask *a);

/* Asks the copier; what of it is refused, by whom and when, is not seen here. */
uint64_t ask_request(const struct ask *a, struct copier *c, uint32_t table_id, bool *is_new, int64_t now_us);

#endif
