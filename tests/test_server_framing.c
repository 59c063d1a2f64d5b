/* How the server reads the bytes of a request: what is refused, and what is served. */
#include "tests/live_server.h"

#include "common/problem.h"

#include <errno.h>
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

/* Requests whose bytes matter. `ends`: the server hangs up after its answer. */
static const struct framed {
    const char *bytes; /* each '~' is sent as a zero byte */
    const char *field;
    const char *says;
    int status;
    bool ends;
} framed[] = {
    {"POST /v1/submissions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
     "Content-Length", "twice", 400, true},
    {"POST /v1/submissions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
     "Content-Length", "twice", 400, true},
    {"POST /v1/submissions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n"
     "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
     "Transfer-Encoding", "both", 400, true},
    {"POST /v1/submissions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n",
     "Transfer-Encoding", "chunked", 400, true},
    {"POST /v1/submissions HTTP/1.1\r\nHost: x\r\nContent-Length: 1048577\r\n\r\n", "", "1048576",
     413, true},
    {"GET /v1/ta~sks HTTP/1.1\r\nHost: x\r\n\r\n", "path", "zero byte", 400, true},
    {"G~ET /v1/tasks HTTP/1.1\r\nHost: x\r\n\r\n", "path", "zero byte", 400, true},
    {"GET /v1/submissions?limit=1&cursor=~a HTTP/1.1\r\nHost: x\r\n\r\n", "cursor", "zero byte",
     400, true},
    {"POST /v1/submissions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding : chunked\r\n"
     "Content-Length: 5\r\n\r\n0\r\n\r\n",
     "Transfer-Encoding ", "blank", 400, true},
    {"POST /v1/submissions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding\t: chunked\r\n"
     "Content-Length: 5\r\n\r\n0\r\n\r\n",
     "Transfer-Encoding\t", "blank", 400, true},
    {"POST /v1/submissions HTTP/1.1\r\n Content-Length: 2\r\nHost: x\r\n\r\n{}", " Content-Length",
     "blank", 400, true},
    {"POST /v1/submissions HTTP/1.1\r\nHost: x\r\nContent-Length:\r\n 2\r\n\r\n{}",
     "Content-Length2", "one line", 400, true},
    {"POST /v1/submissions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n \r\n\r\n{}",
     "Content-Length", "one line", 400, true},
    {"POST /v1/submissions HTTP/1.1\r\nHost: x\r\nA: b\rC: d\r\nContent-Length: 2\r\n\r\n{}", "A",
     "control", 400, true},
    {"POST /v1/submissions HTTP/1.1\r\nHost: x\r\nA: b~\r\nContent-Length: 2\r\n\r\n{}",
     "Content-Length", "control", 400, true},
    {"POST /v1/submissions HTTP/1.1\r\nHost: x\r\nContent-Length: 2~5\r\n\r\n{}", "Content-Length",
     "control", 400, true},
    {"POST /v1/submissions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
     "Content-Type: text/x-cuda\r\nContent-Length: 2\r\n\r\n{}",
     "Content-Type", "twice", 400, true},
    {"GET /v1/tasks HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer a\r\nauthorization: Bearer "
     "b\r\n\r\n",
     "Authorization", "twice", 400, true},
    {"GET /v1/tasks HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", "Host", "twice", 400, true},
    {"POST /v1/submissions HTTP/1.1\r\nHost: x\r\nAuthorization: Basic abc\r\n"
     "Content-Length: 2\r\n\r\n{}",
     "Authorization", "bearer", 401, false},
};

static void check_problem(const struct answer *answer, const struct framed *wanted)
{
    struct error problem = {0};
    struct error err = {0};

    assert_non_null(strstr(answer->headers, "application/problem+json"));
    assert_int_equal(problem_read(&problem, answer->body.data, answer->body.size_bytes, &err), OK);
    if (answer->status != wanted->status || strcmp(problem.field, wanted->field) != 0 ||
        strstr(problem.message, wanted->says) == NULL) {
        fail_msg("%s: %d field '%s': %s", wanted->bytes, answer->status, problem.field,
                 problem.message);
    }
}

/* Sends it with its zero bytes. */
static void send_framed(int fd, const char *bytes)
{
    struct buffer text = {0};

    buffer_append(&text, bytes, strlen(bytes));
    for (size_t i = 0; i < text.size_bytes; i++) {
        text.data[i] = text.data[i] == '~' ? 0 : text.data[i];
    }
    assert_true(live_send(fd, text.data, text.size_bytes));
    buffer_release(&text);
}

