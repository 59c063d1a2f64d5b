#include "worker/store.h"

#include "common/mem.h"
#include "worker/collect.h"

#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { MIB = 1 << 20 };

static const char one[] = "1111111111111111111111111111111111111111111111111111111111111111";
static const char other[] = "2222222222222222222222222222222222222222222222222222222222222222";

static struct error err;

static int make_place(void **state)
{
    char name[] = "/tmp/store-XXXXXX";

    *state = mkdtemp(name) == NULL ? NULL : xstrdup(name);
    return *state == NULL ? -1 : 0;
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info;
    (void)kind;
    (void)where;
    return remove(path);
}

static int remove_place(void **state)
{
    int code = nftw(*state, remove_entry, 16, FTW_DEPTH | FTW_PHYS);

    free(*state);
    return code;
}

static struct store open_store(const char *place, uint64_t bytes_max)
{
    struct store store;
    char *directory = xasprintf("%s/builds", place);

    assert_int_equal(store_init(&store, directory, bytes_max, &err), OK);
    free(directory);
    return store;
}

static int library_of(size_t size_bytes, char filling)
{
    char *data = xmalloc(size_bytes);
    int fd = -1;

    memset(data, filling, size_bytes);
    assert_int_equal(collect_bytes(data, size_bytes, &fd, &err), OK);
    free(data);
    return fd;
}

static enum status save(const struct store *store, const char *name, size_t size_bytes,
                        char filling)
{
    char *flags[] = {(char *)"nccl"};
    char *mechanisms[] = {(char *)"code:bulk"};
    struct result result = {.rank = -1,
                            .verdict = VERDICT_ACCEPTED,
                            .stage = (char *)"build",
                            .message = (char *)"",
                            .build_log = (char *)"a warning\n",
                            .flags = flags,
                            .flag_count = 1,
                            .mechanisms = mechanisms,
                            .mechanism_count = 1,
                            .build_ms = 1234};
    int library = library_of(size_bytes, filling);
    enum status status = store_save(store, name, &result, library, &err);

    close(library);
    return status;
}

/* Is it there, with that filling? */
static bool has(const struct store *store, const char *name, char filling)
{
    struct result result = {.rank = -1};
    int library = -1;
    char first = 0;

    if (store_load(store, name, &result, &library, &err) != OK) {
        assert_int_equal(library, -1);
        return false;
    }
    assert_int_equal(result.verdict, VERDICT_ACCEPTED);
    assert_string_equal(result.build_log, "a warning\n");
    assert_string_equal(result.flags[0], "nccl");
    assert_string_equal(result.mechanisms[0], "code:bulk");
    assert_int_equal(result.build_ms, 0);
    assert_int_equal(pread(library, &first, 1, 0), 1);
    assert_int_equal(first, filling);
    assert_int_not_equal(fcntl(library, F_GET_SEALS) & F_SEAL_WRITE, 0);
    close(library);
    result_release(&result);
    return true;
}

static void test_a_build_is_found_again_and_no_other(void **state)
{
    struct store store = open_store(*state, MIB);

    assert_false(has(&store, one, 'a'));
    assert_int_equal(save(&store, one, 5000, 'a'), OK);
    assert_true(has(&store, one, 'a'));
    assert_true(has(&store, one, 'a'));
    assert_false(has(&store, other, 'a'));
    assert_int_equal(save(&store, one, 5000, 'b'), OK);
    assert_true(has(&store, one, 'b'));
}

static void test_a_source_that_does_not_compile_is_known_too(void **state)
{
    struct store store = open_store(*state, MIB);
    struct result said = {.rank = -1,
                          .verdict = VERDICT_COMPILE_ERROR,
                          .message = (char *)"no",
                          .build_log = (char *)"solution.cu(3): error\n"};
    struct result read = {.rank = -1};
    int library = -1;

    assert_int_equal(store_save(&store, one, &said, -1, &err), OK);
    assert_int_equal(store_load(&store, one, &read, &library, &err), OK);
    assert_int_equal(read.verdict, VERDICT_COMPILE_ERROR);
    assert_string_equal(read.build_log, "solution.cu(3): error\n");
    assert_int_equal(library, -1);
    result_release(&read);
}

static void test_only_what_another_build_would_say_too_is_kept(void **state)
{
    (void)state;
    for (int verdict = 0; verdict < VERDICTS; verdict++) {
        struct result result = {.verdict = (enum verdict)verdict};
        assert_int_equal(store_keeps(&result), verdict == VERDICT_ACCEPTED ||
                                                   verdict == VERDICT_COMPILE_ERROR ||
                                                   verdict == VERDICT_LINK_ERROR);
    }
}

/* Changes one byte at `offset`; from the end where negative. */
static void change_byte(const struct store *store, const char *name, off_t offset)
{
    char *path = xasprintf("%s/%s", store->directory, name);
    struct stat info;
    char byte = 0;
    int fd = open(path, O_RDWR | O_CLOEXEC);

    assert_int_equal(fstat(fd, &info), 0);
    offset = offset < 0 ? info.st_size + offset : offset;
    assert_int_equal(pread(fd, &byte, 1, offset), 1);
    byte = (char)(byte ^ 1);
    assert_int_equal(pwrite(fd, &byte, 1, offset), 1);
    close(fd);
    free(path);
}

