#include "common/api.h"

#include "common/clock.h"
#include "tests/small_server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- calls ---- */

struct seen {
    size_t body_bytes;
    struct error error;
    enum status status;
    int times;
    int http_status;
    char body[4096];
};

static void on_done(void *context, const struct api_reply *reply)
{
    struct seen *seen = context;

    seen->times++;
    seen->status = reply->status;
    seen->http_status = reply->http_status;
    seen->body_bytes = reply->body_bytes;
    seen->error = reply->error;
    assert_int_equal(reply->body[reply->body_bytes], 0);
    (void)snprintf(seen->body, sizeof seen->body, "%s", reply->body);
}

static struct api *open_api(const char *server, const char *token)
{
    struct api *api = NULL;
    struct error err = {0};

    assert_int_equal(api_open(&api, &(struct api_options){.server = server, .token = token}, &err),
                     OK);
    return api;
}

static struct api_call get(const char *path, struct seen *seen)
{
    return (struct api_call){
        .method = "GET", .path = path, .timeout_ms = 20000, .done = on_done, .context = seen};
}

/* One GET from start to end. */
static struct seen fetch(const char *server, const char *path)
{
    struct seen seen = {0};
    struct error err = {0};
    struct api *api = open_api(server, "secret");
    struct api_call call = get(path, &seen);

    api_start(api, &call);
    assert_int_equal(seen.times, 0);
    assert_int_equal(api_wait(api, NULL, &err), OK);
    assert_int_equal(seen.times, 1);
    api_close(api);
    return seen;
}

static void test_a_call_brings_path_and_token_and_gets_the_body(void **state)
{
    const char *url = small_server_url(state);

    struct seen seen = fetch(url, "/v1/tasks/a%2Fb");
    assert_int_equal(seen.status, OK);
    assert_int_equal(seen.http_status, 200);
    assert_string_equal(seen.body, "GET /v1/tasks/a/b - Bearer secret 0 -");
}

static void test_a_body_is_posted_as_json(void **state)
{
    const char *url = small_server_url(state);
    struct seen seen = {0};
    struct error err = {0};
    char body[] = "{\"a\":1}";
    struct api *api = open_api(url, NULL);
    struct api_call call = get("/x", &seen);

    call.method = "POST";
    call.body = body;
    call.body_bytes = strlen(body);
    api_start(api, &call);
    memset(body, '!', strlen(body)); /* it was copied */
    assert_int_equal(api_wait(api, NULL, &err), OK);
    assert_string_equal(seen.body, "POST /x application/json - 7 {\"a\":1}");
    call.body = NULL;
    call.body_bytes = 0;
    api_start(api, &call);
    assert_int_equal(api_wait(api, NULL, &err), OK);
    assert_string_equal(seen.body, "POST /x - - 0 -");
    api_close(api);
}

static void test_a_large_body_does_not_wait_for_the_server_to_want_it(void **state)
{
    const char *url = small_server_url(state);
    struct seen seen = {0};
    struct error err = {0};
    size_t size_bytes = 1 << 20;
    char *body = calloc(1, size_bytes);
    struct api *api = open_api(url, "t");
    struct api_call call = get("/x", &seen);

    call.method = "POST";
    call.body = body;
    call.body_bytes = size_bytes;
    api_start(api, &call);
    assert_int_equal(api_wait(api, NULL, &err), OK);
    assert_string_equal(seen.body, "POST /x application/json Bearer t 1048576 -");
    assert_int_equal(seen.status, OK);
    api_close(api);
    free(body);
}

static void test_a_204_is_a_success_without_a_body(void **state)
{
    const char *url = small_server_url(state);

    struct seen seen = fetch(url, "/status/204");
    assert_int_equal(seen.status, OK);
    assert_int_equal(seen.http_status, 204);
    assert_int_equal(seen.body_bytes, 0);
}

static void test_a_problem_becomes_an_error_with_its_field(void **state)
{
    const char *url = small_server_url(state);

    struct seen seen = fetch(url, "/problem");
    assert_int_equal(seen.status, ERR_INVALID);
    assert_int_equal(seen.http_status, 400);
    assert_string_equal(seen.error.field, "world");
    assert_string_equal(seen.error.message, "must be 4");
}

static void test_an_error_without_a_problem_goes_by_its_number(void **state)
{
    const char *url = small_server_url(state);

    assert_int_equal(fetch(url, "/status/401").status, ERR_UNAUTHENTICATED);
    assert_int_equal(fetch(url, "/status/409").status, ERR_CONFLICT);
    assert_int_equal(fetch(url, "/status/503").status, ERR_UNAVAILABLE);
    assert_int_equal(fetch(url, "/status/302").status, ERR_PROTOCOL);
    struct seen seen = fetch(url, "/problem/broken");
    assert_int_equal(seen.status, ERR_NOT_FOUND);
    assert_non_null(strstr(seen.error.message, "404"));
}

