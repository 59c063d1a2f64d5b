/* The codes and scales of the own rows, and NCCL's all-gather of both, in place. */
#include "pkb_task.h"

#include <cuda_fp8.h>
#include <nccl.h>

enum { THREADS = 256, WARPS = THREADS / 32 };

/* A warp a block. */
static __global__ void quantise(const pkb_t *x, uint8_t *y, float *scales, int64_t blocks,
                                int64_t length)
{
    int64_t block = (int64_t)blockIdx.x * WARPS + threadIdx.x / 32;
    float largest = 0;

    if (block >= blocks) {
        return;
    }
    for (int64_t i = threadIdx.x % 32; i < length; i += 32) {
        largest = fmaxf(largest, fabsf((float)x[block * length + i]));
    }
    for (int step = 16; step > 0; step /= 2) {
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffff, largest, step));
    }
    float scale = largest / 448.0F;
    for (int64_t i = threadIdx.x % 32; i < length; i += 32) {
        float quotient = (float)x[block * length + i] / (scale == 0 ? 1 : scale);
        y[block * length + i] = __nv_cvt_float_to_fp8(quotient, __NV_SATFINITE, __NV_E4M3);
    }
    if (threadIdx.x % 32 == 0) {
        scales[block] = scale;
    }
}

int pkb_run(struct pkb_ctx *ctx, const struct pkb_params *params, const struct pkb_inputs *in,
            const struct pkb_outputs *out)
{
    int64_t elements = params->M * params->N;
    int64_t blocks = elements / params->Q;
    uint8_t *y = out->y + ctx->rank * elements;
    float *scales = out->scale + ctx->rank * blocks;
    ncclComm_t comm = pkb_nccl(ctx);

    quantise<<<(unsigned)((blocks + WARPS - 1) / WARPS), THREADS, 0, ctx->stream>>>(
        in->x, y, scales, blocks, params->Q);
    if (cudaGetLastError() != cudaSuccess) {
        return 1;
    }
    ncclGroupStart();
    ncclAllGather(y, out->y, (size_t)elements, ncclUint8, comm, ctx->stream);
    ncclAllGather(scales, out->scale, (size_t)blocks, ncclFloat32, comm, ctx->stream);
    return ncclGroupEnd();
}
