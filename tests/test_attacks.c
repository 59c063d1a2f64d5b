/* Every attack works outside of the box, and comes to nothing inside. */
#include "tests/attacks.h"

#include "common/mem.h"
#include "tests/node.h"
#include "worker/collect.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
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

enum { REFUSED = 41, CHOSEN_MAX = 64 };

static const char mark[] = "PKB-ATTACK-CHOSEN";
static const char *const sources[] = {"tests/attacks/acts.cu",      "tests/attacks/files.cu",
                                      "tests/attacks/processes.cu", "tests/attacks/calls.cu",
                                      "tests/attacks/sockets.cu",   "tests/attacks/last.cu"};

static struct attack attacks[ATTACKS_MAX];
static int attack_count;
static char *library;
static size_t library_bytes;
static char *chosen; /* in it */
static int port_socket = -1, name_socket = -1, object = -1;
static int port;

/* ---- the submission ---- */

static int build_submission(void **state)
{
    struct result result = {0};
    size_t size_bytes = 0;
    struct stat info = {0};
    int fd = -1;

    (void)state;
    char *source = attacks_join(sources, sizeof sources / sizeof *sources, &size_bytes);
    attacks_build(test_node(), source, size_bytes, &result, &fd);
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

static int open_targets(void)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    socklen_t size = sizeof any;

    port_socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    name_socket = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int length =
        snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "pkb-attack-%d", (int)getpid());
    object = shmget((key_t)getpid(), 4096, IPC_CREAT | 0666);
    if (object < 0 || bind(port_socket, (struct sockaddr *)&any, sizeof any) != 0 ||
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

static int set_up(void **state)
{
    attack_count = attacks_read("tests/attacks/expected.tsv", attacks);
    return open_targets() != 0 ? -1 : build_submission(state);
}

static int tear_down(void **state)
{
    (void)state;
    close(port_socket);
    close(name_socket);
    free(library);
    return shmctl(object, IPC_RMID, NULL);
}

static void write_act(char act[static CHOSEN_MAX], const struct attack *attack)
{
    const char *kind = attack->argument;
    int number = strcmp(kind, "port") == 0 ? port : strcmp(kind, "-") == 0 ? 0 : (int)getpid();

    (void)snprintf(act, CHOSEN_MAX, "%.48s %d", attack->name, number);
}

/* ---- outside ---- */

/* Loads the library into a child, without any box, and attacks. */
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
        void *loaded = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (loaded != NULL) {
            *(void **)&attack = dlsym(loaded, "attack");
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
        if (strcmp(attacks[i].outside, "works") != 0) {
            continue;
        }
        write_act(act, &attacks[i]);
        int worked = attack_outside(act);
        if (worked != 1) {
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

static void test_each_attack_fails_inside_and_the_next_job_is_normal(void **state)
{
    int failed = 0;
    char act[CHOSEN_MAX];

    (void)state;
    for (int i = 0; i < attack_count; i++) {
        struct result result = {0};
        write_act(act, &attacks[i]);
        int fd = choose(act);
        attacks_run(fd, &result);
        close(fd);
        if (!is_expected(&attacks[i], &result)) {
            print_error("%s: %s %s in %s: %s\n", attacks[i].name, verdict_name(result.verdict),
                        result.reason == NULL ? "-" : result.reason,
                        result.stage == NULL ? "-" : result.stage,
                        result.message == NULL ? "-" : result.message);
            failed++;
        }
        result_release(&result);
        if (!is_honest_job_normal()) {
            print_error("after %s\n", attacks[i].name);
            failed++;
        }
    }
    assert_int_equal(failed, 0);
}

static void test_there_are_attacks_of_every_file(void **state)
{
    (void)state;
    assert_true(attack_count >= 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_there_are_attacks_of_every_file),
        cmocka_unit_test(test_each_attack_works_outside),
        cmocka_unit_test(test_each_attack_fails_inside_and_the_next_job_is_normal),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
