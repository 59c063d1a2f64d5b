/*
 * fuzz_http.c — a real server, and a client that sends the bytes and nothing else.
 *
 * The server runs in a thread, on a database of its own; a new one takes its place before it has
 * become large. "@T" in the bytes is a submitter's token, "@W" a worker's, "@A" an admin's.
 */
#include "server/db.h"
#include "server/service.h"
#include "server/tokens.h"
#include "tests/fuzz/fuzz.h"

#include "common/log.h"

#include <arpa/inet.h>
#include <assert.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { INPUTS_A_SERVER = 4096, ANSWER_MS = 50, ANSWER_BYTES_MAX = 1 << 16 };

struct server {
    char folder[64], database[96], port_file[96];
    char tokens[3][TOKEN_TEXT_MAX];
    struct service_options options;
    pthread_t thread;
    struct sockaddr_in address;
    int inputs; /* since it started */
};

static struct server server;

static void *serve(void *context)
{
    struct error err = {0};

    enum status status = service_run(context, &err);
    assert(status == OK);
    return NULL;
}

static void add_token(struct db *db, enum role role, char text[static TOKEN_TEXT_MAX])
{
    struct token token = {.role = role, .name = "fuzz", .node = ""};
    struct error err = {0};

    enum status status = token_add(db, &token, 1, text, &err);
    assert(status == OK);
}

static void make_database(void)
{
    struct error err = {0};
    struct db *db = NULL;

    enum status status = db_open(&db, server.database, DB_CREATE, &err);
    assert(status == OK);
    add_token(db, ROLE_SUBMITTER, server.tokens[0]);
    add_token(db, ROLE_WORKER, server.tokens[1]);
    add_token(db, ROLE_ADMIN, server.tokens[2]);
    db_close(db);
}

/* SIGTERM is for the thread alone. */
static void block_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    int failed = pthread_sigmask(SIG_BLOCK, &set, NULL);
    assert(!failed);
    (void)signal(SIGPIPE, SIG_IGN);
}

static void stop(void)
{
    static const char *const names[] = {"db", "db-wal", "db-shm", "db-server", "port"};
    char path[128];

    if (!server.folder[0]) {
        return;
    }
    /* The server has a handler. NOLINTNEXTLINE(bugprone-bad-signal-to-kill-thread) */
    int failed = pthread_kill(server.thread, SIGTERM);
    assert(!failed);
    failed = pthread_join(server.thread, NULL);
    assert(!failed);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", server.folder, names[i]);
        (void)unlink(path);
    }
    (void)rmdir(server.folder);
    server.folder[0] = 0;
}

static void start(void)
{
    static bool has_started;
    char port[16] = "";

    if (!has_started) {
        int failed = sodium_init() < 0 || atexit(stop);
        assert(!failed);
        has_started = true;
    }
    (void)snprintf(server.folder, sizeof server.folder, "/tmp/fuzz_http.XXXXXX");
    const char *folder = mkdtemp(server.folder);
    assert(folder != NULL);
    (void)snprintf(server.database, sizeof server.database, "%s/db", folder);
    (void)snprintf(server.port_file, sizeof server.port_file, "%s/port", folder);
    int failed = mkfifo(server.port_file, 0600);
    assert(!failed);
    make_database();
    block_signals();
    server.options = (struct service_options){.database = server.database,
                                              .listen = "127.0.0.1:0",
                                              .port_file = server.port_file,
                                              .ttl_ms = 60000};
    failed = pthread_create(&server.thread, NULL, serve, &server.options);
    assert(!failed);
    int fd = open(server.port_file, O_RDONLY | O_CLOEXEC);
    ssize_t got = read(fd, port, sizeof port - 1);
    assert(got > 1);
    close(fd);
    server.address = (struct sockaddr_in){.sin_family = AF_INET,
                                          .sin_port = htons((uint16_t)strtol(port, NULL, 10)),
                                          .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    server.inputs = 0;
}

/* The bytes, with tokens where they are asked for. */
static void fill_in(struct buffer *text, const uint8_t *data, size_t size_bytes)
{
    static const char letters[] = "TWA";

    for (size_t i = 0; i < size_bytes; i++) {
        const char *letter =
            i + 1 < size_bytes && data[i + 1] ? strchr(letters, data[i + 1]) : NULL;
        if (data[i] == '@' && letter != NULL) {
            buffer_printf(text, "%s", server.tokens[letter - letters]);
            i++;
        } else {
            buffer_append(text, (const char *)data + i, 1);
        }
    }
}

/* What is answered is HTTP, and never that the server failed. */
static void check_answer(const char *answer, size_t size_bytes)
{
    if (size_bytes >= 16) {
        assert(memcmp(answer, "HTTP/1.", 7) == 0);
        assert(memcmp(answer + 9, "500", 3) != 0);
    }
}

static void talk(int fd, const struct buffer *text)
{
    static char answer[ANSWER_BYTES_MAX];
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    size_t size_bytes = 0;
    ssize_t got = 0;

    (void)send(fd, text->data, text->size_bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)shutdown(fd, SHUT_WR);
    while (size_bytes < sizeof answer && poll(&ready, 1, ANSWER_MS) == 1 &&
           (got = recv(fd, answer + size_bytes, sizeof answer - size_bytes, 0)) > 0) {
        size_bytes += (size_t)got;
    }
    check_answer(answer, size_bytes);
}

void fuzz_http(const uint8_t *data, size_t size_bytes)
{
    struct linger at_once = {.l_onoff = 1};
    struct buffer text = {0};

    if (server.folder[0] && server.inputs++ == INPUTS_A_SERVER) {
        stop();
    }
    if (!server.folder[0]) {
        start();
    }
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int failed = connect(fd, (const struct sockaddr *)&server.address, sizeof server.address);
    assert(!failed);
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once); /* no TIME_WAIT */
    fill_in(&text, data, size_bytes);
    talk(fd, &text);
    close(fd);
    buffer_release(&text);
}
