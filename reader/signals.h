/*
 * reader/signals.h - what the source asks of us in the stream: logical
 * messages with the prefix `tidemark`, and rows inserted into the signal table. They are kept until their
 * transaction has committed.
 *
 * Bounded: what a transaction has beyond SIGNALS_MAX or SIGNAL_BYTES_MAX is left out, and counted.
 */
#ifndef READER_SIGNALS_H
#define READER_SIGNALS_H

#include "reader/relation.h"

#define SIGNALS_MAX      1000
#define SIGNAL_BYTES_MAX (8 * 1024 * 1024) /* of a transaction */

struct signal {
	lsn_t commit_lsn;
	unsigned number; /* 1, 2, 3 ... in its transaction */
	bool is_row;
	struct slice content;        /* of a message */
	struct slice id, type, data; /* of a row; p == NULL is NULL */
};

struct signals {
	struct signal *v;
	size_t n;
	size_t left_out;
	struct arena arena;
};

void signals_add_message(struct signals *s, struct slice content);
/* A row that has no such columns has NULL in their place. */
void signals_add_row(struct signals *s, const struct relation *r, const struct pgo_tuple *row);
void signals_reset(struct signals *s);
void signals_finish(struct signals *s); /* accepts zeroed memory */

/* Our own watermark is a message with the prefix too. */
bool signal_is_message(const struct pgo_msg *m);

#endif
