/* Jobs and batches that nobody wants any more. */
#include "tests/live_batches.h"

#include <sodium.h>

static struct live live;

static int set_up(void **state)
{
    (void)state;
    live_open(&live);
    live_start(&live);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    live_stop(&live);
    live_close(&live);
    return 0;
}

static void test_a_cancelled_batch_runs_no_more(void **state)
{
    enum { LINES = 600 }; /* more than are cancelled in one turn */
    struct buffer lines = {0};
    struct answer answer = {0};
    struct batch batch = {0};
    char id[ID_MAX];
    char path[128];

    (void)state;
    register_worker(&live);
    for (int i = 0; i < LINES; i++) {
        char model[16];
        (void)snprintf(model, sizeof model, "m%d", i / 100);
        add_line(&lines, model, 1, 1 + i % 100);
    }
    post(&live, live.sam, "c", &lines, &answer);
    read_answer(&answer, &batch);
    run_job(&live, "accepted", &answer);
    buffer_release(&answer.body);
    live_call(&live,
              &(struct asked){.path = "/v1/workers/ada/lease",
                              .token = live.ada,
                              .body = "{\"kinds\":[\"sim\"],\"gpus\":8,\"wait_s\":0}"},
              &answer);
    live_text(&answer, "id", id, sizeof id);
    buffer_release(&answer.body);

    (void)snprintf(path, sizeof path, "/v1/batches/%s/cancel", batch.id);
    for (int i = 0; i < 2; i++) { /* again is no other */
        live_call(&live, &(struct asked){.path = path, .token = live.sam, .method = "POST"},
                  &answer);
        assert_int_equal(answer.status, 200);
        read_answer(&answer, &batch);
        assert_int_equal(batch.state, BATCH_CANCELLED);
        assert_int_equal(batch.jobs[JOB_CANCELLED], LINES - 1);
        assert_int_equal(batch.jobs[JOB_DONE], 1);
        assert_true(batch.eta_ms == 0);
    }
    /* Who runs one of them hears of it. */
    (void)snprintf(path, sizeof path, "/v1/jobs/%s/heartbeat", id);
    live_call(&live,
              &(struct asked){.path = path,
                              .token = live.ada,
                              .body = "{\"worker\":\"ada\",\"epoch\":1,\"stage\":\"building\"}"},
              &answer);
    assert_int_equal(answer.status, 409);
    assert_non_null(strstr(answer.body.data, "the job is cancelled"));
    buffer_release(&answer.body);
    live_call(&live,
              &(struct asked){.path = "/v1/workers/ada/lease",
                              .token = live.ada,
                              .body = "{\"kinds\":[\"sim\"],\"gpus\":8,\"wait_s\":0}"},
              &answer);
    assert_int_equal(answer.status, 204);
    /* What was cancelled does not come back under its key. */
    add_line(&lines, "other", 1, 1);
    post(&live, live.sam, "c", &lines, &answer);
    assert_int_equal(answer.status, 409);
    buffer_release(&answer.body);
    buffer_release(&lines);
}

static void test_one_job_is_cancelled_by_its_owner(void **state)
{
    struct answer answer = {0};
    char id[ID_MAX];
    char path[128];

    (void)state;
    register_worker(&live);
    for (int i = 0; i < 2; i++) {
        live_call(&live,
                  &(struct asked){.path = "/v1/submissions?task=1",
                                  .token = live.sam,
                                  .type = "text/x-cuda",
                                  .body = "x"},
                  &answer);
        assert_int_equal(answer.status, 201);
        const char *job = strstr(answer.body.data, "\"id\":\"job_");
        assert_non_null(job);
        (void)snprintf(id, sizeof id, "%.30s", job + 6);
        buffer_release(&answer.body);
        (void)snprintf(path, sizeof path, "/v1/jobs/%s/cancel", id);
        if (i == 1) {
            run_job(&live, "accepted", &answer);
            buffer_release(&answer.body);
        }
        live_call(&live, &(struct asked){.path = path, .token = live.eve, .method = "POST"},
                  &answer);
        assert_int_equal(answer.status, 404);
        buffer_release(&answer.body);
        live_call(&live,
                  &(struct asked){.path = path, .token = live.sam, .method = "POST", .body = "x"},
                  &answer);
        assert_int_equal(answer.status, 400);
        buffer_release(&answer.body);
        live_call(&live, &(struct asked){.path = path, .token = live.sam, .method = "POST"},
                  &answer);
        assert_int_equal(answer.status, i == 0 ? 200 : 409);
        assert_non_null(strstr(answer.body.data,
                               i == 0 ? "\"state\":\"cancelled\"" : "the job is done already"));
        buffer_release(&answer.body);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    static const struct CMUnitTest tests[] = {
        TEST(test_a_cancelled_batch_runs_no_more),
        TEST(test_one_job_is_cancelled_by_its_owner),
    };

    return sodium_init() < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
