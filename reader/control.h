/*
 * reader/control.h - control.sock in the store's directory: a Unix socket on
 * which lines come in and lines go out. What they say is not known here
 * (desk.h); CONTROL.md has the protocol.
 *
 * A client sends one line at a time: the next is not looked at before the
 * answer to this one has been taken. One that is slow is told so and dropped.
 * Loop thread.
 */
#ifndef READER_CONTROL_H
#define READER_CONTROL_H

#include "reader/loop.h"
#include "state/bytes.h"

#define CONTROL_NAME        "control.sock"
#define CONTROL_CLIENTS_MAX 16
#define CONTROL_SLOW_MS     30000

struct control;
struct control_client;

struct control_events {
	void *ctx;
	/* A line, without its newline; its bytes die on return. Until it is answered, the client stays. */
	void (*line)(void *ctx, struct control_client *c, struct slice line);
};

/* Listens in dir, in whose store nobody else may listen: what a killed daemon left is replaced. */
bool control_open(struct loop *l, const char *dir, const struct control_events *events, struct control **out,
				  struct err *err);
/* Drops the clients, answered or not, and removes the socket. Accepts NULL. */
void control_close(struct control *c);

/* line ends with its newline; it is copied. */
void control_answer(struct control_client *c, struct slice line);
/* "user NAME": who is at the other end. Lives as long as the client. */
const char *control_peer(const struct control_client *c);

/*
 * The other end, for a command: connects to the socket of dir, wherever its
 * path is too long for an address. False: nobody listens there (ERR_RETRY), or it may not be used.
 */
bool control_connect(const char *dir, int *fd, struct err *err);

#endif
