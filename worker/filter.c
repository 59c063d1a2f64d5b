#include "worker/filter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <sched.h>
#include <seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* What nvcc, its compilers and gcc's need, and pkb-init, which starts them. */
static const char *const build_calls[] = {
    "access",
    "alarm",
    "arch_prctl",
    "brk",
    "chdir",
    "chmod",
    "clock_getres",
    "clock_gettime",
    "clock_nanosleep",
    "close",
    "close_range",
    "copy_file_range",
    "dup",
    "dup2",
    "dup3",
    "execve",
    "exit",
    "exit_group",
    "faccessat",
    "faccessat2",
    "fadvise64",
    "fallocate",
    "fchmod",
    "fchmodat",
    "fcntl",
    "fdatasync",
    "flock",
    "fstat",
    "fstatfs",
    "fsync",
    "ftruncate",
    "futex",
    "getcwd",
    "getdents64",
    "getegid",
    "geteuid",
    "getgid",
    "getgroups",
    "getpgid",
    "getpgrp",
    "getpid",
    "getppid",
    "getpriority",
    "getrandom",
    "getresgid",
    "getresuid",
    "getrlimit",
    "getrusage",
    "getsid",
    "gettid",
    "gettimeofday",
    "getuid",
    "kill",
    "link",
    "linkat",
    "lseek",
    "lstat",
    "madvise",
    "membarrier",
    "mkdir",
    "mkdirat",
    "mmap",
    "mprotect",
    "mremap",
    "msync",
    "munmap",
    "nanosleep",
    "newfstatat",
    "open",
    "openat",
    "pause",
    "pipe",
    "pipe2",
    "poll",
    "ppoll",
    "prctl",
    "pread64",
    "prlimit64",
    "pselect6",
    "pwrite64",
    "read",
    "readlink",
    "readlinkat",
    "readv",
    "rename",
    "renameat",
    "renameat2",
    "restart_syscall",
    "rmdir",
    "rseq",
    "rt_sigaction",
    "rt_sigpending",
    "rt_sigprocmask",
    "rt_sigreturn",
    "rt_sigsuspend",
    "rt_sigtimedwait",
    "sched_getaffinity",
    "sched_getparam",
    "sched_getscheduler",
    "sched_setaffinity",
    "sched_yield",
    "select",
    "sendfile",
    "set_robust_list",
    "set_tid_address",
    "setitimer",
    "setpgid",
    "setpriority",
    "setrlimit",
    "setsid",
    "sigaltstack",
    "signalfd4",
    "stat",
    "statfs",
    "statx",
    "symlink",
    "symlinkat",
    "sysinfo",
    "tgkill",
    "time",
    "times",
    "truncate",
    "umask",
    "uname",
    "unlink",
    "unlinkat",
    "utime",
    "utimensat",
    "utimes",
    "vfork",
    "wait4",
    "waitid",
    "write",
    "writev",
};

/* What nothing that runs on a GPU needs, and what has led out of sandboxes. */
static const char *const ranks_refused[] = {
    "_sysctl",
    "acct",
    "add_key",
    "adjtimex",
    "afs_syscall",
    "bpf",
    "chroot",
    "clock_adjtime",
    "clock_settime",
    "create_module",
    "delete_module",
    "fanotify_init",
    "fanotify_mark",
    "finit_module",
    "fsconfig",
    "fsmount",
    "fsopen",
    "fspick",
    "get_kernel_syms",
    "init_module",
    "io_uring_enter",
    "io_uring_register",
    "io_uring_setup",
    "ioperm",
    "iopl",
    "kcmp",
    "kexec_file_load",
    "kexec_load",
    "keyctl",
    "landlock_add_rule",
    "landlock_create_ruleset",
    "landlock_restrict_self",
    "lookup_dcookie",
    "mknod",
    "mknodat",
    "mount",
    "mount_setattr",
    "move_mount",
    "name_to_handle_at",
    "nfsservctl",
    "open_by_handle_at",
    "open_tree",
    "perf_event_open",
    "personality",
    "pidfd_getfd",
    "pidfd_open",
    "pidfd_send_signal",
    "pivot_root",
    "process_madvise",
    "process_vm_readv",
    "process_vm_writev",
    "ptrace",
    "query_module",
    "quotactl",
    "quotactl_fd",
    "reboot",
    "request_key",
    "sethostname",
    "setdomainname",
    "setns",
    "settimeofday",
    "swapoff",
    "swapon",
    "sysfs",
    "syslog",
    "umount2",
    "unshare",
    "uselib",
    "userfaultfd",
    "ustat",
    "vhangup",
    "vmsplice",
};

static const char *const no_new_programs[] = {"execve", "execveat", "fork", "vfork"};

#define NAMESPACES                                                                                 \
    ((scmp_datum_t)(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |  \
                    CLONE_NEWPID | CLONE_NEWNET))

/* Calls that this libseccomp or architecture does not know are no calls here. */
static int add_all(scmp_filter_ctx rules, uint32_t action, const char *const *names, size_t count)
{
    int failed = 0;

    for (size_t i = 0; i < count && failed == 0; i++) {
        int call = seccomp_syscall_resolve_name(names[i]);
        failed = call < 0 ? 0 : seccomp_rule_add(rules, action, call, 0);
    }
    return failed;
}

#define ADD_ALL(rules, action, names) add_all(rules, action, names, sizeof(names) / sizeof *(names))

/* The kernel's clone3 takes its flags from memory, where no filter sees them; without it, libraries
 * use clone. */
