#include "tasks/audit.h"

#include "common/mem.h"
#include "tasks/declare.h"
#include "tasks/oracle_round.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct tensor *open_tensors(const struct tensor_spec *specs, int count)
{
    struct tensor *tensors = xcalloc((size_t)count, sizeof(*tensors));

    for (int i = 0; i < count; i++) {
        tensors[i].spec = &specs[i];
        tensors[i].data = specs[i].elements > 0 ? xcalloc(specs[i].size_bytes, 1) : NULL;
    }
    return tensors;
}

static void close_tensors(struct tensor *tensors, int count)
{
    for (int i = 0; tensors != NULL && i < count; i++) {
        free(tensors[i].data);
    }
    free(tensors);
}

void audit_open(struct audit *audit, const struct run *run, uint64_t seed, int call)
{
    *audit = (struct audit){.run = run, .seed = seed, .call = call};
    for (int rank = 0; rank < run->world; rank++) {
        const struct plan *plan = run_plan(run, rank);
        audit->in[rank] = open_tensors(plan->inputs, plan->input_count);
        audit->out[rank] = open_tensors(plan->outputs, plan->output_count);
    }
    run_fill(run, seed, call, audit->in);
    audit->expectation = run_expect(run, audit->in);
    audit_poison(audit);
}

void audit_close(struct audit *audit)
{
    for (int rank = 0; rank < audit->run->world; rank++) {
        close_tensors(audit->in[rank], run_plan(audit->run, rank)->input_count);
        close_tensors(audit->out[rank], run_plan(audit->run, rank)->output_count);
    }
    expectation_close(audit->expectation);
}

static void set_bytes(struct audit *audit, int byte)
{
    for (int rank = 0; rank < audit->run->world; rank++) {
        for (int i = 0; i < run_plan(audit->run, rank)->output_count; i++) {
            const struct tensor *out = &audit->out[rank][i];
            if (out->data != NULL) {
                memset(out->data, byte, out->spec->size_bytes);
            }
        }
    }
}

void audit_poison(struct audit *audit)
{
    set_bytes(audit, AUDIT_POISON);
}

enum judgement audit_judge(const struct audit *audit, struct verdict_detail *detail)
{
    return run_judge(audit->run, audit->expectation, audit->out, AUDIT_POISON, detail);
}

double audit_margin(const struct audit *audit)
{
    double margin = 0;

    for (int rank = 0; rank < audit->run->world; rank++) {
        for (int i = 0; i < audit->expectation->outputs; i++) {
            const struct expected *expected = &audit->expectation->rows[rank][i];
            for (int64_t k = 0; !expected->exact && k < expected->valid; k++) {
                double error = fabs(tensor_get(&audit->out[rank][i], k) - expected->ref[k]);
                double share = error > 0 ? error / expected->bound[k] : 0;
                margin = share > margin ? share : margin;
            }
        }
    }
    return margin;
}

static const char *const names[AUDIT_ANSWERS] = {
    [AUDIT_RIGHT] = "right",
    [AUDIT_ZEROS] = "zeros",
    [AUDIT_ONES] = "ones",
    [AUDIT_OWN_INPUT] = "own input",
    [AUDIT_LOCAL_ONLY] = "local only",
    [AUDIT_SKIP_RANK] = "skip one rank",
    [AUDIT_PREVIOUS_CALL] = "previous call",
    [AUDIT_BF16_CAST] = "bf16 cast",
    [AUDIT_LAST_TENTH] = "last tenth unwritten",
};

const char *audit_answer_name(enum audit_answer answer)
{
    return names[answer];
}

static void write_ones(struct audit *audit)
{
    for (int rank = 0; rank < audit->run->world; rank++) {
        for (int i = 0; i < audit->expectation->outputs; i++) {
            const struct tensor *out = &audit->out[rank][i];
            for (int64_t k = 0; k < tensor_scalars(out->spec); k++) {
                tensor_set(out, k, 1);
            }
        }
    }
}

static void write_own_input(struct audit *audit)
{
    for (int rank = 0; rank < audit->run->world; rank++) {
        const struct tensor *in = &audit->in[rank][0];
        for (int i = 0; in->data != NULL && i < audit->expectation->outputs; i++) {
            const struct tensor *out = &audit->out[rank][i];
            uint64_t bytes = in->spec->size_bytes;
            for (uint64_t at = 0; at < out->spec->size_bytes; at += bytes) {
                uint64_t left = out->spec->size_bytes - at;
                memcpy((char *)out->data + at, in->data, left < bytes ? left : bytes);
            }
        }
    }
}

