#include "sim/ptx_parse.h"

#include "common/mem.h"

#include <stdlib.h>
#include <string.h>

/* The function of this name, made if it is new. */
static uint32_t find_function(struct parser *parser, struct slice text)
{
    struct ptx_module *module = parser->module;
    uint32_t number;
    const struct name *name = names_find(parser, text, &number);

    if (name != NULL && name->kind == NAME_FUNCTION) {
        return name->index;
    }
    if (module->function_count == PTX_FUNCTIONS_MAX) {
        parser_fail(parser, ERR_TOO_LARGE, "more than %d functions", PTX_FUNCTIONS_MAX);
        return PTX_NONE;
    }
    ptx_grow(&module->functions, &module->function_capacity, module->function_count,
             sizeof *module->functions);
    module->functions[module->function_count] = (struct ptx_function){.name = text};
    names_declare(
        parser,
        (struct name){.text = text, .kind = NAME_FUNCTION, .index = module->function_count});
    return module->function_count++;
}

/* One parameter: .param or .reg. */
static uint32_t parse_param(struct parser *parser)
{
    struct ptx_module *module = parser->module;
    struct lexer *lexer = &parser->lexer;
    uint32_t index = module->variable_count;
    const struct name *name;

    if (lexer_take(lexer, ".param")) {
        return parse_variable(parser, (struct declaration){.space = SPACE_PARAM, .is_param = true});
    }
    if (!lexer_take(lexer, ".reg")) {
        parser_fail(parser, ERR_INVALID, "expected a parameter");
        return PTX_NONE;
    }
    uint32_t before = parser->name_count;
    parse_registers(parser, true);
    if (parser->status != OK || parser->name_count != before + 1 ||
        module->variable_count == PTX_VARIABLES_MAX) {
        parser_fail(parser, ERR_INVALID, "expected one register parameter");
        return PTX_NONE;
    }
    name = &parser->names[before];
    ptx_grow(&module->variables, &module->variable_capacity, module->variable_count,
             sizeof *module->variables);
    module->variables[module->variable_count++] = (struct ptx_variable){
        .name = name->text,
        .space = SPACE_PARAM,
        .type = name->type,
        .is_register = true,
        .symbol = PTX_NONE,
        .reg = names_register(parser, name, 0),
        .local_index = module->functions[parser->function].local_count++,
    };
    return index;
}

/* (a, b): behind the opening bracket. */
static void parse_params(struct parser *parser, uint32_t **params, uint32_t *count)
{
    struct lexer *lexer = &parser->lexer;
    uint32_t capacity = 0;

    free(*params);
    *params = NULL;
    *count = 0;
    if (lexer_take_mark(lexer, ')')) {
        return;
    }
    do {
        uint32_t index = parse_param(parser);
        if (*count == PTX_PARAMS_MAX) {
            parser_fail(parser, ERR_TOO_LARGE, "more than %d parameters", PTX_PARAMS_MAX);
        }
        ptx_grow(params, &capacity, *count, sizeof **params);
        (*params)[(*count)++] = index;
    } while (parser->status == OK && lexer_take_mark(lexer, ','));
    parser_expect(parser, ')');
}

static void place_params(struct parser *parser, struct ptx_function *function)
{
    uint64_t offset = 0;

    for (uint32_t i = 0; i < function->param_count && parser->status == OK; i++) {
        struct ptx_variable *param = &parser->module->variables[function->params[i]];
        uint64_t align = param->align_bytes > 0 ? param->align_bytes : 1;
        offset = (offset + align - 1) / align * align;
        param->param_offset = (uint32_t)offset;
        offset += param->size_bytes;
        if (offset > CODE_PARAM_BYTES_MAX) {
            parser_fail(parser, ERR_TOO_LARGE, "more than %d bytes of parameters",
                        CODE_PARAM_BYTES_MAX);
        }
    }
    function->param_bytes = (uint32_t)offset;
}

static void parse_sizes(struct parser *parser, uint32_t sizes[3])
{
    for (int i = 0; i < 3; i++) {
        int64_t size = parser_integer(parser);
        sizes[i] = size > 0 && size <= 1 << 16 ? (uint32_t)size : 1;
        if (!lexer_take_mark(&parser->lexer, ',')) {
            break;
        }
    }
}

