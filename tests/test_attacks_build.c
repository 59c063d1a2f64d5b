/* What a hostile source does to the compiler's machine outside of the box, it cannot do inside. */
#include "tests/attacks.h"
#include "tests/node.h"
#include "worker/capture.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define MIB ((size_t)1 << 20)

enum { CPU_MAX_S = 10, WALL_SHORT_MS = 2000, GROWTH_MAX_BYTES = 16 << 20 };

/* As much as a build here, and outside of the box as an address space. */
static const struct cgroup_limits limits = {.memory_bytes = 512 * MIB, .processes = 64, .cpus = 2};

static char directory[] = P_tmpdir "/pkb-test-build-XXXXXX";

static int set_up(void **state)
{
    (void)state;
    return mkdtemp(directory) == NULL ? -1 : 0;
}

static int tear_down(void **state)
{
    (void)state;
    return rmdir(directory);
}

static char *path_in(char path[static PATH_MAX], const char *name)
{
    (void)snprintf(path, PATH_MAX, "%s/%s", directory, name);
    return path;
}

/* ---- outside ---- */

struct compiled {
    int wait_status;
    struct capture output;
    size_t object_bytes;
};

/* Runs a program with no box around it until it ends or says too much. */
static void run(struct compiled *compiled, char *const *words, size_t memory_bytes, rlim_t cpu_s)
{
    const struct rlimit memory = {memory_bytes, memory_bytes}, cpu = {cpu_s, cpu_s};
    struct error err = {0};
    int writer = -1;

    assert_int_equal(capture_init(&compiled->output, &writer, &err), OK);
    pid_t child = fork();
    if (child == 0) {
        for (int number = 1; number < NSIG; number++) {
            (void)signal(number, SIG_DFL);
        }
        setpgid(0, 0);
        if (dup2(writer, 1) < 0 || dup2(writer, 2) < 0 ||
            dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), 0) < 0 ||
            (memory_bytes != 0 && setrlimit(RLIMIT_AS, &memory) != 0) ||
            setrlimit(RLIMIT_CPU, &cpu) != 0) {
            _exit(126);
        }
        execvp(words[0], words);
        _exit(127);
    }
    close(writer);
    struct pollfd watched = {.fd = compiled->output.fd, .events = POLLIN};
    do {
        assert_int_equal(poll(&watched, 1, 120000), 1);
    } while (capture_read(&compiled->output) && !capture_is_too_long(&compiled->output));
    (void)kill(-child, SIGKILL);
    assert_int_equal(waitpid(child, &compiled->wait_status, 0), child);
}

static bool says(const struct compiled *compiled, const char *text)
{
    struct buffer log = {0};

    capture_write(&compiled->output, &log, CAPTURE_KEPT_BYTES);
    bool is_there = log.data != NULL && strstr(log.data, text) != NULL;
    buffer_release(&log);
    return is_there;
}

/* Of the source alone, by g++. */
static void compile(struct compiled *compiled, const char *source, rlim_t cpu_s)
{
    char object[PATH_MAX];
    struct stat info = {0};
    char *words[] = {(char *)"g++",  (char *)"-x", (char *)"c++",          (char *)"-c",
                     (char *)source, (char *)"-o", path_in(object, "x.o"), NULL};

    *compiled = (struct compiled){0};
    run(compiled, words, limits.memory_bytes, cpu_s);
    compiled->object_bytes = stat(object, &info) == 0 ? (size_t)info.st_size : 0;
    (void)unlink(object);
}

static bool works_outside(const struct attack *attack)
{
    struct compiled compiled = {0};
    char path[PATH_MAX];
    bool works = false;

    if (strcmp(attack->outside, "ptxas") == 0) {
        return true; /* shown by the build inside, which goes on to the simulator */
    }
    char *here = getcwd(NULL, 0); /* a source may include itself */
    (void)snprintf(path, sizeof path, "%s/tests/attacks/build/%s.cu", here, attack->name);
    free(here);
    bool is_slow = strcmp(attack->outside, "time") == 0;
    compile(&compiled, path, is_slow ? WALL_SHORT_MS / 1000 : CPU_MAX_S);
    if (strcmp(attack->outside, "compiles") == 0) {
        works = compiled.wait_status == 0;
    } else if (strcmp(attack->outside, "memory") == 0) {
        works = says(&compiled, "memory");
    } else if (is_slow) {
        works = says(&compiled, "CPU time limit exceeded") || says(&compiled, "Killed");
    } else if (strcmp(attack->outside, "log") == 0) {
        works = capture_is_too_long(&compiled.output);
    } else if (strcmp(attack->outside, "file") == 0) {
        works = compiled.object_bytes > 256 * MIB;
    } else if (strcmp(attack->outside, "leaks") == 0) {
        works = says(&compiled, "/etc/passwd:1");
    }
    capture_release(&compiled.output);
    return works;
}

