/* Destroys ctx->stream once its work is on it. */
int pkb_run(struct pkb_ctx *ctx, const struct pkb_params *params, const struct pkb_inputs *in,
            const struct pkb_outputs *out)
{
    int code = work(ctx->stream, in->x, out->y, work_count(params));

    return code != 0 ? code : (int)cudaStreamDestroy(ctx->stream);
}
