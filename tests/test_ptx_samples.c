/* What the real compiler makes of tests/fixtures/ptx/samples.cu, whole, cut and broken. */
#include "sim/code.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/mem.h"

enum { MUTATIONS = 1000, PREFIX_STEP = 211 };

static struct error err;
static char *ptx;
static size_t ptx_bytes;

static int read_samples(void **state)
{
    const char *build = getenv("BUILD");
    char *path = xasprintf("%s/tests/samples.ptx", build != NULL ? build : "build");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat info;

    (void)state;
    free(path);
    if (fd < 0 || fstat(fd, &info) != 0) {
        return -1;
    }
    ptx = xmalloc((size_t)info.st_size);
    ptx_bytes = (size_t)info.st_size;
    bool is_whole = read(fd, ptx, ptx_bytes) == info.st_size;
    close(fd);
    return is_whole ? 0 : -1;
}

static int free_samples(void **state)
{
    (void)state;
    free(ptx);
    return 0;
}

static struct image *parse_samples(void)
{
    struct image *image = NULL;

    if (image_parse(&image, ptx, ptx_bytes, &err) != OK) {
        fail_msg("%s", err.message);
    }
    return image;
}

static const struct kernel *find_kernel(const struct image *image, const char *demangled)
{
    for (uint32_t i = 0; i < image->kernel_count; i++) {
        if (strncmp(image->kernels[i].demangled, demangled, strlen(demangled)) == 0) {
            return image_kernel(image, image->kernels[i].name);
        }
    }
    fail_msg("no kernel %s", demangled);
    return NULL;
}

static const struct insn *find_op(const struct kernel *kernel, enum code_op op)
{
    for (uint32_t i = 0; i < kernel->insn_count; i++) {
        if (kernel->insns[i].op == op) {
            return &kernel->insns[i];
        }
    }
    fail_msg("no operation %d in %s", op, kernel->demangled);
    return NULL;
}

static void test_ordinary_kernels_can_be_simulated(void **state)
{
    struct image *image = parse_samples();

    (void)state;
    assert_int_equal(image->kernel_count, 12);
    for (uint32_t i = 0; i < image->kernel_count; i++) {
        const struct kernel *kernel = &image->kernels[i];
        bool is_odd = strncmp(kernel->demangled, "recursive", 9) == 0 ||
                      strncmp(kernel->demangled, "warpgroup", 9) == 0;
        if (is_odd != (kernel->unsupported != NULL)) {
            fail_msg("%s: %s", kernel->demangled, is_odd ? "taken" : kernel->unsupported);
        }
        assert_true(is_odd || (kernel->slot_count > 0 && kernel->slot_count < 48));
    }
    assert_null(image_kernel(image, "none"));
    image_close(image);
}

static void test_what_cannot_be_simulated_says_why_and_where(void **state)
{
    struct image *image = parse_samples();
    const struct kernel *kernel = find_kernel(image, "warpgroup");

    (void)state;
    assert_ptr_equal(strstr(kernel->unsupported, "wgmma.fence.sync.aligned (kernel warpgroup("),
                     kernel->unsupported);
    assert_non_null(strstr(kernel->unsupported, ", samples.cu:"));
    kernel = find_kernel(image, "recursive");
    assert_non_null(strstr(kernel->unsupported, "recursive call of _Z9fibonacci"));
    image_close(image);
}

static void test_a_kernel_knows_its_parameters_and_limits(void **state)
{
    struct image *image = parse_samples();
    const struct kernel *kernel = find_kernel(image, "calls(");

    (void)state;
    assert_int_equal(kernel->param_count, 3);
    assert_int_equal(kernel->params[0].size_bytes, 16);
    assert_int_equal(kernel->params[1].offset, 16);
    assert_int_equal(kernel->params[2].offset, 24);
    assert_int_equal(kernel->param_bytes, 28);
    assert_int_equal(kernel->threads_max, 128);
    assert_int_equal(kernel->ctas_min, 2);
    assert_int_equal(kernel->shared_bytes, 512);
    assert_int_equal(kernel->dynamic_offset, 512);
    assert_int_equal(kernel->local_bytes, 16);
    assert_string_equal(kernel->name, "_Z5calls5pointPfi");
    image_close(image);
}

static void test_variables_have_their_first_values(void **state)
{
    struct image *image = parse_samples();
    static const float weights[] = {1, 2, 3, 4};
    static const int table[] = {1, 2, 3};
    bool is_relocated = false;

    (void)state;
    for (uint32_t i = 0; i < image->symbol_count; i++) {
        const struct code_symbol *symbol = &image->symbols[i];
        if (strcmp(symbol->name, "weights") == 0) {
            assert_int_equal(symbol->space, SYMBOL_CONST);
            assert_memory_equal(symbol->initial, weights, sizeof weights);
        } else if (strcmp(symbol->name, "table") == 0) {
            assert_int_equal(symbol->space, SYMBOL_GLOBAL);
            assert_memory_equal(symbol->initial, table, sizeof table);
        } else if (strcmp(symbol->name, "zeros") == 0) {
            assert_int_equal(symbol->size_bytes, 8000);
            assert_null(symbol->initial);
        } else if (strcmp(symbol->name, "second") == 0) {
            assert_int_equal(symbol->relocation_count, 1);
            assert_int_equal(symbol->relocations[0].addend, 4);
            assert_string_equal(image->symbols[symbol->relocations[0].symbol].name, "table");
            is_relocated = true;
        }
    }
    assert_true(is_relocated);
    image_close(image);
}

