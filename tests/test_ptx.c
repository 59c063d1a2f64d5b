#include "sim/code.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/buffer.h"
#include "common/mem.h"
#include "sim/ptx_ops.h"
#include "tests/ptx_examples.h"

#define HEADER ".version 9.0\n.target sm_90a\n.address_size 64\n"
#define REGISTERS                                                                                  \
    ".reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<40>; .reg .f32 %f<40>; .reg .b64 %d<9>;"      \
    " .reg .f64 %g<9>; .reg .b128 %q<3>;\n"

static struct error err;

/* The image of a whole text; it must be PTX. */
static struct image *parse(const char *text)
{
    struct image *image = NULL;

    if (image_parse(&image, text, strlen(text), &err) != OK) {
        fail_msg("%s: in %s", err.message, text);
    }
    return image;
}

/* Every result is stored, so that nothing is dropped because nobody needs it. */
#define STORES                                                                                     \
    "st.global.u64 [%d8], %d1; st.global.f64 [%d8], %g1; st.global.f64 [%d8], %g2;"                \
    " st.global.u16 [%d8], %h1; st.global.u16 [%d8], %h2; st.global.b128 [%d8], %q1;"              \
    " st.global.v4.u32 [%d8], {%r1, %r2, %r3, %r4}; st.global.f32 [%d8], %f1;"                     \
    " selp.u32 %r39, 1, 2, %p1; st.global.u32 [%d8], %r39;"                                        \
    " selp.u32 %r39, 1, 2, %p2; st.global.u32 [%d8], %r39;\n"

static char *kernel_of(const char *body)
{
    return xasprintf("%s.func NOTHING() { ret; }\n.visible .entry k(.param .u64 a, .param .u32 b)\n"
                     "{\n%s%s\n%sret;\n}\n",
                     HEADER, REGISTERS, body, STORES);
}

static struct image *parse_body(const char *body)
{
    char *text = kernel_of(body);
    struct image *image = parse(text);

    free(text);
    return image;
}

static const struct insn *find_op(const struct kernel *kernel, enum code_op op)
{
    for (uint32_t i = 0; i < kernel->insn_count; i++) {
        if (kernel->insns[i].op == op) {
            return &kernel->insns[i];
        }
    }
    fail_msg("no operation %d", op);
    return NULL;
}

static uint64_t constant(const struct kernel *kernel, const struct insn *insn, uint32_t arg)
{
    assert_true(insn->args[arg] < 0);
    return kernel->constants[~insn->args[arg]];
}

/* Every index that a kernel holds is inside of what it indexes. */
static void check_insn(const struct image *image, const struct kernel *kernel, uint32_t at)
{
    const struct insn *insn = &kernel->insns[at];

    assert_true(insn->op < OPS && insn->line < image->line_count);
    assert_true(insn->guard < (int)kernel->predicate_count);
    if (insn->op == OP_BRA) {
        assert_true(insn->target < kernel->insn_count);
        assert_int_equal(insn->back_edge, insn->target <= at);
    }
    for (int64_t i = 0; insn->op == OP_BRX && i < insn->imm; i++) {
        assert_true(kernel->targets[insn->target + i] < kernel->insn_count);
    }
    assert_true(insn->op != OP_SYMBOL || insn->target < image->symbol_count);
    for (int i = 0; i < insn->dst_count + insn->src_count; i++) {
        int32_t arg = insn->args[i];
        bool is_predicate = (insn->arg_predicate >> i & 1) != 0;
        if (arg < 0) {
            assert_true(i >= insn->dst_count && (uint32_t)~arg < kernel->constant_count);
        } else if (is_predicate) {
            assert_true((uint32_t)arg < kernel->predicate_count);
            assert_true(i >= insn->dst_count || arg > 0);
        } else {
            assert_true((uint32_t)arg < kernel->slot_count);
        }
    }
}

