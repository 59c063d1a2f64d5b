#include "sim/ptx_lower.h"

#include "common/mem.h"

/* A walk over an instruction's operands along its pattern. */
struct walk {
    struct lowering *lowering;
    struct frame *frame;
    struct build *build;
    const struct ptx_operand *at, *end;
    uint32_t fragment; /* of mma: the next one */
};

static const struct ptx_operand *next(struct walk *walk)
{
    static const struct ptx_operand none = {.kind = OPERAND_UNKNOWN};

    if (walk->at == walk->end) {
        walk->build->is_bad = true;
        return &none;
    }
    return walk->at++;
}

/* Operands that are not elements of a vector nor behind a `|`. */
static uint32_t count_operands(const struct walk *walk)
{
    uint32_t count = 0;

    for (const struct ptx_operand *at = walk->at; at < walk->end; at++) {
        if (at->kind == OPERAND_VECTOR) {
            at += at->index;
        }
        count += !at->is_second;
    }
    return count;
}

static uint32_t count_needed(const char *pattern)
{
    uint32_t count = 0;

    for (; *pattern != 0; pattern++) {
        if (*pattern == '?' || *pattern == '/') {
            pattern++;
        } else {
            count++;
        }
    }
    return count;
}

/* `{a, b}` or a single one: all of them as `type`; the number must be `count`, or 0: any. */
static void walk_vector(struct walk *walk, uint32_t count, enum code_type type, bool is_destination)
{
    const struct ptx_operand *operand = next(walk);
    uint32_t elements = 1;

    if (operand->kind == OPERAND_VECTOR) {
        elements = operand->index;
        if (elements > (size_t)(walk->end - walk->at)) {
            walk->build->is_bad = true;
            return;
        }
        operand = walk->at;
        walk->at += elements;
    }
    walk->build->is_bad |= count > 0 && elements != count;
    for (uint32_t i = 0; i < elements && !walk->build->is_bad; i++) {
        if (is_destination) {
            lower_destination(walk->lowering, walk->frame, walk->build, &operand[i], type);
        } else {
            lower_source(walk->lowering, walk->frame, walk->build, &operand[i], type);
        }
    }
}

/* Fragments of matrices are 32-bit registers, but of f64. */
static void walk_fragment(struct walk *walk, bool is_destination)
{
    struct build *build = walk->build;
    const uint8_t types[] = {build->insn.type_a, build->insn.type_b, build->insn.type2};
    bool is_mma = build->insn.op == OP_MMA || build->insn.op == OP_WMMA_MMA;
    enum code_type type = build->insn.type;
    uint32_t before = build->src_count;

    if (!is_destination && is_mma) {
        type = types[walk->fragment];
    }
    walk_vector(walk, 0, type == TYPE_F64 ? TYPE_F64 : TYPE_B32, is_destination);
    if (!is_destination && is_mma) {
        build->insn.a_count =
            walk->fragment == 0 ? (uint8_t)(build->src_count - before) : build->insn.a_count;
        build->insn.b_count =
            walk->fragment == 1 ? (uint8_t)(build->src_count - before) : build->insn.b_count;
        walk->fragment += walk->fragment < 2;
    }
}

static void add_fixup(struct frame *frame, uint32_t at, uint32_t label, bool is_table)
{
    ptx_grow(&frame->fixups, &frame->fixup_capacity, frame->fixup_count, sizeof *frame->fixups);
    frame->fixups[frame->fixup_count++] = (struct fixup){at, label, is_table};
}

/* The name of a .branchtargets list: its labels become entries of kernel->targets. */
static void walk_targets(struct walk *walk)
{
    const struct ptx_operand *operand = next(walk);
    const struct ptx_function *function = walk->frame->function;
    struct lowering *lowering = walk->lowering;

    if (operand->kind != OPERAND_LABEL || !function->labels[operand->index].is_list) {
        walk->build->is_bad = true;
        return;
    }
    const struct ptx_label *list = &function->labels[operand->index];
    if (lowering->insns_left <= list->list_count) {
        lowering->is_full = true;
        return;
    }
    lowering->insns_left -= list->list_count;
    walk->build->insn.target = lowering->target_count;
    walk->build->insn.imm = list->list_count;
    for (uint32_t i = 0; i < list->list_count; i++) {
        ptx_grow(&lowering->targets, &lowering->target_capacity, lowering->target_count,
                 sizeof *lowering->targets);
        add_fixup(walk->frame, lowering->target_count++, function->lists[list->list_start + i],
                  true);
    }
}

