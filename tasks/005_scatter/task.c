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
    plan_input(plan, "x", T, "[(r == root)*W, M, N]",
               SHAPE(rank == run->dim[ROOT] ? run->world : 0, run->dim[M], run->dim[N]));
    plan_output(plan, "y", T, "[M, N]", SHAPE(run->dim[M], run->dim[N]));
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
        expect_copy(&out[rank][Y], 0, &in[run->dim[ROOT]][X], rank * block, block);
    }
}

const struct task task_scatter = {
    .number = 5,
    .name = "scatter",
    .summary = "Distribute one rank's blocks, block s to rank s",
    .family = "collectives",
    .params = {[M] = {"M", PARAM_INT64, "rows of one block"},
               [N] = {"N", PARAM_INT64, "columns of one block"},
               [ROOT] = {"root", PARAM_INT64, "sending rank"}},
    .cases = {{.name = "check", .dim = {[M] = 37, [N] = 129}},
              {.name = "bench", .dim = {[M] = 1024, [N] = 1024}},
              {.name = "check/root0"}},
    .variants = {[NORMAL] = {"normal", AT_CHECK | AT_BENCH}, [BITS] = {"bits", AT_CHECK}},
    .outputs = {[Y] = {.name = "y", .ranks = RANKS_OWN}},
    .derive = derive,
    .declare = declare,
    .fill = fill,
    .oracle = oracle,
};
