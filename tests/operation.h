/*
 * operation.h — one PTX instruction on arrays: element i of the result is what lane i % 32 of some
 * warp computed from element i of each operand.
 */
#pragma once

#include "tests/simulation.h"

enum { OPERATION_SOURCES = 4, OPERATION_TEXT = 4096 };

struct operation {
    const char *code; /* with registers %d, %a, %b, %c, %e; %p and %q are predicates to use */
    int bytes;        /* of an element of the result: 1, 2, 4, 8 */
    int source_bytes[OPERATION_SOURCES]; /* 0: no such source */
    const void *sources[OPERATION_SOURCES];
};

static inline const char *operation_type(int bytes)
{
    return bytes == 8 ? "b64" : bytes == 2 ? "b16" : "b32";
}

static inline void operation_write(const struct operation *operation, char *text)
{
    static const char names[] = "abce";
    int at = snprintf(text, OPERATION_TEXT,
                      ".version 8.0\n.target sm_90\n.address_size 64\n"
                      ".visible .entry run(.param .u64 d, .param .u64 a, .param .u64 b,"
                      " .param .u64 c, .param .u64 e, .param .u32 n)\n{\n"
                      ".reg .pred %%p, %%q, %%o; .reg .b32 %%i, %%n, %%t; .reg .b64 %%at, %%to,"
                      " %%l; .reg .%s %%d;\n",
                      operation_type(operation->bytes));

    for (int k = 0; k < OPERATION_SOURCES && operation->source_bytes[k]; k++) {
        at += snprintf(text + at, (size_t)(OPERATION_TEXT - at), ".reg .%s %%%c;\n",
                       operation_type(operation->source_bytes[k]), names[k]);
    }
    at += snprintf(text + at, (size_t)(OPERATION_TEXT - at),
                   "mov.u32 %%i, %%ctaid.x;\nmov.u32 %%t, %%tid.x;\n"
                   "mad.lo.u32 %%i, %%i, 256, %%t;\nld.param.u32 %%n, [n];\n"
                   "setp.ge.u32 %%o, %%i, %%n;\n@%%o bra OUT;\n");
    for (int k = 0; k < OPERATION_SOURCES && operation->source_bytes[k]; k++) {
        at += snprintf(text + at, (size_t)(OPERATION_TEXT - at),
                       "ld.param.u64 %%at, [%c];\nmad.wide.u32 %%at, %%i, %d, %%at;\n"
                       "ld.global.%s %%%c, [%%at];\n",
                       names[k], operation->source_bytes[k],
                       operation->source_bytes[k] == 1 ? "u8"
                                                       : operation_type(operation->source_bytes[k]),
                       names[k]);
    }
    snprintf(text + at, (size_t)(OPERATION_TEXT - at),
             "%s\nld.param.u64 %%to, [d];\nmad.wide.u32 %%to, %%i, %d, %%to;\n"
             "st.global.%s [%%to], %%d;\nOUT:\nret;\n}\n",
             operation->code, operation->bytes,
             operation->bytes == 1 ? "u8" : operation_type(operation->bytes));
}

/* Fills `result` with `count` elements. */
static inline void operation_run(const struct operation *operation, uint32_t count, void *result)
{
    char text[OPERATION_TEXT];
    struct simulation simulation;
    struct simulation_options options = {.ranks = 1, .seed = 1, .fuel = (uint64_t)1 << 40};
    void *host = NULL;
    struct {
        uint64_t pointers[1 + OPERATION_SOURCES];
        uint32_t count;
    } params = {.count = count};

    operation_write(operation, text);
    simulation_open(&simulation, &options, text);
    for (int k = 0; k < OPERATION_SOURCES && operation->source_bytes[k]; k++) {
        uint64_t size_bytes = (uint64_t)count * (uint64_t)operation->source_bytes[k];
        params.pointers[1 + k] = simulation_memory(&simulation, 0, size_bytes, &host);
        memcpy(host, operation->sources[k], size_bytes);
    }
    params.pointers[0] =
        simulation_memory(&simulation, 0, (uint64_t)count * (uint64_t)operation->bytes, &host);
    simulation_launch(&simulation, &(struct simulation_launch){.kernel = "run",
                                                               .ctas = (count + 255) / 256,
                                                               .threads = 256,
                                                               .params = &params});
    simulation_check(&simulation);
    memcpy(result, host, (size_t)count * (size_t)operation->bytes);
    simulation_close(&simulation);
}

static inline uint64_t operation_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}
