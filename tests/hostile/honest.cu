/* The work, and nothing else: what the others are held against. */
int pkb_run(struct pkb_ctx *ctx, const struct pkb_params *params, const struct pkb_inputs *in,
            const struct pkb_outputs *out)
{
    return work(ctx->stream, in->x, out->y, work_count(params));
}
