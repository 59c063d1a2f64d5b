/* Workers that are ready, draining or quarantined: who may say so, and who gets leases. */
#include "tests/live_server.h"

#include "server/losses.h"

#include <sodium.h>

static struct live live;
static char bob[TOKEN_TEXT_MAX];
static char job_path[96];
static char result_path[128];

static const char hello[] =
    "{\"name\":\"ada\",\"devices\":[{\"kind\":\"sim\",\"gpus\":8}],\"version\":\"1\"}";
static const char hello_bob[] = "{\"name\":\"bob\",\"devices\":[{\"kind\":\"sim\",\"gpus\":8},"
                                "{\"kind\":\"cuda\",\"gpus\":2}],\"version\":\"2\"}";
static const char wish_0[] = "{\"kinds\":[\"sim\"],\"gpus\":8,\"wait_s\":0}";
static const char wish_25[] = "{\"kinds\":[\"sim\"],\"gpus\":8,\"wait_s\":25}";
static const char ready[] = "{\"state\":\"ready\"}";
static const char draining[] = "{\"state\":\"draining\",\"reason\":\"the disk is full\"}";
static const char quarantined[] = "{\"state\":\"quarantined\",\"reason\":\"Xid 79\"}";

static void call(const char *path, const char *token, const char *body, int status,
                 struct answer *answer)
{
    live_call(&live, &(struct asked){.path = path, .token = token, .body = body}, answer);
    if (answer->status != status) {
        fail_msg("%s: %d %s", path, answer->status, answer->body.data);
    }
}

/* The answer holds all of these, up to NULL. */
static void expect(const char *path, const char *token, const char *body, int status, ...)
{
    struct answer answer = {0};
    const char *part = NULL;
    va_list parts;

    call(path, token, body, status, &answer);
    va_start(parts, status);
    while (*(part = va_arg(parts, const char *)) != '\0') {
        if (strstr(answer.body.data, part) == NULL) {
            fail_msg("%s: '%s' is not in %s", path, part, answer.body.data);
        }
    }
    va_end(parts);
    buffer_release(&answer.body);
}

static const char state_path[] = "/v1/workers/ada/state";
static const char lease_path[] = "/v1/workers/ada/lease";

static int set_up(void **state)
{
    struct error err = {0};
    struct db *db = NULL;

    (void)state;
    live_open(&live);
    assert_int_equal(db_open(&db, live.database, DB_WRITE, &err), OK);
    live_token(&live, db, ROLE_WORKER, "bob", bob);
    db_close(db);
    live_start(&live);
    expect("/v1/workers", live.ada, hello, 200, "");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    live_stop(&live);
    live_close(&live);
    return 0;
}

static void submit(void)
{
    struct answer answer = {0};
    char *job = NULL;

    live_call(&live,
              &(struct asked){.path = "/v1/submissions?task=allreduce",
                              .token = live.sam,
                              .type = "text/x-cuda",
                              .body = "__global__ void k();"},
              &answer);
    assert_int_equal(answer.status, 201);
    job = strstr(answer.body.data, "\"id\":\"job_");
    assert_non_null(job);
    (void)snprintf(job_path, sizeof job_path, "/v1/jobs/%.*s", (int)strcspn(job + 6, "\""),
                   job + 6);
    (void)snprintf(result_path, sizeof result_path, "%s/result", job_path);
    buffer_release(&answer.body);
}

/* The worker leases the job, and its node fails under it. */
static void break_node(const char *name, const char *token, int epoch)
{
    char path[128];
    char body[256];

    (void)snprintf(path, sizeof path, "/v1/workers/%s/lease", name);
    expect(path, token, wish_0, 200, "");
    (void)snprintf(body, sizeof body,
                   "{\"worker\":\"%s\",\"epoch\":%d,\"result\":{\"verdict\":\"internal_error\","
                   "\"reason\":\"node_fault\",\"message\":\"Xid 79\",\"build_ms\":1,\"run_ms\":1}}",
                   name, epoch);
    expect(result_path, token, body, 200, "");
    expect(result_path, token, body, 200, ""); /* its answer was lost */
}

