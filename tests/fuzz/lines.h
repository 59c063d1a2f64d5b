/*
 * lines.h — changes a text by its lines and words, so that more of what libFuzzer tries still
 * parses than by bytes.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Changes the text in place, to at most `max_bytes`; the new size. */
size_t lines_mutate(uint8_t *data, size_t size_bytes, size_t max_bytes, unsigned seed);
