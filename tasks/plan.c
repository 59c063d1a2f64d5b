#include "tasks/plan.h"

#include "tasks/declare.h"

#include <assert.h>
#include <string.h>

static void add(const struct plan *plan, struct tensor_spec *specs, int *count,
                const struct tensor_spec *added)
{
    struct tensor_spec *spec = &specs[*count];

    assert(*count < PLAN_TENSORS_MAX);
    assert(added->dims > 0 && added->dims <= TENSOR_DIMS_MAX);
    *spec = *added;
    if (spec->is_working) {
        spec->dtype = plan->working;
    }
    spec->elements = 1;
    for (int dim = 0; dim < spec->dims; dim++) {
        assert(spec->shape[dim] >= 0);
        spec->elements *= spec->shape[dim];
    }
    spec->size_bytes = (uint64_t)spec->elements * dtype_size_bytes(spec->dtype);
    if (*count > 0 && strcmp(spec[-1].name, spec->name) == 0) {
        spec[-1].list_index = spec[-1].list_index < 0 ? 0 : spec[-1].list_index;
        spec->list_index = spec[-1].list_index + 1;
    }
    (*count)++;
}

static struct tensor_spec describe(const char *name, int dtype, const char *text,
                                   const int64_t *shape, int dims)
{
    struct tensor_spec spec = {
        .name = name,
        .text = text,
        .list_index = -1,
        .is_working = dtype == T,
        .dims = dims,
    };

    assert(dims > 0 && dims <= TENSOR_DIMS_MAX);
    if (dtype != T) {
        spec.dtype = (enum dtype)dtype;
    }
    memcpy(spec.shape, shape, (size_t)dims * sizeof(*shape));
    return spec;
}

void plan_input(struct plan *plan, const char *name, int dtype, const char *text,
                const int64_t *shape, int dims)
{
    struct tensor_spec spec = describe(name, dtype, text, shape, dims);

    add(plan, plan->inputs, &plan->input_count, &spec);
}

void plan_output(struct plan *plan, const char *name, int dtype, const char *text,
                 const int64_t *shape, int dims)
{
    struct tensor_spec spec = describe(name, dtype, text, shape, dims);

    add(plan, plan->outputs, &plan->output_count, &spec);
}
