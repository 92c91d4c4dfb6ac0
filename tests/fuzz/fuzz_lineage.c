/*
 * The lineage gate, with a timeline history as a server may send it: it opens
 * only for a server of which every promise holds.
 */
#include "reader/lineage.h"
#include "tests/fuzz/fuzz.h"

/* A line that says timeline was left at position or later. */
static bool descends(const char *history, uint32_t timeline, uint64_t position)
{
	for (const char *line = history; line; line = strchr(line, '\n'), line = line ? line + 1 : NULL) {
		unsigned long long tli, high, low;

		if (sscanf(line, "%llu\t%llx/%llx", &tli, &high, &low) != 3 || tli != timeline) continue;
		if ((high << 32 | low) >= position) return true;
	}
	return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = feed_of(data, size);
	uint8_t how = feed_u8(&f);
	struct lineage ours = {0};
	struct checkpoint at = {0};
	struct server_state s = {.slot = "tidemark", .slot_state = {.exists = how & 2, .lost = how & 4}};
	struct err err = {0};
	char *history;

	ours.system_id = feed_u8(&f);
	ours.timeline = feed_u8(&f) % 4;
	at.lsn = LSN(feed_uint(&f, 5));
	s.system_id = how & 1 ? ours.system_id : feed_u8(&f);
	s.timeline = feed_u8(&f) % 4;
	s.position = LSN(feed_uint(&f, 5));
	s.slot_state.confirmed_flush = LSN(feed_uint(&f, 5));
	history = feed_text(&f);
	if (how & 8) s.history = history;
	if (!lineage_gate(&ours, &at, &s, &err)) {
		check_refusal(&err);
		CHECK_THAT(err.kind == ERR_GAP, "%s", err.msg);
	} else {
		CHECK_THAT(s.system_id == ours.system_id, "system");
		CHECK_THAT(s.slot_state.exists && !s.slot_state.lost, "slot");
		CHECK_THAT(s.slot_state.confirmed_flush.v <= at.lsn.v && at.lsn.v <= s.position.v, "positions");
		CHECK_THAT(s.timeline >= ours.timeline, "timeline");
		CHECK_THAT(s.timeline == ours.timeline || (s.history && descends(s.history, ours.timeline, at.lsn.v)),
				   "history");
	}
	free(history);
	return 0;
}
