/* The rows' sums of squares, NCCL's all-reduce of them in fp32, and the scaling. */
#include "pkb_task.h"

#include <nccl.h>

enum { THREADS = 256 };

static __global__ void sum_squares(const pkb_t *x, float *sums, int64_t width)
{
    __shared__ float warps[THREADS / 32];
    const pkb_t *row = x + blockIdx.x * width;
    float sum = 0;

    for (int64_t j = threadIdx.x; j < width; j += THREADS) {
        sum += (float)row[j] * (float)row[j];
    }
    for (int step = 16; step > 0; step /= 2) {
        sum += __shfl_xor_sync(0xffffffff, sum, step);
    }
    if (threadIdx.x % 32 == 0) {
        warps[threadIdx.x / 32] = sum;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int warp = 1; warp < THREADS / 32; warp++) {
            sum += warps[warp];
        }
        sums[blockIdx.x] = sum;
    }
}

static __global__ void scale(const pkb_t *x, const pkb_t *w, const float *sums, pkb_t *y,
                             int64_t width, int world, float eps)
{
    float factor = 1 / sqrtf(sums[blockIdx.x] / (float)(world * width) + eps);

    for (int64_t j = threadIdx.x; j < width; j += THREADS) {
        pkb_t normalised = (pkb_t)((float)x[blockIdx.x * width + j] * factor);
        y[blockIdx.x * width + j] = (pkb_t)((float)w[j] * (float)normalised);
    }
}

int pkb_setup(struct pkb_ctx *ctx, const struct pkb_params *params)
{
    return cudaMalloc(&ctx->user, (size_t)params->n * sizeof(float));
}

int pkb_run(struct pkb_ctx *ctx, const struct pkb_params *params, const struct pkb_inputs *in,
            const struct pkb_outputs *out)
{
    float *sums = (float *)ctx->user;

    sum_squares<<<(unsigned)params->n, THREADS, 0, ctx->stream>>>(in->x, sums, params->hl);
    if (cudaGetLastError() != cudaSuccess ||
        ncclAllReduce(sums, sums, (size_t)params->n, ncclFloat32, ncclSum, pkb_nccl(ctx),
                      ctx->stream) != ncclSuccess) {
        return 1;
    }
    scale<<<(unsigned)params->n, THREADS, 0, ctx->stream>>>(in->x, in->w, sums, out->y, params->hl,
                                                            ctx->world, (float)params->eps);
    return (int)cudaGetLastError();
}

void pkb_teardown(struct pkb_ctx *ctx)
{
    cudaFree(ctx->user);
}
