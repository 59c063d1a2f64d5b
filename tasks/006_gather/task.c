#include "tasks/oracle_move.h"

#include <math.h>

enum { M, N, ROOT };
enum { X };
enum { Y };

static void declare(const struct run *run, int rank, struct plan *plan)
{
    plan_input(plan, "x", T, "[M, N]", SHAPE(run->dim[M], run->dim[N]));
    plan_output(plan, "y", T, "[(r == root)*W, M, N]",
                SHAPE(rank == run->dim[ROOT] ? run->world : 0, run->dim[M], run->dim[N]));
}

static void oracle(const struct run *run, struct tensor *const *in, struct expected *const *out)
{
    int64_t slot = run->dim[M] * run->dim[N];

    for (int source = 0; source < run->world; source++) {
        expect_block(&out[run->dim[ROOT]][Y], source, &in[source][X], 0, slot);
    }
}

static void work(const struct run *run, struct work *work)
{
    double bytes = (double)(run->dim[M] * run->dim[N]) * run_element_bytes(run);
    double peers = run->world - 1;

    *work = (struct work){
        .nvlink_out = fmin(peers, 1) * bytes,
        .nvlink_in = peers * bytes,
        .nvls_out = fmin(peers, 1) * bytes,
        .nvls_in = peers * bytes,
        .hbm_read = bytes,
        .hbm_write = run->world * bytes,
        .floor_in = peers * bytes,
    };
}

const struct task task_gather = {
    .number = 6,
    .name = "gather",
    .summary = "Collect one tensor from each rank, stacked, on one rank",
    .family = "collectives",
    .params = {[M] = {"M", PARAM_INT64, "rows"},
               [N] = {"N", PARAM_INT64, "columns"},
               [ROOT] = {"root", PARAM_INT64, "receiving rank"}},
    .cases = {MOVED_CASES, {.name = "check/root0"}},
    .variants = MOVED_VARIANTS,
    .outputs = {[Y] = {.name = "y", .ranks = RANKS_ROOT}},
    .derive = derive_root,
    .declare = declare,
    .fill = fill_moved,
    .oracle = oracle,
    .work = work,
};
