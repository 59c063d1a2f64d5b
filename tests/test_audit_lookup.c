/* Task 010: the traps of its page are refused. */
#include "tests/answers.h"

#include "tasks/audit.h"
#include "tasks/declare.h"
#include "tasks/oracle_group.h"
#include "tasks/oracle_round.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS, D, Q, ORDER };

static int64_t owner_of(const struct audit *audit, int rank, int64_t i)
{
    return tensor_get_integer(&audit->in[rank][0], i) / audit->run->dim[ROWS];
}

/* Output row `to` becomes what request i asks for, taken from `owner`, `shift` rows further on. */
struct fetch {
    int64_t to, i, owner, shift;
};

static void fetch_row(struct audit *audit, int rank, const struct fetch *fetch)
{
    const struct tensor *table = &audit->in[fetch->owner][1];
    size_t bytes = (size_t)audit->run->dim[D] * dtype_size_bytes(audit->run->dtype);
    int64_t row = tensor_get_integer(&audit->in[rank][0], fetch->i) + fetch->shift;

    memcpy((char *)audit->out[rank][0].data + (size_t)fetch->to * bytes,
           (const char *)table->data + (size_t)(row % audit->run->dim[ROWS]) * bytes, bytes);
    tensor_set_integer(&audit->out[rank][1], fetch->to, fetch->i);
}

/* Every output row in the given order of requests. */
static void fetch_all(struct audit *audit, int rank, const int64_t *order)
{
    for (int64_t i = 0; i < audit->run->dim[Q]; i++) {
        fetch_row(audit, rank, &(struct fetch){i, order[i], owner_of(audit, rank, order[i]), 0});
    }
}

static void take_the_other_order(struct audit *audit)
{
    int64_t owner[64];
    int64_t order[64];

    for (int rank = 0; rank < audit->run->world; rank++) {
        for (int64_t i = 0; i < audit->run->dim[Q]; i++) {
            owner[i] = owner_of(audit, rank, i);
            order[i] = i;
        }
        if (audit->run->dim[ORDER] == 1) {
            group_by_owner(owner, audit->run->dim[Q], audit->run->world, order);
        }
        fetch_all(audit, rank, order);
    }
}

/* Grouped, but the requests of an owner in reverse, as atomic counters may place them. */
static void group_unstably(struct audit *audit)
{
    int64_t owner[64];
    int64_t order[64];
    int64_t last = audit->run->dim[Q] - 1;

    for (int rank = 0; rank < audit->run->world; rank++) {
        for (int64_t i = 0; i <= last; i++) {
            owner[i] = owner_of(audit, rank, last - i);
        }
        group_by_owner(owner, last + 1, audit->run->world, order);
        for (int64_t i = 0; i <= last; i++) {
            order[i] = last - order[i];
        }
        fetch_all(audit, rank, order);
    }
}

static void change_each_row(struct audit *audit, int64_t shift, bool is_local)
{
    for (int rank = 0; rank < audit->run->world; rank++) {
        for (int64_t to = 0; to < audit->run->dim[Q]; to++) {
            int64_t i = tensor_get_integer(&audit->out[rank][1], to);
            int64_t owner = is_local ? rank : owner_of(audit, rank, i);
            fetch_row(audit, rank, &(struct fetch){to, i, owner, shift});
        }
    }
}

static void take_the_next_row(struct audit *audit)
{
    change_each_row(audit, 1, false);
}

static void take_rows_of_the_own_table(struct audit *audit)
{
    change_each_row(audit, 0, true);
}

/* What one owner has beyond twice the average is lost. */
static void lose_what_exceeds_the_average(struct audit *audit)
{
    size_t bytes = (size_t)audit->run->dim[D] * dtype_size_bytes(audit->run->dtype);

    for (int rank = 0; rank < audit->run->world; rank++) {
        int64_t count[RANKS_MAX] = {0};
        for (int64_t to = 0; to < audit->run->dim[Q]; to++) {
            int64_t i = tensor_get_integer(&audit->out[rank][1], to);
            if (++count[owner_of(audit, rank, i)] > 2 * audit->run->dim[Q] / audit->run->world) {
                memset((char *)audit->out[rank][0].data + (size_t)to * bytes, 0, bytes);
            }
        }
    }
}

/* Rows in pieces of 16 bytes: at the check size the last 8 bytes are left. */
static void copy_in_large_pieces(struct audit *audit)
{
    size_t bytes = (size_t)audit->run->dim[D] * dtype_size_bytes(audit->run->dtype);
    char *data = audit->out[0][0].data;

    for (int64_t i = 0; i < audit->run->dim[Q]; i++) {
        memset(data + (size_t)i * bytes + bytes / 16 * 16, AUDIT_POISON, bytes % 16);
    }
}

static void forget_perm(struct audit *audit)
{
    memset(audit->out[0][1].data, AUDIT_POISON, audit->out[0][1].spec->size_bytes);
}

static const struct answer traps[] = {
    {"embedding_lookup", "the other order", take_the_other_order, 2, NULL},
    {"embedding_lookup", "unstable groups", group_unstably, 1, NULL},
    {"embedding_lookup", "the next row", take_the_next_row, 1, NULL},
    {"embedding_lookup", "rows of the own table", take_rows_of_the_own_table, 2, NULL},
    {"embedding_lookup", "room for the average", lose_what_exceeds_the_average, 4, "skewed"},
    {"embedding_lookup", "pieces of 16 bytes", copy_in_large_pieces, 1, NULL},
    {"embedding_lookup", "no perm", forget_perm, 1, NULL},
    {"embedding_lookup", "last element unwritten", leave_last_element, 1, NULL},
    {"embedding_lookup", "the next rank's answer", take_the_next_ranks_answer, 2, NULL},
};

static void test_the_traps_of_the_page_are_refused(void **state)
{
    (void)state;
    refuse_everywhere(traps, sizeof(traps) / sizeof(traps[0]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_traps_of_the_page_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
