/*
 * The shard transposed, NCCL's all-gather, which then gives the transposed A, and one product by
 * cuBLAS, to which ct is a column-major [M, N].
 */
#include "pkb_task.h"

#include <cublas_v2.h>
#include <nccl.h>

#include <stdlib.h>

enum { TILE = 32, ROWS = 8 };

struct state {
    cublasHandle_t blas;
    pkb_t *transposed, *a; /* [K/W, M] and [K, M] */
};

static __global__ void transpose(const pkb_t *from, pkb_t *to, int64_t rows, int64_t columns)
{
    __shared__ pkb_t tile[TILE][TILE + 1];
    int64_t row = (int64_t)blockIdx.y * TILE;
    int64_t column = (int64_t)blockIdx.x * TILE;

    for (int i = threadIdx.y; i < TILE; i += ROWS) {
        if (row + i < rows && column + threadIdx.x < columns) {
            tile[i][threadIdx.x] = from[(row + i) * columns + column + threadIdx.x];
        }
    }
    __syncthreads();
    for (int i = threadIdx.y; i < TILE; i += ROWS) {
        if (column + i < columns && row + threadIdx.x < rows) {
            to[(column + i) * rows + row + threadIdx.x] = tile[threadIdx.x][i];
        }
    }
}

/* ct, to which cuBLAS says a column-major [m, n], from the transposed a, which is [k, m]. */
static int multiply(struct pkb_ctx *ctx, cublasHandle_t handle, const pkb_t *a, const pkb_t *b,
                    pkb_t *ct, int64_t m, int64_t n, int64_t k)
{
    const float one = 1;
    const float zero = 0;

    return cublasSetStream(handle, ctx->stream) ||
           cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_T, (int)m, (int)n, (int)k, &one, a,
                        PKB_CUDA_T, (int)m, b, PKB_CUDA_T, (int)n, &zero, ct, PKB_CUDA_T, (int)m,
                        CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
}

int pkb_setup(struct pkb_ctx *ctx, const struct pkb_params *params)
{
    struct state *state = (struct state *)calloc(1, sizeof(*state));
    size_t bytes = (size_t)(params->M * params->K) * sizeof(pkb_t);

    ctx->user = state;
    return state == NULL || cublasCreate(&state->blas) ||
           cublasSetMathMode(state->blas, CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION) ||
           cudaMalloc(&state->transposed, bytes / (size_t)ctx->world) ||
           cudaMalloc(&state->a, bytes);
}

int pkb_run(struct pkb_ctx *ctx, const struct pkb_params *params, const struct pkb_inputs *in,
            const struct pkb_outputs *out)
{
    struct state *state = (struct state *)ctx->user;
    int64_t width = params->K / ctx->world;
    dim3 grid((unsigned)((width + TILE - 1) / TILE), (unsigned)((params->M + TILE - 1) / TILE));

    transpose<<<grid, dim3(TILE, ROWS), 0, ctx->stream>>>(in->a, state->transposed, params->M,
                                                          width);
    if (cudaGetLastError() != cudaSuccess ||
        ncclAllGather(state->transposed, state->a, (size_t)(params->M * width), PKB_NCCL_T,
                      pkb_nccl(ctx), ctx->stream) != ncclSuccess) {
        return 1;
    }
    return multiply(ctx, state->blas, state->a, in->b, out->ct, params->M, params->N, params->K);
}

void pkb_teardown(struct pkb_ctx *ctx)
{
    struct state *state = (struct state *)ctx->user;

    cublasDestroy(state->blas);
    cudaFree(state->transposed);
    cudaFree(state->a);
    free(state);
}
