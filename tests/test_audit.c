/*
 * The traps of each page as answers made on the CPU: each is refused. The ways in which an honest
 * kernel may compute: each is accepted, and its margin (the largest error in bounds) is printed.
 */
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

/* One answer of a task: `write` fills the outputs, which hold the right answer. */
struct answer {
    const char *task, *name;
    void (*write)(struct audit *audit);
    int world_min;       /* in smaller worlds it is right */
    const char *variant; /* where only one variant tells; NULL: all */
};

static int64_t elements_of(const struct audit *audit)
{
    return audit->in[0][0].spec->elements;
}

static double term(const struct audit *audit, int rank, int64_t i)
{
    return tensor_get(&audit->in[rank % audit->run->world][0], i);
}

/* ---- 001: sums in the ways that kernels take them ---- */

static void set_on_all(struct audit *audit, int64_t i, double value)
{
    for (int rank = 0; rank < audit->run->world; rank++) {
        tensor_set(&audit->out[rank][0], i, value);
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
        set_on_all(audit, i, sum);
    }
}

static void sum_in_ascending_chain(struct audit *audit)
{
    for (int64_t i = 0; i < elements_of(audit); i++) {
        set_on_all(audit, i, chain(audit, i, 0));
    }
}

static void sum_in_ring(struct audit *audit)
{
    int64_t chunk = elements_of(audit) / audit->run->world + 1;

    for (int64_t i = 0; i < elements_of(audit); i++) {
        set_on_all(audit, i, chain(audit, i, (int)(i / chunk) + 1));
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
        set_on_all(audit, i, part[0]);
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
        set_on_all(audit, i, audit->run->world * (audit->run->world + 1) / 2.0);
    }
}

static void sum_one_element(struct audit *audit)
{
    double sum = chain(audit, 0, 0);

    for (int64_t i = 0; i < elements_of(audit); i++) {
        set_on_all(audit, i, sum);
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
        set_on_all(audit, i, right - term(audit, last, i) + term(&next, last, i));
    }
    audit_close(&next);
}

/* ---- any output: wrong places ---- */

static void copy_element(const struct tensor *to, int64_t i, const struct tensor *from, int64_t k)
{
    size_t size_bytes = dtype_size_bytes(to->spec->dtype);
    memcpy((char *)to->data + (size_t)i * size_bytes,
           (const char *)from->data + (size_t)k * size_bytes, size_bytes);
}

/* Rows and columns of the last two dimensions swapped, in the first block of the last rank. */
static void swap_rows_and_columns(struct audit *audit)
{
    struct audit right;
    const struct tensor *out = &audit->out[audit->run->world - 1][0];
    int64_t rows = out->spec->shape[out->spec->dims - 2];
    int64_t columns = out->spec->shape[out->spec->dims - 1];

    audit_open(&right, audit->run, audit->seed, audit->call);
    audit_write(&right, AUDIT_RIGHT);
    for (int64_t i = 0; i < rows * columns; i++) {
        copy_element(out, i, &right.out[audit->run->world - 1][0], i % rows * columns + i / rows);
    }
    audit_close(&right);
}

static void leave_last_element(struct audit *audit)
{
    const struct tensor *out = &audit->out[0][0];
    size_t size_bytes = dtype_size_bytes(out->spec->dtype);

    memset((char *)out->data + out->spec->size_bytes - size_bytes, AUDIT_POISON, size_bytes);
}

/* Neighbouring elements swapped where they differ: once, on one rank. */
static void swap_two_elements(struct audit *audit)
{
    const struct tensor *out = &audit->out[audit->run->world - 1][0];
    size_t size_bytes = dtype_size_bytes(out->spec->dtype);
    char *data = out->data;
    char kept[16];

    while (memcmp(data, data + size_bytes, size_bytes) == 0) {
        data += size_bytes;
    }
    memcpy(kept, data, size_bytes);
    memmove(data, data + size_bytes, size_bytes);
    memcpy(data + size_bytes, kept, size_bytes);
}

/* Block `to` of rank `rank`'s output becomes block `block` of a tensor. */
static void set_block(struct audit *audit, int rank, int to, const struct tensor *from, int block)
{
    const struct tensor *out = &audit->out[rank][0];
    size_t bytes = (size_t)(out->spec->size_bytes / (uint64_t)out->spec->shape[0]);

    memcpy((char *)out->data + (size_t)to * bytes, (const char *)from->data + (size_t)block * bytes,
           bytes);
}

