/* nccl_reduce.h — the one kernel of the replacement libnccl: an element-wise reduction. */
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#ifdef __cplusplus
extern "C" {
#endif

struct reduce_args {
    const void *sources[8]; /* in rank order */
    int source_count;
    void *to;
    size_t count; /* elements */
    ncclDataType_t dtype;
    int op; /* ncclSum ... ncclAvg, or ncclNumOps for a sum in which one source is scaled: */
    int scaled_source;
    const void *scalar; /* device address of the factor, or NULL: `immediate` holds it */
    unsigned char immediate[8];
};

/* Sums of 16-bit and narrower floats are kept in fp32 and rounded once. */
cudaError_t reduce_launch(const struct reduce_args *args, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