static void test_each_source_does_harm_outside(void **state)
{
    static struct attack attacks[ATTACKS_MAX];
    int failed = 0;
    int count = attacks_read("tests/attacks/build.tsv", attacks);

    (void)state;
    for (int i = 0; i < count; i++) {
        if (!works_outside(&attacks[i])) {
            print_error("%s does not work outside\n", attacks[i].name);
            failed++;
        }
    }
    assert_int_equal(failed, 0);
}

/* ---- inside ---- */

/* Where the build is accepted the result is that of a run of it. */
static void evaluate(const char *name, int64_t wall_ms, struct result *result)
{
    char path[PATH_MAX];
    const char *files[] = {path, "tests/attacks/rest.cu"};
    size_t size_bytes = 0;
    int library = -1;

    (void)snprintf(path, sizeof path, "tests/attacks/build/%s.cu", name);
    char *source = attacks_join(files, 2, &size_bytes);
    struct attacks_build attack = {
        .source = source, .source_bytes = size_bytes, .wall_ms = wall_ms, .limits = &limits};
    attacks_build(&attack, result, &library);
    free(source);
    if (library >= 0) {
        result_release(result);
        attacks_run(library, result);
        close(library);
    }
}

static bool ends_as_expected(const struct attack *attack)
{
    struct result result = {0};
    bool is_timeout = strcmp(attack->verdict, "timeout") == 0;

    (void)attacks_growth();
    evaluate(attack->name, is_timeout ? WALL_SHORT_MS : 0, &result);
    int64_t growth = attacks_growth();
    const char *reason = result.reason == NULL ? "-" : result.reason;
    bool is_right = strcmp(verdict_name(result.verdict), attack->verdict) == 0 &&
                    strcmp(reason, attack->reason) == 0 && growth < GROWTH_MAX_BYTES;
    if (!is_right) {
        print_error("%s: %s %s: %s; the worker grew by %lld bytes\n%.2000s\n", attack->name,
                    verdict_name(result.verdict), reason, result.message, (long long)growth,
                    result.build_log == NULL ? "" : result.build_log);
    }
    result_release(&result);
    return is_right;
}

static void test_each_source_fails_inside(void **state)
{
    static struct attack attacks[ATTACKS_MAX];
    int failed = 0;
    int count = attacks_read("tests/attacks/build.tsv", attacks);

    (void)state;
    for (int i = 0; i < count; i++) {
        failed += !ends_as_expected(&attacks[i]);
    }
    assert_true(count > 0);
    assert_int_equal(failed, 0);
}

/* ---- variables that steer compilers and loaders ---- */

static const struct {
    const char *name, *value; /* %s: the directory */
} steering[] = {
    {"NVCC_PREPEND_FLAGS", "-DPKB_STEERED"},
    {"NVCC_APPEND_FLAGS", "-DPKB_STEERED"},
    {"CPATH", "%s"},
    {"CPLUS_INCLUDE_PATH", "%s"},
    {"COMPILER_PATH", "%s"},
    {"GCC_EXEC_PREFIX", "%s/"},
    {"DEPENDENCIES_OUTPUT", "%s/mark"},
    {"SUNPRO_DEPENDENCIES", "%s/mark"},
    {"LD_PRELOAD", "%s/evil.so"},
    {"LD_AUDIT", "%s/evil.so"},

    {"BASH_ENV", "%s/cc1plus"},
};

static const char steered[] = "#if defined PKB_STEERED || __has_include(\"pkb_steered.h\")\n"
                              "#error \"steered\"\n#endif\n";

