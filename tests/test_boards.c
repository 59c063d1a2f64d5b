/* Boards: who is ranked where, what is only listed, history, and models over all tasks. */
#include "server/boards.h"

#include "server/jobs.h"
#include "server/results.h"
#include "server/submissions.h"
#include "server/tokens.h"

#include <setjmp.h>
#include <sodium.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct fixture {
    struct db *db;
    struct error err;
    char token[TOKEN_ID_MAX];
    int results;
};

static struct fixture fixture;

static int set_up(void **state)
{
    struct token token = {.role = ROLE_SUBMITTER, .name = "sam"};
    char text[TOKEN_TEXT_MAX];

    (void)state;
    fixture = (struct fixture){0};
    assert_int_equal(db_open(&fixture.db, ":memory:", DB_CREATE, &fixture.err), OK);
    assert_int_equal(token_add(fixture.db, &token, 1, text, &fixture.err), OK);
    memcpy(fixture.token, token.id, sizeof fixture.token);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    db_close(fixture.db);
    return 0;
}

static void submit(const char *id, const char *model, int task)
{
    struct submission submission = {.task_number = task, .owner = "sam", .created_ms = 1};

    (void)snprintf(submission.id, sizeof submission.id, "%s", id);
    (void)snprintf(submission.model, sizeof submission.model, "%s", model);
    assert_int_equal(submission_add(fixture.db, &submission, fixture.token, "x", 1, &fixture.err),
                     OK);
}

struct outcome_row {
    const char *submission;
    int task;
    double median_us, low_us, high_us;
    const char *worker; /* NULL: ada */
    const char *gpu;    /* NULL: H200 */
    enum device_kind device;
    enum verdict verdict;
    bool is_insecure;
};

#define ROW(id, number, median, low, high)                                                         \
    .submission = (id), .task = (number), .median_us = (median), .low_us = (low), .high_us = (high)

/* Results are younger the later they are stored: job_1 at 1 ms, ... */
static void store(const struct outcome_row *row)
{
    struct job job = {.world = 4,
                      .dtype = DTYPE_BF16,
                      .device = row->device,
                      .task_number = row->task,
                      .queued_ms = 1};
    struct facts facts = {.verdict = row->verdict,
                          .is_insecure = row->is_insecure,
                          .median_us = row->median_us,
                          .low_us = row->low_us,
                          .high_us = row->high_us,
                          .baseline_us = 100,
                          .speedup = row->median_us > 0 ? 100 / row->median_us : 0,
                          .is_faster = row->high_us < 100,
                          .peer_bytes = 64};
    struct result_row result = {.job = &job,
                                .worker = row->worker == NULL ? "ada" : row->worker,
                                .epoch = 1,
                                .finished_ms = ++fixture.results,
                                .facts = &facts,
                                .json = "{}"};

    (void)snprintf(facts.reason, sizeof facts.reason, "%s",
                   row->verdict == VERDICT_SUSPECT ? "floor" : "");
    if (row->device != DEVICE_SIM) {
        (void)snprintf(facts.gpu, sizeof facts.gpu, "%s", row->gpu == NULL ? "H200" : row->gpu);
    }
    (void)snprintf(job.id, sizeof job.id, "job_%d", fixture.results);
    (void)snprintf(job.submission_id, sizeof job.submission_id, "%s", row->submission);
    assert_int_equal(job_add(fixture.db, &job, 1, &fixture.err), OK);
    assert_int_equal(result_add(fixture.db, &result, &fixture.err), OK);
}

static void make(struct board *board, enum device_kind device, const char *gpu)
{
    *board = (struct board){.world = 4, .dtype = DTYPE_BF16, .device = device, .task = "t"};
    (void)snprintf(board->gpu, sizeof board->gpu, "%s", gpu);
    assert_int_equal(board_make(fixture.db, 1, board, &fixture.err), OK);
}

static void assert_row(const struct board *board, size_t i, int rank, const char *submission)
{
    assert_true(i < board->row_count);
    assert_string_equal(board->rows[i].submission_id, submission);
    assert_int_equal(board->rows[i].rank, rank);
}

static void test_who_is_within_the_leaders_interval_shares_its_rank(void **state)
{
    struct board board;

    (void)state;
    for (int i = 0; i < 5; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "sub_%d", i);
        submit(id, "m", 1);
    }
    store(&(struct outcome_row){ROW("sub_3", 1, 30, 29, 31)});
    store(&(struct outcome_row){ROW("sub_1", 1, 10.5, 9.9, 11)});
    store(&(struct outcome_row){ROW("sub_0", 1, 10, 9, 10)});
    store(&(struct outcome_row){ROW("sub_2", 1, 10.9, 10.5, 12)}); /* meets sub_1, not the leader */
    store(&(struct outcome_row){ROW("sub_4", 1, 31.5, 31, 32)});
    make(&board, DEVICE_CUDA, "");
    assert_string_equal(board.gpu, "H200");
    assert_int_equal(board.row_count, 5);
    assert_row(&board, 0, 1, "sub_0");
    assert_row(&board, 1, 1, "sub_1");
    assert_row(&board, 2, 3, "sub_2");
    assert_row(&board, 3, 4, "sub_3");
    assert_row(&board, 4, 4, "sub_4");
    assert_true(board.rows[0].is_faster);
    assert_true(board.rows[0].speedup == 10);
    board_release(&board);
}

