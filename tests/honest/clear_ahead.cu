/* Clears a workspace on a stream of its own while it waits for nothing, and joins it. */
static cudaStream_t side;
static cudaEvent_t cleared, used;

int pkb_setup(struct pkb_ctx *ctx, const struct pkb_params *params)
{
    cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&cleared, cudaEventDisableTiming);
    cudaEventCreateWithFlags(&used, cudaEventDisableTiming);
    return (int)cudaMalloc(&ctx->user, work_count(params) * sizeof(pkb_t));
}

int pkb_run(struct pkb_ctx *ctx, const struct pkb_params *params, const struct pkb_inputs *in,
            const struct pkb_outputs *out)
{
    size_t bytes = work_count(params) * sizeof(pkb_t);

    cudaStreamWaitEvent(side, used, 0); /* by the call before */
    cudaMemsetAsync(ctx->user, 0, bytes, side);
    cudaEventRecord(cleared, side);
    cudaStreamWaitEvent(ctx->stream, cleared, 0);
    int code = work(ctx->stream, in->x, (pkb_t *)ctx->user, work_count(params));
    if (code == 0) {
        code =
            (int)cudaMemcpyAsync(out->y, ctx->user, bytes, cudaMemcpyDeviceToDevice, ctx->stream);
    }
    return code != 0 ? code : (int)cudaEventRecord(used, ctx->stream);
}

void pkb_teardown(struct pkb_ctx *ctx)
{
    cudaStreamDestroy(side);
    cudaFree(ctx->user);
}
