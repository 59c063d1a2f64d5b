/* All blocks multiplied out where they are, and NCCL's exchange of the fp32 blocks. */
#include "pkb_task.h"

#include <cuda_fp8.h>
#include <nccl.h>

static __global__ void multiply(const pkb_t *y, const pkb_t *s, float *out, int64_t count,
                                int64_t length)
{
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count;
         i += (int64_t)gridDim.x * blockDim.x) {
        out[i] = (float)y[i] * (float)s[i / length];
    }
}

static __global__ void multiply_codes(const uint8_t *y, const float *s, float *out, int64_t count,
                                      int64_t length)
{
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count;
         i += (int64_t)gridDim.x * blockDim.x) {
        out[i] = __half2float(__half(__nv_cvt_fp8_to_halfraw(y[i], __NV_E4M3))) * s[i / length];
    }
}

int pkb_setup(struct pkb_ctx *ctx, const struct pkb_params *params)
{
    return cudaMalloc(&ctx->user, (size_t)(ctx->world * params->M * params->N) * sizeof(float));
}

int pkb_run(struct pkb_ctx *ctx, const struct pkb_params *params, const struct pkb_inputs *in,
            const struct pkb_outputs *out)
{
    float *products = (float *)ctx->user;
    int64_t block = params->M * params->N;
    ncclComm_t comm = pkb_nccl(ctx);

    if (params->fmt == 0) {
        multiply<<<264, 256, 0, ctx->stream>>>(in->y_t, in->s_t, products, ctx->world * block,
                                               params->Q);
    } else {
        multiply_codes<<<264, 256, 0, ctx->stream>>>(in->y_q, in->s_q, products, ctx->world * block,
                                                     params->Q);
    }
    if (cudaGetLastError() != cudaSuccess) {
        return 1;
    }
    ncclGroupStart();
    for (int peer = 0; peer < ctx->world; peer++) {
        ncclSend(products + peer * block, (size_t)block, ncclFloat32, peer, comm, ctx->stream);
        ncclRecv(out->out + peer * block, (size_t)block, ncclFloat32, peer, comm, ctx->stream);
    }
    return ncclGroupEnd();
}

void pkb_teardown(struct pkb_ctx *ctx)
{
    cudaFree(ctx->user);
}
