/*
 * exec_matrix.c — products of small matrices that the lanes of a warp hold together, and the loads
 * and stores of their fragments.
 *
 * Products are summed in double and rounded once: no tensor core is less exact. The fragments of
 * mma lie as the PTX manual draws them. Those of wmma are opaque: element i of a matrix, by rows,
 * is element i / 32 of lane i % 32; f16 multiplicands, which have twice the room, are held twice.
 */
#include "sim/access.h"
#include "sim/exec.h"
#include "sim/half.h"
#include "sim/schedule.h"

#include <assert.h>
#include <math.h>

enum { SIDE_MAX = 32, ROW_BYTES = 16 };

struct shape {
    uint8_t m, n, k;
};
static const struct shape shapes[] = {
    [SHAPE_M8N8K4] = {8, 8, 4},       [SHAPE_M8N8K16] = {8, 8, 16},
    [SHAPE_M8N32K16] = {8, 32, 16},   [SHAPE_M16N8K4] = {16, 8, 4},
    [SHAPE_M16N8K8] = {16, 8, 8},     [SHAPE_M16N8K16] = {16, 8, 16},
    [SHAPE_M16N8K32] = {16, 8, 32},   [SHAPE_M16N16K8] = {16, 16, 8},
    [SHAPE_M16N16K16] = {16, 16, 16}, [SHAPE_M32N8K16] = {32, 8, 16},
};

struct matrix {
    int rows, columns;
    double value[SIDE_MAX][SIDE_MAX];
};

/* One matrix of an instruction in registers. */
struct fragment {
    enum code_fragment part;
    uint8_t type;
    int first, count; /* arguments */
    int rows, columns;
};

static int bits_of_type(uint8_t type)
{
    switch (type) {
    case TYPE_F64:
        return 64;
    case TYPE_F16:
    case TYPE_BF16:
        return 16;
    case TYPE_S8:
    case TYPE_U8:
    case TYPE_E4M3:
    case TYPE_E5M2:
        return 8;
    default:
        return 32;
    }
}

static double value_of(uint8_t type, uint64_t bits)
{
    double wide;

    switch (type) {
    case TYPE_F64:
        memcpy(&wide, &bits, sizeof(wide));
        return wide;
    case TYPE_F16:
        return float_of_f16((uint16_t)bits);
    case TYPE_BF16:
        return float_of_bf16((uint16_t)bits);
    case TYPE_S8:
        return (int32_t)(int8_t)bits;
    case TYPE_U8:
        return (uint8_t)bits;
    case TYPE_E4M3:
        return float_of_e4m3((uint8_t)bits);
    case TYPE_E5M2:
        return float_of_e5m2((uint8_t)bits);
    case TYPE_S32:
        return (int32_t)bits;
    case TYPE_TF32:
        return float_of_bits((uint32_t)bits & 0xffffe000);
    default:
        return float_of_bits((uint32_t)bits);
    }
}

static uint64_t bits_of(const struct insn *insn, uint8_t type, double value)
{
    struct rounding nearest = {ROUND_RN, false};
    uint64_t bits;

    switch (type) {
    case TYPE_F64:
        memcpy(&bits, &value, sizeof(bits));
        return bits;
    case TYPE_F16:
        return format_round(&format_f16, value, 0, &nearest);
    case TYPE_S32:
        if (insn->flags & FLAG_SATFINITE) {
            value = fmin(fmax(value, INT32_MIN), INT32_MAX);
        }
        return (uint32_t)(int64_t)value;
    default:
        return value == value ? bits_of_float((float)value) : 0x7fffffff;
    }
}

/* Where element `index` of register `reg` of a lane stands in the matrix. */
struct place {
    int row, column;
    bool exists;
};

static struct place mma_place(const struct fragment *fragment, int lane, int reg, int index)
{
    int each = bits_of_type(fragment->type) >= 32 ? 1 : 32 / bits_of_type(fragment->type);
    int group = lane / 4;
    int column = lane % 4;

    switch (fragment->part) {
    case FRAGMENT_A:
        return (struct place){group + reg % 2 * 8, (column + reg / 2 * 4) * each + index, true};
    case FRAGMENT_B:
        return (struct place){(column + reg * 4) * each + index, group, true};
    default: {
        int element = reg * each + index;
        return (struct place){group + element / 2 * 8, column * 2 + element % 2, true};
    }
    }
}

static struct place wmma_place(const struct fragment *fragment, int lane, int reg, int index)
{
    int each = bits_of_type(fragment->type) >= 32 ? 1 : 32 / bits_of_type(fragment->type);
    int size = fragment->rows * fragment->columns;
    int element = (reg * each + index) * WARP_LANES + lane;

    assert(size > 0);

    return (struct place){element % size / fragment->columns, element % size % fragment->columns,
                          element < size};
}

