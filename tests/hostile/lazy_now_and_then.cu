/* Does nothing in every tenth call after the twentieth. */
static int calls;

int pkb_setup(struct pkb_ctx *ctx, const struct pkb_params *params)
{
    (void)ctx;
    (void)params;
    calls = 0;
    return 0;
}

int pkb_run(struct pkb_ctx *ctx, const struct pkb_params *params, const struct pkb_inputs *in,
            const struct pkb_outputs *out)
{
    bool is_lazy = ++calls > 20 && calls % 10 == 0;

    return is_lazy ? 0 : work(ctx->stream, in->x, out->y, work_count(params));
}
