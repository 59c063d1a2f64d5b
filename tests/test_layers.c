/* pkb-worker ends with 78 and the name of the one layer that a machine lacks, and not where it is
 * told to do without. */
#include "tests/node.h"
#include "worker/capture.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <seccomp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { EXIT_LACKING = 78, WORDS_MAX = 20, PLAIN_USER = 65533 };

static char directory[] = P_tmpdir "/pkb-test-layers-XXXXXX";
static char script[128], source[128];

static int set_up(void **state)
{
    (void)state;
    if (mkdtemp(directory) == NULL || chmod(directory, 0777) != 0) {
        return -1;
    }
    (void)snprintf(script, sizeof script, "%s/bwrap", directory);
    (void)snprintf(source, sizeof source, "%s/source.cu", directory);
    int fd = open(source, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, "no\n", 3) != 3) {
        return -1;
    }
    return close(fd);
}

static int tear_down(void **state)
{
    (void)state;
    (void)unlink(script);
    (void)unlink(source);
    return rmdir(directory);
}

/* ---- machines that lack something; each is made in a child ---- */

static void forbid(int call, uint32_t action, bool of_users)
{
    scmp_filter_ctx rules = seccomp_init(SCMP_ACT_ALLOW);
    int failed = rules == NULL ? -1
                 : of_users
                     ? seccomp_rule_add(rules, action, call, 1,
                                        SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_NEWUSER, CLONE_NEWUSER))
                     : seccomp_rule_add(rules, action, call, 0);

    /* Filters stay with programs that change their user, without that flag for root only. */
    if (failed != 0 || seccomp_attr_set(rules, SCMP_FLTATR_CTL_NNP, 0) != 0 ||
        seccomp_load(rules) != 0) {
        _exit(1);
    }
    seccomp_release(rules);
}

static void be_without_root(void)
{
    if (setgroups(0, NULL) != 0 || setresgid(PLAIN_USER, PLAIN_USER, PLAIN_USER) != 0 ||
        setresuid(PLAIN_USER, PLAIN_USER, PLAIN_USER) != 0) {
        _exit(1);
    }
}

static void be_unable_to_change_user(void)
{
    if (prctl(PR_CAPBSET_DROP, CAP_SETUID, 0, 0, 0) != 0) {
        _exit(1);
    }
}

static void be_without_cgroups(void)
{
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        umount2("/sys/fs/cgroup", MNT_DETACH) != 0) {
        _exit(1);
    }
}

static void be_an_old_kernel(void)
{
    forbid(SCMP_SYS(openat2), SCMP_ACT_ERRNO(ENOSYS), false);
}

/* As where AppArmor or a sysctl keeps user namespaces from users. */
static void be_a_strict_distribution(void)
{
    forbid(SCMP_SYS(clone), SCMP_ACT_ERRNO(EPERM), true);
    forbid(SCMP_SYS(unshare), SCMP_ACT_ERRNO(EPERM), true);
}

/* What the script does with words of bubblewrap and of pkb-init, in the shell's `case`. */
#define WITHOUT(word) word ") ;;\n"
#define WITHOUT_VALUE(word) word ") shift; count=$((count - 1));;\n"

/* The self-test's programs are given no variable: "0 9 /pkb/probe" becomes "1 X=1 9 /pkb/probe". */
static const char variable[] = "0) [ -z \"$held\" ] || set -- \"$@\" \"$held\"\n"
                               "held=$word; continue;;\n"
                               "9) if [ \"$held\" = 0 ] && [ \"$1\" = /pkb/probe ]; then\n"
                               "set -- \"$@\" 1 X=1 9; held=; continue; fi;;\n";

static const struct {
    const char *layer, *says;
    void (*lack)(void);
    const char *bwrap;   /* cases of the script; NULL: the real one */
    const char *besides; /* what is missing then, too */
} machines[] = {
    {"uid", "uid, cgroup: ", be_without_root, NULL, "cgroup"},
    {"uid", "uid: ", be_unable_to_change_user, NULL, NULL},
    {"namespaces", "namespaces: ", NULL, WITHOUT_VALUE("--tmpfs"), NULL},
    {"namespaces", "namespaces: ", be_a_strict_distribution, NULL, NULL},
    {"userns", "userns: ", NULL, WITHOUT("--disable-userns"), NULL},
    {"mount", "mount: ", NULL, WITHOUT_VALUE("--remount-ro"), NULL},
    {"pid", "pid: ", NULL, WITHOUT("--unshare-pid|--as-pid-1"), NULL},
    {"net", "net: ", NULL, WITHOUT("--unshare-net"), NULL},
    {"ipc", "ipc: ", NULL, WITHOUT("--unshare-ipc"), NULL},
    {"seccomp", "seccomp: ", NULL, WITHOUT_VALUE("--seccomp"), NULL},
    {"cgroup", "cgroup", be_without_cgroups, NULL, NULL},
    {"privileges", "privileges: ", NULL, "--cap-drop) set -- \"$@\" --cap-add; continue;;\n", NULL},
    {"environment", "environment: ", NULL, variable, NULL},
    {"collector", "collector: ", be_an_old_kernel, NULL, NULL},
};

