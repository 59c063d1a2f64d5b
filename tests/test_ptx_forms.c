/* Every form of the instructions that are simulated, and each family that is refused; that they
 * are PTX is what the real ptxas says. */
#include "common/buffer.h"
#include "tests/ptx_forms.h"
#include "tests/simulation.h"

#include <ctype.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TEXT_MAX = 512, FORMS_MAX = 6000, FORMS_A_KERNEL = 100, LINE = 7 };

struct insns {
    char *text[FORMS_MAX];
    int count;
};

/* ---- forms written out ---- */

/* The register of a type, as the header says: @T1 and %r1 and so on. */
static const char *register_of(const char *type, bool is_wide)
{
    static const struct {
        const char *type, *name, *wide;
    } registers[] = {{"f32x2", "%d", "%d"},  {"f16x2", "%r", "%d"}, {"bf16x2", "%r", "%d"},
                     {"u16x2", "%r", "%d"},  {"s16x2", "%r", "%d"}, {"f16", "%h", "%r"},
                     {"bf16", "%h", "%r"},   {"tf32", "%r", "%d"},  {"f32", "%f", "%g"},
                     {"f64", "%g", "%q"},    {"pred", "%p", "%p"},  {"b8", "%h", "%r"},
                     {"u8", "%h", "%r"},     {"s8", "%h", "%r"},    {"b16", "%h", "%r"},
                     {"u16", "%h", "%r"},    {"s16", "%h", "%r"},   {"b32", "%r", "%d"},
                     {"u32", "%r", "%d"},    {"s32", "%r", "%d"},   {"b64", "%d", "%q"},
                     {"u64", "%d", "%q"},    {"s64", "%d", "%q"},   {"b128", "%q", "%q"},
                     {"e4m3x2", "%h", "%r"}, {"e5m2x2", "%h", "%r"}};

    for (size_t i = 0; i < sizeof(registers) / sizeof(*registers); i++) {
        if (strcmp(type, registers[i].type) == 0) {
            return is_wide ? registers[i].wide : registers[i].name;
        }
    }
    return NULL;
}

/* The registers of the first and the second type that the operation names. */
static void read_types(const char *text, const char *first[2], const char **second)
{
    char words[TEXT_MAX];
    char *left = NULL;

    first[0] = first[1] = *second = NULL;
    (void)snprintf(words, sizeof(words), "%s", text);
    for (char *word = strtok_r(words, ".", &left); word; word = strtok_r(NULL, ".", &left)) {
        if (!register_of(word, false)) {
            continue;
        }
        if (first[0]) {
            *second = *second ? *second : register_of(word, false);
        } else {
            first[0] = register_of(word, false);
            first[1] = register_of(word, true);
        }
    }
    *second = *second ? *second : first[0];
}

static void add(struct insns *insns, const char *text, const char *operands)
{
    const char *first[2];
    const char *second;
    struct buffer out = {0};

    read_types(text, first, &second);
    buffer_printf(&out, "%s%s", text, *operands ? " " : "");
    for (const char *at = operands; *at; at++) {
        const char *name = *at != '@'     ? NULL
                           : at[1] == 'T' ? first[0]
                           : at[1] == 'W' ? first[1]
                                          : second;
        if (name) {
            buffer_printf(&out, "%s", name);
            at++;
        } else {
            assert_true(*at != '@');
            buffer_append(&out, at, 1);
        }
    }
    buffer_append(&out, ";", 2);
    assert_true(insns->count < FORMS_MAX);
    insns->text[insns->count++] = out.data;
}

/* The first {a|b} of `text` from `from` on; braces without a bar are PTX's own. */
static const char *find_choice(const char *text, const char **end)
{
    for (const char *at = strchr(text, '{'); at; at = strchr(at + 1, '{')) {
        *end = strchr(at, '}');
        assert_non_null(*end);
        if (memchr(at, '|', (size_t)(*end - at))) {
            return at;
        }
    }
    return NULL;
}

