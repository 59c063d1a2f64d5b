/* What the fuzzers of tests/fuzz were given and have found, once more. */
#include "tests/fuzz/fuzz.h"

#include "common/mem.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include <cmocka.h>

enum { FILE_BYTES_MAX = 1 << 20, FILE_SECONDS_MAX = 5, MEMORY_MAX_KB = 512 << 10 };

static void replay_file(const char *path, void (*target)(const uint8_t *, size_t))
{
    uint8_t *bytes = xmalloc(FILE_BYTES_MAX);
    FILE *file = fopen(path, "rb");
    struct rusage usage = {0};

    assert_non_null(file);
    size_t size_bytes = fread(bytes, 1, FILE_BYTES_MAX, file);
    assert_true(feof(file));
    assert_int_equal(fclose(file), 0);
    /* A block of its own size, so that the sanitizer sees a read beyond it. */
    bytes = xrealloc(bytes, size_bytes);
    clock_t start = clock();
    target(bytes, size_bytes);
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    (void)getrusage(RUSAGE_SELF, &usage);
    if (seconds > FILE_SECONDS_MAX || usage.ru_maxrss > MEMORY_MAX_KB) {
        fail_msg("'%s': %.1f s, %ld KiB", path, seconds, usage.ru_maxrss);
    }
    free(bytes);
}

/* The number of files in the folder. */
static int replay_folder(char *folder, void (*target)(const uint8_t *, size_t))
{
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, NULL, alphasort);
    int replayed = 0;

    for (int i = 0; i < count; i++) {
        if (entries[i]->d_name[0] != '.') {
            char *path = xasprintf("%s/%s", folder, entries[i]->d_name);
            replay_file(path, target);
            free(path);
            replayed++;
        }
        free(entries[i]);
    }
    free(entries);
    free(folder);
    return replayed;
}

static void replay(const char *name, void (*target)(const uint8_t *, size_t))
{
    assert_true(replay_folder(xasprintf("tests/fuzz/corpus/%s", name), target) > 0);
    (void)replay_folder(xasprintf("tests/fuzz/corpus/%s_slow", name), target);
}

#define X(name, corpus)                                                                            \
    static void test_no_file_of_the_corpus_harms_the_parser_of_##name(void **state)                \
    {                                                                                              \
        (void)state;                                                                               \
        replay(#corpus, fuzz_##name);                                                              \
    }
FUZZ_TARGETS(X)
#undef X

int main(void)
{
    const struct CMUnitTest tests[] = {
#define X(name, corpus) cmocka_unit_test(test_no_file_of_the_corpus_harms_the_parser_of_##name),
        FUZZ_TARGETS(X)
#undef X
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
