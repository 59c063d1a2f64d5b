/* Long polls: who waits for a job, or for a change of one, and how that ends. */
#include "tests/live_server.h"

#include "common/clock.h"

#include <sodium.h>

static struct live live;

static const char hello[] =
    "{\"name\":\"ada\",\"devices\":[{\"kind\":\"sim\",\"gpus\":8}],\"version\":\"1\"}";
static const char wish_25[] = "{\"kinds\":[\"sim\"],\"gpus\":8,\"wait_s\":25}";
static const char wish_0[] = "{\"kinds\":[\"sim\"],\"gpus\":8,\"wait_s\":0}";
static const char wish_1[] = "{\"kinds\":[\"sim\"],\"gpus\":8,\"wait_s\":1}";
static const char report[] =
    "{\"worker\":\"ada\",\"epoch\":1,\"result\":{\"verdict\":\"accepted\",\"build_ms\":1,"
    "\"run_ms\":1,\"build_log\":\"built\",\"run_log\":\"ran\",\"traffic\":[{\"source\":0,"
    "\"owner\":1,\"mechanism\":\"sm_load\",\"bytes\":\"18014398509481984\"}]}}";

static void call(const char *path, const char *token, const char *body, int status,
                 struct answer *answer)
{
    live_call(&live, &(struct asked){.path = path, .token = token, .body = body}, answer);
    if (answer->status != status) {
        fail_msg("%s: %d %s", path, answer->status, answer->body.data);
    }
}

static void call_only(const char *path, const char *token, const char *body, int status)
{
    struct answer answer = {0};

    call(path, token, body, status, &answer);
    buffer_release(&answer.body);
}

static int set_up(void **state)
{
    (void)state;
    live_open(&live);
    live_start(&live);
    call_only("/v1/workers", live.ada, hello, 200);
    return 0;
}

static int set_up_short(void **state)
{
    (void)state;
    live_open(&live);
    live.ttl_ms = 300;
    live_start(&live);
    call_only("/v1/workers", live.ada, hello, 200);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    live_stop(&live);
    live_close(&live);
    return 0;
}

static void submit(char job_id[static ID_MAX])
{
    struct answer answer = {0};

    live_call(&live,
              &(struct asked){.path = "/v1/submissions?task=allreduce",
                              .token = live.sam,
                              .type = "text/x-cuda",
                              .body = "__global__ void k();"},
              &answer);
    assert_int_equal(answer.status, 201);
    const char *job = strstr(answer.body.data, "\"id\":\"job_");
    assert_non_null(job);
    (void)snprintf(job_id, ID_MAX, "%.*s", (int)strcspn(job + 6, "\""), job + 6);
    buffer_release(&answer.body);
}

static int start(const char *path, const char *token, const char *body)
{
    int fd = live_connect(&live);

    live_ask(fd, &(struct asked){.path = path, .token = token, .body = body});
    return fd;
}

static void finish(int fd, struct answer *answer)
{
    assert_true(live_receive(fd, answer));
    close(fd);
}

static void test_a_waiting_worker_gets_a_job_when_it_comes(void **state)
{
    struct answer answer = {0};
    char id[ID_MAX];

    (void)state;
    int fd = start("/v1/workers/ada/lease", live.ada, wish_25);
    call_only("/healthz", NULL, NULL, 200);
    int64_t began_ms = clock_monotonic_ms();
    submit(id);
    finish(fd, &answer);
    assert_int_equal(answer.status, 200);
    assert_non_null(strstr(answer.body.data, id));
    assert_non_null(strstr(answer.body.data, "__global__ void k();"));
    assert_non_null(strstr(answer.body.data, "\"seed\":"));
    assert_true(clock_monotonic_ms() - began_ms < 5000);
    buffer_release(&answer.body);
}

static void test_workers_that_wait_are_served_in_order_one_job_each(void **state)
{
    struct answer answer = {0};
    char ids[3][ID_MAX];
    int fds[3];

    (void)state;
    for (int i = 0; i < 3; i++) {
        fds[i] = start("/v1/workers/ada/lease", live.ada, wish_25);
        call_only("/healthz", NULL, NULL, 200); /* the one before is waiting now */
    }
    for (int i = 0; i < 3; i++) {
        submit(ids[i]);
    }
    for (int i = 0; i < 3; i++) {
        finish(fds[i], &answer);
        assert_int_equal(answer.status, 200);
        assert_non_null(strstr(answer.body.data, ids[i]));
        buffer_release(&answer.body);
    }
    call_only("/v1/workers/ada/lease", live.ada, wish_0, 204);
}

