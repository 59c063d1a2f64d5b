/* The own share, NCCL's all-reduce of it, and a kernel for the rest. */
#include "pkb_task.h"

#include <nccl.h>

static __global__ void take_share(struct pkb_inputs in, float *share)
{
    *share = *in.n_local == 0 ? 0 : *in.loss * (float)*in.n_local;
}

static __global__ void finish(struct pkb_inputs in, struct pkb_outputs out, const float *sum,
                              int has_gs)
{
    float tokens = (float)*in.n_local;
    float all = (float)*in.n_global;

    *out.loss_sum = *sum;
    *out.normalized_loss = *sum / all;
    *out.grad_loss = *in.g_norm * tokens / all + (has_gs ? *in.g_sum * tokens : 0);
}

int pkb_setup(struct pkb_ctx *ctx, const struct pkb_params *params)
{
    (void)params;
    return cudaMalloc(&ctx->user, sizeof(float));
}

int pkb_run(struct pkb_ctx *ctx, const struct pkb_params *params, const struct pkb_inputs *in,
            const struct pkb_outputs *out)
{
    float *share = (float *)ctx->user;

    take_share<<<1, 1, 0, ctx->stream>>>(*in, share);
    if (ncclAllReduce(share, share, 1, ncclFloat32, ncclSum, pkb_nccl(ctx), ctx->stream) !=
        ncclSuccess) {
        return 1;
    }
    finish<<<1, 1, 0, ctx->stream>>>(*in, *out, share, params->has_gs == 1);
    return (int)cudaGetLastError();
}

void pkb_teardown(struct pkb_ctx *ctx)
{
    cudaFree(ctx->user);
}
