/*
 * reader/runview.h - how runs are shown: a line of text, or a JSON object.
 * Shared by status and `snapshot list`.
 */
#ifndef READER_RUNVIEW_H
#define READER_RUNVIEW_H

#include "reader/json.h"
#include "state/tidemark.h"

/* t: the run's table, NULL when the store no longer has it. */
void runview_put(const tidemark_run_info *r, const tidemark_table_info *t, int64_t now_us, struct buf *out);
/* An object that is an element of an array, or stands alone. */
void runview_json(const tidemark_run_info *r, const tidemark_table_info *t, struct json *j);

bool run_info_is_open(const tidemark_run_info *r);

#endif
