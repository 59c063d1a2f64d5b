#include "nccl_reduce.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <stdint.h>
#include <string.h>

/* The type that a reduction of T is carried out in. */
template <typename T> struct wide {
    using type = T;
};
template <> struct wide<__half> {
    using type = float;
};
template <> struct wide<__nv_bfloat16> {
    using type = float;
};
template <> struct wide<__nv_fp8_e4m3> {
    using type = float;
};
template <> struct wide<__nv_fp8_e5m2> {
    using type = float;
};

template <typename W> __device__ W combine(W a, W b, int op)
{
    switch (op) {
    case ncclProd:
        return a * b;
    case ncclMax:
        return b > a ? b : a;
    case ncclMin:
        return b < a ? b : a;
    default:
        return a + b;
    }
}

template <typename T> __global__ void reduce(reduce_args args)
{
    using W = typename wide<T>::type;
    size_t step = (size_t)gridDim.x * blockDim.x;
    W factor = (W)1;
    int scaled = args.op == ncclNumOps ? args.scaled_source : -1;

    if (args.op == ncclNumOps) {
        T scalar;
        const unsigned char *from = (const unsigned char *)args.scalar;
        unsigned char *bytes = (unsigned char *)&scalar;
        for (size_t i = 0; i < sizeof scalar; i++) {
            bytes[i] = from != nullptr ? from[i] : args.immediate[i];
        }
        factor = (W)scalar;
    }
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < args.count; i += step) {
        W value = (W)0;
        for (int rank = 0; rank < args.source_count; rank++) {
            W other = (W)((const T *)args.sources[rank])[i];
            if (rank == scaled) {
                other = (W)(T)(other * factor); /* as it travels to other ranks */
            }
            value = rank == 0 ? other : combine(value, other, args.op);
        }
        if (args.op == ncclAvg) {
            value = value / (W)args.source_count;
        }
        ((T *)args.to)[i] = (T)value;
    }
}

extern "C" cudaError_t reduce_launch(const struct reduce_args *args, cudaStream_t stream)
{
    size_t blocks = (args->count + 255) / 256;
    unsigned grid = (unsigned)(blocks < 64 ? blocks : 64);

    if (args->count == 0) {
        return cudaSuccess;
    }
    switch (args->dtype) {
    case ncclInt8:
        reduce<int8_t><<<grid, 256, 0, stream>>>(*args);
        break;
    case ncclUint8:
        reduce<uint8_t><<<grid, 256, 0, stream>>>(*args);
        break;
    case ncclInt32:
        reduce<int32_t><<<grid, 256, 0, stream>>>(*args);
        break;
    case ncclUint32:
        reduce<uint32_t><<<grid, 256, 0, stream>>>(*args);
        break;
    case ncclInt64:
        reduce<int64_t><<<grid, 256, 0, stream>>>(*args);
        break;
    case ncclUint64:
        reduce<uint64_t><<<grid, 256, 0, stream>>>(*args);
        break;
    case ncclFloat16:
        reduce<__half><<<grid, 256, 0, stream>>>(*args);
        break;
    case ncclFloat32:
        reduce<float><<<grid, 256, 0, stream>>>(*args);
        break;
    case ncclFloat64:
        reduce<double><<<grid, 256, 0, stream>>>(*args);
        break;
    case ncclBfloat16:
        reduce<__nv_bfloat16><<<grid, 256, 0, stream>>>(*args);
        break;
    case ncclFloat8e4m3:
        reduce<__nv_fp8_e4m3><<<grid, 256, 0, stream>>>(*args);
        break;
    case ncclFloat8e5m2:
        reduce<__nv_fp8_e5m2><<<grid, 256, 0, stream>>>(*args);
        break;
    default:
        return cudaErrorInvalidValue;
    }
    return cudaGetLastError();
}