static void check_image(const struct image *image)
{
    for (uint32_t i = 0; i < image->kernel_count; i++) {
        const struct kernel *kernel = &image->kernels[i];
        assert_true(kernel->insn_count > 0);
        assert_int_equal(kernel->insns[kernel->insn_count - 1].op, OP_EXIT);
        for (uint32_t at = 0; at < kernel->insn_count; at++) {
            check_insn(image, kernel, at);
        }
    }
}

static void test_every_example_becomes_its_operation(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
        const struct example *example = &examples[i];
        struct image *image = parse_body(example->text);
        const struct kernel *kernel = &image->kernels[0];
        if (kernel->unsupported != NULL) {
            fail_msg("%s", kernel->unsupported);
        }
        const struct insn *insn = find_op(kernel, example->op);
        if (insn->dst_count != example->dst_count || insn->src_count != example->src_count ||
            insn->type != example->type || insn->type2 != example->type2 ||
            insn->flags != example->flags) {
            fail_msg("%s: %d, %d, %d, %d, %x", example->text, insn->dst_count, insn->src_count,
                     insn->type, insn->type2, insn->flags);
        }
        check_image(image);
        image_close(image);
    }
}

static void test_every_row_of_the_table_has_an_example(void **state)
{
    (void)state;
    for (uint32_t row = 0; row < ptx_op_count; row++) {
        size_t length = strlen(ptx_ops[row].name);
        bool is_found = false;
        for (size_t i = 0; i < sizeof examples / sizeof examples[0] && !is_found; i++) {
            is_found = strncmp(examples[i].text, ptx_ops[row].name, length) == 0 &&
                       strchr(". ;", examples[i].text[length]) != NULL;
        }
        if (!is_found) {
            fail_msg("no example of %s", ptx_ops[row].name);
        }
    }
}

static void test_what_is_not_known_is_refused_by_name_and_line(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        struct image *image = parse_body(refusals[i]);
        const struct kernel *kernel = &image->kernels[0];
        size_t length = strcspn(refusals[i], " ;");
        const char *reason = kernel->unsupported != NULL ? kernel->unsupported : "taken";
        if (strncmp(reason, refusals[i], length) != 0) {
            fail_msg("%s: %s", refusals[i], reason);
        }
        assert_non_null(strstr(reason, "kernel k"));
        check_image(image);
        image_close(image);
    }
}

static void test_what_is_no_ptx_is_invalid(void **state)
{
    struct image *image = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof nonsense / sizeof nonsense[0]; i++) {
        char *text = kernel_of(nonsense[i]);
        enum status status = image_parse(&image, text, strlen(text), &err);
        if (status != ERR_INVALID && status != ERR_TOO_LARGE) {
            fail_msg("%s: %s", nonsense[i], status_name(status));
        }
        free(text);
    }
    assert_int_equal(image_parse(&image, "", 0, &err), ERR_INVALID);
    assert_int_equal(image_parse(&image,
                                 "\x7f"
                                 "ELF",
                                 4, &err),
                     ERR_INVALID);
    assert_int_equal(image_parse(&image, "", (size_t)IMAGE_BYTES_MAX + 1, &err), ERR_TOO_LARGE);
    assert_null(image);
}

static void test_constants_are_as_wide_as_their_type(void **state)
{
    struct image *image = parse_body("add.s32 %r1, %r2, -1; sub.s64 %d1, %d2, -1;"
                                     " xor.b16 %h1, %h2, -1; mul.f32 %f1, %f2, 0d3FF8000000000000;"
                                     " fma.rn.f64 %g1, %g2, %g3, 1.5; or.b32 %r1, %r1, 0b101;"
                                     " max.f32 %f1, %f2, 0f7FC00001;");
    const struct kernel *kernel = &image->kernels[0];

    (void)state;
    assert_int_equal(constant(kernel, find_op(kernel, OP_ADD), 2), 0xffffffff);
    assert_true(constant(kernel, find_op(kernel, OP_SUB), 2) == UINT64_MAX);
    assert_int_equal(constant(kernel, find_op(kernel, OP_XOR), 2), 0xffff);
    assert_int_equal(constant(kernel, find_op(kernel, OP_MUL), 2), 0x3fc00000);
    assert_int_equal(constant(kernel, find_op(kernel, OP_FMA), 3), 0x3ff8000000000000);
    assert_int_equal(constant(kernel, find_op(kernel, OP_OR), 2), 5);
    assert_int_equal(constant(kernel, find_op(kernel, OP_MAX), 2), 0x7fc00001);
    image_close(image);
}

