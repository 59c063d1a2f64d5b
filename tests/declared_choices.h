/*
 * declared_choices.h — task pages 079 and 082, declared as their task.c will be: the best of many
 * with ties by index, and values that may be infinite.
 */
#pragma once

#include "tasks/declare.h"
#include "tasks/oracle_round.h"

#include <math.h>
#include <stdlib.h>

/* ---- 079: a choice that must be exact ---- */

enum { KNN_Q, KNN_ROWS, KNN_D, KNN_TOPK };
enum { KNN_QUERIES, KNN_TRAIN, KNN_LABELS };

static void knn_derive(struct run *run)
{
    if (run->dim[KNN_ROWS] == 0) { /* a size of all ranks together */
        run->dim[KNN_ROWS] = (run_at(run, "large") ? 1280000 : 16384) / run->world;
    }
}

static void knn_declare(const struct run *run, int rank, struct plan *plan)
{
    (void)rank;
    plan_input(plan, "queries", T, "[Q, D]", SHAPE(run->dim[KNN_Q], run->dim[KNN_D]));
    plan_input(plan, "train_t", T, "[D, rows]", SHAPE(run->dim[KNN_D], run->dim[KNN_ROWS]));
    plan_input(plan, "labels", DTYPE_INT64, "[rows]", SHAPE(run->dim[KNN_ROWS]));
    plan_output(plan, "sims", T, "[Q, topk]", SHAPE(run->dim[KNN_Q], run->dim[KNN_TOPK]));
    plan_output(plan, "knn_labels", DTYPE_INT64, "[Q, topk]",
                SHAPE(run->dim[KNN_Q], run->dim[KNN_TOPK]));
}

static void knn_fill(const struct run *run, const struct trial *trial, struct tensor *const *in)
{
    for (int rank = 0; rank < run->world; rank++) {
        fill_tensor_integers(&in[rank][KNN_QUERIES], trial_stream(trial, rank, KNN_QUERIES), -2, 2);
        fill_tensor_integers(&in[rank][KNN_TRAIN], trial_stream(trial, rank, KNN_TRAIN), -2, 2);
        for (int64_t j = 0; j < run->dim[KNN_ROWS]; j++) {
            tensor_set_integer(&in[rank][KNN_LABELS], j, (rank * run->dim[KNN_ROWS] + j) % 1000);
        }
    }
}

/* Rounded to the dtype before anything is chosen. */
static double knn_similarity(const struct run *run, const struct tensor *queries, int64_t query,
                             const struct tensor *train, int64_t row)
{
    double sum = 0;

    for (int64_t d = 0; d < run->dim[KNN_D]; d++) {
        sum += tensor_get(queries, query * run->dim[KNN_D] + d) *
               tensor_get(train, d * run->dim[KNN_ROWS] + row);
    }
    return dtype_round(run->dtype, sum);
}

static void knn_query(const struct run *run, struct tensor *const *in, int rank, int64_t query,
                      struct expected *out)
{
    int64_t rows = run->dim[KNN_ROWS] * run->world;
    int64_t topk = run->dim[KNN_TOPK];
    double *similarity = calloc((size_t)rows, sizeof(*similarity));

    for (int64_t j = 0; j < rows; j++) {
        similarity[j] =
            knn_similarity(run, &in[rank][KNN_QUERIES], query,
                           &in[j / run->dim[KNN_ROWS]][KNN_TRAIN], j % run->dim[KNN_ROWS]);
    }
    for (int64_t k = 0; k < topk; k++) {
        int64_t best = 0;
        for (int64_t j = 1; j < rows; j++) {
            best = similarity[j] > similarity[best] ? j : best;
        }
        const struct tensor *labels = &in[best / run->dim[KNN_ROWS]][KNN_LABELS];
        expect_close(&out[0], query * topk + k, similarity[best]);
        expect_integer(&out[1], query * topk + k,
                       tensor_get_integer(labels, best % run->dim[KNN_ROWS]));
        similarity[best] = -INFINITY;
    }
    free(similarity);
}

static void knn_oracle(const struct run *run, struct tensor *const *in, struct expected *const *out)
{
    for (int rank = 0; rank < run->world; rank++) {
        for (int64_t query = 0; query < run->dim[KNN_Q]; query++) {
            knn_query(run, in, rank, query, out[rank]);
        }
    }
}