/* bubblewrap, but with its words and those after them passed through `cases`. */
static void write_bwrap(const char *cases)
{
    FILE *file = fopen(script, "we");

    assert_non_null(file);
    (void)fprintf(file,
                  "#!/bin/sh\ncount=$#\nheld=\nwhile [ $count -gt 0 ]; do\n"
                  "word=$1; shift; count=$((count - 1))\ncase $word in\n%sesac\n"
                  "[ -z \"$held\" ] || set -- \"$@\" \"$held\"\nheld=\n"
                  "case $word in\n%s*) set -- \"$@\" \"$word\";;\nesac\ndone\n"
                  "exec /usr/bin/bwrap \"$@\"\n",
                  strncmp(cases, "0)", 2) == 0 ? cases : "",
                  strncmp(cases, "0)", 2) == 0 ? "" : cases);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(script, 0755), 0);
}

/* ---- the worker there ---- */

static int run_worker(size_t machine, const char *insecure, const char *file, struct buffer *text)
{
    const struct sandbox_node *node = test_node();
    char program[PATH_MAX], waived[256];
    struct capture output = {0};
    struct error err = {0};
    int writer = -1, wait_status = 0;

    (void)snprintf(program, sizeof program, "%s/pkb-worker", node->bin_dir);
    (void)snprintf(waived, sizeof waived, "--insecure=%s", insecure == NULL ? "" : insecure);
    char *words[WORDS_MAX] = {program,
                              (char *)"--once",
                              (char *)file,
                              (char *)"--task",
                              (char *)"allreduce",
                              (char *)"--world",
                              (char *)"1",
                              (char *)"--work-dir",
                              directory,
                              NULL};
    int count = 9;
    if (machines[machine].bwrap != NULL) {
        words[count++] = (char *)"--bwrap";
        words[count++] = script;
    }
    if (insecure != NULL) {
        words[count++] = waived;
    }
    assert_int_equal(capture_init(&output, &writer, &err), OK);
    pid_t child = fork();
    if (child == 0) {
        if (dup2(writer, 1) < 0 || dup2(writer, 2) < 0) {
            _exit(1);
        }
        if (machines[machine].lack != NULL) {
            machines[machine].lack();
        }
        execv(program, words);
        _exit(127);
    }
    close(writer);
    struct pollfd watched = {.fd = output.fd, .events = POLLIN};
    do {
        assert_int_equal(poll(&watched, 1, 120000), 1);
    } while (capture_read(&output));
    assert_int_equal(waitpid(child, &wait_status, 0), child);
    capture_write(&output, text, CAPTURE_KEPT_BYTES);
    capture_release(&output);
    return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : -1;
}

static void require_root(void)
{
    if ((test_node()->waived & (1U << LAYER_UID | 1U << LAYER_CGROUP)) != 0) {
        skip(); /* layer uid: only root has what can be taken away here */
    }
}

static void test_the_one_layer_that_is_missing_is_named_with_78(void **state)
{
    (void)state;
    require_root();
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        struct buffer text = {0};
        if (machines[i].bwrap != NULL) {
            write_bwrap(machines[i].bwrap);
        }
        int code = run_worker(i, NULL, source, &text);
        if (code != EXIT_LACKING || strstr(text.data, machines[i].says) == NULL) {
            fail_msg("%s: exit code %d: %s", machines[i].layer, code, text.data);
        }
        buffer_release(&text);
    }
}

/* It goes on to the source, which is not there. */
static void test_the_same_machine_works_without_that_layer(void **state)
{
    char waived[64];

    (void)state;
    require_root();
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        struct buffer text = {0};
        if (machines[i].bwrap != NULL) {
            write_bwrap(machines[i].bwrap);
        }
        (void)snprintf(waived, sizeof waived, "%s%s%s", machines[i].layer,
                       machines[i].besides == NULL ? "" : ",",
                       machines[i].besides == NULL ? "" : machines[i].besides);
        int code = run_worker(i, waived, "/nonexistent.cu", &text);
        if (code == EXIT_LACKING || strstr(text.data, "cannot open '/nonexistent.cu'") == NULL) {
            fail_msg("%s: exit code %d: %s", machines[i].layer, code, text.data);
        }
        buffer_release(&text);
    }
}

static void test_a_result_tells_of_every_layer_that_was_waived(void **state)
{
    static const char all[] = "uid,namespaces,userns,mount,pid,net,ipc,seccomp,cgroup,privileges,"
                              "environment,collector";
    struct buffer text = {0};
    char flag[64];

    (void)state;
    (void)run_worker(0, all, source, &text); /* as a plain user */
    for (int layer = 0; layer < LAYERS; layer++) {
        (void)snprintf(flag, sizeof flag, "\"insecure:%s\"", layer_name((enum layer)layer));
        if (strstr(text.data, flag) == NULL) {
            fail_msg("no %s in %s", flag, text.data);
        }
    }
    buffer_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_one_layer_that_is_missing_is_named_with_78),
        cmocka_unit_test(test_the_same_machine_works_without_that_layer),
        cmocka_unit_test(test_a_result_tells_of_every_layer_that_was_waived),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
