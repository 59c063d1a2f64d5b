/* Every attack works outside of the box, and comes to nothing inside. */
#include "tests/attacks.h"

#include "common/mem.h"
#include "tests/node.h"
#include "worker/channel.h"
#include "worker/collect.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { REFUSED = 41, CHOSEN_MAX = 64, CALLS_OUTSIDE = 30, GROWTH_MAX_BYTES = 16 << 20 };

static const char mark[] = "PKB-ATTACK-CHOSEN";
static const char *const sources[] = {
    "tests/attacks/acts.cu",   "tests/attacks/files.cu",    "tests/attacks/processes.cu",
    "tests/attacks/calls.cu",  "tests/attacks/sockets.cu",  "tests/attacks/channels.cu",
    "tests/attacks/memory.cu", "tests/attacks/programs.cu", "tests/attacks/last.cu"};

static struct attack attacks[ATTACKS_MAX];
static int attack_count;
static char *library;
static size_t library_bytes;
static char *chosen; /* in it */
static int port_socket = -1, name_socket = -1, object = -1, secret = -1;
static int port;
static char secret_file[64];

/* ---- the submission ---- */

static int build_submission(void **state)
{
    struct result result = {0};
    size_t size_bytes = 0;
    struct stat info = {0};
    int fd = -1;

    (void)state;
    char *source = attacks_join(sources, sizeof sources / sizeof *sources, &size_bytes);
    attacks_build(&(struct attacks_build){.source = source, .source_bytes = size_bytes}, &result,
                  &fd);
    free(source);
    if (fd < 0) {
        (void)fprintf(stderr, "%s\n%s\n", result.message, result.build_log);
        return -1;
    }
    if (fstat(fd, &info) != 0) {
        return -1;
    }
    library_bytes = (size_t)info.st_size;
    library = xmalloc(library_bytes);
    if (pread(fd, library, library_bytes, 0) != (ssize_t)library_bytes) {
        return -1;
    }
    close(fd);
    result_release(&result);
    chosen = memmem(library, library_bytes, mark, sizeof mark);
    return chosen == NULL ? -1 : 0;
}

/* A sealed library whose act is this one; NULL: none. */
static int choose(const char *act)
{
    struct error err = {0};
    int fd = -1;

    memset(chosen, 0, CHOSEN_MAX);
    if (act != NULL) {
        (void)snprintf(chosen, CHOSEN_MAX, "%s", act);
    }
    assert_int_equal(collect_bytes(library, library_bytes, &fd, &err), OK);
    return fd;
}

/* ---- what is attacked ---- */

static int open_sockets(void)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    socklen_t size = sizeof any;

    port_socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    name_socket = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int length =
        snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "pkb-attack-%d", (int)getpid());
    if (bind(port_socket, (struct sockaddr *)&any, sizeof any) != 0 ||
        listen(port_socket, 8) != 0 ||
        getsockname(port_socket, (struct sockaddr *)&any, &size) != 0 ||
        bind(name_socket, (struct sockaddr *)&name,
             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)) != 0 ||
        listen(name_socket, 8) != 0) {
        return -1;
    }
    port = ntohs(any.sin_port);
    return 0;
}

/* The bytes of the seed in a descriptor and in a file. */
static int open_secrets(void)
{
    static const uint64_t seed = ATTACKS_SEED;
    struct error err = {0};

    (void)snprintf(secret_file, sizeof secret_file, "/dev/shm/pkb-attack-%d", (int)getpid());
    int fd = open(secret_file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, &seed, sizeof seed) != (ssize_t)sizeof seed) {
        return -1;
    }
    close(fd);
    return collect_bytes(&seed, sizeof seed, &secret, &err) == OK ? 0 : -1;
}

static int set_up(void **state)
{
    attack_count = attacks_read("tests/attacks/expected.tsv", attacks);
    object = shmget((key_t)getpid(), 4096, IPC_CREAT | 0666);
    if (object < 0 || setenv("PKB_ATTACK", "1", 1) != 0 || open_sockets() != 0 ||
        open_secrets() != 0) {
        return -1;
    }
    return build_submission(state);
}