static void expand(struct insns *insns, const char *text, const char *operands)
{
    const char *end = NULL;
    const char *choice = find_choice(text, &end);
    bool is_operand = !choice;
    const char *whole = is_operand ? operands : text;
    char chosen[TEXT_MAX];

    if (is_operand) {
        choice = find_choice(operands, &end);
    }
    if (!choice) {
        add(insns, text, operands);
        return;
    }
    for (const char *at = choice + 1; at <= end; at++) {
        int length = (int)strcspn(at, "|}");
        (void)snprintf(chosen, sizeof(chosen), "%.*s%.*s%s", (int)(choice - whole), whole, length,
                       at, end + 1);
        expand(insns, is_operand ? text : chosen, is_operand ? chosen : operands);
        at += length;
    }
}

static void open_insns(struct insns *insns, const struct form *rows, size_t count)
{
    insns->count = 0;
    for (size_t i = 0; i < count; i++) {
        expand(insns, rows[i].text, rows[i].operands);
    }
}

static void close_insns(struct insns *insns)
{
    for (int i = 0; i < insns->count; i++) {
        free(insns->text[i]);
    }
}

/* ---- a module of them: of ours each has a kernel, which stores every register, so that nothing
 * is idle and dropped; ptxas, who says that they are PTX, gets many in one, which is quicker ----
 */

static void store_registers(struct buffer *out, const char *text)
{
    static const char *const types[] = {
        ['h'] = "u16", ['r'] = "u32", ['f'] = "f32", ['d'] = "u64", ['g'] = "f64", ['q'] = "b128"};

    for (const char *at = strchr(text, '%'); at; at = strchr(at + 1, '%')) {
        unsigned char kind = (unsigned char)at[1];
        int length = 2 + (int)strspn(at + 2, "0123456789");
        if (length == 2 || !islower(kind) || isalpha((unsigned char)at[length])) {
            continue;
        }
        if (kind == 'p') {
            buffer_printf(out, " selp.u32 %%r59, 1, 2, %.*s; st.global.u32 [%%d59], %%r59;", length,
                          at);
        } else if (kind < sizeof(types) / sizeof(*types) && types[kind]) {
            buffer_printf(out, " st.global.%s [%%d59], %.*s;", types[kind], length, at);
        }
    }
}

static char *module_of(const struct insns *insns, int per_kernel)
{
    struct buffer out = {0};

    buffer_printf(&out, ".version 9.0\n.target sm_90a\n.address_size 64\n"
                        ".file 1 \"solution.cu\"\n");
    for (int i = 0; i < insns->count; i++) {
        if (i % per_kernel == 0) {
            buffer_printf(&out,
                          ".visible .entry k%d(.param .u64 a) {\n.reg .pred %%p<9>;"
                          " .reg .b8 %%b<9>; .reg .b16 %%h<40>; .reg .b32 %%r<60>;"
                          " .reg .f32 %%f<60>; .reg .b64 %%d<60>; .reg .f64 %%g<60>;"
                          " .reg .b128 %%q<9>;\n.loc 1 %d 1\n",
                          i, LINE);
        }
        buffer_printf(&out, "%s\n", insns->text[i]);
        if (per_kernel == 1) {
            store_registers(&out, insns->text[i]);
        }
        if ((i + 1) % per_kernel == 0 || i + 1 == insns->count) {
            buffer_printf(&out, "ret; }\n");
        }
    }
    buffer_append(&out, "", 1);
    return out.data;
}

