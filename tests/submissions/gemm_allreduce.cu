/*
 * One kernel: every block multiplies tiles into symmetric memory, as elements of T. When its peers'
 * block has come as far, each rank sums its rows of these tiles, in the switch where there is one,
 * and stores the sums into all ranks' outputs: every sum is made once.
 */
#include "pkb_task.h"

#ifndef PKB_DTYPE_FP32
#include <mma.h>
#endif
#include <stdlib.h>

enum { TILE = 64, DEPTH = 32, THREADS = 256, BLOCKS_MAX = 128, PIECE = 16 / sizeof(pkb_t) };

/* A factor: row-major, `stride` elements from one row to the next. */
struct factor {
    const pkb_t *data;
    int64_t rows, columns, stride;
};

struct tiles {
    alignas(32) pkb_t a[TILE][DEPTH + 8];
    alignas(32) pkb_t b[DEPTH][TILE + 8];
    alignas(32) float c[TILE][TILE + 4];
};

/* PIECE elements of a factor, zero outside of it, in one access where that is possible. */
static __device__ void load_piece(pkb_t *to, const struct factor &factor, int64_t row,
                                  int64_t column)
{
    const pkb_t *from = factor.data + row * factor.stride + column;

    if (row < factor.rows && column + PIECE <= factor.columns && (uintptr_t)from % 16 == 0) {
        *(uint4 *)to = *(const uint4 *)from;
        return;
    }
    for (int i = 0; i < PIECE; i++) {
        to[i] = row < factor.rows && column + i < factor.columns ? from[i] : (pkb_t)0.0F;
    }
}

#ifdef PKB_DTYPE_FP32

struct sums { /* of a 4 x 4 square of each thread */
    float value[4][4];
};

static __device__ void clear(struct sums &sums)
{
    for (int i = 0; i < 16; i++) {
        sums.value[i / 4][i % 4] = 0;
    }
}

static __device__ void multiply(struct sums &sums, const struct tiles &tiles)
{
    int row = threadIdx.x / 16 * 4;
    int column = threadIdx.x % 16 * 4;

    for (int k = 0; k < DEPTH; k++) {
        for (int i = 0; i < 16; i++) {
            sums.value[i / 4][i % 4] += tiles.a[row + i / 4][k] * tiles.b[k][column + i % 4];
        }
    }
}

static __device__ void store(const struct sums &sums, struct tiles &tiles)
{
    for (int i = 0; i < 16; i++) {
        tiles.c[threadIdx.x / 16 * 4 + i / 4][threadIdx.x % 16 * 4 + i % 4] =
            sums.value[i / 4][i % 4];
    }
    __syncthreads();
}

#else

using namespace nvcuda;

struct sums { /* of a 16 x 32 rectangle of each warp */
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> value[2];
};

static __device__ void clear(struct sums &sums)
{
    wmma::fill_fragment(sums.value[0], 0.0F);
    wmma::fill_fragment(sums.value[1], 0.0F);
}

static __device__ void multiply(struct sums &sums, const struct tiles &tiles)
{
    int row = threadIdx.x / 64 * 16;
    int column = threadIdx.x / 32 % 2 * 32;

    for (int k = 0; k < DEPTH; k += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, pkb_t, wmma::row_major> a;
        wmma::load_matrix_sync(a, &tiles.a[row][k], DEPTH + 8);
        for (int i = 0; i < 2; i++) {
            wmma::fragment<wmma::matrix_b, 16, 16, 16, pkb_t, wmma::row_major> b;
            wmma::load_matrix_sync(b, &tiles.b[k][column + 16 * i], TILE + 8);
            wmma::mma_sync(sums.value[i], a, b, sums.value[i]);
        }
    }
}

