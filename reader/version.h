/*
 * reader/version.h - the version, in one place.
 */
#ifndef READER_VERSION_H
#define READER_VERSION_H

#define TIDEMARK_VERSION "0.1.0"

#endif
