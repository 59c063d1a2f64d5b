/*
 * One warp, a thread for each peer. Share and epoch go to a peer together, in one store of 64 bits,
 * so that no fence is needed. The slots of two calls alternate: who sends for a call has seen all
 * peers at the call before.
 */
#include "pkb_task.h"

#include <stdlib.h>

struct call {
    struct pkb_symm signal;
    struct pkb_inputs in;
    struct pkb_outputs out;
    int has_gs;
    int rank, world;
    uint32_t epoch;
};

static __device__ uint64_t *slot(const struct call &call, void *pad, int rank)
{
    return (uint64_t *)pad + (call.epoch & 1) * PKB_RANKS_MAX + rank;
}

static __device__ float exchange(const struct call &call, float share, int peer)
{
    uint64_t *theirs = slot(call, call.signal.peer[peer], call.rank);
    uint64_t *mine = slot(call, call.signal.local, peer);
    uint64_t word = (uint64_t)call.epoch << 32 | __float_as_uint(share);

    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(theirs), "l"(word) : "memory");
    do {
        asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(word) : "l"(mine) : "memory");
    } while ((uint32_t)(word >> 32) != call.epoch);
    return __uint_as_float((uint32_t)word);
}

static __global__ void reduce(struct call call)
{
    float tokens = (float)*call.in.n_local;
    float all = (float)*call.in.n_global;
    float share = tokens == 0 ? 0 : *call.in.loss * tokens;
    float theirs = (int)threadIdx.x < call.world ? exchange(call, share, threadIdx.x) : 0;
    float sum = 0;

    for (int rank = 0; rank < call.world; rank++) {
        sum += __shfl_sync(0xffffffff, theirs, rank);
    }
    if (threadIdx.x == 0) {
        *call.out.loss_sum = sum;
        *call.out.normalized_loss = sum / all;
        *call.out.grad_loss =
            *call.in.g_norm * tokens / all + (call.has_gs ? *call.in.g_sum * tokens : 0);
    }
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
    struct call call = {ctx->signal, *in,        *out,    params->has_gs == 1,
                        ctx->rank,   ctx->world, ++*epoch};

    reduce<<<1, 32, 0, ctx->stream>>>(call);
    return (int)cudaGetLastError();
}

void pkb_teardown(struct pkb_ctx *ctx)
{
    free(ctx->user);
}
