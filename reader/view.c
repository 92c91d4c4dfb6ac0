/* reader/view.c - see view.h. */
#include "reader/view.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <unistd.h>

#include "reader/command.h"
#include "reader/names.h"
#include "reader/suggest.h"

bool view_open(const char *dir, tidemark **out, struct err *err)
{
	int rc = tidemark_open(dir, out);

	if (rc != 0) {
		*out = NULL;
		return view_no_store(dir, rc, err);
	}
	rc = tidemark_begin(*out);
	return rc == 0 || err_of_tidemark(err, rc, *out);
}

bool view_no_store(const char *dir, int code, struct err *err)
{
	if (code == TIDEMARK_E_NOSTORE)
		return err_set(err, ERR_CORRUPT, "%s has no store: start `tidemark run` first", dir);
	return err_of_tidemark(err, code, NULL);
}

/* ---- names ---- */

/* A control character in a name would act on the terminal; nothing else changes. */
static void make_printable(struct buf *b, size_t from)
{
	for (size_t i = from; i < b->n; i++) {
		if (b->p[i] < 0x20 || b->p[i] == 0x7f) b->p[i] = '?';
	}
}

void view_put_name(struct buf *out, const char *schema_name, const char *table_name)
{
	size_t start = out->n;

	names_put(out, schema_name, table_name);
	make_printable(out, start);
}

/* Moves the text in b to out, cut before a whole character when it does not fit. */
static const char *give_text(struct buf *b, char *out, size_t size)
{
	size_t n = b->n < size ? b->n : size - 1;

	while (n > 0 && n < b->n && (b->p[n] & 0xc0) == 0x80)
		n--;
	memcpy(out, b->p, n);
	out[n] = '\0';
	buf_finish(b);
	return out;
}

const char *view_name(const tidemark_table *t, char out[VIEW_NAME_SIZE])
{
	const tidemark_table_info *info = tidemark_table_get_info(t);
	struct buf b = {0};

	view_put_name(&b, info->schema_name, info->table_name);
	return give_text(&b, out, VIEW_NAME_SIZE);
}

static void put_text(struct buf *b, const char *s)
{
	buf_put(b, s, strlen(s));
}

const char *view_key(const tidemark_table *t, char out[VIEW_KEY_SIZE])
{
	struct buf b = {0};

	for (size_t i = 0; i < tidemark_key_count(t); i++) {
		size_t column = tidemark_key_column(t, i);

		put_text(&b, i > 0 ? ", " : "");
		put_text(&b, tidemark_column_name(t, column));
		put_text(&b, " ");
		put_text(&b, tidemark_column_type(t, column));
	}
	make_printable(&b, 0);
	return give_text(&b, out, VIEW_KEY_SIZE);
}

/* ---- finding a table ---- */

#define NEAR_MAX 3 /* named in a message */

/* The table name most like the wanted one; NULL: none is. */
static int find_near(tidemark *tm, size_t count, const char *wanted, const char **out)
{
	struct suggest s = suggest_for(wanted, strlen(wanted));
	tidemark_table *t;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < count; i++) {
		rc = tidemark_table_at(tm, i, &t);
		if (rc == 0) suggest_offer(&s, tidemark_table_get_info(t)->table_name);
	}
	*out = s.best;
	return rc;
}

/* Tables of the wanted name in other schemas or another case, and of the one near it: "a or b". */
static bool list_near(tidemark *tm, const struct table_name *wanted, struct buf *out, struct err *err)
{
	const char *near = NULL;
	size_t count, found = 0;
	int rc = tidemark_table_count(tm, &count);

	if (rc == 0) rc = find_near(tm, count, wanted->table_name, &near);
	for (size_t i = 0; rc == 0 && i < count && found < NEAR_MAX; i++) {
		const tidemark_table_info *info;
		tidemark_table *t;

		rc = tidemark_table_at(tm, i, &t);
		if (rc != 0) break;
		info = tidemark_table_get_info(t);
		if (strcasecmp(info->table_name, wanted->table_name) != 0 &&
			(!near || strcmp(info->table_name, near) != 0))
			continue;
		put_text(out, found++ > 0 ? " or " : "");
		view_put_name(out, info->schema_name, info->table_name);
	}
	return rc == 0 || err_of_tidemark(err, rc, tm);
}

