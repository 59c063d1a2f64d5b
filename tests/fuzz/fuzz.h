/*
 * fuzz.h — one function for each parser of bytes from outside.
 *
 * Each takes any bytes, and comes back without a leak, whatever they say. `make fuzz FUZZ=name`
 * gives fuzz_NAME bytes that libFuzzer makes from a folder of tests/fuzz/corpus; test_fuzz gives it
 * these files alone.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* X(name, folder of its corpus); what takes long is in a folder NAME_slow, for test_fuzz alone */
#define FUZZ_TARGETS(X)                                                                            \
    X(elf, elf)                                                                                    \
    X(exec, ptx)                                                                                   \
    X(fatbin, fatbin)                                                                              \
    X(http, http)                                                                                  \
    X(json, json)                                                                                  \
    X(peers, peers)                                                                                \
    X(ptx, ptx)                                                                                    \
    X(reports, reports)                                                                            \
    X(requests, requests)

#define X(name, corpus) void fuzz_##name(const uint8_t *data, size_t size_bytes);
FUZZ_TARGETS(X)
#undef X
