#include "tasks/expected.h"

#include "common/mem.h"
#include "tasks/declare.h"
#include "tasks/oracle_round.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Marks a scalar that the oracle has not written. */
#define UNSET (-1.0)

static void open_expected(struct expected *expected, const struct run *run, int output,
                          const struct tensor_spec *spec)
{
    expected->spec = spec;
    expected->scalars = tensor_scalars(spec);
    expected->valid = expected->scalars;
    expected->exact = run_tolerance(run, output) == NULL;
    if (expected->scalars == 0) {
        return;
    }
    if (expected->exact) {
        expected->bytes = xcalloc(spec->size_bytes, 1);
        return;
    }
    expected->ref = xcalloc((size_t)expected->scalars, sizeof(double));
    expected->bound = xcalloc((size_t)expected->scalars, sizeof(double));
    for (int64_t i = 0; i < expected->scalars; i++) {
        expected->ref[i] = NAN;
        expected->bound[i] = UNSET;
    }
}

/* Narrows the bounds by the table's, whose a refers to the RMS of the finite valid scalars. */
static void apply_tolerance(struct expected *expected, const struct tolerance_row *row)
{
    double squares = 0;
    int64_t finite = 0;

    for (int64_t i = 0; i < expected->valid; i++) {
        assert(expected->bound[i] != UNSET);
        if (isfinite(expected->ref[i])) {
            squares += expected->ref[i] * expected->ref[i];
            finite++;
        }
    }
    double rms = finite > 0 ? sqrt(squares / (double)finite) : 0;
    for (int64_t i = 0; i < expected->valid; i++) {
        double bound = row->a * rms + row->r * fabs(expected->ref[i]) + row->absolute;
        if (!(expected->bound[i] <= bound)) {
            expected->bound[i] = bound;
        }
    }
}

struct expectation *run_expect(const struct run *run, struct tensor *const *in)
{
    struct expectation *expectation = xcalloc(1, sizeof(*expectation));

    expectation->outputs = run->plans[0].output_count;
    for (int rank = 0; rank < run->world; rank++) {
        expectation->rows[rank] = xcalloc((size_t)expectation->outputs, sizeof(struct expected));
        for (int i = 0; i < expectation->outputs; i++) {
            open_expected(&expectation->rows[rank][i], run, i, &run->plans[rank].outputs[i]);
        }
    }
    run->task->oracle(run, in, expectation->rows);
    for (int rank = 0; rank < run->world; rank++) {
        for (int i = 0; i < expectation->outputs; i++) {
            if (!expectation->rows[rank][i].exact) {
                apply_tolerance(&expectation->rows[rank][i], run_tolerance(run, i));
            }
        }
    }
    return expectation;
}

void expectation_close(struct expectation *expectation)
{
    if (expectation == NULL) {
        return;
    }
    for (int rank = 0; rank < RANKS_MAX; rank++) {
        for (int i = 0; expectation->rows[rank] != NULL && i < expectation->outputs; i++) {
            free(expectation->rows[rank][i].bytes);
            free(expectation->rows[rank][i].ref);
            free(expectation->rows[rank][i].bound);
        }
        free(expectation->rows[rank]);
    }
    free(expectation);
}

void expectation_answer(const struct expectation *expectation, struct tensor *const *out)
{
    for (int rank = 0; rank < RANKS_MAX && expectation->rows[rank] != NULL; rank++) {
        for (int i = 0; i < expectation->outputs; i++) {
            const struct expected *expected = &expectation->rows[rank][i];
            const struct tensor *tensor = &out[rank][i];
            if (expected->exact && expected->valid > 0) {
                size_t scalar_bytes = dtype_scalar_bytes(expected->spec->dtype);
                memcpy(tensor->data, expected->bytes, (size_t)expected->valid * scalar_bytes);
            }
            for (int64_t k = 0; !expected->exact && k < expected->valid; k++) {
                tensor_set(tensor, k, expected->ref[k]);
            }
        }
    }
}

void expect(struct expected *out, int64_t index, double ref, double bound)
{
    assert(index >= 0 && index < out->scalars);
    assert(bound >= 0);
    if (out->exact) {
        scalar_set(out->spec->dtype, out->bytes, index, ref);
        return;
    }
    out->ref[index] = ref;
    out->bound[index] = bound;
}

void expect_close(struct expected *out, int64_t index, double ref)
{
    expect(out, index, ref, INFINITY);
}

void expect_integer(struct expected *out, int64_t index, int64_t value)
{
    assert(index >= 0 && index < out->scalars);
    if (out->exact) {
        scalar_set_integer(out->spec->dtype, out->bytes, index, value);
        return;
    }
    expect_close(out, index, (double)value);
}

void expect_copy(struct expected *out, int64_t index, const struct tensor *from, int64_t from_index,
                 int64_t count)
{
    size_t size_bytes = dtype_size_bytes(out->spec->dtype);
    int scalars = dtype_scalars(out->spec->dtype);

    assert(from->spec->dtype == out->spec->dtype);
    assert(index >= 0 && index + count <= out->spec->elements);
    assert(from_index >= 0 && from_index + count <= from->spec->elements);
    if (out->exact && count > 0) {
        memcpy((char *)out->bytes + (size_t)index * size_bytes,
               (const char *)from->data + (size_t)from_index * size_bytes,
               (size_t)count * size_bytes);
    }
    for (int64_t i = 0; !out->exact && i < count * scalars; i++) {
        expect_close(out, index * scalars + i, tensor_get(from, from_index * scalars + i));
    }
}

void expect_valid(struct expected *out, int64_t rows)
{
    int64_t row_scalars = 1;

    for (int dim = 1; dim < out->spec->dims; dim++) {
        row_scalars *= out->spec->shape[dim];
    }
    out->valid = rows * row_scalars * dtype_scalars(out->spec->dtype);
    assert(out->valid >= 0 && out->valid <= out->scalars);
}
