/* What the server answers, and to whom. */
#include "tests/live_server.h"

#include "server/listen.h"
#include "server/routes.h"
#include "server/schema.h"

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

static void test_a_submission_is_stored_and_only_its_owner_sees_it(void **state)
{
    static const char body[] = "{\"task\":\"001_allreduce\",\"world\":2,\"dtype\":\"fp16\","
                               "\"model\":\"m\",\"source\":\"__global__ void k();\"}";
    struct answer answer = {0};
    char id[ID_MAX];
    char path[128];

    (void)state;
    live_call(&live, &(struct asked){.path = submissions, .token = live.sam, .body = body},
              &answer);
    assert_int_equal(answer.status, 201);
    live_text(&answer, "id", id, sizeof id);
    (void)snprintf(path, sizeof path, "Location: /v1/submissions/%s\r\n", id);
    assert_non_null(strstr(answer.headers, path));
    assert_non_null(strstr(answer.body.data, "\"world\":2"));
    assert_non_null(strstr(answer.body.data, "\"owner\":\"sam\""));
    assert_null(strstr(answer.body.data, "seed"));
    buffer_release(&answer.body);

    const struct {
        const char *token;
        int status;
    } views[] = {{live.sam, 200}, {live.reader, 200}, {live.admin, 200}, {live.eve, 404}};
    for (size_t i = 0; i < sizeof views / sizeof views[0]; i++) {
        (void)snprintf(path, sizeof path, "/v1/submissions/%s", id);
        live_call(&live, &(struct asked){.path = path, .token = views[i].token}, &answer);
        assert_int_equal(answer.status, views[i].status);
        buffer_release(&answer.body);
        live_call(&live, &(struct asked){.path = submissions, .token = views[i].token}, &answer);
        assert_true((strstr(answer.body.data, id) != NULL) == (views[i].status == 200));
        buffer_release(&answer.body);
    }
}

static void test_a_list_comes_in_pages_without_gaps(void **state)
{
    struct answer answer = {0};
    char ids[5][ID_MAX];
    char path[128] = "/v1/submissions?limit=2";
    char cursor[ID_MAX];
    int seen = 0;

    (void)state;
    for (int i = 0; i < 5; i++) {
        live_call(
            &live,
            &(struct asked){
                .path = "/v1/submissions?task=1", .token = live.sam, .type = raw, .body = "x"},
            &answer);
        live_text(&answer, "id", ids[i], sizeof ids[i]);
        assert_true(i == 0 || strcmp(ids[i], ids[i - 1]) > 0);
        buffer_release(&answer.body);
    }
    while (seen < 5) {
        live_call(&live, &(struct asked){.path = path, .token = live.sam}, &answer);
        assert_int_equal(answer.status, 200);
        for (int i = 0; i < 2 && seen < 5; i++, seen++) {
            assert_non_null(strstr(answer.body.data, ids[4 - seen]));
        }
        if (seen < 5) {
            live_text(&answer, "next_cursor", cursor, sizeof cursor);
            (void)snprintf(path, sizeof path, "/v1/submissions?limit=2&cursor=%s", cursor);
        } else {
            assert_non_null(strstr(answer.body.data, "\"next_cursor\":null"));
        }
        buffer_release(&answer.body);
    }
    assert_int_equal(live_count(&live, "SELECT count(*) FROM source"), 1);
}

