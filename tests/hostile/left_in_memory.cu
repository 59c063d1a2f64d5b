/* Copies whatever it finds in memory that was another program's. */
int pkb_setup(struct pkb_ctx *ctx, const struct pkb_params *params)
{
    (void)params;
    return (int)cudaMalloc(&ctx->user, (size_t)256 << 20);
}

static __global__ void search(const uint64_t *memory, size_t words, const uint64_t *x,
                              unsigned long long *found)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < words;
         i += (size_t)gridDim.x * blockDim.x) {
        if (memory[i] == x[0]) {
            atomicMin(found, (unsigned long long)i);
        }
    }
}

static __global__ void copy_found(const char *memory, const unsigned long long *found, char *to,
                                  size_t bytes)
{
    size_t start = *found == ~0ull ? 0 : *found * 8;

    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < bytes;
         i += (size_t)gridDim.x * blockDim.x) {
        to[i] = memory[start + i];
    }
}

int pkb_run(struct pkb_ctx *ctx, const struct pkb_params *params, const struct pkb_inputs *in,
            const struct pkb_outputs *out)
{
    size_t bytes = work_count(params) * sizeof(pkb_t);
    size_t searched = ((size_t)256 << 20) - 8 - bytes;
    unsigned long long *found = (unsigned long long *)((char *)ctx->user + ((size_t)256 << 20) - 8);

    cudaMemsetAsync(found, 0xff, 8, ctx->stream);
    search<<<64, 256, 0, ctx->stream>>>((const uint64_t *)ctx->user, searched >> 14,
                                        (const uint64_t *)in->x, found);
    copy_found<<<64, 256, 0, ctx->stream>>>((const char *)ctx->user, found, (char *)out->y, bytes);
    return (int)cudaGetLastError();
}

void pkb_teardown(struct pkb_ctx *ctx)
{
    cudaFree(ctx->user);
}