static struct place place_of(const struct insn *insn, const struct fragment *fragment, int lane,
                             int reg, int index)
{
    return insn->op == OP_MMA ? mma_place(fragment, lane, reg, index)
                              : wmma_place(fragment, lane, reg, index);
}

static void read_fragment(struct warp *warp, const struct insn *insn,
                          const struct fragment *fragment, struct matrix *matrix)
{
    int bits = bits_of_type(fragment->type);
    int each = bits >= 32 ? 1 : 32 / bits;

    matrix->rows = fragment->rows;
    matrix->columns = fragment->columns;
    for (int reg = 0; reg < fragment->count; reg++) {
        const uint32_t *narrow = source_4(warp, insn->args[fragment->first + reg]);
        const uint64_t *wide = source_8(warp, insn->args[fragment->first + reg]);
        for (int lane = 0; lane < WARP_LANES; lane++) {
            for (int i = 0; i < each; i++) {
                struct place place = place_of(insn, fragment, lane, reg, i);
                uint64_t value = bits == 64 ? wide[lane] : narrow[lane] >> (i * (bits & 31));
                if (place.exists) {
                    matrix->value[place.row][place.column] = value_of(fragment->type, value);
                }
            }
        }
    }
}

static void write_fragment(struct warp *warp, const struct insn *insn,
                           const struct fragment *fragment, const struct matrix *matrix)
{
    int bits = bits_of_type(fragment->type);
    int each = bits >= 32 ? 1 : 32 / bits;

    for (int reg = 0; reg < fragment->count; reg++) {
        uint32_t *narrow = slot_of(warp, insn->args[fragment->first + reg]);
        uint64_t *wide = slot_of(warp, insn->args[fragment->first + reg]);
        for (int lane = 0; lane < WARP_LANES; lane++) {
            uint64_t value = 0;
            for (int i = 0; i < each; i++) {
                struct place place = place_of(insn, fragment, lane, reg, i);
                value |= bits_of(insn, fragment->type, matrix->value[place.row][place.column])
                         << (i * (bits & 31));
            }
            if (bits == 64) {
                wide[lane] = value;
            } else {
                narrow[lane] = (uint32_t)value;
            }
        }
    }
}

/* All lanes of the warp that live take part. */
static bool is_together(struct warp *warp, uint32_t mask)
{
    if (mask == warp->live) {
        return true;
    }
    warp_wait(warp, mask, GROUP_CONVERGE)->members = MASK_ALL;
    return false;
}

static void multiply(struct matrix *sum, const struct matrix *a, const struct matrix *b)
{
    for (int row = 0; row < a->rows; row++) {
        for (int k = 0; k < a->columns; k++) {
            double factor = a->value[row][k];
            for (int column = 0; column < b->columns; column++) {
                sum->value[row][column] += factor * b->value[k][column];
            }
        }
    }
}

static void mma(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    const struct shape *shape = &shapes[insn->shape];
    int at = insn->dst_count;
    struct fragment a = {FRAGMENT_A, insn->type_a, at, insn->a_count, shape->m, shape->k};
    struct fragment b = {FRAGMENT_B, insn->type_b, at + a.count, insn->b_count, shape->k, shape->n};
    struct fragment c = {FRAGMENT_C,        insn->type2,
                         b.first + b.count, insn->src_count - a.count - b.count,
                         shape->m,          shape->n};
    struct fragment d = {FRAGMENT_D, insn->type, 0, insn->dst_count, shape->m, shape->n};
    struct matrix left = {0};
    struct matrix right = {0};
    struct matrix sum = {0};

    if (!is_together(warp, mask)) {
        return;
    }
    read_fragment(warp, insn, &a, &left);
    read_fragment(warp, insn, &b, &right);
    read_fragment(warp, insn, &c, &sum);
    multiply(&sum, &left, &right);
    write_fragment(warp, insn, &d, &sum);
}

/* ---- fragments in memory ---- */

