#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "state/sha256.h"

static const char *hex(struct slice bytes)
{
	static char text[2 * SHA256_SIZE + 1];
	uint8_t digest[SHA256_SIZE];

	sha256(bytes, digest);
	for (size_t i = 0; i < SHA256_SIZE; i++)
		snprintf(text + 2 * i, 3, "%02x", digest[i]);
	return text;
}

static void fips_examples(void **state)
{
	(void)state;
	assert_string_equal(hex(slice_of("abc")),
						"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	assert_string_equal(hex(slice_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
						"248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
	assert_string_equal(hex(slice_of("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
									 "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu")),
						"cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
}

static void nothing_and_a_million(void **state)
{
	uint8_t *a = malloc(1000000);

	(void)state;
	assert_string_equal(hex((struct slice){NULL, 0}),
						"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	memset(a, 'a', 1000000);
	assert_string_equal(hex((struct slice){a, 1000000}),
						"cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
	free(a);
}

/* Every way to fill the last block: the digest of the digests of 0 to 255 times 'x', by another
 * implementation. */
static void every_length_of_the_last_block(void **state)
{
	uint8_t x[256], digests[256][SHA256_SIZE];

	(void)state;
	memset(x, 'x', sizeof x);
	for (size_t n = 0; n < 256; n++)
		sha256((struct slice){x, n}, digests[n]);
	assert_string_equal(hex((struct slice){digests[0], sizeof digests}),
						"891ac44a4ef331e4d0ddd436a4b97f70ed325e31b35c6de72bfe42890b7eefa3");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fips_examples),
		cmocka_unit_test(nothing_and_a_million),
		cmocka_unit_test(every_length_of_the_last_block),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
