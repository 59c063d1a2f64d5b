/* Takes its workspace from the device's pool in every call, and gives it back. */
int pkb_run(struct pkb_ctx *ctx, const struct pkb_params *params, const struct pkb_inputs *in,
            const struct pkb_outputs *out)
{
    size_t bytes = work_count(params) * sizeof(pkb_t);
    pkb_t *workspace = NULL;

    int code = (int)cudaMallocAsync((void **)&workspace, bytes, ctx->stream);
    if (code == 0) {
        code = work(ctx->stream, in->x, workspace, work_count(params));
    }
    if (code == 0) {
        code =
            (int)cudaMemcpyAsync(out->y, workspace, bytes, cudaMemcpyDeviceToDevice, ctx->stream);
    }
    return code != 0 ? code : (int)cudaFreeAsync(workspace, ctx->stream);
}
