/* One warp's mma.sync tiles with fragments loaded by hand: bf16, fp16, tf32, int8, e4m3, e5m2. */
#include "../differential.cuh"

#include <cuda_bf16.h>
#include <cuda_fp8.h>

__global__ void mma_16bit(const uint32_t *a, const uint32_t *b, float *c, int is_bf16)
{
    /* a is [16][16], b is [8][16] (column major), elements of 16 bits, two a word. */
    int group = threadIdx.x / 4, in_group = threadIdx.x % 4;
    uint32_t a0 = a[group * 8 + in_group], a1 = a[(group + 8) * 8 + in_group];
    uint32_t a2 = a[group * 8 + in_group + 4], a3 = a[(group + 8) * 8 + in_group + 4];
    uint32_t b0 = b[group * 8 + in_group], b1 = b[group * 8 + in_group + 4];
    float d0 = 1, d1 = 2, d2 = 3, d3 = 4;

    if (is_bf16) {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, "
                     "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3)
                     : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
    } else {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, "
                     "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3)
                     : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
    }
    c[group * 8 + in_group * 2] = d0;
    c[group * 8 + in_group * 2 + 1] = d1;
    c[(group + 8) * 8 + in_group * 2] = d2;
    c[(group + 8) * 8 + in_group * 2 + 1] = d3;
}

__global__ void mma_tf32(const uint32_t *a, const uint32_t *b, float *c)
{
    /* m16n8k8: a is [16][8], b is [8][8] column major, fp32 words. */
    int group = threadIdx.x / 4, in_group = threadIdx.x % 4;
    uint32_t a0 = a[group * 8 + in_group], a1 = a[(group + 8) * 8 + in_group];
    uint32_t a2 = a[group * 8 + in_group + 4], a3 = a[(group + 8) * 8 + in_group + 4];
    uint32_t b0 = b[group * 8 + in_group], b1 = b[group * 8 + in_group + 4];
    float d0 = 0, d1 = 0, d2 = 0, d3 = 0;

    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, "
                 "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3)
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
    c[group * 8 + in_group * 2] = d0;
    c[group * 8 + in_group * 2 + 1] = d1;
    c[(group + 8) * 8 + in_group * 2] = d2;
    c[(group + 8) * 8 + in_group * 2 + 1] = d3;
}

__global__ void mma_8bit(const uint32_t *a, const uint32_t *b, uint32_t *c, int kind)
{
    /* m16n8k32: a is [16][32], b is [8][32] column major, four elements a word. */
    int group = threadIdx.x / 4, in_group = threadIdx.x % 4;
    uint32_t a0 = a[group * 8 + in_group], a1 = a[(group + 8) * 8 + in_group];
    uint32_t a2 = a[group * 8 + in_group + 4], a3 = a[(group + 8) * 8 + in_group + 4];
    uint32_t b0 = b[group * 8 + in_group], b1 = b[group * 8 + in_group + 4];
    uint32_t d0 = 0, d1 = 0, d2 = 0, d3 = 0;

    if (kind == 0) {
        asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, "
                     "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+r"(d0), "+r"(d1), "+r"(d2), "+r"(d3)
                     : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
    } else {
        float f0 = 0, f1 = 0, f2 = 0, f3 = 0;
        if (kind == 1) {
            asm volatile("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0,%1,%2,%3}, "
                         "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                         : "+f"(f0), "+f"(f1), "+f"(f2), "+f"(f3)
                         : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
        } else {
            asm volatile("mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e5m2.f32 {%0,%1,%2,%3}, "
                         "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                         : "+f"(f0), "+f"(f1), "+f"(f2), "+f"(f3)
                         : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
        }
        d0 = __float_as_uint(f0);
        d1 = __float_as_uint(f1);
        d2 = __float_as_uint(f2);
        d3 = __float_as_uint(f3);
    }
    c[group * 8 + in_group * 2] = d0;
    c[group * 8 + in_group * 2 + 1] = d1;
    c[(group + 8) * 8 + in_group * 2] = d2;
    c[(group + 8) * 8 + in_group * 2 + 1] = d3;
}

template <typename T> static void integers(array<T> &values, int range)
{
    values.fill([range] { return (T)(float)random_int(-range, range); });
}

static void test(void)
{
    array<float> c(128);
    array<__nv_bfloat16> a16(256), b16(128);
    integers(a16, 9);
    integers(b16, 9);
    mma_16bit<<<1, 32>>>((uint32_t *)a16.device, (uint32_t *)b16.device, c.device, 1);
    synchronise();
    emit_exact("bf16", c);

    array<__half> ah(256), bh(128);
    integers(ah, 9);
    integers(bh, 9);
    mma_16bit<<<1, 32>>>((uint32_t *)ah.device, (uint32_t *)bh.device, c.device, 0);
    synchronise();
    emit_exact("fp16", c);

    array<float> a32(128), b32(64);
    integers(a32, 30);
    integers(b32, 30);
    mma_tf32<<<1, 32>>>((uint32_t *)a32.device, (uint32_t *)b32.device, c.device);
    synchronise();
    emit_exact("tf32", c);

    array<uint32_t> words(128);
    array<signed char> a8(512), b8(256);
    a8.fill([] { return random_int(-128, 127); });
    b8.fill([] { return random_int(-128, 127); });
    mma_8bit<<<1, 32>>>((uint32_t *)a8.device, (uint32_t *)b8.device, words.device, 0);
    synchronise();
    emit_exact("int8", words);

    array<__nv_fp8_e4m3> a4(512), b4(256);
    integers(a4, 4);
    integers(b4, 4);
    mma_8bit<<<1, 32>>>((uint32_t *)a4.device, (uint32_t *)b4.device, words.device, 1);
    synchronise();
    emit_exact("e4m3", words);

    array<__nv_fp8_e5m2> a5(512), b5(256);
    integers(a5, 4);
    integers(b5, 4);
    mma_8bit<<<1, 32>>>((uint32_t *)a5.device, (uint32_t *)b5.device, words.device, 2);
    synchronise();
    emit_exact("e5m2", words);
}