static void test_a_submission_has_the_median_of_its_runs(void **state)
{
    struct board board;

    (void)state;
    submit("sub_a", "m", 1);
    submit("sub_b", "m", 1);
    store(&(struct outcome_row){ROW("sub_a", 1, 12, 11, 13)});
    store(&(struct outcome_row){ROW("sub_a", 1, 5, 4, 6), .worker = "bob"}); /* a lucky one */
    store(&(struct outcome_row){ROW("sub_a", 1, 11, 10, 12)});
    store(&(struct outcome_row){ROW("sub_b", 1, 7, 6, 8)});
    make(&board, DEVICE_CUDA, "H200");
    assert_int_equal(board.row_count, 2);
    assert_row(&board, 0, 1, "sub_b");
    assert_row(&board, 1, 2, "sub_a");
    assert_true(board.rows[1].median_us == 11);
    assert_int_equal(board.rows[1].runs, 3);
    assert_true(board.rows[1].is_verified); /* two nodes */
    assert_false(board.rows[0].is_verified);
    board_release(&board);
}

static void test_what_is_in_doubt_is_listed_without_a_rank(void **state)
{
    static const struct {
        const char *id, *mark, *reason;
    } rows[] = {{"sub_disq", "disqualified", "copied"},
                {"sub_insecure", "insecure", ""},
                {"sub_suspect", "suspect", "floor"},
                {"sub_untimed", "untimed", ""}};
    struct board board;
    int found = 0;

    (void)state;
    submit("sub_ok", "m", 1);
    for (size_t i = 0; i < 4; i++) {
        submit(rows[i].id, "m", 1);
    }
    store(&(struct outcome_row){ROW("sub_disq", 1, 1, 1, 1)});
    store(&(struct outcome_row){ROW("sub_insecure", 1, 2, 2, 2), .is_insecure = true});
    store(&(struct outcome_row){ROW("sub_suspect", 1, 3, 3, 3), .verdict = VERDICT_SUSPECT});
    store(&(struct outcome_row){ROW("sub_untimed", 1, 0, 0, 0)});
    store(&(struct outcome_row){ROW("sub_ok", 1, 20, 19, 21)});
    store(&(struct outcome_row){ROW("sub_ok", 1, 4, 4, 4), .verdict = VERDICT_SUSPECT});
    store(&(struct outcome_row){ROW("sub_ok", 1, 5, 5, 5), .verdict = VERDICT_WRONG_ANSWER});
    assert_int_equal(submission_disqualify(fixture.db, "sub_disq", "copied", &fixture.err), OK);
    make(&board, DEVICE_CUDA, "");
    assert_int_equal(board.row_count, 5);
    assert_row(&board, 0, 1, "sub_ok");
    assert_true(board.rows[0].median_us == 20);
    for (size_t i = 1; i < 5; i++) {
        for (size_t k = 0; k < 4; k++) {
            if (strcmp(board.rows[i].submission_id, rows[k].id) == 0) {
                assert_int_equal(board.rows[i].rank, 0);
                assert_string_equal(board.rows[i].mark, rows[k].mark);
                assert_string_equal(board.rows[i].reason, rows[k].reason);
                found++;
            }
        }
    }
    assert_int_equal(found, 4);
    board_release(&board);
    assert_int_equal(submission_disqualify(fixture.db, "sub_disq", "", &fixture.err), OK);
    make(&board, DEVICE_CUDA, "");
    assert_row(&board, 0, 1, "sub_disq");
    board_release(&board);
}

static void test_boards_of_different_gpus_and_devices_never_mix(void **state)
{
    struct board board;

    (void)state;
    submit("sub_a", "m", 1);
    store(&(struct outcome_row){ROW("sub_a", 1, 9, 8, 10), .gpu = "A100"});
    store(&(struct outcome_row){ROW("sub_a", 1, 5, 4, 6)});
    store(&(struct outcome_row){ROW("sub_a", 1, 5, 4, 6)});
    store(&(struct outcome_row){ROW("sub_a", 1, 7, 6, 8), .device = DEVICE_CUDA_SHARED});
    store(&(struct outcome_row){ROW("sub_a", 1, 0, 0, 0), .device = DEVICE_SIM});
    store(&(struct outcome_row){ROW("sub_a", 1, 0, 0, 0), .device = DEVICE_SIM});
    make(&board, DEVICE_CUDA, "A100");
    assert_int_equal(board.row_count, 1);
    assert_true(board.rows[0].median_us == 9);
    board_release(&board);
    make(&board, DEVICE_CUDA, "");
    assert_string_equal(board.gpu, "H200"); /* it has more */
    assert_int_equal(board.rows[0].runs, 2);
    board_release(&board);
    make(&board, DEVICE_CUDA_SHARED, "");
    assert_row(&board, 0, 0, "sub_a");
    assert_string_equal(board.rows[0].mark, "shared");
    assert_true(board.rows[0].median_us == 7);
    board_release(&board);
    make(&board, DEVICE_SIM, "");
    assert_int_equal(board.row_count, 2); /* each result, in the order of acceptance */
    assert_row(&board, 0, 1, "sub_a");
    assert_string_equal(board.rows[0].job_id, "job_5");
    assert_row(&board, 1, 2, "sub_a");
    board_release(&board);
    make(&board, DEVICE_CUDA, "B200");
    assert_int_equal(board.row_count, 0);
    board_release(&board);
}