static void check_by_ptxas(const struct insns *insns)
{
    char *text = module_of(insns, FORMS_A_KERNEL);
    char path[] = "/tmp/forms.XXXXXX";
    char program[TEXT_MAX];
    const char *home = getenv("CUDA_HOME");
    char *const arguments[] = {program, "-arch=sm_90a", path, "-o", "/dev/null", NULL};
    posix_spawn_file_actions_t actions;
    pid_t pid = 0;
    int wait_status = 0;
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    (void)close(fd);
    (void)snprintf(program, sizeof(program), "%s/bin/ptxas", home ? home : "/usr/local/cuda");
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    assert_int_equal(posix_spawn(&pid, program, &actions, NULL, arguments, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    assert_int_equal(waitpid(pid, &wait_status, 0), pid);
    if (wait_status != 0) {
        fail_msg("ptxas refuses %s", path);
    }
    (void)unlink(path);
    free(text);
}

/* ---- */

static void test_every_form_of_must_and_common_is_simulated(void **state)
{
    static struct insns insns;
    struct simulation simulation;
    struct simulation_options options = {.ranks = 1, .seed = 1};
    int missing = 0;

    (void)state;
    open_insns(&insns, forms, sizeof(forms) / sizeof(*forms));
    char *text = module_of(&insns, 1);
    check_by_ptxas(&insns);
    simulation_open(&simulation, &options, text);
    assert_int_equal(simulation.image->kernel_count, insns.count);
    for (int i = 0; i < insns.count; i++) {
        const char *what = module_unsupported(simulation.modules[0], &simulation.image->kernels[i]);
        if (what) {
            print_error("%s: %s\n", insns.text[i], what);
            missing++;
        }
    }
    assert_int_equal(missing, 0);
    assert_true(insns.count > 3000);
    simulation_close(&simulation);
    close_insns(&insns);
    free(text);
}

static void test_each_family_beyond_is_refused_at_launch_by_name_and_line(void **state)
{
    static struct insns insns;
    struct simulation simulation;
    struct simulation_options options = {.ranks = 1, .seed = 1};
    uint64_t param = 0;

    (void)state;
    open_insns(&insns, refused_forms, sizeof(refused_forms) / sizeof(*refused_forms));
    char *text = module_of(&insns, 1);
    check_by_ptxas(&insns);
    simulation_open(&simulation, &options, text);
    for (int i = 0; i < insns.count; i++) {
        struct error err = {0};
        struct grid *grid = NULL;
        struct launch launch = {.kernel = &simulation.image->kernels[i],
                                .module = simulation.modules[0],
                                .space = simulation.spaces[0],
                                .grid = {1, 1, 1},
                                .block = {32, 1, 1},
                                .params = &param};
        char expected[TEXT_MAX];
        assert_int_equal(engine_launch(simulation.engine, &grid, &launch, &err), ERR_UNAVAILABLE);
        (void)snprintf(expected, sizeof(expected), "%.*s (kernel k%d, solution.cu:%d)",
                       (int)strcspn(insns.text[i], " ;"), insns.text[i], i, LINE);
        assert_string_equal(err.message, expected);
    }
    simulation_close(&simulation);
    close_insns(&insns);
    free(text);
}

/* ---- functions of the device's runtime ---- */

static void test_memory_and_launches_of_the_device_are_refused_by_name_and_line(void **state)
{
    static const char *const names[] = {"malloc", "free", "cudaGetParameterBufferV2",
                                        "cudaLaunchDeviceV2"};

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        char text[TEXT_MAX];
        char expected[TEXT_MAX];
        struct simulation simulation;
        struct simulation_options options = {.ranks = 1, .seed = 1};
        (void)snprintf(text, sizeof(text),
                       ".version 9.0\n.target sm_90a\n.address_size 64\n.file 1 \"solution.cu\"\n"
                       ".extern .func (.param .b64 r) %s (.param .b64 a);\n"
                       ".visible .entry k() { .reg .b64 %%d<3>; .loc 1 %d 1\n{ .param .b64 a;"
                       " .param .b64 r; st.param.b64 [a], 8; call.uni (r), %s, (a);"
                       " ld.param.b64 %%d1, [r]; } st.global.u64 [%%d1], %%d1; ret; }\n",
                       names[i], LINE, names[i]);
        simulation_open(&simulation, &options, text);
        (void)snprintf(expected, sizeof(expected), "call of %s (kernel k, solution.cu:%d)",
                       names[i], LINE);
        assert_string_equal(
            module_unsupported(simulation.modules[0], &simulation.image->kernels[0]), expected);
        simulation_close(&simulation);
    }
}

/* ---- declarations that compilers do not write ---- */

static const char vectors_ptx[] =
    ".version 9.0\n.target sm_90a\n.address_size 64\n"
    ".func (.param .b32 r) f(.param .b32 x) { .reg .b32 %r<2>; ld.param.u32 %r1, [x];\n"
    "add.u32 %r1, %r1, 3; st.param.b32 [r], %r1; ret; }\n"
    ".func (.param .b32 r) g(.param .b32 x);\n.alias g, f;\n"
    ".visible .entry k(.param .u64 p) { .reg .v4 .b32 v; .reg .v2 .b32 w<3>; .reg .b64 %d<4>;\n"
    ".reg .b32 %r<4>; ld.param.u64 %d1, [p]; ld.global.v4.u32 v, [%d1];\n"
    "mov.u32 w2.y, v.x; mov.u32 v.x, v.w; mov.u32 v.a, w2.y; mov.u32 w1.x, v.y;\n"
    "mov.u32 v.y, v.b; mov.u32 v.z, w1.x; st.global.v4.u32 [%d1], v;\n"
    "{ .param .b32 x; .param .b32 r; st.param.b32 [x], 4; call (r), g, (x);\n"
    "ld.param.b32 %r1, [r]; } st.global.u32 [%d1+16], %r1; ret; }\n";

static void test_vectors_of_registers_and_aliases_of_functions_are_understood(void **state)
{
    struct simulation simulation;
    struct simulation_options options = {.ranks = 1, .seed = 1};
    uint32_t *words = NULL;
    uint64_t param = 0;

    (void)state;
    simulation_open(&simulation, &options, vectors_ptx);
    param = simulation_memory(&simulation, 0, 32, (void **)&words);
    for (uint32_t i = 0; i < 4; i++) {
        words[i] = i + 1;
    }
    simulation_launch(&simulation, &(struct simulation_launch){
                                       .kernel = "k", .ctas = 1, .threads = 1, .params = &param});
    simulation_check(&simulation);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(words[i], 4 - i);
    }
    assert_int_equal(words[4], 7);
    simulation_close(&simulation);
}

