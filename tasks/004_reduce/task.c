#include "tasks/declare.h"
#include "tasks/oracle_move.h"
#include "tasks/oracle_reduce.h"

#include <math.h>

enum { M, N, ROOT };
enum { X };
enum { Y };
enum { ROUNDING, EXACT };

static void declare(const struct run *run, int rank, struct plan *plan)
{
    plan_input(plan, "x", T, "[M, N]", SHAPE(run->dim[M], run->dim[N]));
    plan_output(plan, "y", T, "[(r == root)*M, N]",
                SHAPE(rank == run->dim[ROOT] ? run->dim[M] : 0, run->dim[N]));
}

static void fill(const struct run *run, const struct trial *trial, struct tensor *const *in)
{
    for (int rank = 0; rank < run->world; rank++) {
        fill_summands(run->variant == EXACT, &in[rank][X], trial_stream(trial, rank, X), rank);
    }
}

static void oracle(const struct run *run, struct tensor *const *in, struct expected *const *out)
{
    for (int64_t i = 0; i < run->dim[M] * run->dim[N]; i++) {
        struct sum sum = sum_ranks(run, in, X, i);
        expect(&out[run->dim[ROOT]][Y], i, sum.value, sum.bound);
    }
}

static void work(const struct run *run, struct work *work)
{
    double bytes = (double)(run->dim[M] * run->dim[N]) * run_element_bytes(run);
    double peers = run->world - 1;
    double least = (double)(run->dim[M] * run->dim[N]) * run_floor_bytes(run, Y);
    double adds = (double)(run->dim[M] * run->dim[N]);

    *work = (struct work){
        .nvlink_out = fmin(peers, 1) * bytes,
        .nvlink_in = fmin(peers, 1) * bytes,
        .nvls_out = fmin(peers, 1) * bytes,
        .nvls_in = fmin(peers, 1) * bytes,
        .hbm_read = bytes,
        .hbm_write = bytes,
        .flops_other = peers / run->world * adds,
        .floor_in = fmin(peers, 1) * least,
    };
}

const struct task task_reduce = {
    .number = 4,
    .name = "reduce",
    .summary = "Sum one tensor over all ranks and leave the sum on one rank",
    .family = "collectives",
    .params = {[M] = {"M", PARAM_INT64, "rows"},
               [N] = {"N", PARAM_INT64, "columns"},
               [ROOT] = {"root", PARAM_INT64, "receiving rank"}},
    .cases = {{.name = "check", .dim = {[M] = 37, [N] = 129}},
              {.name = "bench", .dim = {[M] = 1024, [N] = 1024}},
              {.name = "check/root0"}},
    .variants = {[ROUNDING] = {"rounding", AT_CHECK | AT_BENCH}, [EXACT] = {"exact", AT_CHECK}},
    .outputs = {[Y] = {.name = "y",
                       .ranks = RANKS_ROOT,
                       .tolerance = &sum_tolerance,
                       .exact_variants = SET_OF(EXACT)}},
    .derive = derive_root,
    .declare = declare,
    .fill = fill,
    .oracle = oracle,
    .work = work,
};
