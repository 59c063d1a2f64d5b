#include "tasks/oracle_move.h"

#include <math.h>

enum { M, N };
enum { X };
enum { Y };

static void declare(const struct run *run, int rank, struct plan *plan)
{
    (void)rank; /* every rank has the same shapes */
    plan_input(plan, "x", T, "[W, M, N]", SHAPE(run->world, run->dim[M], run->dim[N]));
    plan_output(plan, "y", T, "[W, M, N]", SHAPE(run->world, run->dim[M], run->dim[N]));
}

static void oracle(const struct run *run, struct tensor *const *in, struct expected *const *out)
{
    int64_t block = run->dim[M] * run->dim[N];

    for (int rank = 0; rank < run->world; rank++) {
        for (int source = 0; source < run->world; source++) {
            expect_block(&out[rank][Y], source, &in[source][X], rank, block);
        }
    }
}

static void work(const struct run *run, struct work *work)
{
    double bytes = (double)(run->dim[M] * run->dim[N]) * run_element_bytes(run);
    double peers = run->world - 1;

    *work = (struct work){
        .nvlink_out = peers * bytes,
        .nvlink_in = peers * bytes,
        .nvls_out = peers * bytes,
        .nvls_in = peers * bytes,
        .hbm_read = run->world * bytes,
        .hbm_write = run->world * bytes,
        .floor_in = peers * bytes,
    };
}

const struct task task_alltoall = {
    .number = 8,
    .name = "alltoall",
    .summary = "Exchange blocks: block d of rank s becomes block s of rank d",
    .family = "collectives",
    .params = {[M] = {"M", PARAM_INT64, "rows of one block"},
               [N] = {"N", PARAM_INT64, "columns of one block"}},
    .cases = {MOVED_CASES},
    .variants = MOVED_VARIANTS,
    .outputs = {[Y] = {.name = "y", .ranks = RANKS_OWN}},
    .declare = declare,
    .fill = fill_moved,
    .oracle = oracle,
    .work = work,
};
