/* Faults below and beside the server: a disk that is full, clients that take their time. */
#include "tests/live_server.h"

#include "common/clock.h"
#include "server/http.h"

#include <poll.h>
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

static const struct asked submit = {.path = "/v1/submissions?task=1",
                                    .token = live.sam,
                                    .type = "text/x-cuda",
                                    .body = "__global__ void k();"};
static const struct asked list = {.path = "/v1/submissions", .token = live.sam};

static int call(const struct asked *asked)
{
    struct answer answer = {0};

    live_call(&live, asked, &answer);
    buffer_release(&answer.body);
    return answer.status;
}

static void test_a_full_disk_is_answered_and_recovered_from_without_a_restart(void **state)
{
    struct rlimit before = {0};
    struct rlimit full = {0};
    struct answer answer = {0};

    (void)state;
    assert_int_equal(call(&submit), 201);
    assert_int_equal(prlimit(live.pid, RLIMIT_FSIZE, NULL, &before), 0);
    full = before;
    full.rlim_cur = 4096;
    assert_int_equal(prlimit(live.pid, RLIMIT_FSIZE, &full, NULL), 0);
    for (int i = 0; i < 3; i++) {
        live_call(&live, &submit, &answer);
        assert_int_equal(answer.status, 503);
        assert_non_null(strstr(answer.body.data, "\"title\":\"unavailable\""));
        buffer_release(&answer.body);
        assert_int_equal(call(&list), 200);
    }
    assert_int_equal(prlimit(live.pid, RLIMIT_FSIZE, &before, NULL), 0);
    /* The server tries to open the database once a second at most. */
    int64_t began_ms = clock_monotonic_ms();
    int status = call(&submit);
    while (status == 503 && clock_monotonic_ms() - began_ms < 20000) {
        status = call(&submit);
    }
    assert_int_equal(status, 201);
    int jobs = live_count(&live, "SELECT count(*) FROM job");
    assert_in_range(jobs, 2, 5); /* of a 503 nobody knows, but it is whole or not there */
    assert_int_equal(live_count(&live, "SELECT count(*) FROM submission"), jobs);
}

/* ---- http.c alone, its clock in our hands ---- */

static struct http_request *kept;

static int body_max(const char *method, const char *path)
{
    (void)method;
    (void)path;
    return HTTP_BODY_MAX_BYTES;
}

static void begin(void *context, struct http_request *request)
{
    (void)context;
    (void)request;
}

static void keep(void *context, struct http_request *request)
{
    (void)context;
    kept = request;
}

static void end(void *context, struct http_request *request)
{
    (void)context;
    (void)request;
}

static struct http_server *open_http(struct live *address)
{
    static const struct http_hooks hooks = {
        .body_max = body_max, .begin = begin, .complete = keep, .end = end};
    struct http_server *server = NULL;
    struct error err = {0};

    kept = NULL;
    assert_int_equal(http_open(&server, "127.0.0.1:0", &hooks, &err), OK);
    address->port = http_port(server);
    return server;
}

/* Lets the server do what there is to do until something has come for `fd`, or a request is kept.
 */
static void run_until(struct http_server *server, int fd, bool is_kept)
{
    struct pollfd watched = {.fd = fd, .events = POLLIN};

    while (is_kept ? kept == NULL : poll(&watched, 1, 10) == 0) {
        http_run(server);
    }
}

static void test_who_sends_half_a_request_is_cut_off(void **state)
{
    static const char part[] = "GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: ";
    struct live address = {0};
    struct http_server *server = open_http(&address);
    int64_t began_ms = clock_monotonic_ms();
    char byte;

    (void)state;
    int fd = live_connect(&address);
    assert_true(live_send(fd, part, sizeof part - 1));
    for (int i = 0; i < 10; i++) {
        http_run(server);
    }
    http_sweep(server, began_ms + HTTP_REQUEST_MS - 1000);
    http_run(server);
    assert_int_equal(recv(fd, &byte, 1, MSG_DONTWAIT), -1);
    http_sweep(server, began_ms + HTTP_REQUEST_MS + 60000);
    run_until(server, fd, false);
    assert_true(recv(fd, &byte, 1, 0) <= 0);
    close(fd);
    http_close(server);
}

static void test_who_waits_for_us_is_not_cut_off(void **state)
{
    struct live address = {0};
    struct http_server *server = open_http(&address);
    struct answer answer = {0};

    (void)state;
    int fd = live_connect(&address);
    live_ask(fd, &(struct asked){.path = "/x"});
    run_until(server, fd, true);
    http_sweep(server, INT64_MAX);
    assert_true(http_client_is_there(kept));
    assert_int_equal(http_request_count(server), 1);
    assert_false(http_has_resumed(server));
    http_answer(kept, 204, NULL);
    assert_true(http_has_resumed(server));
    run_until(server, fd, false);
    assert_true(live_receive(fd, &answer));
    assert_int_equal(answer.status, 204);
    buffer_release(&answer.body);
    close(fd);
    http_close(server);
}

static void test_a_kept_client_that_hung_up_is_seen(void **state)
{
    struct live address = {0};
    struct http_server *server = open_http(&address);

    (void)state;
    int fd = live_connect(&address);
    live_ask(fd, &(struct asked){.path = "/x"});
    run_until(server, fd, true);
    close(fd);
    while (http_client_is_there(kept)) {
    }
    http_answer(kept, 204, NULL);
    while (http_request_count(server) > 0) {
        http_run(server);
    }
    http_close(server);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            test_a_full_disk_is_answered_and_recovered_from_without_a_restart, set_up, tear_down),
        cmocka_unit_test(test_who_sends_half_a_request_is_cut_off),
        cmocka_unit_test(test_who_waits_for_us_is_not_cut_off),
        cmocka_unit_test(test_a_kept_client_that_hung_up_is_seen),
    };

    return sodium_init() < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
