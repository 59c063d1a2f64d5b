/*
 * One kernel: every block multiplies tiles of the own product and stores them into all ranks'
 * outputs. It waits for its peers' block only when its first tile is done.
 */
#include "pkb_task.h"

#include <stdlib.h>

enum { ROWS = 128, COLUMNS = 64, STAGES = 4, THREADS = ROWS * COLUMNS / 32, BLOCKS_MAX = 128 };
enum { PIECE = 16 / sizeof(pkb_t), DEPTH = 4 * PIECE };

/* A factor: row-major, `stride` elements from one row to the next. */
struct factor {
    const pkb_t *data;
    int64_t rows, columns, stride;
};

/* A step's share of both factors in pieces of 16 bytes, each row's in an order of its own, so that
 * eight rows of one column lie in different banks. */
struct stage {
    uint4 a[ROWS][DEPTH / PIECE];
    uint4 b[DEPTH][COLUMNS / PIECE];
};

struct tiles {
    union {
        struct stage stages[STAGES];
        float c[ROWS][COLUMNS + 4]; /* when all steps are done */
    };
};

static __device__ int turn_a(int row, int piece)
{
    return piece ^ (row / 2 % 4);
}

static __device__ int turn_b(int row, int piece)
{
    return piece ^ (row % 8);
}

/* Comes later, with the group of copies that it is in. */
static __device__ void copy_piece(uint4 *to, const pkb_t *from)
{
    asm volatile(
        "cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((uint32_t)__cvta_generic_to_shared(to)),
        "l"(from)
        : "memory");
}

/* PIECE elements of a factor, zero outside of it. */
static __device__ void load_piece(uint4 *to, const struct factor &factor, int64_t row,
                                  int64_t column)
{
    const pkb_t *from = factor.data + row * factor.stride + column;

    if (row < factor.rows && column + PIECE <= factor.columns && (uintptr_t)from % 16 == 0) {
        copy_piece(to, from);
        return;
    }
    for (int i = 0; i < PIECE; i++) {
        ((pkb_t *)to)[i] = row < factor.rows && column + i < factor.columns ? from[i] : (pkb_t)0.0F;
    }
}

#ifdef PKB_DTYPE_FP32

struct sums { /* of 8 rows and 4 columns of each thread */
    float value[8][4];
};

static __device__ void clear(struct sums &sums)
{
    for (int i = 0; i < 32; i++) {
        sums.value[i / 4][i % 4] = 0;
    }
}

static __device__ void multiply(struct sums &sums, const struct stage &stage)
{
    int row = threadIdx.x / (COLUMNS / 4) * 8;
    int column = threadIdx.x % (COLUMNS / 4);

    for (int k = 0; k < DEPTH; k++) {
        float4 b = *(const float4 *)&stage.b[k][turn_b(k, column)];
        for (int i = 0; i < 8; i++) {
            float a = ((const float *)&stage.a[row + i][turn_a(row + i, k / PIECE)])[k % PIECE];
            sums.value[i][0] += a * b.x;
            sums.value[i][1] += a * b.y;
            sums.value[i][2] += a * b.z;
            sums.value[i][3] += a * b.w;
        }
    }
}

static __device__ void store(const struct sums &sums, struct tiles &tiles)
{
    for (int i = 0; i < 32; i++) {
        tiles.c[threadIdx.x / (COLUMNS / 4) * 8 + i / 4][threadIdx.x % (COLUMNS / 4) * 4 + i % 4] =
            sums.value[i / 4][i % 4];
    }
    __syncthreads();
}

#else

struct sums { /* of a 32 x 32 square of each warp: in 2 x 4 products of 16 x 8 */
    float value[2][4][4];
};

static __device__ void clear(struct sums &sums)
{
    for (int i = 0; i < 32; i++) {
        sums.value[i / 16][i / 4 % 4][i % 4] = 0;
    }
}

static __device__ void load_a(uint32_t *a, const uint4 *from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(from))
                 : "memory");
}

static __device__ void load_b(uint32_t *b, const uint4 *from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(from))
                 : "memory");
}

