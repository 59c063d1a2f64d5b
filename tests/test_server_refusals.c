/* What the server refuses, and how it says so. */
#include "tests/live_server.h"

#include "common/problem.h"

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

static const char submissions[] = "/v1/submissions";
static const char raw[] = "text/x-cuda";
static const char good[] = "{\"task\":\"1\",\"source\":\"x\"}";

/* A request that is refused: with which status, naming which field, saying what. */
static const struct refused {
    struct asked asked;
    int status;
    const char *field;
    const char *says;
} refused[] = {
    {{.path = "/nothing"}, 404, "", "openapi.yaml"},
    {{.path = "/v1/jobs/"}, 404, "", "no path"},
    {{.path = "/v1/jobs/a/b"}, 404, "", "no path"},
    {{.method = "DELETE", .path = "/v1/tasks"}, 405, "", "GET"},
    {{.path = submissions, .token = "pkb_1_2", .body = "{}"}, 401, "Authorization", "not known"},
    {{.path = submissions, .body = "{}"}, 401, "Authorization", "Bearer TOKEN"},
    {{.path = submissions, .token = live.reader, .body = "{}"}, 403, "Authorization", "reader"},
    {{.path = submissions, .token = live.ada, .body = "{}"}, 403, "Authorization", "worker"},
    {{.path = "/v1/tasks", .token = live.ada}, 403, "Authorization", "worker"},
    {{.path = "/v1/workers", .token = live.sam, .body = "{}"}, 403, "Authorization", "submitter"},

    {{.path = submissions, .token = live.sam, .body = ""}, 400, "", ""},
    {{.path = submissions, .token = live.sam, .body = "{"}, 400, "", ""},
    {{.path = submissions, .token = live.sam, .body = "[]"}, 400, "", "object"},
    {{.path = submissions, .token = live.sam, .body = "{\"source\":\"x\"}"}, 400, "task", ""},
    {{.path = submissions, .token = live.sam, .body = "{\"task\":\"1\"}"}, 400, "source", ""},
    {{.path = submissions, .token = live.sam, .body = "{\"task\":\"1\",\"source\":\"\"}"},
     400,
     "source",
     ""},
    {{.path = submissions, .token = live.sam, .body = "{\"task\":\"none\",\"source\":\"x\"}"},
     400,
     "task",
     "none"},
    {{.path = submissions, .token = live.sam, .body = "{\"task\":1,\"source\":\"x\"}"},
     400,
     "task",
     "text"},
    {{.path = submissions, .token = live.sam, .body = "{\"task\":\"1\",\"source\":\"x\",\"a\":1}"},
     400,
     "a",
     ""},
    {{.path = submissions,
      .token = live.sam,
      .body = "{\"task\":\"1\",\"task\":\"1\",\"source\":\"x\"}"},
     400,
     "task",
     ""},
    {{.path = submissions,
      .token = live.sam,
      .body = "{\"task\":\"1\",\"world\":3,\"source\":\"x\"}"},
     400,
     "world",
     "1, 2, 4, 8"},
    {{.path = submissions,
      .token = live.sam,
      .body = "{\"task\":\"1\",\"world\":9,\"source\":\"x\"}"},
     400,
     "world",
     "8"},
    {{.path = submissions,
      .token = live.sam,
      .body = "{\"task\":\"1\",\"world\":\"4\",\"source\":\"x\"}"},
     400,
     "world",
     "integer"},
    {{.path = submissions,
      .token = live.sam,
      .body = "{\"task\":\"1\",\"dtype\":\"int8\",\"source\":\"x\"}"},
     400,
     "dtype",
     "bf16, fp16, fp32"},
    {{.path = submissions,
      .token = live.sam,
      .body = "{\"task\":\"1\",\"device\":\"abacus\",\"source\":\"x\"}"},
     400,
     "device",
     "sim"},
    {{.path = submissions, .token = live.sam, .body = "{\"task\":\"1\",\"source\":\"x\\u0000y\"}"},
     400,
     "source",
     ""},
    {{.path = submissions, .token = live.sam, .body = "{\"task\":\"1\",\"source\":\"\xff\xfe\"}"},
     400,
     "source",
     "UTF-8"},
    {{.path = "/v1/submissions?task=1",
      .token = live.sam,
      .body = "{\"task\":\"1\",\"source\":\"x\"}"},
     400,
     "task",
     "text/x-cuda"},

    {{.path = submissions, .token = live.sam, .type = "text/plain", .body = good},
     400,
     "Content-Type",
     "application/json or text/x-cuda"},
    {{.path = submissions, .token = live.sam, .type = "", .body = good},
     400,
     "Content-Type",
     "application/json"},
    {{.path = submissions, .token = live.sam, .type = "application/jsonp", .body = good},
     400,
     "Content-Type",
     "'application/jsonp'"},
    {{.path = submissions,
      .token = live.sam,
      .type = "application/json; charset=latin1",
      .body = good},
     400,
     "Content-Type",
     "UTF-8"},
    {{.path = submissions,
      .token = live.sam,
      .type = "application/json; charset=utf-8; a=b",
      .body = good},
     400,
     "Content-Type",
     "UTF-8"},
    {{.path = "/v1/submissions?task=1", .token = live.sam, .type = "text/x-cuda-c", .body = "x"},
     400,
     "Content-Type",
     "text/x-cuda"},
    {{.path = "/v1/workers", .token = live.ada, .type = raw, .body = "x"},
     400,
     "Content-Type",
     "application/json"},

    {{.path = submissions, .token = live.sam, .type = raw, .body = "x"}, 400, "task", "no task"},
    {{.path = "/v1/submissions?task=1", .token = live.sam, .type = raw, .body = ""},
     400,
     "source",
     "empty"},
    {{.path = "/v1/submissions?task=1", .token = live.sam, .type = raw, .body = "a\xc3("},
     400,
     "source",
     "byte 1"},
    {{.path = "/v1/submissions?task=1", .token = live.sam, .type = raw, .body = "a\0b", 3},
     400,
     "source",
     "byte 1"},
    {{.path = "/v1/submissions?task=1&model=a%0ab", .token = live.sam, .type = raw, .body = "x"},
     400,
     "model",
     "control"},
    {{.path = "/v1/submissions?task=1&model=a%00b", .token = live.sam, .type = raw, .body = "x"},
     400,
     "model",
     "zero byte"},
    {{.path = "/v1/submissions?task=1&mo%00del=a", .token = live.sam, .type = raw, .body = "x"},
     400,
     "mo%00del",
     "zero byte"},
    {{.path = "/v1/tasks%00x", .token = live.sam}, 400, "path", "zero byte"},
    {{.path = "/v1/tasks%00x?a=b", .token = live.sam}, 400, "path", "zero byte"},
    {{.path = "/v1/tasks/%2500", .token = live.sam}, 404, "", "no task"},
    {{.path = "/v1/submissions?task=1&world=x", .token = live.sam, .type = raw, .body = "x"},
     400,
     "world",
     "from 1 to 8"},
    {{.path = "/v1/submissions?task=1&dtype=q", .token = live.sam, .type = raw, .body = "x"},
     400,
     "dtype",
     "bf16, fp16, fp32"},
    {{.path = "/v1/submissions?task=1&device=q", .token = live.sam, .type = raw, .body = "x"},
     400,
     "device",
     "sim"},
    {{.path = "/v1/submissions?task=1&task=2", .token = live.sam, .type = raw, .body = "x"},
     400,
     "task",
     "twice"},
    {{.path = "/v1/submissions?task=1&colour=2", .token = live.sam, .type = raw, .body = "x"},
     400,
     "colour",
     "colour"},
    {{.path = "/v1/submissions?a&b&c&d&e&f&g&h&i", .token = live.sam}, 400, "", "8"},

    {{.path = "/v1/submissions?limit=0", .token = live.sam}, 400, "limit", "from 1 to 200"},
    {{.path = "/v1/submissions?cursor=zzz", .token = live.sam}, 400, "cursor", "next_cursor"},
    {{.path = "/v1/submissions?cursor=", .token = live.sam}, 400, "cursor", "next_cursor"},
    {{.path = "/v1/submissions?cursor=sub_0000000000000000000000000i", .token = live.sam},
     400,
     "cursor",
     "next_cursor"},
    {{.path = "/v1/submissions?cursor=sub_000000000000000000000000000", .token = live.sam},
     400,
     "cursor",
     "next_cursor"},
    {{.path = "/v1/submissions?cursor=job_00000000000000000000000000", .token = live.sam},
     400,
     "cursor",
     "next_cursor"},
    {{.path = "/v1/jobs/x?wait=26", .token = live.sam}, 400, "wait", "from 0 to 25"},
    {{.path = "/v1/jobs/x?since=", .token = live.sam}, 400, "since", "version"},
    {{.path = "/v1/jobs/x?since=queued", .token = live.sam}, 400, "since", "version"},
    {{.path = "/v1/jobs/x?since=lost..0", .token = live.sam}, 400, "since", "version"},
    {{.path = "/v1/jobs/x?since=leased.going.-1", .token = live.sam}, 400, "since", "version"},
    {{.path = "/v1/jobs/x?since=queued..-2", .token = live.sam}, 400, "since", "version"},
    {{.path = "/v1/jobs/x?since=queued..01", .token = live.sam}, 400, "since", "version"},
    {{.path = "/v1/jobs/x?since=queued..0x", .token = live.sam}, 400, "since", "version"},
    {{.path = "/v1/jobs/x?since=queued..", .token = live.sam}, 400, "since", "version"},
    {{.path = "/v1/jobs/x", .token = live.sam}, 404, "", "no job"},
    {{.path = "/v1/jobs/x/log", .token = live.sam}, 404, "", "no job"},
    {{.path = "/v1/submissions/x", .token = live.sam}, 404, "", "no submission"},
    {{.path = "/v1/submissions/x/jobs", .token = live.sam}, 404, "", "no submission"},
    {{.path = "/v1/tasks/none", .token = live.sam}, 404, "", "no task"},
    {{.path = "/v1/tasks/none/header", .token = live.sam}, 404, "", "no task"},
    {{.path = "/v1/tasks/1/header?dtype=int8", .token = live.sam}, 400, "dtype", "bf16"},
    {{.path = "/v1/tasks/1/board?world=3", .token = live.sam}, 400, "world", "1, 2, 4, 8"},
    {{.path = "/v1/tasks/1/board?dtype=q", .token = live.sam}, 400, "dtype", "bf16"},
    {{.path = "/v1/tasks/1/board?device=q", .token = live.sam}, 400, "device", "sim"},

    {{.path = "/v1/workers", .token = live.ada, .body = "{}"}, 400, "name", "missing"},
    {{.path = "/v1/workers",
      .token = live.ada,
      .body = "{\"name\":\"bob\",\"devices\":[{\"kind\":\"sim\",\"gpus\":8}],\"version\":\"1\"}"},
     403,
     "name",
     "'ada'"},
    {{.path = "/v1/workers/ada/lease",
      .token = live.ada,
      .body = "{\"kinds\":[\"sim\"],\"gpus\":8,\"wait_s\":0}"},
     404,
     "",
     "POST /v1/workers"},
    {{.path = "/v1/workers/bob/lease",
      .token = live.ada,
      .body = "{\"kinds\":[\"sim\"],\"gpus\":8,\"wait_s\":0}"},
     403,
     "name",
     "'ada'"},
    {{.path = "/v1/workers/ada/lease",
      .token = live.ada,
      .body = "{\"kinds\":[],\"gpus\":8,\"wait_s\":0}"},
     400,
     "kinds",
     ""},
    {{.path = "/v1/jobs/x/heartbeat",
      .token = live.ada,
      .body = "{\"worker\":\"bob\",\"epoch\":1,\"stage\":\"\"}"},
     403,
     "worker",
     "'ada'"},
    {{.path = "/v1/jobs/x/heartbeat",
      .token = live.ada,
      .body = "{\"worker\":\"ada\",\"epoch\":1,\"stage\":\"sleeping\"}"},
     400,
     "stage",
     "building"},
    {{.path = "/v1/jobs/x/heartbeat",
      .token = live.ada,
      .body = "{\"worker\":\"ada\",\"epoch\":1,\"stage\":\"\"}"},
     404,
     "",
     "no job"},
    {{.path = "/v1/jobs/x/result",
      .token = live.ada,
      .body = "{\"worker\":\"ada\",\"epoch\":1,\"result\":[]}"},
     400,
     "result",
     ""},
    {{.path = "/v1/jobs/x/result",
      .token = live.ada,
      .body = "{\"worker\":\"ada\",\"epoch\":1,\"result\":{\"verdict\":\"great\"}}"},
     400,
     "result.verdict",
     "accepted"},
};

