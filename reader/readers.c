#include "reader/readers.h"

#include "reader/log.h"

enum {
	LOOK_EVERY_US = 60000000,
	LAG_COMMITS = 10000, /* many small commits ... */
	LAG_MIB = 64         /* ... or few large ones */
};

static void free_slots(struct store *s)
{
	int freed = store_reap_readers(s);
	if (freed > 0) log_info("freed the slots of readers that died", KV_I("readers", freed), KV_END);
}

void readers_begin(struct readers *r, struct store *s, int64_t now_us)
{
	*r = (struct readers){.looked_us = now_us};
	free_slots(s);
}

static uint64_t unused_bytes(const struct store_info *info)
{
	return info->file_bytes > info->used_bytes ? info->file_bytes - info->used_bytes : 0;
}

/* A file grows by new rows too: then its unused part does not. */
static bool grows_by_waste(const struct readers *r, const struct store_info *info)
{
	uint64_t grown = info->file_bytes > r->file_bytes ? info->file_bytes - r->file_bytes : 0;
	uint64_t unused = unused_bytes(info);
	uint64_t wasted = unused > r->unused_bytes ? unused - r->unused_bytes : 0;
	return grown >= (uint64_t)LAG_MIB << 20 && wasted >= grown / 2;
}

static void take_oldest(struct readers *r, const struct store_info *info)
{
	uint64_t txn = info->oldest_reader_pid != 0 ? info->last_txn - info->oldest_reader_lag : 0;
	if (txn == r->oldest_txn) return;
	r->oldest_txn = txn;
	r->file_bytes = info->file_bytes;
	r->unused_bytes = unused_bytes(info);
}

static void warn(const struct store_info *info)
{
	log_warn("a reader stays on an old state, so the store grows: let it begin a new transaction, or stop it",
			 KV_I("pid", info->oldest_reader_pid), KV_U("commits_behind", info->oldest_reader_lag),
			 KV_U("file_bytes", info->file_bytes), KV_U("unused_bytes", unused_bytes(info)), KV_END);
}

void readers_watch(struct readers *r, struct store *s, int64_t now_us)
{
	struct store_info info;
	struct err ignored;
	if (now_us - r->looked_us < LOOK_EVERY_US) return;
	r->looked_us = now_us;
	free_slots(s);
	if (!store_info(s, &info, &ignored)) return;
	take_oldest(r, &info);
	bool lags = r->oldest_txn != 0 && (info.oldest_reader_lag > LAG_COMMITS || grows_by_waste(r, &info));
	/* Seen twice: a large commit that is being written looks like waste. */
	if (lags && r->lagged && !r->warned) warn(&info);
	r->warned = lags && (r->lagged || r->warned);
	r->lagged = lags;
}
