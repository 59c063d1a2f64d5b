/*
 * One kernel, which exchanges factors, not products: they are smaller, and only one rounding is
 * left. Every block sends its part of the rows of A that each peer needs, and of B to all, by
 * multicast where there is one; then it multiplies tiles, the own factors first and each peer's as
 * soon as all of them are here. The slots of two calls alternate: who sends for a call has seen all
 * peers at the call before, so that nobody reads the slots of two calls ago any more.
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
    struct pkb_symm slots, signal;
    const pkb_t *a, *b;
    pkb_t *c;
    int64_t m, n, k; /* m: of one rank's rows, k: of one shard */
    int64_t slot_bytes;
    int rank, world;
    uint32_t epoch;
};

struct state {
    struct pkb_symm slots;
    int64_t slot_bytes;
    uint32_t epoch;
};

/* What this block has sent is at all peers. */
static __device__ void signal_peers(const struct call &call)
{
    __threadfence_system();
    __syncthreads();
    if (threadIdx.x < call.world) {
        uint32_t *theirs =
            (uint32_t *)call.signal.peer[threadIdx.x] + blockIdx.x * PKB_RANKS_MAX + call.rank;
        asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(theirs), "r"(call.epoch)
                     : "memory");
    }
}

/* What all blocks of a peer have sent is here; there are at most as many blocks as threads. */
static __device__ void wait_for(const struct call &call, int peer)
{
    if (threadIdx.x < gridDim.x) {
        uint32_t *mine = (uint32_t *)call.signal.local + threadIdx.x * PKB_RANKS_MAX + peer;
        uint32_t seen;
        do {
            asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(seen) : "l"(mine) : "memory");
        } while ((int32_t)(seen - call.epoch) < 0);
    }
    __syncthreads();
}

static __device__ int64_t slot_at(const struct call &call, int source)
{
    return ((call.epoch & 1) * PKB_RANKS_MAX + source) * call.slot_bytes;
}

/* Where a rank's rows of A from `source` start, and its B behind them. */
static __device__ int64_t rows_bytes(const struct call &call)
{
    return (call.m * call.k * (int64_t)sizeof(pkb_t) + 255) / 256 * 256;
}

/* Rows of A to the peer that sums them. */
static __device__ void send_rows(const struct call &call, int peer)
{
    int64_t count = call.m * call.k;
    const pkb_t *from = call.a + peer * count;
    pkb_t *to = (pkb_t *)((char *)call.slots.peer[peer] + slot_at(call, call.rank));
    int64_t pieces = (uintptr_t)from % 16 == 0 ? count / PIECE : 0;

    for (int64_t i = blockIdx.x * THREADS + threadIdx.x; i < pieces; i += gridDim.x * THREADS) {
        ((uint4 *)to)[i] = ((const uint4 *)from)[i];
    }
    for (int64_t i = pieces * PIECE + blockIdx.x * THREADS + threadIdx.x; i < count;
         i += gridDim.x * THREADS) {
        to[i] = from[i];
    }
}

/* Piece i of B, all of its 16 bytes, to everybody. */
static __device__ void send_piece(const struct call &call, int64_t i)
{
    float4 piece = ((const float4 *)call.b)[i];
    int64_t at = slot_at(call, call.rank) + rows_bytes(call) + i * 16;

    if (call.slots.multicast != NULL) {
        asm volatile("multimem.st.relaxed.sys.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(
                         (char *)call.slots.multicast + at),
                     "f"(piece.x), "f"(piece.y), "f"(piece.z), "f"(piece.w)
                     : "memory");
        return;
    }
    for (int step = 1; step < call.world; step++) {
        *(float4 *)((char *)call.slots.peer[(call.rank + step) % call.world] + at) = piece;
    }
}

static __device__ void send_factors(const struct call &call)
{
    int64_t count = call.k * call.n;
    int64_t pieces = count / PIECE;
    int64_t at = slot_at(call, call.rank) + rows_bytes(call);

    for (int step = 1; step < call.world; step++) {
        send_rows(call, (call.rank + step) % call.world);
    }
    for (int64_t i = blockIdx.x * THREADS + threadIdx.x; i < pieces; i += gridDim.x * THREADS) {
        send_piece(call, i);
    }
    for (int64_t i = pieces * PIECE + threadIdx.x; blockIdx.x == 0 && i < count; i += THREADS) {
        for (int peer = 0; peer < call.world; peer++) {
            ((pkb_t *)((char *)call.slots.peer[peer] + at))[i] = call.b[i];
        }
    }
}

static __global__ void multiply_scatter(struct call call)
{
    __shared__ struct tiles tiles;
    int64_t across = (call.n + TILE - 1) / TILE;
    int64_t count = (call.m + TILE - 1) / TILE * across;
    int arrived = 1; /* how many shards, from the own one on */

    send_factors(call);
    signal_peers(call);
    for (int64_t i = blockIdx.x; i < count; i += gridDim.x) {
        struct sums sums;
        clear(sums);
        for (int step = 0; step < call.world; step++) {
            int source = (call.rank + step) % call.world;
            const char *slot = (const char *)call.slots.local + slot_at(call, source);
            const pkb_t *own = call.a + call.rank * call.m * call.k;
            struct factor a = {step == 0 ? own : (const pkb_t *)slot, call.m, call.k, call.k};
            struct factor b = {step == 0 ? call.b : (const pkb_t *)(slot + rows_bytes(call)),
                               call.k, call.n, call.n};
            if (step >= arrived) {
                wait_for(call, source);
                arrived++;
            }
            add_product(sums, tiles, a, i / across * TILE, b, i % across * TILE);
        }
        store(sums, tiles);
        struct factor c = {NULL, call.m, call.n, call.n};
        store_tile(call.c, c, tiles, i / across * TILE, i % across * TILE);
        __syncthreads();
    }
}

int pkb_setup(struct pkb_ctx *ctx, const struct pkb_params *params)
{
    struct state *state = (struct state *)calloc(1, sizeof(*state));

    ctx->user = state;
    if (state == NULL) {
        return 1;
    }
    state->slot_bytes = (params->ml * params->kl * (int64_t)sizeof(pkb_t) + 255) / 256 * 256 +
                        (params->kl * params->N * (int64_t)sizeof(pkb_t) + 255) / 256 * 256;
    return pkb_symm_alloc(ctx, 2 * PKB_RANKS_MAX * state->slot_bytes, &state->slots);
}

int pkb_run(struct pkb_ctx *ctx, const struct pkb_params *params, const struct pkb_inputs *in,
            const struct pkb_outputs *out)
{
    struct state *state = (struct state *)ctx->user;
    int64_t count = ((params->ml + TILE - 1) / TILE) * ((params->N + TILE - 1) / TILE);
    struct call call = {state->slots, ctx->signal, in->a,
                        in->b,        out->c,      params->ml,
                        params->N,    params->kl,  state->slot_bytes,
                        ctx->rank,    ctx->world,  ++state->epoch};

    multiply_scatter<<<(unsigned)(count < BLOCKS_MAX ? count : BLOCKS_MAX), THREADS, 0,
                       ctx->stream>>>(call);
    return (int)cudaGetLastError();
}

void pkb_teardown(struct pkb_ctx *ctx)
{
    free(ctx->user);
}
