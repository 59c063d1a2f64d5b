/*
 * pkb-probe — attacks the sandbox that it runs in, one layer after the other.
 *
 *     pkb-probe POLICY UID WORKER SECRET SOCKET KEY FILTER filtered|unfiltered
 *
 * SECRET is a file outside that everybody may read, SOCKET an abstract socket that somebody outside
 * listens to, KEY one of System V shared memory there, FILTER the descriptor of a second filter or
 * -1. Prints a line "LAYER what succeeded" for each attack that does, then "done".
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILDREN_MAX = 256, EATEN_BYTES = 256 << 20, WORKER_PID_MIN = 64, RULES_MAX = 4096 };

struct attacked {
    const char *policy;
    uid_t uid;
    pid_t worker;
    const char *secret, *socket;
    key_t key;
    int filter;
    bool is_filtered;
};

static void broken(const char *layer, const char *what)
{
    (void)printf("%s %s\n", layer, what);
}

static void attack_user(const struct attacked *attacked)
{
    if (attacked->uid != 0 && (getuid() != attacked->uid || geteuid() != attacked->uid)) {
        broken("uid", "this is another user than it has to be");
    }
    if (attacked->uid == 0 || setresuid(0, 0, 0) == 0) {
        broken("uid", "is or becomes root, or the worker's own user");
    }
}

static void attack_privileges(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{0}};

    if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1) {
        broken("privileges", "a program may give new privileges");
    }
    if (syscall(SYS_capget, &header, data) == 0 &&
        (data[0].effective | data[0].permitted | data[1].effective | data[1].permitted) != 0) {
        broken("privileges", "there are capabilities");
    }
}

static void attack_environment(void)
{
    char byte = 0;
    int fd = open("/proc/1/environ", O_RDONLY | O_CLOEXEC);

    if (environ[0] != NULL) {
        broken("environment", "there is an environment");
    }
    if (fd >= 0 && read(fd, &byte, 1) > 0) {
        broken("environment", "that of the first process can be read");
    }
    if (fd >= 0) {
        close(fd);
    }
}

static void attack_files(const struct attacked *attacked)
{
    static const char *const places[] = {"/written", "/usr/lib/written", "/pkb/written",
                                         "/cuda/written"};

    if (open(attacked->secret, O_RDONLY | O_CLOEXEC) >= 0) {
        broken("mount", "a file of the host can be read");
    }
    if (access("/etc/passwd", F_OK) == 0 || access("/root", F_OK) == 0) {
        broken("mount", "the host's /etc or /root is there");
    }
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        if (open(places[i], O_WRONLY | O_CREAT | O_CLOEXEC, 0600) >= 0) {
            broken("mount", "a view can be written to");
        }
    }
}

static void attack_processes(const struct attacked *attacked)
{
    /* Inside, numbers are small; EPERM says that it is there. */
    if (attacked->worker >= WORKER_PID_MIN && (kill(attacked->worker, 0) == 0 || errno == EPERM)) {
        broken("pid", "a process outside can be seen");
    }
    if (getppid() != 1) {
        broken("pid", "the first process is not ours");
    }
}

static void attack_network(const struct attacked *attacked)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    size_t length = strlen(attacked->socket);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    memcpy(name.sun_path + 1, attacked->socket, length);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&name,
                           (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length)) == 0) {
        broken("net", "a socket outside can be reached");
    }
    if (fd >= 0) {
        close(fd);
    }
}

static void attack_objects(const struct attacked *attacked)
{
    if (shmget(attacked->key, 1, 0) >= 0) {
        broken("ipc", "shared memory outside can be reached");
    }
}

/* Only where no filter forbids it before the kernel is asked. */
static void attack_namespaces(void)
{
    pid_t child = fork();
    int wait_status = 0;

    if (child == 0) {
        _exit(unshare(CLONE_NEWUSER) == 0 ? 1 : 0);
    }
    if (child > 0 && waitpid(child, &wait_status, 0) == child && wait_status != 0) {
        broken("userns", "another user namespace can be made");
    }
}

/* ---- filters ---- */

static void expect(long result, int wanted, const char *what)
{
    if (result >= 0 || errno != wanted) {
        broken("seccomp", what);
    }
}

static void attack_old_calls(void)
{
    pid_t child = fork();
    int wait_status = 0;

    if (child == 0) {
        long result = 20; /* getpid, in the numbers of 32 bits */
        __asm__ volatile("int $0x80" : "+a"(result) : : "memory");
        _exit(result > 0 ? 1 : 0);
    }
    if (child > 0 && waitpid(child, &wait_status, 0) == child && !WIFSIGNALED(wait_status)) {
        broken("seccomp", "calls of 32 bits are possible");
    }
}

