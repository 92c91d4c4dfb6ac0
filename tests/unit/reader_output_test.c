/* Everything arrives in order; a reader that goes away is not a fault, a full disk is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "reader/output.h"

static void *read_all(void *fd)
{
	struct buf *got = calloc(1, sizeof *got);
	uint8_t piece[4096];
	ssize_t n;

	while ((n = read(*(int *)fd, piece, sizeof piece)) > 0)
		buf_put(got, piece, (size_t)n);
	return got;
}

/* More than a pipe holds, through a descriptor that is non-blocking. */
static void test_order(void **state)
{
	const uint32_t count = 300000;
	struct output o;
	struct err err;
	struct buf *got;
	pthread_t reader;
	int fds[2];

	(void)state;
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(fcntl(fds[1], F_SETFL, O_NONBLOCK), 0);
	pthread_create(&reader, NULL, read_all, &fds[0]);
	output_init(&o, fds[1]);
	for (uint32_t i = 0; i < count; i++) {
		buf_put_u32(&o.buf, i);
		assert_true(output_step(&o, &err));
	}
	assert_true(output_flush(&o, &err));
	close(fds[1]);
	pthread_join(reader, (void **)&got);
	assert_int_equal(got->n, count * 4);
	for (uint32_t i = 0; i < count; i++)
		assert_int_equal(be32_get(got->p + 4 * i), i);
	buf_finish(got);
	free(got);
	close(fds[0]);
	output_finish(&o);
}

static void test_reader_gone(void **state)
{
	struct output o;
	struct err err;
	int fds[2];

	(void)state;
	assert_int_equal(pipe(fds), 0);
	close(fds[0]);
	output_init(&o, fds[1]);
	buf_put(&o.buf, "x", 1);
	assert_true(output_flush(&o, &err));
	assert_true(o.closed);
	assert_int_equal(o.buf.n, 0);
	buf_put(&o.buf, "y", 1);
	assert_true(output_flush(&o, &err));
	assert_int_equal(o.buf.n, 0);
	close(fds[1]);
	output_finish(&o);
}

static void test_disk_full(void **state)
{
	struct output o;
	struct err err = {0};
	int fd = open("/dev/full", O_WRONLY);

	(void)state;
	output_init(&o, fd);
	buf_put(&o.buf, "x", 1);
	assert_true(output_step(&o, &err)); /* too little to write yet */
	assert_false(output_flush(&o, &err));
	assert_int_equal(err.kind, ERR_DISK);
	assert_non_null(strstr(err.msg, "No space left"));
	close(fd);
	output_finish(&o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_reader_gone),
		cmocka_unit_test(test_disk_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
