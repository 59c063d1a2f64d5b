/* The approximate instructions, each within the bound of the PTX manual (twice: two devices). */
#include "../differential.cuh"

const int N = 4096, OUT = 9;

__global__ void approximate(const float *x, float *y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = x[i], p = fabsf(v) + 1e-6f, *out = y + i * OUT;
    asm("ex2.approx.f32 %0, %1;" : "=f"(out[0]) : "f"(v));
    asm("lg2.approx.f32 %0, %1;" : "=f"(out[1]) : "f"(p));
    asm("rcp.approx.f32 %0, %1;" : "=f"(out[2]) : "f"(p));
    asm("rsqrt.approx.f32 %0, %1;" : "=f"(out[3]) : "f"(p));
    asm("sqrt.approx.f32 %0, %1;" : "=f"(out[4]) : "f"(p));
    asm("sin.approx.f32 %0, %1;" : "=f"(out[5]) : "f"(v));
    asm("cos.approx.f32 %0, %1;" : "=f"(out[6]) : "f"(v));
    asm("tanh.approx.f32 %0, %1;" : "=f"(out[7]) : "f"(v));
    asm("div.approx.f32 %0, %1, %2;" : "=f"(out[8]) : "f"(v), "f"(p + 1.5f));
}

static void test(void)
{
    array<float> x(N), y(N * OUT);
    std::vector<double> bound(N * OUT);
    x.fill([] { return (float)random_int(-31400, 31400) * 1e-4f; });
    approximate<<<N / 128, 128>>>(x.device, y.device);
    synchronise();
    for (int i = 0; i < N; i++) {
        double v = x.host[i], p = fabs(v) + 1e-6;
        double *b = &bound[i * OUT];
        b[0] = 2 * ldexp(exp2(v), -22);
        b[1] = 2 * ldexp(fmax(fabs(log2(p)), 1), -22);
        b[2] = 2 * ldexp(1 / p, -23);
        b[3] = 2 * ldexp(1 / sqrt(p), -22);
        b[4] = 2 * ldexp(sqrt(p), -22);
        b[5] = 2 * ldexp(1, -20);
        b[6] = 2 * ldexp(1, -20);
        b[7] = 2 * ldexp(fabs(tanh(v)), -10) + 1e-7;
        b[8] = 4 * ldexp(fabs(v) / (p + 1.5), -23) + 1e-40;
    }
    emit_bounded("approximations", y, bound);
}
