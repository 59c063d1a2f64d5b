#include "tasks/oracle_move.h"

#include <math.h>

enum { M, N, ROOT };
enum { X };
enum { Y };

static void declare(const struct run *run, int rank, struct plan *plan)
{
    plan_input(plan, "x", T, "[(r == root)*W, M, N]",
               SHAPE(rank == run->dim[ROOT] ? run->world : 0, run->dim[M], run->dim[N]));
    plan_output(plan, "y", T, "[M, N]", SHAPE(run->dim[M], run->dim[N]));
}

static void oracle(const struct run *run, struct tensor *const *in, struct expected *const *out)
{
    int64_t block = run->dim[M] * run->dim[N];

    for (int rank = 0; rank < run->world; rank++) {
        expect_block(&out[rank][Y], 0, &in[run->dim[ROOT]][X], rank, block);
    }
}

static void work(const struct run *run, struct work *work)
{
    double bytes = (double)(run->dim[M] * run->dim[N]) * run_element_bytes(run);
    double peers = run->world - 1;

    *work = (struct work){
        .nvlink_out = peers * bytes,
        .nvlink_in = fmin(peers, 1) * bytes,
        .nvls_out = peers * bytes,
        .nvls_in = fmin(peers, 1) * bytes,
        .hbm_read = run->world * bytes,
        .hbm_write = bytes,
        .floor_in = fmin(peers, 1) * bytes,
    };
}

const struct task task_scatter = {
    .number = 5,
    .name = "scatter",
    .summary = "Distribute one rank's blocks, block s to rank s",
    .family = "collectives",
    .params = {[M] = {"M", PARAM_INT64, "rows of one block"},
               [N] = {"N", PARAM_INT64, "columns of one block"},
               [ROOT] = {"root", PARAM_INT64, "sending rank"}},
    .cases = {MOVED_CASES, {.name = "check/root0"}},
    .variants = MOVED_VARIANTS,
    .outputs = {[Y] = {.name = "y", .ranks = RANKS_OWN}},
    .derive = derive_root,
    .declare = declare,
    .fill = fill_moved,
    .oracle = oracle,
    .work = work,
};
