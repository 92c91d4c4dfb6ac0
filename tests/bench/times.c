#include "tests/bench/times.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

bool times_open(struct times *t, const char *path, size_t count)
{
	size_t bytes = count * sizeof *t->ns;
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	void *p = MAP_FAILED;

	if (fd >= 0 && (lseek(fd, 0, SEEK_END) >= (off_t)bytes || ftruncate(fd, (off_t)bytes) == 0))
		p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED) perror(path);
	if (fd >= 0) close(fd);
	*t = (struct times){0};
	if (p == MAP_FAILED) return false;
	*t = (struct times){p, count};
	return true;
}

void times_close(struct times *t)
{
	if (t->ns) munmap(t->ns, t->count * sizeof *t->ns);
	*t = (struct times){0};
}

void times_set(struct times *t, size_t number, int64_t ns)
{
	if (number < t->count) __atomic_store_n(&t->ns[number], ns, __ATOMIC_RELEASE);
}

int64_t times_get(const struct times *t, size_t number)
{
	return __atomic_load_n(&t->ns[number], __ATOMIC_ACQUIRE);
}
