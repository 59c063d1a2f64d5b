/* exec_fragment.c — loads and stores of matrices that the lanes of a warp hold together. */
#include "sim/access.h"
#include "sim/exec_matrix.h"
#include "sim/schedule.h"

#include <string.h>

enum { ROW_BYTES = 16 };

static struct fragment memory_fragment(const struct insn *insn)
{
    const struct shape *shape = &matrix_shapes[insn->shape];
    bool is_load = insn->op == OP_WMMA_LOAD;
    struct fragment fragment = {.part = insn->sub,
                                .type = insn->type,
                                .first = is_load ? 0 : 1,
                                .rows = insn->sub == FRAGMENT_B ? shape->k : shape->m,
                                .columns = insn->sub == FRAGMENT_A ? shape->k : shape->n};
    int bits = matrix_bits(insn->type);
    int per_register = bits >= 32 ? WARP_LANES : WARP_LANES * 32 / bits;

    fragment.count = is_load ? insn->dst_count : fragment.rows * fragment.columns / per_register;
    return fragment;
}

/* Where the elements of a fragment lie in memory. */
struct layout {
    uint64_t address, row_bytes, column_bytes;
};

static struct layout layout_of(struct warp *warp, const struct insn *insn, uint32_t mask,
                               const struct fragment *fragment)
{
    int lane = __builtin_ctz(mask);
    bool is_by_columns = insn->flags & FLAG_A_COL;
    bool has_stride =
        insn->op == OP_WMMA_LOAD ? insn->src_count > 1 : insn->src_count > fragment->count + 1;
    uint64_t element_bytes = (uint64_t)matrix_bits(fragment->type) / 8;
    uint64_t stride = (uint64_t)(is_by_columns ? fragment->rows : fragment->columns);
    uint64_t address =
        insn->flags & FLAG_ADDR32 ? SOURCE(uint32_t, 0)[lane] : SOURCE(uint64_t, 0)[lane];

    if (has_stride) {
        stride = SOURCE(uint32_t, insn->src_count - 1)[lane];
    }
    address += (uint64_t)insn->imm + (insn->space == SPACE_SHARED ? WINDOW_SHARED : 0);
    return (struct layout){address, is_by_columns ? element_bytes : stride * element_bytes,
                           is_by_columns ? stride * element_bytes : element_bytes};
}

/* Loads or stores one element of one lane. False: a fault. */
static bool move_element(struct warp *warp, const struct insn *insn, int lane, uint64_t address,
                         uint64_t *bits)
{
    bool is_load = insn->op == OP_WMMA_LOAD;
    uint32_t size_bytes = (uint32_t)matrix_bits(insn->type) / 8;
    struct access_request request = {
        .kind = is_load ? ACCESS_LOAD : ACCESS_STORE,
        .size_bytes = size_bytes,
        .mechanism = is_load ? MECHANISM_SM_LOAD : MECHANISM_SM_STORE,
    };
    uint8_t *at = access_place(warp, insn, lane, &request, address);

    if (!at) {
        return false;
    }
    if (is_load) {
        memcpy(bits, at, size_bytes);
    } else {
        warp->engine->changes += memcmp(at, bits, size_bytes) != 0;
        memcpy(at, bits, size_bytes);
    }
    return true;
}

static uint64_t address_of(const struct layout *layout, const struct fragment *fragment,
                           int element)
{
    return layout->address + (uint64_t)(element / fragment->columns) * layout->row_bytes +
           (uint64_t)(element % fragment->columns) * layout->column_bytes;
}

/* The rows of a matrix in memory, or its columns: what lies in one piece. */
struct lines {
    int count, length;
    uint64_t size_bytes; /* of an element */
    uint64_t stride_bytes;
    uint64_t copies; /* of each element in the fragment: it is loaded so often */
};