static __device__ void store(const struct sums &sums, struct tiles &tiles)
{
    int row = threadIdx.x / 64 * 16;
    int column = threadIdx.x / 32 % 2 * 32;

    for (int i = 0; i < 2; i++) {
        wmma::store_matrix_sync(&tiles.c[row][column + 16 * i], sums.value[i], TILE + 4,
                                wmma::mem_row_major);
    }
    __syncthreads();
}

#endif

/* Adds to the tile at (row, column) the product of two factors. */
static __device__ void add_product(struct sums &sums, struct tiles &tiles, const struct factor &a,
                                   int64_t row, const struct factor &b, int64_t column)
{
    for (int64_t k = 0; k < a.columns; k += DEPTH) {
        for (int i = threadIdx.x; i < TILE * DEPTH / PIECE; i += THREADS) {
            int across = i % (DEPTH / PIECE) * PIECE;
            int down = i / (DEPTH / PIECE);
            load_piece(&tiles.a[down][across], a, row + down, k + across);
        }
        for (int i = threadIdx.x; i < TILE * DEPTH / PIECE; i += THREADS) {
            int across = i % (TILE / PIECE) * PIECE;
            int down = i / (TILE / PIECE);
            load_piece(&tiles.b[down][across], b, k + down, column + across);
        }
        __syncthreads();
        multiply(sums, tiles);
        __syncthreads();
    }
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
    for (int i = threadIdx.x; i < TILE * TILE / PIECE; i += THREADS) {
        int across = i % (TILE / PIECE) * PIECE;
        int down = i / (TILE / PIECE);
        if (row + down < shape.rows) {
            store_piece(to + (row + down) * shape.stride + column + across, &tiles.c[down][across],
                        shape.columns - column - across);
        }
    }
}

struct call {
    struct pkb_symm parts, signal;
    const pkb_t *a, *b;
    pkb_t *c[PKB_RANKS_MAX];
    int64_t m, n, k;
    int rank, world;
    uint32_t epoch;
};

struct state {
    struct pkb_symm parts;
    uint32_t epoch;
};