static const struct task declared_knn = {
    .number = 79,
    .name = "dinov2_distributed_knn",
    .summary = "k nearest neighbours among training features sharded over ranks",
    .family = "sort/search",
    .params = {[KNN_Q] = {"Q", PARAM_INT64, "queries per rank"},
               [KNN_ROWS] = {"rows", PARAM_INT64, "training rows per rank"},
               [KNN_D] = {"D", PARAM_INT64, "feature width"},
               [KNN_TOPK] = {"topk", PARAM_INT64, "neighbours"}},
    .cases = {{.name = "check",
               .dim = {[KNN_Q] = 13, [KNN_ROWS] = 301, [KNN_D] = 40, [KNN_TOPK] = 7}},
              {.name = "bench", .dim = {[KNN_Q] = 32, [KNN_D] = 384, [KNN_TOPK] = 200}},
              {.name = "large", .dim = {[KNN_Q] = 256, [KNN_D] = 384, [KNN_TOPK] = 200}},
              {.name = "check/all", .dim = {[KNN_ROWS] = 16, [KNN_TOPK] = 16}}},
    .outputs = {{.name = "sims"}, {.name = "knn_labels"}},
    .derive = knn_derive,
    .declare = knn_declare,
    .fill = knn_fill,
    .oracle = knn_oracle,
};

/* ---- 082: infinities, a bound of one element, a target that follows the call ---- */

enum { LP_B, LP_S, LP_TOKENS, LP_V, LP_VL, LP_TOPK, LP_TOPP };
enum { LP_LOGITS, LP_TARGET };
enum { LP_PLAIN, LP_TIES };

static void logprob_derive(struct run *run)
{
    if (run_in_class(run, "check")) {
        run->dim[LP_S] = 5 * run->world;
        run->dim[LP_V] = 37 * run->world;
    }
    run->dim[LP_TOKENS] = run->dim[LP_B] * run->dim[LP_S];
    run->dim[LP_VL] = run->dim[LP_V] / run->world;
}

static void logprob_declare(const struct run *run, int rank, struct plan *plan)
{
    (void)rank;
    plan_input(plan, "logits", T, "[B, S, vl]",
               SHAPE(run->dim[LP_B], run->dim[LP_S], run->dim[LP_VL]));
    plan_input(plan, "target", DTYPE_INT64, "[B, S]", SHAPE(run->dim[LP_B], run->dim[LP_S]));
    plan_output(plan, "logprob", DTYPE_FP32, "[B, S]", SHAPE(run->dim[LP_B], run->dim[LP_S]));
}

/* Without the page's margin rule, which redraws rows: that is for its own task.c. */
static void logprob_fill(const struct run *run, const struct trial *trial, struct tensor *const *in)
{
    int64_t vl = run->dim[LP_VL];

    for (int rank = 0; rank < run->world; rank++) {
        fill_tensor_normal(&in[rank][LP_LOGITS], trial_stream(trial, rank, LP_LOGITS), 1);
        for (int64_t i = 0; i < run->dim[LP_TOKENS]; i++) {
            int64_t target = (17 * i + 3 + trial->call) % run->dim[LP_V];
            const int boosts[] = {0, 2, 4, 8};
            int64_t at = i * vl + target % vl;
            tensor_set_integer(&in[rank][LP_TARGET], i, target);
            if (target / vl == rank) {
                tensor_set(&in[rank][LP_LOGITS], at,
                           tensor_get(&in[rank][LP_LOGITS], at) + boosts[i % 4]);
            }
        }
        for (int64_t v = 0; run->variant == LP_TIES && v < vl; v++) {
            tensor_set(&in[rank][LP_LOGITS], v, 1 + trial->call);
        }
    }
}

struct logit {
    double value;
    int64_t column;
};

static int logit_compare(const void *a, const void *b)
{
    const struct logit *left = a;
    const struct logit *right = b;

    if (left->value != right->value) {
        return left->value < right->value ? -1 : 1;
    }
    return left->column < right->column ? -1 : left->column > right->column;
}