static struct lines lines_of(const struct insn *insn, const struct fragment *fragment,
                             const struct layout *layout)
{
    bool is_by_columns = insn->flags & FLAG_A_COL;
    uint64_t size_bytes = (uint64_t)matrix_bits(fragment->type) / 8;
    uint64_t register_bytes = size_bytes == 8 ? 8 : 4;
    uint64_t elements = (uint64_t)fragment->count * WARP_LANES * register_bytes / size_bytes;

    return (struct lines){
        .count = is_by_columns ? fragment->columns : fragment->rows,
        .length = is_by_columns ? fragment->rows : fragment->columns,
        .size_bytes = size_bytes,
        .stride_bytes = is_by_columns ? layout->column_bytes : layout->row_bytes,
        .copies = elements / (uint64_t)(fragment->rows * fragment->columns),
    };
}

/* Where the lines are, each of which may be read as a whole. False: some may not. */
static bool place_lines(struct warp *warp, uint64_t address, const struct lines *lines,
                        const uint8_t *at[SIDE_MAX])
{
    struct access_request request = {.kind = ACCESS_LOAD, .space = SPACE_GLOBAL};
    uint64_t line_bytes = (uint64_t)lines->length * lines->size_bytes;
    struct region *regions[SIDE_MAX];

    if ((address | lines->stride_bytes) & (lines->size_bytes - 1)) {
        return false;
    }
    if (address - WINDOW_SHARED < WINDOW_BYTES) {
        request.space = SPACE_SHARED;
        address -= WINDOW_SHARED;
    }
    for (int i = 0; i < lines->count; i++) {
        at[i] = access_block(warp, &request, address + (uint64_t)i * lines->stride_bytes,
                             line_bytes, &regions[i]);
        if (!at[i]) {
            return false;
        }
    }
    for (int i = 0; i < lines->count; i++) {
        access_count(warp, regions[i], MECHANISM_SM_LOAD, line_bytes * lines->copies);
    }
    return true;
}

/* False: there is a line that cannot be read as a whole; nothing has happened. */
static bool load_lines(struct warp *warp, const struct insn *insn, const struct fragment *fragment,
                       const struct layout *layout, uint64_t value[AREA_MAX])
{
    struct lines lines = lines_of(insn, fragment, layout);
    const uint8_t *at[SIDE_MAX];

    if (!place_lines(warp, layout->address, &lines, at)) {
        return false;
    }
    for (int line = 0; line < lines.count; line++) {
        for (int i = 0; i < lines.length; i++) {
            int element = insn->flags & FLAG_A_COL ? i * fragment->columns + line
                                                   : line * fragment->columns + i;
            value[element] = 0;
            memcpy(&value[element], at[line] + (size_t)i * lines.size_bytes, lines.size_bytes);
        }
    }
    return true;
}

/* Element by element, in the order of registers and lanes. False: a fault. */
static bool load_elements(struct warp *warp, const struct insn *insn,
                          const struct fragment *fragment, const struct layout *layout,
                          uint64_t value[AREA_MAX])
{
    int bits = matrix_bits(fragment->type);
    int each = bits >= 32 ? 1 : 32 / bits;

    for (int at = 0; at < fragment->count * WARP_LANES * each; at++) {
        int lane = at / each % WARP_LANES;
        int element = wmma_first(fragment, at / each / WARP_LANES, at % each) + lane;
        value[element] = 0;
        if (!move_element(warp, insn, lane, address_of(layout, fragment, element),
                          &value[element])) {
            return false;
        }
    }
    return true;
}

static void wmma_load(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    struct fragment fragment = memory_fragment(insn);
    struct layout layout;
    int bits = matrix_bits(fragment.type);
    int each = bits >= 32 ? 1 : 32 / bits;
    uint64_t value[AREA_MAX];

    if (!matrix_meets(warp, mask)) {
        return;
    }
    layout = layout_of(warp, insn, mask, &fragment);
    if (!load_lines(warp, insn, &fragment, &layout, value) &&
        !load_elements(warp, insn, &fragment, &layout, value)) {
        return;
    }
    for (int reg = 0; reg < fragment.count; reg++) {
        uint32_t *narrow = DESTINATION(uint32_t, reg);
        if (bits == 64) {
            memcpy(narrow, value + wmma_first(&fragment, reg, 0), WARP_LANES * sizeof(*value));
            continue;
        }
        memset(narrow, 0, SLOT_BYTES);
        for (int i = 0; i < each; i++) {
            const uint64_t *from = value + wmma_first(&fragment, reg, i);
            EACH_LANE
            {
                /* What load_lines or load_elements has filled.
                 * NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult) */
                narrow[lane] |= (uint32_t)from[lane] << (i * (bits & 31));
            }
        }
    }
}

