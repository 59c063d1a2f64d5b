/* Gives the right answer, and changes it a little later. */
static cudaStream_t side;
static cudaEvent_t done;

static __global__ void change(pkb_t *y)
{
    for (int i = 0; i < 200; i++) {
        asm volatile("nanosleep.u32 1000000;");
    }
    y[0] = (pkb_t)12345.0f;
}

int pkb_setup(struct pkb_ctx *ctx, const struct pkb_params *params)
{
    (void)ctx;
    (void)params;
    cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);
    return (int)cudaEventCreateWithFlags(&done, cudaEventDisableTiming);
}

int pkb_run(struct pkb_ctx *ctx, const struct pkb_params *params, const struct pkb_inputs *in,
            const struct pkb_outputs *out)
{
    int code = work(ctx->stream, in->x, out->y, work_count(params));

    cudaEventRecord(done, ctx->stream);
    cudaStreamWaitEvent(side, done, 0);
    change<<<1, 1, 0, side>>>(out->y);
    return code;
}
