#include "tasks/oracle_move.h"

#include <math.h>

enum { M, N, ROOT };
enum { X };
enum { Y };

static void declare(const struct run *run, int rank, struct plan *plan)
{
    (void)rank; /* every rank has the same shapes */
    plan_input(plan, "x", T, "[M, N]", SHAPE(run->dim[M], run->dim[N]));
    plan_output(plan, "y", T, "[M, N]", SHAPE(run->dim[M], run->dim[N]));
}

static void oracle(const struct run *run, struct tensor *const *in, struct expected *const *out)
{
    for (int rank = 0; rank < run->world; rank++) {
        expect_block(&out[rank][Y], 0, &in[run->dim[ROOT]][X], 0, run->dim[M] * run->dim[N]);
    }
}

static void work(const struct run *run, struct work *work)
{
    double bytes = (double)(run->dim[M] * run->dim[N]) * run_element_bytes(run);
    double peers = run->world - 1;

    *work = (struct work){
        .nvlink_out = fmin(peers, 1) * bytes,
        .nvlink_in = fmin(peers, 1) * bytes,
        .nvls_out = fmin(peers, 1) * bytes,
        .nvls_in = fmin(peers, 1) * bytes,
        .hbm_read = bytes,
        .hbm_write = bytes,
        .floor_in = fmin(peers, 1) * bytes,
    };
}

const struct task task_broadcast = {
    .number = 3,
    .name = "broadcast",
    .summary = "Copy one rank's tensor to all ranks",
    .family = "collectives",
    .params = {[M] = {"M", PARAM_INT64, "rows"},
               [N] = {"N", PARAM_INT64, "columns"},
               [ROOT] = {"root", PARAM_INT64, "sending rank"}},
    .cases = {MOVED_CASES, {.name = "check/root0"}},
    .variants = MOVED_VARIANTS,
    .outputs = {[Y] = {.name = "y", .ranks = RANKS_SAME}},
    .derive = derive_root,
    .declare = declare,
    .fill = fill_moved,
    .oracle = oracle,
    .work = work,
};