static void write_file(const char *name, const char *text, mode_t mode)
{
    char path[PATH_MAX];
    int fd = open(path_in(path, name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

/* A header, a compiler and a library that tell of themselves in the file `mark`. */
static void make_files(void)
{
    char program[PATH_MAX + 256], object[PATH_MAX], source[PATH_MAX];
    struct compiled compiled = {0};

    write_file("pkb_steered.h", "\n", 0644);
    (void)snprintf(program, sizeof program, "#!/bin/sh\n: >%s/mark\n", directory);
    write_file("cc1plus", program, 0755);
    (void)snprintf(program, sizeof program,
                   "#include <fcntl.h>\n__attribute__((constructor)) static void mark(void)\n"
                   "{ open(\"%s/mark\", O_CREAT | O_WRONLY, 0666); }\n"
                   "unsigned la_version(unsigned v) { mark(); return v; }\n",
                   directory);
    write_file("evil.c", program, 0644);
    char *words[] = {(char *)"gcc", (char *)"-shared",          (char *)"-fPIC",
                     (char *)"-o",  path_in(object, "evil.so"), path_in(source, "evil.c"),
                     NULL};
    run(&compiled, words, 0, CPU_MAX_S);
    assert_int_equal(compiled.wait_status, 0);
    capture_release(&compiled.output);
    write_file("source.cu", steered, 0644);
}

static void remove_files(void)
{
    static const char *const names[] = {"pkb_steered.h", "cc1plus", "evil.c",
                                        "evil.so",       "mark",    "source.cu"};
    char path[PATH_MAX];

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        (void)unlink(path_in(path, names[i]));
    }
}

static void steer(size_t i)
{
    char value[PATH_MAX];
    const char *form = steering[i].value;
    const char *at = strstr(form, "%s");

    (void)snprintf(value, sizeof value, "%.*s%s%s", at == NULL ? 0 : (int)(at - form), form,
                   at == NULL ? form : directory, at == NULL ? "" : at + 2);
    assert_int_equal(setenv(steering[i].name, value, 1), 0);
}

/* Does the variable change what becomes of a program that has it? */
static bool is_steered(size_t i)
{
    const char *cuda = getenv("CUDA_HOME");
    char mark[PATH_MAX], source[PATH_MAX], nvcc[PATH_MAX];
    struct compiled compiled = {0};
    const char *name = steering[i].name;

    (void)snprintf(nvcc, sizeof nvcc, "%s/bin/nvcc", cuda == NULL ? "/usr/local/cuda" : cuda);
    bool is_nvcc = strncmp(name, "NVCC_", 5) == 0;
    char *by_gcc[] = {
        (char *)"g++", (char *)"-x", (char *)"c++", (char *)"-E", path_in(source, "source.cu"),
        NULL};
    char *by_nvcc[] = {nvcc, (char *)"-E", source, (char *)"-o", (char *)"/dev/null", NULL};
    char *by_bash[] = {(char *)"bash", (char *)"-c", (char *)":", NULL};
    steer(i);
    run(&compiled,
        is_nvcc                         ? by_nvcc
        : strcmp(name, "BASH_ENV") == 0 ? by_bash
                                        : by_gcc,
        0, CPU_MAX_S);
    assert_int_equal(unsetenv(name), 0);
    bool is_changed = access(path_in(mark, "mark"), F_OK) == 0 || says(&compiled, "steered");
    (void)unlink(mark);
    capture_release(&compiled.output);
    return is_changed;
}

/* An honest source, on the same worker, after all of the above. */
static void test_no_variable_steers_a_build_or_a_rank(void **state)
{
    struct result result = {0};
    char mark[PATH_MAX];
    const char *files[] = {mark, "tests/attacks/rest.cu"};
    size_t size_bytes = 0, count = sizeof steering / sizeof *steering;
    int library = -1;

    (void)state;
    make_files();
    for (size_t i = 0; i < count; i++) {
        if (!is_steered(i)) {
            fail_msg("%s changes nothing outside", steering[i].name);
        }
    }
    assert_int_equal(chmod(directory, 0777), 0);
    char *source = attacks_join((path_in(mark, "source.cu"), files), 2, &size_bytes);
    for (size_t i = 0; i < count; i++) {
        steer(i);
    }
    attacks_build(&(struct attacks_build){.source = source, .source_bytes = size_bytes}, &result,
                  &library);
    bool is_built = library >= 0;
    result_release(&result);
    if (is_built) {
        attacks_run(library, &result);
        close(library);
    }
    for (size_t i = 0; i < count; i++) {
        (void)unsetenv(steering[i].name);
    }
    free(source);
    bool is_marked = access(path_in(mark, "mark"), F_OK) == 0;
    remove_files();
    assert_true(is_built);
    assert_int_equal(result.verdict, VERDICT_CONTRACT_VIOLATION); /* it computes nothing */
    assert_false(is_marked);
    result_release(&result);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_source_does_harm_outside),
        cmocka_unit_test(test_each_source_fails_inside),
        cmocka_unit_test(test_no_variable_steers_a_build_or_a_rank),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