static void test_every_route_needs_its_role(void **state)
{
    const struct {
        const char *text;
        enum role role;
    } tokens[] = {{live.reader, ROLE_READER},
                  {live.sam, ROLE_SUBMITTER},
                  {live.ada, ROLE_WORKER},
                  {live.admin, ROLE_ADMIN},
                  {NULL, 0}};
    struct answer answer = {0};

    (void)state;
    for (int i = 0; i < route_count; i++) {
        const struct route *route = &routes[i];
        bool posts = strcmp(route->method, "POST") == 0;
        char path[128];
        const char *hole = strstr(route->path, "{}");
        int before = hole == NULL ? (int)strlen(route->path) : (int)(hole - route->path);
        (void)snprintf(path, sizeof path, "%.*s%s%s", before, route->path, hole ? "x" : "",
                       hole ? hole + 2 : "");
        for (size_t k = 0; k < sizeof tokens / sizeof tokens[0]; k++) {
            live_call(
                &live,
                &(struct asked){.path = path, .token = tokens[k].text, .body = posts ? "{}" : NULL},
                &answer);
            bool allowed = route->roles == 0 || (route->roles & tokens[k].role) != 0;
            assert_int_equal(answer.status == 401, !allowed && tokens[k].text == NULL);
            assert_int_equal(answer.status == 403, !allowed && tokens[k].text != NULL);
            buffer_release(&answer.body);
        }
    }
}

static void test_the_description_has_the_routes_and_no_others(void **state)
{
    int described = 0;
    char path[128] = "";

    (void)state;
    for (const char *line = schema_openapi; *line != 0; line += strcspn(line, "\n") + 1) {
        char method[16] = "";
        if (strncmp(line, "  /", 3) == 0) {
            (void)snprintf(path, sizeof path, "%.*s", (int)strcspn(line + 2, ":"), line + 2);
        }
        if (sscanf(line, "    %15[a-z]:", method) != 1 || line[4] == ' ' || path[0] == 0 ||
            (strcmp(method, "get") != 0 && strcmp(method, "post") != 0)) {
            continue;
        }
        described++;
        bool found = false;
        for (int i = 0; i < route_count; i++) {
            const char *hole = strchr(path, '{');
            size_t before = hole == NULL ? strlen(path) : (size_t)(hole - path);
            const char *after = hole == NULL ? "" : strchr(hole, '}') + 1;
            found = found || (strcasecmp(method, routes[i].method) == 0 &&
                              strncmp(routes[i].path, path, before) == 0 &&
                              strcmp(routes[i].path + before + (hole ? 2 : 0), after) == 0);
        }
        if (!found) {
            fail_msg("%s %s is described and does not exist", method, path);
        }
    }
    assert_int_equal(described, route_count);
}

static void test_only_this_machine_may_connect_without_tls(void **state)
{
    static const char *const others[] = {"0.0.0.0:0",  "10.0.0.1:1",     "[::]:0", "127.0.0.1",
                                         "127.0.0.1:", "127.0.0.1:x",    ":1",     "host:1",
                                         "[::1:1",     "127.0.0.1:65536"};
    struct error err = {0};
    int listener = -1;
    int port = 0;

    (void)state;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_int_equal(listen_open(others[i], &listener, &port, &err), ERR_INVALID);
    }
    assert_int_equal(listen_open("127.0.0.1:0", &listener, &port, &err), OK);
    char taken[32];
    (void)snprintf(taken, sizeof taken, "127.0.0.1:%d", port);
    int other = -1;
    assert_int_equal(listen_open(taken, &other, &port, &err), ERR_IO);
    close(listener);
}

static void test_a_second_server_on_one_database_is_refused(void **state)
{
    struct service_options options = {
        .database = live.database, .listen = "127.0.0.1:0", .ttl_ms = 1000};
    struct error err = {0};

    (void)state;
    assert_int_equal(service_run(&options, &err), ERR_CONFLICT);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    static const struct CMUnitTest tests[] = {
        TEST(test_a_submission_is_stored_and_only_its_owner_sees_it),
        TEST(test_a_list_comes_in_pages_without_gaps),
        TEST(test_every_route_needs_its_role),
        cmocka_unit_test(test_the_description_has_the_routes_and_no_others),
        cmocka_unit_test(test_only_this_machine_may_connect_without_tls),
        TEST(test_a_second_server_on_one_database_is_refused),
    };

    return sodium_init() < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
