#include <stdlib.h>
#include <string.h>

#include "reader/chunk_lines.h"
#include "reader/command.h"
#include "reader/conninfo.h"
#include "reader/desk.h"
#include "reader/lineage.h"
#include "reader/log.h"
#include "reader/publication.h"
#include "reader/session.h"

enum {
	BACKOFF_FIRST_MS = 100,
	BACKOFF_MAX_MS = 5000,
	BACKOFF_WORTH = 10, /* a session that lasted so many times the next pause begins anew */
	STUCK_TIMES = 3
};

static const struct option_spec options[] = {
	{.name = "source",
	 .type = OPTION_STRING,
	 .value = "CONNINFO",
	 .required = true,
	 .help = "The PostgreSQL database: a libpq connection string or URI. Service and password files and PG* "
			 "variables work."},
	{.name = "store",
	 .type = OPTION_STRING,
	 .value = "DIR",
	 .required = true,
	 .help = "Directory of the store; created when absent."},
	{.name = "tables",
	 .type = OPTION_STRING,
	 .value = "PATTERN,...",
	 .initial = "*.*",
	 .help = "Tables to replicate: schema.table with * and ?, comma separated."},
	{.name = "slot",
	 .type = OPTION_STRING,
	 .value = "NAME",
	 .initial = "tidemark",
	 .help = "Replication slot; created when absent."},
	{.name = "publication",
	 .type = OPTION_STRING,
	 .value = "NAME,...",
	 .initial = "tidemark",
	 .help = "Publication; created when absent, tables are added to it. Several have to have all tables "
			 "already."},
	{.name = "snapshot",
	 .type = OPTION_CHOICE,
	 .value = "initial|never|always|only",
	 .initial = "initial",
	 .help = "Copy rows that exist already: of new tables; never; of all tables at every start; or as "
			 "initial, and exit when that is done."},
	{.name = "until",
	 .type = OPTION_STRING,
	 .value = "caught-up|LSN",
	 .help = "Exit 0 once everything is live and as new as the source was then, or at that position."},
	{.name = "retry-for",
	 .type = OPTION_INT,
	 .value = "S",
	 .min = 0,
	 .max = 1000000000,
	 .help = "Give up after S seconds without a working connection; default: never."},
	{.name = "receive-timeout",
	 .type = OPTION_INT,
	 .value = "S",
	 .initial = "60",
	 .min = 1,
	 .max = 3600,
	 .help = "Give a connection up when the server owes an answer and has been silent for S seconds."},
	{.name = "chunk-rows",
	 .type = OPTION_INT,
	 .value = "MAX",
	 .initial = "20000",
	 .min = 1,
	 .max = 1000000,
	 .help = "Most rows of a chunk."},
	{.name = "chunk-time",
	 .type = OPTION_INT,
	 .value = "MS",
	 .initial = "100",
	 .min = 1,
	 .max = 60000,
	 .help = "Time on the server that a chunk aims at; a fiftieth of it while the source has changes of its "
			 "own."},
	{.name = "signals",
	 .type = OPTION_CHOICE,
	 .value = "message|off",
	 .initial = "message",
	 .help =
		 "Whether logical messages of the source, pg_logical_emit_message(true, 'tidemark', ...), may ask "
		 "for snapshots."},
	{.name = "signal-table",
	 .type = OPTION_STRING,
	 .value = "TABLE",
	 .help =
		 "Rows inserted into this table (id, type, data) may ask for snapshots; it is replicated as well. "
		 "Default: none."},
	{.name = "snapshot-connections",
	 .type = OPTION_INT,
	 .value = "N",
	 .initial = "1",
	 .min = 1,
	 .max = CHUNK_LINES_MAX + 1,
	 .help = "Connections that chunks are read on, at most: more than one when several tables are copied."},
	{.name = "marker-retention",
	 .type = OPTION_INT,
	 .value = "S",
	 .initial = "3600",
	 .min = 0,
	 .max = 1000000000,
	 .help = "Keep delete markers for S seconds at least."},
	{.name = "memory",
	 .type = OPTION_INT,
	 .value = "MIB",
	 .initial = "64",
	 .min = 16,
	 .max = 1048576,
	 .help = "Bound of what buffers, queue and dirty pages may take."},
	{.name = "on-schema-change",
	 .type = OPTION_CHOICE,
	 .value = "backfill|continue|stop",
	 .initial = "backfill",
	 .help = "After ALTER TABLE: read rows again that may read differently now; leave them as they are until "
			 "the source writes them; or exit 2."},
	{.name = "skip-unsupported",
	 .type = OPTION_FLAG,
	 .help = "Leave out tables that cannot be replicated instead of refusing to start."},
	{.name = "log-format",
	 .type = OPTION_CHOICE,
	 .value = "text|json",
	 .initial = "text",
	 .help = "Form of log lines on stderr."},
	OPTION_CONFIG,
	{.name = NULL},
};