static void wmma_store(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    struct fragment fragment = memory_fragment(insn);
    struct layout layout;
    int bits = matrix_bits(fragment.type);
    int each = bits >= 32 ? 1 : 32 / bits;

    if (!matrix_meets(warp, mask)) {
        return;
    }
    layout = layout_of(warp, insn, mask, &fragment);
    for (int reg = 0; reg < fragment.count; reg++) {
        const uint32_t *narrow = SOURCE(uint32_t, fragment.first + reg);
        const uint64_t *wide = SOURCE(uint64_t, fragment.first + reg);
        for (int at = 0; at < WARP_LANES * each; at++) {
            int lane = at / each;
            int element = wmma_first(&fragment, reg, at % each) + lane;
            uint64_t value = bits == 64 ? wide[lane] : narrow[lane] >> (at % each * (bits & 31));
            if (!move_element(warp, insn, lane, address_of(&layout, &fragment, element), &value)) {
                return;
            }
        }
    }
}

/* ---- 8 x 8 matrices of 16 bits: row r of matrix i is where lane 8 i + r points ---- */

static void move_matrices(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    bool is_load = insn->op == OP_LDMATRIX;
    struct access_request request = {
        .kind = is_load ? ACCESS_LOAD : ACCESS_STORE,
        .size_bytes = ROW_BYTES,
        .mechanism = is_load ? MECHANISM_SM_LOAD : MECHANISM_SM_STORE,
    };
    uint8_t *rows[WARP_LANES] = {0};

    if (!matrix_meets(warp, mask)) {
        return;
    }
    for (int lane = 0; lane < insn->vector * 8; lane++) {
        uint64_t address =
            insn->flags & FLAG_ADDR32 ? SOURCE(uint32_t, 0)[lane] : SOURCE(uint64_t, 0)[lane];
        address += (uint64_t)insn->imm + (insn->space == SPACE_SHARED ? WINDOW_SHARED : 0);
        rows[lane] = access_place(warp, insn, lane, &request, address);
        if (!rows[lane]) {
            return;
        }
    }
    for (int at = 0; at < insn->vector * WARP_LANES * 2; at++) {
        int matrix = at / WARP_LANES / 2;
        int lane = at / 2 % WARP_LANES;
        int row = insn->flags & FLAG_TRANS ? lane % 4 * 2 + at % 2 : lane / 4;
        int column = insn->flags & FLAG_TRANS ? lane / 4 : lane % 4 * 2 + at % 2;
        uint8_t *memory = rows[matrix * 8 + row];
        assert(memory);
        memory += (size_t)column * 2;
        size_t half = (size_t)(at % 2) * 2;
        if (is_load) {
            memcpy((uint8_t *)&DESTINATION(uint32_t, matrix)[lane] + half, memory, 2);
        } else {
            const uint32_t *value = &SOURCE(uint32_t, 1 + matrix)[lane];
            warp->engine->changes += memcmp(memory, (const uint8_t *)value + half, 2) != 0;
            memcpy(memory, (const uint8_t *)value + half, 2);
        }
    }
}

insn_exec *find_fragment(const struct insn *insn)
{
    uint32_t common = FLAG_SYNC | FLAG_ALIGNED | FLAG_ADDR32;

    switch (insn->op) {
    case OP_WMMA_LOAD:
    case OP_WMMA_STORE:
        if (!has_flags_only(insn, common | FLAG_A_COL | FLAG_B_COL) || insn->shape == SHAPE_NONE) {
            return NULL;
        }
        return insn->op == OP_WMMA_LOAD ? wmma_load : wmma_store;
    default:
        return has_flags_only(insn, common | FLAG_TRANS) && insn->vector <= 4 ? move_matrices
                                                                              : NULL;
    }
}
