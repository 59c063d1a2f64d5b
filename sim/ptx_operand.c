#include "sim/ptx_parse.h"

#include <string.h>

/* clang-format off */
static const struct {
    const char *name;
    uint32_t index;
    uint32_t dimensions; /* .x .y .z; 0: none */
} special_registers[] = {
    {"%tid", SREG_TID_X, 3}, {"%ntid", SREG_NTID_X, 3}, {"%ctaid", SREG_CTAID_X, 3},
    {"%nctaid", SREG_NCTAID_X, 3}, {"%laneid", SREG_LANEID, 0}, {"%warpid", SREG_WARPID, 0},
    {"%nwarpid", SREG_NWARPID, 0}, {"%smid", SREG_SMID, 0}, {"%nsmid", SREG_NSMID, 0},
    {"%gridid", SREG_GRIDID, 0}, {"%lanemask_eq", SREG_LANEMASK_EQ, 0},
    {"%lanemask_le", SREG_LANEMASK_LE, 0}, {"%lanemask_lt", SREG_LANEMASK_LT, 0},
    {"%lanemask_ge", SREG_LANEMASK_GE, 0}, {"%lanemask_gt", SREG_LANEMASK_GT, 0},
    {"%clock", SREG_CLOCK, 0}, {"%clock_hi", SREG_CLOCK_HI, 0}, {"%clock64", SREG_CLOCK64, 0},
    {"%globaltimer", SREG_GLOBALTIMER, 0}, {"%globaltimer_lo", SREG_GLOBALTIMER_LO, 0},
    {"%globaltimer_hi", SREG_GLOBALTIMER_HI, 0},
    {"%dynamic_smem_size", SREG_DYNAMIC_SMEM_SIZE, 0},
    {"%total_smem_size", SREG_TOTAL_SMEM_SIZE, 0}, {"%envreg1", SREG_ENVREG1, 0},
    {"%aggr_smem_size", SREG_AGGR_SMEM_SIZE, 0}, {"%envreg2", SREG_ENVREG2, 0},
    /* Each CTA is a cluster of its own. */
    {"%clusterid", SREG_CTAID_X, 3}, {"%nclusterid", SREG_NCTAID_X, 3},
    {"%cluster_ctaid", SREG_CLUSTER_CTAID_X, 3}, {"%cluster_nctaid", SREG_CLUSTER_NCTAID_X, 3},
    {"%cluster_ctarank", SREG_CLUSTER_CTARANK, 0},
    {"%cluster_nctarank", SREG_CLUSTER_NCTARANK, 0},
    {"%is_explicit_cluster", SREG_IS_EXPLICIT_CLUSTER, 0},
};
/* clang-format on */

static uint32_t add_operand(struct parser *parser, struct ptx_operand operand)
{
    struct ptx_function *function = &parser->module->functions[parser->function];

    ptx_grow(&function->operands, &function->operand_capacity, function->operand_count,
             sizeof *function->operands);
    function->operands[function->operand_count] = operand;
    return function->operand_count++;
}

/* %tid.x and its like; what is not in the table is OPERAND_UNKNOWN. */
static void parse_special(struct parser *parser, struct slice word, struct ptx_operand *operand)
{
    struct lexer *lexer = &parser->lexer;

    operand->kind = OPERAND_UNKNOWN;
    for (size_t i = 0; i < sizeof special_registers / sizeof special_registers[0]; i++) {
        if (slice_is(word, special_registers[i].name)) {
            uint32_t dimension = 0;
            if (special_registers[i].dimensions > 0) {
                dimension = lexer_take(lexer, ".x")   ? 0
                            : lexer_take(lexer, ".y") ? 1
                            : lexer_take(lexer, ".z") ? 2
                                                      : PTX_NONE;
                if (dimension >= special_registers[i].dimensions) {
                    break;
                }
            }
            operand->kind = OPERAND_SREG;
            operand->index = special_registers[i].index + dimension;
            break;
        }
    }
    if (lexer->token.kind == TOKEN_DOT) {
        lexer_next(lexer);
    }
}

/* Which element of a vector of registers `.x` is: .x .y .z .w, or .r .g .b .a. */
static uint32_t take_element(struct parser *parser, uint32_t vector)
{
    static const char *const names[] = {".x", ".y", ".z", ".w", ".r", ".g", ".b", ".a"};

    for (uint32_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (i % 4 < vector && lexer_take(&parser->lexer, names[i])) {
            return i % 4;
        }
    }
    parser_fail(parser, ERR_INVALID, "expected an element of a vector of registers");
    return 0;
}