static void test_one_byte_beyond_the_largest_body_is_refused(void **state)
{
    const char *url = small_server_url(state);

    struct seen seen = fetch(url, "/large/0");
    assert_int_equal(seen.status, OK);
    assert_int_equal(seen.body_bytes, API_BODY_MAX_BYTES);
    seen = fetch(url, "/large/1");
    assert_int_equal(seen.status, ERR_TOO_LARGE);
    assert_int_equal(seen.http_status, 0);
}

static void test_a_server_that_hangs_up_is_unavailable(void **state)
{
    const char *url = small_server_url(state);

    assert_int_equal(fetch(url, "/cut").status, ERR_UNAVAILABLE);
}

static void test_a_port_where_nobody_listens_is_unavailable(void **state)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size_bytes = sizeof address;
    char url[64];

    (void)state;
    /* Bound but not listening: nobody else can get the port. */
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size_bytes), 0);
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%d", ntohs(address.sin_port));
    struct seen seen = fetch(url, "/");
    assert_int_equal(seen.status, ERR_UNAVAILABLE);
    assert_int_equal(seen.http_status, 0);
    assert_non_null(strstr(seen.error.message, url));
    close(fd);
}

static void test_a_server_that_speaks_no_http_breaks_the_protocol(void **state)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size_bytes = sizeof address;
    struct seen seen = {0};
    struct error err = {0};
    char url[64];

    (void)state;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size_bytes), 0);
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%d", ntohs(address.sin_port));
    struct api *api = open_api(url, NULL);
    struct api_call call = get("/", &seen);
    api_start(api, &call);
    api_timeout(api); /* connects */
    int fd = accept(listener, NULL, NULL);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "220 mail\r\n", 10), 10);
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    assert_int_equal(api_wait(api, NULL, &err), OK);
    assert_int_equal(seen.status, ERR_PROTOCOL);
    api_close(api);
    close(fd);
    close(listener);
}

static void test_a_call_ends_at_its_timeout(void **state)
{
    const char *url = small_server_url(state);
    struct seen seen = {0};
    struct error err = {0};
    struct api *api = open_api(url, "t");
    struct api_call call = get("/hang", &seen);

    call.timeout_ms = 50;
    api_start(api, &call);
    assert_int_equal(api_wait(api, NULL, &err), OK);
    assert_int_equal(seen.status, ERR_TIMEOUT);
    api_close(api);
}

static void test_calls_one_after_another_use_one_connection(void **state)
{
    const char *url = small_server_url(state);
    struct seen seen = {0};
    struct error err = {0};
    struct api *api = open_api(url, "t");
    struct api_call call = get("/x", &seen);
    int before = small_server_connections();

    for (int i = 0; i < 20; i++) {
        api_start(api, &call);
        assert_int_equal(api_wait(api, NULL, &err), OK);
    }
    assert_int_equal(seen.times, 20);
    assert_int_equal(small_server_connections() - before, 1);
    api_close(api);
}

static void test_several_calls_run_at_once(void **state)
{
    const char *url = small_server_url(state);
    struct seen seen[8] = {0};
    struct error err = {0};
    struct api *api = open_api(url, "t");

    for (int i = 0; i < 8; i++) {
        struct api_call call = get("/x", &seen[i]);
        api_start(api, &call);
    }
    assert_int_equal(api_wait(api, NULL, &err), OK);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(seen[i].times, 1);
        assert_int_equal(seen[i].status, OK);
    }
    api_close(api);
}

static void test_a_cancelled_or_dropped_call_is_never_done(void **state)
{
    const char *url = small_server_url(state);
    struct seen seen[3] = {0};
    struct error err = {0};
    struct api *api = open_api(url, "t");
    struct api_call hang = get("/hang", &seen[0]);
    struct api_call quick = get("/x", &seen[1]);
    struct api_call dropped = get("/hang", &seen[2]);

    struct api_request *request = api_start(api, &hang);
    api_start(api, &quick);
    api_cancel(request);
    assert_int_equal(api_wait(api, NULL, &err), OK);
    api_start(api, &dropped);
    api_timeout(api);
    api_close(api);
    assert_int_equal(seen[0].times, 0);
    assert_int_equal(seen[1].times, 1);
    assert_int_equal(seen[2].times, 0);
}

struct chain {
    struct api *api;
    int left;
};

static void start_next(void *context, const struct api_reply *reply)
{
    struct chain *chain = context;

    assert_int_equal(reply->status, OK);
    if (--chain->left > 0) {
        api_start(chain->api, &(struct api_call){.method = "GET",
                                                 .path = "/x",
                                                 .timeout_ms = 20000,
                                                 .done = start_next,
                                                 .context = chain});
    }
}

static void test_a_callback_may_start_the_next_call(void **state)
{
    const char *url = small_server_url(state);
    struct error err = {0};
    struct chain chain = {.api = open_api(url, "t"), .left = 6};

    start_next(&chain, &(struct api_reply){.status = OK});
    assert_int_equal(api_wait(chain.api, NULL, &err), OK);
    assert_int_equal(chain.left, 0);
    api_close(chain.api);
}

/* ---- a loop of the caller's own ---- */

struct loop {
    struct pollfd sockets[16];
    int count;
    int64_t due_ms;
};

