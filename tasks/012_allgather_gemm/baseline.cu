/* NCCL's all-gather of the shards, a kernel that puts them side by side, and cuBLAS. */
#include "pkb_task.h"

#include <cublas_v2.h>
#include <nccl.h>

#include <stdlib.h>

struct state {
    cublasHandle_t blas;
    pkb_t *gathered, *a; /* [W][M, K/W] and [M, K] */
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
    size_t bytes = (size_t)(params->M * params->K) * sizeof(pkb_t);

    ctx->user = state;
    return state == NULL || cublasCreate(&state->blas) ||
           cublasSetMathMode(state->blas, CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION) ||
           cudaMalloc(&state->gathered, bytes) || cudaMalloc(&state->a, bytes);
}

int pkb_run(struct pkb_ctx *ctx, const struct pkb_params *params, const struct pkb_inputs *in,
            const struct pkb_outputs *out)
{
    struct state *state = (struct state *)ctx->user;
    int64_t width = params->K / ctx->world;

    if (ncclAllGather(in->a, state->gathered, (size_t)(params->M * width), PKB_NCCL_T,
                      pkb_nccl(ctx), ctx->stream) != ncclSuccess) {
        return 1;
    }
    interleave<<<264, 256, 0, ctx->stream>>>(state->gathered, state->a, params->M, width,
                                             ctx->world);
    return cudaGetLastError() ||
           multiply(ctx, state->blas, state->a, in->b, out->c, params->M, params->N, params->K);
}

void pkb_teardown(struct pkb_ctx *ctx)
{
    struct state *state = (struct state *)ctx->user;

    cublasDestroy(state->blas);
    cudaFree(state->gathered);
    cudaFree(state->a);
    free(state);
}