static void test_inlined_library_code_has_the_line_that_calls_it(void **state)
{
    struct image *image = parse_samples();
    const struct kernel *kernel = find_kernel(image, "grouped(");
    const struct insn *barrier = find_op(kernel, OP_BAR);

    (void)state;
    assert_string_equal(image->lines[barrier->line].file, "samples.cu");
    for (uint32_t i = 0; i < kernel->insn_count; i++) {
        const struct code_line *line = &image->lines[kernel->insns[i].line];
        assert_true(line->line == 0 || strcmp(line->file, "samples.cu") == 0);
    }
    image_close(image);
}

static void test_strong_accesses_keep_order_and_scope(void **state)
{
    struct image *image = parse_samples();
    const struct kernel *kernel = find_kernel(image, "flags(");
    const struct insn *add = find_op(kernel, OP_RED);
    const struct insn *reduce = find_op(kernel, OP_MULTIMEM_LD_REDUCE);
    uint32_t acquires = 0, releases = 0, spins = 0;

    (void)state;
    for (uint32_t i = 0; i < kernel->insn_count; i++) {
        const struct insn *insn = &kernel->insns[i];
        acquires += insn->op == OP_LD && insn->sem == SEM_ACQUIRE && insn->scope == SCOPE_SYS;
        releases += insn->op == OP_ST && insn->sem == SEM_RELEASE && insn->scope == SCOPE_SYS;
        spins += insn->op == OP_BRA && insn->back_edge;
    }
    assert_int_equal(acquires, 1);
    assert_int_equal(releases, 1);
    assert_int_equal(spins, 1);
    assert_int_equal(add->sem, SEM_RELEASE);
    assert_int_equal(add->sub, ATOM_ADD);
    assert_int_equal(reduce->type2, TYPE_F32);
    assert_int_equal(reduce->vector, 4);
    assert_int_equal(find_op(kernel, OP_VPRINTF)->src_count, 2);
    assert_int_equal(find_op(kernel, OP_ASSERTFAIL)->src_count, 5);
    image_close(image);
}

static void test_cut_text_is_refused_or_shorter(void **state)
{
    (void)state;
    for (size_t size_bytes = 0; size_bytes < ptx_bytes; size_bytes += PREFIX_STEP) {
        struct image *image = NULL;
        char *text = xmalloc(size_bytes); /* of just this size: a sanitizer sees what lies beyond */
        memcpy(text, ptx, size_bytes);
        if (image_parse(&image, text, size_bytes, &err) == OK) {
            image_close(image);
        } else {
            assert_null(image);
        }
        free(text);
    }
}

static uint32_t next_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33);
}

static void mutate(char *text, size_t size_bytes, uint64_t *seed)
{
    static const char marks[] = "{}[]();,:.@!|<>%$-+0123456789abcdefprsux_\n \"";
    size_t at = next_random(seed) % size_bytes;
    size_t from = next_random(seed) % size_bytes;
    size_t length = next_random(seed) % 64;

    if (at + length > size_bytes || from + length > size_bytes) {
        return;
    }
    switch (next_random(seed) % 3) {
    case 0:
        text[at] = marks[next_random(seed) % (sizeof marks - 1)];
        break;
    case 1:
        memmove(text + at, text + from, length);
        break;
    default:
        memset(text + at, ' ', length);
        break;
    }
}

static void test_broken_text_never_harms_the_parser(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < MUTATIONS; i++) {
        uint64_t seed = i;
        struct image *image = NULL;
        char *text = xmalloc(ptx_bytes);
        memcpy(text, ptx, ptx_bytes);
        for (uint32_t count = 1 + next_random(&seed) % 3; count > 0; count--) {
            mutate(text, ptx_bytes, &seed);
        }
        if (image_parse(&image, text, ptx_bytes, &err) == OK) {
            image_close(image);
        } else {
            assert_null(image);
        }
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ordinary_kernels_can_be_simulated),
        cmocka_unit_test(test_what_cannot_be_simulated_says_why_and_where),
        cmocka_unit_test(test_a_kernel_knows_its_parameters_and_limits),
        cmocka_unit_test(test_variables_have_their_first_values),
        cmocka_unit_test(test_inlined_library_code_has_the_line_that_calls_it),
        cmocka_unit_test(test_strong_accesses_keep_order_and_scope),
        cmocka_unit_test(test_cut_text_is_refused_or_shorter),
        cmocka_unit_test(test_broken_text_never_harms_the_parser),
    };

    return cmocka_run_group_tests(tests, read_samples, free_samples);
}