static void watch_socket(void *context, int fd, unsigned events)
{
    struct loop *loop = context;
    int i = 0;

    while (i < loop->count && loop->sockets[i].fd != fd) {
        i++;
    }
    if (events == 0) {
        loop->sockets[i] = loop->sockets[--loop->count];
        return;
    }
    loop->sockets[i].fd = fd;
    loop->sockets[i].events = (short)(((events & API_READ) != 0 ? POLLIN : 0) |
                                      ((events & API_WRITE) != 0 ? POLLOUT : 0));
    loop->count += i == loop->count;
}

static void watch_timer(void *context, int64_t timeout_ms)
{
    struct loop *loop = context;

    loop->due_ms = timeout_ms < 0 ? INT64_MAX : clock_monotonic_ms() + timeout_ms;
}

static void turn(struct loop *loop, struct api *api)
{
    int64_t left_ms = loop->due_ms - clock_monotonic_ms();
    int timeout_ms = left_ms < 0 ? 0 : left_ms > 1000 ? 1000 : (int)left_ms;
    struct pollfd ready[16];
    int count = loop->count;

    memcpy(ready, loop->sockets, sizeof ready);
    assert_true(poll(ready, (nfds_t)count, timeout_ms) >= 0);
    for (int i = 0; i < count; i++) {
        if (ready[i].revents != 0) {
            api_ready(api, ready[i].fd,
                      ((ready[i].revents & POLLIN) != 0 ? API_READ : 0U) |
                          ((ready[i].revents & POLLOUT) != 0 ? API_WRITE : 0U));
        }
    }
    if (loop->due_ms <= clock_monotonic_ms()) {
        loop->due_ms = INT64_MAX;
        api_timeout(api);
    }
}

static void test_the_callers_watches_drive_a_call(void **state)
{
    const char *url = small_server_url(state);
    struct loop loop = {.due_ms = INT64_MAX};
    struct seen seen = {0};
    struct error err = {0};
    struct api *api = NULL;
    struct api_options options = {
        .server = url, .watches = {.context = &loop, .socket = watch_socket, .timer = watch_timer}};

    assert_int_equal(api_open(&api, &options, &err), OK);
    struct api_call call = get("/x", &seen);
    api_start(api, &call);
    while (seen.times == 0) {
        turn(&loop, api);
    }
    assert_int_equal(seen.status, OK);
    call = get("/hang", &seen);
    call.timeout_ms = 30;
    api_start(api, &call);
    while (seen.times == 1) {
        turn(&loop, api);
    }
    assert_int_equal(seen.status, ERR_TIMEOUT);
    api_close(api);
    assert_int_equal(loop.count, 0);
    assert_true(loop.due_ms == INT64_MAX);
}

static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
    stopped = number;
}

static void test_a_blocked_signal_ends_the_waiting(void **state)
{
    const char *url = small_server_url(state);
    struct sigaction action = {.sa_handler = on_signal};
    struct seen seen = {0};
    struct error err = {0};
    sigset_t blocked;
    sigset_t before;
    struct api *api = open_api(url, "t");
    struct api_call call = get("/hang", &seen);

    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    sigprocmask(SIG_BLOCK, &blocked, &before);
    sigaction(SIGUSR1, &action, NULL);
    api_start(api, &call);
    (void)raise(SIGUSR1);
    assert_int_equal(stopped, 0);
    assert_int_equal(api_wait(api, &stopped, &err), ERR_UNAVAILABLE);
    assert_int_equal(stopped, SIGUSR1);
    assert_int_equal(seen.times, 0);
    sigprocmask(SIG_SETMASK, &before, NULL);
    api_close(api);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_call_brings_path_and_token_and_gets_the_body),
        cmocka_unit_test(test_a_body_is_posted_as_json),
        cmocka_unit_test(test_a_large_body_does_not_wait_for_the_server_to_want_it),
        cmocka_unit_test(test_a_204_is_a_success_without_a_body),
        cmocka_unit_test(test_a_problem_becomes_an_error_with_its_field),
        cmocka_unit_test(test_an_error_without_a_problem_goes_by_its_number),
        cmocka_unit_test(test_one_byte_beyond_the_largest_body_is_refused),
        cmocka_unit_test(test_a_server_that_hangs_up_is_unavailable),
        cmocka_unit_test(test_a_port_where_nobody_listens_is_unavailable),
        cmocka_unit_test(test_a_server_that_speaks_no_http_breaks_the_protocol),
        cmocka_unit_test(test_a_call_ends_at_its_timeout),
        cmocka_unit_test(test_calls_one_after_another_use_one_connection),
        cmocka_unit_test(test_several_calls_run_at_once),
        cmocka_unit_test(test_a_cancelled_or_dropped_call_is_never_done),
        cmocka_unit_test(test_a_callback_may_start_the_next_call),
        cmocka_unit_test(test_the_callers_watches_drive_a_call),
        cmocka_unit_test(test_a_blocked_signal_ends_the_waiting),
    };

    return cmocka_run_group_tests(tests, small_server_start, small_server_stop);
}