static int tear_down(void **state)
{
    (void)state;
    close(port_socket);
    close(name_socket);
    close(secret);
    (void)unlink(secret_file);
    free(library);
    return shmctl(object, IPC_RMID, NULL);
}

/* `calls`: how many of the act many_calls have to get through. */
static void write_act(char act[static CHOSEN_MAX], const char *name, int calls)
{
    (void)snprintf(act, CHOSEN_MAX, "%.30s %d %d %d", name, (int)getpid(), port, calls);
}

/* ---- outside ---- */

/* What a rank has: a control page, here without seals, and sockets to a judge and to a simulator.
 * These believe everything, and have already said what the rank waits for. */
static void give_channels(void)
{
    static const uint32_t calls[22] = {[0] = MESSAGE_CALLS, [1] = 80, [3] = 1};
    static const uint32_t quit[4] = {[0] = MESSAGE_QUIT, [1] = 8};
    int judge[2], simulator[2];

    int page = memfd_create("pkb-control", MFD_CLOEXEC);
    if (page < 0 || ftruncate(page, 4096) != 0 ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, judge) != 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, simulator) != 0 ||
        send(judge[1], calls, sizeof calls, 0) != (ssize_t)sizeof calls ||
        send(judge[1], quit, sizeof quit, 0) != (ssize_t)sizeof quit ||
        send(simulator[1], "", 1, 0) != 1) {
        _exit(8);
    }
    /* So that the ends that are found first are the rank's. */
    if (dup2(judge[1], 1001) < 0 || dup2(simulator[1], 1002) < 0 || close(judge[1]) != 0 ||
        close(simulator[1]) != 0) {
        _exit(8);
    }
}

/* Loads the library into a child, without any box, and attacks. -2: it died of a signal. */
static int attack_outside(const char *act)
{
    int fd = choose(act);
    int wait_status = 0;
    char path[64];

    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    pid_t child = fork();
    if (child == 0) {
        int (*attack)(void) = NULL;
        alarm(60);
        for (int number = 1; number < NSIG; number++) { /* cmocka's */
            (void)signal(number, SIG_DFL);
        }
        give_channels();
        int nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);
        void *loaded = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (loaded != NULL) {
            *(void **)&attack = dlsym(loaded, "attack");
        }
        if (dup2(nothing, 1) < 0) {
            _exit(8);
        }
        _exit(attack == NULL ? 9 : attack() + 2);
    }
    close(fd);
    if (child < 0 || waitpid(child, &wait_status, 0) != child || !WIFEXITED(wait_status)) {
        return -2;
    }
    return WEXITSTATUS(wait_status) - 2;
}

static void test_each_attack_works_outside(void **state)
{
    int failed = 0;
    char act[CHOSEN_MAX];

    (void)state;
    for (int i = 0; i < attack_count; i++) {
        bool may_be_unknown = strcmp(attacks[i].outside, "works?") == 0;
        assert_true(may_be_unknown || strcmp(attacks[i].outside, "works") == 0);
        write_act(act, attacks[i].name, CALLS_OUTSIDE);
        int worked = attack_outside(act);
        if (worked == -2 && may_be_unknown) {
            print_message("%s: this kernel has no such thing\n", attacks[i].name);
        } else if (worked != 1) {
            print_error("%s: %d outside\n", attacks[i].name, worked);
            failed++;
        }
    }
    assert_int_equal(failed, 0);
}

/* ---- inside ---- */

static bool is_refused(const struct result *result)
{
    char code[16];

    (void)snprintf(code, sizeof code, "%d", REFUSED);
    return result->verdict == VERDICT_RUNTIME_ERROR && result->stage != NULL &&
           strcmp(result->stage, "setup") == 0 && strstr(result->message, code) != NULL;
}

static bool is_expected(const struct attack *attack, const struct result *result)
{
    if (strcmp(attack->verdict, "refused") == 0) {
        return is_refused(result);
    }
    return strcmp(verdict_name(result->verdict), attack->verdict) == 0 &&
           (strcmp(attack->reason, "-") == 0 ||
            (result->reason != NULL && strcmp(result->reason, attack->reason) == 0));
}

