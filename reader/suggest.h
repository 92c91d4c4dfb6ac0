/*
 * reader/suggest.h - the known word that a mistyped one is closest to.
 *
 *     struct suggest s = suggest_for("stroe", 5);
 *     suggest_offer(&s, "store");
 *     suggest_offer(&s, "source");
 *     s.best  ->  "store"
 *
 * Plain data. Any thread.
 */
#ifndef READER_SUGGEST_H
#define READER_SUGGEST_H

#include <stddef.h>

struct suggest {
	const char *word;
	size_t n;
	const char *best; /* NULL: none is close */
	size_t distance;  /* of best; before one is found, one more than is accepted */
};

struct suggest suggest_for(const char *word, size_t n);       /* n bytes; they must stay */
void suggest_offer(struct suggest *s, const char *candidate); /* must stay */

#endif
