#include "cublas_gemm.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

enum { TILE = 64, DEPTH = 16, PATCH = 4, SIDE = TILE / PATCH };

/* Element i of an array of any type, in the type of the sum. */
template <typename SUM> __device__ SUM load(const void *data, cudaDataType dtype, int64_t i)
{
    switch (dtype) {
    case CUDA_R_32F:
        return (SUM)((const float *)data)[i];
    case CUDA_R_64F:
        return (SUM)((const double *)data)[i];
    case CUDA_R_16F:
        return (SUM)__half2float(((const __half *)data)[i]);
    case CUDA_R_16BF:
        return (SUM)__bfloat162float(((const __nv_bfloat16 *)data)[i]);
    case CUDA_R_8F_E4M3:
        return (SUM)(float)((const __nv_fp8_e4m3 *)data)[i];
    case CUDA_R_8F_E5M2:
        return (SUM)(float)((const __nv_fp8_e5m2 *)data)[i];
    case CUDA_R_8I:
        return (SUM)((const int8_t *)data)[i];
    default:
        return (SUM)((const int32_t *)data)[i];
    }
}

template <typename SUM> __device__ void store(void *data, cudaDataType dtype, int64_t i, SUM value)
{
    switch (dtype) {
    case CUDA_R_32F:
        ((float *)data)[i] = (float)value;
        break;
    case CUDA_R_64F:
        ((double *)data)[i] = (double)value;
        break;
    case CUDA_R_16F:
        ((__half *)data)[i] = __float2half((float)value);
        break;
    case CUDA_R_16BF:
        ((__nv_bfloat16 *)data)[i] = __float2bfloat16((float)value);
        break;
    case CUDA_R_8F_E4M3:
        ((__nv_fp8_e4m3 *)data)[i] = __nv_fp8_e4m3((float)value);
        break;
    case CUDA_R_8F_E5M2:
        ((__nv_fp8_e5m2 *)data)[i] = __nv_fp8_e5m2((float)value);
        break;
    case CUDA_R_8I:
        ((int8_t *)data)[i] = (int8_t)fminf(fmaxf(rintf((float)value), -128), 127);
        break;
    default:
        ((int32_t *)data)[i] = (int32_t)value;
        break;
    }
}

__device__ static void *matrix_data(const gemm_matrix &matrix, int batch, size_t element_bytes)
{
    if (matrix.is_array) {
        return ((void **)matrix.data)[batch];
    }
    return (char *)matrix.data + (int64_t)batch * matrix.batch_stride * (int64_t)element_bytes;
}

__host__ __device__ static size_t element_bytes(cudaDataType dtype)
{
    switch (dtype) {
    case CUDA_R_64F:
        return 8;
    case CUDA_R_32F:
    case CUDA_R_32I:
        return 4;
    case CUDA_R_16F:
    case CUDA_R_16BF:
        return 2;
    case CUDA_R_8I:
    case CUDA_R_8F_E4M3:
    case CUDA_R_8F_E5M2:
        return 1;
    default:
        return 0;
    }
}

template <typename SUM> __device__ SUM scalar_of(const gemm_scalar &scalar, cudaDataType dtype)
{
    return scalar.device != nullptr ? load<SUM>(scalar.device, dtype, 0) : (SUM)scalar.value;
}

template <typename SUM>
__device__ void finish(const gemm_args &args, int batch, int64_t row, int64_t column, SUM sum)
{
    SUM scale = (SUM)1;
    scale *= args.scale_a != nullptr ? (SUM)*args.scale_a : (SUM)1;
    scale *= args.scale_b != nullptr ? (SUM)*args.scale_b : (SUM)1;
    SUM value = scalar_of<SUM>(args.alpha, args.scalar_dtype) * (sum * scale);
    SUM beta = scalar_of<SUM>(args.beta, args.scalar_dtype);

    if (args.c.data != nullptr && beta != (SUM)0) {
        const void *c = matrix_data(args.c, batch, element_bytes(args.c.dtype));
        value += beta * load<SUM>(c, args.c.dtype,
                                  row * args.c.row_stride + column * args.c.column_stride);
    }
    if (args.bias != nullptr) {
        value += load<SUM>(args.bias, args.bias_dtype, batch * args.bias_batch_stride + row);
    }
    if (args.activation == GEMM_RELU) {
        value = value > (SUM)0 ? value : (SUM)0;
    } else if (args.activation == GEMM_GELU) {
        float x = (float)value;
        value = (SUM)(0.5f * x * (1 + tanhf(0.7978845608f * (x + 0.044715f * x * x * x))));
    }
    value *= args.scale_d != nullptr ? (SUM)*args.scale_d : (SUM)1;
    void *d = matrix_data(args.d, batch, element_bytes(args.d.dtype));
    store<SUM>(d, args.d.dtype, row * args.d.row_stride + column * args.d.column_stride, value);
}

