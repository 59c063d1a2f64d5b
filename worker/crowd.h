/*
 * crowd.h — the same work on many items by child processes, so that all processors take part.
 *
 * The function sees what the caller has, and what it writes into memory from crowd_memory is there
 * afterwards; all else that it changes is lost. It must not use CUDA.
 */
#pragma once

#include "common/error.h"

#include <stddef.h>

struct crowd_work {
    size_t items;
    void (*one)(void *context, size_t item);
    void (*alive)(void *context); /* called now and then while the caller waits; may be NULL */
    void *context;
};

/* ERR_INTERNAL: a child did not end well. */
enum status crowd_run(const struct crowd_work *work, struct error *err);

/* Zeroed memory that children share; ERR_LIMIT: there is not so much. */
enum status crowd_memory(void **memory, size_t size_bytes, struct error *err);
void crowd_forget(void *memory, size_t size_bytes); /* NULL: nothing */
