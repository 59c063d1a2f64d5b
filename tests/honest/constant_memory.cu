/* Has its arguments in constant memory, written anew for each call. */
struct arguments {
    const pkb_t *x;
    pkb_t *y;
    size_t count;
};

static __constant__ struct arguments arguments;

static __global__ void copy_as_told()
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < arguments.count;
         i += (size_t)gridDim.x * blockDim.x) {
        arguments.y[i] = arguments.x[i];
    }
}

int pkb_run(struct pkb_ctx *ctx, const struct pkb_params *params, const struct pkb_inputs *in,
            const struct pkb_outputs *out)
{
    struct arguments now = {in->x, out->y, work_count(params)};

    int code = (int)cudaMemcpyToSymbolAsync(arguments, &now, sizeof now, 0, cudaMemcpyHostToDevice,
                                            ctx->stream);
    copy_as_told<<<64, 256, 0, ctx->stream>>>();
    return code != 0 ? code : (int)cudaGetLastError();
}