/* False where the word is a label's, whose use is then noted. */
static void parse_name(struct parser *parser, struct ptx_operand *operand, struct slice *label)
{
    uint32_t number;
    struct slice word = parser_word(parser);
    const struct name *name = names_find(parser, word, &number);

    if (slice_is(word, "_")) {
        operand->kind = OPERAND_SINK;
    } else if (name != NULL && (name->kind == NAME_REGISTER || name->kind == NAME_RANGE)) {
        uint32_t element = name->vector > 1 ? take_element(parser, name->vector) : 0;
        operand->kind = OPERAND_REGISTER;
        operand->index = names_register(parser, name, number * name->vector + element);
    } else if (name != NULL) {
        operand->kind = name->kind == NAME_VARIABLE ? OPERAND_VARIABLE : OPERAND_FUNCTION;
        operand->index = name->index;
    } else if (slice_is(word, "WARP_SZ")) {
        operand->kind = OPERAND_INTEGER;
        operand->bits = WARP_LANES;
    } else if (word.length > 0 && word.text[0] == '%') {
        parse_special(parser, word, operand);
    } else {
        operand->kind = OPERAND_LABEL;
        *label = word;
    }
}

static void parse_number(struct parser *parser, struct ptx_operand *operand)
{
    struct lexer *lexer = &parser->lexer;
    struct lexer ahead = *lexer;
    bool is_negative = lexer->token.kind == TOKEN_MARK && lexer->token.mark == '-';

    if (is_negative) {
        lexer_next(&ahead);
    }
    if (ahead.token.kind == TOKEN_REAL) {
        operand->kind = OPERAND_REAL;
        operand->bits = ahead.token.bits ^ (is_negative ? 1ull << 63 : 0);
        lexer_next(&ahead);
        *lexer = ahead;
    } else {
        operand->kind = OPERAND_INTEGER;
        operand->bits = (uint64_t)parser_integer(parser);
    }
}

/* A register, name, or number, with what is added to it. */
static void parse_simple(struct parser *parser, struct ptx_operand operand)
{
    struct lexer *lexer = &parser->lexer;
    struct slice label = {"", 0};
    uint32_t index;

    operand.is_negated = lexer_take_mark(lexer, '!');
    if (lexer->token.kind == TOKEN_WORD) {
        parse_name(parser, &operand, &label);
        if (lexer->token.kind == TOKEN_MARK &&
            (lexer->token.mark == '+' || lexer->token.mark == '-')) {
            operand.offset = parser_integer(parser);
        }
    } else {
        parse_number(parser, &operand);
    }
    index = add_operand(parser, operand);
    if (operand.kind == OPERAND_LABEL && parser->status == OK) {
        labels_use(parser, label, index, false);
    }
}

static void parse_vector(struct parser *parser)
{
    struct lexer *lexer = &parser->lexer;
    uint32_t count = 0;
    uint32_t head = add_operand(parser, (struct ptx_operand){.kind = OPERAND_VECTOR});

    do {
        parse_simple(parser, (struct ptx_operand){0});
        count++;
        if (count > PTX_VECTOR_MAX) {
            parser_fail(parser, ERR_TOO_LARGE, "vector of more than %d", PTX_VECTOR_MAX);
        }
    } while (parser->status == OK && lexer_take_mark(lexer, ','));
    parser_expect(parser, '}');
    parser->module->functions[parser->function].operands[head].index = count;
}

/* A vector of registers by its name alone: all of them. */
static bool parse_registers_of(struct parser *parser)
{
    struct lexer ahead = parser->lexer;
    uint32_t number;
    const struct name *name =
        ahead.token.kind == TOKEN_WORD ? names_find(parser, ahead.token.slice, &number) : NULL;

    if (name == NULL || (name->kind != NAME_REGISTER && name->kind != NAME_RANGE) ||
        name->vector == 1) {
        return false;
    }
    lexer_next(&ahead);
    if (ahead.token.kind == TOKEN_DOT) {
        return false;
    }
    parser->lexer = ahead;
    add_operand(parser, (struct ptx_operand){.kind = OPERAND_VECTOR, .index = name->vector});
    for (uint32_t i = 0; i < name->vector; i++) {
        uint32_t reg = names_register(parser, name, number * name->vector + i);
        add_operand(parser, (struct ptx_operand){.kind = OPERAND_REGISTER, .index = reg});
    }
    return true;
}

void parse_operand(struct parser *parser)
{
    struct lexer *lexer = &parser->lexer;

    if (parse_registers_of(parser)) {
        return;
    }

    if (lexer_take_mark(lexer, '{')) {
        parse_vector(parser);
    } else if (lexer_take_mark(lexer, '[')) {
        parse_simple(parser, (struct ptx_operand){.is_address = true});
        parser_expect(parser, ']');
    } else {
        parse_simple(parser, (struct ptx_operand){0});
        if (lexer_take_mark(lexer, '|')) {
            parse_simple(parser, (struct ptx_operand){.is_second = true});
        }
    }
}
