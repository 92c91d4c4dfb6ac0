#include "reader/conninfo.h"

#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>

#include "state/bytes.h"

static const char *value_of(const PQconninfoOption *options, const char *keyword)
{
	for (; options != NULL && options->keyword != NULL; options++)
		if (strcmp(options->keyword, keyword) == 0)
			return options->val != NULL && options->val[0] != '\0' ? options->val : NULL;
	return NULL;
}

/* ---- errors ---- */

/* How libpq's message begins (in the C locale; the input comes later in it), and the same without input. */
static const struct {
	const char *begins, *says;
} faults[] = {
	{"missing \"=\"", "a setting has no \"=\"; values with spaces need single quotes"},
	{"unterminated quoted string", "a single quote is not closed"},
	{"invalid connection option",
	 "a setting is not one that libpq knows; values with spaces need single quotes"},
	{"invalid percent-encoded",
	 "a \"%\" is not followed by two hexadecimal digits; write \"%\" itself as %25"},
	{"forbidden value", "%00 is not allowed"},
	{"end of string reached", "an IPv6 address has no closing \"]\""},
	{"IPv6 host", "the IPv6 address is empty"},
	{"unexpected character", "there is an unexpected character after the IPv6 address"},
	{"extra key/value", "a parameter after \"?\" has a second \"=\""},
	{"missing key/value", "a parameter after \"?\" has no \"=\""},
	{"invalid URI query parameter", "a parameter after \"?\" is not one that libpq knows"},
};

static const char *fault_of(const char *message)
{
	for (size_t i = 0; message != NULL && i < sizeof faults / sizeof *faults; i++)
		if (strncmp(message, faults[i].begins, strlen(faults[i].begins)) == 0) return faults[i].says;
	return "it is neither key=value settings nor a postgresql:// URI";
}

static bool parse(const char *conninfo, PQconninfoOption **out, struct err *err)
{
	char *message = NULL;

	*out = PQconninfoParse(conninfo, &message);
	if (*out == NULL) err_set(err, ERR_CONFIG, "the connection string cannot be read: %s", fault_of(message));
	PQfreemem(message);
	return *out != NULL;
}

/* What follows the scheme of a URI, or NULL. */
static const char *uri_rest(const char *conninfo)
{
	static const char *const schemes[] = {"postgresql://", "postgres://"};

	for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
		if (strncmp(conninfo, schemes[i], strlen(schemes[i])) == 0) return conninfo + strlen(schemes[i]);
	return NULL;
}

/*
 * "postgresql://me:pa/ss@host/db" parses: host "me", port "pa", database
 * "ss@host/db". An '@' that does not end user and password gives it away. After the '?' it says nothing.
 */
static bool has_stray_at(const char *conninfo)
{
	const char *p = uri_rest(conninfo);

	if (p == NULL) return false;
	p += strcspn(p, "@/");
	if (*p == '@') p++;
	return p[strcspn(p, "@?")] == '@';
}

/* A port, or several with commas: digits can be shown, and nothing else is a port. */
static bool is_ports(const char *port)
{
	return port == NULL || port[strspn(port, "0123456789,")] == '\0';
}

static bool check(const char *conninfo, const PQconninfoOption *options, struct err *err)
{
	if (has_stray_at(conninfo))
		return err_set(
			err, ERR_CONFIG,
			"the connection URI has a \"@\" that is not the one before the host; in a user, password or "
			"database write @ as %%40, / as %%2F, : as %%3A, %% as %%25");
	if (!is_ports(value_of(options, "port")))
		return err_set(
			err, ERR_CONFIG,
			"the connection string has a port that is not a number; in the user and password of a URI write "
			"@ as %%40, / as %%2F, : as %%3A, %% as %%25");
	return true;
}

/* ---- display ---- */

static void put_text(struct buf *out, const char *s)
{
	buf_put(out, s, strlen(s));
}

/* The i-th of comma-separated items; the last one stands for those that are missing. */
static struct slice item(const char *list, size_t i)
{
	size_t n = strcspn(list, ",");

	while (i-- > 0 && list[n] == ',') {
		list += n + 1;
		n = strcspn(list, ",");
	}
	return (struct slice){(const uint8_t *)list, n};
}