/* A block makes a tile of TILE x TILE, a thread PATCH x PATCH of it. */
template <typename SUM> __global__ void __launch_bounds__(SIDE *SIDE) gemm(gemm_args args)
{
    __shared__ SUM left[DEPTH][TILE], right[DEPTH][TILE];
    const void *a = matrix_data(args.a, (int)blockIdx.z, element_bytes(args.a.dtype));
    const void *b = matrix_data(args.b, (int)blockIdx.z, element_bytes(args.b.dtype));
    int64_t first_row = (int64_t)blockIdx.x * TILE, first_column = (int64_t)blockIdx.y * TILE;
    int thread = (int)threadIdx.x, row = thread % SIDE * PATCH, column = thread / SIDE * PATCH;
    SUM sums[PATCH][PATCH] = {};

    for (int64_t k = 0; k < args.k; k += DEPTH) {
        for (int i = thread; i < DEPTH * TILE; i += SIDE * SIDE) {
            int64_t depth = k + i / TILE, m = first_row + i % TILE, n = first_column + i % TILE;
            bool is_inside = depth < args.k;
            left[i / TILE][i % TILE] =
                is_inside && m < args.m
                    ? load<SUM>(a, args.a.dtype,
                                m * args.a.row_stride + depth * args.a.column_stride)
                    : (SUM)0;
            right[i / TILE][i % TILE] =
                is_inside && n < args.n
                    ? load<SUM>(b, args.b.dtype,
                                depth * args.b.row_stride + n * args.b.column_stride)
                    : (SUM)0;
        }
        __syncthreads();
        for (int depth = 0; depth < DEPTH; depth++) {
            for (int i = 0; i < PATCH; i++) {
                for (int j = 0; j < PATCH; j++) {
                    sums[i][j] += left[depth][row + i] * right[depth][column + j];
                }
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < PATCH; i++) {
        for (int j = 0; j < PATCH; j++) {
            if (first_row + row + i < args.m && first_column + column + j < args.n) {
                finish<SUM>(args, (int)blockIdx.z, first_row + row + i, first_column + column + j,
                            sums[i][j]);
            }
        }
    }
}

static bool is_known(const gemm_args *args)
{
    return element_bytes(args->a.dtype) > 0 && element_bytes(args->b.dtype) > 0 &&
           element_bytes(args->d.dtype) > 0 && element_bytes(args->scalar_dtype) > 0 &&
           (args->c.data == nullptr || element_bytes(args->c.dtype) > 0) &&
           (args->bias == nullptr || element_bytes(args->bias_dtype) > 0);
}

extern "C" cudaError_t gemm_launch(const struct gemm_args *args, cudaStream_t stream)
{
    dim3 grid((unsigned)((args->m + TILE - 1) / TILE), (unsigned)((args->n + TILE - 1) / TILE),
              (unsigned)args->batches);

    if (!is_known(args)) {
        return cudaErrorNotSupported;
    }
    if (args->m == 0 || args->n == 0 || args->batches == 0) {
        return cudaSuccess;
    }
    switch (args->sum_dtype) {
    case CUDA_R_32F:
        gemm<float><<<grid, SIDE * SIDE, 0, stream>>>(*args);
        break;
    case CUDA_R_64F:
        gemm<double><<<grid, SIDE * SIDE, 0, stream>>>(*args);
        break;
    case CUDA_R_32I:
        gemm<int32_t><<<grid, SIDE * SIDE, 0, stream>>>(*args);
        break;
    default:
        return cudaErrorNotSupported;
    }
    return cudaGetLastError();
}
