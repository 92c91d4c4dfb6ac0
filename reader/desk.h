/*
 * reader/desk.h - between control.sock and requests.h: a line is a request,
 * and its outcome is the line that goes back. CONTROL.md. Loop thread.
 */
#ifndef READER_DESK_H
#define READER_DESK_H

#include "reader/control.h"
#include "reader/requests.h"

struct desk;

/* Listens in dir. */
bool desk_open(struct loop *l, const char *dir, struct requests *requests, struct desk **out,
			   struct err *err);
/* Before requests_destroy(); what is under way is not answered any more. Accepts NULL. */
void desk_close(struct desk *d);

#endif