/* .maxntid and its like, between the parameters and the body. */
static void parse_directives(struct parser *parser, struct ptx_function *function)
{
    struct lexer *lexer = &parser->lexer;

    while (parser->status == OK && lexer->token.kind == TOKEN_DOT) {
        uint32_t sizes[3] = {1, 1, 1};
        if (lexer_take(lexer, ".maxntid")) {
            parse_sizes(parser, sizes);
            uint64_t product = (uint64_t)sizes[0] * sizes[1] * sizes[2];
            function->threads_max = product < UINT32_MAX ? (uint32_t)product : UINT32_MAX;
        } else if (lexer_take(lexer, ".reqntid")) {
            parse_sizes(parser, sizes);
            memcpy(function->ntid_required, sizes, sizeof sizes);
        } else if (lexer_take(lexer, ".minnctapersm")) {
            parse_sizes(parser, sizes);
            function->ctas_min = sizes[0];
        } else if (lexer_take(lexer, ".maxnreg") || lexer_take(lexer, ".maxclusterrank") ||
                   lexer_take(lexer, ".minnctapersm") || lexer_take(lexer, ".maxnctapersm")) {
            parse_sizes(parser, sizes);
        } else if (lexer_take(lexer, ".reqnctapercluster")) {
            parse_sizes(parser, sizes);
            if ((uint64_t)sizes[0] * sizes[1] * sizes[2] > 1) {
                function->unsupported = ".reqnctapercluster";
            }
        } else if (lexer_take(lexer, ".explicitcluster") || lexer_take(lexer, ".noreturn") ||
                   lexer_take(lexer, ".blocksareclusters")) {
            continue;
        } else if (lexer_take(lexer, ".pragma")) {
            parser_skip_statement(parser);
        } else {
            parser_fail(parser, ERR_INVALID, "unknown directive '%.*s'",
                        (int)(lexer->token.slice.length < 64 ? lexer->token.slice.length : 64),
                        lexer->token.slice.text);
        }
    }
}

static void parse_branch_targets(struct parser *parser, struct ptx_label *label)
{
    struct ptx_function *function = &parser->module->functions[parser->function];

    label->is_list = true;
    label->list_start = function->list_count;
    do {
        struct slice word = parser_word(parser);
        ptx_grow(&function->lists, &function->list_capacity, function->list_count,
                 sizeof *function->lists);
        function->lists[function->list_count] = 0;
        labels_use(parser, word, function->list_count++, true);
        label->list_count++;
    } while (parser->status == OK && lexer_take_mark(&parser->lexer, ','));
    parser_expect(parser, ';');
}

static void parse_body_directive(struct parser *parser)
{
    static const struct {
        const char *name;
        uint8_t space;
    } spaces[] = {{".local", SPACE_LOCAL}, {".shared", SPACE_SHARED},
                  {".param", SPACE_PARAM}, {".global", SPACE_GLOBAL},
                  {".const", SPACE_CONST}, {".shared::cta", SPACE_SHARED}};
    struct lexer *lexer = &parser->lexer;

    for (size_t i = 0; i < sizeof spaces / sizeof spaces[0]; i++) {
        if (lexer_take(lexer, spaces[i].name)) {
            parse_variable(parser, (struct declaration){.space = spaces[i].space});
            parser_expect(parser, ';');
            return;
        }
    }
    if (lexer_take(lexer, ".reg")) {
        parse_registers(parser, false);
        parser_expect(parser, ';');
    } else if (lexer_take(lexer, ".loc")) {
        lines_parse_loc(parser);
    } else if (lexer_take(lexer, ".pragma") || lexer_take(lexer, ".callprototype") ||
               lexer_take(lexer, ".calltargets")) {
        parser_skip_statement(parser);
    } else {
        parser_fail(parser, ERR_INVALID, "unknown directive '%.*s'",
                    (int)(lexer->token.slice.length < 64 ? lexer->token.slice.length : 64),
                    lexer->token.slice.text);
    }
}

/* @p or @!p; returns the register. */
static uint32_t parse_guard(struct parser *parser, bool *guard_not)
{
    uint32_t number;
    const struct name *name;

    *guard_not = lexer_take_mark(&parser->lexer, '!');
    name = names_find(parser, parser_word(parser), &number);
    if (name == NULL || (name->kind != NAME_REGISTER && name->kind != NAME_RANGE) ||
        name->type != TYPE_PRED) {
        parser_fail(parser, ERR_INVALID, "expected a predicate behind '@'");
        return PTX_NONE;
    }
    return names_register(parser, name, number);
}

