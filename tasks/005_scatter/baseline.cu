/* NCCL's scatter. */
#include "pkb_task.h"

#include <nccl.h>

int pkb_run(struct pkb_ctx *ctx, const struct pkb_params *params, const struct pkb_inputs *in,
            const struct pkb_outputs *out)
{
    return ncclScatter(in->x, out->y, (size_t)(params->M * params->N), PKB_NCCL_T,
                       (int)params->root, pkb_nccl(ctx), ctx->stream);
}
