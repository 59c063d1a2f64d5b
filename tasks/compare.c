/*
 * compare.c — run_judge: outputs of all ranks against what the oracle expects.
 *
 * In this order: counts, values, tails, replicas, the page's own rule; within each by output, rank
 * and index. The first that fails is the judgement.
 */
#include "tasks/declare.h"
#include "tasks/oracle_round.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { VALUES, NORM, TAIL, REPLICAS, STAGES };

struct judging {
    const struct run *run;
    const struct expectation *expectation;
    struct tensor *const *out;
    uint8_t poison;
    struct verdict_detail *detail;
};

static void value_text(char *text, size_t size_bytes, double value)
{
    (void)snprintf(text, size_bytes, "%a (%.17g)", value, value);
}

/* A scalar of a tensor for people: decimal, or hex float and decimal, or for a NaN its code. */
static void scalar_text(char *text, size_t size_bytes, enum dtype dtype, const void *data,
                        int64_t index)
{
    if (dtype_is_integer(dtype)) {
        (void)snprintf(text, size_bytes, "%" PRId64, scalar_get_integer(dtype, data, index));
        return;
    }
    double value = scalar_get(dtype, data, index);
    if (isnan(value)) {
        uint64_t code = 0;
        size_t scalar_bytes = dtype_scalar_bytes(dtype);
        memcpy(&code, (const char *)data + (size_t)index * scalar_bytes, scalar_bytes);
        (void)snprintf(text, size_bytes, "nan (0x%" PRIx64 ")", code);
        return;
    }
    value_text(text, size_bytes, value);
}

/* "[3, 17]", and for a part of a complex number "[3, 17].re". */
static void index_text(char *text, size_t size_bytes, const struct tensor_spec *spec,
                       int64_t scalar)
{
    int scalars = dtype_scalars(spec->dtype);
    int64_t left = scalar / scalars;
    int64_t place[TENSOR_DIMS_MAX] = {0};
    size_t used = 0;

    for (int dim = spec->dims - 1; dim >= 0; dim--) {
        place[dim] = left % spec->shape[dim];
        left /= spec->shape[dim];
    }
    for (int dim = 0; dim < spec->dims && used < size_bytes; dim++) {
        used += (size_t)snprintf(text + used, size_bytes - used, "%s%" PRId64,
                                 dim == 0 ? "[" : ", ", place[dim]);
    }
    if (used < size_bytes) {
        const char *part = scalar % scalars == 0 ? ".re" : ".im";
        (void)snprintf(text + used, size_bytes - used, "]%s", scalars == 1 ? "" : part);
    }
}

static bool is_poison(const struct judging *judging, const struct tensor *tensor, int64_t scalar)
{
    size_t scalar_bytes = dtype_scalar_bytes(tensor->spec->dtype);
    const uint8_t *bytes = (const uint8_t *)tensor->data + (size_t)scalar * scalar_bytes;

    for (size_t i = 0; i < scalar_bytes; i++) {
        if (bytes[i] != judging->poison) {
            return false;
        }
    }
    return true;
}

static bool is_right_value(const struct judging *judging, const struct expected *expected,
                           const struct tensor *tensor, int64_t scalar)
{
    double ref = expected->ref[scalar];
    double got = tensor_get(tensor, scalar);

    if (isnan(ref)) {
        return isnan(got) && !is_poison(judging, tensor, scalar);
    }
    if (isinf(ref)) {
        return got == ref;
    }
    return isfinite(got) && !(fabs(got - ref) > expected->bound[scalar]);
}

static bool is_right_exact(const struct output_rule *rule, const struct expected *expected,
                           const struct tensor *tensor, int64_t scalar)
{
    enum dtype dtype = tensor->spec->dtype;
    size_t scalar_bytes = dtype_scalar_bytes(dtype);
    size_t offset = (size_t)scalar * scalar_bytes;

    if (memcmp((char *)tensor->data + offset, (char *)expected->bytes + offset, scalar_bytes) ==
        0) {
        return true;
    }
    return rule->zero_sign_free && scalar_get(dtype, tensor->data, scalar) == 0 &&
           scalar_get(dtype, expected->bytes, scalar) == 0;
}

