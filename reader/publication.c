#include "reader/publication.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the list of names ---- */

/* Up to the closing quote. False: there is none. */
static bool take_quoted(const char **p, struct buf *out)
{
	const char *s = *p + 1;
	for (; *s != '\0' && (*s != '"' || s[1] == '"'); s++) {
		s += *s == '"';
		buf_put_u8(out, (uint8_t)*s);
	}
	*p = s + (*s == '"');
	return *s == '"';
}

static bool take_plain(const char **p, struct buf *out)
{
	size_t n = strcspn(*p, ",");
	buf_put(out, *p, n);
	*p += n;
	while (out->n > 0 && out->p[out->n - 1] == ' ')
		out->n--;
	return true;
}

/* Takes one name and the comma behind it off the list; out gets a NUL. False: there is none. */
static bool take_name(const char **p, struct buf *out)
{
	buf_reset(out);
	*p += strspn(*p, " ");
	bool good = **p == '"' ? take_quoted(p, out) : take_plain(p, out);
	good = good && out->n > 0;
	buf_put_u8(out, 0);
	*p += strspn(*p, " ");
	if (**p == '\0') return good;
	return good && *(*p)++ == ',' && **p != '\0';
}

bool publication_check_names(const char *names, struct err *err)
{
	struct buf name = {0};
	bool good = true;
	for (const char *p = names; good && (*p != '\0' || p == names);)
		good = take_name(&p, &name);
	buf_finish(&name);
	return good || err_set(err, ERR_CONFIG,
						   "--publication: %s is not a list of names, as in: mine,\"its, too\"", names);
}

size_t publication_count(const char *names)
{
	struct buf name = {0};
	size_t n = 0;
	for (const char *p = names; *p != '\0' && take_name(&p, &name);)
		n++;
	buf_finish(&name);
	return n;
}

static void put_text(struct buf *out, const char *s)
{
	buf_put(out, s, strlen(s));
}

char *publication_identifiers(const char *names)
{
	struct buf name = {0}, out = {0};
	for (const char *p = names; *p != '\0' && take_name(&p, &name);) {
		char *id = quote_identifier((const char *)name.p);
		put_text(&out, out.n > 0 ? "," : "");
		put_text(&out, id);
		free(id);
	}
	buf_put_u8(&out, 0);
	buf_finish(&name);
	return (char *)out.p;
}

char *publication_array(const char *names)
{
	struct buf name = {0}, out = {0};
	put_text(&out, "{");
	for (const char *p = names; *p != '\0' && take_name(&p, &name);) {
		put_text(&out, out.n > 1 ? ",\"" : "\"");
		for (const char *s = (const char *)name.p; *s != '\0'; s++) {
			if (*s == '"' || *s == '\\') buf_put_u8(&out, '\\');
			buf_put_u8(&out, (uint8_t)*s);
		}
		put_text(&out, "\"");
	}
	put_text(&out, "}");
	buf_put_u8(&out, 0);
	buf_finish(&name);
	return (char *)out.p;
}

/* ---- what there is ---- */

struct publications {
	const char *names;
	size_t listed, existing;
	bool via_root;  /* all there are */
	bool complete;  /* each publishes every kind of change */
	bool generated; /* a table brought in comes with its stored generated columns */
	char *incomplete;
	/* By oid, a row for each publication: oid, columns, filter, whether it has all kinds of change, and
	 * whether all together have. */
	PGresult *sent;
};

void publications_free(struct publications *p)
{
	if (p == NULL) return;
	free(p->incomplete);
	PQclear(p->sent);
	free(p);
}

static const char publications_sql[] =
	"SELECT p.pubname, p.pubinsert AND p.pubupdate AND p.pubdelete AND p.pubtruncate, p.pubviaroot,"
	" coalesce(pg_catalog.to_jsonb(p) ->> 'pubgencols', '') = 's'"
	"  FROM pg_catalog.pg_publication p WHERE p.pubname = ANY ($1::pg_catalog.text[]) ORDER BY p.pubname";

/*
 * The view has partitions or the tables above them, whichever the publication sends. Of several kinds of
 * change each publication may have some: together they have to have all.
 */
static const char sent_sql[] =
	"SELECT c.oid, %s, p.pubinsert AND p.pubupdate AND p.pubdelete AND p.pubtruncate,"
	" bool_or(p.pubinsert) OVER w AND bool_or(p.pubupdate) OVER w AND bool_or(p.pubdelete) OVER w"
	"  AND bool_or(p.pubtruncate) OVER w"
	"  FROM pg_catalog.pg_publication_tables t JOIN pg_catalog.pg_publication p ON p.pubname = t.pubname"
	"  JOIN pg_catalog.pg_namespace n ON n.nspname = t.schemaname"
	"  JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = t.tablename"
	" WHERE t.pubname = ANY ($1::pg_catalog.text[]) WINDOW w AS (PARTITION BY c.oid) ORDER BY c.oid";

