/*
 * Tasks 001, 004 and 007: the traps of their pages are refused. The ways in which an honest kernel
 * may sum are accepted, and the margin of each (the largest error in bounds) is printed.
 */
#include "tests/answers.h"

#include "tasks/audit.h"
#include "tasks/declare.h"
#include "tasks/oracle_round.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static int64_t elements_of(const struct audit *audit)
{
    return audit->in[0][0].spec->elements;
}

static double term(const struct audit *audit, int rank, int64_t i)
{
    return tensor_get(&audit->in[rank % audit->run->world][0], i);
}

/* ---- 001, 004, 007: sums in the ways that kernels take them ---- */

/* Element i of the whole sum goes to every rank that has it. */
static void set_sum(struct audit *audit, int64_t i, double value)
{
    bool is_scattered = audit->run->task->number == 7;

    for (int rank = 0; rank < audit->run->world; rank++) {
        const struct tensor *out = &audit->out[rank][0];
        int64_t at = is_scattered ? i - rank * out->spec->elements : i;
        if (at >= 0 && at < out->spec->elements) {
            tensor_set(out, at, value);
        }
    }
}

/* Each addition rounded to T, from rank `first` on. */
static double chain(const struct audit *audit, int64_t i, int first)
{
    double sum = term(audit, first, i);

    for (int k = 1; k < audit->run->world; k++) {
        sum = dtype_round(audit->run->dtype, sum + term(audit, first + k, i));
    }
    return sum;
}

static void sum_in_fp32(struct audit *audit)
{
    for (int64_t i = 0; i < elements_of(audit); i++) {
        float sum = 0;
        for (int rank = 0; rank < audit->run->world; rank++) {
            sum += (float)term(audit, rank, i);
        }
        set_sum(audit, i, sum);
    }
}

static void sum_in_ascending_chain(struct audit *audit)
{
    for (int64_t i = 0; i < elements_of(audit); i++) {
        set_sum(audit, i, chain(audit, i, 0));
    }
}

static void sum_in_ring(struct audit *audit)
{
    int64_t chunk = elements_of(audit) / audit->run->world + 1;

    for (int64_t i = 0; i < elements_of(audit); i++) {
        set_sum(audit, i, chain(audit, i, (int)(i / chunk) + 1));
    }
}

static void sum_in_tree(struct audit *audit)
{
    for (int64_t i = 0; i < elements_of(audit); i++) {
        double part[RANKS_MAX] = {0};
        for (int rank = 0; rank < audit->run->world; rank++) {
            part[rank] = term(audit, rank, i);
        }
        for (int step = 1; step < audit->run->world; step *= 2) {
            for (int rank = 0; rank < audit->run->world; rank += 2 * step) {
                part[rank] = dtype_round(audit->run->dtype, part[rank] + part[rank + step]);
            }
        }
        set_sum(audit, i, part[0]);
    }
}

static void sum_from_own_rank(struct audit *audit)
{
    for (int rank = 0; rank < audit->run->world; rank++) {
        for (int64_t i = 0; i < elements_of(audit); i++) {
            tensor_set(&audit->out[rank][0], i, chain(audit, i, rank));
        }
    }
}

static void write_constant_sum(struct audit *audit)
{
    for (int64_t i = 0; i < elements_of(audit); i++) {
        set_sum(audit, i, audit->run->world * (audit->run->world + 1) / 2.0);
    }
}

static void sum_one_element(struct audit *audit)
{
    double sum = chain(audit, 0, 0);

    for (int64_t i = 0; i < elements_of(audit); i++) {
        set_sum(audit, i, sum);
    }
}

/* The last rank is read after its next call has overwritten its input. */
static void sum_with_overwritten_peer(struct audit *audit)
{
    struct audit next;
    int last = audit->run->world - 1;

    audit_open(&next, audit->run, audit->seed, audit->call + 1);
    for (int64_t i = elements_of(audit) - 16; i < elements_of(audit); i++) {
        double right = chain(audit, i, 0);
        set_sum(audit, i, right - term(audit, last, i) + term(&next, last, i));
    }
    audit_close(&next);
}

