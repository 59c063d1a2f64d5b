/* Requests with an Idempotency-Key are done once. */
#include "tests/live_server.h"

#include "server/replies.h"

#include <sodium.h>
#include <sqlite3.h>

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

static const char path[] = "/v1/submissions?task=1&world=2";

static void submit(const char *token, const char *key, const char *source, struct answer *answer)
{
    live_call(&live,
              &(struct asked){
                  .path = path, .token = token, .type = "text/x-cuda", .body = source, .key = key},
              answer);
}

static int count_jobs(void)
{
    return live_count(&live, "SELECT count(*) FROM job");
}

static void test_the_same_request_under_one_key_is_one_job(void **state)
{
    struct answer first = {0};
    struct answer second = {0};

    (void)state;
    submit(live.sam, "key", "x", &first);
    assert_int_equal(first.status, 201);
    for (int i = 0; i < 2; i++) {
        submit(live.sam, "key", "x", &second);
        assert_int_equal(second.status, 201);
        assert_string_equal(second.body.data, first.body.data);
        assert_string_equal(strstr(second.headers, "\r\nLocation:"),
                            strstr(first.headers, "\r\nLocation:"));
        buffer_release(&second.body);
        live_kill(&live); /* it is on disk */
        live_start(&live);
    }
    assert_int_equal(count_jobs(), 1);
    /* Another token's key is another one, and so is none. */
    submit(live.eve, "key", "x", &second);
    assert_string_not_equal(second.body.data, first.body.data);
    buffer_release(&second.body);
    submit(live.sam, NULL, "x", &second);
    buffer_release(&second.body);
    assert_int_equal(count_jobs(), 3);
    buffer_release(&first.body);
}

static void test_another_request_under_the_key_is_refused(void **state)
{
    struct answer answer = {0};

    (void)state;
    submit(live.sam, "key", "x", &answer);
    buffer_release(&answer.body);
    submit(live.sam, "key", "y", &answer);
    assert_int_equal(answer.status, 409);
    assert_non_null(strstr(answer.body.data, "\"field\":\"Idempotency-Key\""));
    buffer_release(&answer.body);
    live_call(&live,
              &(struct asked){.path = "/v1/submissions?task=1&world=4",
                              .token = live.sam,
                              .type = "text/x-cuda",
                              .body = "x",
                              .key = "key"},
              &answer);
    assert_int_equal(answer.status, 409);
    buffer_release(&answer.body);
    submit(live.sam, "no key", "x", &answer);
    assert_int_equal(answer.status, 400);
    buffer_release(&answer.body);
    submit(live.sam, "k\r\nIdempotency-Key: l", "x", &answer);
    assert_int_equal(answer.status, 400);
    buffer_release(&answer.body);
    assert_int_equal(count_jobs(), 1);
}

static void test_what_was_refused_may_be_tried_again_under_its_key(void **state)
{
    struct answer answer = {0};

    (void)state;
    live_call(&live,
              &(struct asked){.path = "/v1/submissions",
                              .token = live.sam,
                              .body = "{\"task\":\"9999\",\"source\":\"x\"}",
                              .key = "key"},
              &answer);
    assert_int_equal(answer.status, 400);
    buffer_release(&answer.body);
    submit(live.sam, "key", "x", &answer);
    assert_int_equal(answer.status, 201);
    buffer_release(&answer.body);
}

static void test_a_key_is_forgotten_after_a_week(void **state)
{
    struct answer answer = {0};
    sqlite3 *db = NULL;
    char sql[128];

    (void)state;
    submit(live.sam, "old", "x", &answer);
    buffer_release(&answer.body);
    assert_int_equal(sqlite3_open(live.database, &db), SQLITE_OK);
    assert_int_equal(sqlite3_busy_timeout(db, 5000), SQLITE_OK);
    (void)snprintf(sql, sizeof sql, "UPDATE reply SET created_ms = created_ms - %lld",
                   (long long)REPLY_KEPT_MS);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    submit(live.sam, "old", "y", &answer);
    assert_int_equal(answer.status, 201);
    buffer_release(&answer.body);
    assert_int_equal(count_jobs(), 2);
    assert_int_equal(live_count(&live, "SELECT count(*) FROM reply"), 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    static const struct CMUnitTest tests[] = {
        TEST(test_the_same_request_under_one_key_is_one_job),
        TEST(test_another_request_under_the_key_is_refused),
        TEST(test_what_was_refused_may_be_tried_again_under_its_key),
        TEST(test_a_key_is_forgotten_after_a_week),
    };

    return sodium_init() < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
