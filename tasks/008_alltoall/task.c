#include "tasks/declare.h"

enum { M, N };
enum { X };
enum { Y };
enum { NORMAL, BITS };

static void declare(const struct run *run, int rank, struct plan *plan)
{
    (void)rank; /* every rank has the same shapes */
    plan_input(plan, "x", T, "[W, M, N]", SHAPE(run->world, run->dim[M], run->dim[N]));
    plan_output(plan, "y", T, "[W, M, N]", SHAPE(run->world, run->dim[M], run->dim[N]));
}

static void fill(const struct run *run, const struct trial *trial, struct tensor *const *in)
{
    for (int rank = 0; rank < run->world; rank++) {
        fill_payload(run->variant == BITS, &in[rank][X], trial_stream(trial, rank, X));
    }
}

static void oracle(const struct run *run, struct tensor *const *in, struct expected *const *out)
{
    int64_t block = run->dim[M] * run->dim[N];

    for (int rank = 0; rank < run->world; rank++) {
        for (int source = 0; source < run->world; source++) {
            expect_copy(&out[rank][Y], source * block, &in[source][X], rank * block, block);
        }
    }
}

const struct task task_alltoall = {
    .number = 8,
    .name = "alltoall",
    .summary = "Exchange blocks: block d of rank s becomes block s of rank d",
    .family = "collectives",
    .params = {[M] = {"M", PARAM_INT64, "rows of one block"},
               [N] = {"N", PARAM_INT64, "columns of one block"}},
    .cases = {{.name = "check", .dim = {[M] = 37, [N] = 129}},
              {.name = "bench", .dim = {[M] = 1024, [N] = 1024}}},
    .variants = {[NORMAL] = {"normal", AT_CHECK | AT_BENCH}, [BITS] = {"bits", AT_CHECK}},
    .outputs = {[Y] = {.name = "y", .ranks = RANKS_OWN}},
    .declare = declare,
    .fill = fill,
    .oracle = oracle,
};