static void test_what_is_no_vector_and_no_alias_is_invalid(void **state)
{
    static const char *const texts[] = {
        ".entry k() { .reg .v8 .b32 v; ret; }",
        ".entry k() { .reg .v2 .b32 v; mov.u32 v.z, 1; ret; }",
        ".entry k() { .reg .v2 .b32 v; mov.u32 v.q, 1; ret; }",
        ".func f(.reg .v2 .b32 v) { ret; }",
        ".func f() { ret; }\n.alias g, f;",
        ".func f() { ret; }\n.alias f;",
        ".global .u32 x;\n.func f() { ret; }\n.alias f, x;",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        struct image *image = NULL;
        struct error err = {0};
        char text[TEXT_MAX];
        (void)snprintf(text, sizeof(text), ".version 9.0\n.target sm_90a\n.address_size 64\n%s\n",
                       texts[i]);
        assert_int_equal(image_parse(&image, text, strlen(text), &err), ERR_INVALID);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_form_of_must_and_common_is_simulated),
        cmocka_unit_test(test_each_family_beyond_is_refused_at_launch_by_name_and_line),
        cmocka_unit_test(test_memory_and_launches_of_the_device_are_refused_by_name_and_line),
        cmocka_unit_test(test_vectors_of_registers_and_aliases_of_functions_are_understood),
        cmocka_unit_test(test_what_is_no_vector_and_no_alias_is_invalid),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
