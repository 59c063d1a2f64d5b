#include "tasks/declare.h"
#include "tasks/oracle_group.h"
#include "tasks/oracle_round.h"

#include "common/mem.h"

#include <math.h>
#include <stdlib.h>

enum { ROWS, D, Q, ORDER };
enum { IDX, TABLE };
enum { Y, PERM };
enum { UNIFORM, SKEWED };

static void declare(const struct run *run, int rank, struct plan *plan)
{
    (void)rank; /* every rank has the same shapes */
    plan_input(plan, "idx", DTYPE_INT64, "[Q]", SHAPE(run->dim[Q]));
    plan_input(plan, "table", T, "[rows, D]", SHAPE(run->dim[ROWS], run->dim[D]));
    plan_output(plan, "y", T, "[Q, D]", SHAPE(run->dim[Q], run->dim[D]));
    plan_output(plan, "perm", DTYPE_INT32, "[Q]", SHAPE(run->dim[Q]));
}

/* Uniform; or all ranks but the last ask for few rows of the last rank, so that most owners are not
 * asked, one is asked for almost everything, and what is sized for the average is too small. */
static void fill(const struct run *run, const struct trial *trial, struct tensor *const *in)
{
    int64_t rows = run->dim[ROWS];
    int last = run->world - 1;

    for (int rank = 0; rank < run->world; rank++) {
        bool is_narrow = run->variant == SKEWED && rank != last;
        fill_tensor_integers(&in[rank][IDX], trial_stream(trial, rank, IDX),
                             is_narrow ? last * rows : 0,
                             is_narrow ? last * rows + 2 : run->world * rows - 1);
        fill_tensor_normal(&in[rank][TABLE], trial_stream(trial, rank, TABLE), 1);
    }
}

static void expect_rank(const struct run *run, int rank, struct tensor *const *in,
                        struct expected *out)
{
    int64_t requests = run->dim[Q];
    int64_t width = run->dim[D];
    int64_t *owner = xcalloc((size_t)requests, sizeof(*owner));
    int64_t *order = xcalloc((size_t)requests, sizeof(*order));

    for (int64_t i = 0; i < requests; i++) {
        owner[i] = tensor_get_integer(&in[rank][IDX], i) / run->dim[ROWS];
        order[i] = i;
    }
    if (run->dim[ORDER] == 0) {
        group_by_owner(owner, requests, run->world, order);
    }
    for (int64_t i = 0; i < requests; i++) {
        int64_t row = tensor_get_integer(&in[rank][IDX], order[i]) % run->dim[ROWS];
        expect_copy(&out[Y], i * width, &in[owner[order[i]]][TABLE], row * width, width);
        expect_integer(&out[PERM], i, order[i]);
    }
    free(owner);
    free(order);
}

static void oracle(const struct run *run, struct tensor *const *in, struct expected *const *out)
{
    for (int rank = 0; rank < run->world; rank++) {
        expect_rank(run, rank, in, out[rank]);
    }
}

/* Expected numbers of distinct rows. The floor is nine tenths of them: at the published size five
 * standard deviations less. */
static void work(const struct run *run, struct work *work)
{
    double rows = (double)run->dim[ROWS];
    double requests = (double)run->dim[Q];
    double bytes = (double)run->dim[D] * run_element_bytes(run);
    double missed = 1 - 1 / (run->world * rows); /* a row, by one request */
    double asked = rows * (1 - pow(missed, requests)) * bytes;
    double peers = run->world - 1;

    *work = (struct work){
        .nvlink_out = peers * asked,
        .nvlink_in = peers * asked,
        .nvls_out = peers * asked,
        .nvls_in = peers * asked,
        .hbm_read = 8 * requests + rows * (1 - pow(missed, run->world * requests)) * bytes,
        .hbm_write = requests * bytes + 4 * requests,
        .floor_in = 0.9 * peers * asked,
    };
}

const struct task task_embedding_lookup = {
    .number = 10,
    .name = "embedding_lookup",
    .summary = "Look up rows of a table that is sharded by row blocks over the ranks",
    .family = "recommender",
    .params = {[ROWS] = {"rows", PARAM_INT64, "table rows per rank"},
               [D] = {"D", PARAM_INT64, "row length"},
               [Q] = {"Q", PARAM_INT64, "number of lookups per rank"},
               [ORDER] = {"order", PARAM_INT64, "0: grouped by owner, 1: request order"}},
    .cases = {{.name = "check", .dim = {[ROWS] = 61, [D] = 36, [Q] = 53}},
              {.name = "bench", .dim = {[ROWS] = 1024, [D] = 1024, [Q] = 1024}},
              {.name = "check/request_order", .dim = {[ORDER] = 1}},
              {.name = "bench/request_order", .dim = {[ORDER] = 1}}},
    .variants = {[UNIFORM] = {"uniform", AT_ALL}, [SKEWED] = {"skewed", AT_CHECK}},
    .outputs =
        {[Y] = {.name = "y", .ranks = RANKS_OWN}, [PERM] = {.name = "perm", .ranks = RANKS_OWN}},
    .declare = declare,
    .fill = fill,
    .oracle = oracle,
    .work = work,
};
