/*
 * One kernel: every block sums its part of the gradients and sends the sum to all ranks, by
 * multicast where there is one; when all blocks' sums are here, each block adds them in the same
 * order and scales its part, which may still be in the cache. The slots of two calls alternate: who
 * sends for a call has seen all peers at the call before.
 */
#include "pkb_task.h"

#include <stdlib.h>

enum { THREADS = 256, BLOCKS = 128, TENSORS = 3, PIECE = 16 / sizeof(pkb_t) };

struct call {
    struct pkb_symm slots, signal;
    const pkb_t *in[TENSORS];
    pkb_t *out[TENSORS];
    float *total_norm;
    int64_t count[TENSORS];
    float max_norm, p;
    int rank, world;
    uint32_t epoch;
};

struct state {
    struct pkb_symm slots;
    uint32_t epoch;
};

static __device__ int slot(const struct call &call, int rank, int block)
{
    return ((call.epoch & 1) * PKB_RANKS_MAX + rank) * BLOCKS + block;
}

/* The sum over the block, for all of its threads, always in the same order. */
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

/* Elements [i, i + PIECE) of a gradient, zeros beyond its end. */
static __device__ void load(const struct call &call, int tensor, int64_t i, float *x)
{
    const pkb_t *from = call.in[tensor] + i;
    alignas(16) pkb_t own[PIECE];

    if (i + PIECE <= call.count[tensor] && (uintptr_t)from % 16 == 0) {
        *(uint4 *)own = *(const uint4 *)from;
    } else {
        for (int k = 0; k < PIECE; k++) {
            own[k] = i + k < call.count[tensor] ? from[k] : (pkb_t)0.0F;
        }
    }
    for (int k = 0; k < PIECE; k++) {
        x[k] = (float)own[k];
    }
}

static __device__ void store(const struct call &call, int t, int64_t i, const float *x, float scale)
{
    pkb_t *to = call.out[t] + i;
    alignas(16) pkb_t own[PIECE];

    for (int k = 0; k < PIECE; k++) {
        own[k] = (pkb_t)(scale * x[k]);
    }
    if (i + PIECE <= call.count[t] && (uintptr_t)to % 16 == 0) {
        *(uint4 *)to = *(const uint4 *)own;
        return;
    }
    for (int k = 0; k < PIECE && i + k < call.count[t]; k++) {
        to[k] = own[k];
    }
}

static __device__ float sum_powers(const struct call &call)
{
    int64_t first = (blockIdx.x * THREADS + threadIdx.x) * PIECE;
    float sum = 0;

    for (int t = 0; t < TENSORS; t++) {
#pragma unroll 4
        for (int64_t i = first; i < call.count[t]; i += BLOCKS * THREADS * PIECE) {
            float x[PIECE];
            load(call, t, i, x);
            for (int k = 0; k < PIECE; k++) {
                float y = fabsf(x[k]);
                sum += call.p == 2 ? y * y : call.p == 1 ? y : powf(y, call.p);
            }
        }
    }
    return sum_block(sum);
}

static __device__ void send(const struct call &call, float sum)
{
    int at = slot(call, call.rank, blockIdx.x);

    if (call.slots.multicast != NULL) {
        asm volatile("multimem.st.relaxed.sys.global.f32 [%0], %1;" ::"l"(
                         (float *)call.slots.multicast + at),
                     "f"(sum)
                     : "memory");
    } else {
        for (int peer = 0; peer < call.world; peer++) {
            ((float *)call.slots.peer[peer])[at] = sum;
        }
    }
    __threadfence_system();
    for (int peer = 0; peer < call.world; peer++) {
        uint32_t *theirs =
            (uint32_t *)call.signal.peer[peer] + blockIdx.x * PKB_RANKS_MAX + call.rank;
        asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(theirs), "r"(call.epoch)
                     : "memory");
    }
}

/* The sums of all blocks of all ranks, when they are here. */
static __device__ float sum_all(const struct call &call)
{
    float sum = 0;

    for (int i = threadIdx.x; i < BLOCKS * call.world; i += THREADS) {
        uint32_t *mine =
            (uint32_t *)call.signal.local + i / call.world * PKB_RANKS_MAX + i % call.world;
        uint32_t seen;
        do {
            asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(seen) : "l"(mine) : "memory");
        } while ((int32_t)(seen - call.epoch) < 0);
        sum += __ldcv((const float *)call.slots.local + slot(call, i % call.world, i / call.world));
    }
    return sum_block(sum);
}

static __global__ void clip(struct call call)
{
    float sum = sum_powers(call);

    if (threadIdx.x == 0) {
        send(call, sum);
    }
    sum = sum_all(call);
    float norm = call.p == 2 ? sqrtf(sum) : call.p == 1 ? sum : powf(sum, 1 / call.p);
    float scale = norm > call.max_norm ? call.max_norm / norm : 1;
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        *call.total_norm = norm;
    }
    for (int t = 0; t < TENSORS; t++) {
#pragma unroll 4
        for (int64_t i = (blockIdx.x * THREADS + threadIdx.x) * PIECE; i < call.count[t];
             i += BLOCKS * THREADS * PIECE) {
            float x[PIECE];
            load(call, t, i, x);
            store(call, t, i, x, scale);
        }
    }
}

int pkb_setup(struct pkb_ctx *ctx, const struct pkb_params *params)
{
    struct state *state = (struct state *)calloc(1, sizeof(*state));

    (void)params;
    ctx->user = state;
    return state == NULL
               ? 1
               : pkb_symm_alloc(ctx, 2 * PKB_RANKS_MAX * BLOCKS * sizeof(float), &state->slots);
}

int pkb_run(struct pkb_ctx *ctx, const struct pkb_params *params, const struct pkb_inputs *in,
            const struct pkb_outputs *out)
{
    struct state *state = (struct state *)ctx->user;
    struct call call = {
        state->slots,
        ctx->signal,
        {in->g0, in->g1, in->g2},
        {out->g0_out, out->g1_out, out->g2_out},
        out->total_norm,
        {params->n0, params->n1, params->n2},
        (float)params->max_norm,
        (float)params->p_norm,
        ctx->rank,
        ctx->world,
        ++state->epoch,
    };

    clip<<<BLOCKS, THREADS, 0, ctx->stream>>>(call);
    return (int)cudaGetLastError();
}

void pkb_teardown(struct pkb_ctx *ctx)
{
    free(ctx->user);
}