static bool parse_until(const char *text, struct session_config *c, struct err *err)
{
	c->until = text == NULL ? UNTIL_NEVER : UNTIL_CAUGHT_UP;
	if (text == NULL || strcmp(text, "caught-up") == 0) return true;
	c->until = UNTIL_LSN;
	return lsn_parse(text, &c->until_lsn) ||
		   err_set(err, ERR_CONFIG, "--until: %s is neither caught-up nor a position like 0/16B3748", text);
}

static enum snapshot_mode snapshot_mode(const char *word)
{
	static const char *const words[] = {[SNAPSHOT_INITIAL] = "initial",
										[SNAPSHOT_NEVER] = "never",
										[SNAPSHOT_ALWAYS] = "always",
										[SNAPSHOT_ONLY] = "only"};
	enum snapshot_mode m = SNAPSHOT_INITIAL;
	while (strcmp(words[m], word) != 0)
		m++;
	return m;
}

static enum on_schema_change on_schema_change(const char *word)
{
	return strcmp(word, "stop") == 0       ? ON_CHANGE_STOP
		   : strcmp(word, "continue") == 0 ? ON_CHANGE_CONTINUE
										   : ON_CHANGE_BACKFILL;
}

/* Slot names have their own rule on the server; check it before anything is created there. */
static bool check_slot_name(const char *slot, struct err *err)
{
	if (slot[0] != '\0' && strlen(slot) < 64 &&
		slot[strspn(slot, "abcdefghijklmnopqrstuvwxyz0123456789_")] == '\0')
		return true;
	return err_set(err, ERR_CONFIG,
				   "--slot: %s is not a slot name: 1 to 63 lower-case letters, digits and underscores", slot);
}

/* What the configuration owns. */
struct words {
	struct name_patterns *patterns;
	struct table_name signal_table;
	char *display;
};

static void free_words(struct words *w)
{
	names_free_patterns(w->patterns);
	names_finish(&w->signal_table);
	free(w->display);
}

/* The signal table is one of the tables. */
static bool parse_tables(const struct options *o, struct session_config *c, struct words *w, struct err *err)
{
	const char *table = options_string(o, "signal-table"), *tables = options_string(o, "tables");
	struct buf all = {0};
	if (table != NULL && !names_parse(table, &w->signal_table, err)) return err_wrap(err, "--signal-table");
	buf_put(&all, tables, strlen(tables));
	if (table != NULL) {
		c->signal_table = &w->signal_table;
		buf_put_u8(&all, ',');
		names_put(&all, w->signal_table.schema_name, w->signal_table.table_name);
	}
	buf_put_u8(&all, 0);
	bool good = names_parse_patterns((const char *)all.p, &w->patterns, err) || err_wrap(err, "--tables");
	buf_finish(&all);
	c->attach.tables = w->patterns;
	return good;
}

static bool read_config(const struct options *o, struct session_config *c, struct words *w, struct err *err)
{
	c->attach = (struct attach_config){.source = options_string(o, "source"),
									   .slot = options_string(o, "slot"),
									   .publication = options_string(o, "publication"),
									   .skip_unsupported = options_flag(o, "skip-unsupported")};
	c->snapshot = snapshot_mode(options_string(o, "snapshot"));
	c->attach.on_schema_change = on_schema_change(options_string(o, "on-schema-change"));
	c->attach.silence_ms = (int)options_int(o, "receive-timeout") * 1000;
	c->chunk_rows_max = (uint32_t)options_int(o, "chunk-rows");
	c->chunk_time_ms = (int)options_int(o, "chunk-time");
	c->message_signals = strcmp(options_string(o, "signals"), "message") == 0;
	c->connections = (int)options_int(o, "snapshot-connections");
	c->marker_retention_us = options_int(o, "marker-retention") * INT64_C(1000000);
	c->memory = (size_t)options_int(o, "memory") << 20;
	log_setup(strcmp(options_string(o, "log-format"), "json") == 0 ? LOG_JSON : LOG_TEXT, LOG_INFO);
	if (options_argc(o) > 0)
		return err_set(err, ERR_CONFIG, "run takes no argument, but %s was given", options_arg(o, 0));
	if (!parse_until(options_string(o, "until"), c, err) || !check_slot_name(c->attach.slot, err) ||
		!publication_check_names(c->attach.publication, err) || !parse_tables(o, c, w, err))
		return false;
	if (c->snapshot == SNAPSHOT_ONLY && c->until == UNTIL_NEVER) c->until = UNTIL_CAUGHT_UP;
	return true;
}

static bool worth_retrying(const struct err *err)
{
	return err->kind == ERR_RETRY || err->kind == ERR_DISK;
}

struct backoff {
	int ms;
	int64_t down_since_us; /* 0: up */
};

/*
 * False: give up, err says so. A session that was soon over (a disk that is still full, a transaction that
 * the server cannot decode) is not worth a new beginning.
 */
