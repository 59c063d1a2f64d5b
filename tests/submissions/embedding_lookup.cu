/*
 * No exchange at all: who looks up reads the rows out of the peers' tables. One block groups the
 * requests by owner; then all blocks copy rows, each block for itself in step with its peers'.
 */
#include "pkb_task.h"

#include <stdlib.h>

enum { THREADS = 256, BLOCKS = 64 };

struct call {
    struct pkb_symm signal;
    const int64_t *idx;
    const pkb_t *table[PKB_RANKS_MAX];
    pkb_t *y;
    int32_t *perm;
    int64_t requests, rows, width;
    int is_grouped;
    int rank, world;
    uint32_t epoch;
};

/* A stable counting sort by one block in which each thread has a run of requests. */
static __global__ void group(struct call call)
{
    __shared__ int place[PKB_RANKS_MAX][THREADS];
    __shared__ int first[PKB_RANKS_MAX];
    int64_t chunk = (call.requests + THREADS - 1) / THREADS;
    int64_t begin = min(call.requests, chunk * threadIdx.x);
    int64_t end = min(call.requests, begin + chunk);

    for (int owner = 0; owner < call.world; owner++) {
        place[owner][threadIdx.x] = 0;
    }
    for (int64_t i = begin; i < end; i++) {
        place[call.idx[i] / call.rows][threadIdx.x]++;
    }
    __syncthreads();
    if (threadIdx.x < call.world) { /* a thread an owner: the places within it, and its size */
        int sum = 0;
        for (int thread = 0; thread < THREADS; thread++) {
            int count = place[threadIdx.x][thread];
            place[threadIdx.x][thread] = sum;
            sum += count;
        }
        first[threadIdx.x] = sum;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        int sum = 0;
        for (int owner = 0; owner < call.world; owner++) {
            int count = first[owner];
            first[owner] = sum;
            sum += count;
        }
    }
    __syncthreads();
    for (int64_t i = begin; i < end; i++) {
        int owner = (int)(call.idx[i] / call.rows);
        call.perm[first[owner] + place[owner][threadIdx.x]++] = (int32_t)i;
    }
}

static __device__ void meet(const struct call &call, uint32_t epoch)
{
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

/* A warp a row, in pieces that the width allows. */
template <typename piece> static __device__ void copy_rows(const struct call &call)
{
    int64_t pieces = call.width * (int64_t)sizeof(pkb_t) / (int64_t)sizeof(piece);
    int lane = threadIdx.x % 32;

    for (int64_t to = blockIdx.x * (THREADS / 32) + threadIdx.x / 32; to < call.requests;
         to += (int64_t)gridDim.x * (THREADS / 32)) {
        int64_t asked = call.idx[call.is_grouped ? call.perm[to] : to];
        int64_t owner = asked / call.rows;
        const piece *from =
            (const piece *)(call.table[owner] + (asked - owner * call.rows) * call.width);
        for (int64_t k = lane; k < pieces; k += 32) {
            ((piece *)(call.y + to * call.width))[k] = from[k];
        }
        if (!call.is_grouped && lane == 0) {
            call.perm[to] = (int32_t)to;
        }
    }
}

static __global__ void look_up(struct call call)
{
    int64_t row_bytes = call.width * (int64_t)sizeof(pkb_t);

    meet(call, call.epoch + 1); /* peers' tables are there */
    if (row_bytes % 16 == 0) {
        copy_rows<uint4>(call);
    } else if (row_bytes % 8 == 0) {
        copy_rows<uint2>(call);
    } else {
        copy_rows<pkb_t>(call);
    }
    meet(call, call.epoch + 2); /* this rank's table has been read */
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
    struct call call = {};

    call.signal = ctx->signal;
    call.idx = in->idx;
    for (int peer = 0; peer < ctx->world; peer++) {
        call.table[peer] =
            (const pkb_t *)((const char *)in->table + (peer - ctx->rank) * ctx->peer_stride_bytes);
    }
    call.y = out->y;
    call.perm = out->perm;
    call.requests = params->Q;
    call.rows = params->rows;
    call.width = params->D;
    call.is_grouped = params->order == 0;
    call.rank = ctx->rank;
    call.world = ctx->world;
    call.epoch = *epoch;
    *epoch += 2;
    if (call.is_grouped) {
        group<<<1, THREADS, 0, ctx->stream>>>(call);
    }
    look_up<<<BLOCKS, THREADS, 0, ctx->stream>>>(call);
    return (int)cudaGetLastError();
}

void pkb_teardown(struct pkb_ctx *ctx)
{
    free(ctx->user);
}