/* What the oracle says when `rank`'s inputs are zero, or those of all ranks but `rank`. */
static struct expectation *expect_without(struct audit *audit, int rank, bool keep_only)
{
    struct audit other = {.run = audit->run};

    for (int r = 0; r < audit->run->world; r++) {
        const struct plan *plan = run_plan(audit->run, r);
        other.in[r] = open_tensors(plan->inputs, plan->input_count);
        for (int i = 0; i < plan->input_count && (r == rank) == keep_only; i++) {
            if (plan->inputs[i].elements > 0) {
                memcpy(other.in[r][i].data, audit->in[r][i].data, plan->inputs[i].size_bytes);
            }
        }
    }
    struct expectation *expectation = run_expect(audit->run, other.in);
    for (int r = 0; r < audit->run->world; r++) {
        close_tensors(other.in[r], run_plan(audit->run, r)->input_count);
    }
    return expectation;
}

static void write_local_only(struct audit *audit)
{
    for (int rank = 0; rank < audit->run->world; rank++) {
        struct expectation *local = expect_without(audit, rank, true);
        struct expectation one = {.outputs = local->outputs, .rows = {local->rows[rank]}};
        expectation_answer(&one, &audit->out[rank]);
        expectation_close(local);
    }
}

static void write_previous_call(struct audit *audit)
{
    struct audit previous;

    audit_open(&previous, audit->run, audit->seed, audit->call - 1);
    expectation_answer(previous.expectation, audit->out);
    audit_close(&previous);
}

static void round_to_bf16(struct audit *audit)
{
    for (int rank = 0; rank < audit->run->world; rank++) {
        for (int i = 0; i < audit->expectation->outputs; i++) {
            const struct tensor *out = &audit->out[rank][i];
            for (int64_t k = 0; out->spec->is_working && k < tensor_scalars(out->spec); k++) {
                tensor_set(out, k, dtype_round(DTYPE_BF16, tensor_get(out, k)));
            }
        }
    }
}

static void poison_last_tenth(struct audit *audit)
{
    for (int rank = 0; rank < audit->run->world; rank++) {
        for (int i = 0; i < audit->expectation->outputs; i++) {
            const struct expected *expected = &audit->expectation->rows[rank][i];
            size_t scalar_bytes = dtype_scalar_bytes(expected->spec->dtype);
            int64_t from = expected->valid - (expected->valid + 9) / 10;
            if (expected->valid > 0) {
                memset((char *)audit->out[rank][i].data + (size_t)from * scalar_bytes, AUDIT_POISON,
                       (size_t)(expected->valid - from) * scalar_bytes);
            }
        }
    }
}

void audit_write(struct audit *audit, enum audit_answer answer)
{
    struct expectation *without = NULL;

    audit_poison(audit);
    switch (answer) {
    case AUDIT_ZEROS:
        set_bytes(audit, 0);
        break;
    case AUDIT_ONES:
        write_ones(audit);
        break;
    case AUDIT_OWN_INPUT:
        write_own_input(audit);
        break;
    case AUDIT_LOCAL_ONLY:
        write_local_only(audit);
        break;
    case AUDIT_SKIP_RANK:
        without = expect_without(audit, audit->run->world - 1, false);
        expectation_answer(without, audit->out);
        expectation_close(without);
        break;
    case AUDIT_PREVIOUS_CALL:
        write_previous_call(audit);
        break;
    case AUDIT_BF16_CAST:
        expectation_answer(audit->expectation, audit->out);
        round_to_bf16(audit);
        break;
    case AUDIT_LAST_TENTH:
        expectation_answer(audit->expectation, audit->out);
        poison_last_tenth(audit);
        break;
    default:
        expectation_answer(audit->expectation, audit->out);
        break;
    }
}

bool audit_is_right(const struct audit *audit)
{
    struct audit right = {.run = audit->run};
    bool same = true;

    for (int rank = 0; rank < audit->run->world; rank++) {
        const struct plan *plan = run_plan(audit->run, rank);
        right.out[rank] = open_tensors(plan->outputs, plan->output_count);
    }
    expectation_answer(audit->expectation, right.out);
    for (int rank = 0; rank < audit->run->world; rank++) {
        for (int i = 0; i < audit->expectation->outputs; i++) {
            const struct expected *expected = &audit->expectation->rows[rank][i];
            size_t bytes = (size_t)expected->valid * dtype_scalar_bytes(expected->spec->dtype);
            same = same && (bytes == 0 ||
                            memcmp(right.out[rank][i].data, audit->out[rank][i].data, bytes) == 0);
        }
        close_tensors(right.out[rank], run_plan(audit->run, rank)->output_count);
    }
    return same;
}