static bool no_table(tidemark *tm, const struct table_name *wanted, struct err *err)
{
	struct buf name = {0}, near = {0};

	view_put_name(&name, wanted->schema_name, wanted->table_name);
	if (!list_near(tm, wanted, &near, err)) goto out;
	if (near.n > 0)
		err_set(err, ERR_CONFIG, "the store has no table %.*s; did you mean %.*s?", (int)name.n,
				(const char *)name.p, (int)near.n, (const char *)near.p);
	else
		err_set(err, ERR_CONFIG, "the store has no table %.*s; `tidemark tables` lists what it has",
				(int)name.n, (const char *)name.p);
out:
	buf_finish(&name);
	buf_finish(&near);
	return false;
}

bool view_table(tidemark *tm, const char *text, tidemark_table **out, struct err *err)
{
	struct table_name name;
	bool ok;
	int rc;

	if (!names_parse(text, &name, err)) return false;
	rc = tidemark_table_find(tm, name.schema_name, name.table_name, out);
	if (rc == TIDEMARK_E_NOTFOUND)
		ok = no_table(tm, &name, err);
	else
		ok = rc == 0 || err_of_tidemark(err, rc, tm);
	names_finish(&name);
	return ok;
}

/* ---- rows ---- */

bool printer_init(struct printer *p, const tidemark_table *t, enum format_kind kind, bool with_meta,
				  struct err *err)
{
	size_t n = tidemark_column_count(t);
	struct format_column *columns = calloc(n + 1, sizeof *columns);
	bool ok;

	*p = (struct printer){.ncolumns = n, .cells = calloc(n + 1, sizeof *p->cells)};
	if (!columns || !p->cells) {
		free(columns);
		return err_set(err, ERR_NOMEM, "out of memory");
	}
	for (size_t i = 0; i < n; i++) {
		columns[i].name = tidemark_column_name(t, i);
		columns[i].type_class = (uint8_t)tidemark_column_class(t, i);
	}
	ok = format_create(kind, columns, n, with_meta, &p->format, err);
	free(columns);
	return ok;
}

void printer_finish(struct printer *p)
{
	format_destroy(p->format);
	free(p->cells);
	*p = (struct printer){0};
}

void printer_put(struct printer *p, const tidemark_row *row, struct buf *out)
{
	const struct format_meta meta = {
		.lsn = LSN(row->commit_lsn),
		.ordinal = row->ordinal,
		.epoch = row->epoch,
		.version = row->schema_version,
		.doubt = row->doubt != 0,
	};

	for (size_t i = 0; i < p->ncolumns; i++) {
		p->cells[i].p = (const uint8_t *)tidemark_row_value(row, i);
		p->cells[i].n = p->cells[i].p ? tidemark_row_length(row, i) : 0;
	}
	format_row(p->format, p->cells, &meta, out);
}

/* ---- the daemon ---- */

static long read_pid(int fd)
{
	char digits[32];
	ssize_t n = pread(fd, digits, sizeof digits - 1, 0);
	long pid;

	if (n <= 0) return 0;
	digits[n] = '\0';
	pid = strtol(digits, NULL, 10);
	return pid > 0 ? pid : 0;
}

/* A shared lock is refused while the daemon holds the exclusive one. Ours is gone again at once. */
static enum daemon_state try_lock(int fd)
{
	if (flock(fd, LOCK_SH | LOCK_NB) == 0) return DAEMON_ABSENT;
	return errno == EWOULDBLOCK ? DAEMON_RUNNING : DAEMON_UNKNOWN;
}

enum daemon_state view_daemon(const char *dir, long *pid)
{
	enum daemon_state state;
	char *path;
	int fd;

	*pid = 0;
	if (asprintf(&path, "%s/tidemark.lock", dir) < 0) return DAEMON_UNKNOWN;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	free(path);
	if (fd < 0) return errno == ENOENT ? DAEMON_ABSENT : DAEMON_UNKNOWN;
	state = try_lock(fd);
	if (state == DAEMON_RUNNING) *pid = read_pid(fd);
	close(fd);
	return state;
}
