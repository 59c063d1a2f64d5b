/* Has a host thread of this call launch the work, and waits for that thread. */
struct job {
    int device, code;
    cudaStream_t stream;
    const pkb_t *x;
    pkb_t *y;
    size_t count;
};

static void *do_job(void *context)
{
    struct job *job = (struct job *)context;

    cudaSetDevice(job->device);
    job->code = work(job->stream, job->x, job->y, job->count);
    return NULL;
}

int pkb_run(struct pkb_ctx *ctx, const struct pkb_params *params, const struct pkb_inputs *in,
            const struct pkb_outputs *out)
{
    struct job job = {ctx->device, 0, ctx->stream, in->x, out->y, work_count(params)};
    pthread_t thread;

    if (pthread_create(&thread, NULL, do_job, &job) != 0) {
        return 1;
    }
    pthread_join(thread, NULL);
    return job.code;
}
