/*
 * exact_words.h — operands of 32 bits for rows of instructions: edge values against each other, and
 * random ones of random lengths.
 */
#pragma once

#include "tests/exact.h"

enum { EDGES = 64, ROUNDS = 4 };

/* What a row gives, of its operands u, v and w, as signed numbers s, t and r. */
#define EXPECT(name, expression)                                                                   \
    static uint64_t name(uint64_t a, uint64_t b, uint64_t c)                                       \
    {                                                                                              \
        uint64_t u = (uint32_t)a;                                                                  \
        uint64_t v = (uint32_t)b;                                                                  \
        uint64_t w = (uint32_t)c;                                                                  \
        int64_t s = (int32_t)a;                                                                    \
        int64_t t = (int32_t)b;                                                                    \
        int64_t r = (int32_t)c;                                                                    \
        (void)u;                                                                                   \
        (void)v;                                                                                   \
        (void)w;                                                                                   \
        (void)s;                                                                                   \
        (void)t;                                                                                   \
        (void)r;                                                                                   \
        return (uint64_t)(expression);                                                             \
    }

/* Values where something changes, and their neighbours. */
static inline uint32_t edge(uint32_t index)
{
    static const uint32_t centres[EDGES / 4] = {
        1,      5,      9,        15,       31,         64,         127,        255,
        0x7fff, 0xffff, 0x7fffff, 0xffffff, 0x7fffffff, 0x80000001, 0xffff8000, 0xfffffffd};

    return centres[index / 4] + index % 4 - 1;
}

static inline void check_rows(const struct exact_row *rows, int count)
{
    static const int bytes[BATCH_SOURCES] = {4, 4, 4};
    uint32_t random_count = batch_count(BATCH_ELEMENTS * 2, BATCH_ELEMENTS * 32);
    uint64_t random = 88172645463325252u;
    struct batch batch;

    exact_open(&batch, rows, count, bytes);
    uint32_t *a = batch.sources[0];
    uint32_t *b = batch.sources[1];
    uint32_t *c = batch.sources[2];
    for (uint32_t i = 0; i < EDGES * EDGES * ROUNDS; i++) {
        uint32_t pair = i % (EDGES * EDGES);
        a[i] = edge(pair / EDGES);
        b[i] = edge(pair % EDGES);
        c[i] = edge((pair * 7 + pair / EDGES * 5 + i / (EDGES * EDGES) * 23) % EDGES);
    }
    exact_check(&batch, rows, count, bytes, EDGES * EDGES * ROUNDS);
    for (uint32_t done = 0; done < random_count; done += BATCH_ELEMENTS) {
        for (uint32_t i = 0; i < BATCH_ELEMENTS; i++) {
            uint64_t lengths = batch_random(&random);
            a[i] = (uint32_t)batch_random(&random) >> (lengths & 31 & -(lengths >> 20 & 1));
            b[i] = (uint32_t)batch_random(&random) >> (lengths >> 5 & 31 & -(lengths >> 21 & 1));
            c[i] = (uint32_t)batch_random(&random) >> (lengths >> 10 & 31 & -(lengths >> 22 & 1));
        }
        exact_check(&batch, rows, count, bytes, BATCH_ELEMENTS);
    }
    batch_close(&batch);
}
