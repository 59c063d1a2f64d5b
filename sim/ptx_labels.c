#include "sim/ptx_parse.h"

#include <assert.h>
#include <string.h>

void labels_enter_scope(struct parser *parser)
{
    if (parser->scope_depth == PTX_SCOPES_DEPTH_MAX) {
        parser_fail(parser, ERR_TOO_LARGE, "scopes nested deeper than %d", PTX_SCOPES_DEPTH_MAX);
        return;
    }
    ptx_grow(&parser->scopes, &parser->scope_capacity, parser->scope_count, sizeof *parser->scopes);
    parser->scopes[parser->scope_count] = parser->scope_depth > 0 ? parser->scope : PTX_NONE;
    parser->scope = parser->scope_count++;
    parser->scope_depth++;
}

void labels_leave_scope(struct parser *parser)
{
    assert(parser->scope_depth > 0);
    parser->scope_depth--;
    parser->scope = parser->scopes[parser->scope];
}

static uint32_t hash_of(struct slice text, uint32_t scope)
{
    return slice_hash(text) ^ scope * 2654435761u;
}

static const struct label_name *find(struct parser *parser, struct slice text, uint32_t scope)
{
    uint32_t hash = hash_of(text, scope);
    uint32_t found = parser->label_buckets[hash % NAME_BUCKETS];

    while (found != PTX_NONE && names_look(parser)) {
        const struct label_name *name = &parser->label_names[found];
        if (name->hash == hash && name->scope == scope && slice_equal(name->text, text)) {
            return name;
        }
        found = name->next;
    }
    return NULL;
}

struct ptx_label *labels_define(struct parser *parser, struct slice text)
{
    struct ptx_function *function = &parser->module->functions[parser->function];
    struct label_name name = {
        .text = text,
        .scope = parser->scope,
        .label = function->label_count,
        .hash = hash_of(text, parser->scope),
    };

    if (find(parser, text, parser->scope) != NULL) {
        parser_fail(parser, ERR_INVALID, "label '%.*s' stands twice in its scope",
                    (int)(text.length < 64 ? text.length : 64), text.text);
    }
    name.bucket = name.hash % NAME_BUCKETS;
    name.next = parser->label_buckets[name.bucket];
    parser->label_buckets[name.bucket] = parser->label_name_count;
    ptx_grow(&parser->label_names, &parser->label_name_capacity, parser->label_name_count,
             sizeof *parser->label_names);
    parser->label_names[parser->label_name_count++] = name;
    ptx_grow(&function->labels, &function->label_capacity, function->label_count,
             sizeof *function->labels);
    function->labels[function->label_count] = (struct ptx_label){.insn = function->insn_count};
    return &function->labels[function->label_count++];
}

void labels_use(struct parser *parser, struct slice text, uint32_t operand, bool is_list)
{
    ptx_grow(&parser->label_uses, &parser->label_use_capacity, parser->label_use_count,
             sizeof *parser->label_uses);
    parser->label_uses[parser->label_use_count++] =
        (struct label_use){text, parser->scope, operand, is_list};
}

static void resolve(struct parser *parser, const struct label_use *use)
{
    struct ptx_function *function = &parser->module->functions[parser->function];
    const struct label_name *name = NULL;

    for (uint32_t scope = use->scope; scope != PTX_NONE && name == NULL;
         scope = parser->scopes[scope]) {
        name = find(parser, use->text, scope);
    }
    if (name == NULL) {
        parser_fail(parser, ERR_INVALID, "unknown name '%.*s'",
                    (int)(use->text.length < 64 ? use->text.length : 64), use->text.text);
    } else if (use->is_list) {
        function->lists[use->operand] = name->label;
    } else {
        function->operands[use->operand].index = name->label;
    }
}

void labels_resolve(struct parser *parser)
{
    for (uint32_t i = 0; i < parser->label_use_count && parser->status == OK; i++) {
        resolve(parser, &parser->label_uses[i]);
    }
    for (uint32_t i = 0; i < parser->label_name_count; i++) {
        parser->label_buckets[parser->label_names[i].bucket] = PTX_NONE;
    }
    parser->label_use_count = 0;
    parser->label_name_count = 0;
    parser->scope_count = 0;
    parser->scope_depth = 0;
}
