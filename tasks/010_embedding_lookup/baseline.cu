/*
 * As it is done with NCCL: group the requests by owner, exchange how many there are, read the
 * counts back to the host, exchange row numbers, and exchange the rows.
 */
#include "pkb_task.h"

#include <nccl.h>

#include <stdlib.h>

enum { THREADS = 256 };

struct state {
    int64_t *asked, *wanted; /* row numbers: ours by owner, and what the peers ask of us */
    int64_t *counts;         /* [2][W]: sent, received */
    int32_t *order;          /* which request stands at a place of `asked` */
    pkb_t *served, *grouped; /* rows for the peers; ours by owner */
};

/* One block: a stable counting sort in which each thread has a run of requests. */
static __global__ void group(const int64_t *idx, struct state state, int64_t requests, int64_t rows,
                             int world)
{
    __shared__ int64_t place[PKB_RANKS_MAX][THREADS];
    int64_t chunk = (requests + THREADS - 1) / THREADS;
    int64_t begin = min(requests, chunk * threadIdx.x);
    int64_t end = min(requests, begin + chunk);

    for (int owner = 0; owner < world; owner++) {
        place[owner][threadIdx.x] = 0;
    }
    for (int64_t i = begin; i < end; i++) {
        place[idx[i] / rows][threadIdx.x]++;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        int64_t sum = 0;
        for (int owner = 0; owner < world; owner++) {
            int64_t first = sum;
            for (int thread = 0; thread < THREADS; thread++) {
                int64_t count = place[owner][thread];
                place[owner][thread] = sum;
                sum += count;
            }
            state.counts[owner] = sum - first;
        }
    }
    __syncthreads();
    for (int64_t i = begin; i < end; i++) {
        int64_t owner = idx[i] / rows;
        int64_t to = place[owner][threadIdx.x]++;
        state.asked[to] = idx[i] - owner * rows;
        state.order[to] = (int32_t)i;
    }
}

/* Row i of `to` is row from_row[i] of `from`, or row i of `from` goes to row to_row[i]. */
static __global__ void copy_rows(const pkb_t *from, const int64_t *from_row, pkb_t *to,
                                 const int32_t *to_row, int64_t width)
{
    int64_t source = from_row != NULL ? from_row[blockIdx.x] : blockIdx.x;
    int64_t target = to_row != NULL ? to_row[blockIdx.x] : blockIdx.x;

    for (int64_t k = threadIdx.x; k < width; k += blockDim.x) {
        to[target * width + k] = from[source * width + k];
    }
}

static __global__ void write_perm(const int32_t *order, int32_t *perm, int64_t requests)
{
    for (int64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < requests;
         i += (int64_t)gridDim.x * blockDim.x) {
        perm[i] = order != NULL ? order[i] : (int32_t)i;
    }
}

int pkb_setup(struct pkb_ctx *ctx, const struct pkb_params *params)
{
    struct state *state = (struct state *)calloc(1, sizeof(*state));
    size_t requests = (size_t)params->Q;
    size_t row_bytes = (size_t)params->D * sizeof(pkb_t);

    ctx->user = state;
    return state == NULL || cudaMalloc(&state->asked, requests * 8) ||
           cudaMalloc(&state->wanted, ctx->world * requests * 8) ||
           cudaMalloc(&state->counts, 2 * PKB_RANKS_MAX * 8) ||
           cudaMalloc(&state->order, requests * 4) ||
           cudaMalloc(&state->served, ctx->world * requests * row_bytes) ||
           cudaMalloc(&state->grouped, requests * row_bytes);
}

/* What goes to each rank and comes from it, in elements of `size` bytes. */
static int exchange(struct pkb_ctx *ctx, const void *send, const int64_t *sent, void *receive,
                    const int64_t *received, size_t size)
{
    ncclComm_t comm = pkb_nccl(ctx);
    size_t send_at = 0;
    size_t receive_at = 0;

    ncclGroupStart();
    for (int peer = 0; peer < ctx->world; peer++) {
        ncclSend((const char *)send + send_at, (size_t)sent[peer] * size, ncclChar, peer, comm,
                 ctx->stream);
        ncclRecv((char *)receive + receive_at, (size_t)received[peer] * size, ncclChar, peer, comm,
                 ctx->stream);
        send_at += (size_t)sent[peer] * size;
        receive_at += (size_t)received[peer] * size;
    }
    return ncclGroupEnd();
}

int pkb_run(struct pkb_ctx *ctx, const struct pkb_params *params, const struct pkb_inputs *in,
            const struct pkb_outputs *out)
{
    struct state *state = (struct state *)ctx->user;
    const int64_t ones[PKB_RANKS_MAX] = {1, 1, 1, 1, 1, 1, 1, 1};
    int64_t counts[2][PKB_RANKS_MAX];
    size_t row_bytes = (size_t)params->D * sizeof(pkb_t);
    pkb_t *grouped = params->order == 0 ? out->y : state->grouped;
    int64_t total = 0;

    group<<<1, THREADS, 0, ctx->stream>>>(in->idx, *state, params->Q, params->rows, ctx->world);
    if (exchange(ctx, state->counts, ones, state->counts + PKB_RANKS_MAX, ones, 8) != 0 ||
        cudaMemcpyAsync(counts, state->counts, sizeof(counts), cudaMemcpyDeviceToHost,
                        ctx->stream) != cudaSuccess ||
        cudaStreamSynchronize(ctx->stream) != cudaSuccess) {
        return 1;
    }
    for (int peer = 0; peer < ctx->world; peer++) {
        total += counts[1][peer];
    }
    if (exchange(ctx, state->asked, counts[0], state->wanted, counts[1], 8) != 0) {
        return 2;
    }
    if (total > 0) {
        copy_rows<<<(unsigned)total, 128, 0, ctx->stream>>>(in->table, state->wanted, state->served,
                                                            NULL, params->D);
    }
    if (exchange(ctx, state->served, counts[1], grouped, counts[0], row_bytes) != 0) {
        return 3;
    }
    if (params->order != 0) {
        copy_rows<<<(unsigned)params->Q, 128, 0, ctx->stream>>>(grouped, NULL, out->y, state->order,
                                                                params->D);
    }
    write_perm<<<4, THREADS, 0, ctx->stream>>>(params->order == 0 ? state->order : NULL, out->perm,
                                               params->Q);
    return (int)cudaGetLastError();
}

void pkb_teardown(struct pkb_ctx *ctx)
{
    struct state *state = (struct state *)ctx->user;

    cudaFree(state->asked);
    cudaFree(state->wanted);
    cudaFree(state->counts);
    cudaFree(state->order);
    cudaFree(state->served);
    cudaFree(state->grouped);
    free(state);
}
