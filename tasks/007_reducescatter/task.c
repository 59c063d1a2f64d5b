#include "tasks/declare.h"
#include "tasks/oracle_reduce.h"

#include <math.h>

enum { M, N };
enum { X };
enum { Y };
enum { ROUNDING, EXACT };

static void declare(const struct run *run, int rank, struct plan *plan)
{
    (void)rank; /* every rank has the same shapes */
    plan_input(plan, "x", T, "[W*M, N]", SHAPE(run->world * run->dim[M], run->dim[N]));
    plan_output(plan, "y", T, "[M, N]", SHAPE(run->dim[M], run->dim[N]));
}

static void fill(const struct run *run, const struct trial *trial, struct tensor *const *in)
{
    for (int rank = 0; rank < run->world; rank++) {
        fill_summands(run->variant == EXACT, &in[rank][X], trial_stream(trial, rank, X), rank);
    }
}

static void oracle(const struct run *run, struct tensor *const *in, struct expected *const *out)
{
    int64_t block = run->dim[M] * run->dim[N];

    for (int64_t i = 0; i < run->world * block; i++) {
        struct sum sum = sum_ranks(run, in, X, i);
        expect(&out[i / block][Y], i % block, sum.value, sum.bound);
    }
}

static void work(const struct run *run, struct work *work)
{
    double bytes = (double)(run->dim[M] * run->dim[N]) * run_element_bytes(run);
    double peers = run->world - 1;
    double least = (double)(run->dim[M] * run->dim[N]) * run_floor_bytes(run, Y);
    double adds = (double)(run->dim[M] * run->dim[N]);

    *work = (struct work){
        .nvlink_out = peers * bytes,
        .nvlink_in = peers * bytes,
        .nvls_out = peers * bytes,
        .nvls_in = fmin(peers, 1) * bytes,
        .hbm_read = run->world * bytes,
        .hbm_write = bytes,
        .flops_other = peers * adds,
        .floor_in = fmin(peers, 1) * least,
    };
}

const struct task task_reducescatter = {
    .number = 7,
    .name = "reducescatter",
    .summary = "Sum one tensor over all ranks and leave row block r of the sum on rank r",
    .family = "collectives",
    .params =
        {[M] = {"M", PARAM_INT64, "rows of one output block"}, [N] = {"N", PARAM_INT64, "columns"}},
    .cases = {{.name = "check", .dim = {[M] = 37, [N] = 129}},
              {.name = "bench", .dim = {[M] = 1024, [N] = 1024}}},
    .variants = {[ROUNDING] = {"rounding", AT_CHECK | AT_BENCH}, [EXACT] = {"exact", AT_CHECK}},
    .outputs = {[Y] = {.name = "y",
                       .ranks = RANKS_OWN,
                       .tolerance = &sum_tolerance,
                       .exact_variants = SET_OF(EXACT)}},
    .declare = declare,
    .fill = fill,
    .oracle = oracle,
    .work = work,
};
