/* Batches over HTTP: how they come in, break off, go on, are looked at and cancelled. */
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

static void test_each_line_is_a_job_or_refused_for_its_own_reason(void **state)
{
    struct buffer lines = {0};
    struct answer answer = {0};
    struct batch batch = {0};
    char path[128];

    (void)state;
    add_line(&lines, "m", 1, 1);                                                /* 1 */
    buffer_printf(&lines, "\r\n  \n");                                          /* 2, 3: blank */
    add_line(&lines, "m", 1, 1);                                                /* 4: again */
    buffer_printf(&lines, "{\"task\":\"1\",\"source\":\"x\",\"attempt\":1}\n"); /* 5: no model */
    buffer_printf(&lines,
                  "{\"task\":\"1\",\"source\":\"x\",\"model\":\"m\"}\n"); /* 6: no attempt */
    buffer_printf(&lines, "{\"task\":\"9999\",\"source\":\"x\",\"model\":\"m\",\"attempt\":2}\n");
    buffer_printf(&lines, "{\"task\":\"1\",\"sauce\":\"x\"}\n");             /* 8 */
    buffer_printf(&lines, "not JSON\n");                                     /* 9 */
    buffer_printf(&lines, "{\"task\":\"1\",\"source\":\"%1100000d\"}\n", 0); /* 10: too long */
    add_line(&lines, "n", 1, 1);
    lines.size_bytes--; /* the last line needs no end */
    post(&live, live.sam, "", &lines, &answer);
    buffer_release(&lines);

    assert_int_equal(answer.status, 201);
    assert_non_null(strstr(answer.headers, "\r\nLocation: /v1/batches/bat_"));
    read_answer(&answer, &batch);
    assert_int_equal(batch.line_count, 11);
    assert_int_equal(batch.refused_count, 7);
    assert_int_equal(batch.jobs[JOB_QUEUED], 2);
    assert_int_equal(batch.state, BATCH_RECEIVED);
    assert_true(batch.eta_ms == -1); /* nothing has ended yet */

    (void)snprintf(path, sizeof path, "/v1/batches/%s/lines", batch.id);
    get(&live, live.sam, path, &answer);
    static const char *const parts[] = {
        "{\"lines\":[{\"line\":1,\"job\":\"job_",
        "{\"line\":4,\"field\":\"attempt\",\"detail\":\"attempt 1 of this model",
        "{\"line\":5,\"field\":\"model\"",
        "{\"line\":6,\"field\":\"attempt\"",
        "{\"line\":7,\"field\":\"task\"",
        "{\"line\":8,\"field\":\"sauce\"",
        "{\"line\":9,\"field\":\"\"",
        "{\"line\":10,\"field\":\"\",\"detail\":\"the line is larger than 1048576 bytes\"}",
        "{\"line\":11,\"job\":\"job_",
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (strstr(answer.body.data, parts[i]) == NULL) {
            fail_msg("no %s in %s", parts[i], answer.body.data);
        }
    }
    assert_null(strstr(answer.body.data, "\"line\":2,"));
    buffer_release(&answer.body);
    (void)snprintf(path, sizeof path, "/v1/batches/%s/lines?limit=2&cursor=4", batch.id);
    get(&live, live.sam, path, &answer);
    assert_non_null(strstr(answer.body.data, "{\"lines\":[{\"line\":5,"));
    assert_non_null(strstr(answer.body.data, "\"next_cursor\":\"6\"}"));
    buffer_release(&answer.body);
}

static void test_only_the_owner_and_admins_see_a_batch(void **state)
{
    const struct {
        const char *token;
        bool sees;
    } views[] = {{live.sam, true}, {live.reader, true}, {live.admin, true}, {live.eve, false}};
    static const char *const ends[] = {"", "/lines", "/report", "/cancel"};
    struct buffer lines = {0};
    struct answer answer = {0};
    struct batch batch = {0};
    char path[128];

    (void)state;
    add_line(&lines, "m", 1, 1);
    post(&live, live.sam, "", &lines, &answer);
    buffer_release(&lines);
    read_answer(&answer, &batch);
    for (size_t i = 0; i < sizeof views / sizeof views[0]; i++) {
        for (size_t k = 0; k < 4; k++) {
            bool cancels = k == 3;
            (void)snprintf(path, sizeof path, "/v1/batches/%s%s", batch.id, ends[k]);
            live_call(&live,
                      &(struct asked){.path = path,
                                      .token = views[i].token,
                                      .method = cancels ? "POST" : "GET"},
                      &answer);
            int status = !views[i].sees                             ? 404
                         : cancels && views[i].token == live.reader ? 403
                                                                    : 200;
            assert_int_equal(answer.status, status);
            buffer_release(&answer.body);
        }
        get(&live, views[i].token, "/v1/batches", &answer);
        assert_true((strstr(answer.body.data, batch.id) != NULL) == views[i].sees);
        buffer_release(&answer.body);
    }
}

