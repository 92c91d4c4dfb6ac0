#include "state/sha256.h"

#include <string.h>

#define BLOCK 64

/* First 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t k[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
	0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
	0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
	0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
	0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotr(uint32_t x, unsigned n)
{
	return x >> n | x << (32 - n);
}

static void schedule(uint32_t w[64], const uint8_t block[BLOCK])
{
	for (int i = 0; i < 16; i++)
		w[i] = be32_get(block + 4 * i);
	for (int i = 16; i < 64; i++) {
		uint32_t s0 = rotr(w[i - 15], 7) ^ rotr(w[i - 15], 18) ^ w[i - 15] >> 3;
		uint32_t s1 = rotr(w[i - 2], 17) ^ rotr(w[i - 2], 19) ^ w[i - 2] >> 10;

		w[i] = w[i - 16] + s0 + w[i - 7] + s1;
	}
}

static void compress(uint32_t h[8], const uint8_t block[BLOCK])
{
	uint32_t w[64], v[8]; /* v: a b c d e f g h of the standard */

	schedule(w, block);
	memcpy(v, h, sizeof v);
	for (int i = 0; i < 64; i++) {
		uint32_t s1 = rotr(v[4], 6) ^ rotr(v[4], 11) ^ rotr(v[4], 25);
		uint32_t choice = (v[4] & v[5]) ^ (~v[4] & v[6]);
		uint32_t t1 = v[7] + s1 + choice + k[i] + w[i];
		uint32_t s0 = rotr(v[0], 2) ^ rotr(v[0], 13) ^ rotr(v[0], 22);
		uint32_t majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);

		memmove(v + 1, v, 7 * sizeof *v);
		v[4] += t1;
		v[0] = t1 + s0 + majority;
	}
	for (int i = 0; i < 8; i++)
		h[i] += v[i];
}

/* The last bytes, one bit, zeroes, the length in bits: one block, or two when they do not fit. */
static void finish(uint32_t h[8], const uint8_t *rest, size_t nrest, uint64_t total)
{
	uint8_t tail[2 * BLOCK] = {0};
	size_t n = nrest < BLOCK - 8 ? BLOCK : 2 * BLOCK;

	if (nrest > 0) memcpy(tail, rest, nrest);
	tail[nrest] = 0x80;
	be64_put(tail + n - 8, total * 8);
	for (size_t i = 0; i < n; i += BLOCK)
		compress(h, tail + i);
}

void sha256(struct slice bytes, uint8_t out[SHA256_SIZE])
{
	uint32_t h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
					 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
	size_t whole = bytes.n - bytes.n % BLOCK;

	for (size_t i = 0; i < whole; i += BLOCK)
		compress(h, bytes.p + i);
	finish(h, whole < bytes.n ? bytes.p + whole : NULL, bytes.n - whole, bytes.n);
	for (int i = 0; i < 8; i++)
		be32_put(out + 4 * i, h[i]);
}