/* The same block of all ranks has come so far. */
static __device__ void meet(const struct call &call, uint32_t epoch)
{
    __threadfence_system();
    __syncthreads();
    if (threadIdx.x < call.world) {
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

/* PIECE sums over all ranks of what lies at `at` in their parts. */
static __device__ void sum_in_switch(const struct call &call, int64_t at, float *sums)
{
    const pkb_t *from = (const pkb_t *)call.parts.multicast + at;

#ifdef PKB_DTYPE_FP32
    asm volatile("multimem.ld_reduce.relaxed.sys.global.add.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(sums[0]), "=f"(sums[1]), "=f"(sums[2]), "=f"(sums[3])
                 : "l"(from)
                 : "memory");
#else
    alignas(16) pkb_t piece[PIECE];
    uint4 *words = (uint4 *)piece;
#ifdef PKB_DTYPE_BF16
    asm volatile("multimem.ld_reduce.relaxed.sys.global.add.acc::f32.v4.bf16x2 {%0, %1, %2, %3}, "
                 "[%4];"
                 : "=r"(words->x), "=r"(words->y), "=r"(words->z), "=r"(words->w)
                 : "l"(from)
                 : "memory");
#else
    asm volatile("multimem.ld_reduce.relaxed.sys.global.add.acc::f32.v4.f16x2 {%0, %1, %2, %3}, "
                 "[%4];"
                 : "=r"(words->x), "=r"(words->y), "=r"(words->z), "=r"(words->w)
                 : "l"(from)
                 : "memory");
#endif
    for (int i = 0; i < PIECE; i++) {
        sums[i] = (float)piece[i];
    }
#endif
}

static __device__ void sum_parts(const struct call &call, int64_t at, float *sums)
{
    if (call.parts.multicast != NULL) {
        sum_in_switch(call, at, sums);
        return;
    }
    for (int i = 0; i < PIECE; i++) {
        sums[i] = 0;
    }
    for (int rank = 0; rank < call.world; rank++) {
        alignas(16) pkb_t piece[PIECE];
        *(uint4 *)piece = *(const uint4 *)((const pkb_t *)call.parts.peer[rank] + at);
        for (int i = 0; i < PIECE; i++) {
            sums[i] += (float)piece[i];
        }
    }
}

/* This rank's rows of the tile at (row, column), whose parts start at `at`. */
static __device__ void reduce_tile(const struct call &call, int64_t at, int64_t row, int64_t column)
{
    int rows = TILE / call.world;

    for (int i = threadIdx.x; i < rows * TILE / PIECE; i += THREADS) {
        int across = i % (TILE / PIECE) * PIECE;
        int down = call.rank * rows + i / (TILE / PIECE);
        int64_t left = call.n - column - across;
        float sums[PIECE];
        if (row + down >= call.m || left <= 0) {
            continue;
        }
        sum_parts(call, at + down * TILE + across, sums);
        for (int step = 0; step < call.world; step++) {
            store_piece(call.c[(call.rank + step) % call.world] + (row + down) * call.n + column +
                            across,
                        sums, left);
        }
    }
}

static __global__ void multiply_reduce(struct call call)
{
    __shared__ struct tiles tiles;
    int64_t across = (call.n + TILE - 1) / TILE;
    int64_t count = (call.m + TILE - 1) / TILE * across;
    struct factor a = {call.a, call.m, call.k, call.k};
    struct factor b = {call.b, call.k, call.n, call.n};
    struct factor part = {NULL, TILE, TILE, TILE};

    for (int64_t i = blockIdx.x; i < count; i += gridDim.x) {
        struct sums sums;
        clear(sums);
        add_product(sums, tiles, a, i / across * TILE, b, i % across * TILE);
        store(sums, tiles);
        store_tile((pkb_t *)call.parts.local + i * TILE * TILE, part, tiles, 0, 0);
        __syncthreads();
    }
    meet(call, call.epoch + 1); /* peers' parts are there, and their outputs are free */
    for (int64_t i = blockIdx.x; i < count; i += gridDim.x) {
        reduce_tile(call, i * TILE * TILE, i / across * TILE, i % across * TILE);
    }
    meet(call, call.epoch + 2); /* peers' sums are here, and the own parts have been read */
}

int pkb_setup(struct pkb_ctx *ctx, const struct pkb_params *params)
{
    struct state *state = (struct state *)calloc(1, sizeof(*state));
    int64_t count = ((params->M + TILE - 1) / TILE) * ((params->N + TILE - 1) / TILE);

    ctx->user = state;
    return state == NULL ? 1
                         : pkb_symm_alloc(ctx, count * TILE * TILE * sizeof(pkb_t), &state->parts);
}

int pkb_run(struct pkb_ctx *ctx, const struct pkb_params *params, const struct pkb_inputs *in,
            const struct pkb_outputs *out)
{
    struct state *state = (struct state *)ctx->user;
    int64_t count = ((params->M + TILE - 1) / TILE) * ((params->N + TILE - 1) / TILE);
    struct call call = {};

    call.parts = state->parts;
    call.signal = ctx->signal;
    call.a = in->a;
    call.b = in->b;
    for (int peer = 0; peer < ctx->world; peer++) {
        call.c[peer] = (pkb_t *)((char *)out->c + (peer - ctx->rank) * ctx->peer_stride_bytes);
    }
    call.m = params->M;
    call.n = params->N;
    call.k = params->K;
    call.rank = ctx->rank;
    call.world = ctx->world;
    call.epoch = state->epoch;
    state->epoch += 2;
    multiply_reduce<<<(unsigned)(count < BLOCKS_MAX ? count : BLOCKS_MAX), THREADS, 0,
                      ctx->stream>>>(call);
    return (int)cudaGetLastError();
}

void pkb_teardown(struct pkb_ctx *ctx)
{
    free(ctx->user);
}