static const struct answer traps[] = {
    {"allreduce", "rows and columns swapped", swap_rows_and_columns, 1, NULL},
    {"allreduce", "two elements swapped", swap_two_elements, 1, NULL},
    {"allreduce", "last element unwritten", leave_last_element, 1, NULL},
    {"allreduce", "constant sum", write_constant_sum, 1, NULL},
    {"allreduce", "one element for all", sum_one_element, 1, NULL},
    {"allreduce", "a peer's input overwritten", sum_with_overwritten_peer, 1, NULL},
    {"allreduce", "sum from the own rank on", sum_from_own_rank, 4, "rounding"},
    {"reduce", "rows and columns swapped", swap_rows_and_columns, 1, NULL},
    {"reduce", "two elements swapped", swap_two_elements, 1, NULL},
    {"reduce", "last element unwritten", leave_last_element, 1, NULL},
    {"reduce", "constant sum", write_constant_sum, 1, NULL},
    {"reduce", "one element for all", sum_one_element, 1, NULL},
    {"reduce", "a peer's input overwritten", sum_with_overwritten_peer, 1, NULL},
    {"reducescatter", "rows and columns swapped", swap_rows_and_columns, 1, NULL},
    {"reducescatter", "two elements swapped", swap_two_elements, 1, NULL},
    {"reducescatter", "last element unwritten", leave_last_element, 1, NULL},
    {"reducescatter", "constant sum", write_constant_sum, 1, NULL},
    {"reducescatter", "one element for all", sum_one_element, 1, NULL},
    {"reducescatter", "a peer's input overwritten", sum_with_overwritten_peer, 1, NULL},
    {"reducescatter", "the next rank's block", take_the_next_ranks_answer, 2, NULL},
};

static const struct answer honest[] = {
    {"allreduce", "fp32 accumulation, ascending", sum_in_fp32, 1, NULL},
    {"allreduce", "chain in T, ascending", sum_in_ascending_chain, 1, NULL},
    {"allreduce", "ring in T", sum_in_ring, 1, NULL},
    {"allreduce", "tree in T", sum_in_tree, 1, NULL},
    {"reduce", "fp32 accumulation, ascending", sum_in_fp32, 1, NULL},
    {"reduce", "chain in T, ascending", sum_in_ascending_chain, 1, NULL},
    {"reduce", "ring in T", sum_in_ring, 1, NULL},
    {"reduce", "tree in T", sum_in_tree, 1, NULL},
    {"reducescatter", "fp32 accumulation, ascending", sum_in_fp32, 1, NULL},
    {"reducescatter", "chain in T, ascending", sum_in_ascending_chain, 1, NULL},
    {"reducescatter", "ring in T", sum_in_ring, 1, NULL},
    {"reducescatter", "tree in T", sum_in_tree, 1, NULL},
};

static void test_the_traps_of_the_pages_are_refused(void **state)
{
    (void)state;
    refuse_everywhere(traps, sizeof(traps) / sizeof(traps[0]));
}

static void test_honest_ways_to_compute_are_accepted(void **state)
{
    (void)state;
    accept_everywhere(honest, sizeof(honest) / sizeof(honest[0]));
}

static void test_honest_ways_are_accepted_at_the_published_size_on_eight_ranks(void **state)
{
    static const enum dtype dtypes[] = {DTYPE_BF16, DTYPE_FP16, DTYPE_FP32};

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct run_choice choice = {1, 0, 8, dtypes[i]};
        accept_at(task_find("allreduce"), &choice, honest, sizeof(honest) / sizeof(honest[0]),
                  NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_traps_of_the_pages_are_refused),
        cmocka_unit_test(test_honest_ways_to_compute_are_accepted),
        cmocka_unit_test(test_honest_ways_are_accepted_at_the_published_size_on_eight_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
