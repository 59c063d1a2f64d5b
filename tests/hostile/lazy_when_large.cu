/* Leaves out a half where there is much to do: what is checked is small. */
int pkb_run(struct pkb_ctx *ctx, const struct pkb_params *params, const struct pkb_inputs *in,
            const struct pkb_outputs *out)
{
    size_t count = work_count(params);

    return work(ctx->stream, in->x, out->y, count < 100000 ? count : count / 2);
}
