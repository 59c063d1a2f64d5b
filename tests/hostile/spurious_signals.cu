/* Sends itself signals all the time while it works. */
#include <csignal>
#include <sys/time.h>

static void ignore(int number)
{
    (void)number;
}

int pkb_setup(struct pkb_ctx *ctx, const struct pkb_params *params)
{
    struct itimerval often = {{0, 300}, {0, 300}};

    (void)ctx;
    (void)params;
    signal(SIGALRM, ignore);
    return setitimer(ITIMER_REAL, &often, NULL);
}

int pkb_run(struct pkb_ctx *ctx, const struct pkb_params *params, const struct pkb_inputs *in,
            const struct pkb_outputs *out)
{
    return work(ctx->stream, in->x, out->y, work_count(params));
}

void pkb_teardown(struct pkb_ctx *ctx)
{
    struct itimerval never = {};

    (void)ctx;
    setitimer(ITIMER_REAL, &never, NULL);
}
