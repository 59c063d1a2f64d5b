#include "sim/ptx_parse.h"

#include "common/mem.h"

/* Finds or makes the decoded form of these words. */
static struct ptx_decoded decode(struct parser *parser, const struct slice *words, uint32_t count,
                                 struct slice text)
{
    struct opcode *opcode = &parser->opcodes[slice_hash(text) % OPCODE_CACHE];

    if (!slice_equal(opcode->text, text)) {
        opcode->decoded = ptx_decode(words, count);
        opcode->text = text;
    }
    return opcode->decoded;
}

/* The dotted words that follow `first`; returns how many with it. */
static uint32_t parse_words(struct parser *parser, struct slice *words, struct slice *text)
{
    struct lexer *lexer = &parser->lexer;
    uint32_t count = 1;

    while (parser->status == OK && lexer->token.kind == TOKEN_DOT) {
        if (count == PTX_MODIFIERS_MAX) {
            parser_fail(parser, ERR_INVALID, "more than %d modifiers", PTX_MODIFIERS_MAX);
            break;
        }
        words[count++] = lexer->token.slice;
        text->length = (uint32_t)(lexer->token.slice.text - text->text) + lexer->token.slice.length;
        lexer_next(lexer);
    }
    return count;
}

static void parse_list(struct parser *parser)
{
    struct lexer *lexer = &parser->lexer;

    if (lexer_take_mark(lexer, ')')) {
        return;
    }
    do {
        parse_operand(parser);
    } while (parser->status == OK && lexer_take_mark(lexer, ','));
    parser_expect(parser, ')');
}

/* (returns), callee, (arguments), prototype; all but the callee may be absent. */
static void parse_call(struct parser *parser, struct ptx_insn *insn)
{
    struct lexer *lexer = &parser->lexer;
    struct ptx_function *function = &parser->module->functions[parser->function];

    if (lexer_take_mark(lexer, '(')) {
        parse_list(parser);
        parser_expect(parser, ',');
    }
    insn->return_count = function->operand_count - insn->operand_start;
    parse_operand(parser);
    if (lexer_take_mark(lexer, ',') && lexer_take_mark(lexer, '(')) {
        parse_list(parser);
        lexer_take_mark(lexer, ',');
    }
    insn->operand_count = function->operand_count - insn->operand_start;
    parser_skip_statement(parser); /* a prototype's name */
}

void ptx_note_access(struct ptx_variable *variable, int64_t offset, uint32_t size_bytes)
{
    if (offset < 0 || (uint64_t)offset + size_bytes > variable->size_bytes) {
        variable->needs_memory = true;
        return;
    }
    for (uint32_t i = 0; i < variable->access_count; i++) {
        const struct ptx_access *access = &variable->accesses[i];
        if (access->offset == offset && access->size_bytes == size_bytes) {
            return;
        }
        if (offset < (int64_t)access->offset + access->size_bytes &&
            access->offset < offset + size_bytes) {
            variable->needs_memory = true;
        }
    }
    if (variable->access_count == PTX_ACCESSES_MAX) {
        variable->needs_memory = true;
        return;
    }
    if (variable->accesses == NULL) {
        variable->accesses = xmalloc(PTX_ACCESSES_MAX * sizeof *variable->accesses);
    }
    variable->accesses[variable->access_count++] =
        (struct ptx_access){(uint32_t)offset, size_bytes};
}

/* Notes how the instruction uses parameters, and whose address it takes. */
static void note_uses(struct parser *parser, const struct ptx_insn *insn)
{
    struct ptx_module *module = parser->module;
    const struct ptx_function *function = &module->functions[parser->function];
    bool is_param_access =
        (insn->insn.op == OP_LD || insn->insn.op == OP_ST) && insn->insn.space == SPACE_PARAM;
    bool is_call = insn->insn.op == PTX_CALL;

    for (uint32_t i = 0; i < insn->operand_count; i++) {
        const struct ptx_operand *operand = &function->operands[insn->operand_start + i];
        if (operand->kind == OPERAND_FUNCTION) {
            module->functions[operand->index].is_address_taken |=
                !is_call || i != insn->return_count;
        }
        if (operand->kind != OPERAND_VARIABLE ||
            module->variables[operand->index].space != SPACE_PARAM || is_call) {
            continue;
        }
        struct ptx_variable *variable = &module->variables[operand->index];
        if (!is_param_access || !operand->is_address) {
            variable->needs_memory = true;
            continue;
        }
        uint32_t size_bytes = ptx_type_size_bytes(insn->insn.type);
        for (uint32_t element = 0; element < insn->insn.vector; element++) {
            ptx_note_access(variable, operand->offset + (int64_t)element * size_bytes, size_bytes);
        }
    }
}

static void add_insn(struct parser *parser, const struct ptx_insn *insn)
{
    struct ptx_function *function = &parser->module->functions[parser->function];

    if (parser->module->insn_count == PTX_INSNS_MAX) {
        parser_fail(parser, ERR_TOO_LARGE, "more than %d instructions", PTX_INSNS_MAX);
        return;
    }
    parser->module->insn_count++;
    ptx_grow(&function->insns, &function->insn_capacity, function->insn_count,
             sizeof *function->insns);
    function->insns[function->insn_count++] = *insn;
}

void parse_insn(struct parser *parser, struct slice first, uint32_t guard, bool guard_not)
{
    struct lexer *lexer = &parser->lexer;
    struct slice words[PTX_MODIFIERS_MAX] = {first};
    struct ptx_insn insn = {.text = first, .guard = guard};
    uint32_t count = parse_words(parser, words, &insn.text);
    struct ptx_decoded decoded = decode(parser, words, count, insn.text);

    insn.insn = decoded.insn;
    insn.insn.guard_not = guard_not;
    insn.insn.line = parser->line;
    insn.pattern = decoded.pattern;
    insn.operand_start = parser->module->functions[parser->function].operand_count;
    if (insn.insn.op == OP_UNSUPPORTED) {
        parser_skip_statement(parser);
    } else if (insn.insn.op == PTX_CALL) {
        parse_call(parser, &insn);
    } else {
        if (!lexer_take_mark(lexer, ';')) {
            do {
                parse_operand(parser);
            } while (parser->status == OK && lexer_take_mark(lexer, ','));
            parser_expect(parser, ';');
        }
        insn.operand_count =
            parser->module->functions[parser->function].operand_count - insn.operand_start;
    }
    if (decoded.has_policy && insn.operand_count > 0) {
        insn.operand_count--;
    }
    if (parser->status == OK) {
        note_uses(parser, &insn);
        add_insn(parser, &insn);
    }
}
