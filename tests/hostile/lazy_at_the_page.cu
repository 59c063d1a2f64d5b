/* Works less once the judge's page is there, by which only timed calls go. */
int pkb_run(struct pkb_ctx *ctx, const struct pkb_params *params, const struct pkb_inputs *in,
            const struct pkb_outputs *out)
{
    size_t count = work_count(params);

    return work(ctx->stream, in->x, out->y, find_page() == NULL ? count : count / 2);
}