static void test_a_register_wider_than_the_type_is_converted(void **state)
{
    struct image *image = parse_body("ld.global.s16 %d1, [%d2]; st.global.u8 [%d2], %d1;");
    const struct kernel *kernel = &image->kernels[0];
    const struct insn *load = &kernel->insns[0];

    (void)state;
    assert_int_equal(load->op, OP_LD);
    assert_int_equal(kernel->insns[1].op, OP_CVT);
    assert_int_equal(kernel->insns[1].type, TYPE_S64);
    assert_int_equal(kernel->insns[1].type2, TYPE_S32);
    assert_int_equal(kernel->insns[1].args[1], load->args[0]);
    assert_int_equal(kernel->insns[2].op, OP_CVT);
    assert_int_equal(kernel->insns[2].type, TYPE_U32);
    assert_int_equal(kernel->insns[3].op, OP_ST);
    image_close(image);
}

static void test_predicates_guard_and_negate(void **state)
{
    struct image *image = parse_body("setp.eq.s32 %p1, %r1, 0; @!%p1 add.s32 %r1, %r2, %r3;"
                                     " selp.b32 %r4, %r1, %r2, !%p1; mov.pred %p2, 0;"
                                     " @%p2 st.global.u32 [%d1], %r4;");
    const struct kernel *kernel = &image->kernels[0];
    const struct insn *add = find_op(kernel, OP_ADD), *select;
    const struct insn *move = find_op(kernel, OP_MOV);

    (void)state;
    assert_int_equal(add->guard, find_op(kernel, OP_SETP)->args[0]);
    assert_true(add->guard_not);
    assert_int_equal(find_op(kernel, OP_SETP)->guard, -1);
    select = find_op(kernel, OP_SELP);
    assert_int_equal(select->arg_predicate, 1u << 3);
    assert_int_equal(select->src_not, 1u << 2);
    assert_int_equal(move->args[1], 0);
    assert_int_equal(move->src_not, 1);
    assert_int_equal(move->arg_predicate, 3);
    image_close(image);
}

static void test_braces_hide_registers_and_labels(void **state)
{
    struct image *image = parse_body(
        "{ .reg .pred %p<2>; setp.eq.s32 %p1, %r1, 0; @%p1 bra OUT; add.s32 %r1, %r1, 1; OUT: }"
        "{ .reg .b64 %r<2>; st.global.u64 [0], %r1; @%p1 bra OUT; trap; OUT: }"
        "@%p1 bra OUT; trap; OUT: sub.s32 %r1, %r1, 3;");
    const struct kernel *kernel = &image->kernels[0];

    (void)state;
    assert_null(kernel->unsupported);
    assert_int_equal(kernel->insns[1].target, 3);
    assert_int_equal(kernel->insns[3].type, TYPE_U64);
    assert_int_equal(kernel->insns[4].target, 6);
    assert_int_equal(kernel->insns[6].target, 8);
    assert_int_equal(kernel->insns[8].op, OP_SUB);
    assert_true(kernel->insns[3].args[1] != kernel->insns[8].args[1]);
    image_close(image);
}

static void test_a_loop_keeps_what_its_next_turn_needs(void **state)
{
    /* %r1 is read before it is written in the loop: nothing else may take its slot there. */
    struct image *image =
        parse(HEADER ".entry k() { .reg .pred %p1; .reg .b32 %r<9>; mov.u32 %r1, 1;\n"
                     "mov.u32 %r5, %clock; L: add.s32 %r2, %r1, 1; mul.lo.s32 %r3, %r2, %r5;\n"
                     "sub.s32 %r1, %r3, 4; setp.lt.s32 %p1, %r1, 100; @%p1 bra L; ret; }");
    const struct kernel *kernel = &image->kernels[0];
    const struct insn *add = find_op(kernel, OP_ADD), *multiply = find_op(kernel, OP_MUL);

    (void)state;
    assert_int_equal(find_op(kernel, OP_SUB)->args[0], add->args[1]);
    assert_true(multiply->args[0] != multiply->args[2] && add->args[0] != multiply->args[2]);
    assert_true(find_op(kernel, OP_BRA)->back_edge);
    assert_true(kernel->slot_count <= 4);
    image_close(image);
}