static void test_an_entry_that_was_changed_or_cut_or_renamed_is_removed(void **state)
{
    static const off_t offsets[] = {0, 9, 17, 30, 70, 200, -1};
    struct store store = open_store(*state, MIB);
    char *from = xasprintf("%s/%s", store.directory, one);
    char *to = xasprintf("%s/%s", store.directory, other);

    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        assert_int_equal(save(&store, one, 5000, 'a'), OK);
        change_byte(&store, one, offsets[i]);
        assert_false(has(&store, one, 'a'));
        assert_int_not_equal(access(from, F_OK), 0);
    }
    assert_int_equal(save(&store, one, 5000, 'a'), OK);
    assert_int_equal(truncate(from, 300), 0);
    assert_false(has(&store, one, 'a'));
    assert_int_equal(save(&store, one, 5000, 'a'), OK);
    assert_int_equal(rename(from, to), 0); /* another source's name for it */
    assert_false(has(&store, other, 'a'));
    free(from);
    free(to);
}

static void test_links_and_other_users_files_count_as_missing(void **state)
{
    struct store store = open_store(*state, MIB);
    char *from = xasprintf("%s/%s", store.directory, one);
    char *away = xasprintf("%s/away", (const char *)*state);

    assert_int_equal(save(&store, one, 5000, 'a'), OK);
    assert_int_equal(rename(from, away), 0);
    assert_int_equal(symlink(away, from), 0);
    assert_false(has(&store, one, 'a'));
    assert_int_equal(unlink(from), 0);
    assert_int_equal(mkfifo(from, 0600), 0);
    assert_false(has(&store, one, 'a'));
    assert_int_equal(unlink(from), 0);
    assert_int_equal(rename(away, from), 0);
    assert_true(has(&store, one, 'a'));
    if (geteuid() == 0) {
        assert_int_equal(chown(from, 65534, 65534), 0);
        assert_false(has(&store, one, 'a'));
    }
    free(from);
    free(away);
}

static void test_what_was_not_used_for_longest_makes_room(void **state)
{
    struct store store = open_store(*state, MIB);
    struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    struct timespec older[2] = {{.tv_sec = 500}, {.tv_sec = 500}};
    char *first = xasprintf("%s/%s", store.directory, one);
    char *second = xasprintf("%s/%s", store.directory, other);

    assert_int_equal(save(&store, one, MIB * 4 / 10, 'a'), OK);
    assert_int_equal(save(&store, other, MIB * 4 / 10, 'b'), OK);
    assert_int_equal(utimensat(AT_FDCWD, first, older, 0), 0);
    assert_int_equal(utimensat(AT_FDCWD, second, old, 0), 0);
    assert_true(has(&store, one, 'a')); /* used: now the other one is the oldest */
    assert_int_equal(save(&store, "33", MIB * 4 / 10, 'c'), OK);
    assert_true(has(&store, one, 'a'));
    assert_false(has(&store, other, 'b'));
    assert_true(has(&store, "33", 'c'));
    free(first);
    free(second);
}

static void test_two_workers_write_and_read_the_same_names_at_once(void **state)
{
    struct store store = open_store(*state, MIB);
    pid_t pids[2];

    for (int worker = 0; worker < 2; worker++) {
        pids[worker] = fork();
        if (pids[worker] == 0) {
            for (int i = 0; i < 50; i++) {
                const char *name = i % 2 == 0 ? one : other;
                if (save(&store, name, 100000, 'x') != OK || !has(&store, name, 'x')) {
                    _exit(1);
                }
            }
            _exit(0);
        }
    }
    for (int worker = 0; worker < 2; worker++) {
        int wait_status = 1;
        assert_int_equal(waitpid(pids[worker], &wait_status, 0), pids[worker]);
        assert_int_equal(wait_status, 0);
    }
}

static void test_leftovers_of_a_worker_that_was_killed_go_away(void **state)
{
    struct store store = open_store(*state, MIB);
    struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    char *half = xasprintf("%s/.new-%s-1", store.directory, one);
    int fd = open(half, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    assert_int_equal(write(fd, "half", 4), 4);
    close(fd);
    assert_false(has(&store, one, 'a'));
    assert_int_equal(utimensat(AT_FDCWD, half, old, 0), 0);
    assert_int_equal(save(&store, other, 5000, 'b'), OK);
    assert_int_not_equal(access(half, F_OK), 0);
    free(half);
}

static void test_a_directory_that_others_write_to_is_refused(void **state)
{
    struct store store;
    char *directory = xasprintf("%s/open", (const char *)*state);

    assert_int_equal(mkdir(directory, 0700), 0);
    assert_int_equal(chmod(directory, 0777), 0);
    assert_int_equal(store_init(&store, directory, MIB, &err), ERR_DENIED);
    assert_int_equal(store_init(&store, "/nonexistent/builds", MIB, &err), ERR_IO);
    store = (struct store){.directory = "/nonexistent", .bytes_max = MIB};
    assert_int_equal(save(&store, one, 10, 'a'), ERR_IO);
    char *long_name = xmalloc(PATH_MAX);
    memset(long_name, 'n', PATH_MAX - 1);
    long_name[PATH_MAX - 1] = 0;
    assert_int_equal(store_init(&store, long_name, MIB, &err), ERR_TOO_LARGE);
    free(long_name);
    free(directory);
}

#define WITH_PLACE(test) cmocka_unit_test_setup_teardown(test, make_place, remove_place)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_PLACE(test_a_build_is_found_again_and_no_other),
        WITH_PLACE(test_a_source_that_does_not_compile_is_known_too),
        WITH_PLACE(test_only_what_another_build_would_say_too_is_kept),
        WITH_PLACE(test_an_entry_that_was_changed_or_cut_or_renamed_is_removed),
        WITH_PLACE(test_links_and_other_users_files_count_as_missing),
        WITH_PLACE(test_what_was_not_used_for_longest_makes_room),
        WITH_PLACE(test_two_workers_write_and_read_the_same_names_at_once),
        WITH_PLACE(test_leftovers_of_a_worker_that_was_killed_go_away),
        WITH_PLACE(test_a_directory_that_others_write_to_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
