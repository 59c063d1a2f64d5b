/*
 * Column sums in two kernels, of row chunks and of the chunks' sums, each rounded to T; then NCCL's
 * all-reduce of both gradients.
 */
#include "pkb_task.h"

#include <nccl.h>

#include <stdlib.h>

enum { COLUMNS = 32, ROWS = 8, CHUNKS = 32 };

/* partial[chunk][0][j] = sum of dy xhat, partial[chunk][1][j] = sum of dy, over the chunk's rows.
 */
static __global__ void sum_rows(const pkb_t *xhat, const pkb_t *dy, float *partial, int64_t rows,
                                int64_t columns)
{
    __shared__ float sums[2][ROWS][COLUMNS];
    int64_t j = (int64_t)blockIdx.x * COLUMNS + threadIdx.x;
    float gamma = 0;
    float beta = 0;

    for (int64_t i = (int64_t)blockIdx.y * ROWS + threadIdx.y; i < rows && j < columns;
         i += (int64_t)gridDim.y * ROWS) {
        float gradient = (float)dy[i * columns + j];
        gamma += gradient * (float)xhat[i * columns + j];
        beta += gradient;
    }
    sums[0][threadIdx.y][threadIdx.x] = gamma;
    sums[1][threadIdx.y][threadIdx.x] = beta;
    __syncthreads();
    if (threadIdx.y < 2 && j < columns) {
        float sum = 0;
        for (int i = 0; i < ROWS; i++) {
            sum += sums[threadIdx.y][i][threadIdx.x];
        }
        partial[((int64_t)blockIdx.y * 2 + threadIdx.y) * columns + j] = sum;
    }
}

static __global__ void sum_chunks(const float *partial, pkb_t *gamma, pkb_t *beta, int64_t columns)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;

    if (i < 2 * columns) {
        for (int chunk = 0; chunk < CHUNKS; chunk++) {
            sum += partial[chunk * 2 * columns + i];
        }
        (i < columns ? gamma : beta)[i % columns] = (pkb_t)sum;
    }
}

int pkb_setup(struct pkb_ctx *ctx, const struct pkb_params *params)
{
    return cudaMalloc(&ctx->user, (size_t)params->H * 2 * CHUNKS * sizeof(float));
}

int pkb_run(struct pkb_ctx *ctx, const struct pkb_params *params, const struct pkb_inputs *in,
            const struct pkb_outputs *out)
{
    float *partial = (float *)ctx->user;
    size_t columns = (size_t)params->H;
    ncclComm_t comm = pkb_nccl(ctx);
    dim3 grid((unsigned)((columns + COLUMNS - 1) / COLUMNS), CHUNKS);

    sum_rows<<<grid, dim3(COLUMNS, ROWS), 0, ctx->stream>>>(in->xhat, in->dy, partial, params->n,
                                                            params->H);
    sum_chunks<<<(unsigned)((2 * columns + 255) / 256), 256, 0, ctx->stream>>>(
        partial, out->d_gamma, out->d_beta, params->H);
    if (cudaGetLastError() != cudaSuccess) {
        return 1;
    }
    ncclGroupStart();
    ncclAllReduce(out->d_gamma, out->d_gamma, columns, PKB_NCCL_T, ncclSum, comm, ctx->stream);
    ncclAllReduce(out->d_beta, out->d_beta, columns, PKB_NCCL_T, ncclSum, comm, ctx->stream);
    return ncclGroupEnd();
}

void pkb_teardown(struct pkb_ctx *ctx)
{
    cudaFree(ctx->user);
}