/* `row` is sorted. The log-probability of the target after both filters, -inf if it was removed. */
static double logprob_of(const struct run *run, const struct logit *row, int64_t target)
{
    int64_t columns = run->dim[LP_V];
    const struct logit *largest = &row[columns - 1];
    int64_t first = 0;
    double mass = 0;
    double prefix = 0;
    double kept = 1; /* the largest always stays */
    double value = largest->column == target ? largest->value : -INFINITY;

    if (run->dim[LP_TOPK] > 0 && run->dim[LP_TOPK] < columns) {
        double threshold = row[columns - run->dim[LP_TOPK]].value;
        while (row[first].value < threshold) {
            first++;
        }
    }
    for (int64_t j = first; j < columns; j++) {
        mass += exp(row[j].value - largest->value);
    }
    for (int64_t j = first; j < columns - 1; j++) {
        double share = exp(row[j].value - largest->value);
        prefix += share / mass;
        if (run->real[LP_TOPP] >= 1 || prefix > 1 - run->real[LP_TOPP]) {
            kept += share;
            value = row[j].column == target ? row[j].value : value;
        }
    }
    return value - largest->value - log(kept);
}

static void logprob_oracle(const struct run *run, struct tensor *const *in,
                           struct expected *const *out)
{
    int64_t vl = run->dim[LP_VL];
    struct logit *row = calloc((size_t)run->dim[LP_V], sizeof(*row));

    for (int64_t i = 0; i < run->dim[LP_TOKENS]; i++) {
        for (int64_t v = 0; v < run->dim[LP_V]; v++) {
            row[v].value = tensor_get(&in[v / vl][LP_LOGITS], i * vl + v % vl);
            row[v].column = v;
        }
        qsort(row, (size_t)run->dim[LP_V], sizeof(*row), logit_compare);
        double value = logprob_of(run, row, tensor_get_integer(&in[0][LP_TARGET], i));
        for (int rank = 0; rank < run->world; rank++) {
            expect(&out[rank][0], i, value, value == 0 ? 1e-6 : INFINITY);
        }
    }
    free(row);
}

static const struct tolerance logprob_tolerance = SAME_TOLERANCE(.a = 1e-4, .r = 1e-4);

static const struct task declared_logprob = {
    .number = 82,
    .name = "vocab_parallel_log_prob_topk",
    .summary = "Log-probability of a given token after top-k and top-p filtering",
    .family = "rl",
    .params = {[LP_B] = {"B", PARAM_INT64, "batch"},
               [LP_S] = {"S", PARAM_INT64, "sequence length"},
               [LP_TOKENS] = {"n", PARAM_INT64, "tokens"},
               [LP_V] = {"V", PARAM_INT64, "vocabulary"},
               [LP_VL] = {"vl", PARAM_INT64, "local vocabulary"},
               [LP_TOPK] = {"topk", PARAM_INT64, "top-k; 0 = off, capped at V"},
               [LP_TOPP] = {"topp", PARAM_FP32, "top-p; >= 1 = off"}},
    .cases = {{.name = "check", .dim = {[LP_B] = 3, [LP_TOPK] = 7}, .real = {[LP_TOPP] = 0.8}},
              {.name = "bench",
               .dim = {[LP_B] = 2, [LP_S] = 8, [LP_V] = 256, [LP_TOPK] = 10},
               .real = {[LP_TOPP] = 0.9}},
              {.name = "large",
               .dim = {[LP_B] = 4, [LP_S] = 1024, [LP_V] = 131072, [LP_TOPK] = 50},
               .real = {[LP_TOPP] = 0.9}},
              {.name = "check/p_only", .dim = {[LP_TOPK] = ZERO}},
              {.name = "check/k_only", .real = {[LP_TOPP] = 1}},
              {.name = "check/off", .dim = {[LP_TOPK] = ZERO}, .real = {[LP_TOPP] = 1}},
              {.name = "check/greedy", .real = {[LP_TOPP] = 1e-6}},
              {.name = "check/k50", .dim = {[LP_TOPK] = 50}}},
    .variants = {[LP_PLAIN] = {"", AT_ALL}, [LP_TIES] = {"ties", AT_CHECK}},
    .outputs = {{.name = "logprob", .ranks = RANKS_SAME, .tolerance = &logprob_tolerance}},
    .derive = logprob_derive,
    .declare = logprob_declare,
    .fill = logprob_fill,
    .oracle = logprob_oracle,
};