static void test_a_fault_of_the_node_costs_the_job_nothing(void **state)
{
    (void)state;
    expect("/v1/workers", bob, hello_bob, 200, "");
    submit();
    break_node("ada", live.ada, 1);
    expect(job_path, live.sam, NULL, 200, "\"state\":\"queued\"", "\"queue_position\":0", "");
    assert_int_equal(live_count(&live, "SELECT node_faults FROM job"), 1);
    assert_int_equal(live_count(&live, "SELECT internal_errors + lost_workers FROM job"), 0);
    assert_int_equal(live_count(&live, "SELECT count(*) FROM result"), 0);
    expect("/v1/workers/bob/lease", bob, wish_0, 200, "\"epoch\":2", "");
    expect(result_path, bob,
           "{\"worker\":\"bob\",\"epoch\":2,\"result\":{\"verdict\":\"accepted\",\"build_ms\":1,"
           "\"run_ms\":1}}",
           200, "\"verdict\":\"accepted\"", "");
}

static void test_a_job_that_broke_two_nodes_is_not_tried_on_a_third(void **state)
{
    (void)state;
    expect("/v1/workers", bob, hello_bob, 200, "");
    submit();
    break_node("ada", live.ada, 1);
    break_node("bob", bob, 2);
    expect(job_path, live.sam, NULL, 200, "\"state\":\"quarantined\"", "\"verdict\":\"\"", "");
    expect(lease_path, live.ada, wish_0, 204, "");
    assert_int_equal(live_count(&live, "SELECT count(*) FROM event WHERE kind = 'job.quarantined'"),
                     1);
}

static void test_a_job_that_keeps_breaking_one_node_is_quarantined_too(void **state)
{
    (void)state;
    submit();
    for (int epoch = 1; epoch <= NODE_FAULTS_MAX; epoch++) {
        expect(job_path, live.sam, NULL, 200, "\"state\":\"queued\"", "");
        break_node("ada", live.ada, epoch);
    }
    expect(job_path, live.sam, NULL, 200, "\"state\":\"quarantined\"", "");
}

static void test_all_workers_are_listed_with_their_states(void **state)
{
    (void)state;
    expect("/v1/workers", live.reader, NULL, 200, "\"name\":\"ada\"", "\"state\":\"ready\"",
           "\"reason\":\"\"", "\"jobs\":0", "{\"kind\":\"sim\",\"gpus\":8}", "");
    expect("/v1/workers", bob, hello_bob, 200, "");
    submit();
    expect(lease_path, live.ada, wish_0, 200, "");
    expect("/v1/workers", live.reader, NULL, 200, "\"name\":\"bob\"", "\"jobs\":1",
           "{\"kind\":\"cuda\",\"gpus\":2}", "");
}

static void test_a_quarantined_worker_gets_no_leases_until_an_admin_lifts_it(void **state)
{
    (void)state;
    submit();
    expect(state_path, live.ada, quarantined, 200, "\"state\":\"quarantined\"", "\"is_own\":true",
           "\"state_by\":\"ada\"", "");
    expect(lease_path, live.ada, wish_0, 409, "\"field\":\"state\"",
           "the worker is quarantined: Xid 79", "");
    expect(state_path, live.ada, ready, 403, "only an admin makes it ready", "Xid 79", "");
    expect(state_path, live.ada, draining, 200, "\"state\":\"quarantined\"", "");
    expect("/v1/workers", live.ada, hello, 200, "");
    expect(lease_path, live.ada, wish_0, 409, "Xid 79", "");
    expect(state_path, live.admin, ready, 200, "\"state\":\"ready\"", "\"state_by\":\"root\"", "");
    expect(lease_path, live.ada, wish_0, 200, "\"epoch\":1", "");
}

static void test_a_worker_ends_a_draining_of_its_own_and_no_other(void **state)
{
    (void)state;
    expect(state_path, live.ada, draining, 200, "the disk is full", "");
    expect(lease_path, live.ada, wish_0, 409, "draining: the disk is full", "");
    expect(state_path, live.ada, ready, 200, "\"state\":\"ready\"", "");
    expect(state_path, live.ada, ready, 200, "\"state\":\"ready\"", "");
    expect(lease_path, live.ada, wish_0, 204, "");
    expect(state_path, live.ada, draining, 200, "");
    expect("/v1/workers", live.ada, hello, 200, "");
    expect(lease_path, live.ada, wish_0, 204, "");
    expect(state_path, live.admin, draining, 200, "\"state_by\":\"root\"", "");
    expect(state_path, live.ada, draining, 200, "\"state_by\":\"root\"", "");
    expect(state_path, live.ada, ready, 403, "only an admin", "");
    expect("/v1/workers", live.ada, hello, 200, "");
    expect(lease_path, live.ada, wish_0, 409, "draining", "");
    expect(state_path, live.ada, quarantined, 200, "\"state\":\"quarantined\"", "");
}