static void test_copies_and_what_nobody_reads_are_dropped(void **state)
{
    struct image *image =
        parse(HEADER ".entry k(.param .u64 p) { .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .pred %p1;\n"
                     "ld.param.u64 %d1, [p]; cvta.to.global.u64 %d2, %d1; mov.u32 %r1, 5;\n"
                     "mov.u32 %r2, %r1; add.s32 %r3, %r2, 7; mul.lo.s32 %r4, %r3, %r3;\n"
                     "mov.u64 %d3, %d2; add.s64 %d4, %d3, 0; bra NEXT; NEXT:\n"
                     "st.global.u32 [%d4], %r2; ret; }");
    const struct kernel *kernel = &image->kernels[0];

    (void)state;
    assert_int_equal(kernel->insns[0].op, OP_LD);
    assert_int_equal(kernel->insns[1].op, OP_ST);
    assert_int_equal(kernel->insns[1].args[0], kernel->insns[0].args[0]);
    assert_int_equal(constant(kernel, &kernel->insns[1], 1), 5);
    assert_int_equal(kernel->insns[2].op, OP_EXIT);
    image_close(image);
}

static void test_a_copy_of_what_changes_stays(void **state)
{
    /* In each turn %r2 is what %r1 was before: reading %r1 in its place would be wrong. */
    struct image *image =
        parse(HEADER ".entry k(.param .u64 p) { .reg .b32 %r<9>; .reg .pred %p1;\n"
                     "mov.u32 %r3, 0; mov.u32 %r1, %clock; L: mov.u32 %r2, %r1;\n"
                     "add.s32 %r1, %r1, 3; add.s32 %r3, %r3, %r2; setp.lt.s32 %p1, %r3, 100;\n"
                     "@%p1 bra L; st.global.u32 [0], %r3; ret; }");
    const struct kernel *kernel = &image->kernels[0];
    uint32_t moves = 0;

    (void)state;
    for (uint32_t i = 0; i < kernel->insn_count; i++) {
        moves += kernel->insns[i].op == OP_MOV;
    }
    assert_int_equal(moves, 2);
    image_close(image);

    /* Here %r2 is read before it is copied to: it is what %r1 was a turn ago. */
    image = parse(HEADER ".entry k(.param .u64 p) { .reg .b32 %r<9>; .reg .pred %p1;\n"
                         "L: mov.u32 %r1, %clock; st.global.u32 [0], %r2; mov.u32 %r2, %r1;\n"
                         "setp.lt.u32 %p1, %r1, 100; @%p1 bra L; ret; }");
    kernel = &image->kernels[0];
    assert_int_not_equal(find_op(kernel, OP_ST)->args[1], find_op(kernel, OP_SREG)->args[0]);
    find_op(kernel, OP_MOV);
    image_close(image);
}

static void test_registers_of_different_sizes_never_share_a_slot(void **state)
{
    struct image *image = parse_body("add.s64 %d1, 1, 2; st.global.u64 [%d1], %d1;"
                                     " add.s32 %r1, 1, 2; st.global.u32 [0], %r1;"
                                     " mov.b128 %q1, {%d2, %d3}; ld.b128 %q2, [%d1];");
    const struct kernel *kernel = &image->kernels[0];
    const struct insn *pack = find_op(kernel, OP_PACK);

    (void)state;
    assert_int_equal(pack->args[0] % 4, 0);
    for (uint32_t i = 0; i < kernel->insn_count; i++) {
        const struct insn *insn = &kernel->insns[i];
        if (insn->op == OP_ADD && insn->type == TYPE_S64) {
            assert_int_equal(insn->args[0] % 2, 0);
            assert_true(insn->args[0] > pack->args[0]);
        }
        if (insn->op == OP_ADD && insn->type == TYPE_S32) {
            assert_true(insn->args[0] > pack->args[1] + 1);
        }
    }
    image_close(image);
}

