/*
 * NCCL's exchange of the blocks of x that each rank needs, a kernel that puts them side by side, a
 * product by cuBLAS, SiLU, and another product.
 */
#include "pkb_task.h"

#include <cublas_v2.h>
#include <nccl.h>

#include <stdlib.h>

struct state {
    cublasHandle_t blas;
    pkb_t *blocks, *x, *hidden; /* [W][ml, hl], [ml, hw], [ml, F] */
};

static __global__ void interleave(const pkb_t *from, pkb_t *to, int64_t rows, int64_t width,
                                  int world)
{
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < rows * width * world;
         i += (int64_t)gridDim.x * blockDim.x) {
        int64_t row = i / (width * world);
        int64_t source = i / width % world;
        to[i] = from[(source * rows + row) * width + i % width];
    }
}

static __global__ void activate(pkb_t *hidden, int64_t count)
{
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count;
         i += (int64_t)gridDim.x * blockDim.x) {
        float h = (float)hidden[i];
        hidden[i] = (pkb_t)(h / (1 + expf(-h)));
    }
}

/* c = a b, all row-major: c is [m, n] and a is [m, k]. */
static int multiply(struct pkb_ctx *ctx, cublasHandle_t handle, const pkb_t *a, const pkb_t *b,
                    pkb_t *c, int64_t m, int64_t n, int64_t k)
{
    const float one = 1;
    const float zero = 0;

    return cublasSetStream(handle, ctx->stream) ||
           cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, (int)n, (int)m, (int)k, &one, b,
                        PKB_CUDA_T, (int)n, a, PKB_CUDA_T, (int)k, &zero, c, PKB_CUDA_T, (int)n,
                        CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
}

int pkb_setup(struct pkb_ctx *ctx, const struct pkb_params *params)
{
    struct state *state = (struct state *)calloc(1, sizeof(*state));
    size_t bytes = (size_t)(params->ml * params->hw) * sizeof(pkb_t);

    ctx->user = state;
    return state == NULL || cublasCreate(&state->blas) ||
           cublasSetMathMode(state->blas, CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION) ||
           cudaMalloc(&state->blocks, bytes) || cudaMalloc(&state->x, bytes) ||
           cudaMalloc(&state->hidden, (size_t)(params->ml * params->F) * sizeof(pkb_t));
}

static int exchange(struct pkb_ctx *ctx, const pkb_t *x, pkb_t *blocks, int64_t count)
{
    ncclComm_t comm = pkb_nccl(ctx);

    ncclGroupStart();
    for (int peer = 0; peer < ctx->world; peer++) {
        ncclSend(x + peer * count, (size_t)count, PKB_NCCL_T, peer, comm, ctx->stream);
        ncclRecv(blocks + peer * count, (size_t)count, PKB_NCCL_T, peer, comm, ctx->stream);
    }
    return ncclGroupEnd();
}

int pkb_run(struct pkb_ctx *ctx, const struct pkb_params *params, const struct pkb_inputs *in,
            const struct pkb_outputs *out)
{
    struct state *state = (struct state *)ctx->user;

    if (exchange(ctx, in->x, state->blocks, params->ml * params->hl) != 0) {
        return 1;
    }
    interleave<<<264, 256, 0, ctx->stream>>>(state->blocks, state->x, params->ml, params->hl,
                                             ctx->world);
    if (cudaGetLastError() != cudaSuccess ||
        multiply(ctx, state->blas, state->x, in->w1, state->hidden, params->ml, params->F,
                 params->hw) != 0) {
        return 2;
    }
    activate<<<264, 256, 0, ctx->stream>>>(state->hidden, params->ml * params->F);
    return cudaGetLastError() || multiply(ctx, state->blas, state->hidden, in->w2, out->y,
                                          params->ml, params->hw, params->F);
}

void pkb_teardown(struct pkb_ctx *ctx)
{
    struct state *state = (struct state *)ctx->user;

    cublasDestroy(state->blas);
    cudaFree(state->blocks);
    cudaFree(state->x);
    cudaFree(state->hidden);
    free(state);
}
