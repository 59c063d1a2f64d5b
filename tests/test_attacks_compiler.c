/* Whoever takes over the compiler gets nowhere, and what it leaves is looked at with suspicion. */
#include "tests/attacks.h"
#include "tests/node.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { GROWTH_MAX_BYTES = 16 << 20, WALL_SHORT_MS = 600 };

static const struct cgroup_limits limits = {.memory_bytes = 512 << 20, .processes = 64, .cpus = 2};
static const char evil[] = "/tmp/p.so"; /* named by tests/attacks/compiler.c */

static struct attack attacks[ATTACKS_MAX];
static int attack_count;
static int compiler = -1, honest = -1;
static char directory[] = P_tmpdir "/pkb-test-compiler-XXXXXX";

/* What nvcc makes of a submission that does nothing. */
static void build_honest(struct result *result, int *library)
{
    static const char *const files[] = {"tests/attacks/rest.cu"};
    size_t size_bytes = 0;
    char *source = attacks_join(files, 1, &size_bytes);

    attacks_build(&(struct attacks_build){.source = source, .source_bytes = size_bytes}, result,
                  library);
    free(source);
}

static const char *built(char path[static 512], const char *name)
{
    const char *build = getenv("BUILD");

    (void)snprintf(path, 512, "%s/tests/%s", build == NULL ? "build" : build, name);
    return path;
}

static int set_up(void **state)
{
    struct result result = {0};
    char path[512];
    Dl_info libc = {0};

    (void)state;
    attack_count = attacks_read("tests/attacks/compiler.tsv", attacks);
    (void)unlink(evil);
    if (mkdtemp(directory) == NULL || dladdr((void *)fopen, &libc) == 0 ||
        symlink(libc.dli_fname, evil) != 0 || prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
        return -1;
    }
    compiler = attacks_open(built(path, "compiler"));
    build_honest(&result, &honest);
    result_release(&result);
    return honest < 0 ? -1 : 0;
}

static int tear_down(void **state)
{
    (void)state;
    close(compiler);
    close(honest);
    (void)unlink(evil);
    return rmdir(directory);
}

/* ---- outside ---- */

static void remove_left(void)
{
    static const char *const ends[] = {"", ".other", ".0", ".1"};
    char path[128];

    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        (void)snprintf(path, sizeof path, "%s/solution.so%s", directory, ends[i]);
        (void)remove(path);
    }
}

static bool is_loaded(const char *path)
{
    int wait_status = 0;
    pid_t child = fork();

    if (child == 0) {
        for (int number = 1; number < NSIG; number++) {
            (void)signal(number, SIG_DFL);
        }
        _exit(dlopen(path, RTLD_LAZY | RTLD_LOCAL) == NULL ? 1 : 0);
    }
    return child > 0 && waitpid(child, &wait_status, 0) == child && wait_status == 0;
}

/* Whoever the act left has become a child of ours. */
static void kill_left(void)
{
    char path[64];
    long pid = 0;

    (void)snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *children = fopen(path, "re");
    assert_non_null(children);
    while (fscanf(children, "%ld", &pid) == 1) {
        (void)kill((pid_t)pid, SIGKILL);
        (void)waitpid((pid_t)pid, NULL, 0);
    }
    (void)fclose(children);
}

/* Runs the act with no box around it, and kills whoever it left. */
static bool works_outside(const struct attack *attack)
{
    char program[512], library[64], out[128];
    int wait_status = -1;
    pid_t pid = 0;
    posix_spawn_file_actions_t quiet;

    (void)snprintf(library, sizeof library, "/proc/%d/fd/%d", (int)getpid(), honest);
    (void)snprintf(out, sizeof out, "%s/solution.so", directory);
    char *words[] = {(char *)built(program, "compiler"), (char *)attack->name, library, out, NULL};
    posix_spawn_file_actions_init(&quiet);
    posix_spawn_file_actions_addopen(&quiet, 2, "/dev/null", O_WRONLY, 0);
    bool worked = posix_spawn(&pid, program, &quiet, NULL, words, environ) == 0 &&
                  waitpid(pid, &wait_status, 0) == pid && wait_status == 0;
    kill_left();
    posix_spawn_file_actions_destroy(&quiet);
    if (worked && strcmp(attack->outside, "loads") == 0) {
        worked = is_loaded(out);
    }
    remove_left();
    return worked;
}

static void test_each_act_works_outside(void **state)
{
    int failed = 0;

    (void)state;
    for (int i = 0; i < attack_count; i++) {
        if (!works_outside(&attacks[i])) {
            print_error("%s does not work outside\n", attacks[i].name);
            failed++;
        }
    }
    assert_int_equal(failed, 0);
}

/* ---- inside ---- */

static bool is_same(int one, int other)
{
    struct stat first = {0}, second = {0};
    bool is_same = false;

    if (fstat(one, &first) != 0 || fstat(other, &second) != 0 || first.st_size != second.st_size) {
        return false;
    }
    size_t size_bytes = (size_t)first.st_size;
    void *a = mmap(NULL, size_bytes, PROT_READ, MAP_PRIVATE, one, 0);
    void *b = mmap(NULL, size_bytes, PROT_READ, MAP_PRIVATE, other, 0);
    if (a != MAP_FAILED && b != MAP_FAILED) {
        is_same = memcmp(a, b, size_bytes) == 0;
        munmap(a, size_bytes);
        munmap(b, size_bytes);
    }
    return is_same;
}

/* False: it does not end as the table says, or the worker grew of it. */
static bool ends_as_expected(const struct attack *attack)
{
    struct result result = {0};
    bool is_timeout = strcmp(attack->verdict, "timeout") == 0;
    int library = -1;

    (void)attacks_growth();
    attacks_build(&(struct attacks_build){.source = " ",
                                          .source_bytes = 1,
                                          .wall_ms = is_timeout ? WALL_SHORT_MS : 0,
                                          .limits = &limits,
                                          .act = attack->name,
                                          .compiler = compiler,
                                          .honest = honest},
                  &result, &library);
    int64_t growth = attacks_growth();
    const char *reason = result.reason == NULL ? "-" : result.reason;
    bool is_right = strcmp(verdict_name(result.verdict), attack->verdict) == 0 &&
                    strcmp(reason, attack->reason) == 0 &&
                    (library < 0 || is_same(library, honest)) && growth < GROWTH_MAX_BYTES;
    if (!is_right) {
        print_error("%s: %s %s: %s; the worker grew by %lld bytes\n%s\n", attack->name,
                    verdict_name(result.verdict), reason, result.message, (long long)growth,
                    result.build_log == NULL ? "" : result.build_log);
    }
    if (library >= 0) {
        close(library);
    }
    result_release(&result);
    return is_right;
}

static void test_each_act_fails_inside_and_the_next_build_is_normal(void **state)
{
    static const struct attack normal = {.name = "nothing", .verdict = "accepted", .reason = "-"};
    struct result result = {0};
    int failed = 0, library = -1;

    (void)state;
    for (int i = 0; i < attack_count; i++) {
        failed += !ends_as_expected(&attacks[i]);
        failed += !ends_as_expected(&normal);
    }
    assert_int_equal(failed, 0);
    build_honest(&result, &library); /* by nvcc */
    assert_true(is_same(library, honest));
    close(library);
    result_release(&result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_act_works_outside),
        cmocka_unit_test(test_each_act_fails_inside_and_the_next_build_is_normal),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