static void describe(const struct judging *judging, int rank, int output, int64_t scalar)
{
    struct verdict_detail *detail = judging->detail;
    const struct expected *expected = &judging->expectation->rows[rank][output];
    const struct tensor *tensor = &judging->out[rank][output];
    const struct tensor_spec *spec = expected->spec;

    detail->rank = rank;
    detail->output = output;
    detail->index = scalar / dtype_scalars(spec->dtype);
    detail->got = tensor_get(tensor, scalar);
    index_text(detail->index_text, sizeof(detail->index_text), spec, scalar);
    scalar_text(detail->got_text, sizeof(detail->got_text), spec->dtype, tensor->data, scalar);
    if (scalar >= expected->valid) {
        detail->expected = NAN;
        (void)snprintf(detail->expected_text, sizeof(detail->expected_text), "untouched");
    } else if (expected->exact) {
        detail->expected = scalar_get(spec->dtype, expected->bytes, scalar);
        scalar_text(detail->expected_text, sizeof(detail->expected_text), spec->dtype,
                    expected->bytes, scalar);
    } else {
        detail->expected = expected->ref[scalar];
        detail->bound = expected->bound[scalar];
        value_text(detail->expected_text, sizeof(detail->expected_text), expected->ref[scalar]);
    }
}

/* Both norms of one rank's output, over the scalars whose reference is finite. */
static void measure(struct verdict_detail *detail, const struct expected *expected,
                    const struct tensor *tensor)
{
    double error = 0;
    double reference = 0;
    int64_t finite = 0;

    for (int64_t i = 0; i < expected->valid; i++) {
        double ref = expected->exact ? scalar_get(expected->spec->dtype, expected->bytes, i)
                                     : expected->ref[i];
        if (isfinite(ref)) {
            double difference = tensor_get(tensor, i) - ref;
            error += difference * difference;
            reference += ref * ref;
            finite++;
        }
    }
    detail->rms_error = finite > 0 ? sqrt(error / (double)finite) : 0;
    detail->rms_reference = finite > 0 ? sqrt(reference / (double)finite) : 0;
}

/* The wrong scalars of one rank's output; *first is -1 if there are none. */
static uint64_t count_wrong(const struct judging *judging, int rank, int output, int64_t *first)
{
    const struct output_rule *rule = &judging->run->task->outputs[output];
    const struct expected *expected = &judging->expectation->rows[rank][output];
    const struct tensor *tensor = &judging->out[rank][output];
    uint64_t bad = 0;

    *first = -1;
    if (expected->exact && expected->valid > 0 &&
        memcmp(tensor->data, expected->bytes,
               (size_t)expected->valid * dtype_scalar_bytes(expected->spec->dtype)) == 0) {
        return 0;
    }
    for (int64_t i = 0; i < expected->valid; i++) {
        bool right = expected->exact ? is_right_exact(rule, expected, tensor, i)
                                     : is_right_value(judging, expected, tensor, i);
        if (!right) {
            *first = bad == 0 ? i : *first;
            bad++;
        }
    }
    return bad;
}

static enum judgement judge_values(const struct judging *judging, int output)
{
    struct verdict_detail *detail = judging->detail;
    bool is_count = judging->run->task->outputs[output].is_count;
    int wrong_rank = -1;
    int64_t wrong = -1;
    uint64_t bad = 0;
    uint64_t total = 0;

    for (int rank = 0; rank < judging->run->world; rank++) {
        int64_t first;
        bad += count_wrong(judging, rank, output, &first);
        total += (uint64_t)judging->expectation->rows[rank][output].valid;
        if (first >= 0 && wrong_rank < 0) {
            wrong_rank = rank;
            wrong = first;
        }
    }
    if (wrong_rank < 0) {
        return JUDGED_RIGHT;
    }
    const struct tensor *tensor = &judging->out[wrong_rank][output];
    describe(judging, wrong_rank, output, wrong);
    measure(detail, &judging->expectation->rows[wrong_rank][output], tensor);
    detail->bad = bad;
    detail->total = total;
    if (is_poison(judging, tensor, wrong)) {
        return JUDGED_UNWRITTEN;
    }
    return is_count ? JUDGED_WRONG_COUNT : JUDGED_WRONG_VALUE;
}

/* RMS(err) <= rms * RMS(ref): every element may be within its bound and the whole still wrong. */
static enum judgement judge_norm(const struct judging *judging, int output)
{
    const struct tolerance_row *row = run_tolerance(judging->run, output);

    if (row == NULL || row->rms == 0) {
        return JUDGED_RIGHT;
    }
    for (int rank = 0; rank < judging->run->world; rank++) {
        const struct expected *expected = &judging->expectation->rows[rank][output];
        const struct tensor *tensor = &judging->out[rank][output];
        int64_t worst = 0;
        measure(judging->detail, expected, tensor);
        if (judging->detail->rms_error <= row->rms * judging->detail->rms_reference) {
            continue;
        }
        for (int64_t i = 0; i < expected->valid; i++) {
            double error = fabs(tensor_get(tensor, i) - expected->ref[i]);
            double largest = fabs(tensor_get(tensor, worst) - expected->ref[worst]);
            worst = error > largest ? i : worst;
        }
        describe(judging, rank, output, worst);
        judging->detail->total = (uint64_t)expected->valid;
        return JUDGED_WRONG_NORM;
    }
    return JUDGED_RIGHT;
}

