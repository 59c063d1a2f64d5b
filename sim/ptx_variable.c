#include "sim/ptx_parse.h"

#include "common/mem.h"

#include <string.h>

static uint64_t real_bits(double value, enum code_type type)
{
    float single = (float)value;
    uint32_t bits32;
    uint64_t bits64;

    switch (type) {
    case TYPE_F64:
    case TYPE_B64:
        memcpy(&bits64, &value, sizeof bits64);
        return bits64;
    default:
        memcpy(&bits32, &single, sizeof bits32);
        return bits32;
    }
}

struct initialiser {
    struct ptx_variable *variable;
    uint32_t size_bytes; /* of an element */
    uint64_t at;
};

static void store(struct parser *parser, struct initialiser *into, uint64_t bits)
{
    if (into->at + into->size_bytes > into->variable->size_bytes) {
        parser_fail(parser, ERR_INVALID, "more initial values than elements");
        return;
    }
    memcpy(into->variable->initial + into->at, &bits,
           into->size_bytes < sizeof bits ? into->size_bytes : sizeof bits);
    into->at += into->size_bytes;
}

/* NAME, NAME+4, generic(NAME)+4: an address. */
static void store_address(struct parser *parser, struct initialiser *into)
{
    struct lexer *lexer = &parser->lexer;
    bool is_generic = lexer_take(lexer, "generic");
    struct ptx_relocation relocation = {.at = into->at, .variable = PTX_NONE};
    const struct name *name;
    struct slice word;
    uint32_t number;

    if (is_generic) {
        parser_expect(parser, '(');
    }
    word = parser_word(parser);
    name = names_find(parser, word, &number);
    if (is_generic) {
        parser_expect(parser, ')');
    }
    if (lexer->token.kind == TOKEN_MARK && strchr("+-", lexer->token.mark) != NULL) {
        relocation.addend = parser_integer(parser);
    }
    if (name != NULL && name->kind == NAME_VARIABLE) {
        relocation.variable = name->index;
    } else if (name != NULL && name->kind == NAME_FUNCTION) {
        relocation.function = name->index;
        parser->module->functions[name->index].is_address_taken = true;
    } else {
        parser_fail(parser, ERR_INVALID, "unknown name in initial values");
    }
    if (parser->status == OK && into->at + 8 <= into->variable->size_bytes) {
        struct ptx_variable *variable = into->variable;
        ptx_grow(&variable->relocations, &variable->relocation_capacity, variable->relocation_count,
                 sizeof *variable->relocations);
        variable->relocations[variable->relocation_count++] = relocation;
    }
}

/* 0xFF00(NAME): one byte of an address; the lowest stands for all eight. */
static void store_masked(struct parser *parser, struct initialiser *into, uint64_t mask)
{
    if (mask == 0xff) {
        store_address(parser, into);
    } else {
        while (parser_goes_on(parser) && parser->lexer.token.kind != TOKEN_MARK) {
            lexer_next(&parser->lexer);
        }
        if (lexer_take_mark(&parser->lexer, '(')) {
            parser_word(parser); /* generic( NAME ) too */
            parser_expect(parser, ')');
        }
        if (lexer_take_mark(&parser->lexer, '+')) {
            parser_integer(parser);
        }
    }
    parser_expect(parser, ')');
}

static void parse_value(struct parser *parser, struct initialiser *into)
{
    struct lexer *lexer = &parser->lexer;
    enum code_type type = into->variable->type;

    if (lexer->token.kind == TOKEN_WORD) {
        store_address(parser, into);
        store(parser, into, 0);
        return;
    }
    bool is_negative = lexer->token.kind == TOKEN_MARK && lexer->token.mark == '-';
    struct lexer ahead = *lexer;
    if (is_negative) {
        lexer_next(&ahead);
    }
    if (ahead.token.kind == TOKEN_REAL) {
        double value;
        memcpy(&value, &ahead.token.bits, sizeof value);
        *lexer = ahead;
        lexer_next(lexer);
        store(parser, into, real_bits(is_negative ? -value : value, type));
        return;
    }
    int64_t value = parser_integer(parser);
    if (lexer_take_mark(lexer, '(')) {
        store_masked(parser, into, (uint64_t)value);
        value = 0;
    }
    store(parser, into, ptx_type_is_float(type) ? real_bits((double)value, type) : (uint64_t)value);
}