static const char calls[] =
    HEADER ".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);\n"
           ".func (.param .align 8 .b8 out[16]) twice(.param .b32 x, .param .align 8 .b8 s[16])\n"
           "{ .reg .b32 %r<4>; .reg .b64 %d<4>; .reg .pred %p;\n"
           "ld.param.u32 %r1, [x]; ld.param.u64 %d1, [s+8]; setp.eq.s32 %p, %r1, 0; @%p ret;\n"
           "st.param.b64 [out+8], %d1; st.param.b64 [out], %d1; ret; }\n"
           ".func (.reg .b32 out) plus(.reg .b32 a, .reg .b32 b) { add.s32 out, a, b; ret; }\n"
           ".func by_address(.param .align 4 .b8 s[8]) { .reg .b64 %d<2>; .reg .b32 %r<2>;\n"
           "mov.b64 %d1, s; ld.param.u32 %r1, [%d1+4]; st.global.u32 [0], %r1; ret; }\n"
           ".visible .entry k(.param .u64 p) { .reg .b32 %r<9>; .reg .b64 %d<9>;\n"
           ".local .align 8 .b8 depot[8]; ld.param.u64 %d1, [p]; mov.u64 %d5, depot;\n"
           "{ .param .b32 a0; .param .align 8 .b8 a1[16]; .param .align 8 .b8 ret0[16];\n"
           "st.param.b32 [a0], 7; st.param.b64 [a1], %d1; st.param.b64 [a1+8], %d1;\n"
           "call.uni (ret0), twice, (a0, a1); ld.param.b64 %d2, [ret0+8]; }\n"
           "call (%r1), plus, (%r2, 3);\n"
           "{ .param .align 4 .b8 m[8]; st.param.b64 [m], %d2; call by_address, (m); }\n"
           "{ .param .b64 f; .param .b64 v; .param .b32 r0; st.param.b64 [f], %d2;\n"
           "st.param.b64 [v], %d5; call (r0), vprintf, (f, v); ld.param.b32 %r3, [r0]; }\n"
           "st.global.v2.u32 [%d1], {%r1, %r3}; ret; }\n";

static void test_calls_are_inlined_with_their_parameters(void **state)
{
    struct image *image = parse(calls);
    const struct kernel *kernel = &image->kernels[0];
    const struct insn *print = find_op(kernel, OP_VPRINTF);
    int loads = 0, locals = 0;

    (void)state;
    assert_int_equal(image->kernel_count, 1);
    assert_null(kernel->unsupported);
    check_image(image);
    for (uint32_t i = 0; i < kernel->insn_count; i++) {
        const struct insn *insn = &kernel->insns[i];
        loads += insn->op == OP_LD && insn->space == SPACE_PARAM;
        locals += (insn->op == OP_LD || insn->op == OP_ST) && insn->space == SPACE_LOCAL;
    }
    assert_int_equal(loads, 1);  /* the kernel's own: others live in slots */
    assert_int_equal(locals, 2); /* but the one whose address is taken */
    assert_int_equal(kernel->local_bytes, 16);
    assert_int_equal(print->dst_count, 1);
    assert_int_equal(print->src_count, 2);
    image_close(image);
}

