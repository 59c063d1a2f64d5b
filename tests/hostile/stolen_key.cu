/* Writes a key of its own into the judge's page, so that it may begin at once. */
int pkb_run(struct pkb_ctx *ctx, const struct pkb_params *params, const struct pkb_inputs *in,
            const struct pkb_outputs *out)
{
    struct page *page = find_page();

    if (page != NULL) {
        page->key.round = page->key.round + 1;
    }
    return work(ctx->stream, in->x, out->y, work_count(params));
}