/* { 1, 2 } or { {1, 2}, {3} }: each inner list fills its whole row. */
static void parse_list(struct parser *parser, struct initialiser *into, const uint64_t *rows,
                       int depth)
{
    struct lexer *lexer = &parser->lexer;
    uint64_t end = into->at + rows[depth];

    while (parser_goes_on(parser) && !lexer_take_mark(lexer, '}')) {
        if (lexer_take_mark(lexer, '{')) {
            if (depth + 1 == PTX_DIMENSIONS_MAX) {
                parser_fail(parser, ERR_TOO_LARGE, "initial values nested too deeply");
                return;
            }
            parse_list(parser, into, rows, depth + 1);
        } else {
            parse_value(parser, into);
        }
        if (!lexer_take_mark(lexer, ',')) {
            parser_expect(parser, '}');
            break;
        }
    }
    if (into->at < end) {
        into->at = end;
    }
}

static void parse_initial(struct parser *parser, struct ptx_variable *variable,
                          const uint64_t *rows)
{
    struct initialiser into = {variable, ptx_type_size_bytes(variable->type), 0};

    if (variable->size_bytes == 0) {
        parser_fail(parser, ERR_INVALID, "initial values of an array without size");
        return;
    }
    parser->module->initial_bytes += variable->size_bytes;
    if (parser->module->initial_bytes > CODE_SYMBOL_BYTES_MAX) {
        parser_fail(parser, ERR_TOO_LARGE, "more than %d bytes of initial values",
                    CODE_SYMBOL_BYTES_MAX);
        return;
    }
    variable->initial = xcalloc(variable->size_bytes, 1);
    if (lexer_take_mark(&parser->lexer, '{')) {
        parse_list(parser, &into, rows, 0);
    } else {
        parse_value(parser, &into);
    }
}

/* [4][2] or []; rows[i]: bytes of one element of dimension i's array, rows[0] of the whole. */
static void parse_dimensions(struct parser *parser, struct ptx_variable *variable, uint64_t *rows)
{
    uint64_t sizes[PTX_DIMENSIONS_MAX];
    uint64_t total = variable->size_bytes;
    int count = 0;

    while (parser_goes_on(parser) && lexer_take_mark(&parser->lexer, '[')) {
        if (count == PTX_DIMENSIONS_MAX) {
            parser_fail(parser, ERR_TOO_LARGE, "more than %d dimensions", PTX_DIMENSIONS_MAX);
            return;
        }
        if (lexer_take_mark(&parser->lexer, ']')) {
            variable->is_unsized = true;
            sizes[count++] = 0;
            continue;
        }
        sizes[count] = (uint64_t)parser_integer(parser);
        if (sizes[count] > CODE_SYMBOL_BYTES_MAX) {
            parser_fail(parser, ERR_TOO_LARGE, "array of more than %d bytes",
                        CODE_SYMBOL_BYTES_MAX);
            return;
        }
        count++;
        parser_expect(parser, ']');
    }
    for (int i = 0; i < PTX_DIMENSIONS_MAX; i++) {
        rows[i] = 0;
    }
    for (int i = count - 1; i >= 0; i--) {
        total *= sizes[i];
        if (total > CODE_SYMBOL_BYTES_MAX) {
            parser_fail(parser, ERR_TOO_LARGE, "array of more than %d bytes",
                        CODE_SYMBOL_BYTES_MAX);
            return;
        }
        rows[i] = total;
    }
    variable->size_bytes = total;
}

/* The dotted words before the name; false where they name no type. */
static bool parse_attributes(struct parser *parser, struct ptx_variable *variable)
{
    struct lexer *lexer = &parser->lexer;
    uint32_t vector = 1;
    bool has_type = false;
    bool is_pointer = false;

    while (parser->status == OK && lexer->token.kind == TOKEN_DOT) {
        struct slice word = lexer->token.slice;
        const struct ptx_modifier *modifier = ptx_modifier_find(word, KIND_TYPE | KIND_VECTOR);
        lexer_next(lexer);
        if (slice_is(word, ".align")) {
            int64_t align = parser_integer(parser);
            if (align < 1 || align > 1 << 16 || (align & (align - 1)) != 0) {
                parser_fail(parser, ERR_INVALID, "alignment must be a power of two");
            }
            variable->align_bytes = is_pointer ? variable->align_bytes : (uint32_t)align;
        } else if (slice_is(word, ".attribute")) {
            while (parser_goes_on(parser) && !lexer_take_mark(lexer, ')')) {
                lexer_next(lexer);
            }
        } else if (slice_is(word, ".ptr")) {
            is_pointer = true; /* what follows describes what it points to */
        } else if (modifier != NULL && modifier->kind == KIND_VECTOR) {
            vector = modifier->value;
        } else if (modifier != NULL) {
            variable->type = (uint8_t)modifier->value;
            has_type = true;
        } else if (slice_is(word, ".texref") || slice_is(word, ".samplerref") ||
                   slice_is(word, ".surfref")) {
            variable->type = TYPE_B64;
            has_type = true;
        } else if (!is_pointer) {
            return false;
        }
    }
    variable->size_bytes = (uint64_t)ptx_type_size_bytes(variable->type) * vector;
    if (variable->align_bytes == 0) {
        variable->align_bytes = variable->size_bytes > 0 ? (uint32_t)variable->size_bytes : 1;
    }
    return has_type;
}