static void put_host(struct buf *out, struct slice host, struct slice port)
{
	bool ipv6 = host.n > 0 && host.p[0] != '/' && memchr(host.p, ':', host.n) != NULL;

	if (host.n == 0) host = slice_of("localhost");
	put_text(out, ipv6 ? "[" : "");
	buf_put(out, host.p, host.n);
	put_text(out, ipv6 ? "]:" : ":");
	if (port.n == 0)
		put_text(out, "5432");
	else
		buf_put(out, port.p, port.n);
}

static void put_hosts(struct buf *out, const char *hosts, const char *ports)
{
	size_t i = 0;

	for (const char *p = hosts; p != NULL; p = strchr(p, ','), p = p != NULL ? p + 1 : NULL) {
		put_text(out, i > 0 ? "," : "");
		put_host(out, item(hosts, i), item(ports, i));
		i++;
	}
}

/* The given value, else libpq's from environment, service file and built-in defaults. */
static const char *pick(const PQconninfoOption *given, const PQconninfoOption *defaults, const char *keyword)
{
	const char *value = value_of(given, keyword);

	return value != NULL ? value : value_of(defaults, keyword);
}

static const char *or_text(const char *s, const char *otherwise)
{
	return s != NULL ? s : otherwise;
}

/* A value that holds a connection string in turn may hold its password: 'h password=p' in quotes. */
static bool is_shown(const char *value)
{
	return strchr(value, '=') == NULL && strstr(value, "://") == NULL;
}

static void put_shown(struct buf *out, const char *value)
{
	put_text(out, is_shown(value) ? value : "?");
}

static void put_all(struct buf *out, const PQconninfoOption *given, const PQconninfoOption *defaults)
{
	const char *service = value_of(given, "service");
	const char *host = or_text(value_of(given, "host"), value_of(given, "hostaddr"));
	const char *dbname = pick(given, defaults, "dbname");

	if (service != NULL) {
		put_text(out, "service=");
		put_shown(out, service);
		if (host == NULL) return;
		put_text(out, " ");
	}
	if (host == NULL)
		host = or_text(value_of(defaults, "host"), or_text(value_of(defaults, "hostaddr"), "localhost"));
	put_hosts(out, is_shown(host) ? host : "?", or_text(pick(given, defaults, "port"), ""));
	put_text(out, "/");
	/* libpq names the database after the user. */
	dbname = or_text(dbname, or_text(pick(given, defaults, "user"), ""));
	put_shown(out, dbname);
}

bool conninfo_display(const char *conninfo, char **out, struct err *err)
{
	PQconninfoOption *given, *defaults;
	struct buf b = {0};
	bool ok;

	*out = NULL;
	if (!parse(conninfo, &given, err)) return false;
	ok = check(conninfo, given, err);
	if (ok) {
		defaults = PQconndefaults();
		put_all(&b, given, defaults);
		buf_put_u8(&b, 0);
		*out = (char *)b.p;
		PQconninfoFree(defaults);
	}
	PQconninfoFree(given);
	return ok;
}

/* ---- hiding ---- */

/* libpq marks what must not be shown: passwords by '*'; the SCRAM keys are as good as one. */
static bool is_secret(const PQconninfoOption *o)
{
	return o->val != NULL && o->val[0] != '\0' &&
		   (o->dispchar[0] == '*' || strncmp(o->keyword, "scram_", 6) == 0);
}

bool conninfo_has_secret(const char *conninfo)
{
	PQconninfoOption *options = PQconninfoParse(conninfo, NULL);
	bool found = options == NULL || has_stray_at(conninfo) || !is_ports(value_of(options, "port"));

	for (const PQconninfoOption *o = options; !found && o != NULL && o->keyword != NULL; o++)
		found = is_secret(o);
	PQconninfoFree(options);
	return found;
}

static bool names_source(const char *word, size_t n)
{
	static const char end[] = "-source";
	size_t len = sizeof end - 1;

	return n > len && strncmp(word, "--", 2) == 0 && strncmp(word + n - len, end, len) == 0;
}

static void hide(char *value)
{
	if (conninfo_has_secret(value)) memset(value, 'x', strlen(value));
}

void conninfo_hide_args(int argc, char *const *argv)
{
	for (int i = 1; i < argc; i++) {
		size_t n = strcspn(argv[i], "=");

		if (!names_source(argv[i], n)) continue;
		if (argv[i][n] == '=')
			hide(argv[i] + n + 1);
		else if (i + 1 < argc)
			hide(argv[++i]);
	}
}