static void test_orders_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    expect(state_path, live.admin, "{\"state\":\"draining\"}", 400, "\"field\":\"reason\"", "");
    expect(state_path, live.admin, "{\"state\":\"broken\"}", 400, "\"field\":\"state\"", "");
    expect(state_path, live.admin, "{}", 400, "\"field\":\"state\"", "");
    expect("/v1/workers/eve/state", live.admin, quarantined, 404, "no worker 'eve'", "");
    expect(state_path, bob, quarantined, 403, "only", "");
    expect(state_path, live.sam, quarantined, 403, "submitter", "");
}

static void test_each_change_is_an_event_and_nothing_else_is(void **state)
{
    (void)state;
    expect(state_path, live.ada, quarantined, 200, "");
    expect(state_path, live.ada, quarantined, 200, "");
    expect(state_path, live.admin, ready, 200, "");
    assert_int_equal(live_count(&live, "SELECT count(*) FROM event WHERE subject = 'ada' AND"
                                       " kind = 'worker.quarantined' AND detail = 'ada: Xid 79'"),
                     1);
    assert_int_equal(live_count(&live, "SELECT count(*) FROM event WHERE subject = 'ada' AND"
                                       " kind = 'worker.ready' AND detail LIKE 'root: %'"),
                     1);
}

static void test_a_state_is_there_after_a_restart_of_the_server(void **state)
{
    (void)state;
    expect(state_path, live.admin, quarantined, 200, "");
    live_kill(&live);
    live_start(&live);
    expect(lease_path, live.ada, wish_0, 409, "Xid 79", "");
}

/* Both wait for the same; the first is quarantined while it does. */
static void test_one_that_is_quarantined_while_it_waits_does_not_hold_up_the_next(void **state)
{
    struct answer answer = {0};

    (void)state;
    expect("/v1/workers", bob, hello_bob, 200, "");
    int first = live_connect(&live);
    live_ask(first, &(struct asked){.path = lease_path, .token = live.ada, .body = wish_25});
    expect("/healthz", NULL, NULL, 200, "");
    int second = live_connect(&live);
    live_ask(second,
             &(struct asked){.path = "/v1/workers/bob/lease", .token = bob, .body = wish_25});
    expect("/healthz", NULL, NULL, 200, "");
    expect(state_path, live.admin, quarantined, 200, "");
    assert_true(live_receive(first, &answer));
    assert_int_equal(answer.status, 409);
    assert_non_null(strstr(answer.body.data, "Xid 79"));
    buffer_release(&answer.body);
    submit();
    assert_true(live_receive(second, &answer));
    assert_int_equal(answer.status, 200);
    assert_non_null(strstr(answer.body.data, "\"worker\":\"bob\""));
    buffer_release(&answer.body);
    close(first);
    close(second);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    static const struct CMUnitTest tests[] = {
        TEST(test_all_workers_are_listed_with_their_states),
        TEST(test_a_quarantined_worker_gets_no_leases_until_an_admin_lifts_it),
        TEST(test_a_worker_ends_a_draining_of_its_own_and_no_other),
        TEST(test_orders_that_make_no_sense_are_refused),
        TEST(test_each_change_is_an_event_and_nothing_else_is),
        TEST(test_a_state_is_there_after_a_restart_of_the_server),
        TEST(test_one_that_is_quarantined_while_it_waits_does_not_hold_up_the_next),
        TEST(test_a_fault_of_the_node_costs_the_job_nothing),
        TEST(test_a_job_that_broke_two_nodes_is_not_tried_on_a_third),
        TEST(test_a_job_that_keeps_breaking_one_node_is_quarantined_too),
    };

    return sodium_init() < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
