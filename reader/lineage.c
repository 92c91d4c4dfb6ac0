#include "reader/lineage.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static bool check_cluster(const struct lineage *ours, const struct server_state *s, struct err *err)
{
	if (ours->system_id == s->system_id) return true;
	return err_set(err, ERR_GAP,
				   "this is another database cluster (system identifier %" PRIu64
				   ", the store was made from %" PRIu64
				   "): correct --source, or use another --store directory for it",
				   s->system_id, ours->system_id);
}

/* Where `timeline` was left for the next one, from lines of "tli\tswitchpoint\treason". */
static bool find_switch(const char *history, uint32_t timeline, lsn_t *out)
{
	for (const char *line = history; line != NULL && *line != '\0';) {
		char *end = NULL, at[LSN_TEXT_SIZE];
		unsigned long tli = strtoul(line, &end, 10);
		size_t n = strcspn(end + (*end == '\t'), "\t\r\n");
		if (end != line && *end == '\t' && tli == timeline && n < sizeof at) {
			memcpy(at, end + 1, n);
			at[n] = '\0';
			return lsn_parse(at, out);
		}
		line = strchr(line, '\n');
		line = line != NULL ? line + 1 : NULL;
	}
	return false;
}

static bool check_timeline(const struct lineage *ours, const struct checkpoint *ck,
						   const struct server_state *s, struct err *err)
{
	lsn_t left;
	char a[LSN_TEXT_SIZE], b[LSN_TEXT_SIZE];
	if (s->timeline == ours->timeline) return true;
	if (s->timeline < ours->timeline)
		return err_set(
			err, ERR_GAP,
			"the server is on timeline %u, behind timeline %u that the store has followed: it was restored "
			"to "
			"an earlier state, or is an old primary; connect to the current one, or " LINEAGE_START_OVER,
			s->timeline, ours->timeline, s->slot);
	if (s->history == NULL || !find_switch(s->history, ours->timeline, &left))
		return err_set(
			err, ERR_GAP,
			"the server's timeline %u does not descend from timeline %u that the store has followed: "
			"connect to the right server, or " LINEAGE_START_OVER,
			s->timeline, ours->timeline, s->slot);
	if (left.v < ck->lsn.v)
		return err_set(err, ERR_GAP,
					   "the server was promoted at %s, but the store holds changes up to %s that it never "
					   "had: " LINEAGE_START_OVER,
					   lsn_format(left, a), lsn_format(ck->lsn, b), s->slot);
	return true;
}

static bool check_slot(const struct checkpoint *ck, const struct server_state *s, struct err *err)
{
	char a[LSN_TEXT_SIZE], b[LSN_TEXT_SIZE];
	const struct slot_state *slot = &s->slot_state;
	if (!slot->exists)
		return err_set(
			err, ERR_GAP,
			"slot %s does not exist any more, so the changes since %s cannot be had: " LINEAGE_START_OVER,
			s->slot, lsn_format(ck->lsn, a), s->slot);
	if (slot->lost)
		return err_set(
			err, ERR_GAP,
			"slot %s was invalidated (%s), so the changes since %s cannot be had: " LINEAGE_START_OVER,
			s->slot, slot->why_lost, lsn_format(ck->lsn, a), s->slot);
	if (slot->confirmed_flush.v > ck->lsn.v)
		return err_set(err, ERR_GAP,
					   "slot %s stands at %s, ahead of this store's checkpoint %s: the slot was recreated or "
					   "advanced by somebody else, "
					   "or this store is an old copy; " LINEAGE_START_OVER,
					   s->slot, lsn_format(slot->confirmed_flush, a), lsn_format(ck->lsn, b), s->slot);
	return true;
}

static bool check_position(const struct checkpoint *ck, const struct server_state *s, struct err *err)
{
	char a[LSN_TEXT_SIZE], b[LSN_TEXT_SIZE];
	if (ck->lsn.v <= s->position.v) return true;
	return err_set(err, ERR_GAP,
				   "the server's log ends at %s, before this store's checkpoint %s: it was restored to an "
				   "earlier state; " LINEAGE_START_OVER,
				   lsn_format(s->position, a), lsn_format(ck->lsn, b), s->slot);
}

bool lineage_gate(const struct lineage *ours, const struct checkpoint *checkpoint,
				  const struct server_state *server, struct err *err)
{
	return check_cluster(ours, server, err) && check_timeline(ours, checkpoint, server, err) &&
		   check_slot(checkpoint, server, err) && check_position(checkpoint, server, err);
}