static bool get_bool(const PGresult *r, int row, int col)
{
	return PQgetvalue(r, row, col)[0] == 't';
}

static void take_publications(struct publications *p, const PGresult *r)
{
	p->existing = (size_t)PQntuples(r);
	p->via_root = p->complete = true;
	for (int i = 0; i < PQntuples(r); i++) {
		p->via_root &= get_bool(r, i, 2);
		p->generated |= get_bool(r, i, 3);
		if (get_bool(r, i, 1)) continue;
		if (p->complete) p->incomplete = text_format("%s", PQgetvalue(r, i, 0));
		p->complete = false;
	}
}

bool publications_read(struct pgconn *c, const char *names, struct publications **out, struct err *err)
{
	struct publications *p = calloc(1, sizeof *p);
	if (p == NULL) abort();
	*out = p;
	p->names = names;
	p->listed = publication_count(names);
	char *array = publication_array(names), *sql;
	const char *params[] = {array};
	PGresult *r = NULL;
	sql = text_format(sent_sql,
					  PQserverVersion(pgconn_pg(c)) >= 150000 ? "t.attnames, t.rowfilter" : "NULL, NULL");
	bool good = catalog_ask(c, publications_sql, 1, params, 4, 0, &r, err) &&
				catalog_ask(c, sql, 1, params, 5, 0, &p->sent, err);
	if (good) take_publications(p, r);
	PQclear(r);
	free(sql);
	free(array);
	return good;
}

bool publication_exists(struct pgconn *c, const char *names, bool *out, struct err *err)
{
	char *array = publication_array(names);
	const char *params[] = {array};
	PGresult *r = NULL;
	bool good =
		pgconn_query(c, "SELECT FROM pg_catalog.pg_publication WHERE pubname = ANY ($1::pg_catalog.text[])",
					 1, params, &r, err);
	if (good) *out = (size_t)PQntuples(r) >= publication_count(names);
	PQclear(r);
	free(array);
	return good;
}

/* ---- how each table is sent ---- */

static uint32_t sent_oid(const struct publications *p, int row)
{
	return (uint32_t)strtoul(PQgetvalue(p->sent, row, 0), NULL, 10);
}

/* Rows of it are sent under its own name, as far as it is not below another that is. -1: no. */
static int find_sent(const struct publications *p, uint32_t oid)
{
	int low = 0, high = PQntuples(p->sent);
	while (low < high) {
		int middle = low + (high - low) / 2;
		if (sent_oid(p, middle) < oid)
			low = middle + 1;
		else
			high = middle;
	}
	return low < PQntuples(p->sent) && sent_oid(p, low) == oid ? low : -1;
}

/* The topmost table above t that is sent as one. 0: none. */
static uint32_t sent_above(const struct publications *p, const struct source_table *t)
{
	uint32_t top = 0;
	for (size_t i = 0; t->ancestors != NULL && t->ancestors[i] != 0; i++)
		if (find_sent(p, t->ancestors[i]) >= 0) top = t->ancestors[i];
	return top;
}

/* A table of ours that is not published can be brought into the publication. */
static bool may_add(const struct publications *p)
{
	return p->listed == 1;
}

static struct source_table *find_table(const struct source_tables *t, uint32_t oid)
{
	for (size_t i = 0; i < t->n; i++)
		if (t->v[i].oid == oid) return &t->v[i];
	return NULL;
}

/* The topmost table above t that is ours and can be replicated as one. NULL: none. */
static const struct source_table *ours_above(const struct publications *p, const struct source_tables *all,
											 const struct source_table *t)
{
	const struct source_table *top = NULL;
	for (size_t i = 0; t->ancestors != NULL && t->ancestors[i] != 0; i++) {
		const struct source_table *above = find_table(all, t->ancestors[i]);
		if (above == NULL || above->refusal != NULL) continue;
		if (find_sent(p, above->oid) >= 0 || (may_add(p) && p->via_root)) top = above;
	}
	return top;
}

static char *refuse_part_of(struct pgconn *c, const struct source_table *t, uint32_t above, struct err *err)
{
	char *sql =
		text_format("SELECT pg_catalog.format('%%I.%%I', n.nspname, c.relname) FROM pg_catalog.pg_class c"
					" JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = %u",
					above);
	char *name = NULL, *out = NULL;
	if (catalog_ask_text(c, sql, &name, err))
		out = text_format("%s is published as a part of %s: name %s in its place", t->display,
						  name != NULL ? name : "another table", name != NULL ? name : "that");
	free(name);
	free(sql);
	return out;
}

