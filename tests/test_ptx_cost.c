/* What hostile text costs: eight mebibytes that are made to take long, or to become much. */
#include "sim/code.h"

#include "common/buffer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <time.h>

#include <cmocka.h>

/* A processor of its own needs two seconds for the slowest of them. */
enum { TEXT_BYTES = 8 << 20, SECONDS_MAX = 8, MEMORY_MAX_KB = 512 << 10 };

static const char head[] = ".version 8.0\n.target sm_90a\n.address_size 64\n";

/* Parses what `text` has become by now, and expects `status`. */
static void parse(struct buffer *text, enum status expected)
{
    struct image *image = NULL;
    struct error err = {0};
    struct rusage usage = {0};
    clock_t start = clock();

    enum status status = image_parse(&image, text->data, text->size_bytes, &err);
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    if (status != expected || seconds > SECONDS_MAX || usage.ru_maxrss > MEMORY_MAX_KB) {
        fail_msg("status %d '%s', %.1f s, %ld KiB", (int)status, err.message, seconds,
                 usage.ru_maxrss);
    }
    image_close(image);
    buffer_release(text);
}

static struct buffer kernel(const char *declarations)
{
    struct buffer text = {0};

    buffer_printf(&text, "%s.visible .entry k()\n{\n.reg .pred %%p;\n%s", head, declarations);
    return text;
}

static void test_labels_without_number(void **state)
{
    struct buffer text = kernel("");

    (void)state;
    for (int i = 0; text.size_bytes < TEXT_BYTES; i++) {
        buffer_printf(&text, "L%d: @%%p bra L%d;\n", i, i / 2);
    }
    buffer_printf(&text, "ret;\n}\n");
    parse(&text, OK);
}

/* Every value is live in many blocks, and no block is entered at one place only. */
static void test_branches_across_each_other(void **state)
{
    enum { BLOCKS = 100000 };
    struct buffer text = kernel(".reg .b32 %r<100001>;\n");

    (void)state;
    for (int i = 0; i < BLOCKS; i++) {
        buffer_printf(&text, "@%%p bra L%d;\nL%d: add.u32 %%r%d,%%r%d,1;\n",
                      (int)(i * INT64_C(7919) % BLOCKS), i, i + 1, (int)(i * INT64_C(31) % BLOCKS));
    }
    buffer_printf(&text, "ret;\n}\n");
    parse(&text, OK);
}

/* Each use of %r1 has to pass over all ranges that are too short for it. */
static void test_names_that_hide_behind_each_other_are_refused(void **state)
{
    struct buffer text = kernel(".reg .b32 %r1;\n");

    (void)state;
    for (int i = 0; i < 100000; i++) {
        buffer_printf(&text, ".reg .b32 %%r<1>;\n");
    }
    while (text.size_bytes < TEXT_BYTES) {
        buffer_printf(&text, "add.u32 %%r1,%%r1,1;\n");
    }
    buffer_printf(&text, "ret;\n}\n");
    parse(&text, ERR_TOO_LARGE);
}

/* Lines whose numbers fall into one bucket. */
static void test_lines_that_look_alike(void **state)
{
    struct buffer text = {0};

    (void)state;
    buffer_printf(&text, "%s.file 1 \"a.cu\"\n.visible .entry k()\n{\n.reg .b32 %%r;\n", head);
    for (uint32_t i = 1; text.size_bytes < TEXT_BYTES; i++) {
        buffer_printf(&text, ".loc 1 %u 0\nadd.u32 %%r,%%r,1;\n", i % 200000 * 4096);
    }
    buffer_printf(&text, "ret;\n}\n");
    parse(&text, OK);
}

/* Sixty-four functions that call each other twice: 2^64 instructions of 3 KiB of text. */
static void test_calls_that_double(void **state)
{
    struct buffer text = {0};

    (void)state;
    buffer_printf(&text, "%s.func f0() { ret; }\n", head);
    for (int i = 1; i <= 60; i++) {
        buffer_printf(&text, ".func f%d() { call f%d; call f%d; ret; }\n", i, i - 1, i - 1);
    }
    buffer_printf(&text, ".visible .entry k() { call f60; ret; }\n");
    parse(&text, OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_labels_without_number),
        cmocka_unit_test(test_branches_across_each_other),
        cmocka_unit_test(test_names_that_hide_behind_each_other_are_refused),
        cmocka_unit_test(test_lines_that_look_alike),
        cmocka_unit_test(test_calls_that_double),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
