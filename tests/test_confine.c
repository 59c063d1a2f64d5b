/* confine.h: each call is made by a child, first free and then confined. */
#include "sim/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static const struct confinement confinement = {.address_bytes = 1ull << 40, .descriptors_max = 64};

static void enter(void)
{
    struct error err = {0};

    if (confine(&confinement, &err) != OK) {
        _exit(99);
    }
}

/* How a child ends that does `act`. */
static int status_of(void (*act)(void), bool is_confined)
{
    int status = 0;
    pid_t child = fork();

    assert_int_not_equal(child, -1);
    if (child == 0) {
        if (is_confined) {
            enter();
        }
        act();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

/* Every system call that opens, connects, starts, controls or looks at something else. Made with
 * arguments that harm nothing: what matters is that they are made. */
static const struct {
    const char *name;
    long number;
    long arguments[4];
} refused[] = {
#define ROW(call, ...)                                                                             \
    {                                                                                              \
#call, SYS_##call,                                                                         \
        {                                                                                          \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }
    ROW(open, (long)"/dev/null", O_RDONLY),
    ROW(openat, AT_FDCWD, (long)"/dev/null", O_RDONLY),
    ROW(openat2, AT_FDCWD, (long)"/dev/null", 0, 0),
    ROW(creat, (long)"/", 0),
    ROW(socket, AF_UNIX, SOCK_STREAM, 0),
    ROW(socketpair, AF_UNIX, SOCK_STREAM, 0, 0),
    ROW(connect, -1, 0, 0),
    ROW(bind, -1, 0, 0),
    ROW(listen, -1, 0),
    ROW(accept4, -1, 0, 0, 0),
    ROW(sendto, -1, 0, 0, 0),
    ROW(execve, (long)"/none", 0, 0),
    ROW(execveat, -1, (long)"none", 0, 0),
    ROW(clone3, 0, 0),
    ROW(ptrace, PTRACE_PEEKDATA, 0, 0, 0),
    ROW(process_vm_readv, 0, 0, 0, 0),
    ROW(process_vm_writev, 0, 0, 0, 0),
    ROW(kill, 0, 0),
    ROW(tkill, 0, 0),
    ROW(pidfd_open, 0, 0),
    ROW(pidfd_getfd, -1, 0, 0),
    ROW(mprotect, 0, 0, PROT_EXEC),
    ROW(pkey_mprotect, 0, 0, PROT_EXEC, 0),
    ROW(shmget, 0, 0, 0),
    ROW(ioctl, -1, 0, 0),
    ROW(prctl, 0, 0, 0, 0),
    ROW(seccomp, 2, 0, 0),
    ROW(bpf, 0, 0, 0),
    ROW(perf_event_open, 0, 0, 0, 0),
    ROW(io_uring_setup, 0, 0),
    ROW(userfaultfd, -1),
    ROW(unshare, 0),
    ROW(setns, -1, 0),
    ROW(mount, 0, 0, 0, 0),
    ROW(chroot, 0),
    ROW(unlink, (long)"/none"),
    ROW(unlinkat, -1, (long)"none", 0),
    ROW(rename, (long)"/none", (long)"/none"),
    ROW(mkdir, (long)"/", 0),
    ROW(chmod, (long)"/none", 0),
    ROW(stat, (long)"/none", 0),
    ROW(newfstatat, AT_FDCWD, (long)"/none", 0, 0),
    ROW(statx, -1, 0, 0, 0),
    ROW(readlink, (long)"/none", 0, 0),
    ROW(getdents64, -1, 0, 0),
    ROW(dup2, -1, -1),
    ROW(pipe2, 0, 0),
    ROW(setuid, -1),
    ROW(prlimit64, 0, RLIMIT_CORE, 0, 0),
    ROW(setrlimit, RLIMIT_CORE, 0),
    ROW(fcntl, -1, F_SETOWN, 0),
    ROW(fcntl, -1, F_SETFL, 0),
    ROW(mmap, 0, 0, PROT_EXEC, 0),
    ROW(clock_settime, -1, 0),
    ROW(wait4, -1, 0, 0, 0),
#undef ROW
};
enum { REFUSED = sizeof refused / sizeof *refused };

static size_t row; /* that make_call makes */

static void make_call(void)
{
    const long *argument = refused[row].arguments;

    (void)syscall(refused[row].number, argument[0], argument[1], argument[2], argument[3], 0, 0);
}

static void test_a_call_for_anything_else_ends_the_process(void **state)
{
    (void)state;
    assert_true(REFUSED >= 30);
    for (row = 0; row < REFUSED; row++) {
        int status = status_of(make_call, false);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
            fail_msg("%s: a free process ends with %#x", refused[row].name, (unsigned)status);
        }
        status = status_of(make_call, true);
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGSYS) {
            fail_msg("%s: a confined process ends with %#x", refused[row].name, (unsigned)status);
        }
    }
}

static void fork_once(void)
{
    if (syscall(SYS_fork) == 0) {
        _exit(0);
    }
}

static void test_no_process_is_made(void **state)
{
    (void)state;
    assert_int_equal(status_of(fork_once, false), 0);
    assert_int_equal(WTERMSIG(status_of(fork_once, true)), SIGSYS);
}

static void call_of_32_bits(void)
{
    long result = 20; /* getpid there, writev here */

    __asm__ volatile("int $0x80" : "+a"(result) : : "memory");
}

static void test_calls_of_another_architecture_end_it_too(void **state)
{
    (void)state;
    assert_int_equal(WTERMSIG(status_of(call_of_32_bits, true)), SIGSYS);
}

static void kill_parent(void)
{
    (void)syscall(SYS_tgkill, getppid(), getppid(), SIGABRT);
}

static void test_abort_is_for_itself_alone(void **state)
{
    (void)state;
    assert_int_equal(WTERMSIG(status_of(abort, true)), SIGABRT);
    assert_int_equal(WTERMSIG(status_of(kill_parent, true)), SIGSYS);
}

/* _exit(1) where something that the simulator needs does not work; not asserted, in the child. */
static void need(bool works)
{
    if (!works) {
        _exit(1);
    }
}

static int pair[2];

static void work(void)
{
    int fd = memfd_create("memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct pollfd ready = {.fd = pair[0], .events = POLLIN};
    struct timespec now = {0};
    struct stat stat = {0};
    struct msghdr message = {0};

    need(fd >= 0 && ftruncate(fd, 1 << 20) == 0 && fstat(fd, &stat) == 0 &&
         stat.st_size == 1 << 20);
    need(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0 && fcntl(fd, F_GET_SEALS) == F_SEAL_SHRINK);
    char *bytes = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    need(bytes != MAP_FAILED);
    bytes[0] = 1;
    need(munmap(bytes, 1 << 20) == 0 && close(fd) == 0);
    need(write(pair[1], "x", 1) == 1 && poll(&ready, 1, 1000) == 1);
    need(recvmsg(pair[0], &message, MSG_DONTWAIT) >= 0 && sendmsg(pair[0], &message, 0) >= 0);
    need(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    char *block = malloc(64 << 20);
    need(block != NULL);
    char *more = realloc(block, 128 << 20);
    need(more != NULL);
    free(more);
}

static void test_what_the_simulator_does_goes_on(void **state)
{
    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(status_of(work, true), 0);
    close(pair[0]);
    close(pair[1]);
}

static void use_up_descriptors(void)
{
    int count = 0;

    while (count < 1000 && memfd_create("one more", MFD_CLOEXEC) >= 0) {
        count++;
    }
    need(count < 64 && errno == EMFILE);
}

static void use_up_addresses(void)
{
    const size_t large = 1ull << 39;

    need(mmap(NULL, large, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
    need(mmap(NULL, large, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED);
}

static void test_descriptors_and_addresses_are_bounded(void **state)
{
    (void)state;
    assert_int_equal(status_of(use_up_descriptors, true), 0);
    assert_int_equal(status_of(use_up_addresses, true), 0);
}

static void test_confinement_is_for_good(void **state)
{
    (void)state;
    /* A second time is a call for limits, which is refused as any other. */
    assert_int_equal(WTERMSIG(status_of(enter, true)), SIGSYS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_call_for_anything_else_ends_the_process),
        cmocka_unit_test(test_no_process_is_made),
        cmocka_unit_test(test_calls_of_another_architecture_end_it_too),
        cmocka_unit_test(test_abort_is_for_itself_alone),
        cmocka_unit_test(test_what_the_simulator_does_goes_on),
        cmocka_unit_test(test_descriptors_and_addresses_are_bounded),
        cmocka_unit_test(test_confinement_is_for_good),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
