/* Works in memory of its own, and copies the answer. */
int pkb_setup(struct pkb_ctx *ctx, const struct pkb_params *params)
{
    return (int)cudaMalloc(&ctx->user, work_count(params) * sizeof(pkb_t));
}

int pkb_run(struct pkb_ctx *ctx, const struct pkb_params *params, const struct pkb_inputs *in,
            const struct pkb_outputs *out)
{
    int code = work(ctx->stream, in->x, (pkb_t *)ctx->user, work_count(params));

    return code != 0 ? code
                     : (int)cudaMemcpyAsync(out->y, ctx->user, work_count(params) * sizeof(pkb_t),
                                            cudaMemcpyDeviceToDevice, ctx->stream);
}

void pkb_teardown(struct pkb_ctx *ctx)
{
    cudaFree(ctx->user);
}