static void test_a_worker_that_hung_up_gets_no_job(void **state)
{
    struct answer answer = {0};
    char id[ID_MAX];

    (void)state;
    int gone = start("/v1/workers/ada/lease", live.ada, wish_25);
    call_only("/healthz", NULL, NULL, 200);
    int there = start("/v1/workers/ada/lease", live.ada, wish_25);
    call_only("/healthz", NULL, NULL, 200);
    close(gone);
    submit(id);
    finish(there, &answer);
    assert_int_equal(answer.status, 200);
    assert_non_null(strstr(answer.body.data, "\"epoch\":1"));
    buffer_release(&answer.body);
}

static void test_a_poll_ends_by_itself(void **state)
{
    struct answer answer = {0};
    char id[ID_MAX];
    char path[128];
    int64_t began_ms = clock_monotonic_ms();

    (void)state;
    int lease = start("/v1/workers/ada/lease", live.ada, wish_1);
    finish(lease, &answer);
    assert_int_equal(answer.status, 204);
    assert_in_range(clock_monotonic_ms() - began_ms, 999, 20000);
    buffer_release(&answer.body);

    submit(id);
    (void)snprintf(path, sizeof path, "/v1/jobs/%s?wait=1", id);
    began_ms = clock_monotonic_ms();
    call(path, live.sam, NULL, 200, &answer);
    assert_in_range(clock_monotonic_ms() - began_ms, 999, 20000);
    assert_non_null(strstr(answer.body.data, "\"state\":\"queued\""));
    buffer_release(&answer.body);
}

static void test_a_watcher_hears_of_each_change_to_the_end(void **state)
{
    static const char beat[] = "{\"worker\":\"ada\",\"epoch\":1,\"stage\":\"building\"}";
    struct answer answer = {0};
    char id[ID_MAX];
    char path[128];

    (void)state;
    submit(id);
    (void)snprintf(path, sizeof path, "/v1/jobs/%s?wait=25&since=queued..0", id);
    int fd = start(path, live.sam, NULL);
    (void)snprintf(path, sizeof path, "/v1/jobs/%s?wait=25", id);
    int end = start(path, live.sam, NULL);
    call_only("/v1/workers/ada/lease", live.ada, wish_0, 200);
    finish(fd, &answer);
    assert_non_null(strstr(answer.body.data, "\"version\":\"leased..-1\""));
    buffer_release(&answer.body);

    (void)snprintf(path, sizeof path, "/v1/jobs/%s?wait=25&since=leased..-1", id);
    fd = start(path, live.sam, NULL);
    (void)snprintf(path, sizeof path, "/v1/jobs/%s/heartbeat", id);
    call_only(path, live.ada, beat, 200);
    finish(fd, &answer);
    assert_non_null(strstr(answer.body.data, "\"version\":\"leased.building.-1\""));
    buffer_release(&answer.body);

    (void)snprintf(path, sizeof path, "/v1/jobs/%s/result", id);
    call_only(path, live.ada, report, 200);
    finish(end, &answer);
    assert_non_null(strstr(answer.body.data, "\"state\":\"done\""));
    assert_non_null(strstr(answer.body.data, "\"result\":{\"verdict\":\"accepted\""));
    buffer_release(&answer.body);
}

static void test_a_place_in_the_queue_is_told_when_it_changes(void **state)
{
    struct answer answer = {0};
    char ids[2][ID_MAX];
    char path[128];

    (void)state;
    submit(ids[0]);
    submit(ids[1]);
    (void)snprintf(path, sizeof path, "/v1/jobs/%s?wait=25&since=queued..1", ids[1]);
    int fd = start(path, live.sam, NULL);
    call_only("/v1/workers/ada/lease", live.ada, wish_0, 200);
    finish(fd, &answer);
    assert_non_null(strstr(answer.body.data, "\"version\":\"queued..0\""));
    buffer_release(&answer.body);
}

static void test_a_job_ends_on_the_board_with_its_log(void **state)
{
    struct answer answer = {0};
    char id[ID_MAX];
    char path[128];

    (void)state;
    submit(id);
    call_only("/v1/workers/ada/lease", live.ada, wish_0, 200);
    (void)snprintf(path, sizeof path, "/v1/jobs/%s/log", id);
    call_only(path, live.sam, NULL, 404);
    (void)snprintf(path, sizeof path, "/v1/jobs/%s/result", id);
    call_only(path, live.ada, report, 200);
    call_only(path, live.ada, report, 200);
    (void)snprintf(path, sizeof path, "/v1/jobs/%s/log", id);
    call_only(path, live.eve, NULL, 404);
    call(path, live.sam, NULL, 200, &answer);
    assert_non_null(strstr(answer.headers, "text/plain"));
    assert_non_null(strstr(answer.body.data, "built"));
    assert_non_null(strstr(answer.body.data, "ran"));
    buffer_release(&answer.body);
    call("/v1/tasks/1/board", live.eve, NULL, 200, &answer);
    assert_non_null(strstr(answer.body.data, "\"rank\":1"));
    assert_non_null(strstr(answer.body.data, id));
    assert_non_null(strstr(answer.body.data, "\"peer_bytes\":\"18014398509481984\""));
    buffer_release(&answer.body);
    call("/v1/tasks/1/board?world=2", live.eve, NULL, 200, &answer);
    assert_non_null(strstr(answer.body.data, "\"rows\":[]"));
    buffer_release(&answer.body);
}

