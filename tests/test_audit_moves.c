/* Tasks 002, 003, 005, 006 and 008: the traps of their pages, as answers, are refused. */
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
        if (out->data != NULL) {
            memset((char *)out->data + (size_t)rank * bytes, AUDIT_POISON, bytes);
        }
    }
}

static void keep_one_block_of_the_call_before(struct audit *audit)
{
    struct audit before;
    int last = audit->run->world - 1;

    audit_open(&before, audit->run, audit->seed, audit->call - 1);
    audit_write(&before, AUDIT_RIGHT);
    set_block(audit, last, last, &before.out[last][0], last);
    audit_close(&before);
}

static void rotate_blocks(struct audit *audit)
{
    struct audit right;
    int world = audit->run->world;

    audit_open(&right, audit->run, audit->seed, audit->call);
    audit_write(&right, AUDIT_RIGHT);
    for (int rank = 0; rank < world; rank++) {
        for (int s = 0; s < world && right.out[rank][0].data != NULL; s++) {
            set_block(audit, rank, (s + 1) % world, &right.out[rank][0], s);
        }
    }
    audit_close(&right);
}

/* What the source's constants would make right, without any communication. */
static void write_constants(struct audit *audit)
{
    for (int rank = 0; rank < audit->run->world; rank++) {
        const struct tensor *out = &audit->out[rank][0];
        int64_t block = out->spec->elements / audit->run->world;
        for (int64_t i = 0; i < out->spec->elements; i++) {
            static const int values[] = {[2] = 1, [3] = 1, [5] = 1, [6] = 1, [8] = 0};
            int number = audit->run->task->number;
            int64_t slot = number == 3 || number == 5 ? 0 : i / block;
            tensor_set(out, i,
                       (double)(values[number] + (number == 8 ? 10 : 1) * slot +
                                (number == 5 || number == 8 ? rank : 0)));
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

/* ---- 003, 005, 007: another rank's block ---- */

static void take_the_input_of_rank_0(struct audit *audit)
{
    for (int rank = 0; rank < audit->run->world; rank++) {
        const struct tensor *out = &audit->out[rank][0];
        memcpy(out->data, audit->in[0][0].data, out->spec->size_bytes);
    }
}

/* A forwarder that sends its last chunk before it has arrived. */
static void keep_the_end_of_the_call_before(struct audit *audit)
{
    struct audit before;
    const struct tensor *out = &audit->out[audit->run->world - 1][0];
    size_t kept = out->spec->size_bytes - out->spec->size_bytes / 16;

    audit_open(&before, audit->run, audit->seed, audit->call - 1);
    audit_write(&before, AUDIT_RIGHT);
    memcpy((char *)out->data + kept, (const char *)before.out[audit->run->world - 1][0].data + kept,
           out->spec->size_bytes - kept);
    audit_close(&before);
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

static const struct answer traps[] = {
    {"allgather", "rows and columns swapped", swap_rows_and_columns, 1, NULL},
    {"allgather", "two elements swapped", swap_two_elements, 1, NULL},
    {"allgather", "last element unwritten", leave_last_element, 1, NULL},
    {"allgather", "constants", write_constants, 1, NULL},
    {"allgather", "numbers moved, not bytes", move_numbers, 1, "bits"},
    {"allgather", "a stale end", keep_the_end_of_the_call_before, 1, NULL},
    {"allgather", "own block unwritten", leave_own_block, 1, NULL},
    {"allgather", "blocks rotated", rotate_blocks, 2, NULL},
    {"allgather", "a stale block", keep_one_block_of_the_call_before, 1, NULL},
    {"broadcast", "rows and columns swapped", swap_rows_and_columns, 1, NULL},
    {"broadcast", "two elements swapped", swap_two_elements, 1, NULL},
    {"broadcast", "last element unwritten", leave_last_element, 1, NULL},
    {"broadcast", "constants", write_constants, 1, NULL},
    {"broadcast", "numbers moved, not bytes", move_numbers, 1, "bits"},
    {"broadcast", "a stale end", keep_the_end_of_the_call_before, 1, NULL},
    {"broadcast", "rank 0 taken for the root", take_the_input_of_rank_0, 2, NULL},
    {"scatter", "rows and columns swapped", swap_rows_and_columns, 1, NULL},
    {"scatter", "two elements swapped", swap_two_elements, 1, NULL},
    {"scatter", "last element unwritten", leave_last_element, 1, NULL},
    {"scatter", "constants", write_constants, 1, NULL},
    {"scatter", "numbers moved, not bytes", move_numbers, 1, "bits"},
    {"scatter", "a stale end", keep_the_end_of_the_call_before, 1, NULL},
    {"scatter", "the next rank's block", take_the_next_ranks_answer, 2, NULL},
    {"gather", "rows and columns swapped", swap_rows_and_columns, 1, NULL},
    {"gather", "two elements swapped", swap_two_elements, 1, NULL},
    {"gather", "last element unwritten", leave_last_element, 1, NULL},
    {"gather", "constants", write_constants, 1, NULL},
    {"gather", "numbers moved, not bytes", move_numbers, 1, "bits"},
    {"gather", "a stale end", keep_the_end_of_the_call_before, 1, NULL},
    {"gather", "own block unwritten", leave_own_block, 1, NULL},
    {"gather", "blocks rotated", rotate_blocks, 2, NULL},
    {"gather", "a stale block", keep_one_block_of_the_call_before, 1, NULL},
    {"alltoall", "rows and columns swapped", swap_rows_and_columns, 1, NULL},
    {"alltoall", "two elements swapped", swap_two_elements, 1, NULL},
    {"alltoall", "last element unwritten", leave_last_element, 1, NULL},
    {"alltoall", "constants", write_constants, 1, NULL},
    {"alltoall", "numbers moved, not bytes", move_numbers, 1, "bits"},
    {"alltoall", "a stale end", keep_the_end_of_the_call_before, 1, NULL},
    {"alltoall", "own block unwritten", leave_own_block, 1, NULL},
    {"alltoall", "blocks rotated", rotate_blocks, 2, NULL},
    {"alltoall", "a stale block", keep_one_block_of_the_call_before, 1, NULL},
    {"alltoall", "the sender's own number sent", send_own_number, 2, NULL},
    {"alltoall", "stored at the receiver's number", store_at_destination_number, 2, NULL},
    {"alltoall", "exchanged with one peer only", exchange_with_one_peer, 4, NULL},
};

static void test_the_traps_of_the_pages_are_refused(void **state)
{
    (void)state;
    refuse_everywhere(traps, sizeof(traps) / sizeof(traps[0]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_traps_of_the_pages_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