static void attack_calls(const struct attacked *attacked)
{
    bool is_ranks = strcmp(attacked->policy, "ranks") == 0;
    int refused = is_ranks ? EAFNOSUPPORT : EPERM;

    expect(ptrace(PTRACE_TRACEME, 0, NULL, NULL), EPERM, "ptrace");
    expect(syscall(SYS_keyctl, 0, 0, 0, 0, 0), EPERM, "keyctl");
    expect(syscall(SYS_bpf, 0, NULL, 0), EPERM, "bpf");
    expect(syscall(SYS_io_uring_setup, 1, NULL), EPERM, "io_uring_setup");
    expect(syscall(SYS_userfaultfd, 0), EPERM, "userfaultfd");
    expect(syscall(SYS_perf_event_open, NULL, 0, 0, 0, 0), EPERM, "perf_event_open");
    expect(syscall(SYS_mount, NULL, NULL, NULL, 0, NULL), EPERM, "mount");
    expect(syscall(SYS_unshare, CLONE_NEWUSER), EPERM, "unshare");
    expect(syscall(SYS_clone3, NULL, 0), ENOSYS, "clone3");
    expect(syscall(SYS_process_vm_readv, 1, NULL, 0, NULL, 0, 0), EPERM, "process_vm_readv");
    expect(syscall(SYS_pidfd_getfd, 0, 0, 0), EPERM, "pidfd_getfd");
    expect(socket(AF_VSOCK, SOCK_STREAM, 0), refused, "socket of AF_VSOCK");
    expect(socket(AF_ALG, SOCK_SEQPACKET, 0), refused, "socket of AF_ALG");
    expect(socket(AF_PACKET, SOCK_RAW, 0), refused, "socket of AF_PACKET");
    if (!is_ranks) {
        expect(socket(AF_INET, SOCK_STREAM, 0), EPERM, "socket of AF_INET");
    }
    attack_old_calls();
}

/* As pkb-rank does before it loads a submission. */
static void attack_second_filter(const struct attacked *attacked)
{
    static struct sock_filter rules[RULES_MAX];
    static char *const nothing[] = {NULL};
    ssize_t size = pread(attacked->filter, rules, sizeof rules, 0);
    struct sock_fprog program = {
        .len = (unsigned short)(size > 0 ? size / (ssize_t)sizeof *rules : 0), .filter = rules};

    if (size <= 0 || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0) {
        broken("seccomp", "the second filter cannot be loaded");
        return;
    }
    expect(fork(), EPERM, "fork, after the second filter");
    expect(execve("/pkb/init", nothing, nothing), EPERM, "execve, after the second filter");
    expect(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program), EPERM,
           "another filter, after the second");
    expect(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT), EPERM, "a mode, after the second filter");
}

/* ---- limits ---- */

static void attack_memory(void)
{
    pid_t child = fork();
    int wait_status = 0;

    if (child == 0) {
        char *memory = mmap(NULL, EATEN_BYTES, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        _exit(memory == MAP_FAILED ? 0 : 1);
    }
    if (child > 0 && waitpid(child, &wait_status, 0) == child && WIFEXITED(wait_status) &&
        WEXITSTATUS(wait_status) == 1) {
        broken("cgroup", "more memory than allowed can be used");
    }
}

static void attack_process_count(void)
{
    pid_t children[CHILDREN_MAX];
    int count = 0;

    while (count < CHILDREN_MAX && (children[count] = fork()) >= 0) {
        if (children[count] == 0) {
            pause();
            _exit(0);
        }
        count++;
    }
    if (count == CHILDREN_MAX) {
        broken("cgroup", "more processes than allowed can be made");
    }
    for (int i = 0; i < count; i++) {
        kill(children[i], SIGKILL);
        waitpid(children[i], NULL, 0);
    }
}

int main(int argc, char **argv)
{
    if (argc != 9) {
        (void)fprintf(stderr, "pkb-probe: is started by pkb-worker only\n");
        return 2;
    }
    struct attacked attacked = {.policy = argv[1],
                                .uid = (uid_t)strtoul(argv[2], NULL, 10),
                                .worker = (pid_t)strtol(argv[3], NULL, 10),
                                .secret = argv[4],
                                .socket = argv[5],
                                .key = (key_t)strtol(argv[6], NULL, 10),
                                .filter = (int)strtol(argv[7], NULL, 10),
                                .is_filtered = strcmp(argv[8], "filtered") == 0};
    if (strlen(attacked.socket) > sizeof((struct sockaddr_un *)NULL)->sun_path - 1) {
        return 2;
    }
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    attack_user(&attacked);
    attack_privileges();
    attack_environment();
    attack_files(&attacked);
    attack_processes(&attacked);
    attack_network(&attacked);
    attack_objects(&attacked);
    if (attacked.is_filtered) {
        attack_calls(&attacked);
    } else {
        attack_namespaces();
        attack_memory();
        attack_process_count();
    }
    if (attacked.filter >= 0) {
        attack_second_filter(&attacked);
    }
    (void)printf("done\n");
    return 0;
}