/* Below one that is sent as a whole, a table is a part of that, whether we want it or not. */
static bool settle_part(struct pgconn *c, const struct publications *p, const struct source_tables *all,
						struct source_table *t, struct err *err)
{
	uint32_t sent = sent_above(p, t);
	const struct source_table *above = sent != 0 ? find_table(all, sent) : ours_above(p, all, t);
	if (above != NULL && above->refusal == NULL) {
		free(t->refusal);
		t->refusal = NULL;
		t->covered = true;
	} else if (sent != 0 && t->refusal == NULL) {
		t->refusal = refuse_part_of(c, t, sent, err);
		return t->refusal != NULL;
	}
	return true;
}

static int count_leaves(const struct source_tables *all, uint32_t oid)
{
	int n = 0;
	for (size_t i = 0; i < all->n; i++) {
		const uint32_t *a = all->v[i].ancestors;
		while (a != NULL && *a != 0 && *a != oid)
			a++;
		n += a != NULL && *a == oid && !all->v[i].partitioned;
	}
	return n;
}

/* Its partitions are sent under their own names: fine, if they are all ours. */
static void settle_parts(const struct publications *p, const struct source_tables *all,
						 struct source_table *t)
{
	if (count_leaves(all, t->oid) == t->leaves && t->leaves > 0) {
		t->covered = true;
		return;
	}
	char *id = publication_identifiers(p->names);
	t->refusal = text_format("%s is published partition by partition: run ALTER PUBLICATION %s SET "
							 "(publish_via_partition_root = true), or name its partitions",
							 t->display, id);
	free(id);
}

static char *refuse_missing(const struct publications *p, const struct source_table *t)
{
	return text_format("%s is in none of the publications %s: run ALTER PUBLICATION ... ADD TABLE %s",
					   t->display, p->names, t->from_sql);
}

/* ---- rows and columns ---- */

static void add_filter(struct source_table *t, const char *filter)
{
	char *both =
		t->filter_sql == NULL ? text_format("%s", filter) : text_format("%s OR %s", t->filter_sql, filter);
	free(t->filter_sql);
	t->filter_sql = both;
}

/* Any publication without a filter sends all rows. */
static void take_filters(const struct publications *p, struct source_table *t, int first, int end)
{
	for (int row = first; row < end; row++)
		if (PQgetisnull(p->sent, row, 2)) return;
	for (int row = first; row < end; row++)
		add_filter(t, PQgetvalue(p->sent, row, 2));
}

static bool same_columns(const struct publications *p, int first, int end)
{
	for (int row = first + 1; row < end; row++)
		if (strcmp(PQgetvalue(p->sent, row, 1), PQgetvalue(p->sent, first, 1)) != 0) return false;
	return true;
}

/*
 * A publication that has only some kinds of change filters only those. That makes no difference where another
 * sends all rows with every kind.
 */
static bool filters_some_kinds(const struct publications *p, int first, int end)
{
	bool filtered = false, some = false;
	for (int row = first; row < end; row++) {
		bool complete = get_bool(p->sent, row, 3), all_rows = PQgetisnull(p->sent, row, 2);
		if (complete && all_rows) return false;
		filtered |= !all_rows;
		some |= !complete;
	}
	return filtered && some;
}

/* What it would have to imitate but cannot. */
static char *refuse_sent(const struct publications *p, const struct source_table *t, int first, int end)
{
	if (!same_columns(p, first, end))
		return text_format(
			"%s is published with other columns in one publication than in another, which the server "
			"will not decode: give it the same column list in all of %s",
			t->display, p->names);
	if (!get_bool(p->sent, first, 4) || filters_some_kinds(p, first, end))
		return text_format(
			"%s is published without some kinds of change, so the copy could not be exact: run ALTER "
			"PUBLICATION %s SET (publish = 'insert, update, delete, truncate')",
			t->display, p->incomplete != NULL ? p->incomplete : p->names);
	return NULL;
}

static bool settle_sent(struct pgconn *c, const struct publications *p, struct source_table *t, int first,
						struct err *err)
{
	struct published_columns columns = {.names = NULL, .generated = p->generated};
	int end = first;
	while (end < PQntuples(p->sent) && sent_oid(p, end) == t->oid)
		end++;
	take_filters(p, t, first, end);
	t->refusal = refuse_sent(p, t, first, end);
	if (t->refusal != NULL) return true;
	if (!PQgetisnull(p->sent, first, 1)) {
		columns.names = PQgetvalue(p->sent, first, 1);
		/* Before 18 the view has generated columns that the stream lacks. */
		columns.generated = PQserverVersion(pgconn_pg(c)) >= 180000;
	}
	return catalog_read_columns(c, t, &columns, err);
}