static void leave_own_block(struct audit *audit)
{
    for (int rank = 0; rank < audit->run->world; rank++) {
        const struct tensor *out = &audit->out[rank][0];
        size_t bytes = (size_t)out->spec->size_bytes / (size_t)audit->run->world;
        memset((char *)out->data + (size_t)rank * bytes, AUDIT_POISON, bytes);
    }
}

static void keep_one_block_of_the_call_before(struct audit *audit)
{
    struct audit before;
    int last = audit->run->world - 1;

    audit_open(&before, audit->run, audit->seed, audit->call - 1);
    audit_write(&before, AUDIT_RIGHT);
    set_block(audit, 0, last, &before.out[0][0], last);
    audit_close(&before);
}

static void rotate_blocks(struct audit *audit)
{
    struct audit right;
    int world = audit->run->world;

    audit_open(&right, audit->run, audit->seed, audit->call);
    audit_write(&right, AUDIT_RIGHT);
    for (int rank = 0; rank < world; rank++) {
        for (int s = 0; s < world; s++) {
            set_block(audit, rank, (s + 1) % world, &right.out[rank][0], s);
        }
    }
    audit_close(&right);
}

/* Slots s + 1 and 10 s + r: what the source's constants would make right. */
static void write_constants(struct audit *audit)
{
    bool is_gather = audit->run->task->number == 2;

    for (int rank = 0; rank < audit->run->world; rank++) {
        const struct tensor *out = &audit->out[rank][0];
        for (int64_t i = 0; i < out->spec->elements; i++) {
            int64_t s = i / (out->spec->elements / audit->run->world);
            tensor_set(out, i, (double)(is_gather ? s + 1 : 10 * s + rank));
        }
    }
}

/* As if numbers had been moved: fp32 in between turns a NaN into the canonical one. */
static void move_numbers(struct audit *audit)
{
    for (int rank = 0; rank < audit->run->world; rank++) {
        const struct tensor *out = &audit->out[rank][0];
        for (int64_t i = 0; i < out->spec->elements; i++) {
            tensor_set(out, i, tensor_get(out, i));
        }
    }
}

/* ---- 008: wrong blocks ---- */

static void send_own_number(struct audit *audit) /* y[s] = x_s[s] */
{
    for (int rank = 0; rank < audit->run->world; rank++) {
        for (int s = 0; s < audit->run->world; s++) {
            set_block(audit, rank, s, &audit->in[s][0], s);
        }
    }
}

static void
store_at_destination_number(struct audit *audit) /* y[r] from everybody, the last wins */
{
    audit_poison(audit);
    for (int rank = 0; rank < audit->run->world; rank++) {
        for (int s = 0; s < audit->run->world; s++) {
            set_block(audit, rank, rank, &audit->in[s][0], rank);
        }
    }
}

/* Pairs by rank ^ 1 only, the rest copied locally: right in a world of 2. */
static void exchange_with_one_peer(struct audit *audit)
{
    for (int rank = 0; rank < audit->run->world; rank++) {
        for (int s = 0; s < audit->run->world; s++) {
            if (s != rank && s != (rank ^ 1)) {
                set_block(audit, rank, s, &audit->in[rank][0], s);
            }
        }
    }
}

/* ---- the tables ---- */

static const struct answer traps[] = {
    {"allreduce", "constant sum", write_constant_sum, 1, NULL},
    {"allreduce", "one element for all", sum_one_element, 1, NULL},
    {"allreduce", "rows and columns swapped", swap_rows_and_columns, 1, NULL},
    {"allreduce", "two elements swapped", swap_two_elements, 1, NULL},
    {"allreduce", "last element unwritten", leave_last_element, 1, NULL},
    {"allreduce", "sum from the own rank on", sum_from_own_rank, 4, "rounding"},
    {"allreduce", "a peer's input overwritten", sum_with_overwritten_peer, 1, NULL},
    {"allgather", "constants", write_constants, 1, NULL},
    {"allgather", "rows and columns swapped", swap_rows_and_columns, 1, NULL},
    {"allgather", "two elements swapped", swap_two_elements, 1, NULL},
    {"allgather", "last element unwritten", leave_last_element, 1, NULL},
    {"allgather", "own slot unwritten", leave_own_block, 1, NULL},
    {"allgather", "slots rotated", rotate_blocks, 2, NULL},
    {"allgather", "a stale slot", keep_one_block_of_the_call_before, 1, NULL},
    {"allgather", "numbers moved, not bytes", move_numbers, 1, "bits"},
    {"alltoall", "constants", write_constants, 1, NULL},
    {"alltoall", "rows and columns swapped", swap_rows_and_columns, 1, NULL},
    {"alltoall", "two elements swapped", swap_two_elements, 1, NULL},
    {"alltoall", "last element unwritten", leave_last_element, 1, NULL},
    {"alltoall", "own block unwritten", leave_own_block, 1, NULL},
    {"alltoall", "blocks rotated", rotate_blocks, 2, NULL},
    {"alltoall", "a stale block", keep_one_block_of_the_call_before, 1, NULL},
    {"alltoall", "numbers moved, not bytes", move_numbers, 1, "bits"},
    {"alltoall", "the sender's own number sent", send_own_number, 2, NULL},
    {"alltoall", "stored at the receiver's number", store_at_destination_number, 2, NULL},
    {"alltoall", "exchanged with one peer only", exchange_with_one_peer, 4, NULL},
};

