/*
 * live_server.h — a real server on a port of its own, in a child process, and requests to it byte
 * by byte.
 *
 * live_open makes a folder with a database and one token of each kind; live_start and live_stop (or
 * live_kill) may be called again on the same database. The program has called sodium_init.
 */
#pragma once

#include "server/db.h"
#include "server/service.h"
#include "server/tokens.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { ANSWER_MAX_BYTES = 4 << 20, ANSWER_MAX_S = 60 };

struct live {
    char directory[64];
    char database[96];
    char port_file[96];
    char admin[TOKEN_TEXT_MAX];
    char sam[TOKEN_TEXT_MAX]; /* a submitter, as eve */
    char eve[TOKEN_TEXT_MAX];
    char reader[TOKEN_TEXT_MAX];
    char ada[TOKEN_TEXT_MAX]; /* a worker */
    int64_t ttl_ms;
    int port;
    pid_t pid;
};

struct answer {
    int status;
    char headers[4096];
    struct buffer body;
};

static inline void live_token(struct live *live, struct db *db, enum role role, const char *name,
                              char text[static TOKEN_TEXT_MAX])
{
    struct token token = {.role = role};
    struct error err = {0};

    (void)live;
    (void)snprintf(token.name, sizeof token.name, "%s", name);
    (void)snprintf(token.node, sizeof token.node, "%s", role == ROLE_WORKER ? name : "");
    assert_int_equal(token_add(db, &token, 1, text, &err), OK);
}

static inline void live_open(struct live *live)
{
    struct error err = {0};
    struct db *db = NULL;

    *live = (struct live){.ttl_ms = LEASE_TTL_MS};
    (void)signal(SIGPIPE, SIG_IGN);
    (void)snprintf(live->directory, sizeof live->directory, "/tmp/test_server.XXXXXX");
    assert_non_null(mkdtemp(live->directory));
    (void)snprintf(live->database, sizeof live->database, "%s/db", live->directory);
    (void)snprintf(live->port_file, sizeof live->port_file, "%s/port", live->directory);
    assert_int_equal(mkfifo(live->port_file, 0600), 0);
    assert_int_equal(db_open(&db, live->database, DB_CREATE, &err), OK);
    live_token(live, db, ROLE_ADMIN, "root", live->admin);
    live_token(live, db, ROLE_SUBMITTER, "sam", live->sam);
    live_token(live, db, ROLE_SUBMITTER, "eve", live->eve);
    live_token(live, db, ROLE_READER, "sam", live->reader);
    live_token(live, db, ROLE_WORKER, "ada", live->ada);
    db_close(db);
}

/* Runs the server in a child, and waits until it listens. */
static inline void live_start(struct live *live)
{
    char port[16] = "";

    live->pid = fork();
    assert_int_not_equal(live->pid, -1);
    if (live->pid == 0) {
        struct service_options options = {.database = live->database,
                                          .listen = "127.0.0.1:0",
                                          .port_file = live->port_file,
                                          .ttl_ms = live->ttl_ms};
        struct error err = {0};
        char log[96];
        (void)snprintf(log, sizeof log, "%s/log", live->directory);
        int fd = open(log, O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
        if (fd < 0 || dup2(fd, STDERR_FILENO) < 0) {
            _exit(3);
        }
        _exit(service_run(&options, &err) == OK ? 0 : 1);
    }
    int fd = open(live->port_file, O_RDONLY | O_CLOEXEC);
    assert_int_not_equal(fd, -1);
    assert_true(read(fd, port, sizeof port - 1) > 1);
    close(fd);
    live->port = (int)strtol(port, NULL, 10);
    assert_in_range(live->port, 1, 65535);
}

static inline void live_wait(struct live *live, int *status)
{
    assert_int_equal(waitpid(live->pid, status, 0), live->pid);
    live->pid = 0;
}

static inline void live_stop(struct live *live)
{
    int status = 0;

    assert_int_equal(kill(live->pid, SIGTERM), 0);
    live_wait(live, &status);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static inline void live_kill(struct live *live)
{
    int status = 0;

    assert_int_equal(kill(live->pid, SIGKILL), 0);
    live_wait(live, &status);
}

static inline void live_close(struct live *live)
{
    static const char *const names[] = {"db", "db-wal", "db-shm", "db-server", "port", "log"};
    char path[128];

    if (live->pid > 0) {
        live_kill(live);
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", live->directory, names[i]);
        (void)unlink(path);
    }
    assert_int_equal(rmdir(live->directory), 0);
}

/* A number from the database, read beside the running server. */
static inline int live_count(struct live *live, const char *sql)
{
    struct sqlite3_stmt *statement = NULL;
    struct error err = {0};
    struct db *db = NULL;
    char number[32] = "";
    bool row = false;

    assert_int_equal(db_open(&db, live->database, DB_READ, &err), OK);
    assert_int_equal(db_prepare(db, sql, &statement, &err), OK);
    assert_int_equal(db_step(db, statement, &row, &err), OK);
    db_column_text(statement, 0, number, sizeof number);
    db_close(db);
    return (int)strtol(number, NULL, 10);
}

static inline int live_connect(const struct live *live)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)live->port)};
    struct timeval patience = {.tv_sec = ANSWER_MAX_S};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_not_equal(fd, -1);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

