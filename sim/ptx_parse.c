#include "sim/ptx_parse.h"

#include "common/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ptx_grow(void *array, uint32_t *capacity, uint32_t count, size_t size_bytes)
{
    void **memory = array;

    if (count == *capacity) {
        *capacity = *capacity > 0 ? *capacity * 2 : 16;
        *memory = xrealloc(*memory, *capacity * size_bytes);
    }
}

void parser_fail(struct parser *parser, enum status status, const char *format, ...)
{
    char text[ERROR_MESSAGE_MAX];
    va_list args;

    if (parser->status != OK) {
        return;
    }
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    parser->status = error_set(parser->err, status, "ptx line %u: %s", parser->lexer.line, text);
    parser->lexer.at = parser->lexer.end;
    lexer_next(&parser->lexer);
}

bool parser_goes_on(const struct parser *parser)
{
    return parser->lexer.token.kind != TOKEN_END && parser->status == OK;
}

void parser_expect(struct parser *parser, char mark)
{
    struct slice found = parser->lexer.token.slice;

    if (!lexer_take_mark(&parser->lexer, mark)) {
        parser_fail(parser, ERR_INVALID, "expected '%c' before '%.*s'", mark,
                    (int)(found.length < 64 ? found.length : 64), found.text);
    }
}

struct slice parser_word(struct parser *parser)
{
    struct slice word = parser->lexer.token.slice;

    if (parser->lexer.token.kind != TOKEN_WORD) {
        parser_fail(parser, ERR_INVALID, "expected a name");
        return (struct slice){"", 0};
    }
    lexer_next(&parser->lexer);
    return word;
}

static int64_t parse_sum(struct parser *parser, int depth);

static int64_t parse_primary(struct parser *parser, int depth)
{
    struct lexer *lexer = &parser->lexer;
    int64_t value = 0;

    if (depth > PTX_EXPRESSION_DEPTH_MAX) {
        parser_fail(parser, ERR_TOO_LARGE, "expression nested too deeply");
    } else if (lexer->token.kind == TOKEN_INTEGER) {
        value = (int64_t)lexer->token.bits;
        lexer_next(lexer);
    } else if (lexer_take_mark(lexer, '-')) {
        value = (int64_t)(0 - (uint64_t)parse_primary(parser, depth + 1));
    } else if (lexer_take_mark(lexer, '+')) {
        value = parse_primary(parser, depth + 1);
    } else if (lexer_take_mark(lexer, '~')) {
        value = ~parse_primary(parser, depth + 1);
    } else if (lexer_take_mark(lexer, '(')) {
        value = parse_sum(parser, depth + 1);
        parser_expect(parser, ')');
    } else {
        parser_fail(parser, ERR_INVALID, "expected an integer");
    }
    return value;
}

static int64_t parse_product(struct parser *parser, int depth)
{
    int64_t value = parse_primary(parser, depth);

    while (parser_goes_on(parser)) {
        if (lexer_take_mark(&parser->lexer, '*')) {
            value = (int64_t)((uint64_t)value * (uint64_t)parse_primary(parser, depth));
        } else if (lexer_take_mark(&parser->lexer, '/')) {
            int64_t divisor = parse_primary(parser, depth);
            value = divisor > 0 ? value / divisor : 0;
        } else {
            break;
        }
    }
    return value;
}

static int64_t parse_sum(struct parser *parser, int depth)
{
    int64_t value = parse_product(parser, depth);

    while (parser_goes_on(parser)) {
        if (lexer_take_mark(&parser->lexer, '+')) {
            value = (int64_t)((uint64_t)value + (uint64_t)parse_product(parser, depth));
        } else if (lexer_take_mark(&parser->lexer, '-')) {
            value = (int64_t)((uint64_t)value - (uint64_t)parse_product(parser, depth));
        } else {
            break;
        }
    }
    return value;
}

int64_t parser_integer(struct parser *parser)
{
    return parse_sum(parser, 0);
}

void parser_skip_statement(struct parser *parser)
{
    while (parser_goes_on(parser) && !lexer_take_mark(&parser->lexer, ';')) {
        lexer_next(&parser->lexer);
    }
}

/* `.section NAME { ... }`: debug information. */
static void skip_section(struct parser *parser)
{
    lexer_next(&parser->lexer);
    while (parser_goes_on(parser) && !lexer_take_mark(&parser->lexer, '{')) {
        lexer_next(&parser->lexer);
    }
    while (parser_goes_on(parser) && !lexer_take_mark(&parser->lexer, '}')) {
        lexer_next(&parser->lexer);
    }
}

static void parse_address_size(struct parser *parser)
{
    if (parser_integer(parser) != 64) {
        parser_fail(parser, ERR_INVALID, "only 64-bit addresses are simulated");
    }
}

/* `.version 9.0`, `.target sm_90a, texmode_independent`: nothing depends on them. */
static void skip_header(struct parser *parser)
{
    struct lexer *lexer = &parser->lexer;

    do {
        lexer_next(lexer);
    } while (lexer_take_mark(lexer, ','));
}

static bool parse_storage(struct parser *parser, struct declaration declaration)
{
    static const struct {
        const char *name;
        uint8_t space;
    } spaces[] = {{".global", SPACE_GLOBAL},
                  {".const", SPACE_CONST},
                  {".shared", SPACE_SHARED},
                  {".shared::cta", SPACE_SHARED},
                  {".local", SPACE_LOCAL}};

    for (size_t i = 0; i < sizeof spaces / sizeof spaces[0]; i++) {
        if (lexer_take(&parser->lexer, spaces[i].name)) {
            declaration.space = spaces[i].space;
            parse_variable(parser, declaration);
            parser_expect(parser, ';');
            return true;
        }
    }
    return false;
}