static void parse_statement(struct parser *parser)
{
    struct lexer *lexer = &parser->lexer;
    struct slice word;
    bool guard_not = false;
    uint32_t guard = PTX_NONE;

    if (lexer->token.kind == TOKEN_DOT) {
        parse_body_directive(parser);
        return;
    }
    if (lexer_take_mark(lexer, ';')) {
        return;
    }
    if (lexer_take_mark(lexer, '@')) {
        guard = parse_guard(parser, &guard_not);
    }
    word = parser_word(parser);
    if (parser->status == OK && guard == PTX_NONE && lexer_take_mark(lexer, ':')) {
        struct ptx_label *label = labels_define(parser, word);
        if (lexer_take(lexer, ".branchtargets")) {
            parse_branch_targets(parser, label);
        }
    } else if (parser->status == OK) {
        parse_insn(parser, word, guard, guard_not);
    }
}

/* The statements up to the closing brace; inner scopes are kept on a stack of our own. */
static void parse_body(struct parser *parser)
{
    uint32_t name_counts[PTX_SCOPES_DEPTH_MAX + 1];

    name_counts[0] = parser->name_count;
    labels_enter_scope(parser);
    while (parser_goes_on(parser) && parser->scope_depth > 0) {
        if (lexer_take_mark(&parser->lexer, '{')) {
            name_counts[parser->scope_depth] = parser->name_count;
            labels_enter_scope(parser);
        } else if (lexer_take_mark(&parser->lexer, '}')) {
            labels_leave_scope(parser);
            names_leave(parser, name_counts[parser->scope_depth]);
        } else {
            parse_statement(parser);
        }
    }
    if (parser->scope_depth > 0) {
        parser_fail(parser, ERR_INVALID, "the text ends inside a function");
    }
    labels_resolve(parser);
}

static void skip_brackets(struct lexer *lexer)
{
    while (lexer->token.kind != TOKEN_END && lexer->token.kind != TOKEN_INVALID &&
           !lexer_take_mark(lexer, ')')) {
        lexer_next(lexer);
    }
}

/* .noreturn, .attribute(...) before the results or the name. */
static void skip_attributes(struct lexer *lexer)
{
    while (lexer->token.kind == TOKEN_DOT) {
        bool has_brackets = slice_is(lexer->token.slice, ".attribute");
        lexer_next(lexer);
        if (has_brackets) {
            skip_brackets(lexer);
        }
    }
}

/* The name stands behind the results, but is declared before them, outside of their scope. */
static struct slice name_ahead(const struct parser *parser)
{
    struct lexer ahead = parser->lexer;

    if (lexer_take_mark(&ahead, '(')) {
        skip_brackets(&ahead);
    }
    return ahead.token.slice;
}

static void parse_header(struct parser *parser, struct ptx_function *function)
{
    struct lexer *lexer = &parser->lexer;

    function->local_count = 0;
    function->register_count = 0;
    function->variable_start = parser->module->variable_count;
    if (lexer_take_mark(lexer, '(')) {
        parse_params(parser, &function->returns, &function->return_count);
    }
    parser_word(parser);
    if (lexer_take_mark(lexer, '(')) {
        parse_params(parser, &function->params, &function->param_count);
    }
    if (function->is_entry) {
        place_params(parser, function);
    }
    parse_directives(parser, function);
}

void parse_function(struct parser *parser, bool is_entry)
{
    struct ptx_function *function;
    uint32_t name_count;

    skip_attributes(&parser->lexer);
    parser->function = find_function(parser, name_ahead(parser));
    if (parser->status != OK) {
        return;
    }
    name_count = parser->name_count;
    function = &parser->module->functions[parser->function];
    if (function->is_defined) {
        parser_fail(parser, ERR_INVALID, "function '%.*s' stands twice",
                    (int)(function->name.length < 64 ? function->name.length : 64),
                    function->name.text);
        return;
    }
    function->is_entry = is_entry;
    parse_header(parser, function);
    if (lexer_take_mark(&parser->lexer, '{')) {
        function->is_defined = true;
        parser->line = 0;
        parse_body(parser);
    } else {
        parser_expect(parser, ';');
    }
    function->variable_count = parser->module->variable_count - function->variable_start;
    names_leave(parser, name_count);
    parser->function = PTX_NONE;
}
