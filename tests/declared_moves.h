/*
 * declared_moves.h — task pages 027 and 035, declared as their task.c will be: matrices of counts,
 * capacity and count, inputs that change their shape from call to call.
 */
#pragma once

#include "tasks/declare.h"
#include "tasks/oracle_round.h"

#include <string.h>

/* ---- 027: a grid parameter, capacity and count, coded values ---- */

enum { ROWS_H, ROWS_CNT, ROWS_IN, ROWS_OUT, ROWS_CAP };
enum { ROWS_NORMAL, ROWS_CODED };

static void rows_derive(struct run *run)
{
    for (int s = 0; s < run->world; s++) {
        for (int d = 0; d < run->world; d++) {
            int64_t count = (7 * s + 3 * d + 1) % 11;
            if (run_at(run, "check/to_rank0")) {
                count = d == 0 ? 29 : 0;
            } else if (run_at(run, "check/home")) {
                count = s == d ? 31 : 0;
            } else if (run_at(run, "bench")) {
                count = 1024 / run->world;
            }
            run->grid[ROWS_CNT][s][d] = count;
            run->list[ROWS_IN][s] += count;
            run->list[ROWS_OUT][d] += count;
        }
    }
    for (int s = 0; s < run->world; s++) {
        int64_t rows = run->list[ROWS_OUT][s];
        run->dim[ROWS_CAP] = rows > run->dim[ROWS_CAP] ? rows : run->dim[ROWS_CAP];
    }
}

static void rows_declare(const struct run *run, int rank, struct plan *plan)
{
    plan_input(plan, "x", T, "[rows_in[r], H]", SHAPE(run->list[ROWS_IN][rank], run->dim[ROWS_H]));
    plan_output(plan, "y", T, "[cap, H]", SHAPE(run->dim[ROWS_CAP], run->dim[ROWS_H]));
    plan_output(plan, "n_out", DTYPE_INT64, "[1]", SHAPE(1));
}

/* Coded values tell which rank, row and column arrived. */
static void rows_fill(const struct run *run, const struct trial *trial, struct tensor *const *in)
{
    for (int rank = 0; rank < run->world; rank++) {
        const struct tensor *x = &in[rank][0];
        if (run->variant == ROWS_NORMAL) {
            fill_tensor_normal(x, trial_stream(trial, rank, 0), 1);
            continue;
        }
        for (int64_t i = 0; i < x->spec->elements; i++) {
            int64_t row = i / run->dim[ROWS_H];
            int64_t column = i % run->dim[ROWS_H];
            tensor_set(x, i, (double)((rank * 101 + row * 7 + column + trial->call) % 251));
        }
    }
}

static void rows_oracle(const struct run *run, struct tensor *const *in,
                        struct expected *const *out)
{
    int64_t h = run->dim[ROWS_H];

    for (int d = 0; d < run->world; d++) {
        int64_t to = 0;
        for (int s = 0; s < run->world; s++) {
            int64_t from = 0;
            for (int before = 0; before < d; before++) {
                from += run->grid[ROWS_CNT][s][before];
            }
            int64_t count = run->grid[ROWS_CNT][s][d];
            expect_copy(&out[d][0], to * h, &in[s][0], from * h, count * h);
            to += count;
        }
        expect_valid(&out[d][0], to);
        expect_integer(&out[d][1], 0, to);
    }
}

static const struct task declared_rows = {
    .number = 27,
    .name = "moe_all2all_primitive",
    .summary = "All-to-all of rows with a count for each pair of ranks",
    .family = "moe",
    .params = {[ROWS_H] = {"H", PARAM_INT64, "row length"},
               [ROWS_CNT] = {"cnt", PARAM_GRID, "[W][W]; cnt[s][d]: rows sent by s to d"},
               [ROWS_IN] = {"rows_in", PARAM_LIST, "rows held by rank s"},
               [ROWS_OUT] = {"rows_out", PARAM_LIST, "rows received by rank s"},
               [ROWS_CAP] = {"cap", PARAM_INT64, "rows allocated for the output"}},
    .cases = {{.name = "check", .dim = {[ROWS_H] = 33}},
              {.name = "bench", .dim = {[ROWS_H] = 1024}},
              {.name = "check/to_rank0"},
              {.name = "check/home"}},
    .variants =
        {[ROWS_NORMAL] = {"normal", AT_CHECK | AT_BENCH}, [ROWS_CODED] = {"coded", AT_CHECK}},
    .outputs = {{.name = "y", .tail = TAIL_ANY}, {.name = "n_out", .is_count = true}},
    .derive = rows_derive,
    .declare = rows_declare,
    .fill = rows_fill,
    .oracle = rows_oracle,
};

