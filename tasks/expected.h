/*
 * expected.h — what an output must be, element by element, as the oracle writes it.
 *
 * An exact output holds the very bytes; any other two doubles per scalar, what is right and how far
 * from it is still right. Without a bound of its own an element has the table's; with both, the
 * narrower holds. An oracle writes every valid element; what it leaves out is NaN, or zero where
 * exact. Scalars are elements, but two of them make a complex64.
 */
#pragma once

#include "tasks/plan.h"

#include <stdbool.h>
#include <stdint.h>

struct expected {
    const struct tensor_spec *spec;
    int64_t scalars; /* all of the tensor */
    int64_t valid;   /* scalars that are compared; the tail follows */
    bool exact;
    void *bytes;         /* exact: size_bytes of the spec, else NULL */
    double *ref, *bound; /* not exact: `scalars` each, else NULL */
};

/* Writes one scalar; exact outputs take `ref` rounded once and ignore the bound. */
void expect(struct expected *out, int64_t index, double ref, double bound);
/* The same with the table's bound only. */
void expect_close(struct expected *out, int64_t index, double ref);
void expect_integer(struct expected *out, int64_t index, int64_t value);
/* `count` elements from `from_index` of a tensor of the same dtype, bit for bit where exact. */
void expect_copy(struct expected *out, int64_t index, const struct tensor *from, int64_t from_index,
                 int64_t count);
/* Only the first `rows` along the first dimension are valid. */
void expect_valid(struct expected *out, int64_t rows);

/* Of one call of a run: rows[rank][output]. */
struct expectation {
    int outputs;
    struct expected *rows[8];
};

/* The oracle's answer itself, rounded to the dtypes: into out[rank][i].data where that exists. The
 * tails stay as they are. */
void expectation_answer(const struct expectation *expectation, struct tensor *const *out);