static uint32_t add_variable(struct parser *parser, const struct ptx_variable *variable)
{
    struct ptx_module *module = parser->module;
    uint32_t number;
    const struct name *known = names_find(parser, variable->name, &number);

    /* A declaration and its definition, or the same extern array twice, are one variable. */
    if (known != NULL && known->kind == NAME_VARIABLE && parser->function == PTX_NONE) {
        struct ptx_variable *before = &module->variables[known->index];
        if (before->is_extern && before->space == variable->space && !variable->is_extern) {
            *before = *variable;
        } else if (!variable->is_extern) {
            parser_fail(parser, ERR_INVALID, "variable '%.*s' stands twice",
                        (int)(variable->name.length < 64 ? variable->name.length : 64),
                        variable->name.text);
        }
        return known->index;
    }
    if (module->variable_count == PTX_VARIABLES_MAX) {
        parser_fail(parser, ERR_TOO_LARGE, "more than %d variables", PTX_VARIABLES_MAX);
        return PTX_NONE;
    }
    ptx_grow(&module->variables, &module->variable_capacity, module->variable_count,
             sizeof *module->variables);
    module->variables[module->variable_count] = *variable;
    names_declare(parser, (struct name){.text = variable->name,
                                        .kind = NAME_VARIABLE,
                                        .index = module->variable_count});
    return module->variable_count++;
}

uint32_t parse_variable(struct parser *parser, struct declaration declaration)
{
    uint64_t rows[PTX_DIMENSIONS_MAX] = {0};
    struct ptx_variable variable = {
        .space = declaration.space,
        .is_extern = declaration.is_extern,
        .is_visible = declaration.is_visible,
        .symbol = PTX_NONE,
    };
    uint32_t index;

    if (!parse_attributes(parser, &variable)) {
        parser_fail(parser, ERR_INVALID, "expected a type");
    }
    variable.name = parser_word(parser);
    parse_dimensions(parser, &variable, rows);
    if (parser->function != PTX_NONE) {
        variable.local_index = parser->module->functions[parser->function].local_count++;
    }
    if (parser->status != OK) {
        return PTX_NONE;
    }
    index = add_variable(parser, &variable);
    if (index != PTX_NONE && !declaration.is_param && parser->status == OK &&
        lexer_take_mark(&parser->lexer, '=')) {
        struct ptx_variable *added = &parser->module->variables[index];
        parse_initial(parser, added, rows);
    }
    return index;
}

/* Behind `.reg`: .b32 %r<5>, .v4 .f32 a, b; or one parameter. */
void parse_registers(struct parser *parser, bool is_param)
{
    struct ptx_variable described = {0};
    struct lexer *lexer = &parser->lexer;

    uint32_t vector = 1;

    if (!parse_attributes(parser, &described)) {
        parser_fail(parser, ERR_INVALID, "expected a register's type");
    }
    if (described.size_bytes > 0) {
        vector = (uint32_t)described.size_bytes / ptx_type_size_bytes(described.type);
    }
    if (vector > 4 || (is_param && vector > 1)) {
        parser_fail(parser, ERR_INVALID, "a register cannot be a vector of %u", vector);
    }
    do {
        struct name name = {
            .kind = NAME_REGISTER, .type = described.type, .count = 1, .vector = vector};
        name.text = parser_word(parser);
        if (lexer_take_mark(lexer, '<')) {
            int64_t count = parser_integer(parser);
            name.kind = NAME_RANGE;
            name.count = count > 0 && count <= UINT32_MAX ? (uint32_t)count : 0;
            parser_expect(parser, '>');
        }
        if (parser->status == OK) {
            names_declare(parser, name);
        }
    } while (parser->status == OK && !is_param && lexer_take_mark(lexer, ','));
}