static __device__ void add_square(float *c, const uint32_t *a, const uint32_t *b)
{
#ifdef PKB_DTYPE_BF16
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
#else
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
#endif
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

static __device__ void multiply(struct sums &sums, const struct stage &stage)
{
    int lane = threadIdx.x % 32;
    int row = threadIdx.x / COLUMNS * 32;
    int column = threadIdx.x / 32 % (COLUMNS / 32) * 32;

    for (int k = 0; k < DEPTH; k += 16) {
        uint32_t a[2][4];
        uint32_t b[2][4]; /* of two squares each */
        for (int i = 0; i < 2; i++) {
            int down = row + 16 * i + lane % 16;
            load_a(a[i], &stage.a[down][turn_a(down, k / PIECE + lane / 16)]);
            down = k + lane % 16;
            load_b(b[i], &stage.b[down][turn_b(down, column / PIECE + 2 * i + lane / 16)]);
        }
        for (int i = 0; i < 8; i++) {
            add_square(sums.value[i / 4][i % 4], a[i / 4], &b[i % 4 / 2][i % 2 * 2]);
        }
    }
}

static __device__ void store(const struct sums &sums, struct tiles &tiles)
{
    int lane = threadIdx.x % 32;
    int row = threadIdx.x / COLUMNS * 32 + lane / 4;
    int column = threadIdx.x / 32 % (COLUMNS / 32) * 32 + lane % 4 * 2;

    for (int i = 0; i < 16; i++) { /* two sums each, in two rows of a square */
        const float *pair = &sums.value[i / 8][i / 2 % 4][i % 2 * 2];
        *(float2 *)&tiles.c[row + i / 8 * 16 + i % 2 * 8][column + i / 2 % 4 * 8] =
            make_float2(pair[0], pair[1]);
    }
    __syncthreads();
}

#endif

/* Both factors' share of the step at k, as one group of copies. */
static __device__ void load_stage(struct stage &stage, const struct factor &a, int64_t row,
                                  const struct factor &b, int64_t column, int64_t k)
{
    bool is_whole = row + ROWS <= a.rows && column + COLUMNS <= b.columns &&
                    k + DEPTH <= a.columns && (a.stride % PIECE | b.stride % PIECE) == 0 &&
                    ((uintptr_t)a.data % 16 | (uintptr_t)b.data % 16) == 0;

    for (int i = threadIdx.x; i < ROWS * DEPTH / PIECE; i += THREADS) {
        int piece = i % (DEPTH / PIECE);
        int down = i / (DEPTH / PIECE);
        uint4 *to = &stage.a[down][turn_a(down, piece)];
        if (is_whole) {
            copy_piece(to, a.data + (row + down) * a.stride + k + piece * PIECE);
        } else {
            load_piece(to, a, row + down, k + piece * PIECE);
        }
    }
    for (int i = threadIdx.x; i < DEPTH * COLUMNS / PIECE; i += THREADS) {
        int piece = i % (COLUMNS / PIECE);
        int down = i / (COLUMNS / PIECE);
        uint4 *to = &stage.b[down][turn_b(down, piece)];
        if (is_whole) {
            copy_piece(to, b.data + (k + down) * b.stride + column + piece * PIECE);
        } else {
            load_piece(to, b, k + down, column + piece * PIECE);
        }
    }
}

/* Adds to the tile at (row, column) the product of two factors, STAGES - 1 steps ahead of itself.
 */
static __device__ void add_product(struct sums &sums, struct tiles &tiles, const struct factor &a,
                                   int64_t row, const struct factor &b, int64_t column)
{
    int steps = (int)((a.columns + DEPTH - 1) / DEPTH);

    for (int step = 1 - STAGES; step < steps; step++) {
        int next = step + STAGES - 1;
        if (step >= 0) {
            asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
            __syncthreads();
        }
        if (next < steps) {
            load_stage(tiles.stages[next % STAGES], a, row, b, column, (int64_t)next * DEPTH);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
        if (step >= 0) {
            multiply(sums, tiles.stages[step % STAGES]);
        }
    }
    __syncthreads();
}

/* `count` sums as elements, in one access where there are PIECE and the address allows it. */
static __device__ void store_piece(pkb_t *to, const float *from, int64_t count)
{
    alignas(16) pkb_t piece[PIECE];

    for (int i = 0; i < PIECE; i++) {
        piece[i] = (pkb_t)from[i];
    }
    if (count >= PIECE && (uintptr_t)to % 16 == 0) {
        *(uint4 *)to = *(const uint4 *)piece;
        return;
    }
    for (int i = 0; i < PIECE && i < count; i++) {
        to[i] = piece[i];
    }
}

/* The tile at (row, column) of a row-major matrix. */
static __device__ void store_tile(pkb_t *to, const struct factor &shape, const struct tiles &tiles,
                                  int64_t row, int64_t column)
{
    for (int i = threadIdx.x; i < ROWS * COLUMNS / PIECE; i += THREADS) {
        int across = i % (COLUMNS / PIECE) * PIECE;
        int down = i / (COLUMNS / PIECE);
        if (row + down < shape.rows) {
            store_piece(to + (row + down) * shape.stride + column + across, &tiles.c[down][across],
                        shape.columns - column - across);
        }
    }
}

struct call {
    struct pkb_symm signal;
    const pkb_t *a, *b;
    pkb_t *c[PKB_RANKS_MAX]; /* this rank's columns of every rank's output */
    int64_t m, k, width;
    int rank, world;
    uint32_t epoch;
};

/* The same block of all ranks has come so far. */
static __device__ void meet(const struct call &call, uint32_t epoch)
{
    if (call.world > 1) {
        __threadfence_system();
    }
    __syncthreads();
    if (call.world > 1 && threadIdx.x < call.world) {
        int peer = threadIdx.x;
        uint32_t *theirs =
            (uint32_t *)call.signal.peer[peer] + blockIdx.x * PKB_RANKS_MAX + call.rank;
        uint32_t *mine = (uint32_t *)call.signal.local + blockIdx.x * PKB_RANKS_MAX + peer;
        uint32_t seen;

        asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(theirs), "r"(epoch) : "memory");
        do {
            asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(seen) : "l"(mine) : "memory");
        } while ((int32_t)(seen - epoch) < 0);
    }
    __syncthreads();
}

