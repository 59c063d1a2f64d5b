/* Has one host thread of its own for all calls, which launches what each call asks for. */
static pthread_t thread;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int device, asked, answered, code;
static bool is_over;
static cudaStream_t stream;
static const pkb_t *from;
static pkb_t *to;
static size_t count;

static void *serve(void *context)
{
    (void)context;
    cudaSetDevice(device);
    pthread_mutex_lock(&mutex);
    while (!is_over) {
        if (answered != asked) {
            code = work(stream, from, to, count);
            answered = asked;
            pthread_cond_broadcast(&changed);
        } else {
            pthread_cond_wait(&changed, &mutex);
        }
    }
    pthread_mutex_unlock(&mutex);
    return NULL;
}

int pkb_setup(struct pkb_ctx *ctx, const struct pkb_params *params)
{
    (void)params;
    device = ctx->device;
    is_over = false;
    return pthread_create(&thread, NULL, serve, NULL);
}

int pkb_run(struct pkb_ctx *ctx, const struct pkb_params *params, const struct pkb_inputs *in,
            const struct pkb_outputs *out)
{
    pthread_mutex_lock(&mutex);
    stream = ctx->stream;
    from = in->x;
    to = out->y;
    count = work_count(params);
    asked++;
    pthread_cond_broadcast(&changed);
    while (answered != asked) {
        pthread_cond_wait(&changed, &mutex);
    }
    pthread_mutex_unlock(&mutex);
    return code;
}

void pkb_teardown(struct pkb_ctx *ctx)
{
    (void)ctx;
    pthread_mutex_lock(&mutex);
    is_over = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
    pthread_join(thread, NULL);
}
