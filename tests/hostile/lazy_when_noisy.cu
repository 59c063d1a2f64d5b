/* Makes its times noisy, so that they are taken again, and then does nothing. */
static int calls;

int pkb_setup(struct pkb_ctx *ctx, const struct pkb_params *params)
{
    (void)ctx;
    (void)params;
    calls = 0;
    return 0;
}

static __global__ void delay(int turns)
{
    for (int i = 0; i < turns; i++) {
        asm volatile("nanosleep.u32 1000;");
    }
}

int pkb_run(struct pkb_ctx *ctx, const struct pkb_params *params, const struct pkb_inputs *in,
            const struct pkb_outputs *out)
{
    if (++calls > 5 + 50 + 100) {
        return 0;
    }
    if (calls > 55) {
        delay<<<1, 1, 0, ctx->stream>>>(calls * 7919 % 60);
    }
    return work(ctx->stream, in->x, out->y, work_count(params));
}
