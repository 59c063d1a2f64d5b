#include "sim/ptx_parse.h"

#include "common/mem.h"

#include <assert.h>

void names_declare(struct parser *parser, struct name name)
{
    if (parser->name_count == PTX_NAMES_MAX) {
        parser_fail(parser, ERR_TOO_LARGE, "more than %d names", PTX_NAMES_MAX);
        return;
    }
    if (name.kind == NAME_RANGE || name.kind == NAME_REGISTER) {
        if (name.count > PTX_REGISTERS_MAX ||
            parser->number_count + name.count * name.vector > PTX_REGISTERS_MAX) {
            parser_fail(parser, ERR_TOO_LARGE, "more than %d registers", PTX_REGISTERS_MAX);
            return;
        }
        name.index = parser->number_count;
        for (uint32_t i = 0; i < name.count * name.vector; i++) {
            ptx_grow(&parser->numbers, &parser->number_capacity, parser->number_count,
                     sizeof *parser->numbers);
            parser->numbers[parser->number_count++] = PTX_NONE;
        }
    }
    name.hash = slice_hash(name.text);
    name.bucket = name.hash % NAME_BUCKETS;
    name.next = parser->buckets[name.bucket];
    parser->buckets[name.bucket] = parser->name_count;
    ptx_grow(&parser->names, &parser->name_capacity, parser->name_count, sizeof *parser->names);
    parser->names[parser->name_count++] = name;
}

void names_leave(struct parser *parser, uint32_t count)
{
    while (parser->name_count > count) {
        const struct name *name = &parser->names[--parser->name_count];
        assert(parser->buckets[name->bucket] == parser->name_count);
        parser->buckets[name->bucket] = name->next;
        if (name->kind == NAME_RANGE || name->kind == NAME_REGISTER) {
            parser->number_count = name->index;
        }
    }
}

bool names_look(struct parser *parser)
{
    if (parser->looks_left == 0) {
        parser_fail(parser, ERR_TOO_LARGE, "names that take too long to tell apart");
        return false;
    }
    parser->looks_left--;
    return true;
}

/* The newest declaration of this text, a range or not; PTX_NONE if there is none. */
static uint32_t find(struct parser *parser, struct slice text, bool is_range, uint32_t number)
{
    uint32_t hash = slice_hash(text);
    uint32_t found = parser->buckets[hash % NAME_BUCKETS];

    while (found != PTX_NONE) {
        const struct name *name = &parser->names[found];
        if (!names_look(parser)) {
            return PTX_NONE;
        }
        if (name->hash == hash && (name->kind == NAME_RANGE) == is_range &&
            slice_equal(name->text, text) && (!is_range || number < name->count)) {
            break;
        }
        found = name->next;
    }
    return found;
}

const struct name *names_find(struct parser *parser, struct slice text, uint32_t *number)
{
    uint32_t exact = find(parser, text, false, 0);
    uint32_t ranged = PTX_NONE;
    struct slice prefix = text;
    uint64_t value = 0, scale = 1;

    while (prefix.length > 0 && scale < 1000000000u) {
        char digit = prefix.text[prefix.length - 1];
        if (digit < '0' || digit > '9') {
            break;
        }
        value += scale * (uint64_t)(digit - '0');
        scale *= 10;
        prefix.length--;
    }
    if (prefix.length < text.length && value < PTX_REGISTERS_MAX) {
        ranged = find(parser, prefix, true, (uint32_t)value);
    }
    *number = 0;
    if (ranged != PTX_NONE && (exact == PTX_NONE || ranged > exact)) {
        *number = (uint32_t)value;
        return &parser->names[ranged];
    }
    return exact != PTX_NONE ? &parser->names[exact] : NULL;
}

uint32_t names_register(struct parser *parser, const struct name *name, uint32_t number)
{
    struct ptx_function *function = &parser->module->functions[parser->function];
    uint32_t *place = &parser->numbers[name->index + number];

    if (*place == PTX_NONE) {
        *place = function->register_count;
        ptx_grow(&function->register_types, &function->register_capacity, function->register_count,
                 sizeof *function->register_types);
        function->register_types[function->register_count++] = name->type;
    }
    return *place;
}