static struct fragment memory_fragment(const struct insn *insn)
{
    const struct shape *shape = &shapes[insn->shape];
    bool is_load = insn->op == OP_WMMA_LOAD;
    struct fragment fragment = {.part = insn->sub,
                                .type = insn->type,
                                .first = is_load ? 0 : 1,
                                .rows = insn->sub == FRAGMENT_B ? shape->k : shape->m,
                                .columns = insn->sub == FRAGMENT_A ? shape->k : shape->n};
    int bits = bits_of_type(insn->type);
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
    uint64_t element_bytes = (uint64_t)bits_of_type(fragment->type) / 8;
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
    uint32_t size_bytes = (uint32_t)bits_of_type(insn->type) / 8;
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

static void wmma_load(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    struct fragment fragment = memory_fragment(insn);
    struct layout layout;
    int bits = bits_of_type(fragment.type);
    int each = bits >= 32 ? 1 : 32 / bits;

    if (!is_together(warp, mask)) {
        return;
    }
    layout = layout_of(warp, insn, mask, &fragment);
    for (int reg = 0; reg < fragment.count; reg++) {
        uint32_t *narrow = DESTINATION(uint32_t, reg);
        uint64_t *wide = DESTINATION(uint64_t, reg);
        for (int lane = 0; lane < WARP_LANES; lane++) {
            uint64_t value = 0;
            for (int i = 0; i < each; i++) {
                struct place place = wmma_place(&fragment, lane, reg, i);
                uint64_t element = 0;
                uint64_t address = layout.address + (uint64_t)place.row * layout.row_bytes +
                                   (uint64_t)place.column * layout.column_bytes;
                if (!move_element(warp, insn, lane, address, &element)) {
                    return;
                }
                value |= element << (i * (bits & 31));
            }
            if (bits == 64) {
                wide[lane] = value;
            } else {
                narrow[lane] = (uint32_t)value;
            }
        }
    }
}

static void wmma_store(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    struct fragment fragment = memory_fragment(insn);
    struct layout layout;
    int bits = bits_of_type(fragment.type);
    int each = bits >= 32 ? 1 : 32 / bits;

    if (!is_together(warp, mask)) {
        return;
    }
    layout = layout_of(warp, insn, mask, &fragment);
    for (int reg = 0; reg < fragment.count; reg++) {
        const uint32_t *narrow = SOURCE(uint32_t, fragment.first + reg);
        const uint64_t *wide = SOURCE(uint64_t, fragment.first + reg);
        for (int at = 0; at < WARP_LANES * each; at++) {
            int lane = at / each;
            struct place place = wmma_place(&fragment, lane, reg, at % each);
            uint64_t value = bits == 64 ? wide[lane] : narrow[lane] >> (at % each * (bits & 31));
            uint64_t address = layout.address + (uint64_t)place.row * layout.row_bytes +
                               (uint64_t)place.column * layout.column_bytes;
            if (!move_element(warp, insn, lane, address, &value)) {
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

    if (!is_together(warp, mask)) {
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

static bool is_factor(uint8_t type)
{
    return type == TYPE_F16 || type == TYPE_BF16 || type == TYPE_TF32 || type == TYPE_S8 ||
           type == TYPE_U8 || type == TYPE_E4M3 || type == TYPE_E5M2 || type == TYPE_F64;
}

static bool is_sum(uint8_t type)
{
    return type == TYPE_F32 || type == TYPE_F16 || type == TYPE_S32 || type == TYPE_F64;
}

/* Shapes whose fragments lie as mma_place says, within SIDE_MAX. */
static bool is_mma_shape(uint8_t shape)
{
    return shape == SHAPE_M8N8K4 || shape == SHAPE_M8N8K16 || shape == SHAPE_M16N8K4 ||
           shape == SHAPE_M16N8K8 || shape == SHAPE_M16N8K16 || shape == SHAPE_M16N8K32;
}

insn_exec *find_matrix(const struct insn *insn)
{
    uint32_t layouts = FLAG_A_COL | FLAG_B_COL | FLAG_SYNC | FLAG_ALIGNED;
    bool is_rounded = insn->round == ROUND_NONE || insn->round == ROUND_RN;
    bool is_fragment = insn->op != OP_LDMATRIX && insn->op != OP_STMATRIX;

    if ((is_fragment && insn->shape == SHAPE_NONE) ||
        (insn->op == OP_MMA && !is_mma_shape(insn->shape))) {
        return NULL;
    }
    switch (insn->op) {
    case OP_MMA: /* a by rows and b by columns: there is nothing else */
        return has_flags_only(insn, layouts | FLAG_SATFINITE) && !(insn->flags & FLAG_A_COL) &&
                       is_factor(insn->type_a) && is_factor(insn->type_b) && is_sum(insn->type) &&
                       is_sum(insn->type2) && is_rounded
                   ? mma
                   : NULL;
    case OP_WMMA_MMA:
        return has_flags_only(insn, layouts | FLAG_SATFINITE) && is_factor(insn->type_a) &&
                       is_factor(insn->type_b) && is_sum(insn->type) && is_sum(insn->type2) &&
                       is_rounded
                   ? mma
                   : NULL;
    case OP_WMMA_LOAD:
        return has_flags_only(insn, layouts | FLAG_ADDR32) ? wmma_load : NULL;
    case OP_WMMA_STORE:
        return has_flags_only(insn, layouts | FLAG_ADDR32) ? wmma_store : NULL;
    default:
        return has_flags_only(insn, FLAG_TRANS | FLAG_SYNC | FLAG_ALIGNED | FLAG_ADDR32) &&
                       insn->vector <= 4
                   ? move_matrices
                   : NULL;
    }
}
