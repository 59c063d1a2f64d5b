/*
 * plan.h — the tensors of one rank in one run.
 *
 * Inputs and outputs in declared order, a list of tensors as adjacent entries, so that the entries
 * are the pointers of struct pkb_inputs and struct pkb_outputs one for one. Every rank has every
 * entry; one that a rank lacks has zero elements, and its pointer is NULL.
 */
#pragma once

#include "common/dtype.h"

#include <stdbool.h>
#include <stdint.h>

enum { PLAN_TENSORS_MAX = 64, TENSOR_DIMS_MAX = 8 };

struct tensor_spec {
    const char *name; /* as declared; entries of a list share it */
    const char *text; /* the shape for people: "[M, N/W]" */
    int list_index;   /* -1: not in a list */
    bool is_working;  /* of the run's dtype: pkb_t in pkb_task.h */
    enum dtype dtype;
    int dims;
    int64_t shape[TENSOR_DIMS_MAX];
    int64_t elements;
    uint64_t size_bytes; /* elements times the dtype's size */
};

struct plan {
    enum dtype working;
    struct tensor_spec inputs[PLAN_TENSORS_MAX];
    int input_count;
    struct tensor_spec outputs[PLAN_TENSORS_MAX];
    int output_count;
};

/* A tensor in host memory: `data` is NULL where the spec has no elements. */
struct tensor {
    const struct tensor_spec *spec;
    void *data;
};