static void walk_label(struct walk *walk)
{
    const struct ptx_operand *operand = next(walk);

    if (operand->kind != OPERAND_LABEL || walk->frame->function->labels[operand->index].is_list) {
        walk->build->is_bad = true;
        return;
    }
    add_fixup(walk->frame, walk->lowering->insn_count, operand->index, false);
}

static enum code_type twice(enum code_type type)
{
    switch (type) {
    case TYPE_U16:
        return TYPE_U32;
    case TYPE_S16:
        return TYPE_S32;
    case TYPE_U32:
        return TYPE_U64;
    default:
        return TYPE_S64;
    }
}

static uint64_t constant_operand(struct walk *walk)
{
    const struct ptx_operand *operand = next(walk);

    walk->build->is_bad |= operand->kind != OPERAND_INTEGER;
    return operand->bits;
}

static bool is_predicate(const struct walk *walk, const struct ptx_operand *operand)
{
    return operand->kind == OPERAND_REGISTER &&
           walk->frame->function->register_types[operand->index] == TYPE_PRED;
}

static void walk_source(struct walk *walk, enum code_type type)
{
    lower_source(walk->lowering, walk->frame, walk->build, next(walk), type);
}

static void walk_destination(struct walk *walk, enum code_type type)
{
    lower_destination(walk->lowering, walk->frame, walk->build, next(walk), type);
}

static bool walk_destination_letter(struct walk *walk, char letter)
{
    const struct insn *insn = &walk->build->insn;
    enum code_type type = insn->type;

    switch (letter) {
    case 'd':
        walk_destination(walk, type);
        break;
    case 'D':
        walk_destination(walk, insn->flags & FLAG_WIDE ? twice(type) : type);
        break;
    case 'x':
        walk_destination(walk, TYPE_B32);
        break;
    case 'p':
        walk_destination(walk, TYPE_PRED);
        break;
    case 'v':
        walk_vector(walk, insn->vector, type, true);
        break;
    case 'F':
        walk_fragment(walk, true);
        break;
    default:
        return false;
    }
    return true;
}

static bool walk_source_letter(struct walk *walk, char letter)
{
    const struct insn *insn = &walk->build->insn;
    enum code_type type = insn->type;

    switch (letter) {
    case 'a':
        walk_source(walk, type);
        break;
    case 'A':
        walk_source(walk, insn->flags & FLAG_WIDE ? twice(type) : type);
        break;
    case 'b':
        walk_source(walk, insn->type2);
        break;
    case 'u':
        walk_source(walk, TYPE_U32);
        break;
    case 'q':
        walk_source(walk, TYPE_PRED);
        break;
    case 'e':
        walk_source(walk,
                    walk->at < walk->end && is_predicate(walk, walk->at) ? TYPE_PRED : TYPE_U32);
        break;
    case 'V':
        walk_vector(walk, insn->vector, type, false);
        break;
    case 'f':
        walk_fragment(walk, false);
        break;
    default:
        return false;
    }
    return true;
}

/* One letter of a pattern (ptx_ops.h says which is what). */
static void walk_letter(struct walk *walk, char letter)
{
    struct build *build = walk->build;

    if (walk_destination_letter(walk, letter) || walk_source_letter(walk, letter)) {
        return;
    }
    switch (letter) {
    case 'U':
    case 'M':
        lower_wide_address(walk->lowering, walk->frame, build, next(walk));
        break;
    case 'm':
        lower_address(walk->lowering, walk->frame, build, next(walk));
        break;
    case 'i':
        build->insn.imm = (int64_t)constant_operand(walk);
        break;
    case 'k':
        build->insn.vector = (uint8_t)constant_operand(walk);
        break;
    case 'L':
        walk_label(walk);
        break;
    case 'T':
        walk_targets(walk);
        break;
    case 'z':
        build->src[build->src_count++] = lower_constant(walk->lowering, 0);
        walk->at = walk->end;
        break;
    default: /* n */
        next(walk);
        break;
    }
}

static void walk_operands(struct walk *walk, const char *pattern)
{
    uint32_t given = count_operands(walk);
    uint32_t needed = count_needed(pattern);
    uint32_t spare = given > needed ? given - needed : 0;

    for (; *pattern != 0 && !walk->build->is_bad; pattern++) {
        if (*pattern == '?') {
            pattern++;
            if (spare > 0) {
                spare--;
                walk_letter(walk, *pattern);
            }
        } else if (*pattern == '/') {
            pattern++;
            if (walk->at < walk->end && walk->at->is_second) {
                walk_letter(walk, *pattern);
            }
        } else {
            walk_letter(walk, *pattern);
        }
    }
    walk->build->is_bad |= walk->at != walk->end;
}

