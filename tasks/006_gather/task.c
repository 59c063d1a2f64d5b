#include "tasks/declare.h"

enum { M, N, ROOT };
enum { X };
enum { Y };
enum { NORMAL, BITS };

/* The root is the last rank at "check", so that a rank 0 which is taken for granted shows. */
static void derive(struct run *run)
{
    run->dim[ROOT] = run_at(run, "check") ? run->world - 1 : 0;
}

static void declare(const struct run *run, int rank, struct plan *plan)
{
    plan_input(plan, "x", T, "[M, N]", SHAPE(run->dim[M], run->dim[N]));
    plan_output(plan, "y", T, "[(r == root)*W, M, N]",
                SHAPE(rank == run->dim[ROOT] ? run->world : 0, run->dim[M], run->dim[N]));
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

    for (int source = 0; source < run->world; source++) {
        expect_copy(&out[run->dim[ROOT]][Y], source * slot, &in[source][X], 0, slot);
    }
}

const struct task task_gather = {
    .number = 6,
    .name = "gather",
    .summary = "Collect one tensor from each rank, stacked, on one rank",
    .family = "collectives",
    .params = {[M] = {"M", PARAM_INT64, "rows"},
               [N] = {"N", PARAM_INT64, "columns"},
               [ROOT] = {"root", PARAM_INT64, "receiving rank"}},
    .cases = {{.name = "check", .dim = {[M] = 37, [N] = 129}},
              {.name = "bench", .dim = {[M] = 1024, [N] = 1024}},
              {.name = "check/root0"}},
    .variants = {[NORMAL] = {"normal", AT_CHECK | AT_BENCH}, [BITS] = {"bits", AT_CHECK}},
    .outputs = {[Y] = {.name = "y", .ranks = RANKS_ROOT}},
    .derive = derive,
    .declare = declare,
    .fill = fill,
    .oracle = oracle,
};
