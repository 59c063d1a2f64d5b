/*
 * One kernel: every thread rotates a pair of elements and stores both into all ranks' outputs,
 * where they belong in the gathered sequence.
 */
#include "pkb_task.h"

#include <stdlib.h>

enum { THREADS = 256, BLOCKS = 128 };

struct call {
    struct pkb_symm signal;
    const pkb_t *in[2], *cosines, *sines; /* q and k */
    char *out[2];
    int64_t stride_bytes;
    int64_t batch, length, heads, width;
    int rank, world;
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

/* Pair i of q or k: elements d and d + D/2 of a head. */
static __device__ void rotate(const struct call &call, int which, int64_t i)
{
    int64_t half = call.width / 2;
    int64_t d = i % half;
    int64_t head = i / half % call.heads;
    int64_t token = i / half / call.heads;
    int64_t from = (token * call.heads + head) * call.width + d;
    int64_t angle = token * call.width + d;
    int64_t position = token / call.length * call.world * call.length + call.rank * call.length +
                       token % call.length;
    int64_t to = (position * call.heads + head) * call.width + d;
    float low = (float)call.in[which][from];
    float high = (float)call.in[which][from + half];
    pkb_t first = (pkb_t)(low * (float)call.cosines[angle] - high * (float)call.sines[angle]);
    pkb_t second =
        (pkb_t)(high * (float)call.cosines[angle + half] + low * (float)call.sines[angle + half]);

    for (int step = 0; step < call.world; step++) {
        int peer = (call.rank + step) % call.world;
        pkb_t *out = (pkb_t *)(call.out[which] + (peer - call.rank) * call.stride_bytes);
        out[to] = first;
        out[to + half] = second;
    }
}

static __global__ void rotate_gather(struct call call)
{
    int64_t pairs = call.batch * call.length * call.heads * call.width / 2;

    meet(call, call.epoch + 1); /* peers' outputs are free */
    for (int64_t i = blockIdx.x * THREADS + threadIdx.x; i < 2 * pairs; i += BLOCKS * THREADS) {
        rotate(call, i >= pairs, i % pairs);
    }
    meet(call, call.epoch + 2); /* peers' parts are here */
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
    struct call call = {ctx->signal,
                        {in->q, in->k},
                        in->cos_tab,
                        in->sin_tab,
                        {(char *)out->q_out, (char *)out->k_out},
                        ctx->peer_stride_bytes,
                        params->B,
                        params->sl,
                        params->nh,
                        params->D,
                        ctx->rank,
                        ctx->world,
                        *epoch};

    *epoch += 2;
    rotate_gather<<<BLOCKS, THREADS, 0, ctx->stream>>>(call);
    return (int)cudaGetLastError();
}

void pkb_teardown(struct pkb_ctx *ctx)
{
    free(ctx->user);
}
