/* Conversions: all 16-bit patterns up, random and edge floats down, saturation and roundings. */
#include "../differential.cuh"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

__global__ void up(uint32_t *y)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i * 4] = __float_as_uint(__half2float(__ushort_as_half((unsigned short)i)));
    y[i * 4 + 1] = __float_as_uint(__bfloat162float(__ushort_as_bfloat16((unsigned short)i)));
    y[i * 4 + 2] = (uint32_t)__half2int_rz(__ushort_as_half((unsigned short)i));
    y[i * 4 + 3] = __half_as_ushort(__ushort2half_rn((unsigned short)i));
}

__global__ void down(const float *x, uint32_t *y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[i];
    uint32_t *out = y + i * 16;
    out[0] = __half_as_ushort(__float2half_rn(v));
    out[1] = __half_as_ushort(__float2half_rz(v));
    out[2] = __half_as_ushort(__float2half_ru(v));
    out[3] = __half_as_ushort(__float2half_rd(v));
    out[4] = __bfloat16_as_ushort(__float2bfloat16_rn(v));
    out[5] = __bfloat16_as_ushort(__float2bfloat16_rz(v));
    out[6] = (uint32_t)__float2int_rn(v);
    out[7] = (uint32_t)__float2int_rd(v);
    out[8] = __float2uint_rz(v);
    out[9] = (uint32_t)(__float2ll_ru(v) >> 7);
    out[10] = (uint32_t)(__float2ull_rn(v) >> 3);
    out[11] = __nv_cvt_float_to_fp8(v, __NV_SATFINITE, __NV_E4M3);
    out[12] = __nv_cvt_float_to_fp8(v, __NV_SATFINITE, __NV_E5M2);
    out[13] = __float_as_uint(__double2float_rz((double)v * 1.000000119));
    out[14] = __float_as_uint(rintf(v)) ^ __float_as_uint(truncf(v * 3));
    asm("cvt.sat.s8.s32 %0, %1;" : "=r"(out[15]) : "r"((int)v));
}

__global__ void integers(const uint32_t *x, uint32_t *y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    uint32_t v = x[i];
    y[i * 4] = __float_as_uint(__int2float_rn((int)v));
    y[i * 4 + 1] = __float_as_uint(__uint2float_rd(v));
    y[i * 4 + 2] = __float_as_uint(__ll2float_rz((long long)v * -77777));
    y[i * 4 + 3] =
        (uint32_t)(__double_as_longlong(__ull2double_ru((unsigned long long)v << 31)) >> 9);
}

static void test(void)
{
    static const float edges[] = {
        0.0f,   -0.0f,         1.0f,           65504.0f,      65519.9f, 65520.0f,     448.0f,
        464.0f, 465.0f,        57344.0f,       61440.0f,      5.96e-8f, 2.98e-8f,     2.9e-8f,
        1e-40f, 2147483648.0f, -2147483904.0f, 4294967296.0f, 0.5f,     1.5f,         2.5f,
        -0.5f,  INFINITY,      -INFINITY,      9.3e18f,       1.9e19f,  0.0009765625f};
    array<uint32_t> wide(65536 * 4);
    up<<<256, 256>>>(wide.device);
    synchronise();
    emit_exact("up", wide);

    array<float> x(1024);
    array<uint32_t> y(1024 * 16);
    size_t next = 0;
    x.fill([&next] {
        size_t i = next++;
        if (i < sizeof edges / sizeof *edges) {
            return edges[i];
        }
        return ldexpf(random_normal(), random_int(-30, 34));
    });
    down<<<8, 128>>>(x.device, y.device);
    synchronise();
    emit_exact("down", y);

    array<uint32_t> n(1024), f(1024 * 4);
    n.fill(random_word);
    integers<<<8, 128>>>(n.device, f.device);
    synchronise();
    emit_exact("integers", f);
}
