/*
 * exact.h — rows of instructions, each with what the PTX manual says it gives, and their check on
 * the elements of a batch: every bit must be right.
 */
#pragma once

#include "tests/batch.h"

struct exact_row {
    const char *code;
    int bytes; /* of the result */
    uint64_t (*expect)(uint64_t a, uint64_t b, uint64_t c);
};

#define EXACT_ROWS(rows) (rows), (int)(sizeof(rows) / sizeof(*(rows)))

static inline void exact_open(struct batch *batch, const struct exact_row *rows, int count,
                              const int source_bytes[BATCH_SOURCES])
{
    struct batch_operation operations[BATCH_OPERATIONS];

    assert_in_range(count, 1, BATCH_OPERATIONS);
    for (int i = 0; i < count; i++) {
        operations[i] = (struct batch_operation){rows[i].code, rows[i].bytes};
    }
    batch_open(batch, operations, count, source_bytes);
}

static inline uint64_t exact_source(const struct batch *batch, int source, uint32_t index,
                                    int bytes)
{
    return bytes ? batch_element(batch->sources[source], index, bytes) : 0;
}

static inline void exact_row_check(const struct batch *batch, const struct exact_row *row,
                                   int operation, const int source_bytes[BATCH_SOURCES],
                                   uint32_t elements)
{
    uint64_t ones = row->bytes < 8 ? ((uint64_t)1 << (row->bytes * 8)) - 1 : ~(uint64_t)0;

    for (uint32_t i = 0; i < elements; i++) {
        uint64_t a = exact_source(batch, 0, i, source_bytes[0]);
        uint64_t b = exact_source(batch, 1, i, source_bytes[1]);
        uint64_t c = exact_source(batch, 2, i, source_bytes[2]);
        uint64_t wanted = row->expect(a, b, c) & ones;
        uint64_t got = batch_result(batch, operation, i, row->bytes);
        if (got != wanted) {
            fail_msg("%s with %#lx, %#lx, %#lx gave %#lx, not %#lx", row->code, a, b, c, got,
                     wanted);
        }
    }
}

/* Runs the first `elements` of the sources and compares them. */
static inline void exact_check(struct batch *batch, const struct exact_row *rows, int count,
                               const int source_bytes[BATCH_SOURCES], uint32_t elements)
{
    batch_run(batch, elements);
    for (int k = 0; k < count; k++) {
        exact_row_check(batch, &rows[k], k, source_bytes, elements);
    }
}