static void check_problem(const struct answer *answer, const struct refused *wanted)
{
    struct error problem = {0};
    struct error err = {0};

    assert_non_null(strstr(answer->headers, "application/problem+json"));
    assert_int_equal(problem_read(&problem, answer->body.data, answer->body.size_bytes, &err), OK);
    if (answer->status != wanted->status || strcmp(problem.field, wanted->field) != 0 ||
        strstr(problem.message, wanted->says) == NULL) {
        fail_msg("%s %s: %d field '%s': %s", wanted->asked.path,
                 wanted->asked.body == NULL ? "" : wanted->asked.body, answer->status,
                 problem.field, problem.message);
    }
}

static void test_what_is_wrong_is_refused_by_name_and_nothing_is_stored(void **state)
{
    struct answer answer = {0};

    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        live_call(&live, &refused[i].asked, &answer);
        check_problem(&answer, &refused[i]);
        buffer_release(&answer.body);
    }
    assert_int_equal(live_count(&live, "SELECT (SELECT count(*) FROM submission)"
                                       " + (SELECT count(*) FROM job)"
                                       " + (SELECT count(*) FROM source)"
                                       " + (SELECT count(*) FROM worker)"
                                       " + (SELECT count(*) FROM result)"),
                     0);
}

static void test_a_body_in_utf_8_is_taken_however_its_type_is_written(void **state)
{
    static const struct asked taken[] = {
        {.path = submissions, .type = "Application/JSON", .body = good},
        {.path = submissions, .type = "application/json;charset=UTF-8", .body = good},
        {.path = submissions, .type = "application/json ; charset=\"utf-8\" ", .body = good},
        {.path = "/v1/submissions?task=1", .type = "text/X-CUDA; charset=utf-8", .body = "x"},
    };
    struct answer answer = {0};

    (void)state;
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++) {
        struct asked asked = taken[i];
        asked.token = live.sam;
        live_call(&live, &asked, &answer);
        assert_int_equal(answer.status, 201);
        buffer_release(&answer.body);
    }
}

