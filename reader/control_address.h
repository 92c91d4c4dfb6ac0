/*
 * reader/control_address.h - the address of a store's control.sock. A path
 * that is too long for sun_path is reached through the open directory.
 */
#ifndef READER_CONTROL_ADDRESS_H
#define READER_CONTROL_ADDRESS_H

#include <sys/un.h>

#include "state/err.h"

struct control_address {
	struct sockaddr_un un;
	int dir_fd; /* has to stay open while the address is used */
};

bool control_address_open(const char *dir, struct control_address *out, struct err *err);
void control_address_close(struct control_address *a);

#endif