/* False when the server has hung up. */
static inline bool live_send(int fd, const void *bytes, size_t size_bytes)
{
    const char *from = bytes;

    while (size_bytes > 0) {
        ssize_t sent = send(fd, from, size_bytes, 0);
        if (sent <= 0) {
            return false;
        }
        from += sent;
        size_bytes -= (size_t)sent;
    }
    return true;
}

/* Reads one answer, without a byte more; false when the server hangs up before its end. */
static inline bool live_receive(int fd, struct answer *answer)
{
    size_t used = 0;
    size_t length = 0;
    char *end = NULL;
    char *field = NULL;

    *answer = (struct answer){0};
    while (end == NULL) {
        char *to = answer->headers + used;
        assert_true(used + 1 < sizeof answer->headers);
        ssize_t got = recv(fd, to, sizeof answer->headers - used - 1, MSG_PEEK);
        if (got <= 0) {
            return false;
        }
        to[got] = 0;
        end = strstr(answer->headers, "\r\n\r\n");
        size_t taken = end == NULL ? (size_t)got : (size_t)(end + 4 - to);
        to[taken] = 0;
        assert_int_equal(recv(fd, to, taken, 0), taken);
        used += taken;
    }
    answer->status = (int)strtol(answer->headers + strcspn(answer->headers, " "), NULL, 10);
    field = strcasestr(answer->headers, "\r\nContent-Length:");
    if (field != NULL) {
        length = strtoul(field + strlen("\r\nContent-Length:"), NULL, 10);
    }
    assert_true(length < ANSWER_MAX_BYTES);
    buffer_reserve(&answer->body, length);
    while (answer->body.size_bytes < length) {
        ssize_t got = recv(fd, answer->body.data + answer->body.size_bytes,
                           length - answer->body.size_bytes, 0);
        if (got <= 0) {
            buffer_release(&answer->body);
            return false;
        }
        answer->body.size_bytes += (size_t)got;
        answer->body.data[answer->body.size_bytes] = 0;
    }
    return true;
}

struct asked {
    const char *method; /* NULL: GET, or POST where there is a body */
    const char *path;
    const char *token; /* NULL: none */
    const char *type;  /* NULL: application/json */
    const char *body;  /* NULL: none */
    size_t body_bytes; /* 0: up to the zero byte */
    const char *key;   /* Idempotency-Key; NULL: none */
};

static inline void live_ask(int fd, const struct asked *asked)
{
    struct buffer text = {0};
    const char *method = asked->method != NULL ? asked->method : asked->body ? "POST" : "GET";
    size_t body_bytes = asked->body == NULL      ? 0
                        : asked->body_bytes != 0 ? asked->body_bytes
                                                 : strlen(asked->body);

    buffer_printf(&text, "%s %s HTTP/1.1\r\nHost: x\r\n", method, asked->path);
    if (asked->token != NULL) {
        buffer_printf(&text, "Authorization: Bearer %s\r\n", asked->token);
    }
    if (asked->key != NULL) {
        buffer_printf(&text, "Idempotency-Key: %s\r\n", asked->key);
    }
    if (asked->body != NULL) {
        buffer_printf(&text, "Content-Type: %s\r\nContent-Length: %zu\r\n",
                      asked->type == NULL ? "application/json" : asked->type, body_bytes);
    }
    buffer_printf(&text, "\r\n");
    buffer_append(&text, asked->body == NULL ? "" : asked->body, body_bytes);
    assert_true(live_send(fd, text.data, text.size_bytes));
    buffer_release(&text);
}

/* One request on a connection of its own. */
static inline void live_call(struct live *live, const struct asked *asked, struct answer *answer)
{
    int fd = live_connect(live);

    live_ask(fd, asked);
    assert_true(live_receive(fd, answer));
    close(fd);
}

/* Copies the text of the first "key":"..." in a JSON text. */
static inline void live_text(const struct answer *answer, const char *key, char *to, size_t size)
{
    char pattern[64];

    (void)snprintf(pattern, sizeof pattern, "\"%s\":\"", key);
    const char *at = strstr(answer->body.data, pattern);
    assert_non_null(at);
    at += strlen(pattern);
    (void)snprintf(to, size, "%.*s", (int)strcspn(at, "\""), at);
}
