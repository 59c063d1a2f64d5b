/*
 * kill -9 of the server at random moments, under a stream of submissions, leases and results:
 * whatever was acknowledged is there afterwards, once, and every job still ends.
 *
 * SEED=N repeats a run's choices, ROUNDS=N makes it longer.
 */
#include "tests/live_server.h"

#include "common/clock.h"

#include <sodium.h>
#include <sqlite3.h>

enum {
    SUBMITTERS = 3,
    WORKERS = 4,
    ROUNDS_DEFAULT = 10,
    ACKS_MIN = 5,
    ACKS_MAX = 300,
    LINE_BYTES = 48, /* what a client writes to the pipe: 'S' or 'R' and a job's id, padded */
    RESTART_MAX_MS = 10000,
};

static struct live live;

static uint64_t random_next(uint64_t *random)
{
    *random = *random * 6364136223846793005U + 1442695040888963407U;
    return *random >> 33;
}

static int set_up(void **state)
{
    (void)state;
    live_open(&live);
    live.ttl_ms = 500;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    live_close(&live);
    return 0;
}

/* Sends and receives; false when the server is gone. */
static bool ask(int fd, const struct asked *asked, struct answer *answer)
{
    struct buffer text = {0};

    buffer_printf(&text,
                  "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: %s\r\n"
                  "Content-Length: %zu\r\n\r\n%s",
                  asked->path, asked->token, asked->type, strlen(asked->body), asked->body);
    bool is_sent = live_send(fd, text.data, text.size_bytes);
    buffer_release(&text);
    return is_sent && live_receive(fd, answer);
}

/* Tells the parent what was acknowledged. */
static void acknowledge(int pipe_fd, char kind, const char *job_id)
{
    char line[LINE_BYTES] = {0};

    (void)snprintf(line, sizeof line, "%c%s", kind, job_id);
    if (write(pipe_fd, line, sizeof line) != sizeof line) {
        _exit(2);
    }
}

/* The id that follows `before` in an answer. */
static bool read_id(const struct answer *answer, const char *before, char id[static ID_MAX])
{
    const char *at = strstr(answer->body.data, before);

    if (at == NULL) {
        return false;
    }
    at += strlen(before);
    (void)snprintf(id, ID_MAX, "%.*s", (int)strcspn(at, "\""), at);
    return true;
}

/* Submits until the server is gone. Each submission has a model of its own. */
static void submit_for_ever(int fd, int pipe_fd, int round, int who)
{
    struct answer answer = {0};
    char path[128];
    char id[ID_MAX];

    for (int i = 0;; i++) {
        (void)snprintf(path, sizeof path, "/v1/submissions?task=1&model=%d.%d.%d", round, who, i);
        struct asked asked = {
            .path = path, .token = live.sam, .type = "text/x-cuda", .body = "__global__ void k();"};
        if (!ask(fd, &asked, &answer)) {
            _exit(0);
        }
        if (answer.status != 201 || !read_id(&answer, "\"job\":{\"id\":\"", id)) {
            _exit(3);
        }
        acknowledge(pipe_fd, 'S', id);
        buffer_release(&answer.body);
    }
}

/* Leases one job and ends it. Returns the status of the lease, 0 when the server is gone. */
static int work_once(int fd, int pipe_fd)
{
    static const char wish[] = "{\"kinds\":[\"sim\"],\"gpus\":8,\"wait_s\":1}";
    struct answer answer = {0};
    char id[ID_MAX] = "";
    char path[128];
    char report[256];

    struct asked lease = {.path = "/v1/workers/ada/lease",
                          .token = live.ada,
                          .type = "application/json",
                          .body = wish};
    if (!ask(fd, &lease, &answer)) {
        return 0;
    }
    int status = answer.status;
    const char *epoch = status == 200 ? strstr(answer.body.data, "\"epoch\":") : NULL;
    if (epoch != NULL && read_id(&answer, "\"job\":{\"id\":\"", id)) {
        (void)snprintf(report, sizeof report,
                       "{\"worker\":\"ada\",\"epoch\":%ld,\"result\":{\"verdict\":\"accepted\","
                       "\"build_ms\":1,\"run_ms\":1}}",
                       strtol(epoch + strlen("\"epoch\":"), NULL, 10));
    }
    buffer_release(&answer.body);
    if (status != 200) {
        return status;
    }
    (void)snprintf(path, sizeof path, "/v1/jobs/%s/result", id);
    struct asked result = {
        .path = path, .token = live.ada, .type = "application/json", .body = report};
    if (!ask(fd, &result, &answer)) {
        return 0;
    }
    if (answer.status == 200) {
        acknowledge(pipe_fd, 'R', id);
    }
    buffer_release(&answer.body);
    return status;
}

static void work_for_ever(int fd, int pipe_fd)
{
    while (work_once(fd, pipe_fd) != 0) {
    }
    _exit(0);
}

/* Starts the clients; their connections are made before, so that none comes too late. */
static void start_clients(int round, int pipe_fds[2], pid_t pids[SUBMITTERS + WORKERS])
{
    for (int who = 0; who < SUBMITTERS + WORKERS; who++) {
        int fd = live_connect(&live);
        pids[who] = fork();
        assert_int_not_equal(pids[who], -1);
        if (pids[who] == 0) {
            close(pipe_fds[0]);
            if (who < SUBMITTERS) {
                submit_for_ever(fd, pipe_fds[1], round, who);
            }
            work_for_ever(fd, pipe_fds[1]);
        }
        close(fd);
    }
}

