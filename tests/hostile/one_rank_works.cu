/* Rank 0 does the work of all ranks; the others return at once. */
static __global__ void add_for_all(const char *x, char *y, size_t count, int64_t stride, int world)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count;
         i += (size_t)gridDim.x * blockDim.x) {
        float sum = 0;
        for (int rank = 0; rank < world; rank++) {
            sum += (float)((const pkb_t *)(x + rank * stride))[i];
        }
        for (int rank = 0; rank < world; rank++) {
            ((pkb_t *)(y + rank * stride))[i] = (pkb_t)sum;
        }
    }
}

int pkb_run(struct pkb_ctx *ctx, const struct pkb_params *params, const struct pkb_inputs *in,
            const struct pkb_outputs *out)
{
    if (ctx->rank != 0) {
        return 0;
    }
    add_for_all<<<64, 256, 0, ctx->stream>>>((const char *)in->x, (char *)out->y,
                                             work_count(params), ctx->peer_stride_bytes,
                                             ctx->world);
    return (int)cudaGetLastError();
}