static void test_what_was_made_without_a_layer_of_the_sandbox_is_listed_without_a_rank(void **state)
{
    static const char insecure[] =
        "{\"worker\":\"ada\",\"epoch\":1,\"result\":{\"verdict\":\"accepted\",\"build_ms\":1,"
        "\"run_ms\":1,\"flags\":[\"nccl\",\"insecure:net\"]}}";
    static const char only_said[] =
        "{\"worker\":\"ada\",\"epoch\":1,\"result\":{\"verdict\":\"accepted\",\"build_ms\":1,"
        "\"run_ms\":1,\"run_log\":\"flags \\\"insecure:net\\\"\",\"flags\":[\"nccl\"]}}";
    struct answer answer = {0};
    char ids[2][ID_MAX];
    char path[128];

    (void)state;
    for (int i = 0; i < 2; i++) {
        submit(ids[i]);
        call_only("/v1/workers/ada/lease", live.ada, wish_0, 200);
        (void)snprintf(path, sizeof path, "/v1/jobs/%s/result", ids[i]);
        call_only(path, live.ada, i == 0 ? insecure : only_said, 200);
    }
    call("/v1/tasks/1/board", live.eve, NULL, 200, &answer);
    char row[128];
    (void)snprintf(row, sizeof row, "\"job\":\"%s\"", ids[0]);
    const char *at = strstr(answer.body.data, row);
    assert_non_null(at);
    assert_non_null(strstr(at, "\"mark\":\"insecure\""));
    assert_non_null(strstr(answer.body.data, "{\"rank\":0,"));
    (void)snprintf(row, sizeof row, "\"job\":\"%s\"", ids[1]);
    at = strstr(answer.body.data, row);
    assert_non_null(at);
    assert_null(memmem(answer.body.data, (size_t)(at - answer.body.data), "\"rank\":0", 8));
    buffer_release(&answer.body);
}

static void test_a_lost_lease_goes_to_who_waits(void **state)
{
    struct answer answer = {0};
    char id[ID_MAX];
    char path[128];

    (void)state;
    submit(id);
    call_only("/v1/workers/ada/lease", live.ada, wish_0, 200);
    int fd = start("/v1/workers/ada/lease", live.ada, wish_25);
    finish(fd, &answer);
    assert_int_equal(answer.status, 200);
    assert_non_null(strstr(answer.body.data, "\"epoch\":2"));
    buffer_release(&answer.body);
    (void)snprintf(path, sizeof path, "/v1/jobs/%s/result", id);
    call(path, live.ada, report, 409, &answer);
    assert_non_null(strstr(answer.body.data, "\"field\":\"epoch\""));
    buffer_release(&answer.body);
}

static void test_a_stopping_server_answers_everybody(void **state)
{
    struct answer answer = {0};
    char id[ID_MAX];
    char path[128];
    int fds[64];
    int status = 0;

    (void)state;
    submit(id);
    call_only("/v1/workers/ada/lease", live.ada, wish_0, 200);
    (void)snprintf(path, sizeof path, "/v1/jobs/%s?wait=25", id);
    for (int i = 0; i < 64; i++) {
        fds[i] = i % 2 == 0 ? start("/v1/workers/ada/lease", live.ada, wish_25)
                            : start(path, live.sam, NULL);
    }
    call_only("/healthz", NULL, NULL, 200);
    int64_t began_ms = clock_monotonic_ms();
    assert_int_equal(kill(live.pid, SIGTERM), 0);
    for (int i = 0; i < 64; i++) {
        finish(fds[i], &answer);
        assert_int_equal(answer.status, i % 2 == 0 ? 204 : 200);
        buffer_release(&answer.body);
    }
    live_wait(&live, &status);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_true(clock_monotonic_ms() - began_ms < 10000);
    live_start(&live);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    static const struct CMUnitTest tests[] = {
        TEST(test_a_waiting_worker_gets_a_job_when_it_comes),
        TEST(test_workers_that_wait_are_served_in_order_one_job_each),
        TEST(test_a_worker_that_hung_up_gets_no_job),
        TEST(test_a_poll_ends_by_itself),
        TEST(test_a_watcher_hears_of_each_change_to_the_end),
        TEST(test_a_place_in_the_queue_is_told_when_it_changes),
        TEST(test_a_job_ends_on_the_board_with_its_log),
        TEST(test_what_was_made_without_a_layer_of_the_sandbox_is_listed_without_a_rank),
        cmocka_unit_test_setup_teardown(test_a_lost_lease_goes_to_who_waits, set_up_short,
                                        tear_down),
        TEST(test_a_stopping_server_answers_everybody),
    };

    return sodium_init() < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
