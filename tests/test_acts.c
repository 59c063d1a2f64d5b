/* What owners and admins do about submissions and tokens, and that it is recorded. */
#include "tests/live_batches.h"

#include "common/job.h"

#include <sodium.h>
#include <sqlite3.h>

static struct live live;

static int set_up(void **state)
{
    (void)state;
    live_open(&live);
    live_start(&live);
    register_worker(&live);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    live_stop(&live);
    live_close(&live);
    return 0;
}

static void ask(const char *path, const char *token, const char *body, int status,
                struct answer *answer)
{
    live_call(&live, &(struct asked){.path = path, .token = token, .method = "POST", .body = body},
              answer);
    if (answer->status != status) {
        fail_msg("%s: %d %s", path, answer->status, answer->body.data);
    }
}

/* Submits as sam; "sub_..." and "job_...". */
static void submit(const char *source, char *submission, char *job)
{
    struct answer answer = {0};

    live_call(&live,
              &(struct asked){.path = "/v1/submissions?task=1&model=m",
                              .token = live.sam,
                              .type = "text/x-cuda",
                              .body = source},
              &answer);
    assert_int_equal(answer.status, 201);
    (void)snprintf(submission, ID_MAX, "%.30s", strstr(answer.body.data, "\"id\":\"sub_") + 6);
    (void)snprintf(job, ID_MAX, "%.30s", strstr(answer.body.data, "\"id\":\"job_") + 6);
    buffer_release(&answer.body);
}

static void test_a_source_is_its_owners_until_it_is_published(void **state)
{
    struct answer answer = {0};
    char submission[ID_MAX];
    char job[ID_MAX];
    char path[128];
    char publish[128];

    (void)state;
    submit("// <b>mine</b>\n", submission, job);
    (void)snprintf(path, sizeof path, "/v1/submissions/%s/source", submission);
    (void)snprintf(publish, sizeof publish, "/v1/submissions/%s/publish", submission);
    get(&live, live.sam, path, &answer);
    assert_int_equal(answer.status, 200);
    assert_string_equal(answer.body.data, "// <b>mine</b>\n");
    assert_non_null(strstr(answer.headers, "\r\nContent-Type: text/plain; charset=utf-8\r\n"));
    assert_non_null(strstr(answer.headers, "\r\nContent-Disposition: attachment\r\n"));
    buffer_release(&answer.body);
    get(&live, live.eve, path, &answer);
    assert_int_equal(answer.status, 404);
    buffer_release(&answer.body);
    ask(publish, live.sam, NULL, 403, &answer);
    buffer_release(&answer.body);
    ask(publish, live.admin, NULL, 200, &answer);
    buffer_release(&answer.body);
    get(&live, live.eve, path, &answer);
    assert_int_equal(answer.status, 200);
    buffer_release(&answer.body);
    assert_int_equal(live_count(&live, "SELECT count(*) FROM event WHERE detail = 'by root'"
                                       " AND kind = 'submission.published'"),
                     1);
    (void)snprintf(path, sizeof path, "/v1/submissions/%s", submission);
    get(&live, live.eve, path, &answer); /* the source, not the submission */
    assert_int_equal(answer.status, 404);
    buffer_release(&answer.body);
}

static void test_a_disqualified_submission_loses_its_rank_and_may_get_it_back(void **state)
{
    static const struct {
        const char *body;
        int rank;
    } acts[] = {{"{\"reason\":\"copied\"}", 0}, {"{\"reason\":\"\"}", 1}};
    struct answer answer = {0};
    char submission[ID_MAX];
    char job[ID_MAX];
    char path[128];
    char text[64];

    (void)state;
    submit("x", submission, job);
    run_job(&live, "accepted", &answer);
    buffer_release(&answer.body);
    (void)snprintf(path, sizeof path, "/v1/submissions/%s/disqualify", submission);
    ask(path, live.sam, acts[0].body, 403, &answer);
    buffer_release(&answer.body);
    ask(path, live.admin, "{}", 400, &answer);
    buffer_release(&answer.body);
    for (int i = 0; i < 2; i++) {
        ask(path, live.admin, acts[i].body, 200, &answer);
        buffer_release(&answer.body);
        get(&live, live.eve, "/v1/tasks/1/board", &answer);
        (void)snprintf(text, sizeof text, "{\"rank\":%d,", acts[i].rank);
        assert_non_null(strstr(answer.body.data, text));
        assert_true((strstr(answer.body.data, "\"reason\":\"copied\"") != NULL) == (i == 0));
        buffer_release(&answer.body);
        get(&live, live.eve, "/v1/models", &answer);
        assert_true((strstr(answer.body.data, "{\"model\":\"m\"") != NULL) == (i == 1));
        buffer_release(&answer.body);
    }
    assert_int_equal(live_count(&live, "SELECT count(*) FROM event WHERE detail ="
                                       " 'by root: copied' AND kind = 'submission.disqualified'"),
                     1);
    ask("/v1/submissions/none/disqualify", live.admin, acts[0].body, 404, &answer);
    buffer_release(&answer.body);
}

