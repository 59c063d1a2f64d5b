/* Blocks of 128 to e4m3 and e5m2 with a scale each, and back. */
#include "../differential.cuh"

#include <cuda_fp8.h>

const int BLOCK = 128, BLOCKS = 12;

template <typename T>
__global__ void quantise(const float *x, T *codes, float *scales, float *back, float largest_code)
{
    __shared__ unsigned largest;
    float value = x[blockIdx.x * BLOCK + threadIdx.x];
    if (threadIdx.x == 0) {
        largest = 0;
    }
    __syncthreads();
    atomicMax(&largest, __float_as_uint(fabsf(value)));
    __syncthreads();
    float scale = fmaxf(__uint_as_float(largest), 1e-12f) / largest_code;
    T code = T(value / scale);
    codes[blockIdx.x * BLOCK + threadIdx.x] = code;
    back[blockIdx.x * BLOCK + threadIdx.x] = (float)code * scale;
    if (threadIdx.x == 0) {
        scales[blockIdx.x] = scale;
    }
}

template <typename T> static void codes(const char *name, float largest_code)
{
    array<float> x(BLOCK * BLOCKS), scales(BLOCKS), back(BLOCK * BLOCKS);
    array<uint8_t> bytes(BLOCK * BLOCKS);
    x.fill(random_normal);
    quantise<<<BLOCKS, BLOCK>>>(x.device, (T *)bytes.device, scales.device, back.device,
                                largest_code);
    synchronise();
    emit_exact(name, bytes);
    emit_exact("scales", scales);
    emit_exact("back", back);
}

static void test(void)
{
    codes<__nv_fp8_e4m3>("e4m3", 448);
    codes<__nv_fp8_e5m2>("e5m2", 57344);
}
