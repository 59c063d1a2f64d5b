/* cuBLAS, and NCCL's all-reduce of the product in T. */
#include "pkb_task.h"

#include <cublas_v2.h>
#include <nccl.h>

#include <stdlib.h>

struct state {
    cublasHandle_t blas;
};

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

    (void)params;
    ctx->user = state;
    return state == NULL || cublasCreate(&state->blas) ||
           cublasSetMathMode(state->blas, CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION);
}

int pkb_run(struct pkb_ctx *ctx, const struct pkb_params *params, const struct pkb_inputs *in,
            const struct pkb_outputs *out)
{
    struct state *state = (struct state *)ctx->user;

    return multiply(ctx, state->blas, in->a, in->b, out->c, params->M, params->N, params->K) ||
           ncclAllReduce(out->c, out->c, (size_t)(params->M * params->N), PKB_NCCL_T, ncclSum,
                         pkb_nccl(ctx), ctx->stream);
}

void pkb_teardown(struct pkb_ctx *ctx)
{
    struct state *state = (struct state *)ctx->user;

    cublasDestroy(state->blas);
    free(state);
}
