#include "tasks/declare.h"

enum { M, N };
enum { X };
enum { Y };
enum { NORMAL, BITS };

static void declare(const struct run *run, int rank, struct plan *plan)
{
    (void)rank; /* every rank has the same shapes */
    plan_input(plan, "x", T, "[M, N]", SHAPE(run->dim[M], run->dim[N]));
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
    int64_t slot = run->dim[M] * run->dim[N];

    for (int rank = 0; rank < run->world; rank++) {
        for (int source = 0; source < run->world; source++) {
            expect_copy(&out[rank][Y], source * slot, &in[source][X], 0, slot);
        }
    }
}

const struct task task_allgather = {
    .number = 2,
    .name = "allgather",
    .summary = "Collect one tensor from each rank, stacked, on every rank",
    .family = "collectives",
    .params = {[M] = {"M", PARAM_INT64, "rows"}, [N] = {"N", PARAM_INT64, "columns"}},
    .cases = {{.name = "check", .dim = {[M] = 37, [N] = 129}},
              {.name = "bench", .dim = {[M] = 1024, [N] = 1024}}},
    .variants = {[NORMAL] = {"normal", AT_CHECK | AT_BENCH}, [BITS] = {"bits", AT_CHECK}},
    .outputs = {[Y] = {.name = "y", .ranks = RANKS_SAME}},
    .declare = declare,
    .fill = fill,
    .oracle = oracle,
};