/* Appends what the clients say to `lines`, and kills the server after `acks` of them. */
static void kill_after(int acks, int pipe_fd, struct buffer *lines)
{
    char line[LINE_BYTES];
    int count = 0;

    while (read(pipe_fd, line, sizeof line) == sizeof line) {
        buffer_append(lines, line, sizeof line);
        if (++count == acks) {
            live_kill(&live);
        }
    }
    assert_true(count >= acks);
}

static void check_acknowledged(const struct buffer *lines)
{
    static const char sql[] =
        "SELECT state, (SELECT count(*) FROM result WHERE result.job = job.id) FROM job"
        " JOIN submission ON submission.id = job.submission"
        " JOIN source ON source.sha256 = submission.source WHERE job.id = ?1";
    struct sqlite3_stmt *select = NULL;
    struct error err = {0};
    struct db *db = NULL;

    assert_int_equal(db_open(&db, live.database, DB_READ, &err), OK);
    assert_int_equal(db_prepare(db, sql, &select, &err), OK);
    for (size_t at = 0; at < lines->size_bytes; at += LINE_BYTES) {
        const char *line = lines->data + at;
        char job_state[32];
        bool row = false;
        db_bind_text(select, 1, line + 1);
        assert_int_equal(db_step(db, select, &row, &err), OK);
        if (!row) {
            fail_msg("%s was acknowledged and is lost", line + 1);
        }
        db_column_text(select, 0, job_state, sizeof job_state);
        if (line[0] == 'R' &&
            (strcmp(job_state, "done") != 0 || sqlite3_column_int(select, 1) != 1)) {
            fail_msg("the result of %s was acknowledged and is lost", line + 1);
        }
        db_reset(select);
    }
    db_close(db);
}

static void say_hello(void)
{
    struct answer answer = {0};

    live_call(&live,
              &(struct asked){.path = "/v1/workers",
                              .token = live.ada,
                              .body = "{\"name\":\"ada\",\"devices\":[{\"kind\":\"sim\","
                                      "\"gpus\":8}],\"version\":\"1\"}"},
              &answer);
    assert_int_equal(answer.status, 200);
    buffer_release(&answer.body);
}

static void run_round(int round, int acks, struct buffer *lines)
{
    pid_t pids[SUBMITTERS + WORKERS];
    int pipe_fds[2];

    assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
    start_clients(round, pipe_fds, pids);
    close(pipe_fds[1]);
    kill_after(acks, pipe_fds[0], lines);
    close(pipe_fds[0]);
    for (int who = 0; who < SUBMITTERS + WORKERS; who++) {
        int status = 0;
        assert_int_equal(waitpid(pids[who], &status, 0), pids[who]);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

/* Leases of killed rounds come back after their time; then every job can be ended. */
static void end_all_jobs(void)
{
    int pipe_fds[2];
    char line[LINE_BYTES];

    assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
    int fd = live_connect(&live);
    int status = work_once(fd, pipe_fds[1]);
    while (status == 200) {
        assert_int_equal(read(pipe_fds[0], line, sizeof line), sizeof line);
        status = work_once(fd, pipe_fds[1]);
    }
    assert_int_equal(status, 204);
    close(fd);
    close(pipe_fds[0]);
    close(pipe_fds[1]);
}

static int number_of(const char *name, int otherwise)
{
    const char *text = getenv(name);

    return text == NULL ? otherwise : (int)strtol(text, NULL, 10);
}

static void test_nothing_acknowledged_is_lost_when_the_server_is_killed(void **state)
{
    int seed = number_of("SEED", (int)(clock_monotonic_ns() & 0x7fffffff));
    int rounds = number_of("ROUNDS", ROUNDS_DEFAULT);
    uint64_t random = (uint64_t)seed;
    struct buffer lines = {0};

    (void)state;
    print_message("# SEED=%d\n", seed);
    live_start(&live);
    say_hello();
    for (int round = 0; round < rounds; round++) {
        int acks = ACKS_MIN + (int)(random_next(&random) % (ACKS_MAX - ACKS_MIN));
        run_round(round, acks, &lines);
        int64_t began_ms = clock_monotonic_ms();
        live_start(&live);
        assert_true(clock_monotonic_ms() - began_ms < RESTART_MAX_MS);
        check_acknowledged(&lines);
    }
    assert_int_equal(live_count(&live, "SELECT count(*) - count(DISTINCT model) FROM submission"),
                     0);
    assert_int_equal(live_count(&live, "SELECT (SELECT count(*) FROM submission)"
                                       " - (SELECT count(*) FROM job)"),
                     0);
    end_all_jobs();
    assert_int_equal(live_count(&live, "SELECT count(*) FROM job WHERE state <> 'done'"), 0);
    assert_int_equal(live_count(&live, "SELECT (SELECT count(*) FROM result)"
                                       " - (SELECT count(*) FROM job)"),
                     0);
    assert_int_equal(live_count(&live, "SELECT count(*) FROM job WHERE lost_workers > 0"), 0);
    print_message("# %d acknowledged, %d jobs\n", (int)(lines.size_bytes / LINE_BYTES),
                  live_count(&live, "SELECT count(*) FROM job"));
    buffer_release(&lines);
    live_stop(&live);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_nothing_acknowledged_is_lost_when_the_server_is_killed,
                                        set_up, tear_down),
    };

    return sodium_init() < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
