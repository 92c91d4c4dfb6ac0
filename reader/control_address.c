#include "reader/control_address.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "reader/control.h"

bool control_address_open(const char *dir, struct control_address *out, struct err *err)
{
	*out = (struct control_address){.un = {.sun_family = AF_UNIX}};
	out->dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (out->dir_fd < 0)
		return err_set(err, ERR_CONFIG, "cannot open the directory %s: %s", dir, strerror(errno));
	size_t size = sizeof out->un.sun_path;
	if ((size_t)snprintf(out->un.sun_path, size, "%s/" CONTROL_NAME, dir) >= size)
		snprintf(out->un.sun_path, size, "/proc/self/fd/%d/" CONTROL_NAME, out->dir_fd);
	return true;
}

void control_address_close(struct control_address *a)
{
	close(a->dir_fd);
}

bool control_connect(const char *dir, int *out, struct err *err)
{
	struct control_address a;
	if (!control_address_open(dir, &a, err)) return false;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool good = fd >= 0 && connect(fd, (const struct sockaddr *)&a.un, sizeof a.un) == 0;
	int why = errno;
	control_address_close(&a);
	*out = fd;
	if (good) return true;
	if (fd >= 0) close(fd);
	bool nobody = why == ENOENT || why == ECONNREFUSED;
	return err_set(err, nobody ? ERR_RETRY : ERR_CONFIG, "cannot connect to %s/" CONTROL_NAME ": %s", dir,
				   strerror(why));
}