static int refuse_clone3(scmp_filter_ctx rules)
{
    return seccomp_rule_add(rules, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
}

static int add_build(scmp_filter_ctx rules)
{
    int failed = ADD_ALL(rules, SCMP_ACT_ALLOW, build_calls);

    if (failed == 0) {
        failed = seccomp_rule_add(rules, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
                                  SCMP_A0(SCMP_CMP_MASKED_EQ, NAMESPACES, 0));
    }
    if (failed == 0) { /* pipes with a name, nothing else */
        failed = seccomp_rule_add(rules, SCMP_ACT_ALLOW, SCMP_SYS(mknodat), 1,
                                  SCMP_A2(SCMP_CMP_MASKED_EQ, S_IFMT, S_IFIFO));
    }
    return failed != 0 ? failed : refuse_clone3(rules);
}

/* Families other than these have led out of namespaces. */
static int limit_sockets(scmp_filter_ctx rules)
{
    static const int between[][2] = {
        {AF_UNIX + 1, AF_INET - 1}, {AF_INET + 1, AF_INET6 - 1}, {AF_INET6 + 1, AF_NETLINK - 1}};
    int failed = seccomp_rule_add(rules, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socket), 1,
                                  SCMP_A0(SCMP_CMP_GT, AF_NETLINK, 0));

    for (size_t i = 0; i < sizeof between / sizeof *between && failed == 0; i++) {
        for (int family = between[i][0]; family <= between[i][1] && failed == 0; family++) {
            failed = seccomp_rule_add(rules, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socket), 1,
                                      SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)family, 0));
        }
    }
    if (failed == 0) {
        failed = seccomp_rule_add(rules, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socket), 1,
                                  SCMP_A0(SCMP_CMP_EQ, AF_UNSPEC, 0));
    }
    if (failed == 0) {
        failed = seccomp_rule_add(rules, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socket), 2,
                                  SCMP_A0(SCMP_CMP_EQ, AF_NETLINK, 0),
                                  SCMP_A2(SCMP_CMP_NE, NETLINK_ROUTE, 0));
    }
    return failed;
}

static int add_ranks(scmp_filter_ctx rules)
{
    uint32_t refuse = SCMP_ACT_ERRNO(EPERM);
    int failed = ADD_ALL(rules, refuse, ranks_refused);

    for (int bit = 0; bit < 32 && failed == 0; bit++) {
        scmp_datum_t flag = (scmp_datum_t)1 << bit;
        if ((NAMESPACES & flag) != 0) {
            failed = seccomp_rule_add(rules, refuse, SCMP_SYS(clone), 1,
                                      SCMP_A0(SCMP_CMP_MASKED_EQ, flag, flag));
        }
    }
    /* Typing into a terminal that the worker might have. */
    static const scmp_datum_t terminal[] = {TIOCSTI, TIOCLINUX};
    for (size_t i = 0; i < 2 && failed == 0; i++) {
        failed = seccomp_rule_add(rules, refuse, SCMP_SYS(ioctl), 1,
                                  SCMP_A1(SCMP_CMP_MASKED_EQ, UINT32_MAX, terminal[i]));
    }
    return failed != 0 ? failed : refuse_clone3(rules);
}

static int add_rank_end(scmp_filter_ctx rules)
{
    uint32_t refuse = SCMP_ACT_ERRNO(EPERM);
    int failed = ADD_ALL(rules, refuse, no_new_programs);

    if (failed == 0) {
        failed = seccomp_rule_add(rules, refuse, SCMP_SYS(clone), 1,
                                  SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0));
    }
    if (failed == 0) {
        failed = seccomp_rule_add(rules, refuse, SCMP_SYS(seccomp), 0);
    }
    if (failed == 0) {
        failed = seccomp_rule_add(rules, refuse, SCMP_SYS(prctl), 1,
                                  SCMP_A0(SCMP_CMP_EQ, PR_SET_SECCOMP, 0));
    }
    return failed != 0 ? failed : refuse_clone3(rules);
}

static int add_rules(scmp_filter_ctx rules, enum filter filter)
{
    int failed = 0;

    switch (filter) {
    case FILTER_BUILD:
        return add_build(rules);
    case FILTER_RANK_END:
        return add_rank_end(rules);
    case FILTER_RANKS:
        failed = add_ranks(rules);
        return failed != 0 ? failed : limit_sockets(rules);
    default:
        failed = add_ranks(rules);
        return failed != 0 ? failed
                           : seccomp_rule_add(rules, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(socket), 0);
    }
}

enum status filter_open(enum filter filter, int *fd, struct error *err)
{
    enum status status = OK;
    uint32_t otherwise = filter == FILTER_BUILD ? SCMP_ACT_ERRNO(EPERM) : SCMP_ACT_ALLOW;
    scmp_filter_ctx rules = seccomp_init(otherwise);
    int made = memfd_create("pkb-filter", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (rules == NULL || made < 0) {
        status = error_set(err, ERR_IO, "cannot make a filter: %m");
        goto out;
    }
    if (seccomp_attr_set(rules, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS) != 0 ||
        add_rules(rules, filter) != 0 || seccomp_export_bpf(rules, made) != 0) {
        status = error_set(err, ERR_INTERNAL, "cannot write filter %d of system calls", filter);
        goto out;
    }
    if (fcntl(made, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0 ||
        lseek(made, 0, SEEK_SET) != 0) {
        status = error_set(err, ERR_IO, "cannot seal a filter: %m");
        goto out;
    }
    *fd = made;
    made = -1;
out:
    if (made >= 0) {
        close(made);
    }
    seccomp_release(rules);
    return status;
}
