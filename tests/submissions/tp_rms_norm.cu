/*
 * One kernel: every block sums the squares of its rows and sends the sums to all ranks, by
 * multicast where there is one; when those of the same block of all peers are here, it adds them in
 * the order of the ranks and scales its rows, which are still in the cache. The slots of two calls
 * alternate: who sends for a call has seen all peers at the call before.
 */
#include "pkb_task.h"

#include <stdlib.h>

enum { THREADS = 256, BLOCKS_MAX = 128 };

struct call {
    struct pkb_symm slots, signal;
    const pkb_t *x, *w;
    pkb_t *y;
    int64_t rows, width;
    float eps;
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

/* The sum over the block, for all of its threads. */
static __device__ float sum_block(float sum)
{
    __shared__ float sums[THREADS / 32];
    float total = 0;

    for (int step = 16; step > 0; step /= 2) {
        sum += __shfl_xor_sync(0xffffffff, sum, step);
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) {
        sums[threadIdx.x / 32] = sum;
    }
    __syncthreads();
    for (int warp = 0; warp < THREADS / 32; warp++) {
        total += sums[warp];
    }
    return total;
}

/* This block's sums are at all peers, and theirs are here. */
static __device__ void meet(const struct call &call)
{
    __threadfence_system();
    __syncthreads();
    if (threadIdx.x < call.world) {
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

static __global__ void normalise(struct call call)
{
    for (int64_t row = blockIdx.x; row < call.rows; row += gridDim.x) {
        float squares = 0;
        for (int64_t j = threadIdx.x; j < call.width; j += THREADS) {
            float x = (float)call.x[row * call.width + j];
            squares += x * x;
        }
        squares = sum_block(squares);
        if (threadIdx.x == 0) {
            send(call, row, squares);
        }
    }
    meet(call);
    for (int64_t row = blockIdx.x; row < call.rows; row += gridDim.x) {
        float factor = factor_of(call, row);
        for (int64_t j = threadIdx.x; j < call.width; j += THREADS) {
            float x = (float)call.x[row * call.width + j];
            call.y[row * call.width + j] = (pkb_t)((float)call.w[j] * (x * factor));
        }
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
    int64_t blocks = params->n < BLOCKS_MAX ? params->n : BLOCKS_MAX;
    struct call call = {state->slots, ctx->signal, in->x,         in->w,
                        out->y,       params->n,   params->hl,    (float)params->eps,
                        ctx->rank,    ctx->world,  ++state->epoch};

    normalise<<<(unsigned)blocks, THREADS, 0, ctx->stream>>>(call);
    return (int)cudaGetLastError();
}

void pkb_teardown(struct pkb_ctx *ctx)
{
    free(ctx->user);
}
