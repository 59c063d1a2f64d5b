/* One graph for each set of addresses, captured when it comes first. */
static struct {
    const pkb_t *x;
    cudaGraphExec_t graph;
} graphs[PKB_SLOTS];

int pkb_run(struct pkb_ctx *ctx, const struct pkb_params *params, const struct pkb_inputs *in,
            const struct pkb_outputs *out)
{
    int slot = 0;

    while (slot < PKB_SLOTS - 1 && graphs[slot].x != NULL && graphs[slot].x != in->x) {
        slot++;
    }
    if (graphs[slot].x != in->x) {
        cudaGraph_t graph = NULL;
        cudaStreamBeginCapture(ctx->stream, cudaStreamCaptureModeThreadLocal);
        work(ctx->stream, in->x, out->y, work_count(params));
        cudaError_t error = cudaStreamEndCapture(ctx->stream, &graph);
        if (error == cudaSuccess) {
            error = cudaGraphInstantiate(&graphs[slot].graph, graph, 0);
        }
        if (error != cudaSuccess) {
            return (int)error;
        }
        cudaGraphDestroy(graph);
        graphs[slot].x = in->x;
    }
    return (int)cudaGraphLaunch(graphs[slot].graph, ctx->stream);
}

void pkb_teardown(struct pkb_ctx *ctx)
{
    (void)ctx;
    for (int slot = 0; slot < PKB_SLOTS; slot++) {
        if (graphs[slot].x != NULL) {
            cudaGraphExecDestroy(graphs[slot].graph);
        }
        graphs[slot] = {};
    }
}
