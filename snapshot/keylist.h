/*
 * snapshot/keylist.h - keys of the store that the source is to be asked about,
 * and which of them it returned. A list of whole rows has the stored values as well.
 *
 * Made from the applier's answer. A key is known by its encoding, not by what
 * the server thinks equal: asked for 1.0 the server may return 1.00, which is
 * another row here, and then 1.0 is one that the source does not have. One
 * owner, one thread.
 */
#ifndef SNAPSHOT_KEYLIST_H
#define SNAPSHOT_KEYLIST_H

#include <uthash.h>

#include "apply/applier.h"

struct keylist_key {
	struct slice key;  /* encoded */
	struct slice full; /* the full encoding of a long key, else empty */
	const struct slice
		*texts; /* one for each key column; of whole rows one for each column, p = NULL for NULL */
	bool returned;
	bool in_scope; /* CHUNK_SCOPED: the source said so */
	UT_hash_handle hh;
};

struct keylist {
	struct arena arena;
	struct keylist_key *by_key; /* hash */
	struct keylist_key *keys;
	size_t n;
	bool whole;          /* texts are those of all columns */
	struct slice resume; /* the listing goes on behind this key */
	bool end;            /* nothing is left there */
};

/* Copies what it needs of a. s: the schema a was made under. whole: a has whole rows. */
struct keylist *keylist_create(const struct answer *a, const struct schema *s, bool whole);
void keylist_destroy(struct keylist *l); /* accepts NULL */

/* The source returned a row with this key. False: it was not asked for. */
bool keylist_mark(struct keylist *l, struct slice key);
/* One array literal for each of the ncolumns texts, in arena. */
const char *const *keylist_params(const struct keylist *l, size_t ncolumns, struct arena *arena);

#endif
