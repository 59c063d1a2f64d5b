/*
 * calibrate.c — a loop of a fixed make, by whose speed figures of different machines are compared.
 *
 * Each iteration waits for the last: a 32-bit multiply and add, a load from a table of 4 KiB that
 * its result chooses, and a single-precision multiply and add. Compiled with -O2 for any x86-64.
 */
#include "tests/bench/calibrate.h"

enum { WORDS = 1024 };

float calibrate(uint64_t iterations)
{
    static uint32_t table[WORDS];
    uint32_t x = 1;
    float y = 0;

    for (uint32_t i = 0; i < WORDS; i++) {
        table[i] = i * 2654435761u;
    }
    for (uint64_t i = 0; i < iterations; i++) {
        x = x * 1664525 + 1013904223;
        x ^= table[x >> 22];
        y = y * 0.5f + (float)(x & 0xff);
    }
    return y;
}
