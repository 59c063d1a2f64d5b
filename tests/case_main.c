/*
 * case_main.c — the program of test_cuda_api and test_simd: as a test it runs each case in
 * processes of its own, and those are this same program.
 */
#include "common/buffer.h"
#include "tests/cuda_cases.h"
#include "tests/sim_session.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CASES_MAX = 128, LOAD_PROCESSES = 4, FUEL_DEFAULT = 1000000000 };

static char self[4096];

/* ---- in a case's process ---- */

int case_peer = -1;

void case_expect(const char *file, int line, const char *text, long long got, long long expected)
{
    if (got != expected) {
        (void)fprintf(stderr, "%s:%d: %s is %lld, not %lld\n", file, line, text, got, expected);
        exit(1);
    }
}

void case_send(const void *data, size_t size_bytes, int fd)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof fd)];
    } control = {0};
    struct iovec piece = {.iov_base = (void *)data, .iov_len = size_bytes};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};

    if (fd >= 0) {
        message.msg_control = &control;
        message.msg_controllen = sizeof control;
        control.header = (struct cmsghdr){
            .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fd)};
        memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
    }
    EXPECT(sendmsg(case_peer, &message, MSG_NOSIGNAL), size_bytes);
}

void case_receive(void *data, size_t size_bytes, int *fd)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec piece = {.iov_base = data, .iov_len = size_bytes};
    struct msghdr message = {.msg_iov = &piece,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
    ssize_t got = -1;

    while ((got = recvmsg(case_peer, &message, MSG_DONTWAIT)) < 0) {
        (void)cudaStreamQuery(0);
        message.msg_controllen = sizeof control;
    }
    EXPECT(got, size_bytes);
    const struct cmsghdr *part = CMSG_FIRSTHDR(&message);
    if (fd && part) {
        memcpy(fd, CMSG_DATA(part), sizeof *fd);
    }
}

static const struct cuda_case *find_case(const char *name)
{
    for (size_t list = 0; case_lists[list]; list++) {
        for (const struct cuda_case *found = case_lists[list]; found->name; found++) {
            if (strcmp(found->name, name) == 0) {
                return found;
            }
        }
    }
    return NULL;
}

/* --case NAME RANK PEER */
static int run_case(char **argv)
{
    const struct cuda_case *found = find_case(argv[2]);
    int rank = (int)strtol(argv[3], NULL, 10);

    case_peer = (int)strtol(argv[4], NULL, 10);
    if (!found) {
        return 2;
    }
    found->run(rank);
    return 0;
}

/* ---- in the test's process ---- */

static bool is_hardware(void)
{
    const char *device = getenv("PKB_TEST_DEVICE");

    return device && strcmp(device, "cuda") == 0;
}

static pid_t spawn_on_hardware(char *const argv[], int output_fd)
{
    pid_t child = fork();

    if (child == 0) {
        /* A kernel that is loaded behind one that waits for it never comes. */
        (void)setenv("CUDA_MODULE_LOADING", "EAGER", 1);
        dup2(output_fd, STDOUT_FILENO);
        dup2(output_fd, STDERR_FILENO);
        execv(argv[0], argv);
        _exit(2);
    }
    return child;
}

/* Starts the ranks of a case; their status words are waited for by its end. */
static void spawn_ranks(struct sim_session *session, const struct cuda_case *tested, int output_fd)
{
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    for (int rank = 0; rank < tested->ranks; rank++) {
        char rank_text[16], peer_text[16];
        char *argv[] = {self, "--case", (char *)tested->name, rank_text, peer_text, NULL};
        (void)snprintf(rank_text, sizeof rank_text, "%d", rank);
        (void)snprintf(peer_text, sizeof peer_text, "%d", pair[rank]);
        /* Each has its own end only, so that it sees the end of the other. */
        assert_int_equal(fcntl(pair[rank], F_SETFD, 0), 0);
        if (is_hardware()) {
            session->clients[rank] = spawn_on_hardware(argv, output_fd);
        } else {
            sim_spawn(session, rank, argv, output_fd);
        }
        assert_int_equal(fcntl(pair[rank], F_SETFD, FD_CLOEXEC), 0);
    }
    close(pair[0]);
    close(pair[1]);
}

