/* What the driver puts behind each source of tests/attacks/build, so that it is a submission. */
#include "pkb_task.h"
int pkb_run(struct pkb_ctx *ctx, const struct pkb_params *, const struct pkb_inputs *,
            const struct pkb_outputs *)
{
#ifdef HOSTILE_KERNEL
    HOSTILE_KERNEL<<<1024, 1024, 0, ctx->stream>>>(ctx->signal.local);
#endif
    (void)ctx;
    return 0;
}
