/* Rotary embedding with sinf, cosf and powf, fp16 in and out. */
#include "../differential.cuh"

#include <cuda_fp16.h>

const int TOKENS = 30, D = 64;

__global__ void rope(const __half *x, float *y)
{
    int token = blockIdx.x, i = threadIdx.x;
    float angle = (float)token * powf(10000.0f, -2.0f * (float)i / D);
    float c = cosf(angle), s = sinf(angle);
    float a = __half2float(x[token * D + i]), b = __half2float(x[token * D + i + D / 2]);
    y[token * D + i] = a * c - b * s;
    y[token * D + i + D / 2] = b * c + a * s;
}

static void test(void)
{
    array<__half> x(TOKENS * D);
    array<float> y(TOKENS * D);
    x.fill(random_normal);
    rope<<<TOKENS, D / 2>>>(x.device, y.device);
    synchronise();
    emit_bounded("y", y, std::vector<double>(TOKENS * D, 2e-5));
}