static void test_endless_and_unknown_calls_are_refused(void **state)
{
    static const char *const texts[][2] = {
        {".func f() { call f; ret; }", "recursive call of f"},
        {".func g(); .func f() { call g; ret; } .func g() { call f; ret; }", "recursive call of f"},
        {".extern .func f();", "call of f"},
        {".func f(.param .b32 x) { ret; }", "call of f"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        char *text = xasprintf("%s%s .entry k() { call f; ret; }", HEADER, texts[i][0]);
        struct image *image = parse(text);
        assert_non_null(image->kernels[0].unsupported);
        assert_ptr_equal(strstr(image->kernels[0].unsupported, texts[i][1]),
                         image->kernels[0].unsupported);
        image_close(image);
        free(text);
    }
}

static void test_a_pointer_calls_each_function_that_it_may_be(void **state)
{
    struct image *image =
        parse(HEADER ".func (.param .b32 r) f(.param .b32 x) { .reg .b32 %r<2>;\n"
                     "ld.param.u32 %r1, [x]; st.param.b32 [r], %r1; ret; }\n"
                     ".func (.param .b32 r) g(.param .b32 x) { st.param.b32 [r], 9; ret; }\n"
                     ".func (.param .b32 r) never(.param .b32 x) { trap; brkpt; ret; }\n"
                     ".func other() { brkpt; ret; }\n"
                     ".global .u64 pointers[2] = {g, other};\n"
                     ".entry k(.param .u64 p) { .reg .b64 %d<3>; .reg .b32 %r<2>;\n"
                     "mov.u64 %d1, f; { .param .b32 x; .param .b32 r; st.param.b32 [x], 4;\n"
                     "proto: .callprototype (.param .b32 _) _ (.param .b32 _);\n"
                     "call (r), %d1, (x), proto; ld.param.b32 %r1, [r]; }\n"
                     "st.global.u32 [0], %r1; ret; }\n");
    const struct kernel *kernel = &image->kernels[0];
    uint32_t compares = 0;
    uint64_t address;

    (void)state;
    assert_null(kernel->unsupported);
    check_image(image);
    memcpy(&address, image->symbols[0].initial, sizeof address);
    for (uint32_t i = 0; i < kernel->insn_count; i++) {
        const struct insn *insn = &kernel->insns[i];
        assert_int_not_equal(insn->op, OP_BRKPT);
        if (insn->op == OP_SETP) {
            compares++;
            assert_true(compares == 1 || constant(kernel, insn, 2) == address);
        }
    }
    assert_int_equal(compares, 2);
    find_op(kernel, OP_TRAP);
    image_close(image);
}

/* Each function calls the next one twice: 2^40 bodies, were there no limit. */
static void test_inlining_has_an_end(void **state)
{
    struct buffer text = {0};
    struct image *image;

    (void)state;
    buffer_printf(&text, HEADER ".func f0() { ret; }\n");
    for (int i = 1; i <= 40; i++) {
        buffer_printf(&text, ".func f%d() { call f%d; call f%d; ret; }\n", i, i - 1, i - 1);
    }
    buffer_printf(&text, ".entry k() { call f40; ret; }\n.entry good() { ret; }\n");
    image = parse(text.data);
    assert_non_null(strstr(image->kernels[0].unsupported, "too large"));
    image_close(image);
    buffer_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_example_becomes_its_operation),
        cmocka_unit_test(test_every_row_of_the_table_has_an_example),
        cmocka_unit_test(test_what_is_not_known_is_refused_by_name_and_line),
        cmocka_unit_test(test_what_is_no_ptx_is_invalid),
        cmocka_unit_test(test_constants_are_as_wide_as_their_type),
        cmocka_unit_test(test_a_register_wider_than_the_type_is_converted),
        cmocka_unit_test(test_predicates_guard_and_negate),
        cmocka_unit_test(test_braces_hide_registers_and_labels),
        cmocka_unit_test(test_a_loop_keeps_what_its_next_turn_needs),
        cmocka_unit_test(test_copies_and_what_nobody_reads_are_dropped),
        cmocka_unit_test(test_a_copy_of_what_changes_stays),
        cmocka_unit_test(test_registers_of_different_sizes_never_share_a_slot),
        cmocka_unit_test(test_calls_are_inlined_with_their_parameters),
        cmocka_unit_test(test_endless_and_unknown_calls_are_refused),
        cmocka_unit_test(test_a_pointer_calls_each_function_that_it_may_be),
        cmocka_unit_test(test_inlining_has_an_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
