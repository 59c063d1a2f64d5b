/* What a hostile source does to the compiler's machine outside of the box, it cannot do inside. */
#include "tests/attacks.h"
#include "tests/node.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static enum verdict verdict_of(const struct sandbox_node *node, const char *name, char *reason)
{
    struct result result = {0};
    char path[PATH_MAX];
    const char *files[] = {path};
    size_t size_bytes = 0;
    int fd = -1;

    (void)snprintf(path, sizeof path, "tests/attacks/build/%s.cu", name);
    char *source = attacks_join(files, 1, &size_bytes);
    attacks_build(node, source, size_bytes, &result, &fd);
    free(source);
    if (fd >= 0) {
        close(fd);
    }
    (void)snprintf(reason, ATTACK_WORD_MAX, "%s", result.reason == NULL ? "-" : result.reason);
    enum verdict verdict = result.verdict;
    result_release(&result);
    return verdict;
}

static void test_each_source_does_outside_what_it_cannot_inside(void **state)
{
    static struct attack sources_of_attacks[ATTACKS_MAX];
    struct sandbox_node outside = *test_node();
    char reason[ATTACK_WORD_MAX];
    int failed = 0;
    int count = attacks_read("tests/attacks/build.tsv", sources_of_attacks);

    (void)state;
    outside.waived = ~0U;
    for (int i = 0; i < count; i++) {
        const struct attack *attack = &sources_of_attacks[i];
        const char *got = attack->outside;
        if (strcmp(got, "-") != 0) {
            got = verdict_name(verdict_of(&outside, attack->name, reason));
        }
        const char *inside = verdict_name(verdict_of(test_node(), attack->name, reason));
        if (strcmp(got, attack->outside) != 0 || strcmp(inside, attack->verdict) != 0 ||
            strcmp(reason, attack->reason) != 0) {
            print_error("%s: %s outside, %s %s inside\n", attack->name, got, inside, reason);
            failed++;
        }
    }
    assert_true(count > 0);
    assert_int_equal(failed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_source_does_outside_what_it_cannot_inside),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
