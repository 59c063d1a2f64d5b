/* cuBLAS, NCCL's all-gather of the products, and a kernel that puts them side by side. */
#include "pkb_task.h"

#include <cublas_v2.h>
#include <nccl.h>

#include <stdlib.h>

struct state {
    cublasHandle_t blas;
    pkb_t *block, *gathered; /* [M, nl] and [W][M, nl] */
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
    size_t bytes = (size_t)(params->M * params->nl) * sizeof(pkb_t);

    ctx->user = state;
    return state == NULL || cublasCreate(&state->blas) ||
           cublasSetMathMode(state->blas, CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION) ||
           cudaMalloc(&state->block, bytes) || cudaMalloc(&state->gathered, ctx->world * bytes);
}

int pkb_run(struct pkb_ctx *ctx, const struct pkb_params *params, const struct pkb_inputs *in,
            const struct pkb_outputs *out)
{
    struct state *state = (struct state *)ctx->user;

    if (multiply(ctx, state->blas, in->a, in->b, state->block, params->M, params->nl, params->K) !=
            0 ||
        ncclAllGather(state->block, state->gathered, (size_t)(params->M * params->nl), PKB_NCCL_T,
                      pkb_nccl(ctx), ctx->stream) != ncclSuccess) {
        return 1;
    }
    interleave<<<264, 256, 0, ctx->stream>>>(state->gathered, out->c, params->M, params->nl,
                                             ctx->world);
    return (int)cudaGetLastError();
}

void pkb_teardown(struct pkb_ctx *ctx)
{
    struct state *state = (struct state *)ctx->user;

    cublasDestroy(state->blas);
    cudaFree(state->block);
    cudaFree(state->gathered);
    free(state);
}
