#include "sim/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const bool is_instrumented = true;
#elif defined(__has_feature)
static const bool is_instrumented =
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
static const bool is_instrumented = false;
#endif

/* What moves bytes, memory and time, whatever the arguments. */
static const int allowed[] = {
    SCMP_SYS(brk),
    SCMP_SYS(clock_getres),
    SCMP_SYS(clock_gettime),
    SCMP_SYS(close),
    SCMP_SYS(exit),
    SCMP_SYS(exit_group),
    SCMP_SYS(fstat),
    SCMP_SYS(ftruncate),
    SCMP_SYS(futex),
    SCMP_SYS(getpid),
    SCMP_SYS(getrandom),
    SCMP_SYS(getsockopt),
    SCMP_SYS(gettid),
    SCMP_SYS(madvise),
    SCMP_SYS(memfd_create),
    SCMP_SYS(mremap),
    SCMP_SYS(munmap),
    SCMP_SYS(poll),
    SCMP_SYS(read),
    SCMP_SYS(recvmsg),
    SCMP_SYS(restart_syscall),
    SCMP_SYS(rt_sigprocmask),
    SCMP_SYS(rt_sigreturn),
    SCMP_SYS(sendmsg),
    SCMP_SYS(sysinfo), /* of qsort */
    SCMP_SYS(write),
};

static int add_rules(scmp_filter_ctx rules)
{
    const uint32_t allow = SCMP_ACT_ALLOW;
    int failed = 0;

    for (size_t i = 0; i < sizeof allowed / sizeof *allowed && !failed; i++) {
        failed = seccomp_rule_add(rules, allow, allowed[i], 0);
    }
    /* Memory never becomes code. */
    failed = failed ? failed
                    : seccomp_rule_add(rules, allow, SCMP_SYS(mmap), 1,
                                       SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
    failed = failed ? failed
                    : seccomp_rule_add(rules, allow, SCMP_SYS(fcntl), 1,
                                       SCMP_A1(SCMP_CMP_EQ, F_ADD_SEALS, 0));
    failed = failed ? failed
                    : seccomp_rule_add(rules, allow, SCMP_SYS(fcntl), 1,
                                       SCMP_A1(SCMP_CMP_EQ, F_GET_SEALS, 0));
    /* How some libraries say fstat. */
    failed = failed ? failed
                    : seccomp_rule_add(rules, allow, SCMP_SYS(newfstatat), 1,
                                       SCMP_A3(SCMP_CMP_EQ, AT_EMPTY_PATH, 0));
    /* abort, and nobody else's end. */
    return failed ? failed
                  : seccomp_rule_add(rules, allow, SCMP_SYS(tgkill), 2,
                                     SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid(), 0),
                                     SCMP_A2(SCMP_CMP_EQ, SIGABRT, 0));
}

static enum status limit(int resource, uint64_t most, struct error *err)
{
    struct rlimit rlimit = {0};

    if (getrlimit(resource, &rlimit)) {
        return error_set(err, ERR_LIMIT, "cannot read limit %d: %m", resource);
    }
    rlimit.rlim_cur = most < rlimit.rlim_max ? most : rlimit.rlim_max;
    rlimit.rlim_max = rlimit.rlim_cur;
    if (setrlimit(resource, &rlimit)) {
        return error_set(err, ERR_LIMIT, "cannot set limit %d: %m", resource);
    }
    return OK;
}

static enum status load_filter(struct error *err)
{
    scmp_filter_ctx rules = seccomp_init(SCMP_ACT_KILL_PROCESS);
    enum status status = OK;

    if (!rules) {
        return error_set(err, ERR_LIMIT, "cannot make a filter of system calls");
    }
    int failed = seccomp_attr_set(rules, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
    failed = failed ? failed : add_rules(rules);
    failed = failed ? failed : seccomp_load(rules); /* sets no_new_privs */
    if (failed) {
        status = error_set(err, ERR_LIMIT, "cannot filter system calls: %s", strerror(-failed));
    }
    seccomp_release(rules);
    return status;
}

enum status confine(const struct confinement *confinement, struct error *err)
{
    enum status status = limit(RLIMIT_NOFILE, confinement->descriptors_max, err);

    if (status || is_instrumented) {
        return status;
    }
    tzset(); /* reads a file, which a log line would do otherwise */
    status = limit(RLIMIT_CORE, 0, err);
    if (!status) {
        status = limit(RLIMIT_AS, confinement->address_bytes, err);
    }
    return status ? status : load_filter(err);
}
