/* Leaves out the last element of a thousand. */
int pkb_run(struct pkb_ctx *ctx, const struct pkb_params *params, const struct pkb_inputs *in,
            const struct pkb_outputs *out)
{
    size_t count = work_count(params);

    return work(ctx->stream, in->x, out->y, count - count / 1000 - 1);
}
