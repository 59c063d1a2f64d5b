#include "tasks/declare.h"
#include "tasks/oracle_rotary.h"
#include "tasks/oracle_round.h"

#include <math.h>

enum { B, S, SL, NH, D };
enum { Q, K, COS_TAB, SIN_TAB };
enum { Q_OUT, K_OUT };

static void derive(struct run *run)
{
    run->dim[SL] = run->dim[S] / run->world > 0 ? run->dim[S] / run->world : 1;
}

static void declare(const struct run *run, int rank, struct plan *plan)
{
    int64_t batch = run->dim[B];
    int64_t length = run->dim[SL];
    int64_t heads = run->dim[NH];
    int64_t width = run->dim[D];

    (void)rank; /* every rank has the same shapes */
    plan_input(plan, "q", T, "[B, sl, nh, D]", SHAPE(batch, length, heads, width));
    plan_input(plan, "k", T, "[B, sl, nh, D]", SHAPE(batch, length, heads, width));
    plan_input(plan, "cos_tab", T, "[B, sl, D]", SHAPE(batch, length, width));
    plan_input(plan, "sin_tab", T, "[B, sl, D]", SHAPE(batch, length, width));
    plan_output(plan, "q_out", T, "[B, W*sl, nh, D]",
                SHAPE(batch, run->world * length, heads, width));
    plan_output(plan, "k_out", T, "[B, W*sl, nh, D]",
                SHAPE(batch, run->world * length, heads, width));
}

/* One head of q or k of a rank, at a token (batch and place in the sequence), on all ranks. */
struct head {
    int source, which;
    int64_t token, head;
};

static void expect_head(const struct run *run, const struct head *head, struct tensor *const *in,
                        struct expected *const *out)
{
    int64_t length = run->dim[SL];
    int64_t heads = run->dim[NH];
    int64_t width = run->dim[D];
    int64_t position =
        head->token / length * run->world * length + head->source * length + head->token % length;
    const struct rotary rotary = {.x = &in[head->source][head->which],
                                  .cosines = &in[head->source][COS_TAB],
                                  .sines = &in[head->source][SIN_TAB],
                                  .head = (head->token * heads + head->head) * width,
                                  .angle = head->token * width,
                                  .width = width};

    for (int64_t d = 0; d < width; d++) {
        struct rotated rotated = rotary_element(&rotary, d);
        double bound = 1.02 * dtype_unit(run->dtype) * (rotated.magnitude + fabs(rotated.value));
        for (int rank = 0; rank < run->world; rank++) {
            expect(&out[rank][head->which], (position * heads + head->head) * width + d,
                   rotated.value, bound);
        }
    }
}

static void oracle(const struct run *run, struct tensor *const *in, struct expected *const *out)
{
    int64_t tokens = run->dim[B] * run->dim[SL];

    for (int source = 0; source < run->world; source++) {
        for (int64_t i = 0; i < tokens * run->dim[NH]; i++) {
            struct head head = {source, Q, i / run->dim[NH], i % run->dim[NH]};
            expect_head(run, &head, in, out);
            head.which = K;
            expect_head(run, &head, in, out);
        }
    }
}

static void work(const struct run *run, struct work *work)
{
    double tokens = (double)(run->dim[B] * run->dim[SL]);
    double elements = 2 * tokens * (double)(run->dim[NH] * run->dim[D]);
    double tables = 2 * tokens * (double)run->dim[D];
    double size = run_element_bytes(run);
    double peers = run->world - 1;

    *work = (struct work){
        .nvlink_out = peers * elements * size,
        .nvlink_in = peers * elements * size,
        .nvls_out = fmin(peers, 1) * elements * size,
        .nvls_in = peers * elements * size,
        .hbm_read = (elements + tables) * size,
        .hbm_write = run->world * elements * size,
        .flops_other = 3 * elements,
        .floor_in = peers * elements * run_floor_bytes(run, Q_OUT),
    };
}

static const struct tolerance tolerance = {
    .bf16 = {.a = 0.04, .r = 0.008},
    .fp16 = {.a = 0.006, .r = 0.001},
    .fp32 = {.a = 2e-6, .r = 1e-6},
};

const struct task task_rope_allgather = {
    .number = 17,
    .name = "rope_allgather",
    .summary = "Rotate queries and keys of a sequence slice, and gather both along the sequence",
    .family = "sequence-parallel",
    .params = {[B] = {"B", PARAM_INT64, "batch"},
               [S] = {"S", PARAM_INT64, "nominal sequence length"},
               [SL] = {"sl", PARAM_INT64, "local sequence length"},
               [NH] = {"nh", PARAM_INT64, "heads"},
               [D] = {"D", PARAM_INT64, "head size, even"}},
    .cases = {{.name = "check", .dim = {[B] = 3, [S] = 26, [NH] = 5, [D] = 24}},
              {.name = "bench", .dim = {[B] = 16, [S] = 16, [NH] = 8, [D] = 64}},
              {.name = "large", .dim = {[B] = 1, [S] = 8192, [NH] = 32, [D] = 128}}},
    .outputs = {[Q_OUT] = {.name = "q_out", .ranks = RANKS_SAME, .tolerance = &tolerance},
                [K_OUT] = {.name = "k_out", .ranks = RANKS_SAME, .tolerance = &tolerance}},
    .derive = derive,
    .declare = declare,
    .fill = fill_normal_inputs,
    .oracle = oracle,
    .work = work,
};