static void test_a_batch_that_broke_off_goes_on_under_its_key(void **state)
{
    enum { MODELS = 40, ATTEMPTS = 50, LINES = MODELS * ATTEMPTS };
    struct buffer lines = {0};
    struct answer answer = {0};
    struct batch first = {0};
    struct batch second = {0};

    (void)state;
    for (int i = 0; i < LINES; i++) {
        char model[16];
        (void)snprintf(model, sizeof model, "m%d", i / ATTEMPTS);
        add_line(&lines, model, 1 + i % 3, 1 + i % ATTEMPTS);
        buffer_printf(&lines, "%200s\n", ""); /* blank lines count, and make it long */
    }
    int fd = open_batch(&live, live.sam, "key-1", lines.size_bytes);
    assert_true(live_send(fd, lines.data, lines.size_bytes / 2 + 7));
    /* What is stored while the client is still sending is there for everybody. */
    int stored = 0;
    while (stored == 0) {
        stored = live_count(&live, "SELECT count(*) FROM job");
    }
    live_kill(&live);
    close(fd);
    live_start(&live);
    stored = live_count(&live, "SELECT count(*) FROM job");
    assert_in_range(stored, 1, LINES / 2 + 1);
    assert_int_equal(live_count(&live, "SELECT count(*) FROM batch WHERE state = 'receiving'"), 1);

    post(&live, live.sam, "key-1", &lines, &answer);
    assert_int_equal(answer.status, 201);
    read_answer(&answer, &first);
    assert_int_equal(first.jobs[JOB_QUEUED], LINES);
    assert_int_equal(first.line_count, 2 * LINES);
    assert_int_equal(first.refused_count, 0);
    assert_int_equal(live_count(&live, "SELECT count(*) FROM batch"), 1);

    post(&live, live.sam, "key-1", &lines, &answer);
    assert_int_equal(answer.status, 200);
    read_answer(&answer, &second);
    assert_string_equal(second.id, first.id);
    assert_int_equal(live_count(&live, "SELECT count(*) FROM job"), LINES);

    /* A key is a token's own. */
    post(&live, live.eve, "key-1", &lines, &answer);
    assert_int_equal(answer.status, 201);
    read_answer(&answer, &second);
    assert_string_not_equal(second.id, first.id);
    buffer_release(&lines);
}

static void test_a_key_is_for_the_same_lines_only(void **state)
{
    struct buffer lines = {0};
    struct buffer others[4] = {0};
    struct answer answer = {0};
    static const char *const details[4] = {"line 2 is not what came first", "these are 1",
                                           "is received and has 2 lines", "line 1 is not"};

    (void)state;
    add_line(&lines, "m", 1, 1);
    add_line(&others[1], "m", 1, 1);
    add_line(&others[0], "m", 1, 1);
    add_line(&others[0], "m", 1, 3);
    add_line(&lines, "m", 1, 2);
    add_line(&others[2], "m", 1, 1);
    add_line(&others[2], "m", 1, 2);
    add_line(&others[2], "m", 1, 3);
    buffer_printf(&others[3], "\n");
    add_line(&others[3], "m", 1, 2);
    post(&live, live.sam, "k", &lines, &answer);
    assert_int_equal(answer.status, 201);
    buffer_release(&answer.body);
    for (int i = 0; i < 4; i++) {
        post(&live, live.sam, "k", &others[i], &answer);
        assert_int_equal(answer.status, 409);
        assert_non_null(strstr(answer.body.data, details[i]));
        buffer_release(&answer.body);
        buffer_release(&others[i]);
    }
    assert_int_equal(live_count(&live, "SELECT count(*) FROM job"), 2);

    static const char too_long[] = "12345678901234567890123456789012345678901234567890"
                                   "123456789012345";
    static const char *const bad[] = {"a b", "", "\x80", too_long};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct buffer head = {0};
        int fd = live_connect(&live);
        buffer_printf(&head,
                      "POST /v1/batches HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"
                      "Content-Type: application/jsonl\r\nContent-Length: %zu\r\n"
                      "Idempotency-Key: %s\r\n\r\n",
                      live.sam, lines.size_bytes, bad[i]);
        buffer_append(&head, lines.data, lines.size_bytes);
        assert_true(live_send(fd, head.data, head.size_bytes));
        buffer_release(&head);
        assert_true(live_receive(fd, &answer));
        assert_int_equal(answer.status, 400);
        assert_non_null(strstr(answer.body.data, "Idempotency-Key"));
        buffer_release(&answer.body);
        close(fd);
    }
    buffer_release(&lines);
}