static enum judgement judge_tail(const struct judging *judging, int output)
{
    struct verdict_detail *detail = judging->detail;
    uint64_t bad = 0;
    uint64_t total = 0;

    if (judging->run->task->outputs[output].tail != TAIL_UNTOUCHED) {
        return JUDGED_RIGHT;
    }
    for (int rank = 0; rank < judging->run->world; rank++) {
        const struct expected *expected = &judging->expectation->rows[rank][output];
        for (int64_t i = expected->valid; i < expected->scalars; i++) {
            total++;
            if (is_poison(judging, &judging->out[rank][output], i)) {
                continue;
            }
            if (bad == 0) {
                describe(judging, rank, output, i);
            }
            bad++;
        }
    }
    detail->bad = bad;
    detail->total = total;
    return bad > 0 ? JUDGED_TAIL : JUDGED_RIGHT;
}

/* The lowest rank that must have the same bits as this one. */
static int first_replica(const struct run *run, int output, int rank)
{
    int first = 0;

    if (run->task->outputs[output].ranks == RANKS_SAME) {
        return 0;
    }
    while (run->task->group(run, first) != run->task->group(run, rank)) {
        first++;
    }
    return first;
}

static enum judgement judge_replicas(const struct judging *judging, int output)
{
    struct verdict_detail *detail = judging->detail;
    enum output_ranks ranks = judging->run->task->outputs[output].ranks;
    uint64_t bad = 0;

    if (ranks != RANKS_SAME && ranks != RANKS_SAME_GROUP) {
        return JUDGED_RIGHT;
    }
    for (int rank = 1; rank < judging->run->world; rank++) {
        const struct expected *expected = &judging->expectation->rows[rank][output];
        enum dtype dtype = expected->spec->dtype;
        size_t scalar_bytes = dtype_scalar_bytes(dtype);
        const char *own = judging->out[rank][output].data;
        const char *first = judging->out[first_replica(judging->run, output, rank)][output].data;
        for (int64_t i = 0; i < expected->valid; i++) {
            size_t offset = (size_t)i * scalar_bytes;
            if (memcmp(own + offset, first + offset, scalar_bytes) == 0) {
                continue;
            }
            if (bad == 0) {
                describe(judging, rank, output, i);
                detail->expected = scalar_get(dtype, first, i);
                scalar_text(detail->expected_text, sizeof(detail->expected_text), dtype, first, i);
            }
            bad++;
        }
        detail->total += (uint64_t)expected->valid;
    }
    detail->bad = bad;
    return bad > 0 ? JUDGED_REPLICAS_DIFFER : JUDGED_RIGHT;
}

static enum judgement judge_output(const struct judging *judging, int stage, int output)
{
    switch (stage) {
    case VALUES:
        return judge_values(judging, output);
    case NORM:
        return judge_norm(judging, output);
    case TAIL:
        return judge_tail(judging, output);
    default: /* REPLICAS */
        return judge_replicas(judging, output);
    }
}

/* One stage of all outputs that are counts, or of all others. */
static enum judgement judge_stage(const struct judging *judging, int stage, bool counts)
{
    for (int output = 0; output < judging->expectation->outputs; output++) {
        if (judging->run->task->outputs[output].is_count == counts) {
            *judging->detail = (struct verdict_detail){0};
            judging->detail->judgement = judge_output(judging, stage, output);
            if (judging->detail->judgement != JUDGED_RIGHT) {
                return judging->detail->judgement;
            }
        }
    }
    *judging->detail = (struct verdict_detail){0};
    return JUDGED_RIGHT;
}

enum judgement run_judge(const struct run *run, const struct expectation *expectation,
                         struct tensor *const *out, uint8_t poison, struct verdict_detail *detail)
{
    const struct judging judging = {run, expectation, out, poison, detail};
    enum judgement judgement = JUDGED_RIGHT;

    for (int stage = 0; stage < STAGES && judgement == JUDGED_RIGHT; stage++) {
        judgement = judge_stage(&judging, stage, true);
    }
    for (int stage = 0; stage < STAGES && judgement == JUDGED_RIGHT; stage++) {
        judgement = judge_stage(&judging, stage, false);
    }
    if (judgement == JUDGED_RIGHT && run->task->judge != NULL) {
        judgement = run->task->judge(run, expectation->rows, out, detail);
        detail->judgement = judgement;
    }
    return judgement;
}
