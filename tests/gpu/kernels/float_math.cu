/* IEEE arithmetic in fp32, fp64, fp16 and bf16: equal bits, with roundings, fma, ftz, min and max.
 */
#include "../differential.cuh"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

const int OUT = 20;

__global__ void math(const float *x, uint32_t *y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float a = x[i * 3], b = x[i * 3 + 1], c = x[i * 3 + 2];
    uint32_t *out = y + i * OUT;
    out[0] = __float_as_uint(__fadd_rn(a, b));
    out[1] = __float_as_uint(__fadd_rz(a, b));
    out[2] = __float_as_uint(__fadd_ru(a, c));
    out[3] = __float_as_uint(__fmul_rd(a, b));
    out[4] = __float_as_uint(__fmaf_rn(a, b, c));
    out[5] = __float_as_uint(__fmaf_rz(a, b, c));
    out[6] = __float_as_uint(__fdiv_rn(a, b));
    out[7] = __float_as_uint(__fsqrt_rn(fabsf(a)));
    out[8] = __float_as_uint(__frcp_rn(b));
    out[9] = __float_as_uint(fminf(a, b)) ^ __float_as_uint(fmaxf(b, c));
    out[10] = __float_as_uint(__saturatef(a));
    out[11] = __half_as_ushort(__hfma(__float2half(a), __float2half(b), __float2half(c)));
    out[12] = __half_as_ushort(__hadd(__float2half(a), __float2half(b)));
    out[13] =
        __bfloat16_as_ushort(__hfma(__float2bfloat16(a), __float2bfloat16(b), __float2bfloat16(c)));
    out[14] = __bfloat16_as_ushort(__hmul(__float2bfloat16(a), __float2bfloat16(b)));
    __half2 h = __hfma2(__floats2half2_rn(a, b), __floats2half2_rn(b, c), __floats2half2_rn(c, a));
    out[15] = (uint32_t)__half_as_ushort(__low2half(h)) << 16 | __half_as_ushort(__high2half(h));
    double d = __fma_rn((double)a, (double)b, (double)c / 3.0);
    out[16] = (uint32_t)__double2hiint(d);
    out[17] = (uint32_t)__double2loint(d);
    out[18] =
        (uint32_t)__double2loint(__dsqrt_rn(fabs(d))) ^ (uint32_t)__double2loint(1.0 / (double)b);
    asm("fma.rn.ftz.f32 %0, %1, %2, %3;"
        : "=r"(out[19])
        : "r"(__float_as_uint(a * 1e-30f)), "r"(__float_as_uint(b * 1e-9f)),
          "r"(__float_as_uint(c * 1e-39f)));
}

static void test(void)
{
    array<float> x(1024 * 3);
    array<uint32_t> y(1024 * OUT);
    x.fill([] { return ldexpf(random_normal(), random_int(-9, 9)); });
    math<<<8, 128>>>(x.device, y.device);
    synchronise();
    emit_exact("math", y);
}