static bool is_honest_job_normal(void)
{
    struct result result = {0};
    int fd = choose(NULL);

    attacks_run(fd, &result);
    close(fd);
    bool is_normal = result.verdict == VERDICT_ACCEPTED;
    if (!is_normal) {
        print_error("the honest job: %s %s\n", verdict_name(result.verdict), result.message);
    }
    result_release(&result);
    return is_normal;
}

/* Attacks inside; false: what came of it is not what is expected. */
static bool fails_inside(const struct attack *attack)
{
    struct result result = {0};
    char act[CHOSEN_MAX];

    write_act(act, attack->name, 1);
    int fd = choose(act);
    (void)attacks_growth();
    attacks_run(fd, &result);
    int64_t growth = attacks_growth();
    close(fd);
    bool is_right = is_expected(attack, &result);
    if (!is_right) {
        print_error("%s: %s %s in %s: %s\n", attack->name, verdict_name(result.verdict),
                    result.reason == NULL ? "-" : result.reason,
                    result.stage == NULL ? "-" : result.stage,
                    result.message == NULL ? "-" : result.message);
        print_error("%s\n", result.run_log == NULL ? "no log" : result.run_log);
    }
    if (growth > GROWTH_MAX_BYTES) {
        print_error("%s: the worker grew by %lld bytes\n", attack->name, (long long)growth);
        is_right = false;
    }
    if (result.verdict == VERDICT_LIMIT_EXCEEDED) {
        print_message("%s: the worker grew by %lld KiB\n", attack->name, (long long)growth / 1024);
    }
    result_release(&result);
    return is_right;
}

static void test_each_attack_fails_inside_and_the_next_job_is_normal(void **state)
{
    int failed = 0;

    (void)state;
    for (int i = 0; i < attack_count; i++) {
        failed += !fails_inside(&attacks[i]);
        if (!is_honest_job_normal()) {
            print_error("after %s\n", attacks[i].name);
            failed++;
        }
    }
    assert_int_equal(failed, 0);
}

/* ---- on a GPU ---- */

/* What is refused does not depend on who comes next, so that one process can try it all. */
static void test_every_attack_is_refused_on_the_device(void **state)
{
    static const struct attack every = {.name = "every", .verdict = "refused", .reason = "-"};

    (void)state;
    assert_true(fails_inside(&every));
    assert_true(is_honest_job_normal());
}

/* Those that end a job; the simulator's requests are none of hardware's. */
static void test_each_attack_that_ends_a_job_does_so_on_the_device(void **state)
{
    bool has_cgroup = (test_node()->waived >> LAYER_CGROUP & 1) == 0;
    int failed = 0;

    (void)state;
    for (int i = 0; i < attack_count; i++) {
        const struct attack *attack = &attacks[i];
        bool is_counted =
            strcmp(attack->reason, "memory") == 0 || strcmp(attack->reason, "processes") == 0;
        if (strcmp(attack->verdict, "refused") == 0 || strcmp(attack->name, "forge_request") == 0) {
            continue;
        }
        if (is_counted && !has_cgroup) {
            print_message("%s: this machine has no layer cgroup\n", attack->name);
            continue;
        }
        failed += !fails_inside(attack);
        failed += !is_honest_job_normal();
    }
    assert_int_equal(failed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_attack_works_outside),
        cmocka_unit_test(test_each_attack_fails_inside_and_the_next_job_is_normal),
        cmocka_unit_test(test_every_attack_is_refused_on_the_device),
    };
    const struct CMUnitTest on_device[] = {
        cmocka_unit_test(test_every_attack_is_refused_on_the_device),
        cmocka_unit_test(test_each_attack_that_ends_a_job_does_so_on_the_device),
    };

    return getenv("PKB_TEST_DEVICE") == NULL ? cmocka_run_group_tests(tests, set_up, tear_down)
                                             : cmocka_run_group_tests(on_device, set_up, tear_down);
}