static const struct answer honest[] = {
    {"allreduce", "fp32 accumulation, ascending", sum_in_fp32, 1, NULL},
    {"allreduce", "chain in T, ascending", sum_in_ascending_chain, 1, NULL},
    {"allreduce", "ring in T", sum_in_ring, 1, NULL},
    {"allreduce", "tree in T", sum_in_tree, 1, NULL},
};

static const enum dtype dtypes[] = {DTYPE_BF16, DTYPE_FP16, DTYPE_FP32};

/* The verdict on one answer; its margin too where asked for. */
static enum judgement judge_answer(const struct answer *answer, const struct run_choice *choice,
                                   double *margin)
{
    const struct task *task = task_find(answer->task);
    struct verdict_detail detail;
    struct error err = {0};
    struct run *run = NULL;
    struct audit audit;

    assert_int_equal(run_open(&run, task, choice, &err), OK);
    audit_open(&audit, run, 31, 4);
    audit_write(&audit, AUDIT_RIGHT);
    answer->write(&audit);
    enum judgement judgement = audit_judge(&audit, &detail);
    if (margin != NULL) {
        *margin = audit_margin(&audit);
    }
    audit_close(&audit);
    run_close(run);
    return judgement;
}

static void refuse_everywhere(const struct answer *trap)
{
    const struct task *task = task_find(trap->task);

    for (int i = 0; i < task_variant_count(task, 0) * 12; i++) {
        struct run_choice choice = {0, i / 12, 1 << (i / 3 % 4), dtypes[i % 3]};
        const char *variant = task_variant_name(task, 0, choice.variant);
        if (choice.world < trap->world_min ||
            (trap->variant != NULL && strcmp(trap->variant, variant) != 0)) {
            continue;
        }
        if (judge_answer(trap, &choice, NULL) == JUDGED_RIGHT) {
            fail_msg("%s, %s, world %d, %s: '%s' is accepted", trap->task, variant, choice.world,
                     dtype_name(choice.dtype), trap->name);
        }
    }
}

static void test_the_traps_of_the_pages_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(traps) / sizeof(traps[0]); i++) {
        refuse_everywhere(&traps[i]);
    }
}

static void accept(const struct answer *answer, const struct run_choice *choice)
{
    const struct task *task = task_find(answer->task);
    double margin = 0;
    enum judgement judgement = judge_answer(answer, choice, &margin);

    if (margin > 0) {
        print_message("# margin %.3f: %s %s %s, world %d, %s, %s\n", margin, answer->task,
                      task_case_name(task, choice->case_index),
                      task_variant_name(task, choice->case_index, choice->variant), choice->world,
                      dtype_name(choice->dtype), answer->name);
    }
    assert_int_equal(judgement, JUDGED_RIGHT);
}

static void test_honest_ways_to_compute_are_accepted(void **state)
{
    (void)state;
    for (size_t a = 0; a < sizeof(honest) / sizeof(honest[0]); a++) {
        for (int i = 0; i < task_variant_count(task_find(honest[a].task), 0) * 12; i++) {
            struct run_choice choice = {0, i / 12, 1 << (i / 3 % 4), dtypes[i % 3]};
            accept(&honest[a], &choice);
        }
    }
}

static void test_honest_ways_are_accepted_at_the_published_size_on_eight_ranks(void **state)
{
    (void)state;
    for (size_t a = 0; a < sizeof(honest) / sizeof(honest[0]); a++) {
        for (int i = 0; i < 3; i++) {
            struct run_choice choice = {1, 0, 8, dtypes[i]};
            accept(&honest[a], &choice);
        }
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