/* ---- 035: sizes that only the device knows, another permutation in each call ---- */

enum { VAR_N, VAR_MCAP };
enum { VAR_X, VAR_M_LOCAL };
enum { VAR_Y, VAR_N_OUT, VAR_SIZES };

static void var_declare(const struct run *run, int rank, struct plan *plan)
{
    (void)rank;
    plan_input(plan, "x", T, "[mcap, N]", SHAPE(run->dim[VAR_MCAP], run->dim[VAR_N]));
    plan_input(plan, "m_local", DTYPE_INT64, "[1]", SHAPE(1));
    plan_output(plan, "y", T, "[W*mcap, N]",
                SHAPE(run->world * run->dim[VAR_MCAP], run->dim[VAR_N]));
    plan_output(plan, "n_out", DTYPE_INT64, "[1]", SHAPE(1));
    plan_output(plan, "sizes", DTYPE_INT64, "[W]", SHAPE(run->world));
}

static void var_fill(const struct run *run, const struct trial *trial, struct tensor *const *in)
{
    static const int64_t sizes[] = {5, 0, 16, 10, 4, 21, 15, 9};

    for (int rank = 0; rank < run->world; rank++) {
        const struct tensor *x = &in[rank][VAR_X];
        int64_t rows = run_at(run, "check") ? sizes[(rank + trial->call) % run->world] : 1024;
        size_t used = (size_t)(rows * run->dim[VAR_N]) * dtype_size_bytes(x->spec->dtype);
        fill_tensor_normal(x, trial_stream(trial, rank, VAR_X), 1);
        memset((char *)x->data + used, 0xa5, x->spec->size_bytes - used);
        tensor_set_integer(&in[rank][VAR_M_LOCAL], 0, rows);
    }
}

static void var_oracle(const struct run *run, struct tensor *const *in, struct expected *const *out)
{
    for (int rank = 0; rank < run->world; rank++) {
        int64_t rows = 0;
        for (int s = 0; s < run->world; s++) {
            int64_t count = tensor_get_integer(&in[s][VAR_M_LOCAL], 0);
            expect_copy(&out[rank][VAR_Y], rows * run->dim[VAR_N], &in[s][VAR_X], 0,
                        count * run->dim[VAR_N]);
            expect_integer(&out[rank][VAR_SIZES], s, count);
            rows += count;
        }
        expect_valid(&out[rank][VAR_Y], rows);
        expect_integer(&out[rank][VAR_N_OUT], 0, rows);
    }
}

static const struct task declared_variable = {
    .number = 35,
    .name = "ulysses_all_gather_variable_primitive",
    .summary = "All-gather of tensors whose leading size differs by rank",
    .family = "sequence-parallel",
    .params = {[VAR_N] = {"N", PARAM_INT64, "columns, equal on all ranks"},
               [VAR_MCAP] = {"mcap", PARAM_INT64, "largest number of rows of a rank"}},
    .cases = {{.name = "check", .dim = {[VAR_N] = 35, [VAR_MCAP] = 23}},
              {.name = "bench", .dim = {[VAR_N] = 1024, [VAR_MCAP] = 1024}}},
    .outputs = {{.name = "y", .ranks = RANKS_SAME, .tail = TAIL_ANY},
                {.name = "n_out", .ranks = RANKS_SAME, .is_count = true},
                {.name = "sizes", .ranks = RANKS_SAME, .is_count = true}},
    .declare = var_declare,
    .fill = var_fill,
    .oracle = var_oracle,
};
