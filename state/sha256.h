/*
 * state/sha256.h - SHA-256 (FIPS 180-4), for keys too long for LMDB.
 *
 * Pure; any thread.
 */
#ifndef STATE_SHA256_H
#define STATE_SHA256_H

#include "state/bytes.h"

#define SHA256_SIZE 32

void sha256(struct slice bytes, uint8_t out[SHA256_SIZE]);

#endif