/* mov between a register and its parts. */
static void walk_parts(struct walk *walk, bool is_unpack)
{
    struct insn *insn = &walk->build->insn;
    const struct ptx_operand *vector = is_unpack ? walk->at : walk->at + 1;
    static const uint8_t types[] = {[1] = TYPE_B8, [2] = TYPE_B16, [4] = TYPE_B32, [8] = TYPE_B64};
    uint32_t whole = ptx_type_size_bytes(insn->type);
    uint32_t part = vector->index > 0 ? whole / vector->index : 0;
    uint8_t whole_type = whole == 16 ? TYPE_B128 : types[whole <= 8 ? whole : 0];

    if (part * vector->index != whole || part > 8 || types[part] == 0) {
        walk->build->is_bad = true;
        return;
    }
    insn->op = is_unpack ? OP_UNPACK : OP_PACK;
    insn->type = is_unpack ? types[part] : whole_type;
    insn->type2 = is_unpack ? whole_type : types[part];
    if (is_unpack) {
        walk_vector(walk, 0, insn->type, true);
        walk_source(walk, insn->type2);
    } else {
        walk_destination(walk, insn->type);
        walk_vector(walk, 0, insn->type2, false);
    }
}

static void walk_move(struct walk *walk)
{
    struct insn *insn = &walk->build->insn;

    insn->op = OP_MOV;
    if (walk->end - walk->at < 2) {
        walk->build->is_bad = true;
    } else if (walk->at[0].kind == OPERAND_VECTOR || walk->at[1].kind == OPERAND_VECTOR) {
        walk_parts(walk, walk->at[0].kind == OPERAND_VECTOR);
    } else if (walk->at[1].kind == OPERAND_SREG) {
        walk_destination(walk, insn->type);
        insn->op = OP_SREG;
        insn->target = next(walk)->index;
    } else {
        walk_destination(walk, insn->type);
        walk_source(walk, insn->type);
    }
    walk->build->is_bad |= walk->at != walk->end;
}

bool lower_is_integer(enum code_type type)
{
    return type >= TYPE_B8 && type <= TYPE_S64;
}

/* A parameter that lives in values: a move to or from them. */
bool lower_cells(struct lowering *lowering, struct frame *frame, const struct ptx_insn *insn,
                 struct build *build)
{
    const struct ptx_operand *operands = frame->function->operands + insn->operand_start;
    bool is_load = insn->insn.op == OP_LD;
    const struct ptx_operand *address = NULL;
    struct storage *storage;
    uint32_t size_bytes = ptx_type_size_bytes(insn->insn.type);

    for (uint32_t i = 0; i < insn->operand_count && address == NULL; i++) {
        address = operands[i].is_address ? &operands[i] : NULL;
    }
    if (address == NULL || address->kind != OPERAND_VARIABLE ||
        lowering->module->variables[address->index].space != SPACE_PARAM) {
        return false;
    }
    uint32_t local = lowering->module->variables[address->index].local_index;
    storage = local < frame->function->local_count ? frame->storages[local] : NULL;
    if (storage == NULL || storage->is_memory) {
        return false;
    }
    struct walk walk = {lowering, frame, build, operands, operands + insn->operand_count, 0};
    if (!is_load) {
        next(&walk);
    }
    walk_vector(&walk, insn->insn.vector, insn->insn.type, is_load);
    for (uint32_t i = 0; i < insn->insn.vector && !build->is_bad; i++) {
        const struct cell *cell =
            storage_cell(lowering, storage, (uint32_t)address->offset + i * size_bytes, size_bytes);
        enum code_type type = insn->insn.type;
        enum code_type bits = size_bytes == 16 ? TYPE_B128 : size_bytes == 8 ? TYPE_B64 : TYPE_B32;
        if (is_load && lower_is_integer(type) && size_bytes < 4) {
            lower_convert(lowering, build->dst[i], type, cell->value, type, build);
        } else if (is_load) {
            lower_move(lowering, build->dst[i], cell->value, bits, build);
        } else {
            lower_move(lowering, cell->value, build->src[i], bits, build);
        }
    }
    return true;
}

void lower_operands(struct lowering *lowering, struct frame *frame, const struct ptx_insn *insn,
                    struct build *build)
{
    const struct ptx_operand *operands = frame->function->operands + insn->operand_start;
    struct walk walk = {lowering, frame, build, operands, operands + insn->operand_count, 0};

    if (insn->insn.op == PTX_MOV) {
        walk_move(&walk);
    } else {
        walk_operands(&walk, insn->pattern);
    }
}
