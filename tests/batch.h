/*
 * batch.h — several PTX instructions on the same arrays, many elements at a time.
 *
 * batch_open makes one kernel of all operations. Then, again and again: the test fills the sources,
 * batch_run computes, and the results lie where batch_result says, until the next run. An operation
 * writes %d, as wide as its result, from %a, %b and %c; %p and %q are predicates, %x and %y
 * registers of 32 bits, for it to use.
 */
#pragma once

#include "tests/simulation.h"

enum { BATCH_ELEMENTS = 1 << 17, BATCH_OPERATIONS = 64, BATCH_SOURCES = 3, BATCH_TEXT = 1 << 16 };

struct batch_operation {
    const char *code;
    int bytes; /* of an element of the result: 1, 2, 4, 8 */
};

struct batch {
    struct simulation simulation;
    void *sources[BATCH_SOURCES];
    uint8_t *results;
    struct {
        uint64_t result, sources[BATCH_SOURCES];
        uint32_t count;
    } params;
};

static inline const char *batch_type(int bytes)
{
    return bytes == 8 ? "b64" : bytes >= 4 ? "b32" : "b16";
}

static inline int batch_text(char *text, const struct batch_operation *operations, int count,
                             const int source_bytes[BATCH_SOURCES])
{
    static const char names[] = "abc";
    size_t at = 0;

    at += (size_t)snprintf(text, BATCH_TEXT,
                           ".version 8.0\n.target sm_90\n.address_size 64\n"
                           ".visible .entry run(.param .u64 d, .param .u64 a, .param .u64 b,"
                           " .param .u64 c, .param .u32 n)\n{\n.reg .pred %%p, %%q, %%o;\n"
                           ".reg .b32 %%i, %%n, %%t, %%x, %%y; .reg .b64 %%at, %%to;\n"
                           "mov.u32 %%i, %%ctaid.x; mov.u32 %%t, %%tid.x;\n"
                           "mad.lo.u32 %%i, %%i, 256, %%t; ld.param.u32 %%n, [n];\n"
                           "setp.ge.u32 %%o, %%i, %%n; @%%o bra OUT;\n"
                           "ld.param.u64 %%to, [d];\n");
    for (int k = 0; k < BATCH_SOURCES && source_bytes[k]; k++) {
        bool is_byte = source_bytes[k] == 1;
        at += (size_t)snprintf(text + at, BATCH_TEXT - at,
                               ".reg .%s %%%c; ld.param.u64 %%at, [%c];\n"
                               "mad.wide.u32 %%at, %%i, %d, %%at; ld.global.%s %%%c, [%%at];\n",
                               batch_type(source_bytes[k]), names[k], names[k], source_bytes[k],
                               is_byte ? "u8" : batch_type(source_bytes[k]), names[k]);
    }
    for (int k = 0; k < count; k++) {
        int bytes = operations[k].bytes;
        at += (size_t)snprintf(text + at, BATCH_TEXT - at,
                               "{ .reg .%s %%d; mad.wide.u32 %%at, %%i, %d, "
                               "%%to;\n%s\nst.global.%s [%%at+%d], %%d; }\n",
                               batch_type(bytes), bytes, operations[k].code,
                               bytes == 1 ? "u8" : batch_type(bytes), k * BATCH_ELEMENTS * 8);
        assert_true(at < BATCH_TEXT);
    }
    at += (size_t)snprintf(text + at, BATCH_TEXT - at, "OUT: ret;\n}\n");
    return at < BATCH_TEXT ? (int)at : -1;
}

static inline void batch_open(struct batch *batch, const struct batch_operation *operations,
                              int count, const int source_bytes[BATCH_SOURCES])
{
    static char text[BATCH_TEXT];
    struct simulation_options options = {.ranks = 1, .seed = 1, .fuel = (uint64_t)1 << 60};
    uint64_t result_bytes = (uint64_t)count * BATCH_ELEMENTS * 8;

    assert_in_range(count, 1, BATCH_OPERATIONS);
    assert_true(batch_text(text, operations, count, source_bytes) > 0);
    *batch = (struct batch){0};
    simulation_open(&batch->simulation, &options, text);
    batch->params.result =
        simulation_memory(&batch->simulation, 0, result_bytes, (void **)&batch->results);
    for (int k = 0; k < BATCH_SOURCES && source_bytes[k]; k++) {
        batch->params.sources[k] = simulation_memory(
            &batch->simulation, 0, (uint64_t)source_bytes[k] * BATCH_ELEMENTS, &batch->sources[k]);
    }
}

static inline void batch_run(struct batch *batch, uint32_t count)
{
    struct simulation *simulation = &batch->simulation;

    assert_in_range(count, 1, BATCH_ELEMENTS);
    batch->params.count = count;
    simulation_launch(simulation, &(struct simulation_launch){.kernel = "run",
                                                              .ctas = (count + 255) / 256,
                                                              .threads = 256,
                                                              .params = &batch->params});
    simulation_check(simulation);
    grid_release(simulation->grids[0]);
    simulation->grid_count = 0;
}

static inline uint64_t batch_element(const void *array, uint32_t index, int bytes)
{
    switch (bytes) {
    case 1:
        return ((const uint8_t *)array)[index];
    case 2:
        return ((const uint16_t *)array)[index];
    case 4:
        return ((const uint32_t *)array)[index];
    default:
        return ((const uint64_t *)array)[index];
    }
}

/* Element `index` of operation `operation`'s result. */
static inline uint64_t batch_result(const struct batch *batch, int operation, uint32_t index,
                                    int bytes)
{
    return batch_element(batch->results + (size_t)operation * BATCH_ELEMENTS * 8, index, bytes);
}

static inline void batch_close(struct batch *batch)
{
    simulation_close(&batch->simulation);
}

static inline uint64_t batch_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Random elements that a test tries: `few` in check, `many` in check-all. */
static inline uint32_t batch_count(uint32_t few, uint32_t many)
{
    const char *tests = getenv("TESTS");

    return tests && strcmp(tests, "all") == 0 ? many : few;
}
