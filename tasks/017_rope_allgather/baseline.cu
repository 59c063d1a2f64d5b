/* The rotation, NCCL's all-gather of q and k, and a kernel that puts the slices in order. */
#include "pkb_task.h"

#include <nccl.h>

#include <stdlib.h>

struct state {
    pkb_t *rotated, *gathered; /* q and k: [2][B, sl, nh, D], [2][W][B, sl, nh, D] */
};

static __global__ void rotate(const pkb_t *x, const pkb_t *cosines, const pkb_t *sines, pkb_t *out,
                              int64_t count, int64_t heads, int64_t width)
{
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count;
         i += (int64_t)gridDim.x * blockDim.x) {
        int64_t d = i % width;
        int64_t angle = i / width / heads * width + d;
        float other = d < width / 2 ? -(float)x[i + width / 2] : (float)x[i - width / 2];
        pkb_t cosine = (pkb_t)((float)x[i] * (float)cosines[angle]);
        pkb_t sine = (pkb_t)(other * (float)sines[angle]);
        out[i] = (pkb_t)((float)cosine + (float)sine);
    }
}

/* [W][B, slice] to [B, W, slice]. */
static __global__ void reorder(const pkb_t *from, pkb_t *to, int64_t batch, int64_t slice,
                               int world)
{
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < batch * slice * world;
         i += (int64_t)gridDim.x * blockDim.x) {
        int64_t b = i / (slice * world);
        int64_t source = i / slice % world;
        to[i] = from[(source * batch + b) * slice + i % slice];
    }
}

int pkb_setup(struct pkb_ctx *ctx, const struct pkb_params *params)
{
    struct state *state = (struct state *)calloc(1, sizeof(*state));
    size_t bytes = 2 * (size_t)(params->B * params->sl * params->nh * params->D) * sizeof(pkb_t);

    ctx->user = state;
    return state == NULL || cudaMalloc(&state->rotated, bytes) ||
           cudaMalloc(&state->gathered, ctx->world * bytes);
}

int pkb_run(struct pkb_ctx *ctx, const struct pkb_params *params, const struct pkb_inputs *in,
            const struct pkb_outputs *out)
{
    struct state *state = (struct state *)ctx->user;
    int64_t slice = params->sl * params->nh * params->D;
    int64_t count = params->B * slice;
    const pkb_t *inputs[] = {in->q, in->k};
    pkb_t *outputs[] = {out->q_out, out->k_out};

    for (int i = 0; i < 2; i++) {
        pkb_t *gathered = state->gathered + i * ctx->world * count;
        rotate<<<264, 256, 0, ctx->stream>>>(inputs[i], in->cos_tab, in->sin_tab,
                                             state->rotated + i * count, count, params->nh,
                                             params->D);
        if (ncclAllGather(state->rotated + i * count, gathered, (size_t)count, PKB_NCCL_T,
                          pkb_nccl(ctx), ctx->stream) != ncclSuccess) {
            return 1;
        }
        reorder<<<264, 256, 0, ctx->stream>>>(gathered, outputs[i], params->B, slice, ctx->world);
    }
    return (int)cudaGetLastError();
}

void pkb_teardown(struct pkb_ctx *ctx)
{
    struct state *state = (struct state *)ctx->user;

    cudaFree(state->rotated);
    cudaFree(state->gathered);
    free(state);
}
