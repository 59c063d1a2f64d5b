/*
 * ptx_parse.h — the parser's state, shared by its files.
 *
 * The first failure sticks: parser_fail records it and ends the text, so that every loop sees
 * TOKEN_END; the caller looks at parser->status at the end.
 */
#pragma once

#include "sim/ptx.h"

enum { NAME_BUCKETS = 1 << 16, OPCODE_CACHE = 1 << 10 };

enum name_kind { NAME_REGISTER, NAME_RANGE, NAME_VARIABLE, NAME_FUNCTION };

/* A declaration in scope. The newest of a name hides the others until its scope ends. */
struct name {
    struct slice text;
    enum name_kind kind;
    uint8_t type;
    uint32_t index;  /* variable or function; of registers the first in `numbers` */
    uint32_t count;  /* range: %r<count> */
    uint32_t vector; /* registers of one name: 1, or .v2 and .v4 */
    uint32_t next;   /* of the bucket */
    uint32_t hash, bucket;
};

/* A label, or a name that must become one, in a scope. */
struct label_name {
    struct slice text;
    uint32_t scope;
    uint32_t label;
    uint32_t next, hash, bucket;
};

struct label_use {
    struct slice text;
    uint32_t scope;
    uint32_t operand; /* index in the function's operands; or of lists with is_list */
    bool is_list;
};

struct opcode {
    struct slice text;
    struct ptx_decoded decoded;
};

struct location {
    uint32_t file, line, column;
};

struct parser {
    struct lexer lexer;
    struct ptx_module *module;
    enum status status;
    struct error *err;

    struct name *names;
    uint32_t name_count, name_capacity;
    uint32_t *buckets;
    uint32_t looks_left; /* of PTX_LOOKS_MAX */
    uint32_t *numbers;   /* declared register -> number in the function, or PTX_NONE */
    uint32_t number_count, number_capacity;

    uint32_t function; /* being parsed, or PTX_NONE */
    uint32_t *scopes;  /* parent of each scope of the function */
    uint32_t scope_count, scope_capacity;
    uint32_t scope, scope_depth;
    struct label_name *label_names;
    uint32_t label_name_count, label_name_capacity;
    uint32_t *label_buckets;
    struct label_use *label_uses;
    uint32_t label_use_count, label_use_capacity;

    uint32_t line; /* index in module->lines, of the instructions that follow */
    struct line_table *line_table;
    struct opcode *opcodes;
};

void parser_fail(struct parser *parser, enum status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Takes the mark, or fails. */
void parser_expect(struct parser *parser, char mark);
/* Takes and returns the next word, or fails. */
struct slice parser_word(struct parser *parser);
/* Takes a constant expression of integers. */
int64_t parser_integer(struct parser *parser);
/* Takes everything up to and with the next `;`. */
void parser_skip_statement(struct parser *parser);
/* More text follows and nothing failed. */
bool parser_goes_on(const struct parser *parser);

/* ptx_names.c */
void names_declare(struct parser *parser, struct name name);
/* The declaration that `text` means, or NULL; *number: of a range, which register. */
const struct name *names_find(struct parser *parser, struct slice text, uint32_t *number);
/* One look more at a name that may be the one wanted; false where there were too many. */
bool names_look(struct parser *parser);
/* Forgets what was declared since there were `count`. */
void names_leave(struct parser *parser, uint32_t count);
/* The number, in the function, of register `number` of this declaration; of vectors
 * number * vector + element. */
uint32_t names_register(struct parser *parser, const struct name *name, uint32_t number);

/* ptx_labels.c: labels of the function being parsed. */
void labels_enter_scope(struct parser *parser);
void labels_leave_scope(struct parser *parser);
struct ptx_label *labels_define(struct parser *parser, struct slice text);
void labels_use(struct parser *parser, struct slice text, uint32_t operand, bool is_list);
/* At the function's end: gives every use its label, or fails. */
void labels_resolve(struct parser *parser);

/* ptx_variable.c: from behind `.global` and the like up to `;`, or one parameter up to `,` or `)`.
 */
struct declaration {
    uint8_t space;
    bool is_extern, is_visible, is_param;
};
/* The variable's index, or PTX_NONE after a failure and for what is only skipped. */
uint32_t parse_variable(struct parser *parser, struct declaration declaration);
/* Behind `.reg`; of a parameter just one. */
void parse_registers(struct parser *parser, bool is_param);

/* ptx_lines.c */
struct line_table;
struct line_table *lines_open(struct parser *parser); /* reads all .file directives ahead */
void lines_close(struct line_table *table);
void lines_parse_loc(struct parser *parser); /* behind `.loc` */

/* ptx_operand.c */
/* Appends one operand (a vector with its elements) to the function. A name that is not declared
 * is a label. */
void parse_operand(struct parser *parser);

/* ptx_insn.c: one instruction, from its first word to its `;`. */
void parse_insn(struct parser *parser, struct slice first, uint32_t guard, bool guard_not);

/* ptx_function.c: from behind `.entry` or `.func`. */
void parse_function(struct parser *parser, bool is_entry);