static void test_the_history_is_each_result_that_was_the_fastest(void **state)
{
    struct board board = {.world = 4, .dtype = DTYPE_BF16, .device = DEVICE_CUDA};
    static const double times[] = {20, 25, 15, 15, 3, 12};

    (void)state;
    submit("sub_a", "m", 1);
    for (size_t i = 0; i < 6; i++) {
        store(&(struct outcome_row){ROW("sub_a", 1, times[i], times[i], times[i]),
                                    .is_insecure = times[i] == 3});
    }
    assert_int_equal(board_history(fixture.db, 1, &board, &fixture.err), OK);
    assert_int_equal(board.row_count, 3);
    assert_true(board.rows[0].median_us == 20);
    assert_true(board.rows[1].median_us == 15);
    assert_string_equal(board.rows[1].job_id, "job_3");
    assert_true(board.rows[2].median_us == 12);
    board_release(&board);
}

/* Solved and faster of the model `name`; -1: it is not there. */
static void count_model(const char *name, int *solved, int *faster, double *speedup)
{
    struct models_key key = {.world = 4, .dtype = DTYPE_BF16, .device = DEVICE_CUDA};
    struct report *report = report_open();
    int count = 0;

    *solved = *faster = -1;
    assert_int_equal(board_models(fixture.db, &key, report, &fixture.err), OK);
    report_count(report, NULL, 0);
    const struct totals *totals = report_totals(report, &count);
    for (int i = 0; i < count; i++) {
        if (totals[i].family == NULL && strcmp(totals[i].model, name) == 0) {
            *solved = totals[i].solved;
            *faster = totals[i].fast[0];
            *speedup = totals[i].geomean_speedup;
        }
    }
    report_close(report);
}

static void test_models_are_counted_by_their_best_at_each_task(void **state)
{
    int solved = 0;
    int faster = 0;
    double speedup = 0;

    (void)state;
    submit("sub_1", "m", 1);
    submit("sub_2", "m", 2);
    submit("sub_3", "m", 1);
    submit("sub_4", "", 1);
    submit("sub_5", "n", 1);
    store(&(struct outcome_row){ROW("sub_1", 1, 50, 49, 51)});
    store(&(struct outcome_row){ROW("sub_3", 1, 25, 24, 26)});
    store(&(struct outcome_row){ROW("sub_1", 1, 40, 39, 41)});
    store(&(struct outcome_row){ROW("sub_2", 2, 200, 190, 210)});
    store(&(struct outcome_row){ROW("sub_4", 1, 1, 1, 1)});
    store(&(struct outcome_row){ROW("sub_5", 1, 1, 1, 1), .is_insecure = true});
    count_model("m", &solved, &faster, &speedup);
    assert_int_equal(solved, 2);
    assert_int_equal(faster, 1);
    assert_true(speedup > 1.414 && speedup < 1.415); /* of 4 and 0.5 */
    count_model("n", &solved, &faster, &speedup);
    assert_int_equal(solved, -1);
    count_model("", &solved, &faster, &speedup);
    assert_int_equal(solved, -1);

    /* Without the fastest one the next best counts. */
    assert_int_equal(submission_disqualify(fixture.db, "sub_3", "copied", &fixture.err), OK);
    assert_int_equal(board_note_submission(fixture.db, "sub_3", &fixture.err), OK);
    count_model("m", &solved, &faster, &speedup);
    assert_int_equal(solved, 2);
    assert_true(speedup > 1.118 && speedup < 1.119); /* of 2.5 and 0.5 */
    store(&(struct outcome_row){ROW("sub_3", 1, 10, 10, 10)});
    count_model("m", &solved, &faster, &speedup);
    assert_true(speedup > 1.118 && speedup < 1.119);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    static const struct CMUnitTest tests[] = {
        TEST(test_who_is_within_the_leaders_interval_shares_its_rank),
        TEST(test_a_submission_has_the_median_of_its_runs),
        TEST(test_what_is_in_doubt_is_listed_without_a_rank),
        TEST(test_boards_of_different_gpus_and_devices_never_mix),
        TEST(test_the_history_is_each_result_that_was_the_fastest),
        TEST(test_models_are_counted_by_their_best_at_each_task),
    };

    return sodium_init() < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