static bool settle_table(struct pgconn *c, const struct publications *p, const struct source_tables *all,
						 struct source_table *t, bool *missing, struct err *err)
{
	if (t->covered) return true;
	if (!catalog_read_key(c, t, err)) return false;
	if (t->refusal != NULL) return true;
	int row = find_sent(p, t->oid);
	*missing = row < 0;
	if (row >= 0) return settle_sent(c, p, t, row, err);
	if (t->partitioned && !p->via_root)
		settle_parts(p, all, t);
	else if (!may_add(p))
		t->refusal = refuse_missing(p, t);
	else
		return catalog_read_columns(c, t, &(struct published_columns){.generated = p->generated}, err);
	return true;
}

static bool check_publications(const struct publications *p, struct err *err)
{
	if (p->listed > 1 && p->existing < p->listed)
		return err_set(
			err, ERR_CONFIG,
			"of the publications %s only %zu exist: run CREATE PUBLICATION for the others, or name fewer",
			p->names, p->existing);
	if (p->listed == 1 && !p->complete)
		return err_set(err, ERR_CONFIG,
					   "publication %s leaves out some kinds of change, so the copy could not be exact: run "
					   "ALTER PUBLICATION ... SET (publish = 'insert, update, delete, truncate')",
					   p->incomplete);
	return true;
}

bool publications_settle(struct pgconn *c, const struct publications *p, struct source_tables *t,
						 bool *missing, struct err *err)
{
	if (!check_publications(p, err)) return false;
	for (size_t i = 0; i < t->n; i++)
		if (t->v[i].ancestors != NULL && !settle_part(c, p, t, &t->v[i], err)) return false;
	for (size_t i = 0; i < t->n; i++)
		if (!settle_table(c, p, t, &t->v[i], &missing[i], err)) return false;
	return true;
}

/* ---- changing it ---- */

static bool run_ddl(struct pgconn *c, const char *sql, struct err *err)
{
	PGresult *r = NULL;
	if (!pgconn_query(c, sql, 0, NULL, &r, err)) return err_wrap(err, "%.200s", sql);
	PQclear(r);
	return true;
}

static bool create(struct pgconn *c, const char *id, const struct source_tables *t, struct err *err)
{
	struct buf sql = {0};
	const char *before = " FOR TABLE ";
	put_text(&sql, "CREATE PUBLICATION ");
	put_text(&sql, id);
	for (size_t i = 0; i < t->n; i++) {
		if (!source_table_is_used(&t->v[i])) continue;
		put_text(&sql, before);
		put_text(&sql, t->v[i].from_sql);
		before = ", ";
	}
	put_text(&sql, " WITH (publish = 'insert, update, delete, truncate', publish_via_partition_root = true)");
	buf_put_u8(&sql, 0);
	bool good = run_ddl(c, (const char *)sql.p, err);
	buf_finish(&sql);
	return good;
}

static bool add_missing(struct pgconn *c, const char *id, const struct source_tables *t, const bool *missing,
						struct err *err)
{
	bool good = true;
	for (size_t i = 0; good && i < t->n; i++) {
		if (!missing[i] || !source_table_is_used(&t->v[i])) continue;
		char *sql = text_format("ALTER PUBLICATION %s ADD TABLE %s", id, t->v[i].from_sql);
		good = run_ddl(c, sql, err);
		free(sql);
	}
	return good;
}

/* A table that was left would only be streamed for nothing. */
static bool drop_one(struct pgconn *c, const char *array, const char *id, uint32_t oid, struct err *err)
{
	static const char ask[] =
		"SELECT pg_catalog.format('%I.%I', n.nspname, c.relname) FROM pg_catalog.pg_publication_rel r"
		" JOIN pg_catalog.pg_publication p ON p.oid = r.prpubid JOIN pg_catalog.pg_class c ON c.oid = "
		"r.prrelid"
		" JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
		" WHERE p.pubname = ANY ($1::pg_catalog.text[]) AND c.oid = $2::oid";
	char text[16];
	const char *params[] = {array, text};
	PGresult *r = NULL;
	snprintf(text, sizeof text, "%u", oid);
	if (!catalog_ask(c, ask, 2, params, 1, 0, &r, err)) return false;
	bool good = true;
	if (PQntuples(r) == 1) {
		char *sql = text_format("ALTER PUBLICATION %s DROP TABLE %s", id, PQgetvalue(r, 0, 0));
		good = run_ddl(c, sql, err);
		free(sql);
	}
	PQclear(r);
	return good;
}

bool publications_ensure(struct pgconn *c, const struct publications *p, const struct source_tables *t,
						 const bool *missing, const uint32_t *drop_oids, size_t ndrop, struct err *err)
{
	if (p->listed != 1) return true;
	char *id = publication_identifiers(p->names), *array = publication_array(p->names);
	bool good = p->existing == 0 ? create(c, id, t, err) : add_missing(c, id, t, missing, err);
	for (size_t i = 0; good && p->existing > 0 && i < ndrop; i++)
		good = drop_one(c, array, id, drop_oids[i], err);
	free(array);
	free(id);
	return good;
}
