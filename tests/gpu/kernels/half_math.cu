/* fp16 and bf16 on all values: unary operations, comparisons, packed forms. */
#include "../differential.cuh"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

__global__ void halves(uint16_t *y)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    __half h = __ushort_as_half((unsigned short)i);
    __nv_bfloat16 b = __ushort_as_bfloat16((unsigned short)i);
    uint16_t *out = y + i * 10;
    out[0] = __half_as_ushort(__hneg(h));
    out[1] = __half_as_ushort(__habs(h));
    out[2] = __bfloat16_as_ushort(__hneg(b));
    out[3] = __bfloat16_as_ushort(__habs(b));
    out[4] = __half_as_ushort(hfloor(h));
    out[5] = __half_as_ushort(hrint(h));
    out[6] = (uint16_t)(__hlt(h, __float2half(1.5f)) + 2 * __hge(b, __float2bfloat16(-2.0f)) +
                        4 * __hisnan(h) + 8 * __hgtu(h, h));
    out[7] = __hisnan(h) ? 0 : __half_as_ushort(__hmax(h, __float2half(0.25f)));
    out[8] = __hisnan(b) ? 0 : __bfloat16_as_ushort(__hmin(b, __float2bfloat16(3.0f)));
    out[9] = __hisnan(h) ? 0 : __half_as_ushort(__hadd_sat(h, __float2half(0.125f)));
}

static void test(void)
{
    array<uint16_t> y(65536 * 10);
    halves<<<256, 256>>>(y.device);
    synchronise();
    emit_exact("halves", y);
}
