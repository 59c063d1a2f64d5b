/*
 * ptx.h — a PTX module as it was parsed: variables, functions, instructions with names resolved.
 *
 * Private to the parser (ptx_parse*.c), which makes it from text, and to ptx_lower*.c, which makes
 * kernels of it. Nothing is inlined yet; registers are numbered per function. Slices point into
 * the text, which outlives the module.
 */
#pragma once

#include "sim/code.h"
#include "sim/ptx_lex.h"
#include "sim/ptx_ops.h"

enum {
    PTX_NAMES_MAX = 1 << 20,     /* declarations in scope at once */
    PTX_LOOKS_MAX = 1 << 27,     /* at names that are not the one wanted: about a second */
    PTX_REGISTERS_MAX = 1 << 17, /* declared in scope at once */
    PTX_FUNCTIONS_MAX = 1 << 16,
    PTX_VARIABLES_MAX = 1 << 20,
    PTX_INSNS_MAX = 1 << 21, /* of a module, before inlining */
    PTX_SCOPES_DEPTH_MAX = 256,
    PTX_EXPRESSION_DEPTH_MAX = 32,
    PTX_DIMENSIONS_MAX = 8,
    PTX_VECTOR_MAX = 32,
    PTX_FILES_MAX = 1 << 12,
    PTX_PARAMS_MAX = 4096, /* of a function */
    PTX_ACCESSES_MAX = 128,
};

#define PTX_NONE UINT32_MAX

/* A function's address as programs see it: nothing can be loaded from there. */
#define PTX_FUNCTION_ADDRESS 0x00f0000000000000u
enum { PTX_FUNCTION_ALIGN = 16 };

enum ptx_operand_kind {
    OPERAND_REGISTER,
    OPERAND_INTEGER,  /* bits */
    OPERAND_REAL,     /* bits of the double */
    OPERAND_VARIABLE, /* its address plus offset */
    OPERAND_FUNCTION,
    OPERAND_SREG,
    OPERAND_LABEL,
    OPERAND_SINK,
    OPERAND_UNKNOWN, /* a special register that we do not know */
    OPERAND_VECTOR,  /* the next `index` operands are its elements */
};

struct ptx_operand {
    uint8_t kind;
    bool is_negated; /* !p */
    bool is_address; /* in brackets; offset is added */
    bool is_second;  /* what stood behind `|` */
    uint32_t index;
    int64_t offset;
    uint64_t bits;
};

struct ptx_insn {
    struct insn insn; /* without operands; `guard` unset */
    const char *pattern;
    struct slice text; /* operation and modifiers, for messages */
    uint32_t guard;    /* register or PTX_NONE */
    uint32_t operand_start, operand_count;
    uint32_t return_count; /* of a call: first these, then the callee, then arguments */
};

/* What is read or written of a parameter: with few of these it lives in registers. */
struct ptx_access {
    uint32_t offset, size_bytes;
};

struct ptx_variable {
    struct slice name;
    uint8_t space; /* enum code_space */
    uint8_t type;
    bool is_extern;
    bool is_unsized; /* name[] */
    bool is_visible;
    /* Parameters: */
    bool is_register;  /* .reg .b32 x as parameter: `reg` */
    bool needs_memory; /* its address is taken, or accesses overlap */
    uint32_t reg;
    struct ptx_access *accesses;
    uint32_t access_count;

    uint32_t align_bytes;
    uint32_t local_index;  /* parameters and local variables: index in their function */
    uint32_t param_offset; /* of an entry's parameter */
    uint32_t symbol;       /* global and const: index in the image */
    uint64_t size_bytes;
    uint8_t *initial;
    struct ptx_relocation *relocations; /* to variables or functions by name */
    uint32_t relocation_count, relocation_capacity;
};

struct ptx_relocation {
    uint64_t at;
    int64_t addend;
    uint32_t variable; /* or PTX_NONE: then the address of `function` */
    uint32_t function;
};

/* A place that a name in the text stands for. */
struct ptx_label {
    uint32_t insn;                   /* index in the function */
    uint32_t list_start, list_count; /* .branchtargets: these of the function's `lists` */
    bool is_list;
};

struct ptx_function {
    struct slice name;
    bool is_entry, is_defined, is_address_taken;
    uint32_t alias_of;          /* another function + 1; 0: none */
    uint32_t *returns, *params; /* variables */
    uint32_t return_count, param_count;
    uint32_t param_bytes; /* of an entry */
    uint32_t threads_max, ntid_required[3], ctas_min;
    const char *unsupported; /* a directive that we do not know, or NULL */

    struct ptx_insn *insns;
    uint32_t insn_count, insn_capacity;
    struct ptx_operand *operands;
    uint32_t operand_count, operand_capacity;
    uint8_t *register_types; /* enum code_type */
    uint32_t register_count, register_capacity;
    uint32_t local_count;                    /* variables of its own */
    uint32_t variable_start, variable_count; /* these, with those of a global kind */
    struct ptx_label *labels;
    uint32_t label_count, label_capacity;
    uint32_t *lists; /* labels of .branchtargets */
    uint32_t list_count, list_capacity;
};

struct ptx_module {
    struct ptx_function *functions;
    uint32_t function_count, function_capacity;
    struct ptx_variable *variables;
    uint32_t variable_count, variable_capacity;
    uint64_t insn_count, initial_bytes;
    bool has_aliases;
    struct code_line *lines;
    uint32_t line_count, line_capacity;
    char **files;
    uint32_t file_count;
};

/* Parses text into an empty module; ptx_release also after failure. */
enum status ptx_parse(struct ptx_module *module, const char *text, size_t size_bytes,
                      struct error *err);
void ptx_release(struct ptx_module *module);

/* Makes image->kernels, their symbols and lines; takes the module's files and lines. */
void ptx_lower(struct image *image, struct ptx_module *module);

/* Notes that bytes of a parameter are read or written. */
void ptx_note_access(struct ptx_variable *variable, int64_t offset, uint32_t size_bytes);

/* Makes room in `*array` for one more element of `size_bytes` each. */
void ptx_grow(void *array, uint32_t *capacity, uint32_t count, size_t size_bytes);
