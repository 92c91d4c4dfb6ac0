#include <assert.h>

#include "reader/command.h"
#include "state/tidemark.h"

int exit_code_of(enum err_kind kind)
{
	switch (kind) {
	case ERR_NONE:
	case ERR_STOPPED: return EXIT_OK;
	case ERR_CONFIG: return EXIT_USAGE;
	case ERR_GAP: return EXIT_GAP;
	case ERR_CORRUPT:
	case ERR_BUSY: return EXIT_STORE;
	case ERR_RETRY:
	case ERR_PROTOCOL:
	case ERR_DISK:
	case ERR_NOMEM:
	case ERR_BUG: break;
	}
	return EXIT_RUNTIME;
}

/* An I/O error while reading makes the store unreadable, as damage does: the same exit code. */
static enum err_kind kind_of(int code)
{
	switch (code) {
	case TIDEMARK_E_NOTFOUND:
	case TIDEMARK_E_ARGUMENT:
	case TIDEMARK_E_NOSTORE:
	case TIDEMARK_E_PERMISSION: return ERR_CONFIG;
	case TIDEMARK_E_CORRUPT:
	case TIDEMARK_E_NEWER:
	case TIDEMARK_E_IO: return ERR_CORRUPT;
	case TIDEMARK_E_READERS: return ERR_BUSY;
	case TIDEMARK_E_NOMEM: return ERR_NOMEM;
	default: return ERR_BUG;
	}
}

bool err_of_tidemark(struct err *err, int code, const struct tidemark *tm)
{
	const char *message = tidemark_errmsg(tm);

	assert(code != TIDEMARK_OK);
	if (message == NULL || message[0] == '\0') message = tidemark_strerror(code);
	return err_set(err, kind_of(code), "%s", message);
}
