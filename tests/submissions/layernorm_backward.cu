/*
 * One kernel: every block sums its columns over the rows, sends the sums in fp32 to all ranks, by
 * multicast where there is one, waits for those of the same block of all peers, and adds them in
 * the order of the ranks. The slots of two calls alternate: who sends for a call has seen all peers
 * at the call before, so that nobody reads the slots of two calls ago any more.
 */
#include "pkb_task.h"

#include <stdlib.h>

enum { COLUMNS = 16, ROWS = 32, BLOCKS_MAX = 128 };

struct call {
    struct pkb_symm slots, signal;
    const pkb_t *xhat, *dy;
    pkb_t *gamma, *beta;
    int64_t rows, columns;
    int rank, world;
    uint32_t epoch;
};

struct state {
    struct pkb_symm slots;
    uint32_t epoch;
};

/* Where sum number i (gamma's, then beta's) of a rank is, in a rank's slots. */
static __device__ int64_t slot(const struct call &call, int rank, int64_t i)
{
    return ((call.epoch & 1) * PKB_RANKS_MAX + rank) * 2 * call.columns + i;
}

static __device__ void send(const struct call &call, int64_t i, float sum)
{
    int64_t at = slot(call, call.rank, i);

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

/* This block's sums are at all peers, and theirs are here. */
static __device__ void meet(const struct call &call)
{
    __threadfence_system();
    __syncthreads();
    int peer = threadIdx.y * COLUMNS + threadIdx.x;
    if (peer < call.world) {
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

/* The sums of columns [first, first + COLUMNS) over this rank's rows. */
static __device__ void sum_columns(const struct call &call, int64_t first)
{
    __shared__ float sums[2][ROWS][COLUMNS];
    int64_t j = first + threadIdx.x;
    float gamma = 0;
    float beta = 0;

    for (int64_t i = threadIdx.y; i < call.rows && j < call.columns; i += ROWS) {
        float gradient = (float)call.dy[i * call.columns + j];
        gamma += gradient * (float)call.xhat[i * call.columns + j];
        beta += gradient;
    }
    sums[0][threadIdx.y][threadIdx.x] = gamma;
    sums[1][threadIdx.y][threadIdx.x] = beta;
    __syncthreads();
    if (threadIdx.y < 2 && j < call.columns) {
        float sum = 0;
        for (int i = 0; i < ROWS; i++) {
            sum += sums[threadIdx.y][i][threadIdx.x];
        }
        send(call, threadIdx.y * call.columns + j, sum);
    }
    __syncthreads();
}

static __global__ void backward(struct call call)
{
    int64_t step = (int64_t)gridDim.x * COLUMNS;

    for (int64_t first = (int64_t)blockIdx.x * COLUMNS; first < call.columns; first += step) {
        sum_columns(call, first);
    }
    meet(call);
    for (int64_t first = (int64_t)blockIdx.x * COLUMNS; first < call.columns; first += step) {
        int64_t j = first + threadIdx.x;
        if (threadIdx.y < 2 && j < call.columns) {
            float sum = 0;
            for (int rank = 0; rank < call.world; rank++) {
                sum += __ldcv((float *)call.slots.local +
                              slot(call, rank, threadIdx.y * call.columns + j));
            }
            (threadIdx.y == 0 ? call.gamma : call.beta)[j] = (pkb_t)sum;
        }
    }
}

int pkb_setup(struct pkb_ctx *ctx, const struct pkb_params *params)
{
    struct state *state = (struct state *)calloc(1, sizeof(*state));

    ctx->user = state;
    return state == NULL ? 1
                         : pkb_symm_alloc(ctx, 2 * PKB_RANKS_MAX * 2 * params->H * sizeof(float),
                                          &state->slots);
}

int pkb_run(struct pkb_ctx *ctx, const struct pkb_params *params, const struct pkb_inputs *in,
            const struct pkb_outputs *out)
{
    struct state *state = (struct state *)ctx->user;
    int64_t blocks = (params->H + COLUMNS - 1) / COLUMNS;
    struct call call = {state->slots, ctx->signal, in->xhat,      in->dy,
                        out->d_gamma, out->d_beta, params->n,     params->H,
                        ctx->rank,    ctx->world,  ++state->epoch};

    backward<<<(unsigned)(blocks < BLOCKS_MAX ? blocks : BLOCKS_MAX), dim3(COLUMNS, ROWS), 0,
               ctx->stream>>>(call);
    return (int)cudaGetLastError();
}

void pkb_teardown(struct pkb_ctx *ctx)
{
    free(ctx->user);
}
