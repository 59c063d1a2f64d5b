/*
 * Task 017: the traps of its page are refused, and the roundings that an honest kernel may make are
 * accepted.
 */
#include "tests/answers.h"

#include "tasks/audit.h"
#include "tasks/declare.h"
#include "tasks/oracle_rotary.h"
#include "tasks/oracle_round.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

enum { B, S, SL, NH, D };

struct way {
    bool rounds_each, rounds_once;
    bool interleaves, has_wrong_sign;
    bool takes_batch_0, repeats_half_of_angles;
    bool gathers_batches, swaps_outputs;
};

/* Element d of a head, with whatever is wrong. */
static double rotated(const struct audit *audit, int source, int which, int64_t i,
                      const struct way *way)
{
    const struct tensor *in = audit->in[source];
    int64_t width = audit->run->dim[D];
    int64_t token = i / width / audit->run->dim[NH];
    int64_t d = i % width;
    int64_t half = width / 2;
    int64_t angle_token = way->takes_batch_0 ? token % audit->run->dim[SL] : token;
    int64_t angle = angle_token * width + (way->repeats_half_of_angles ? d % half : d);
    int64_t other = d < half ? i + half : i - half;
    bool is_negated = d < half;

    if (way->interleaves) {
        other = i ^ 1;
        is_negated = d % 2 == 0;
    }
    double sign = is_negated != way->has_wrong_sign ? -1 : 1;
    double x = tensor_get(&in[which], i) * tensor_get(&in[2], angle);
    double y = sign * tensor_get(&in[which], other) * tensor_get(&in[3], angle);
    if (way->rounds_each) {
        enum dtype dtype = audit->run->dtype;
        return dtype_round(dtype, x) + dtype_round(dtype, y);
    }
    return way->rounds_once ? (float)(x + y) : (double)((float)x + (float)y);
}

static void gather(struct audit *audit, const struct way *way)
{
    int world = audit->run->world;
    int64_t count = audit->in[0][0].spec->elements;
    int64_t slice = count / audit->run->dim[B];

    for (int64_t i = 0; i < INT64_C(2) * world * count; i++) {
        int which = (int)(i / count / world);
        int source = (int)(i / count) % world;
        int64_t from = i % count;
        int64_t to = from / slice * world * slice + source * slice + from % slice;
        double value = rotated(audit, source, way->swaps_outputs ? 1 - which : which, from, way);
        to = way->gathers_batches ? source * count + from : to;
        for (int rank = 0; rank < world; rank++) {
            tensor_set(&audit->out[rank][which], to, value);
        }
    }
}

static void round_each_step(struct audit *audit)
{
    gather(audit, &(struct way){.rounds_each = true});
}

static void round_products_in_fp32(struct audit *audit)
{
    gather(audit, &(struct way){0});
}

static void fuse(struct audit *audit)
{
    gather(audit, &(struct way){.rounds_once = true});
}

static void interleave_pairs(struct audit *audit)
{
    gather(audit, &(struct way){.interleaves = true});
}

static void negate_the_other_half(struct audit *audit)
{
    gather(audit, &(struct way){.has_wrong_sign = true});
}

static void take_angles_of_batch_0(struct audit *audit)
{
    gather(audit, &(struct way){.takes_batch_0 = true});
}

static void repeat_half_of_the_angles(struct audit *audit)
{
    gather(audit, &(struct way){.repeats_half_of_angles = true});
}

static void gather_batches(struct audit *audit)
{
    gather(audit, &(struct way){.gathers_batches = true});
}

static void swap_outputs(struct audit *audit)
{
    gather(audit, &(struct way){.swaps_outputs = true});
}

static void change_the_last_bit_on_one_rank(struct audit *audit)
{
    *(char *)audit->out[0][1].data ^= 1;
}

static const struct answer traps[] = {
    {"rope_allgather", "neighbours for halves", interleave_pairs, 1, NULL},
    {"rope_allgather", "the other half negated", negate_the_other_half, 1, NULL},
    {"rope_allgather", "angles of batch 0", take_angles_of_batch_0, 1, NULL},
    {"rope_allgather", "half of the angles", repeat_half_of_the_angles, 1, NULL},
    {"rope_allgather", "gathered along the batch", gather_batches, 2, NULL},
    {"rope_allgather", "q and k swapped", swap_outputs, 1, NULL},
    {"rope_allgather", "a bit that differs", change_the_last_bit_on_one_rank, 2, NULL},
    {"rope_allgather", "last element unwritten", leave_last_element, 1, NULL},
};

static const struct answer honest[] = {
    {"rope_allgather", "products and sum in T", round_each_step, 1, NULL},
    {"rope_allgather", "products in fp32", round_products_in_fp32, 1, NULL},
    {"rope_allgather", "fused", fuse, 1, NULL},
};

static void test_the_traps_of_the_page_are_refused(void **state)
{
    (void)state;
    refuse_everywhere(traps, sizeof(traps) / sizeof(traps[0]));
}

static void test_honest_ways_to_compute_are_accepted(void **state)
{
    (void)state;
    accept_everywhere(honest, sizeof(honest) / sizeof(honest[0]));
}

/* What the source computes, to the last bit. */
static void test_rounding_each_step_gives_the_bits_of_the_source(void **state)
{
    struct run_choice choice = {.case_index = 0, .world = 1, .dtype = DTYPE_BF16};
    struct error err = {0};
    struct run *run = NULL;
    struct audit audit;

    (void)state;
    assert_int_equal(run_open(&run, task_find("rope_allgather"), &choice, &err), OK);
    audit_open(&audit, run, 3, 0);
    round_each_step(&audit);
    for (int64_t i = 0; i < audit.out[0][0].spec->elements; i++) {
        int64_t width = run->dim[D];
        struct rotary rotary = {&audit.in[0][0],
                                &audit.in[0][2],
                                &audit.in[0][3],
                                i / width * width,
                                i / width / run->dim[NH] * width,
                                width};
        assert_true(tensor_get(&audit.out[0][0], i) == rotary_element_rounded(&rotary, i % width));
    }
    audit_close(&audit);
    run_close(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_traps_of_the_page_are_refused),
        cmocka_unit_test(test_honest_ways_to_compute_are_accepted),
        cmocka_unit_test(test_rounding_each_step_gives_the_bits_of_the_source),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