static bool back_off(struct loop *l, struct backoff *b, int64_t streamed_us, long limit_s, bool limited,
					 struct err *err)
{
	int64_t now_us = loop_now_us();
	if (streamed_us > b->ms * INT64_C(1000) * BACKOFF_WORTH || b->down_since_us == 0) {
		b->ms = BACKOFF_FIRST_MS;
		b->down_since_us = now_us;
	}
	if (limited && now_us - b->down_since_us >= limit_s * INT64_C(1000000)) {
		err_wrap(err, "gave up after %ld s", limit_s);
		err->kind = ERR_PROTOCOL; /* a runtime failure now */
		return false;
	}
	log_warn("will try again", KV_S("reason", err->msg), KV_I("in_ms", b->ms), KV_END);
	bool good = loop_sleep(l, b->ms, err);
	b->ms = b->ms * 2 < BACKOFF_MAX_MS ? b->ms * 2 : BACKOFF_MAX_MS;
	return good;
}

/*
 * A slot can be unable to decode a change ("could not map filenode", or "filenumber": it began while the
 * table was truncated), and will be for ever. It cannot be told from a mishap but by its coming again and
 * again.
 */
struct stuck {
	struct err last;
	int times;
};

static bool is_stuck(struct stuck *s, const struct session_result *result, const char *slot, struct err *err)
{
	bool again = s->times > 0 && strcmp(s->last.msg, err->msg) == 0;
	s->times = !result->undecodable ? 0 : again ? s->times + 1 : 1;
	s->last = *err;
	if (s->times < STUCK_TIMES) return false;
	err_set(err, ERR_GAP,
			"the server cannot decode what slot %s has next, at any attempt (%s), and a new slot is "
			"needed: " LINEAGE_START_OVER,
			slot, err->msg, slot);
	return true;
}

static bool repeat_sessions(struct loop *l, const struct session_config *c, const struct options *o,
							struct attach_memory *memory, struct err *err)
{
	struct backoff b = {.ms = BACKOFF_FIRST_MS};
	struct session_result result;
	struct stuck stuck = {.times = 0};
	struct session_config now = *c;
	int64_t began_us = loop_now_us();
	now.attach.memory = memory;
	while (!session_run(l, &now, &result, err)) {
		if (!worth_retrying(err) || is_stuck(&stuck, &result, c->attach.slot, err)) return false;
		/* What was refused at the start stays refused; a table that comes later must not end what runs. */
		now.attach.skip_unsupported |= result.streamed;
		if (result.reattach) {
			log_info("attaching again", KV_S("reason", err->msg), KV_END);
			continue;
		}
		if (!back_off(l, &b, result.streamed ? loop_now_us() - began_us : 0, options_int(o, "retry-for"),
					  options_is_set(o, "retry-for"), err))
			return false;
		began_us = loop_now_us();
	}
	return true;
}

static bool run_sessions(struct loop *l, const struct session_config *c, const struct options *o,
						 struct err *err)
{
	struct attach_memory memory = {.sql_silence_ms = c->attach.silence_ms};
	bool good = repeat_sessions(l, c, o, &memory, err);
	attach_memory_finish(&memory);
	return good;
}

/* Without its socket the daemon is as good as with it, but for who asks. */
static struct desk *open_desk(struct loop *l, const char *dir, struct requests *requests)
{
	struct desk *desk = NULL;
	struct err err;
	if (!desk_open(l, dir, requests, &desk, &err))
		log_warn("nothing can be asked of this daemon", KV_S("reason", err.msg), KV_END);
	return desk;
}

static bool serve(struct loop *l, struct session_config *c, const struct options *o, struct err *err)
{
	bool good;
	c->requests = requests_create(c->store);
	struct desk *desk = open_desk(l, options_string(o, "store"), c->requests);
	good = run_sessions(l, c, o, err);
	if (good) {
		log_info("done", KV_END);
	} else if (err->kind == ERR_STOPPED) {
		log_info("stopped", KV_END);
		good = true;
	}
	desk_close(desk);
	requests_destroy(c->requests);
	return good;
}

static bool run(const struct options *o, struct err *err)
{
	struct session_config c = {.store = NULL};
	struct words words = {.patterns = NULL};
	struct loop loop;
	bool good = false;
	if (!read_config(o, &c, &words, err) || !conninfo_display(c.attach.source, &words.display, err) ||
		!loop_init(&loop, err))
		goto out;
	c.source_display = words.display;
	if (store_open(options_string(o, "store"), STORE_WRITE, &c.store, err)) {
		log_info("store opened", KV_S("store", options_string(o, "store")), KV_END);
		good = serve(&loop, &c, o, err);
	}
	store_close(c.store);
	loop_finish(&loop);
out:
	free_words(&words);
	return good;
}

const struct command command_run = {
	.name = "run",
	.arguments = "--source CONNINFO --store DIR [options]",
	.summary = "copy tables and keep the copy live",
	.detail = "Creates the publication and the slot when they are absent, copies the rows that exist while "
			  "changes stream, and goes on "
			  "streaming. Ends on SIGINT or SIGTERM with everything durable acknowledged; started again, it "
			  "continues where it was.",
	.options = options,
	.run = run,
};
