/*
 * One kernel: every warp sums the squares of its rows and sends the sums to all ranks, by multicast
 * where there is one; when those of the same block of all peers are here, it adds them in the order
 * of the ranks and scales its rows, which are still in the cache. The slots of two calls
 * alternate: who sends for a call has seen all peers at the call before.
 */
#include "pkb_task.h"

#include <stdlib.h>

enum { THREADS = 256, WARPS = THREADS / 32, BLOCKS_MAX = 128, PIECE = 16 / sizeof(pkb_t) };

struct call {
    struct pkb_symm slots, signal;
    const pkb_t *x, *w;
    pkb_t *y;
    int64_t rows, width;
    float eps;
    bool is_whole; /* rows are pieces of 16 bytes */
    int rank, world;
    uint32_t epoch;
};

struct state {
    struct pkb_symm slots;
    uint32_t epoch;
};

static __device__ int64_t slot(const struct call &call, int rank, int64_t row)
{
    return ((call.epoch & 1) * PKB_RANKS_MAX + rank) * call.rows + row;
}

static __device__ void send(const struct call &call, int64_t row, float sum)
{
    int64_t at = slot(call, call.rank, row);

    if (call.slots.multicast != NULL) {
        asm volatile("multimem.st.relaxed.sys.global.f32 [%0], %1;" ::"l"(
                         (float *)call.slots.multicast + at),
                     "f"(sum)
                     : "memory");
        return;
    }
    for (int peer = 0; peer < call.world; peer++) {
        ((float *)call.slots.peer[peer])[at] = sum;
    }
}

/* For all lanes of the warp. */
static __device__ float sum_squares(const struct call &call, int64_t row)
{
    const pkb_t *x = call.x + row * call.width;
    int lane = threadIdx.x % 32;
    float sum = 0;

#pragma unroll 4
    for (int64_t j = lane; call.is_whole && j < call.width / PIECE; j += 32) {
        alignas(16) pkb_t piece[PIECE];
        *(uint4 *)piece = ((const uint4 *)x)[j];
        for (int k = 0; k < PIECE; k++) {
            sum += (float)piece[k] * (float)piece[k];
        }
    }
    for (int64_t j = lane; !call.is_whole && j < call.width; j += 32) {
        sum += (float)x[j] * (float)x[j];
    }
    for (int step = 16; step > 0; step /= 2) {
        sum += __shfl_xor_sync(0xffffffff, sum, step);
    }
    return sum;
}

/* This block's sums are at all peers, and theirs are here. */
static __device__ void meet(const struct call &call)
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

        asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(theirs), "r"(call.epoch)
                     : "memory");
        do {
            asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(seen) : "l"(mine) : "memory");
        } while ((int32_t)(seen - call.epoch) < 0);
    }
    __syncthreads();
}

static __device__ float factor_of(const struct call &call, int64_t row)
{
    float squares = 0;

    for (int rank = 0; rank < call.world; rank++) {
        squares += __ldcv((const float *)call.slots.local + slot(call, rank, row));
    }
    return 1 / sqrtf(squares / (float)(call.world * call.width) + call.eps);
}

static __device__ void scale_row(const struct call &call, int64_t row, float factor)
{
    const pkb_t *x = call.x + row * call.width;
    pkb_t *y = call.y + row * call.width;
    int lane = threadIdx.x % 32;

#pragma unroll 4
    for (int64_t j = lane; call.is_whole && j < call.width / PIECE; j += 32) {
        alignas(16) pkb_t piece[PIECE];
        alignas(16) pkb_t weights[PIECE];
        *(uint4 *)piece = ((const uint4 *)x)[j];
        *(uint4 *)weights = ((const uint4 *)call.w)[j];
        for (int k = 0; k < PIECE; k++) {
            piece[k] = (pkb_t)((float)weights[k] * ((float)piece[k] * factor));
        }
        ((uint4 *)y)[j] = *(const uint4 *)piece;
    }
    for (int64_t j = lane; !call.is_whole && j < call.width; j += 32) {
        y[j] = (pkb_t)((float)call.w[j] * ((float)x[j] * factor));
    }
}

static __global__ void normalise(struct call call)
{
    int64_t first = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    int64_t step = (int64_t)gridDim.x * WARPS;

    for (int64_t row = first; row < call.rows; row += step) {
        float squares = sum_squares(call, row);
        if (threadIdx.x % 32 == 0) {
            send(call, row, squares);
        }
    }
    meet(call);
    for (int64_t row = first; row < call.rows; row += step) {
        scale_row(call, row, factor_of(call, row));
    }
}

int pkb_setup(struct pkb_ctx *ctx, const struct pkb_params *params)
{
    struct state *state = (struct state *)calloc(1, sizeof(*state));

    ctx->user = state;
    return state == NULL
               ? 1
               : pkb_symm_alloc(ctx, 2 * PKB_RANKS_MAX * params->n * sizeof(float), &state->slots);
}

int pkb_run(struct pkb_ctx *ctx, const struct pkb_params *params, const struct pkb_inputs *in,
            const struct pkb_outputs *out)
{
    struct state *state = (struct state *)ctx->user;
    int64_t blocks = (params->n + WARPS - 1) / WARPS;
    bool is_whole = params->hl % PIECE == 0 &&
                    ((uintptr_t)in->x % 16 | (uintptr_t)in->w % 16 | (uintptr_t)out->y % 16) == 0;
    struct call call = {state->slots, ctx->signal, in->x,      in->w,
                        out->y,       params->n,   params->hl, (float)params->eps,
                        is_whole,     ctx->rank,   ctx->world, ++state->epoch};

    normalise<<<(unsigned)(blocks < BLOCKS_MAX ? blocks : BLOCKS_MAX), THREADS, 0, ctx->stream>>>(
        call);
    return (int)cudaGetLastError();
}

void pkb_teardown(struct pkb_ctx *ctx)
{
    free(ctx->user);
}
