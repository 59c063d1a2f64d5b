/*
 * exec_matrix.c — products of small matrices that the lanes of a warp hold together.
 *
 * They are summed in double and rounded once: no tensor core is less exact.
 */
#include "sim/exec_matrix.h"
#include "sim/half.h"
#include "sim/schedule.h"

#include <assert.h>
#include <math.h>

const struct shape matrix_shapes[] = {
    [SHAPE_M8N8K4] = {8, 8, 4},       [SHAPE_M8N8K16] = {8, 8, 16},
    [SHAPE_M8N32K16] = {8, 32, 16},   [SHAPE_M16N8K4] = {16, 8, 4},
    [SHAPE_M16N8K8] = {16, 8, 8},     [SHAPE_M16N8K16] = {16, 8, 16},
    [SHAPE_M16N8K32] = {16, 8, 32},   [SHAPE_M16N16K8] = {16, 16, 8},
    [SHAPE_M16N16K16] = {16, 16, 16}, [SHAPE_M32N8K16] = {32, 8, 16},
};

/* By rows. */
struct matrix {
    int rows, columns;
    double value[AREA_MAX];
};

int matrix_bits(uint8_t type)
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

bool matrix_meets(struct warp *warp, uint32_t mask)
{
    if (mask == warp->live) {
        return true;
    }
    warp_wait(warp, mask, GROUP_CONVERGE)->members = MASK_ALL;
    return false;
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

/* What the numbers are worth that lie in each lane's word from bit `shift` on. */
static void values_of(uint8_t type, const uint32_t *words, int shift, double value[WARP_LANES])
{
    switch (type) {
    case TYPE_BF16:
        EACH_LANE
        {
            value[lane] = float_of_bits(words[lane] >> shift << 16);
        }
        break;
    case TYPE_F32:
        EACH_LANE
        {
            value[lane] = float_of_bits(words[lane]);
        }
        break;
    default:
        EACH_LANE
        {
            value[lane] = value_of(type, words[lane] >> shift);
        }
    }
}

/* Which element of the matrix is at `index` of register `reg` of a lane. */
static int mma_place(const struct fragment *fragment, int lane, int reg, int index)
{
    int each = matrix_bits(fragment->type) >= 32 ? 1 : 32 / matrix_bits(fragment->type);
    int group = lane / 4;
    int column = lane % 4;

    switch (fragment->part) {
    case FRAGMENT_A:
        return (group + reg % 2 * 8) * fragment->columns + (column + reg / 2 * 4) * each + index;
    case FRAGMENT_B:
        return ((column + reg * 4) * each + index) * fragment->columns + group;
    default: {
        int element = reg * each + index;
        return (group + element / 2 * 8) * fragment->columns + column * 2 + element % 2;
    }
    }
}

static void read_fragment(struct warp *warp, const struct insn *insn,
                          const struct fragment *fragment, struct matrix *matrix)
{
    int bits = matrix_bits(fragment->type);
    int each = bits >= 32 ? 1 : 32 / bits;
    double value[WARP_LANES];

    matrix->rows = fragment->rows;
    matrix->columns = fragment->columns;
    memset(matrix->value, 0, (size_t)(matrix->rows * matrix->columns) * sizeof(*matrix->value));
    for (int at = 0; at < fragment->count * each; at++) {
        int reg = at / each;
        int32_t arg = insn->args[fragment->first + reg];
        if (bits == 64) {
            memcpy(value, source_8(warp, arg), sizeof(value));
        } else {
            values_of(fragment->type, source_4(warp, arg), at % each * (bits & 31), value);
        }
        if (insn->op != OP_MMA) {
            if (at * WARP_LANES < fragment->rows * fragment->columns) { /* not the second copy */
                memcpy(matrix->value + (size_t)(at * WARP_LANES), value, sizeof(value));
            }
            continue;
        }
        for (int lane = 0; lane < WARP_LANES; lane++) {
            matrix->value[mma_place(fragment, lane, reg, at % each)] = value[lane];
        }
    }
}

static void write_register(struct warp *warp, const struct insn *insn, uint8_t type, int32_t arg,
                           double value[2][WARP_LANES])
{
    uint32_t *narrow = slot_of(warp, arg);

    if (type == TYPE_F64) {
        memcpy(narrow, value[0], sizeof(value[0]));
        return;
    }
    for (int lane = 0; lane < WARP_LANES; lane++) {
        uint32_t bits = (uint32_t)bits_of(insn, type, value[0][lane]);
        if (type == TYPE_F16) {
            bits |= (uint32_t)bits_of(insn, type, value[1][lane]) << 16;
        }
        narrow[lane] = bits;
    }
}

static void write_fragment(struct warp *warp, const struct insn *insn,
                           const struct fragment *fragment, const struct matrix *matrix)
{
    int bits = matrix_bits(fragment->type);
    int each = bits >= 32 ? 1 : 32 / bits; /* a sum has 16 bits at least */
    double value[2][WARP_LANES];

    for (int reg = 0; reg < fragment->count; reg++) {
        for (int i = 0; i < each; i++) {
            for (int lane = 0; lane < WARP_LANES; lane++) {
                int at = insn->op == OP_MMA ? mma_place(fragment, lane, reg, i)
                                            : wmma_first(fragment, reg, i) + lane;
                value[i][lane] = matrix->value[at];
            }
        }
        write_register(warp, insn, fragment->type, insn->args[fragment->first + reg], value);
    }
}

/* In the order of k, whatever the shape is. */
static void multiply(struct matrix *sum, const struct matrix *a, const struct matrix *b)
{
    for (int row = 0; row < a->rows; row++) {
        double *restrict to = sum->value + (size_t)(row * sum->columns);
        for (int k = 0; k < a->columns; k++) {
            double factor = a->value[row * a->columns + k];
            const double *from = b->value + (size_t)(k * b->columns);
            for (int column = 0; column < b->columns; column++) {
                to[column] += factor * from[column];
            }
        }
    }
}

static void mma(struct warp *warp, const struct insn *insn, uint32_t mask)
{
    const struct shape *shape = &matrix_shapes[insn->shape];
    int at = insn->dst_count;
    struct fragment a = {FRAGMENT_A, insn->type_a, at, insn->a_count, shape->m, shape->k};
    struct fragment b = {FRAGMENT_B, insn->type_b, at + a.count, insn->b_count, shape->k, shape->n};
    struct fragment c = {FRAGMENT_C,        insn->type2,
                         b.first + b.count, insn->src_count - a.count - b.count,
                         shape->m,          shape->n};
    struct fragment d = {FRAGMENT_D, insn->type, 0, insn->dst_count, shape->m, shape->n};
    struct matrix left;
    struct matrix right;
    struct matrix sum;

    if (!matrix_meets(warp, mask)) {
        return;
    }
    read_fragment(warp, insn, &a, &left);
    read_fragment(warp, insn, &b, &right);
    read_fragment(warp, insn, &c, &sum);
    multiply(&sum, &left, &right);
    write_fragment(warp, insn, &d, &sum);
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

    if (insn->shape == SHAPE_NONE || (insn->op == OP_MMA && !is_mma_shape(insn->shape))) {
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
    default:
        return NULL;
    }
}