static void test_a_source_beyond_its_limit_is_too_large(void **state)
{
    struct buffer body = {0};
    struct answer answer = {0};
    struct asked asked = {.token = live.sam};

    (void)state;
    memset(buffer_reserve(&body, SOURCE_MAX_BYTES + 1), 'x', SOURCE_MAX_BYTES + 1);
    body.size_bytes = SOURCE_MAX_BYTES + 1;
    asked.path = "/v1/submissions?task=1";
    asked.type = raw;
    asked.body = body.data;
    asked.body_bytes = body.size_bytes;
    live_call(&live, &asked, &answer);
    check_problem(&answer, &(struct refused){asked, 413, "source", "262144"});
    buffer_release(&answer.body);

    struct buffer json = {0};
    buffer_printf(&json, "{\"task\":\"1\",\"source\":\"");
    buffer_append(&json, body.data, body.size_bytes);
    buffer_printf(&json, "\"}");
    asked = (struct asked){
        .path = submissions, .token = live.sam, .body = json.data, .body_bytes = json.size_bytes};
    live_call(&live, &asked, &answer);
    assert_true(answer.status == 413 || answer.status == 400);
    assert_non_null(strstr(answer.body.data, "\"field\":\"source\""));
    buffer_release(&answer.body);
    buffer_release(&json);
    buffer_release(&body);
    assert_int_equal(live_count(&live, "SELECT count(*) FROM submission"), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    static const struct CMUnitTest tests[] = {
        TEST(test_what_is_wrong_is_refused_by_name_and_nothing_is_stored),
        TEST(test_a_body_in_utf_8_is_taken_however_its_type_is_written),
        TEST(test_a_source_beyond_its_limit_is_too_large),
    };

    return sodium_init() < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
