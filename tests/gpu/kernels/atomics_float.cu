/* Floating-point atomics on small integers, so that the order does not show. */
#include "../differential.cuh"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

__global__ void add(const int *x, float *f, double *d, __half2 *h, __nv_bfloat162 *b, __half *h1)
{
    int v = x[blockIdx.x * blockDim.x + threadIdx.x];
    atomicAdd(&f[v & 3], (float)v);
    atomicAdd(&d[v & 3], (double)v);
    atomicAdd(&h[v & 1], __floats2half2_rn((float)(v & 3), (float)(v & 1)));
    atomicAdd(&b[v & 1], __floats2bfloat162_rn((float)(v & 1), (float)((v >> 1) & 1)));
    atomicAdd(&h1[v & 3], __float2half((float)(v & 1)));
}

static void test(void)
{
    array<int> x(128);
    array<float> f(4);
    array<double> d(4);
    array<uint32_t> h(2), b(2);
    array<uint16_t> h1(4);
    x.fill([] { return random_int(-50, 50); });
    f.fill([] { return 0; });
    d.fill([] { return 0; });
    h.fill([] { return 0; });
    b.fill([] { return 0; });
    h1.fill([] { return 0; });
    add<<<2, 64>>>(x.device, f.device, d.device, (__half2 *)h.device, (__nv_bfloat162 *)b.device,
                   (__half *)h1.device);
    synchronise();
    emit_exact("float", f);
    emit_exact("double", d);
    emit_exact("half2", h);
    emit_exact("bfloat162", b);
    emit_exact("half", h1);
}