static void test_what_can_be_read_in_two_ways_is_refused_and_the_connection_closed(void **state)
{
    struct answer answer = {0};
    char byte;

    (void)state;
    for (size_t i = 0; i < sizeof framed / sizeof framed[0]; i++) {
        int fd = live_connect(&live);
        send_framed(fd, framed[i].bytes);
        assert_true(live_receive(fd, &answer));
        check_problem(&answer, &framed[i]);
        buffer_release(&answer.body);
        if (framed[i].ends) {
            assert_true(recv(fd, &byte, 1, 0) <= 0);
        } else {
            live_ask(fd, &(struct asked){.path = "/healthz"});
            assert_true(live_receive(fd, &answer));
            assert_int_equal(answer.status, 200);
            buffer_release(&answer.body);
        }
        close(fd);
    }
    assert_int_equal(live_count(&live, "SELECT count(*) FROM submission"), 0);
}

static void test_a_head_that_can_be_read_in_one_way_only_is_served(void **state)
{
    static const char *const heads[] = {
        "\r\n\r\nGET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /healthz HTTP/1.1\nHost:x\nEmpty:\nBlanks: \t \nCookie: a=b; c=d\n\n",
        "GET /healthz HTTP/1.1\r\nHost:  x  \r\nEmpty:\r\nX-Word: caf\xc3\xa9\t1\r\n\r\n",
        "GET /%68ealthz? HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /healthz HTTP/1.0\r\n\r\n",
    };
    struct answer answer = {0};

    (void)state;
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        int fd = live_connect(&live);
        for (const char *byte = heads[i]; *byte != 0; byte++) {
            assert_true(live_send(fd, byte, 1));
        }
        assert_true(live_receive(fd, &answer));
        assert_int_equal(answer.status, 200);
        buffer_release(&answer.body);
        close(fd);
    }
}

/* libmicrohttpd answers these itself; openapi.yaml says so. */
static void test_what_is_no_http_request_ends_with_its_connection(void **state)
{
    static const struct {
        const char *bytes;
        int status;
    } broken[] = {
        {"POST /v1/submissions HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n", 400},
        {"POST /v1/submissions HTTP/1.1\r\nHost: x\r\nContent-Length: 9, 9\r\n\r\n", 400},
        {"POST /v1/submissions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nz\r\n",
         400},
        {"GET /v1/tasks HTTP/1.1\r\n\r\n", 400},
        {"GET /v1/tasks HTTP/1.1\r\nHost: x\r\nA\r\n\r\n", 400},
        {"GET /v1/tasks HTTP/2.0\r\nHost: x\r\n\r\n", 505},
    };
    struct answer answer = {0};
    char byte;

    (void)state;
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        int fd = live_connect(&live);
        assert_true(live_send(fd, broken[i].bytes, strlen(broken[i].bytes)));
        assert_true(live_receive(fd, &answer));
        assert_int_equal(answer.status, broken[i].status);
        ssize_t got = 1;
        while (got > 0) { /* a page may come without its length */
            got = recv(fd, &byte, 1, 0);
        }
        assert_true(got == 0 || errno == ECONNRESET);
        buffer_release(&answer.body);
        close(fd);
    }
}

static void test_a_body_without_a_length_is_counted(void **state)
{
    static const char head[] = "POST /v1/submissions?task=1 HTTP/1.1\r\nHost: x\r\n"
                               "Content-Type: text/x-cuda\r\nTransfer-Encoding: chunked\r\n"
                               "Authorization: Bearer ";
    enum { CHUNK_BYTES = 65536 };
    struct answer answer = {0};
    struct buffer chunk = {0};

    (void)state;
    buffer_printf(&chunk, "%x\r\n", CHUNK_BYTES);
    memset(buffer_reserve(&chunk, CHUNK_BYTES), 'x', CHUNK_BYTES);
    chunk.size_bytes += CHUNK_BYTES;
    buffer_printf(&chunk, "\r\n");
    for (int chunks = 4; chunks <= 17; chunks += 13) { /* the source's limit, beyond the body's */
        int fd = live_connect(&live);
        assert_true(live_send(fd, head, strlen(head)));
        assert_true(live_send(fd, live.sam, strlen(live.sam)));
        assert_true(live_send(fd, "\r\n\r\n", 4));
        for (int i = 0; i < chunks; i++) {
            assert_true(live_send(fd, chunk.data, chunk.size_bytes));
        }
        assert_true(live_send(fd, "0\r\n\r\n", 5));
        assert_true(live_receive(fd, &answer));
        assert_int_equal(answer.status, chunks == 4 ? 201 : 413);
        buffer_release(&answer.body);
        close(fd);
    }
    buffer_release(&chunk);
    assert_int_equal(live_count(&live, "SELECT count(*) FROM submission"), 1);
    assert_int_equal(live_count(&live, "SELECT size_bytes FROM source"), SOURCE_MAX_BYTES);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    static const struct CMUnitTest tests[] = {
        TEST(test_what_can_be_read_in_two_ways_is_refused_and_the_connection_closed),
        TEST(test_a_head_that_can_be_read_in_one_way_only_is_served),
        TEST(test_what_is_no_http_request_ends_with_its_connection),
        TEST(test_a_body_without_a_length_is_counted),
    };

    return sodium_init() < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
