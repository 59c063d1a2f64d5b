#include "tests/sim_session.h"

#include "common/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ARGUMENTS_MAX = 48 };

static void need(bool good, const char *what)
{
    if (!good) {
        (void)fprintf(stderr, "sim_session: %s: %s\n", what, strerror(errno));
        exit(2);
    }
}

static const char *build(void)
{
    const char *folder = getenv("BUILD");

    return folder ? folder : "build";
}

static void keep_open(int fd)
{
    need(fcntl(fd, F_SETFD, 0) == 0, "fcntl");
}

void sim_start(struct sim_session *session, const struct sim_settings *settings)
{
    char *argv[ARGUMENTS_MAX] = {xasprintf("%s/bin/pkb-simd", build())};
    int ends[SIM_CLIENTS_MAX], report[2], count = 1;

    *session = (struct sim_session){.client_count = settings->ranks};
    need(pipe2(report, O_CLOEXEC) == 0, "pipe");
    for (int rank = 0; rank < settings->ranks; rank++) {
        int pair[2];
        need(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0, "socketpair");
        session->client_fds[rank] = pair[0];
        ends[rank] = pair[1];
        argv[count++] = xasprintf("--client=rank%d=%d", rank, pair[1]);
    }
    argv[count++] = xasprintf("--devices=%d", settings->ranks);
    argv[count++] = xasprintf("--image=%s", settings->image);
    argv[count++] = xasprintf("--image=%s/lib/nccl/libnccl.so.2", build());
    argv[count++] = xasprintf("--image=%s/lib/sim/libcublasLt.so.13", build());
    argv[count++] = xasprintf("--report=%d", report[1]);
    argv[count++] = xasprintf("--seed=%lu", settings->seed);
    argv[count++] = xasprintf("--fuel=%lu", settings->fuel);
    if (settings->memory_bytes) {
        argv[count++] = xasprintf("--memory=%lu", settings->memory_bytes);
    }
    session->report_fd = report[0];
    session->simd = fork();
    need(session->simd >= 0, "fork");
    if (session->simd == 0) {
        keep_open(report[1]);
        for (int rank = 0; rank < settings->ranks; rank++) {
            keep_open(ends[rank]);
        }
        execv(argv[0], argv);
        need(false, argv[0]);
    }
    close(report[1]);
    for (int rank = 0; rank < settings->ranks; rank++) {
        close(ends[rank]);
    }
    for (int i = 0; i < count; i++) {
        free(argv[i]);
    }
}

void sim_spawn(struct sim_session *session, int index, char *const argv[], int output_fd)
{
    char number[16];
    pid_t client = fork();

    need(client >= 0, "fork");
    if (client == 0) {
        const char *path = getenv("LD_LIBRARY_PATH");
        char *libraries = xasprintf("%s/lib/sim:%s", build(), path ? path : "");
        (void)snprintf(number, sizeof number, "%d", session->client_fds[index]);
        need(setenv("PKB_SIM_FD", number, 1) == 0, "setenv");
        need(setenv("LD_LIBRARY_PATH", libraries, 1) == 0, "setenv");
        keep_open(session->client_fds[index]);
        need(dup2(output_fd, STDOUT_FILENO) >= 0 && dup2(output_fd, STDERR_FILENO) >= 0, "dup2");
        execv(argv[0], argv);
        need(false, argv[0]);
    }
    session->clients[index] = client;
    close(session->client_fds[index]);
}

int sim_finish(struct sim_session *session, int *statuses, struct buffer *report)
{
    char text[4096];
    ssize_t got = 0;
    int status = 0;

    while ((got = read(session->report_fd, text, sizeof text)) > 0) {
        buffer_append(report, text, (size_t)got);
    }
    close(session->report_fd);
    for (int i = 0; i < session->client_count; i++) {
        need(waitpid(session->clients[i], &statuses[i], 0) == session->clients[i], "waitpid");
    }
    need(waitpid(session->simd, &status, 0) == session->simd, "waitpid");
    return status;
}
