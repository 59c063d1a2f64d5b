/*
 * The sum of powers in two kernels, NCCL's all-reduce of the one number,
 * and a kernel that scales, without reading anything back to the host.
 */
#include "pkb_task.h"

#include <nccl.h>

enum { THREADS = 256, BLOCKS = 264, TENSORS = 3 };

struct gradients {
    const pkb_t *in[TENSORS];
    pkb_t *out[TENSORS];
    int64_t count[TENSORS];
};

static __device__ float load(const struct gradients &gradients, int tensor, int64_t i)
{
    return (float)gradients.in[tensor][i];
}

static __device__ float sum_block(float sum)
{
    __shared__ float warps[THREADS / 32];

    for (int step = 16; step > 0; step /= 2) {
        sum += __shfl_xor_sync(0xffffffff, sum, step);
    }
    if (threadIdx.x % 32 == 0) {
        warps[threadIdx.x / 32] = sum;
    }
    __syncthreads();
    for (int warp = 1; threadIdx.x == 0 && warp < THREADS / 32; warp++) {
        sum += warps[warp];
    }
    return sum; /* of thread 0 */
}

static __global__ void sum_powers(struct gradients gradients, float *partial, float p)
{
    float sum = 0;

    for (int t = 0; t < TENSORS; t++) {
        for (int64_t i = blockIdx.x * THREADS + threadIdx.x; i < gradients.count[t];
             i += BLOCKS * THREADS) {
            float x = fabsf(load(gradients, t, i));
            sum += p == 2 ? x * x : powf(x, p);
        }
    }
    sum = sum_block(sum);
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = sum;
    }
}

static __global__ void sum_partial(const float *partial, float *total)
{
    float sum = 0;

    for (int i = threadIdx.x; i < BLOCKS; i += THREADS) {
        sum += partial[i];
    }
    sum = sum_block(sum);
    if (threadIdx.x == 0) {
        *total = sum;
    }
}

static __global__ void scale(struct gradients gradients, const float *total, float *total_norm,
                             float max_norm, float p)
{
    float norm = p == 2 ? sqrtf(*total) : powf(*total, 1 / p);
    float factor = norm > max_norm ? max_norm / norm : 1;

    if (blockIdx.x == 0 && threadIdx.x == 0) {
        *total_norm = norm;
    }
    for (int t = 0; t < TENSORS; t++) {
        for (int64_t i = blockIdx.x * THREADS + threadIdx.x; i < gradients.count[t];
             i += BLOCKS * THREADS) {
            gradients.out[t][i] = (pkb_t)(factor * load(gradients, t, i));
        }
    }
}

int pkb_setup(struct pkb_ctx *ctx, const struct pkb_params *params)
{
    (void)params;
    return cudaMalloc(&ctx->user, (BLOCKS + 1) * sizeof(float));
}

int pkb_run(struct pkb_ctx *ctx, const struct pkb_params *params, const struct pkb_inputs *in,
            const struct pkb_outputs *out)
{
    float *total = (float *)ctx->user;
    float p = (float)params->p_norm;
    struct gradients gradients = {{in->g0, in->g1, in->g2},
                                  {out->g0_out, out->g1_out, out->g2_out},
                                  {params->n0, params->n1, params->n2}};

    sum_powers<<<BLOCKS, THREADS, 0, ctx->stream>>>(gradients, total + 1, p);
    sum_partial<<<1, THREADS, 0, ctx->stream>>>(total + 1, total);
    if (cudaGetLastError() != cudaSuccess ||
        ncclAllReduce(total, total, 1, ncclFloat32, ncclSum, pkb_nccl(ctx), ctx->stream) !=
            ncclSuccess) {
        return 1;
    }
    scale<<<BLOCKS, THREADS, 0, ctx->stream>>>(gradients, total, out->total_norm,
                                               (float)params->max_norm, p);
    return (int)cudaGetLastError();
}

void pkb_teardown(struct pkb_ctx *ctx)
{
    cudaFree(ctx->user);
}