/* .alias f, g; both are declared. */
static void parse_alias(struct parser *parser)
{
    uint32_t number;
    const struct name *alias = names_find(parser, parser_word(parser), &number);
    const struct name *function;

    parser_expect(parser, ',');
    function = names_find(parser, parser_word(parser), &number);
    parser_expect(parser, ';');
    if (alias == NULL || function == NULL || alias->kind != NAME_FUNCTION ||
        function->kind != NAME_FUNCTION) {
        parser_fail(parser, ERR_INVALID, "expected two functions behind '.alias'");
        return;
    }
    parser->module->functions[alias->index].alias_of = function->index + 1;
    parser->module->has_aliases = true;
}

/* Calls of an alias become calls of what it stands for. */
static void resolve_aliases(struct ptx_module *module)
{
    for (uint32_t i = 0; module->has_aliases && i < module->function_count; i++) {
        for (uint32_t k = 0; k < module->functions[i].operand_count; k++) {
            struct ptx_operand *operand = &module->functions[i].operands[k];
            const struct ptx_function *function =
                operand->kind == OPERAND_FUNCTION ? &module->functions[operand->index] : NULL;
            if (function != NULL && function->alias_of != 0 && !function->is_defined) {
                operand->index = function->alias_of - 1;
            }
        }
    }
}

static void parse_top(struct parser *parser)
{
    struct lexer *lexer = &parser->lexer;
    struct declaration declaration = {0};

    for (;;) {
        if (lexer_take(lexer, ".extern")) {
            declaration.is_extern = true;
        } else if (lexer_take(lexer, ".visible") || lexer_take(lexer, ".weak") ||
                   lexer_take(lexer, ".common")) {
            declaration.is_visible = true;
        } else {
            break;
        }
    }
    if (lexer_take(lexer, ".entry")) {
        parse_function(parser, true);
    } else if (lexer_take(lexer, ".func")) {
        parse_function(parser, false);
    } else if (parse_storage(parser, declaration)) {
        return;
    } else if (lexer_take(lexer, ".version") || lexer_take(lexer, ".target")) {
        skip_header(parser);
    } else if (lexer_take(lexer, ".address_size")) {
        parse_address_size(parser);
    } else if (lexer_take(lexer, ".file")) {
        do {
            lexer_next(lexer); /* lines_open has read it */
        } while (lexer->token.kind == TOKEN_INTEGER || lexer->token.kind == TOKEN_STRING ||
                 lexer_take_mark(lexer, ','));
    } else if (lexer_take(lexer, ".section")) {
        skip_section(parser);
    } else if (lexer_take(lexer, ".alias")) {
        parse_alias(parser);
    } else if (lexer_take(lexer, ".pragma") || lexer_take(lexer, ".tex")) {
        parser_skip_statement(parser);
    } else if (!lexer_take_mark(lexer, ';')) {
        parser_fail(parser, ERR_INVALID, "expected a directive before '%.*s'",
                    (int)(lexer->token.slice.length < 64 ? lexer->token.slice.length : 64),
                    lexer->token.slice.text);
    }
}

static void parser_release(struct parser *parser)
{
    lines_close(parser->line_table);
    free(parser->names);
    free(parser->buckets);
    free(parser->numbers);
    free(parser->scopes);
    free(parser->label_names);
    free(parser->label_buckets);
    free(parser->label_uses);
    free(parser->opcodes);
}

enum status ptx_parse(struct ptx_module *module, const char *text, size_t size_bytes,
                      struct error *err)
{
    struct parser parser = {
        .module = module, .err = err, .function = PTX_NONE, .looks_left = PTX_LOOKS_MAX};
    struct lexer *lexer = &parser.lexer;

    if (size_bytes > IMAGE_BYTES_MAX) {
        return error_set(err, ERR_TOO_LARGE, "ptx of %zu bytes: at most %d", size_bytes,
                         IMAGE_BYTES_MAX);
    }
    lexer_init(lexer, text, size_bytes);
    parser.buckets = xmalloc(NAME_BUCKETS * sizeof *parser.buckets);
    memset(parser.buckets, 0xff, NAME_BUCKETS * sizeof *parser.buckets);
    parser.label_buckets = xmalloc(NAME_BUCKETS * sizeof *parser.label_buckets);
    memset(parser.label_buckets, 0xff, NAME_BUCKETS * sizeof *parser.label_buckets);
    parser.opcodes = xcalloc(OPCODE_CACHE, sizeof *parser.opcodes);
    parser.line_table = lines_open(&parser);
    if (lexer->token.kind != TOKEN_DOT || !slice_is(lexer->token.slice, ".version")) {
        parser_fail(&parser, ERR_INVALID, "not ptx: it must start with '.version'");
    }
    while (parser_goes_on(&parser)) {
        parse_top(&parser);
    }
    if (lexer->is_broken) {
        parser_fail(&parser, ERR_INVALID, "unexpected character");
    }
    resolve_aliases(module);
    parser_release(&parser);
    return parser.status;
}

static void release_function(struct ptx_function *function)
{
    free(function->returns);
    free(function->params);
    free(function->insns);
    free(function->operands);
    free(function->register_types);
    free(function->labels);
    free(function->lists);
}

void ptx_release(struct ptx_module *module)
{
    for (uint32_t i = 0; i < module->function_count; i++) {
        release_function(&module->functions[i]);
    }
    for (uint32_t i = 0; i < module->variable_count; i++) {
        free(module->variables[i].accesses);
        free(module->variables[i].initial);
        free(module->variables[i].relocations);
    }
    for (uint32_t i = 0; i < module->file_count; i++) {
        free(module->files[i]);
    }
    free(module->functions);
    free(module->variables);
    free(module->lines);
    free(module->files);
    *module = (struct ptx_module){0};
}