/* True if all went as it should. */
static bool run_once(const struct cuda_case *tested, int output_fd, struct buffer *report)
{
    struct sim_session session = {0};
    int statuses[SIM_CLIENTS_MAX] = {0};
    bool good = true;

    if (is_hardware()) {
        spawn_ranks(&session, tested, output_fd);
        for (int rank = 0; rank < tested->ranks; rank++) {
            waitpid(session.clients[rank], &statuses[rank], 0);
        }
    } else {
        sim_start(&session,
                  &(struct sim_settings){.ranks = tested->ranks,
                                         .image = self,
                                         .fuel = tested->fuel ? tested->fuel : FUEL_DEFAULT});
        spawn_ranks(&session, tested, output_fd);
        good = sim_finish(&session, statuses, report) == 0;
    }
    for (int rank = 0; rank < tested->ranks; rank++) {
        good &= WIFEXITED(statuses[rank]) && WEXITSTATUS(statuses[rank]) == tested->exit_status;
    }
    return good;
}

/* Uses the CPU until it is killed. */
static pid_t spawn_load(void)
{
    pid_t child = fork();

    if (child == 0) {
        for (;;) {
            (void)getppid();
        }
    }
    return child;
}

/* What came of one run: pkb-simd's report, and what the processes wrote. */
struct outcome {
    struct buffer report;
    char text[8192];
};

static void outcome_release(struct outcome *outcome)
{
    buffer_release(&outcome->report);
}

static bool run(const struct cuda_case *tested, struct outcome *outcome)
{
    FILE *output = tmpfile();

    assert_non_null(output);
    bool good = run_once(tested, fileno(output), &outcome->report);
    rewind(output);
    size_t size_bytes = fread(outcome->text, 1, sizeof outcome->text - 1, output);
    outcome->text[size_bytes] = '\0';
    (void)fclose(output);
    if (!good ||
        (tested->report && !is_hardware() &&
         (!outcome->report.data || !strstr(outcome->report.data, tested->report))) ||
        (tested->absent && !is_hardware() && outcome->report.data &&
         strstr(outcome->report.data, tested->absent))) {
        print_message("%s%s", outcome->report.data ? outcome->report.data : "", outcome->text);
        good = false;
    }
    return good;
}

/* Runs it again while the machine is busy: nothing that it says may differ. */
static bool run_again(const struct cuda_case *tested, const struct outcome *first)
{
    pid_t load[LOAD_PROCESSES];
    bool good = true;

    for (int i = 0; i < LOAD_PROCESSES; i++) {
        load[i] = spawn_load();
    }
    for (int i = 1; good && i < tested->repeats; i++) {
        struct outcome again = {0};
        good = run(tested, &again);
        if (good && (strcmp(again.text, first->text) != 0 ||
                     strcmp(again.report.data, first->report.data) != 0)) {
            print_message("first: %s%s\nthen: %s%s\n", first->report.data, first->text,
                          again.report.data, again.text);
            good = false;
        }
        outcome_release(&again);
    }
    for (int i = 0; i < LOAD_PROCESSES; i++) {
        kill(load[i], SIGKILL);
        waitpid(load[i], NULL, 0);
    }
    return good;
}

static void test_case(void **state)
{
    const struct cuda_case *tested = *state;
    struct outcome outcome = {0};

    bool good = run(tested, &outcome);
    if (good && tested->repeats > 1) {
        good = run_again(tested, &outcome);
    }
    outcome_release(&outcome);
    assert_true(good);
}

int main(int argc, char **argv)
{
    struct CMUnitTest tests[CASES_MAX] = {0};
    size_t count = 0;

    if (argc == 5 && strcmp(argv[1], "--case") == 0) {
        return run_case(argv);
    }
    assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    for (size_t list = 0; case_lists[list]; list++) {
        for (const struct cuda_case *found = case_lists[list]; found->name; found++) {
            if (argc < 2 || strcmp(argv[1], found->name) == 0) {
                tests[count++] = (struct CMUnitTest){
                    .name = found->name, .test_func = test_case, .initial_state = (void *)found};
            }
        }
    }
    return _cmocka_run_group_tests(argv[0], tests, count, NULL, NULL);
}