static void test_a_job_is_run_again_with_another_seed(void **state)
{
    struct answer answer = {0};
    char submission[ID_MAX];
    char job[ID_MAX];
    char path[128];

    (void)state;
    submit("x", submission, job);
    (void)snprintf(path, sizeof path, "/v1/jobs/%s/rerun", job);
    ask(path, live.eve, NULL, 404, &answer);
    buffer_release(&answer.body);
    ask(path, live.sam, NULL, 201, &answer);
    assert_non_null(strstr(answer.headers, "\r\nLocation: /v1/jobs/job_"));
    assert_non_null(strstr(answer.body.data, submission));
    assert_null(strstr(answer.body.data, job));
    buffer_release(&answer.body);
    assert_int_equal(live_count(&live, "SELECT count(DISTINCT seed) FROM job"), 2);
    assert_int_equal(live_count(&live, "SELECT count(*) FROM event WHERE kind = 'job.rerun'"), 1);
    (void)snprintf(path, sizeof path, "/v1/submissions/%s/jobs", submission);
    get(&live, live.sam, path, &answer);
    assert_non_null(strstr(strstr(answer.body.data, "\"id\"") + 1, "\"id\""));
    buffer_release(&answer.body);
}

static void test_a_revoked_token_is_of_no_use_and_its_leases_go_back(void **state)
{
    struct answer answer = {0};
    char submission[ID_MAX];
    char job[ID_MAX];
    char path[128];
    char id[TOKEN_ID_MAX];

    (void)state;
    submit("x", submission, job);
    live_call(&live,
              &(struct asked){.path = "/v1/workers/ada/lease",
                              .token = live.ada,
                              .body = "{\"kinds\":[\"sim\"],\"gpus\":8,\"wait_s\":0}"},
              &answer);
    assert_int_equal(answer.status, 200);
    buffer_release(&answer.body);
    get(&live, live.admin, "/v1/tokens", &answer);
    assert_null(strstr(answer.body.data, "revoked_ms"));
    assert_null(strstr(answer.body.data, "secret"));
    buffer_release(&answer.body);
    /* pkb_ID_SECRET */
    (void)snprintf(id, sizeof id, "%.*s", (int)strcspn(live.ada + 4, "_"), live.ada + 4);
    (void)snprintf(path, sizeof path, "/v1/tokens/%s/revoke", id);
    ask(path, live.sam, NULL, 403, &answer);
    buffer_release(&answer.body);
    for (int i = 0; i < 2; i++) {
        ask(path, live.admin, NULL, 200, &answer);
        assert_non_null(strstr(answer.body.data, "\"node\":\"ada\""));
        buffer_release(&answer.body);
    }
    live_call(&live,
              &(struct asked){.path = "/v1/workers/ada/lease",
                              .token = live.ada,
                              .body = "{\"kinds\":[\"sim\"],\"gpus\":8,\"wait_s\":0}"},
              &answer);
    assert_int_equal(answer.status, 401);
    buffer_release(&answer.body);
    (void)snprintf(path, sizeof path, "/v1/jobs/%s", job);
    get(&live, live.sam, path, &answer);
    assert_non_null(strstr(answer.body.data, "\"state\":\"queued\""));
    buffer_release(&answer.body);
    get(&live, live.admin, "/v1/tokens", &answer);
    assert_non_null(strstr(answer.body.data, "\"node\":\"ada\",\"revoked_ms\":"));
    buffer_release(&answer.body);
    ask("/v1/tokens/none/revoke", live.admin, NULL, 404, &answer);
    buffer_release(&answer.body);
}

/* Damages what is stored of every source. */
static void damage_sources(void)
{
    sqlite3 *db = NULL;

    assert_int_equal(sqlite3_open(live.database, &db), SQLITE_OK);
    assert_int_equal(sqlite3_busy_timeout(db, 5000), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "UPDATE source SET zstd = substr(zstd, 1, length(zstd) - 1)",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void test_a_damaged_source_stops_only_its_own_jobs(void **state)
{
    struct answer answer = {0};
    char submission[2][ID_MAX];
    char job[2][ID_MAX];
    char path[128];

    (void)state;
    submit("first", submission[0], job[0]);
    damage_sources();
    submit("second", submission[1], job[1]);
    run_job(&live, "accepted", &answer);
    assert_int_equal(answer.status, 200);
    assert_non_null(strstr(answer.body.data, job[1]));
    buffer_release(&answer.body);
    (void)snprintf(path, sizeof path, "/v1/jobs/%s", job[0]);
    get(&live, live.sam, path, &answer);
    assert_non_null(strstr(answer.body.data, "\"state\":\"quarantined\""));
    buffer_release(&answer.body);
    (void)snprintf(path, sizeof path, "/v1/submissions/%s/source", submission[0]);
    get(&live, live.sam, path, &answer);
    assert_int_equal(answer.status, 404);
    assert_non_null(strstr(answer.body.data, "is damaged"));
    buffer_release(&answer.body);
    assert_int_equal(live_count(&live, "SELECT count(*) FROM event WHERE kind = 'job.quarantined'"
                                       " AND detail LIKE '%damaged'"),
                     1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    static const struct CMUnitTest tests[] = {
        TEST(test_a_source_is_its_owners_until_it_is_published),
        TEST(test_a_disqualified_submission_loses_its_rank_and_may_get_it_back),
        TEST(test_a_job_is_run_again_with_another_seed),
        TEST(test_a_revoked_token_is_of_no_use_and_its_leases_go_back),
        TEST(test_a_damaged_source_stops_only_its_own_jobs),
    };

    return sodium_init() < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
