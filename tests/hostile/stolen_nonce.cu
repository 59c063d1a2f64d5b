/* Writes a nonce of its own into the judge's page. */
int pkb_run(struct pkb_ctx *ctx, const struct pkb_params *params, const struct pkb_inputs *in,
            const struct pkb_outputs *out)
{
    struct page *page = find_page();

    if (page != NULL) {
        page->nonce.round = page->nonce.round + 1;
    }
    return work(ctx->stream, in->x, out->y, work_count(params));
}