static void test_too_many_lines_or_models_are_refused(void **state)
{
    struct buffer lines = {0};
    struct answer answer = {0};
    struct batch batch = {0};

    (void)state;
    for (int i = 0; i <= 100; i++) {
        char model[16];
        (void)snprintf(model, sizeof model, "m%d", i);
        add_line(&lines, model, 1, 1);
    }
    post(&live, live.sam, "", &lines, &answer);
    assert_int_equal(answer.status, 201);
    read_answer(&answer, &batch);
    assert_int_equal(batch.jobs[JOB_QUEUED], 100);
    assert_int_equal(batch.refused_count, 1);
    lines.size_bytes = 0;
    for (int i = 0; i <= BATCH_LINES_MAX; i++) {
        buffer_append(&lines, "\n", 1);
    }
    post(&live, live.sam, "many", &lines, &answer);
    assert_int_equal(answer.status, 413);
    assert_non_null(strstr(answer.body.data, "at most 100000 lines"));
    buffer_release(&answer.body);
    buffer_release(&lines);
}

static void test_progress_and_report_follow_the_results(void **state)
{
    struct buffer lines = {0};
    struct answer answer = {0};
    struct batch batch = {0};
    char path[128];

    (void)state;
    register_worker(&live);
    add_line(&lines, "m", 1, 1);
    add_line(&lines, "m", 2, 1);
    add_line(&lines, "m", 1, 2);
    add_line(&lines, "m", 2, 2);
    post(&live, live.sam, "", &lines, &answer);
    buffer_release(&lines);
    read_answer(&answer, &batch);
    static const char *const verdicts[] = {"compile_error", "accepted", "accepted"};
    for (int i = 0; i < 3; i++) {
        run_job(&live, verdicts[i], &answer);
        assert_int_equal(answer.status, 200);
        buffer_release(&answer.body);
    }
    (void)snprintf(path, sizeof path, "/v1/batches/%s", batch.id);
    get(&live, live.sam, path, &answer);
    read_answer(&answer, &batch);
    assert_int_equal(batch.jobs[JOB_DONE], 3);
    assert_int_equal(batch.jobs[JOB_QUEUED], 1);
    assert_true(batch.per_minute > 0);
    /* One is left: it takes the mean time of those that ended. */
    assert_true(batch.eta_ms >= 0);
    assert_true(batch.eta_ms - 60000.0 / batch.per_minute < 1.5);

    (void)snprintf(path, sizeof path, "/v1/batches/%s/report", batch.id);
    get(&live, live.sam, path, &answer);
    assert_int_equal(answer.status, 200);
    assert_non_null(strstr(answer.body.data, "\"world\":2,\"dtype\":\"bf16\",\"device\":\"sim\","
                                             "\"tasks\":2,\"k\":2,"));
    assert_non_null(strstr(answer.body.data, "\"correct\":[1,2]"));
    assert_non_null(strstr(answer.body.data, "\"family\":\"collectives\""));
    buffer_release(&answer.body);
    (void)snprintf(path, sizeof path, "/v1/batches/%s/report?format=markdown&p=1,2", batch.id);
    get(&live, live.sam, path, &answer);
    assert_non_null(strstr(answer.headers, "\r\nContent-Type: text/markdown; charset=utf-8\r\n"));
    assert_non_null(strstr(answer.body.data, "| m | 1 -> 2 | 1.5 -> 1.0 | "));
    buffer_release(&answer.body);
    (void)snprintf(path, sizeof path, "/v1/batches/%s/report?format=csv&device=cuda", batch.id);
    get(&live, live.sam, path, &answer);
    assert_non_null(strstr(answer.headers, "\r\nContent-Type: text/csv;"));
    assert_string_equal(answer.body.data, "model,family,measure,k,value\r\n");
    buffer_release(&answer.body);

    static const struct {
        const char *query, *field;
    } wrong[] = {{"format=xml", "format"},     {"p=", "p"},         {"p=1,x", "p"},
                 {"p=1,1,1,1,1,1,1,1,1", "p"}, {"p=inf", "p"},      {"dtype=int3", "dtype"},
                 {"device=tpu", "device"},     {"world=0", "world"}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char field[32];
        (void)snprintf(path, sizeof path, "/v1/batches/%s/report?%s", batch.id, wrong[i].query);
        get(&live, live.sam, path, &answer);
        assert_int_equal(answer.status, 400);
        (void)snprintf(field, sizeof field, "\"field\":\"%s\"", wrong[i].field);
        assert_non_null(strstr(answer.body.data, field));
        buffer_release(&answer.body);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    static const struct CMUnitTest tests[] = {
        TEST(test_each_line_is_a_job_or_refused_for_its_own_reason),
        TEST(test_only_the_owner_and_admins_see_a_batch),
        TEST(test_a_batch_that_broke_off_goes_on_under_its_key),
        TEST(test_a_key_is_for_the_same_lines_only),
        TEST(test_too_many_lines_or_models_are_refused),
        TEST(test_progress_and_report_follow_the_results),
    };

    return sodium_init() < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
