/* Reads a value back to the host, which decides how the rest is done. */
int pkb_run(struct pkb_ctx *ctx, const struct pkb_params *params, const struct pkb_inputs *in,
            const struct pkb_outputs *out)
{
    pkb_t value;
    size_t half = work_count(params) / 16 * 8;

    cudaMemcpyAsync(&value, in->x, sizeof value, cudaMemcpyDeviceToHost, ctx->stream);
    int code = (int)cudaStreamSynchronize(ctx->stream);
    if (code != 0) {
        return code;
    }
    if ((float)value > 0) {
        return work(ctx->stream, in->x, out->y, work_count(params));
    }
    work(ctx->stream, in->x + half, out->y + half, work_count(params) - half);
    return work(ctx->stream, in->x, out->y, half);
}