static __global__ void __launch_bounds__(THREADS, 1024 / THREADS) multiply_store(struct call call)
{
    __shared__ struct tiles tiles;
    int64_t across = (call.width + COLUMNS - 1) / COLUMNS;
    int64_t count = (call.m + ROWS - 1) / ROWS * across;
    struct factor a = {call.a, call.m, call.k, call.k};
    struct factor b = {call.b, call.k, call.width, call.width};
    struct factor c = {NULL, call.m, call.width, call.world * call.width};

    for (int64_t i = blockIdx.x; i < count; i += gridDim.x) {
        struct sums sums;
        clear(sums);
        add_product(sums, tiles, a, i / across * ROWS, b, i % across * COLUMNS);
        store(sums, tiles);
        if (i == blockIdx.x) {
            meet(call, call.epoch + 1); /* peers' outputs are free */
        }
        for (int step = 0; step < call.world; step++) {
            store_tile(call.c[(call.rank + step) % call.world], c, tiles, i / across * ROWS,
                       i % across * COLUMNS);
        }
        __syncthreads();
    }
    meet(call, call.epoch + 2); /* peers' tiles are here */
}

int pkb_setup(struct pkb_ctx *ctx, const struct pkb_params *params)
{
    (void)params;
    ctx->user = calloc(1, sizeof(uint32_t));
    return ctx->user == NULL;
}

int pkb_run(struct pkb_ctx *ctx, const struct pkb_params *params, const struct pkb_inputs *in,
            const struct pkb_outputs *out)
{
    uint32_t *epoch = (uint32_t *)ctx->user;
    int64_t count = ((params->M + ROWS - 1) / ROWS) * ((params->nl + COLUMNS - 1) / COLUMNS);
    struct call call = {};

    call.signal = ctx->signal;
    call.a = in->a;
    call.b = in->b;
    for (int peer = 0; peer < ctx->world; peer++) {
        call.c[peer] = (pkb_t *)((char *)out->c + (peer - ctx->rank) * ctx->peer_stride_bytes) +
                       ctx->rank * params->nl;
    }
    call.m = params->M;
    call.k = params->K;
    call.width = params->nl;
    call.rank = ctx->rank;
    call.world = ctx->world;
    call.epoch = *epoch;
    *epoch += 2;
    multiply_store<<<(unsigned)(count < BLOCKS_MAX ? count : BLOCKS_MAX), THREADS, 0,
                     ctx->stream>>>(call);
    return (int)cudaGetLastError();
}

void pkb_teardown(struct pkb_ctx *ctx)
{
    free(ctx->user);
}
